/* A make-believe libascendcl and libacl_rtc over the make-believe accelerator: each handle, each
 * thread's context and each kind of copy is checked. Kernels are the accelerator's, by name; their
 * arguments must be the addresses that the launch block has for the arrays, then the block's own.
 * The source says in a comment at which offsets arrays lie: `// arrays 8 32, block 64`. */
#define FAKE_EXECUTE
#include "fake_npu.c"

enum { INVALID = 107000, CONTEXT_NULL = 107002, HANDLE = 107017, OUT = 207001, NO_DEVICE = 207004, FAULT = 507015, REFUSED = 545000 };
enum { BINARIES = 4096, DEVICES = 2, BLOCKS = 48 };

typedef struct { char *text; int live; } binary;
typedef struct { int kernel, arrays, offsets[8], block; char *text; } function;
typedef struct { function *of; uint64_t values[9]; int count, final; int64_t items[3]; } arguments;
typedef struct { event *item; int live; } mark;

static binary binaries[BINARIES];
static int binary_count, device_count = 1, initialised, marks, live_binaries, last_blocks;
static int contexts[DEVICES];
static _Thread_local void *current;
static uint8_t *pinned[MOST];
static size_t pinned_sizes[MOST];
static int pinned_count;
static const char *chip = "Ascend910B2";
static event *faulted[MOST]; /* by stream: the last launch, whose fault nobody asked for yet */

static int translated(int code)
{
    switch (code) {
    case OK: return OK;
    case NO_MEMORY: return OUT;
    case BAD_HANDLE: return HANDLE;
    case BAD_ADDRESS: return FAULT;
    default: return code > 100000 ? code : INVALID;
    }
}

#define CHECKED(name)          \
    CALL(name);                \
    if (!current) {            \
        code = CONTEXT_NULL;   \
        goto out;              \
    }

const char *aclGetRecentErrMsg(void) { return "EZ9999: the fake says why"; }
const char *aclrtGetSocName(void) { return chip; }

int aclInit(const char *configuration)
{
    CALL("aclInit");
    code = configuration ? INVALID : initialised ? 100002 : OK;
    initialised = 1;
    spin_limit_ns = 1000000000;
    END;
}

int aclrtGetDeviceCount(uint32_t *count)
{
    CALL("aclrtGetDeviceCount");
    *count = (uint32_t)device_count;
    code = !initialised ? 100001 : device_count ? OK : NO_DEVICE;
    END;
}

int aclrtSetDevice(int32_t device)
{
    CALL("aclrtSetDevice");
    if (device < 0 || device >= device_count)
        code = 107001;
    else
        current = &contexts[device];
    END;
}

int aclrtGetCurrentContext(void **context) { return *context = current, current ? OK : CONTEXT_NULL; }
int aclrtSetCurrentContext(void *context) { return current = context, context ? OK : INVALID; }

int aclrtGetDeviceInfo(uint32_t device, int attribute, int64_t *value)
{
    *value = BLOCKS;
    return device < (uint32_t)device_count && attribute == 201 ? OK : INVALID;
}

int aclrtGetMemInfo(int kind, size_t *empty, size_t *total)
{
    *empty = byte_limit - live_bytes;
    *total = byte_limit;
    return kind == 1 ? OK : INVALID;
}

int aclrtMalloc(void **memory, size_t size, int policy)
{
    uint64_t address = 0;
    CHECKED("aclrtMalloc");
    pthread_mutex_unlock(&lock);
    code = size == 0 || policy != 0 ? INVALID : translated(fnAlloc(size, &address));
    *memory = (void *)address;
    return code;
    END;
}

int aclrtFree(void *memory)
{
    CHECKED("aclrtFree");
    pthread_mutex_unlock(&lock);
    return translated(fnFree((uint64_t)memory));
    END;
}

int aclrtMallocHost(void **memory, size_t size)
{
    CHECKED("aclrtMallocHost");
    *memory = pinned[pinned_count] = malloc(size);
    pinned_sizes[pinned_count++] = size;
    END;
}

