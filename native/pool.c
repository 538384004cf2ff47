/* The worker threads: a list of jobs that anyone may join, without a lock unless it is full. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "job.h"

enum { SLOTS = 64, SPINS = 400 };

/* How long a worker that has just worked looks for more before it sleeps. Waking a thread takes
 * tens of microseconds, more where others use the core, and launches come in rows. */
static const int64_t LINGER_NS = 100000;

/* `gate` is OPEN plus the number of threads that look at `job`; the slot is free at 0, and holds a
 * reference to the job until it is closed and the last visitor has left. */
static const uint64_t OPEN = (uint64_t)1 << 63;
static const uint64_t TAKEN = (uint64_t)1 << 62;

typedef struct {
    _Alignas(64) _Atomic uint64_t gate;
    hetir_job *job;
} slot;

/* A thread works for as long as the token is the one that it was started with. */
typedef struct {
    _Atomic uint32_t token;
    _Atomic(hetir_job *) current;
} worker;

static struct {
    _Atomic int32_t threads; /* 0: not looked at */
    _Atomic int32_t started;
    int32_t workers_started;
    _Atomic int32_t epoch; /* grows with each new job; a futex word */
    _Atomic int32_t sleepers;
    _Atomic int32_t lookers; /* workers about to see a new epoch */
    _Atomic uint64_t open; /* a bit for each open slot */
    slot slots[SLOTS];
    worker workers[MOST_THREADS + 1];
    pthread_mutex_t lock; /* of starting, and of the jobs that wait for a slot */
    _Atomic int32_t crowd;
    edge *first, **last;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

int hetir_runtime_version(void)
{
    return 1;
}

void hetir_sleep(_Atomic int32_t *word, int32_t seen, int64_t timeout_ns)
{
    struct timespec timeout = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, timeout_ns < 0 ? NULL : &timeout, NULL, 0);
}

void hetir_rouse(_Atomic int32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

void hetir_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __asm__ volatile("yield");
#endif
}

static int count_threads(void)
{
    const char *asked = getenv("HETIR_NUM_THREADS");
    cpu_set_t cores;
    if (asked && *asked) {
        char *end;
        long count = strtol(asked, &end, 10);
        return *end || count < 1 || count > MOST_THREADS ? -1 : (int)count;
    }
    if (sched_getaffinity(0, sizeof cores, &cores) != 0)
        return 1;
    return CPU_COUNT(&cores) < MOST_THREADS ? CPU_COUNT(&cores) : MOST_THREADS;
}

int hetir_threads(void)
{
    int32_t threads = atomic_load_explicit(&pool.threads, memory_order_relaxed);
    if (threads == 0) {
        threads = count_threads();
        atomic_store(&pool.threads, threads);
    }
    return threads;
}

/* Gives up a visit; the last visitor of a closed slot drops the slot's reference. */
static void leave(slot *slot)
{
    hetir_job *job = slot->job;
    if (atomic_fetch_sub(&slot->gate, 1) == 1)
        hetir_job_free(job);
}

static int enter(slot *slot)
{
    uint64_t gate = atomic_load(&slot->gate);
    while (gate & OPEN)
        if (atomic_compare_exchange_weak(&slot->gate, &gate, gate + 1))
            return 1;
    return 0;
}

/* A worker that looks has left `lookers` before it last compares the epoch and sleeps. */
static void wake(int count)
{
    atomic_fetch_add(&pool.epoch, 1);
    if (atomic_load(&pool.lookers) < count && atomic_load(&pool.sleepers) > 0)
        hetir_rouse(&pool.epoch, count);
}

/* Waits for a new epoch: `nanoseconds` awake, then asleep. */
static void look_out(int32_t seen, int64_t nanoseconds)
{
    int64_t end = hetir_now() + nanoseconds;
    atomic_fetch_add(&pool.lookers, 1);
    do
        for (int i = 0; i < SPINS / 8 && atomic_load(&pool.epoch) == seen; i++)
            hetir_pause();
    while (atomic_load(&pool.epoch) == seen && hetir_now() < end);
    atomic_fetch_sub(&pool.lookers, 1);
    atomic_fetch_add(&pool.sleepers, 1);
    if (atomic_load(&pool.epoch) == seen)
        hetir_sleep(&pool.epoch, seen, -1);
    atomic_fetch_sub(&pool.sleepers, 1);
}

/* Looks through the open jobs once; whether it ran anything. */
static int visit(worker *self, int32_t index)
{
    uint32_t ran = 0;
    for (uint64_t open = atomic_load(&pool.open); open && !ran; open &= open - 1) {
        slot *slot = &pool.slots[__builtin_ctzll(open)];
        int32_t lane_index;
        if (!enter(slot))
            continue;
        lane_index = hetir_job_join(slot->job, index);
        if (lane_index >= 0) {
            atomic_store(&self->current, slot->job);
            if (atomic_load(&pool.sleepers) > 0 &&
                ((open & (open - 1)) || hetir_job_has_room(slot->job)))
                wake(2);
            ran = hetir_job_work(slot->job, lane_index, 0);
            hetir_job_leave(slot->job, lane_index);
            atomic_store(&self->current, NULL);
        }
        leave(slot);
    }
    return ran > 0;
}

static void *work(void *argument)
{
    int32_t index = (int32_t)((uintptr_t)argument & 0xffff);
    uint32_t token = (uint32_t)((uintptr_t)argument >> 16);
    worker *self = &pool.workers[index];
    int worked = 0;
    while (atomic_load(&self->token) == token) {
        int32_t seen = atomic_load(&pool.epoch);
        if (visit(self, index)) {
            worked = 1;
            continue;
        }
        look_out(seen, worked ? LINGER_NS : 0);
        worked = 0;
    }
    return NULL;
}

