/* A make-believe accelerator with a C driver of the usual kind: opaque handles, error codes, device
 * addresses that mean nothing to the host, streams that run in order on threads of their own.
 * It records every call, checks every handle and address, and fails on request. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK, BAD_VALUE = 1, NO_MEMORY = 2, BAD_MODULE = 200, BAD_HANDLE = 400, NOT_READY = 600, BAD_ADDRESS = 700, CANCELLED = 710 };
enum { MOST = 4096 };
static const uint64_t FIRST_ADDRESS = 0x500000000000;
static const uint64_t GAP = 1 << 16; /* between allocations, so that overruns are seen */

typedef struct { uint64_t address, size; uint8_t *bytes; int live; } allocation;
typedef struct event {
    int code, done, references, stop;
    int64_t begun, ended;
    struct event *next; /* in its stream */
    struct event *after[8];
    int after_count;
    int kernel;
    int64_t grid[3], group[3];
    uint8_t args[1024];
    size_t args_size;
    uint64_t records, to, of, size; /* of a copy */
} event;
typedef struct { event *first, *last; pthread_t thread; int live, ending; } stream;
typedef int kernel(event *e);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static allocation allocations[MOST];
static stream streams[MOST];
static int allocation_count, stream_count;
static uint64_t next_address, live_bytes, byte_limit = 1 << 28;
static char calls[1 << 20];
static size_t calls_size;
static char failing[32];
static int failing_code;

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Notes a call; gives the code that it was told to fail with. The lock is held. */
static int enter(const char *call)
{
    size_t size = strlen(call);
    if (calls_size + size + 2 < sizeof calls) {
        memcpy(calls + calls_size, call, size);
        calls[calls_size + size] = ' ';
        calls_size += size + 1;
    }
    if (strcmp(call, failing) == 0) {
        failing[0] = 0;
        return failing_code;
    }
    return OK;
}

static uint8_t *at(uint64_t address, uint64_t size)
{
    for (int i = 0; i < allocation_count; i++) {
        allocation *a = &allocations[i];
        if (a->live && address >= a->address && size <= a->size && address - a->address <= a->size - size)
            return a->bytes + (address - a->address);
    }
    return NULL;
}

/* The argument block: scalars in their width, arrays as address, extents, strides in bytes. */
static uint64_t word(const event *e, size_t offset)
{
    uint64_t value;
    memcpy(&value, e->args + offset, 8);
    return value;
}

static int64_t items(const event *e)
{
    return e->grid[0] * e->grid[1] * e->grid[2] * e->group[0] * e->group[1] * e->group[2];
}

static int saxpy(event *e) /* f32 a at 0, f32[:] x at 8, f32[:] y at 32 */
{
    float a;
    memcpy(&a, e->args, 4);
    for (int64_t i = 0; i < (int64_t)word(e, 40) && i < items(e); i++) {
        uint8_t *x = at(word(e, 8) + (uint64_t)(i * (int64_t)word(e, 24)), 4);
        uint8_t *y = at(word(e, 32) + (uint64_t)(i * (int64_t)word(e, 48)), 4);
        float u, v;
        if (!x || !y)
            return BAD_ADDRESS;
        memcpy(&u, x, 4);
        memcpy(&v, y, 4);
        v += a * u;
        memcpy(y, &v, 4);
    }
    return OK;
}

static int dump(event *e) /* u8[:] out at 0 of 24 bytes, then anything: the block, the grid and the group */
{
    size_t size = e->args_size;
    uint8_t *out = at(word(e, 0), size + 48);
    if (!out)
        return BAD_ADDRESS;
    memcpy(out, e->args, size);
    memcpy(out + size, e->grid, 24);
    memcpy(out + size + 24, e->group, 24);
    return OK;
}

static int scale2d(event *e) /* f32[:,:] x at 0 */
{
    for (int64_t i = 0; i < (int64_t)word(e, 8); i++)
        for (int64_t j = 0; j < (int64_t)word(e, 16); j++) {
            int64_t far = i * (int64_t)word(e, 24) + j * (int64_t)word(e, 32);
            uint8_t *x = at(word(e, 0) + (uint64_t)far, 4);
            float v;
            if (!x)
                return BAD_ADDRESS;
            memcpy(&v, x, 4);
            v *= 2;
            memcpy(x, &v, 4);
        }
    return OK;
}

static int fails(event *e)
{
    (void)e;
    return BAD_ADDRESS;
}

static int64_t spin_limit_ns = INT64_MAX;

static int spin(event *e) /* until it is told to stop, or for as long as it may */
{
    int64_t begun = now();
    while (!__atomic_load_n(&e->stop, __ATOMIC_SEQ_CST))
        if (sched_yield(), now() - begun > spin_limit_ns)
            return OK;
    return CANCELLED;
}

