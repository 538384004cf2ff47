/* NVIDIA GPUs through libcuda, opened at run time. */
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

/* CUDA Driver API, cuda.h: attributes and options by number */
enum {
    MAJOR_ATTRIBUTE = 75, MINOR_ATTRIBUTE = 76, MAX_DYNAMIC_SHARED = 8, ERROR_LOG = 5,
    ERROR_LOG_BYTES = 6, NON_BLOCKING = 1, CUDA_NO_MEMORY = 2,
};
enum { STATIC_SHARED = 48 * 1024, LOG_BYTES = 1024, MOST_GROUPS = 65535, MOST_ITEMS = 1024 };

static struct {
    int (*init)(unsigned), (*count)(int *), (*device)(int *, int), (*name)(char *, int, int);
    int (*attribute)(int *, int, int), (*retain)(void **, int), (*push)(void *), (*pop)(void **);
    int (*allocate)(uint64_t *, size_t), (*release)(uint64_t);
    int (*to_device)(uint64_t, const void *, size_t, void *), (*to_host)(void *, uint64_t, size_t, void *);
    int (*stream)(void **, unsigned), (*synchronise)(void *);
    int (*load)(void **, const void *, unsigned, int *, void **), (*unload)(void *);
    int (*function)(void **, void *, const char *), (*set)(void *, int, int);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                  void **, void **);
    int (*cooperate)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                     void **);
    int (*fill)(uint64_t, unsigned char, size_t, void *), (*error)(int, const char **);
} cuda;

static const symbol symbols[] = {
    {&cuda.init, "cuInit"}, {&cuda.count, "cuDeviceGetCount"}, {&cuda.device, "cuDeviceGet"},
    {&cuda.name, "cuDeviceGetName"}, {&cuda.attribute, "cuDeviceGetAttribute"},
    {&cuda.retain, "cuDevicePrimaryCtxRetain"}, {&cuda.push, "cuCtxPushCurrent_v2"},
    {&cuda.pop, "cuCtxPopCurrent_v2"}, {&cuda.allocate, "cuMemAlloc_v2"},
    {&cuda.release, "cuMemFree_v2"}, {&cuda.to_device, "cuMemcpyHtoDAsync_v2"},
    {&cuda.to_host, "cuMemcpyDtoHAsync_v2"}, {&cuda.stream, "cuStreamCreate"},
    {&cuda.synchronise, "cuStreamSynchronize"}, {&cuda.load, "cuModuleLoadDataEx"},
    {&cuda.unload, "cuModuleUnload"}, {&cuda.function, "cuModuleGetFunction"},
    {&cuda.set, "cuFuncSetAttribute"}, {&cuda.launch, "cuLaunchKernel"},
    {&cuda.cooperate, "cuLaunchCooperativeKernel"}, {&cuda.fill, "cuMemsetD8Async"},
    {&cuda.error, "cuGetErrorName"},
};

typedef struct {
    void *context, *stream;
    int major, minor;
} gpu;

typedef struct {
    void *module, *function;
    unsigned shared;
    int cooperative;
} program;

/* docs/ptx.md, "Calling an entry" */
typedef struct {
    int64_t groups[3], first[3], items[3];
    uint64_t records, arrivals;
} launch_parameter;

static hetir_result failed(const char *call, int code)
{
    const char *name = NULL;
    if (code == CUDA_NO_MEMORY)
        return hetir_fail(HETIR_OUT_OF_MEMORY, "the GPU has no memory for %s", call);
    if (cuda.error(code, &name) != 0 || !name)
        name = "an unknown error";
    return hetir_fail(HETIR_DEVICE_FAILED, "%s failed with %s (%d)", call, name, code);
}

/* Makes the GPU's context this thread's own for one call, and leaves the one of before. */
#define IN_CONTEXT(state, body)                              \
    do {                                                     \
        void *before_;                                       \
        int entered_ = cuda.push((state)->context);          \
        if (entered_ != 0)                                   \
            return failed("cuCtxPushCurrent", entered_);     \
        body;                                                \
        cuda.pop(&before_);                                  \
    } while (0)

static hetir_result allocate(hetir_device *device, hetir_buffer *buffer)
{
    gpu *state = device->state;
    int code = 0;
    IN_CONTEXT(state, code = cuda.allocate(&buffer->address, buffer->size ? buffer->size : 1));
    return code ? failed("cuMemAlloc", code) : HETIR_OK;
}