static int is_pinned(const void *place, size_t size)
{
    for (int i = 0; i < pinned_count; i++)
        if ((const uint8_t *)place >= pinned[i] && (const uint8_t *)place + size <= pinned[i] + pinned_sizes[i])
            return 1;
    return 0;
}

int aclrtMemcpy(void *to, size_t room, const void *of, size_t size, int kind)
{
    CHECKED("aclrtMemcpy");
    uint8_t *place = at((uint64_t)(kind == 1 ? to : (void *)of), size);
    if (!place || size > room || (kind != 1 && kind != 2))
        code = INVALID;
    else if (kind == 1)
        memcpy(place, of, size);
    else
        memcpy(to, place, size);
    END;
}

static int id_of(void *stream) { return (int)(intptr_t)stream - 1; }

static event *fresh(void)
{
    event *e = calloc(1, sizeof *e);
    e->kernel = -1;
    return e;
}

static int post(void *stream, event **after, int count, event *e)
{
    int code = add(id_of(stream), after, count, e);
    if (code == OK)
        drop(e);
    else
        free(e);
    return translated(code);
}

/* Host memory must be page-locked; it is read when the copy's turn comes. */
static int copy_in(event *e)
{
    uint8_t *to = at(e->to, e->size);
    if (!to)
        return BAD_ADDRESS;
    memcpy(to, (void *)e->of, e->size);
    return OK;
}

int aclrtMemcpyAsync(void *to, size_t room, const void *of, size_t size, int kind, void *stream)
{
    CHECKED("aclrtMemcpyAsync");
    event *e;
    if (size > room || !at((uint64_t)to, size) || (kind == 1 ? !is_pinned(of, size) : kind != 3 || !at((uint64_t)of, size))) {
        code = INVALID;
        goto out;
    }
    e = fresh();
    e->to = (uint64_t)to;
    e->of = (uint64_t)of;
    e->size = size;
    if (kind == 1)
        e->kernel = KNOWN; /* execute */
    code = post(stream, NULL, 0, e);
    END;
}

int aclrtCreateStream(void **stream)
{
    int id = 0;
    CHECKED("aclrtCreateStream");
    pthread_mutex_unlock(&lock);
    code = translated(fnStreamCreate(&id));
    *stream = (void *)(intptr_t)(id + 1);
    return code;
    END;
}

int aclrtDestroyStream(void *stream)
{
    CHECKED("aclrtDestroyStream");
    pthread_mutex_unlock(&lock);
    return translated(fnStreamDestroy(id_of(stream)));
    END;
}

/* A stream tells the fault of its last launch once. */
static int told(int id)
{
    event *e = faulted[id];
    int code = e && e->done ? e->code : OK;
    if (code)
        e->code = OK;
    return translated(code);
}

int aclrtSynchronizeStream(void *stream)
{
    CHECKED("aclrtSynchronizeStream");
    code = translated(wait_idle(id_of(stream)));
    if (code == OK)
        code = told(id_of(stream));
    END;
}

int aclrtStreamQuery(void *stream, int *status)
{
    CHECKED("aclrtStreamQuery");
    *status = id_of(stream) < stream_count && streams[id_of(stream)].first ? 1 : 0;
    code = id_of(stream) < stream_count ? told(id_of(stream)) : HANDLE;
    END;
}

int aclrtCreateEventWithFlag(mark **made, uint32_t flag)
{
    CHECKED("aclrtCreateEventWithFlag");
    code = flag == 11 ? OK : INVALID; /* SYNC, CAPTURE_STREAM_PROGRESS, TIME_LINE */
    *made = calloc(1, sizeof **made);
    (*made)->live = 1;
    marks++;
    END;
}

int aclrtDestroyEvent(mark *m)
{
    CHECKED("aclrtDestroyEvent");
    if (!m->live || (m->item && !m->item->done)) {
        code = HANDLE;
        goto out;
    }
    if (m->item)
        drop(m->item);
    m->live = 0;
    marks--;
    END;
}

int aclrtRecordEvent(mark *m, void *stream)
{
    CHECKED("aclrtRecordEvent");
    event *e;
    if (!m->live || m->item) { /* hetir records an event once */
        code = HANDLE;
        goto out;
    }
    e = fresh();
    code = translated(add(id_of(stream), NULL, 0, e));
    m->item = e;
    END;
}

