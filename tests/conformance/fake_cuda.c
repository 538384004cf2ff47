/* A make-believe libcuda over the make-believe accelerator: contexts, modules, streams and events
 * as the driver API has them, each handle and each current context checked. Entries that the
 * accelerator does not know by name go to an executor that a test sets, with their PTX. */
#define FAKE_EXECUTE
#include "fake_npu.c"

enum { NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_CONTEXT = 201, INVALID_IMAGE = 200, NOT_FOUND = 500, INVALID_PTX = 218 };
enum { MODULES = 4096, MAX_SHARED = 232448, STATIC_SHARED = 49152 };

typedef struct { char *text; int live; } module;
typedef struct { int module, kernel, dynamic; size_t sizes[4], fixed; int count; char entry[128]; } function;
typedef struct { event *item; int live; } mark;
typedef int executor(const char *ptx, const char *entry, const int64_t *grid, const int64_t *group,
                     unsigned shared, const void *params, size_t size);

static module modules[MODULES];
static function functions[MODULES];
static int module_count, function_count, initialised, device_count = 1, retained[4], marks, pinned;
static char contexts[4][8]; /* the primary context of each device */
static struct { uint64_t address; const void *context; } owners[MODULES];
static int owner_count;
static _Thread_local void *stack[8];
static _Thread_local int depth;
static executor *run_ptx;

static int is_context(const void *context)
{
    for (int i = 0; i < 4; i++)
        if (context == contexts[i])
            return retained[i] > 0;
    return 0;
}

/* The context in which the allocation around an address was made. */
static const void *owner_of(uint64_t address)
{
    const void *found = NULL;
    uint64_t nearest = 0;
    for (int i = 0; i < owner_count; i++)
        if (owners[i].address <= address && owners[i].address >= nearest)
            nearest = owners[i].address, found = owners[i].context;
    return found;
}

#define CHECKED(name)                                   \
    CALL(name);                                         \
    if (depth == 0 || !is_context(stack[depth - 1])) { \
        code = INVALID_CONTEXT;                         \
        goto out;                                       \
    }

static int execute(event *e)
{
    function *f = &functions[e->kernel - KNOWN];
    if (!run_ptx)
        return BAD_MODULE;
    return run_ptx(modules[f->module].text, f->entry, e->grid, e->group, (unsigned)e->size, e->args, e->args_size);
}

int cuInit(unsigned flags)
{
    CALL("cuInit");
    code = flags ? BAD_VALUE : device_count ? OK : NO_DEVICE;
    initialised = code == OK;
    spin_limit_ns = 1000000000;
    END;
}

int cuDriverGetVersion(int *version) { return *version = 13000, OK; }

int cuDeviceGetCount(int *count)
{
    CALL("cuDeviceGetCount");
    *count = device_count;
    code = initialised ? OK : NOT_INITIALIZED;
    END;
}

int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, ordinal < device_count ? OK : 101; }

int cuDeviceGetName(char *name, int size, int device) { return snprintf(name, (size_t)size, "Fake GPU %d", device), OK; }

int cuDeviceTotalMem_v2(size_t *size, int device) { return (void)device, *size = byte_limit, OK; }

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    switch (attribute) { /* CUdevice_attribute */
    case 16: return *value = 4, OK;          /* MULTIPROCESSOR_COUNT */
    case 75: return *value = 9, OK;          /* COMPUTE_CAPABILITY_MAJOR */
    case 76: return *value = 0, OK;          /* COMPUTE_CAPABILITY_MINOR */
    case 97: return *value = MAX_SHARED, OK; /* MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
    default: return BAD_VALUE;
    }
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    CALL("cuDevicePrimaryCtxRetain");
    if (device < 0 || device >= device_count) {
        code = 101;
        goto out;
    }
    retained[device]++;
    *context = contexts[device];
    END;
}

int cuCtxPushCurrent_v2(void *context)
{
    if (!is_context(context) || depth == 8)
        return INVALID_CONTEXT;
    stack[depth++] = context;
    return OK;
}

int cuCtxPopCurrent_v2(void **context)
{
    if (depth == 0)
        return INVALID_CONTEXT;
    *context = stack[--depth];
    return OK;
}

int cuMemAlloc_v2(uint64_t *address, size_t size)
{
    CHECKED("cuMemAlloc");
    pthread_mutex_unlock(&lock);
    code = size == 0 ? BAD_VALUE : fnAlloc(size, address);
    if (code == OK) { /* addresses are never used twice */
        pthread_mutex_lock(&lock);
        owners[owner_count % MODULES].address = *address;
        owners[owner_count % MODULES].context = stack[depth - 1];
        owner_count = owner_count + 1 < MODULES ? owner_count + 1 : MODULES;
        pthread_mutex_unlock(&lock);
    }
    return code;