static void release(hetir_buffer *buffer)
{
    gpu *state = buffer->device->state;
    void *before;
    if (cuda.push(state->context) == 0) {
        cuda.release(buffer->address);
        cuda.pop(&before);
    }
}

static hetir_result write(hetir_buffer *buffer, size_t offset, const void *data, size_t size)
{
    gpu *state = buffer->device->state;
    int code = 0;
    IN_CONTEXT(state, {
        code = cuda.to_device(buffer->address + offset, data, size, state->stream);
        code = code ? code : cuda.synchronise(state->stream);
    });
    return code ? failed("cuMemcpyHtoDAsync", code) : HETIR_OK;
}

static hetir_result read(const hetir_buffer *buffer, size_t offset, void *data, size_t size)
{
    gpu *state = buffer->device->state;
    int code = 0;
    IN_CONTEXT(state, {
        code = cuda.to_host(data, buffer->address + offset, size, state->stream);
        code = code ? code : cuda.synchronise(state->stream);
    });
    return code ? failed("cuMemcpyDtoHAsync", code) : HETIR_OK;
}

/* PTX of this capability or an older one; `a` runs on its own, `f` on its family. */
static int capability(const char *target, char *own)
{
    int number = 0, end = 0;
    *own = 0;
    if (sscanf(target, "ptx:sm_%d%n", &number, &end) != 1)
        return 0;
    *own = target[end];
    return *own == 0 || ((*own == 'a' || *own == 'f') && target[end + 1] == 0) ? number : 0;
}

static int rank(const hetir_device *device, const char *target)
{
    const gpu *state = device->state;
    char own;
    int number = capability(target, &own), here = 10 * state->major + state->minor;
    if (number == 0 || number > here || (own == 'a' && number != here) ||
        (own == 'f' && number / 10 != state->major))
        return 0;
    return number;
}

static hetir_result load_image(gpu *state, const void *image, const char *entry, program *made)
{
    char log[LOG_BYTES] = "";
    int options[2] = {ERROR_LOG, ERROR_LOG_BYTES}, code;
    void *values[2] = {log, (void *)(uintptr_t)LOG_BYTES}, *before;
    const char *call = "cuModuleLoadDataEx";
    if ((code = cuda.push(state->context)) != 0)
        return failed("cuCtxPushCurrent", code);
    code = cuda.load(&made->module, image, 2, options, values);
    if (code == 0) {
        call = "cuModuleGetFunction";
        code = cuda.function(&made->function, made->module, entry);
        if (code == 0 && made->shared) {
            call = "cuFuncSetAttribute";
            code = cuda.set(made->function, MAX_DYNAMIC_SHARED, (int)made->shared);
        }
        if (code)
            cuda.unload(made->module);
    }
    cuda.pop(&before);
    if (code && log[0])
        return hetir_fail(HETIR_DEVICE_FAILED, "%s failed (%d): %s", call, code, log);
    return code ? failed(call, code) : HETIR_OK;
}

static hetir_result load(hetir_device *device, const program_source *source, void **loaded)
{
    gpu *state = device->state;
    program *made = calloc(1, sizeof *made);
    hetir_result result;
    char own, *text = malloc(source->text_size + 1);
    if (!made || !text) {
        free(made);
        free(text);
        return hetir_fail(HETIR_OUT_OF_MEMORY, "no memory to load `%s`", source->entry);
    }
    if (source->text)
        memcpy(text, source->text, source->text_size);
    text[source->text_size] = 0;
    made->shared = source->shared_bytes > STATIC_SHARED ? (unsigned)source->shared_bytes : 0;
    made->cooperative = source->cooperative;
    /* a cubin runs on its own generation, not on an older member */
    if (source->code && capability(source->target, &own) / 10 == state->major)
        result = load_image(state, source->code, source->entry, made);
    else if (source->text)
        result = load_image(state, text, source->entry, made);
    else
        result = hetir_fail(HETIR_NO_PAYLOAD, "`%s` has no PTX for %s", source->entry, device->title);
    free(text);
    if (result != HETIR_OK)
        free(made);
    else
        *loaded = made;
    return result;
}

static void unload(hetir_device *device, void *loaded)
{
    gpu *state = device->state;
    program *made = loaded;
    void *before;
    if (cuda.push(state->context) == 0) {
        cuda.unload(made->module);
        cuda.pop(&before);
    }
    free(made);
}