int aclrtStreamWaitEvent(void *stream, mark *m)
{
    CHECKED("aclrtStreamWaitEvent");
    code = m->live && m->item ? post(stream, &m->item, 1, fresh()) : HANDLE;
    END;
}

int aclrtQueryEventStatus(mark *m, int *status)
{
    CHECKED("aclrtQueryEventStatus");
    code = m->live && m->item ? OK : HANDLE;
    *status = code == OK && m->item->done;
    END;
}

int aclrtEventElapsedTime(float *milliseconds, mark *one, mark *two)
{
    CHECKED("aclrtEventElapsedTime");
    code = one->item && two->item && one->item->done && two->item->done ? OK : INVALID;
    if (code == OK)
        *milliseconds = (float)((double)(two->item->ended - one->item->ended) / 1e6);
    END;
}

/* ---- code */

int aclrtcCreateProg(char **made, const char *source, const char *name, int count, const char **headers, const char **names)
{
    CALL("aclrtcCreateProg");
    code = count || headers || names || !name ? INVALID : OK;
    *made = strdup(source);
    END;
}

int aclrtcCompileProg(char *program, int count, const char **options)
{
    CALL("aclrtcCompileProg");
    int simd = count == 1 && strcmp(options[0], "--npu-arch=dav-2201") == 0;
    int simt = count == 2 && strcmp(options[0], "--npu-arch=dav-3510") == 0 && strcmp(options[1], "--enable-simt") == 0;
    code = (simd || simt) && (strstr(program, "__launch_bounds__") != NULL) == simt && strstr(program, "__global__") ? OK : REFUSED;
    END;
}

static const char *said = "kernel.asc:1:1: error: no Ascend C";
int aclrtcGetCompileLogSize(char *program, size_t *size) { return (void)program, *size = strlen(said) + 1, OK; }
int aclrtcGetCompileLog(char *program, char *log) { return (void)program, strcpy(log, said), OK; }
int aclrtcGetBinDataSize(char *program, size_t *size) { return *size = strlen(program) + 1, OK; }
int aclrtcGetBinData(char *program, char *data) { return memcpy(data, program, strlen(program) + 1), OK; }
int aclrtcDestroyProg(char **program) { return free(*program), *program = NULL, OK; }

typedef struct { int kind; union { uint32_t magic, reserved[4]; } value; } load_option;
typedef struct { load_option *options; size_t count; } load_options;

int aclrtBinaryLoadFromData(const char *data, size_t size, const load_options *options, binary **made)
{
    CHECKED("aclrtBinaryLoadFromData");
    if (options->count != 1 || options->options->kind != 2 || options->options->value.magic != 0x43554245 ||
        strlen(data) + 1 != size) {
        code = INVALID;
        goto out;
    }
    *made = &binaries[binary_count++];
    **made = (binary){strdup(data), 1};
    live_binaries++;
    END;
}

int aclrtBinaryUnLoad(binary *b)
{
    CHECKED("aclrtBinaryUnLoad");
    code = b->live ? OK : HANDLE;
    b->live = 0;
    live_binaries--;
    END;
}

int aclrtBinaryGetFunction(binary *b, const char *name, function **made)
{
    CHECKED("aclrtBinaryGetFunction");
    char head[160];
    const char *place = strstr(b->text, "// arrays");
    function *f = calloc(1, sizeof *f);
    snprintf(head, sizeof head, "void %s(", name);
    f->kernel = -1;
    for (int i = 0; i < KNOWN; i++)
        if (strcmp(kernels[i].name, name) == 0)
            f->kernel = i;
    if (!b->live || !place || f->kernel < 0 || !strstr(b->text, head)) {
        code = INVALID;
        free(f);
        goto out;
    }
    for (place += strlen("// arrays"); *place == ' '; f->arrays++)
        f->offsets[f->arrays] = (int)strtol(place, (char **)&place, 10);
    f->block = atoi(place + strlen(", block "));
    *made = f;
    END;
}

int aclrtKernelArgsInit(function *f, arguments **made)
{
    CHECKED("aclrtKernelArgsInit");
    *made = calloc(1, sizeof **made);
    (*made)->of = f;
    END;
}