out:
    pthread_mutex_unlock(&lock);
    return code;
}

int cuMemFree_v2(uint64_t address)
{
    CHECKED("cuMemFree");
    pthread_mutex_unlock(&lock);
    return fnFree(address);
out:
    pthread_mutex_unlock(&lock);
    return code;
}

int cuMemHostAlloc(void **host, size_t size, unsigned flags)
{
    CHECKED("cuMemHostAlloc");
    (void)flags;
    *host = malloc(size);
    pinned++;
    END;
}

int cuMemFreeHost(void *host)
{
    CHECKED("cuMemFreeHost");
    free(host);
    pinned--;
    END;
}

int cuStreamCreate(void **stream, unsigned flags)
{
    CHECKED("cuStreamCreate");
    int id;
    if (flags != 1) { /* NON_BLOCKING: the legacy stream must not order it */
        code = BAD_VALUE;
        goto out;
    }
    pthread_mutex_unlock(&lock);
    code = fnStreamCreate(&id);
    *stream = (void *)(intptr_t)(id + 1);
    return code;
out:
    pthread_mutex_unlock(&lock);
    return code;
}

static int id_of(void *stream) { return (int)(intptr_t)stream - 1; }

int cuStreamDestroy_v2(void *stream)
{
    CHECKED("cuStreamDestroy");
    pthread_mutex_unlock(&lock);
    return fnStreamDestroy(id_of(stream));
out:
    pthread_mutex_unlock(&lock);
    return code;
}

int cuStreamSynchronize(void *stream)
{
    CHECKED("cuStreamSynchronize");
    code = wait_idle(id_of(stream));
    END;
}

static event *fresh(void)
{
    event *e = calloc(1, sizeof *e);
    e->kernel = -1;
    return e;
}

/* Adds a piece of work that nobody but its stream holds. */
static int post(void *stream, event **after, int count, event *e)
{
    int code = add(id_of(stream), after, count, e);
    if (code == OK)
        drop(e);
    else
        free(e);
    return code;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *host, size_t size, void *stream)
{
    CHECKED("cuMemcpyHtoDAsync");
    uint8_t *place;
    code = wait_idle(id_of(stream));
    place = at(to, size);
    if (code == OK && !place)
        code = BAD_VALUE;
    if (code == OK)
        memcpy(place, host, size);
    END;
}

int cuMemcpyDtoHAsync_v2(void *host, uint64_t of, size_t size, void *stream)
{
    CHECKED("cuMemcpyDtoHAsync");
    uint8_t *place;
    code = wait_idle(id_of(stream));
    place = at(of, size);
    if (code == OK && !place)
        code = BAD_VALUE;
    if (code == OK)
        memcpy(host, place, size);
    END;
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t of, size_t size, void *stream)
{
    CHECKED("cuMemcpyDtoDAsync");
    event *e = fresh();
    e->to = to;
    e->of = of;
    e->size = size;
    code = at(to, size) && at(of, size) ? post(stream, NULL, 0, e) : BAD_VALUE;
    END;
}

int cuMemcpyPeerAsync(uint64_t to, void *there, uint64_t of, void *here, size_t size, void *stream)
{
    CHECKED("cuMemcpyPeerAsync");
    event *e;
    if (there == here || owner_of(to) != there || owner_of(of) != here || !at(to, size) || !at(of, size)) {
        code = BAD_VALUE;
        goto out;
    }
    e = fresh();
    e->to = to;
    e->of = of;
    e->size = size;
    code = post(stream, NULL, 0, e);
    END;
}

int cuEventCreate(mark **made, unsigned flags)
{
    CHECKED("cuEventCreate");
    code = flags ? BAD_VALUE : OK;
    *made = calloc(1, sizeof **made);
    (*made)->live = 1;
    marks++;
    END;
}