static unsigned piece(int64_t left, int64_t most)
{
    return (unsigned)(left < most ? left : most);
}

/* One launch, or several where the grid is too large in y or z. */
static int launch_pieces(gpu *state, program *made, const launch_request *r, launch_parameter *given)
{
    void *parameters[2] = {r->block, given};
    void **from = r->block_size ? parameters : parameters + 1;
    const int64_t *g = r->grid, *w = r->workgroup;
    const int64_t most[3] = {INT32_MAX, MOST_GROUPS, MOST_GROUPS};
    int code = 0;
    for (int64_t z = 0; z < g[2] && !code; z += most[2])
        for (int64_t y = 0; y < g[1] && !code; y += most[1])
            for (int64_t x = 0; x < g[0] && !code; x += most[0]) {
                const int64_t first[3] = {x, y, z};
                for (int i = 0; i < 3; i++) {
                    given->first[i] = first[i];
                    given->items[i] = first[i] * w[i];
                }
                code = cuda.launch(made->function, piece(g[0] - x, most[0]), piece(g[1] - y, most[1]),
                                   piece(g[2] - z, most[2]), (unsigned)w[0], (unsigned)w[1],
                                   (unsigned)w[2], made->shared, state->stream, from, NULL);
            }
    return code;
}

static int launch_together(gpu *state, program *made, const launch_request *r, launch_parameter *given)
{
    void *parameters[2] = {r->block, given};
    const int64_t *g = r->grid, *w = r->workgroup;
    int code = cuda.allocate(&given->arrivals, 8);
    if (code)
        return code;
    code = cuda.fill(given->arrivals, 0, 8, state->stream);
    if (!code)
        code = cuda.cooperate(made->function, (unsigned)g[0], (unsigned)g[1], (unsigned)g[2],
                              (unsigned)w[0], (unsigned)w[1], (unsigned)w[2], made->shared,
                              state->stream, r->block_size ? parameters : parameters + 1);
    if (!code)
        code = cuda.synchronise(state->stream);
    cuda.release(given->arrivals);
    return code;
}

static hetir_result launch(hetir_device *device, void *loaded, const launch_request *r)
{
    gpu *state = device->state;
    program *made = loaded;
    launch_parameter given = {.records = r->records ? r->records->address : 0};
    int code = 0;
    memcpy(given.groups, r->grid, sizeof given.groups);
    if (made->cooperative && (r->grid[0] > INT32_MAX || r->grid[1] > MOST_GROUPS || r->grid[2] > MOST_GROUPS))
        return hetir_fail(HETIR_BAD_SHAPE, "the grid is too large to run at once");
    IN_CONTEXT(state, {
        code = (made->cooperative ? launch_together : launch_pieces)(state, made, r, &given);
        if (!code)
            code = cuda.synchronise(state->stream);
    });
    return code ? failed("the launch", code) : HETIR_OK;
}

static const device_calls calls = {rank, allocate, release, write, read, load, unload, launch};

static hetir_device *open_device(int ordinal)
{
    int device;
    void *before;
    gpu *state = calloc(1, sizeof *state);
    hetir_device *made = hetir_device_new("cuda", ordinal, &calls, state);
    if (state && made && cuda.device(&device, ordinal) == 0 &&
        cuda.name(made->title, (int)sizeof made->title, device) == 0 &&
        cuda.attribute(&state->major, MAJOR_ATTRIBUTE, device) == 0 &&
        cuda.attribute(&state->minor, MINOR_ATTRIBUTE, device) == 0 &&
        cuda.retain(&state->context, device) == 0 && cuda.push(state->context) == 0) {
        int code = cuda.stream(&state->stream, NON_BLOCKING);
        cuda.pop(&before);
        made->most_items = MOST_ITEMS;
        if (code == 0)
            return made;
    }
    free(state);
    free(made);
    return NULL;
}

int hetir_probe_cuda(hetir_device **devices, int count)
{
    int found = 0;
    if (!hetir_resolve("HETIR_LIBCUDA", "libcuda.so.1", symbols, sizeof symbols / sizeof symbols[0]))
        return count;
    if (cuda.init(0) != 0 || cuda.count(&found) != 0)
        return count;
    for (int i = 0; i < found && count < MOST_DEVICES; i++)
        if ((devices[count] = open_device(i)))
            count++;
    return count;
}
