/* A launch in flight: its chunks of workgroups, who runs them, and what waits for it. */
#define _GNU_SOURCE
#include "job.h"
#include "interrupt.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_ALONE_BYTES = 2048 };

static edge closed; /* marks the followers of a job that has ended */

int64_t hetir_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static uint64_t range_of(uint32_t low, uint32_t high)
{
    return (uint64_t)high << 32 | low;
}

static uint32_t low_of(uint64_t range)
{
    return (uint32_t)range;
}

static uint32_t high_of(uint64_t range)
{
    return (uint32_t)(range >> 32);
}

/* Cuts the grid into chunks so that each lane has some to give away, and deals them out. */
static void divide(hetir_job *job)
{
    int64_t most = (int64_t)job->lane_count * CHUNKS_PER_LANE;
    int64_t chunks;
    job->chunk_groups = job->groups / most + (job->groups % most != 0);
    if (job->chunk_groups < 1)
        job->chunk_groups = 1;
    chunks = job->groups / job->chunk_groups + (job->groups % job->chunk_groups != 0);
    atomic_init(&job->remaining, (uint32_t)chunks);
    for (int64_t i = 0; i < job->lane_count; i++) {
        uint32_t low = (uint32_t)(chunks * i / job->lane_count);
        uint32_t high = (uint32_t)(chunks * (i + 1) / job->lane_count);
        atomic_init(&job->lanes[i].range, range_of(low, high));
        atomic_init(&job->lanes[i].owned, 0);
    }
}

/* Reads the shape of a launch; false when a size is negative or a product overflows. */
static int set_shape(hetir_job *job, const int64_t *shape)
{
    int64_t items = 1;
    job->groups = 1;
    for (int i = 0; i < 3; i++) {
        job->launch.num_groups[i] = shape[i];
        job->launch.group_size[i] = shape[i + 3];
        if (shape[i] < 0 || shape[i + 3] < 0 || __builtin_mul_overflow(items, shape[i + 3], &items))
            return 0;
    }
    for (int i = 0; i < 3; i++)
        if (__builtin_mul_overflow(job->groups, shape[i] ? shape[i] : 1, &job->groups))
            return 0;
    if (shape[0] == 0 || shape[1] == 0 || shape[2] == 0)
        job->groups = 0;
    return !__builtin_mul_overflow(job->program->item_bytes, (uint64_t)items, &job->scratch_bytes) &&
           !__builtin_add_overflow(job->program->shared_bytes, job->scratch_bytes,
                                   &job->scratch_bytes);
}

hetir_job *hetir_job_make(hetir_program *program, const uint8_t *args, size_t args_size,
                          const int64_t *shape, uint8_t *records)
{
    int32_t lanes = hetir_threads() < 1 ? 1 : hetir_threads();
    size_t head = (sizeof(hetir_job) + 63) & ~(size_t)63;
    size_t body = (args_size + 63) & ~(size_t)63;
    hetir_job *job = aligned_alloc(64, head + body + (size_t)lanes * sizeof(lane));
    if (!job)
        return NULL;
    memset(job, 0, sizeof *job);
    job->program = program;
    if (program && !set_shape(job, shape)) {
        free(job);
        return NULL;
    }
    atomic_init(&job->references, 1);
    atomic_init(&job->pending, 1);
    atomic_init(&job->trouble, HETIR_DONE);
    atomic_init(&job->listed, NOT_LISTED);
    job->args = (uint8_t *)job + head;
    job->lanes = (lane *)(job->args + body);
    job->lane_count = lanes;
    if (args_size > 0)
        memcpy(job->args, args, args_size);
    job->launch.records = records;
    job->launch.stop = (uint64_t *)&job->stop;
    divide(job);
    if (program)
        atomic_fetch_add(&program->references, 1);
    return job;
}

void hetir_job_free(hetir_job *job)
{
    if (job && atomic_fetch_sub(&job->references, 1) == 1) {
        hetir_program_free(job->program);
        free(job);
    }
}

int32_t hetir_job_join(hetir_job *job, int32_t wanted)
{
    for (int32_t i = 0; i < job->lane_count; i++) {
        int32_t index = (wanted + i) % job->lane_count;
        int32_t nobody = 0;
        if (atomic_load(&job->lanes[index].owned) == 0 &&
            atomic_compare_exchange_strong(&job->lanes[index].owned, &nobody, 1))
            return index;
    }
    return -1;
}