int cuEventDestroy_v2(mark *m)
{
    CHECKED("cuEventDestroy");
    if (!m->live) {
        code = BAD_HANDLE;
        goto out;
    }
    if (m->item)
        drop(m->item);
    m->live = 0;
    marks--;
    END;
}

int cuEventRecord(mark *m, void *stream)
{
    CHECKED("cuEventRecord");
    event *e;
    if (!m->live) {
        code = BAD_HANDLE;
        goto out;
    }
    e = fresh();
    code = add(id_of(stream), NULL, 0, e);
    if (m->item)
        drop(m->item);
    m->item = e;
    END;
}

int cuStreamWaitEvent(void *stream, mark *m, unsigned flags)
{
    CHECKED("cuStreamWaitEvent");
    (void)flags;
    code = m->live && m->item ? post(stream, &m->item, 1, fresh()) : BAD_HANDLE;
    END;
}

int cuEventQuery(mark *m)
{
    CHECKED("cuEventQuery");
    code = !m->live ? BAD_HANDLE : !m->item || m->item->done ? OK : NOT_READY;
    END;
}

int cuEventElapsedTime(float *milliseconds, mark *one, mark *two)
{
    CHECKED("cuEventElapsedTime");
    code = one->item && two->item && one->item->done && two->item->done ? OK : NOT_READY;
    if (code == OK)
        *milliseconds = (float)((double)(two->item->ended - one->item->ended) / 1e6);
    END;
}

int cuModuleLoadDataEx(int64_t *made, const char *image, unsigned count, int *options, void **values)
{
    CHECKED("cuModuleLoadDataEx");
    int binary = memcmp(image, "\x7f" "ELF", 4) == 0, text = strncmp(image, "//", 2) == 0 || strncmp(image, ".version", 8) == 0;
    if (!binary && !text) {
        for (unsigned i = 0; i + 1 < count; i++)
            if (options[i] == 5 && options[i + 1] == 6) /* JIT_ERROR_LOG_BUFFER and its size */
                snprintf(values[i], (size_t)(uintptr_t)values[i + 1], "ptxas application ptx input, line 1; fatal: no PTX");
        code = INVALID_PTX;
        goto out;
    }
    modules[module_count] = (module){text ? strdup(image) : NULL, 1};
    *made = ++module_count;
    END;
}

int cuModuleUnload(int64_t made)
{
    CHECKED("cuModuleUnload");
    if (made < 1 || made > module_count || !modules[made - 1].live) {
        code = BAD_HANDLE;
        goto out;
    }
    modules[made - 1].live = 0;
    END;
}

/* The sizes of an entry's parameters: `.b8 name[size]` between its parentheses. */
static int parse(function *f, const char *text, const char *entry)
{
    char head[160];
    const char *at_, *end;
    snprintf(head, sizeof head, ".entry %s(", entry);
    at_ = strstr(text, head);
    if (!at_)
        return 0;
    end = strchr(at_, ')');
    for (at_ = strchr(at_, '['); at_ && at_ < end && f->count < 4; at_ = strchr(at_ + 1, '['))
        f->sizes[f->count++] = (size_t)atol(at_ + 1);
    snprintf(f->entry, sizeof f->entry, "%s", entry);
    at_ = strstr(text, "hetir_shared["); /* what a module declares for itself */
    f->fixed = at_ ? (size_t)atol(at_ + sizeof "hetir_shared[" - 1) : 0;
    return 1;
}

int cuModuleGetFunction(int64_t *made, int64_t of, const char *entry)
{
    CHECKED("cuModuleGetFunction");
    function f = {.module = (int)of - 1};
    if (of < 1 || of > module_count || !modules[of - 1].live || !modules[of - 1].text) {
        code = BAD_HANDLE;
        goto out;
    }
    if (!parse(&f, modules[of - 1].text, entry)) {
        code = NOT_FOUND;
        goto out;
    }
    f.kernel = function_count + KNOWN;
    for (int i = 0; i < KNOWN; i++)
        if (strcmp(kernels[i].name, entry) == 0)
            f.kernel = i;
    functions[function_count++] = f;
    *made = function_count;
    END;
}