static int writes_record(event *e) /* eight bytes after the u64 capacity and u64 used */
{
    uint64_t used = 8, value = 0x1122334455667788;
    uint8_t *records = at(e->records, 24);
    if (!records)
        return BAD_ADDRESS;
    memcpy(records + 8, &used, 8);
    memcpy(records + 16, &value, 8);
    return OK;
}

static const struct { const char *name; kernel *code; } kernels[] = {
    {"saxpy", saxpy}, {"dump", dump}, {"scale2d", scale2d},
    {"fails", fails}, {"spin", spin}, {"writes_record", writes_record},
};

enum { KNOWN = sizeof kernels / sizeof kernels[0] };
#ifndef FAKE_EXECUTE
static int execute(event *e) { return (void)e, BAD_MODULE; }
#else
static int execute(event *e); /* kernels from KNOWN on */
#endif

static int perform(event *e)
{
    int code;
    if (e->kernel >= 0) {
        pthread_mutex_unlock(&lock);
        code = e->kernel < KNOWN ? kernels[e->kernel].code(e) : execute(e);
        pthread_mutex_lock(&lock);
        return code;
    }
    if (e->size > 0) {
        uint8_t *to = at(e->to, e->size), *of = at(e->of, e->size);
        if (!to || !of)
            return BAD_ADDRESS;
        memcpy(to, of, e->size);
    }
    return OK;
}

static void drop(event *e)
{
    if (--e->references == 0)
        free(e);
}

static void *serve(void *argument)
{
    stream *s = argument;
    pthread_mutex_lock(&lock);
    while (s->first || !s->ending) {
        event *e = s->first;
        int ready = e != NULL;
        for (int i = 0; e && i < e->after_count; i++)
            ready = ready && e->after[i]->done;
        if (!ready) {
            pthread_cond_wait(&change, &lock);
            continue;
        }
        e->begun = now();
        e->code = perform(e);
        e->ended = now();
        e->done = 1;
        s->first = e->next;
        if (!s->first)
            s->last = NULL;
        for (int i = 0; i < e->after_count; i++)
            drop(e->after[i]);
        drop(e);
        pthread_cond_broadcast(&change);
    }
    s->live = 0;
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static int add(int stream_id, event **after, int after_count, event *e)
{
    stream *s = &streams[stream_id];
    if (stream_id < 0 || stream_id >= stream_count || s->ending || after_count > 8)
        return BAD_HANDLE;
    e->references = 2; /* the caller's and the stream's */
    e->after_count = after_count;
    for (int i = 0; i < after_count; i++) {
        e->after[i] = after[i];
        after[i]->references++;
    }
    if (s->last)
        s->last->next = e;
    else
        s->first = e;
    s->last = e;
    pthread_cond_broadcast(&change);
    return OK;
}

static int wait_idle(int id)
{
    if (id < 0 || id >= stream_count)
        return BAD_HANDLE;
    while (streams[id].first)
        pthread_cond_wait(&change, &lock);
    return OK;
}

#define CALL(name)                       \
    int code;                            \
    pthread_mutex_lock(&lock);           \
    code = enter(name);                  \
    if (code != OK)                      \
        goto out

#define END                              \
    out:                                 \
    pthread_mutex_unlock(&lock);         \
    return code

int fnAlloc(uint64_t size, uint64_t *address)
{
    CALL("fnAlloc");
    if (allocation_count == MOST || live_bytes + size > byte_limit) {
        code = NO_MEMORY;
        goto out;
    }
    allocation *a = &allocations[allocation_count++];
    if (!next_address)
        next_address = FIRST_ADDRESS;
    *a = (allocation){next_address, size, calloc(1, size + 1), 1};
    next_address += (size + GAP) / GAP * GAP + GAP;
    live_bytes += size;
    *address = a->address;
    END;
}

int fnFree(uint64_t address)
{
    CALL("fnFree");
    code = BAD_VALUE;
    for (int i = 0; i < allocation_count; i++)
        if (allocations[i].live && allocations[i].address == address) {
            free(allocations[i].bytes);
            allocations[i].live = 0;
            live_bytes -= allocations[i].size;
            code = OK;
        }
    END;
}

int fnWrite(int stream_id, uint64_t address, const void *host, uint64_t size)
{
    CALL("fnWrite");
    uint8_t *to;
    code = wait_idle(stream_id);
    to = at(address, size);
    if (code == OK && !to)
        code = BAD_ADDRESS;
    if (code == OK)
        memcpy(to, host, size);
    END;
}

int fnRead(int stream_id, uint64_t address, void *host, uint64_t size)
{
    CALL("fnRead");
    uint8_t *of;
    code = wait_idle(stream_id);
    of = at(address, size);
    if (code == OK && !of)
        code = BAD_ADDRESS;
    if (code == OK)
        memcpy(host, of, size);
    END;
}

int fnStreamCreate(int *id)
{
    CALL("fnStreamCreate");
    *id = stream_count++;
    streams[*id].live = 1;
    pthread_create(&streams[*id].thread, NULL, serve, &streams[*id]);
    END;
}

int fnStreamDestroy(int id)
{
    CALL("fnStreamDestroy");
    if (id < 0 || id >= stream_count || streams[id].ending)
        code = BAD_HANDLE;
    else
        streams[id].ending = 1;
    pthread_cond_broadcast(&change);
    END;
}

int fnModuleLoad(const char *image, uint64_t size, const char *entry, int *module, char *log, int log_size)
{
    CALL("fnModuleLoad");
    code = BAD_MODULE;
    snprintf(log, (size_t)log_size, "the image has no kernel %s", entry);
    if (size >= 5 && memcmp(image, "FNPU1", 5) == 0)
        for (int i = 0; i < KNOWN; i++)
            if (strcmp(kernels[i].name, entry) == 0) {
                *module = i;
                code = OK;
            }
    END;
}

int fnModuleUnload(int module)
{
    CALL("fnModuleUnload");
    code = module < 0 ? BAD_HANDLE : OK;
    END;
}

int fnLaunch(int stream_id, int module, const int64_t *shape, const void *args, uint64_t args_size,
             uint64_t records, event **after, int after_count, event **result)
{
    CALL("fnLaunch");
    event *e;
    if (args_size > sizeof e->args) {
        code = BAD_VALUE;
        goto out;
    }
    e = calloc(1, sizeof *e);
    e->kernel = module;
    memcpy(e->grid, shape, 24);
    memcpy(e->group, shape + 3, 24);
    memcpy(e->args, args, args_size);
    e->args_size = args_size;
    e->records = records;
    code = add(stream_id, after, after_count, e);
    *result = e;
    END;
}

int fnCopy(int stream_id, uint64_t to, uint64_t of, uint64_t size, event **result)
{
    CALL("fnCopy");
    event *e = calloc(1, sizeof *e);
    e->kernel = -1;
    e->to = to;
    e->of = of;
    e->size = size;
    code = add(stream_id, NULL, 0, e);
    *result = e;
    END;
}

int fnEventRecord(int stream_id, event **after, int after_count, event **result)
{
    CALL("fnEventRecord");
    event *e = calloc(1, sizeof *e);
    e->kernel = -1;
    code = add(stream_id, after, after_count, e);
    *result = e;
    END;
}

int fnEventQuery(event *e)
{
    CALL("fnEventQuery");
    code = e->done ? OK : NOT_READY;
    END;
}

/* Negative: for ever. Gives what the work failed with. */
int fnEventWait(event *e, int64_t timeout_ns)
{
    CALL("fnEventWait");
    int64_t deadline = now() + timeout_ns;
    while (!e->done && (timeout_ns < 0 || now() < deadline)) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 1000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        pthread_cond_timedwait(&change, &lock, &until);
    }
    code = e->done ? e->code : NOT_READY;
    END;
}