void hetir_job_leave(hetir_job *job, int32_t index)
{
    atomic_store(&job->lanes[index].owned, 0);
}

static int take_own(lane *own, uint32_t *chunk)
{
    uint64_t range = atomic_load(&own->range);
    while (low_of(range) < high_of(range)) {
        uint64_t rest = range_of(low_of(range) + 1, high_of(range));
        if (atomic_compare_exchange_weak(&own->range, &range, rest)) {
            *chunk = low_of(range);
            return 1;
        }
    }
    return 0;
}

/* Takes the later half of another lane: one chunk to run, the rest into the own lane. */
static int steal(hetir_job *job, int32_t index, uint32_t *chunk)
{
    for (int32_t i = 1; i < job->lane_count; i++) {
        lane *victim = &job->lanes[(index + i) % job->lane_count];
        uint64_t range = atomic_load(&victim->range);
        while (low_of(range) < high_of(range)) {
            uint32_t middle = low_of(range) + (high_of(range) - low_of(range)) / 2;
            uint64_t left = range_of(low_of(range), middle);
            if (atomic_compare_exchange_weak(&victim->range, &range, left)) {
                /* the own lane is empty, and nobody but its owner fills it */
                atomic_store(&job->lanes[index].range, range_of(middle + 1, high_of(range)));
                *chunk = middle;
                return 1;
            }
        }
    }
    return 0;
}

int hetir_job_has_room(hetir_job *job)
{
    int work = 0, lanes = 0;
    for (int32_t i = 0; i < job->lane_count; i++) {
        uint64_t range = atomic_load(&job->lanes[i].range);
        work |= low_of(range) < high_of(range);
        lanes |= atomic_load(&job->lanes[i].owned) == 0;
    }
    return work && lanes;
}

static void run_chunk(hetir_job *job, uint32_t chunk, uint8_t *memory)
{
    int64_t first = (int64_t)chunk * job->chunk_groups;
    int64_t last = job->groups - first > job->chunk_groups ? first + job->chunk_groups : job->groups;
    int32_t done = HETIR_DONE;
    if (atomic_load_explicit(&job->stop, memory_order_relaxed) != 0)
        atomic_compare_exchange_strong(&job->trouble, &done, HETIR_CANCELLED);
    else if (memory) {
        if (!hetir_enter(job->program, job->args, &job->launch, memory, first, last)) {
            atomic_store(&job->stop, 1);
            atomic_compare_exchange_strong(&job->trouble, &done, HETIR_CANCELLED);
        }
    } else
        atomic_compare_exchange_strong(&job->trouble, &done, HETIR_NO_MEMORY);
}

uint32_t hetir_job_work(hetir_job *job, int32_t index, int64_t deadline)
{
    uint8_t *memory = hetir_scratch(job->scratch_bytes);
    uint32_t ran = 0;
    uint32_t chunk;
    int late = 0;
    while (!late && (take_own(&job->lanes[index], &chunk) || steal(job, index, &chunk))) {
        run_chunk(job, chunk, memory);
        ran++;
        late = deadline != 0 && hetir_now() >= deadline;
    }
    if (ran > 0 && atomic_fetch_sub(&job->remaining, ran) == ran)
        hetir_job_end(job, atomic_load(&job->trouble));
    return ran;
}

/* Adds `job` to what waits for `before`; false when that one has ended. */
static int follow(hetir_job *before, hetir_job *job, edge *link)
{
    edge *head = atomic_load(&before->followers);
    link->job = job;
    do {
        if (head == &closed)
            return 0;
        link->next = head;
    } while (!atomic_compare_exchange_weak(&before->followers, &head, link));
    return 1;
}

/* Marks a job as ended; gives what waited for it, or null. */
static edge *conclude(hetir_job *job, int32_t status)
{
    int32_t running = HETIR_RUNNING;
    if (atomic_load(&job->status) != HETIR_RUNNING)
        return NULL;
    atomic_store(&job->ended, hetir_now());
    if (!atomic_compare_exchange_strong(&job->status, &running, status))
        return NULL;
    if (atomic_load(&job->waiters) > 0)
        hetir_rouse(&job->status, INT32_MAX);
    return atomic_exchange(&job->followers, &closed);
}