int cuFuncSetAttribute(int64_t f, int attribute, int value)
{
    CHECKED("cuFuncSetAttribute");
    code = f < 1 || f > function_count ? BAD_HANDLE : attribute != 8 || value > MAX_SHARED ? BAD_VALUE : OK;
    if (code == OK)
        functions[f - 1].dynamic = value;
    END;
}

/* CUDA C++ Programming Guide, compute capability 9.0: 64 warps, 32 blocks and 228 KiB of shared
 * memory a multiprocessor, 1 KiB of which the system takes for each block. */
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, int64_t which, int items, size_t shared)
{
    CHECKED("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    if (which < 1 || which > function_count || items < 1 || items > 1024) {
        code = BAD_VALUE;
        goto out;
    }
    size_t own = functions[which - 1].fixed + shared, taken = (own + 127) / 128 * 128 + 1024;
    int warps = (items + 31) / 32, by_shared = (int)(228 * 1024 / taken);
    *blocks = 64 / warps < 32 ? 64 / warps : 32;
    if (by_shared < *blocks)
        *blocks = by_shared;
    END;
}

int cuLaunchKernel(int64_t which, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **params, void **extra)
{
    CHECKED("cuLaunchKernel");
    function *f = &functions[which - 1];
    event *e;
    size_t size = 0;
    int64_t launch[11];
    if (which < 1 || which > function_count) {
        code = BAD_HANDLE;
        goto out;
    }
    if (extra || !gx || !gy || !gz || gy > 65535 || gz > 65535 || (uint64_t)bx * by * bz > 1024 ||
        (shared > STATIC_SHARED && (int)shared > f->dynamic)) {
        code = BAD_VALUE;
        goto out;
    }
    e = fresh();
    e->kernel = f->kernel;
    memcpy(e->grid, (int64_t[]){gx, gy, gz}, 24);
    memcpy(e->group, (int64_t[]){bx, by, bz}, 24);
    for (int i = 0; i < f->count; i++) { /* both sizes are multiples of 8: no padding between */
        if (size + f->sizes[i] > sizeof e->args) {
            code = BAD_VALUE;
            free(e);
            goto out;
        }
        memcpy(e->args + size, params[i], f->sizes[i]);
        size += f->sizes[i];
    }
    memcpy(launch, params[f->count - 1], sizeof launch);
    e->records = (uint64_t)launch[9];
    e->args_size = size;
    e->size = shared;
    if (f->kernel < KNOWN) { /* known kernels look at the argument block alone, and the whole grid */
        e->args_size = size - sizeof launch;
        memcpy(e->grid, launch, 24);
    }
    code = post(stream, NULL, 0, e);
    END;
}

int cuMemsetD8Async(uint64_t to, unsigned char value, size_t size, void *stream)
{
    CHECKED("cuMemsetD8Async");
    uint8_t *place;
    code = wait_idle(id_of(stream));
    place = at(to, size);
    if (code == OK && !place)
        code = BAD_VALUE;
    if (code == OK)
        memset(place, value, size);
    END;
}

/* Eight workgroups run at once here. */
int cuLaunchCooperativeKernel(int64_t which, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                              unsigned by, unsigned bz, unsigned shared, void *stream, void **params)
{
    if ((uint64_t)gx * gy * gz > 8)
        return 720;
    return cuLaunchKernel(which, gx, gy, gz, bx, by, bz, shared, stream, params, NULL);
}

/* Graphs: a list of launches with copies of their parameters. Nodes run in the order in which they
 * were added, which every legal set of edges allows: an edge must come from an earlier node. */
typedef struct {
    void *function;
    unsigned shape[7];
    void **parameters, **extra;
} kernel_node;

typedef struct {
    kernel_node given;
    uint8_t bytes[2][4096];
} node;

typedef struct {
    int live, count, edges;
    node *nodes[64];
} graph;

static int graphs;

static int fill_node(node *to, const kernel_node *given)
{
    function *f = &functions[(int64_t)(intptr_t)given->function - 1];
    to->given = *given;
    for (int i = 0; i < f->count; i++) {
        if (f->sizes[i] > sizeof to->bytes[i])
            return BAD_VALUE;
        memcpy(to->bytes[i], given->parameters[i], f->sizes[i]);
    }
    return OK;
}

