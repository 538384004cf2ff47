/* Ctrl-C while the main thread runs workgroups: Python's handler only takes a note and returns into
 * the kernel, which may never end. A handler around it leaves the kernel instead.
 *
 * Setting a handler costs more than a launch. So a thread watches: when the main thread has been
 * inside one launch from one look to the next, it sets the handler, and the main thread takes it
 * away when it comes out. A launch then pays two exchanges and a sigsetjmp. */
#define _GNU_SOURCE
#include "interrupt.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "job.h"

enum { LOOK_NS = 50000000, IDLE_LOOKS = 40 };

/* `place` counts: odd while the main thread is inside a launch; then SETTING says that the watcher
 * changes the handler, and SET that it is ours. */
static const uint64_t SETTING = (uint64_t)1 << 63;
static const uint64_t SET = (uint64_t)1 << 62;

static _Atomic uint64_t place;
static _Atomic int32_t watching; /* a futex word: 0 asleep, 1 awake */
static int watcher_started;
static pthread_t main_thread;
static struct sigaction before;
static __thread int inside; /* this is the main thread, inside a launch */

/* For the handler, which runs on the main thread alone. */
static sigjmp_buf way_out;
static volatile sig_atomic_t armed, pressed;

static int is_main_thread(void)
{
    static __thread int known; /* 0: not looked at, 1: no, 2: yes */
    if (known == 0)
        known = 1 + (syscall(SYS_gettid) == getpid());
    return known == 2;
}

static void on_interrupt(int number, siginfo_t *info, void *context)
{
    if (!pthread_equal(pthread_self(), main_thread)) {
        pthread_kill(main_thread, number);
        return;
    }
    pressed = 1;
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else
        before.sa_handler(number);
    if (armed)
        siglongjmp(way_out, 1);
}

/* Sets the handler for the launch that `seen` counts, unless it ends or nobody listens. */
static void set_handler(uint64_t seen)
{
    struct sigaction ours = {.sa_sigaction = on_interrupt};
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&ours.sa_mask);
    if (!atomic_compare_exchange_strong(&place, &seen, seen | SETTING))
        return;
    sigaction(SIGINT, NULL, &before);
    if (!(before.sa_flags & SA_SIGINFO) &&
        (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN)) {
        atomic_store(&place, seen);
        return;
    }
    sigaction(SIGINT, &ours, NULL);
    atomic_store(&place, seen | SET);
}

static void *watch(void *argument)
{
    const struct timespec look = {0, LOOK_NS};
    uint64_t last = 0;
    int idle = 0;
    for (;;) {
        uint64_t now = atomic_load(&place);
        if (now == last && now % 2 == 1 && !(now & SET))
            set_handler(now);
        idle = now == last && now % 2 == 0 ? idle + 1 : 0;
        last = now;
        if (idle < IDLE_LOOKS) {
            nanosleep(&look, NULL);
            continue;
        }
        atomic_store(&watching, 0);
        /* who came in before that store did not see it, and is seen here */
        if (atomic_load(&place) == last)
            hetir_sleep(&watching, 0, -1);
        atomic_store(&watching, 1);
        idle = 0;
    }
    return argument;
}

/* The child of a fork has no watcher, and may have been forked by another thread. */
static void after_fork(void)
{
    watcher_started = 0;
    atomic_store(&watching, 0);
    atomic_store(&place, 0);
}

/* The watcher wakes now and then: the library must outlive whoever closes it. */
static void stay_mapped(void)
{
    Dl_info here;
    if (dladdr((void *)&place, &here) && here.dli_fname)
        dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

static void start_watcher(void)
{
    static int forks_are_watched;
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, mask;
    watcher_started = 1;
    stay_mapped();
    main_thread = pthread_self();
    if (!forks_are_watched)
        forks_are_watched = pthread_atfork(NULL, NULL, after_fork) == 0;
    atomic_store(&watching, 1);
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    pthread_create(&thread, &attributes, watch, NULL);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    pthread_attr_destroy(&attributes);
}

int hetir_come_in(void)
{
    if (inside || !is_main_thread())
        return 0;
    if (!watcher_started)
        start_watcher();
    inside = 1;
    pressed = 0;
    atomic_fetch_add(&place, 1);
    if (atomic_load(&watching) == 0) {
        atomic_store(&watching, 1);
        hetir_rouse(&watching, 1);
    }
    return 1;
}

void hetir_come_out(int came_in)
{
    uint64_t now;
    if (!came_in)
        return;
    inside = 0;
    now = atomic_load(&place);
    while (now & SETTING || !atomic_compare_exchange_weak(&place, &now, (now & ~SET) + 1)) {
        hetir_pause();
        now = atomic_load(&place);
    }
    if (now & SET)
        sigaction(SIGINT, &before, NULL);
}

int hetir_enter(hetir_program *program, const uint8_t *args, const hetir_launch *launch,
                uint8_t *memory, int64_t first, int64_t last)
{
    if (!inside) {
        program->entry(args, launch, memory, first, last);
        return 1;
    }
    if (sigsetjmp(way_out, 0) == 0) {
        armed = 1;
        if (!pressed)
            program->entry(args, launch, memory, first, last);
    }
    armed = 0;
    return !pressed;
}