/* A loop and not a recursion: chains of markers can be long. */
static void settle(edge *ready, int32_t status)
{
    while (ready) {
        edge *link = ready;
        hetir_job *job = link->job;
        ready = link->next;
        free(link);
        if (status == HETIR_LOST || status == HETIR_ABANDONED)
            atomic_store(&job->stop, 1);
        if (atomic_fetch_sub(&job->pending, 1) == 1) {
            atomic_store(&job->begun, hetir_now());
            if (atomic_load(&job->remaining) > 0) {
                hetir_pool_list(job);
            } else {
                edge *more = conclude(job, HETIR_DONE);
                edge **end = &more;
                while (*end)
                    end = &(*end)->next;
                *end = ready;
                ready = more;
            }
        }
        hetir_job_free(job);
    }
}

void hetir_job_end(hetir_job *job, int32_t status)
{
    edge *ready;
    atomic_fetch_add(&job->references, 1);
    ready = conclude(job, status);
    hetir_pool_unlist(job);
    settle(ready, status);
    hetir_job_free(job);
}

void hetir_job_start(hetir_job *job, int list)
{
    atomic_store(&job->begun, hetir_now());
    if (atomic_load(&job->remaining) == 0)
        hetir_job_end(job, HETIR_DONE);
    else if (list)
        hetir_pool_list(job);
}

hetir_job *hetir_submit(hetir_program *program, const uint8_t *args, size_t args_size,
                        const int64_t *shape, uint8_t *records, hetir_job **after,
                        size_t after_count)
{
    hetir_job *job = hetir_job_make(program, args, args_size, shape, records);
    if (!job)
        return NULL;
    for (size_t i = 0; i < after_count; i++) {
        edge *link = malloc(sizeof *link);
        if (!link) {
            atomic_store(&job->stop, 1);
            hetir_wait(after[i], -1, 0);
            continue;
        }
        atomic_fetch_add(&job->pending, 1);
        atomic_fetch_add(&job->references, 1);
        if (!follow(after[i], job, link)) {
            free(link);
            atomic_fetch_sub(&job->pending, 1);
            hetir_job_free(job);
        }
    }
    if (atomic_fetch_sub(&job->pending, 1) == 1)
        hetir_job_start(job, 1);
    return job;
}

/* Lets this thread work on a job that has begun. */
static void help(hetir_job *job, int64_t deadline)
{
    int32_t index = atomic_load(&job->begun) == 0 ? -1 : hetir_job_join(job, 0);
    if (index >= 0) {
        int came_in = hetir_come_in();
        hetir_job_work(job, index, deadline);
        hetir_job_leave(job, index);
        hetir_come_out(came_in);
    }
}

int hetir_wait(hetir_job *job, int64_t timeout_ns, int helps)
{
    enum { SPINS = 50, AWAKE_NS = 50000 }; /* waking up takes as long */
    int64_t deadline = timeout_ns < 0 ? 0 : hetir_now() + timeout_ns;
    int64_t left = -1, asleep;
    if (helps && atomic_load(&job->status) == HETIR_RUNNING)
        help(job, deadline);
    asleep = hetir_now() + AWAKE_NS;
    if (deadline != 0 && deadline < asleep)
        asleep = deadline;
    do
        for (int i = 0; i < SPINS && atomic_load(&job->status) == HETIR_RUNNING; i++)
            hetir_pause();
    while (atomic_load(&job->status) == HETIR_RUNNING && hetir_now() < asleep);
    atomic_fetch_add(&job->waiters, 1);
    while (atomic_load(&job->status) == HETIR_RUNNING) {
        if (deadline != 0 && (left = deadline - hetir_now()) <= 0)
            break;
        hetir_sleep(&job->status, HETIR_RUNNING, left);
    }
    atomic_fetch_sub(&job->waiters, 1);
    return atomic_load(&job->status);
}

/* Runs a job of several workgroups on this thread and the pool. Waking a worker costs this thread
 * microseconds, so a grid that took less lately is begun alone, and shared when that was wrong. */