int aclrtKernelArgsAppend(arguments *a, const void *value, size_t size, void **parameter)
{
    CHECKED("aclrtKernelArgsAppend");
    if (size != 8 || a->count == 9 || a->final) {
        code = INVALID;
        goto out;
    }
    memcpy(&a->values[a->count++], value, 8);
    *parameter = a;
    END;
}

int aclrtKernelArgsFinalize(arguments *a)
{
    CHECKED("aclrtKernelArgsFinalize");
    code = a->final ? INVALID : OK;
    a->final = 1;
    END;
}

int aclrtLaunchKernelWithConfig(function *f, uint32_t blocks, void *stream, void *config, arguments *a, void *reserved)
{
    CHECKED("aclrtLaunchKernelWithConfig");
    event *e;
    int id = id_of(stream);
    last_blocks = (int)blocks;
    if (config || reserved || !a->final || a->of != f || a->count != f->arrays + 1 || blocks < 1 || blocks > BLOCKS ||
        id < 0 || id >= stream_count || strcmp(kernels[f->kernel].name, "fails") == 0) {
        code = INVALID;
        goto out;
    }
    e = fresh();
    e->kernel = KNOWN + 1; /* the block is in the NPU's memory when its turn comes */
    memcpy(e->args, a, sizeof *a);
    code = translated(add(id, NULL, 0, e)); /* the caller's reference is kept to tell its fault */
    if (faulted[id])
        drop(faulted[id]);
    faulted[id] = e;
    free(a);
    END;
}

typedef struct { uint32_t x, y, z; } dim3;

int aclrtLaunchSIMTKernelWithArgsArray(function *f, dim3 grid, dim3 block, size_t dynamic, void *stream, void *config, void **values)
{
    CHECKED("aclrtLaunchSIMTKernelWithArgsArray");
    uint64_t items = (uint64_t)block.x * block.y * block.z;
    arguments a = {f, {0}, f->arrays + 1, 1, {block.x, block.y, block.z}};
    event *e;
    int id = id_of(stream);
    last_blocks = (int)grid.x;
    if (config || dynamic || grid.x < 1 || grid.x > 65535 || grid.y != 1 || grid.z != 1 || items < 1 || items > 2048 ||
        id < 0 || id >= stream_count || strcmp(kernels[f->kernel].name, "fails") == 0) {
        code = INVALID;
        goto out;
    }
    for (int i = 0; i < a.count; i++)
        memcpy(&a.values[i], values[i], 8);
    e = fresh();
    e->kernel = KNOWN + 1;
    memcpy(e->args, &a, sizeof a);
    code = translated(add(id, NULL, 0, e));
    if (faulted[id])
        drop(faulted[id]);
    faulted[id] = e;
    END;
}

static int execute_launch(event *e)
{
    arguments a;
    int64_t shape[6];
    memcpy(&a, e->args, sizeof a);
    function *f = a.of;
    uint8_t *launch = at(a.values[a.count - 1], (uint64_t)f->block + 56);
    if (!launch)
        return BAD_ADDRESS;
    memcpy(shape, launch, sizeof shape);
    memcpy(e->grid, shape, 24);
    memcpy(e->group, shape + 3, 24);
    if (a.items[0] && memcmp(a.items, shape + 3, 24) != 0)
        return BAD_ADDRESS;
    memcpy(e->args, launch + 48, (size_t)f->block);
    memcpy(&e->records, launch + 48 + f->block, 8);
    e->args_size = (size_t)f->block;
    for (int i = 0; i < f->arrays; i++)
        if (word(e, (size_t)f->offsets[i]) != a.values[i])
            return BAD_ADDRESS;
    return kernels[f->kernel].code(e);
}

static int execute(event *e) { return e->kernel == KNOWN ? copy_in(e) : execute_launch(e); }

void fakeSetChip(const char *name) { chip = strdup(name); }
void fakeSetDevices(int count) { device_count = count; }
int fakeMarks(void) { return marks; }
int fakeBinaries(void) { return live_binaries; }
int fakeBlocks(void) { return last_blocks; }