/* Starts a thread as worker `index`, in place of the one that was. Signals are for others. */
static int start_worker(int32_t index)
{
    uintptr_t token = (atomic_fetch_add(&pool.workers[index].token, 1) + 1) & 0xffff;
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    int failed;
    atomic_store(&pool.workers[index].token, (uint32_t)token);
    atomic_store(&pool.workers[index].current, NULL);
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&thread, &attributes, work, (void *)(token << 16 | (uintptr_t)index));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return !failed;
}

/* In the child of a fork no worker lives: what ran is lost, and the next job starts new ones. */
static void after_fork(void)
{
    hetir_job *running[SLOTS] = {NULL};
    pthread_mutex_init(&pool.lock, NULL);
    atomic_store(&pool.started, 0);
    atomic_store(&pool.sleepers, 0);
    atomic_store(&pool.lookers, 0);
    atomic_store(&pool.open, 0);
    atomic_store(&pool.crowd, 0);
    pool.first = NULL;
    pool.last = &pool.first;
    for (int i = 0; i < SLOTS; i++)
        if (atomic_exchange(&pool.slots[i].gate, 0) & OPEN)
            running[i] = pool.slots[i].job;
    for (int i = 0; i < SLOTS; i++)
        if (running[i]) {
            atomic_store(&running[i]->listed, NOT_LISTED);
            hetir_job_end(running[i], HETIR_LOST);
        }
}

static void start(void)
{
    static int forks_are_watched;
    pthread_mutex_lock(&pool.lock);
    if (!atomic_load(&pool.started)) {
        /* as many as may work on a job that nobody helps with; two, so that one long job on a
         * machine with one core does not stop the others */
        int workers = hetir_threads() < 2 ? 2 : hetir_threads();
        pool.last = &pool.first;
        if (!forks_are_watched)
            forks_are_watched = pthread_atfork(NULL, NULL, after_fork) == 0;
        pool.workers_started = 0;
        for (int i = 1; i <= workers; i++)
            pool.workers_started += start_worker(i);
        atomic_store(&pool.started, 1);
    }
    pthread_mutex_unlock(&pool.lock);
}

/* Puts a job into a free slot, if there is one. */
static int offer(hetir_job *job)
{
    for (int i = 0; i < SLOTS; i++) {
        slot *slot = &pool.slots[i];
        uint64_t vacant = 0;
        if (atomic_load(&slot->gate) != 0 ||
            !atomic_compare_exchange_strong(&slot->gate, &vacant, TAKEN))
            continue;
        atomic_fetch_add(&job->references, 1);
        slot->job = job;
        atomic_store(&slot->gate, OPEN);
        atomic_store(&job->listed, i);
        atomic_fetch_or(&pool.open, (uint64_t)1 << i);
        if (atomic_load(&job->status) != HETIR_RUNNING)
            hetir_pool_unlist(job); /* somebody who waits for it was faster */
        else
            wake(1);
        return 1;
    }
    return 0;
}

/* Offers the jobs that found no slot, in order. */
static void offer_crowd(void)
{
    pthread_mutex_lock(&pool.lock);
    while (pool.first && offer(pool.first->job)) {
        edge *link = pool.first;
        pool.first = link->next;
        if (!pool.first)
            pool.last = &pool.first;
        atomic_fetch_sub(&pool.crowd, 1);
        hetir_job_free(link->job);
        free(link);
    }
    pthread_mutex_unlock(&pool.lock);
}

static void join_crowd(hetir_job *job)
{
    edge *link = malloc(sizeof *link);
    if (!link) {
        while (!offer(job))
            sched_yield();
        return;
    }
    atomic_fetch_add(&job->references, 1);
    link->job = job;
    link->next = NULL;
    pthread_mutex_lock(&pool.lock);
    *pool.last = link;
    pool.last = &link->next;
    atomic_fetch_add(&pool.crowd, 1);
    pthread_mutex_unlock(&pool.lock);
    offer_crowd(); /* a slot may have become free before the crowd was seen */
}

/* Where the system gives no thread, whoever submits a job runs it. */
static void run_here(hetir_job *job)
{
    int32_t index = hetir_job_join(job, 1);
    if (index >= 0) {
        hetir_job_work(job, index, 0);
        hetir_job_leave(job, index);
    }
}

void hetir_pool_list(hetir_job *job)
{
    if (!atomic_load(&pool.started))
        start();
    if (pool.workers_started == 0)
        run_here(job);
    else if (atomic_load(&pool.crowd) > 0 || !offer(job))
        join_crowd(job);
}

void hetir_pool_unlist(hetir_job *job)
{
    int32_t index = atomic_exchange(&job->listed, NOT_LISTED);
    slot *slot = &pool.slots[index < 0 ? 0 : index];
    if (index < 0)
        return;
    atomic_fetch_and(&pool.open, ~((uint64_t)1 << index));
    if (atomic_fetch_and(&slot->gate, ~OPEN) == OPEN)
        hetir_job_free(job);
    if (atomic_load(&pool.crowd) > 0)
        offer_crowd();
}

void hetir_pool_replace(hetir_job *job)
{
    for (int32_t i = 0; i <= MOST_THREADS; i++)
        if (atomic_load(&pool.workers[i].current) == job)
            start_worker(i);
}