static void run_shared(hetir_job *job, int64_t deadline)
{
    enum { QUICK_NS = 10000 };
    int64_t group_ns = atomic_load_explicit(&job->program->group_ns, memory_order_relaxed);
    int quick = group_ns > 0 && job->groups <= QUICK_NS / group_ns;
    int64_t begun;
    uint32_t ran;
    hetir_job_start(job, !quick);
    begun = hetir_now();
    ran = hetir_job_work(job, 0, quick ? begun + QUICK_NS : deadline);
    if (ran > 0) {
        int64_t took = (hetir_now() - begun) / (ran * job->chunk_groups);
        atomic_store_explicit(&job->program->group_ns, took + 1, memory_order_relaxed);
    }
    if (quick && atomic_load(&job->status) == HETIR_RUNNING) {
        hetir_pool_list(job);
        hetir_job_work(job, 0, deadline);
    }
}

/* Runs one workgroup on this thread. It needs no job: nobody else could take a part of it. */
static int run_alone(hetir_program *program, const uint8_t *args, size_t args_size,
                     const int64_t *shape, uint8_t *records)
{
    uint64_t stop = 0, scratch_bytes;
    hetir_launch launch = {.records = records, .stop = &stop};
    int64_t items = 1;
    uint8_t *memory;
    int came_in, whole;
    uint8_t block[MOST_ALONE_BYTES] __attribute__((aligned(64)));
    for (int i = 0; i < 3; i++) {
        launch.num_groups[i] = shape[i];
        launch.group_size[i] = shape[i + 3];
        if (shape[i + 3] < 0 || __builtin_mul_overflow(items, shape[i + 3], &items))
            return HETIR_NO_MEMORY;
    }
    if (__builtin_mul_overflow(program->item_bytes, (uint64_t)items, &scratch_bytes) ||
        __builtin_add_overflow(program->shared_bytes, scratch_bytes, &scratch_bytes) ||
        !(memory = hetir_scratch(scratch_bytes)))
        return HETIR_NO_MEMORY;
    memcpy(block, args, args_size);
    came_in = hetir_come_in();
    whole = hetir_enter(program, block, &launch, memory, 0, 1);
    hetir_come_out(came_in);
    return whole ? HETIR_DONE : HETIR_CANCELLED;
}

int hetir_run(hetir_program *program, const uint8_t *args, size_t args_size, int64_t groups_x,
              int64_t groups_y, int64_t groups_z, int64_t size_x, int64_t size_y, int64_t size_z,
              uint8_t *records, int64_t slice_ns, hetir_job **job)
{
    int64_t shape[6] = {groups_x, groups_y, groups_z, size_x, size_y, size_z};
    int64_t deadline = slice_ns < 0 ? 0 : hetir_now() + slice_ns;
    int status, came_in;
    *job = NULL;
    if (groups_x == 1 && groups_y == 1 && groups_z == 1 && args_size <= MOST_ALONE_BYTES)
        return run_alone(program, args, args_size, shape, records);
    *job = hetir_job_make(program, args, args_size, shape, records);
    if (!*job)
        return HETIR_NO_MEMORY;
    atomic_store(&(*job)->pending, 0);
    hetir_job_join(*job, 0);
    came_in = hetir_come_in();
    if ((*job)->groups > 1 && hetir_threads() > 1) {
        run_shared(*job, deadline);
    } else {
        hetir_job_start(*job, 0);
        hetir_job_work(*job, 0, deadline);
    }
    hetir_job_leave(*job, 0);
    hetir_come_out(came_in);
    status = hetir_wait(*job, slice_ns, 0);
    if (status != HETIR_RUNNING) {
        hetir_job_free(*job);
        *job = NULL;
    }
    return status;
}

int hetir_job_status(hetir_job *job)
{
    return atomic_load(&job->status);
}

int hetir_job_busy(hetir_job *job)
{
    for (int32_t i = 0; i < job->lane_count; i++)
        if (atomic_load(&job->lanes[i].owned))
            return atomic_load(&job->status) != HETIR_LOST;
    return 0;
}

void hetir_job_times(hetir_job *job, int64_t *begun_and_ended)
{
    begun_and_ended[0] = atomic_load(&job->begun);
    begun_and_ended[1] = atomic_load(&job->status) == HETIR_RUNNING ? 0 : atomic_load(&job->ended);
}

void hetir_cancel(hetir_job *job)
{
    atomic_store(&job->stop, 1);
}

void hetir_abandon(hetir_job *job)
{
    atomic_store(&job->stop, 1);
    hetir_job_end(job, HETIR_ABANDONED);
    hetir_pool_replace(job);
}