int fnEventTimes(event *e, int64_t *times)
{
    CALL("fnEventTimes");
    times[0] = e->begun;
    times[1] = e->ended;
    code = e->done ? OK : NOT_READY;
    END;
}

int fnEventStop(event *e)
{
    CALL("fnEventStop");
    __atomic_store_n(&e->stop, 1, __ATOMIC_SEQ_CST);
    END;
}

int fnEventDestroy(event *e)
{
    CALL("fnEventDestroy");
    drop(e);
    END;
}

const char *fnErrorName(int code)
{
    switch (code) {
    case BAD_VALUE: return "FN_BAD_VALUE";
    case NO_MEMORY: return "FN_NO_MEMORY";
    case BAD_MODULE: return "FN_BAD_MODULE";
    case BAD_HANDLE: return "FN_BAD_HANDLE";
    case NOT_READY: return "FN_NOT_READY";
    case BAD_ADDRESS: return "FN_BAD_ADDRESS";
    case CANCELLED: return "FN_CANCELLED";
    default: return "FN_UNKNOWN";
    }
}

/* For tests: the calls since the last time, the next failure, what is allocated. */
const char *fnTakeCalls(void)
{
    static char taken[1 << 20];
    pthread_mutex_lock(&lock);
    memcpy(taken, calls, calls_size);
    taken[calls_size] = 0;
    calls_size = 0;
    pthread_mutex_unlock(&lock);
    return taken;
}

void fnFailNext(const char *call, int code)
{
    pthread_mutex_lock(&lock);
    snprintf(failing, sizeof failing, "%s", call);
    failing_code = code;
    pthread_mutex_unlock(&lock);
}

uint64_t fnLiveBytes(void)
{
    return live_bytes;
}