int cuGraphCreate(graph **out, unsigned flags)
{
    CHECKED("cuGraphCreate");
    *out = calloc(1, sizeof **out);
    (*out)->live = 1;
    graphs++;
    code = flags ? BAD_VALUE : OK;
    END;
}

int cuGraphAddKernelNode(node **out, graph *g, node **after, size_t count, const kernel_node *given)
{
    CHECKED("cuGraphAddKernelNode");
    for (size_t i = 0; i < count; i++) {
        int known = 0;
        for (int j = 0; j < g->count; j++)
            known |= g->nodes[j] == after[i];
        if (!known)
            code = BAD_HANDLE;
    }
    if (code == OK && g->count < 64) {
        *out = g->nodes[g->count++] = calloc(1, sizeof **out);
        code = fill_node(*out, given);
        g->edges += (int)count;
    }
    END;
}

/* The executable form is a graph of its own, so that one can be destroyed without the other. */
int cuGraphInstantiateWithFlags(graph **out, graph *g, unsigned long long flags)
{
    CHECKED("cuGraphInstantiate");
    *out = malloc(sizeof **out);
    **out = *g;
    graphs++;
    code = flags || !g->live ? BAD_VALUE : OK;
    END;
}

int cuGraphExecKernelNodeSetParams(graph *executable, node *which, const kernel_node *given)
{
    CHECKED("cuGraphExecKernelNodeSetParams");
    code = executable->live ? fill_node(which, given) : BAD_HANDLE;
    END;
}

static int begin_graph(graph *executable)
{
    CHECKED("cuGraphLaunch");
    code = executable->live ? OK : BAD_HANDLE;
    END;
}

int cuGraphLaunch(graph *executable, void *stream)
{
    int status = begin_graph(executable);
    for (int i = 0; status == OK && i < executable->count; i++) {
        node *n = executable->nodes[i];
        void *params[2] = {n->bytes[0], n->bytes[1]};
        const unsigned *s = n->given.shape;
        status = cuLaunchKernel((int64_t)(intptr_t)n->given.function, s[0], s[1], s[2], s[3], s[4],
                                s[5], s[6], stream, params, NULL);
    }
    return status;
}

static int end_graph(graph *g, const char *name)
{
    CALL(name);
    code = g->live ? OK : BAD_HANDLE;
    g->live = 0;
    graphs--;
    END;
}

int cuGraphExecDestroy(graph *g) { return end_graph(g, "cuGraphExecDestroy"); }
int cuGraphDestroy(graph *g) { return end_graph(g, "cuGraphDestroy"); }
int fakeGraphs(void) { return graphs; }
int fakeEdges(graph *g) { return g->edges; }

int cuGetErrorName(int code, const char **name)
{
    switch (code) {
    case BAD_VALUE: return *name = "CUDA_ERROR_INVALID_VALUE", OK;
    case NO_MEMORY: return *name = "CUDA_ERROR_OUT_OF_MEMORY", OK;
    case NO_DEVICE: return *name = "CUDA_ERROR_NO_DEVICE", OK;
    case INVALID_CONTEXT: return *name = "CUDA_ERROR_INVALID_CONTEXT", OK;
    case INVALID_PTX: return *name = "CUDA_ERROR_INVALID_PTX", OK;
    case BAD_HANDLE: return *name = "CUDA_ERROR_INVALID_HANDLE", OK;
    case NOT_FOUND: return *name = "CUDA_ERROR_NOT_FOUND", OK;
    case BAD_ADDRESS: return *name = "CUDA_ERROR_ILLEGAL_ADDRESS", OK;
    case 720: return *name = "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", OK;
    default: return *name = NULL, BAD_VALUE;
    }
}

/* For tests. */
void fakeSetExecutor(executor *run) { run_ptx = run; }
void fakeSetDevices(int count) { device_count = count; }
int fakeMarks(void) { return marks; }
int fakeDepth(void) { return depth; }
int fakeModules(void)
{
    int count = 0;
    for (int i = 0; i < module_count; i++)
        count += modules[i].live;
    return count;
}
int fakeAllocation(int index, uint64_t *address, uint64_t *size, void **bytes)
{
    while (index < allocation_count && !allocations[index].live)
        index++;
    if (index >= allocation_count)
        return -1;
    *address = allocations[index].address;
    *size = allocations[index].size;
    *bytes = allocations[index].bytes;
    return index + 1;
}
