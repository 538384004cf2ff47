/* OpenCL devices that take SPIR-V, through the system's loader, opened at run time.
 *
 * A kernel's arguments are those of docs/spirv.md. Unlike the Python runtime this does not try a
 * device's arithmetic first. */
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

/* OpenCL 3.0, cl.h */
typedef void *handle;
enum {
    ALL_DEVICES = -1, DEVICE_NAME = 0x102B, IL_VERSION = 0x105B, MOST_ITEMS = 0x1004,
    SINGLE_FP = 0x101B, EXACT_DIVISION = 128, READ_WRITE = 1, READ_ONLY = 4, COPY_HOST = 32,
    BUILD_LOG = 0x1183, KERNEL_ARGS = 0x1191,
};
enum { BY_VALUE_BYTES = 496, HIDDEN_BYTES = 64, LANE_BYTES = 8, MOST_PLATFORMS = 8 };
enum { SPEC_TRUE = 48, SPEC_FALSE = 49, SPIRV_HEADER = 5, SPIRV_MAGIC = 0x07230203 };

static struct {
    int (*platforms)(unsigned, handle *, unsigned *);
    int (*devices)(handle, uint64_t, unsigned, handle *, unsigned *);
    int (*info)(handle, unsigned, size_t, void *, size_t *);
    handle (*context)(const intptr_t *, unsigned, const handle *, void *, void *, int *);
    handle (*queue)(handle, handle, uint64_t, int *);
    handle (*buffer)(handle, uint64_t, size_t, void *, int *);
    int (*release)(handle);
    int (*write)(handle, handle, unsigned, size_t, size_t, const void *, unsigned, const handle *, handle *);
    int (*read)(handle, handle, unsigned, size_t, size_t, void *, unsigned, const handle *, handle *);
    handle (*program)(handle, const void *, size_t, int *);
    int (*build)(handle, unsigned, const handle *, const char *, void *, void *);
    int (*log)(handle, handle, unsigned, size_t, void *, size_t *);
    int (*drop_program)(handle);
    handle (*kernel)(handle, const char *, int *);
    int (*kernel_info)(handle, unsigned, size_t, void *, size_t *);
    int (*drop_kernel)(handle);
    int (*argument)(handle, unsigned, size_t, const void *);
    int (*run)(handle, handle, unsigned, const size_t *, const size_t *, const size_t *, unsigned,
               const handle *, handle *);
    int (*finish)(handle);
} cl;

static const symbol symbols[] = {
    {&cl.platforms, "clGetPlatformIDs"}, {&cl.devices, "clGetDeviceIDs"},
    {&cl.info, "clGetDeviceInfo"}, {&cl.context, "clCreateContext"},
    {&cl.queue, "clCreateCommandQueue"}, {&cl.buffer, "clCreateBuffer"},
    {&cl.release, "clReleaseMemObject"}, {&cl.write, "clEnqueueWriteBuffer"},
    {&cl.read, "clEnqueueReadBuffer"}, {&cl.program, "clCreateProgramWithIL"},
    {&cl.build, "clBuildProgram"}, {&cl.log, "clGetProgramBuildInfo"},
    {&cl.drop_program, "clReleaseProgram"}, {&cl.kernel, "clCreateKernel"},
    {&cl.kernel_info, "clGetKernelInfo"}, {&cl.drop_kernel, "clReleaseKernel"},
    {&cl.argument, "clSetKernelArg"}, {&cl.run, "clEnqueueNDRangeKernel"}, {&cl.finish, "clFinish"},
};

typedef struct {
    handle device, context, queue, hidden;
    int exact_division;
    pthread_mutex_t lock; /* of the made-up addresses */
    uint64_t next_address;
} accelerator;

typedef struct {
    handle program, kernel;
    unsigned argument_count;
    pthread_mutex_t lock; /* arguments are state of the kernel: launches take turns */
} program;

static hetir_result failed(const char *call, int code)
{
    if (code == -4 || code == -6 || code == -61) /* the three ways to have no memory */
        return hetir_fail(HETIR_OUT_OF_MEMORY, "the device has no memory for %s (%d)", call, code);
    return hetir_fail(HETIR_DEVICE_FAILED, "%s failed with code %d", call, code);
}

static int rank(const hetir_device *device, const char *target)
{
    (void)device;
    return strcmp(target, "spirv:opencl") == 0;
}

static hetir_result allocate(hetir_device *device, hetir_buffer *buffer)
{
    accelerator *a = device->state;
    int code = 0;
    buffer->token = cl.buffer(a->context, READ_WRITE, buffer->size ? buffer->size : 1, NULL, &code);
    if (code)
        return failed("clCreateBuffer", code);
    /* OpenCL tells no addresses: these are far apart, and far from what is one on the host */
    pthread_mutex_lock(&a->lock);
    buffer->address = a->next_address;
    a->next_address += (uint64_t)1 << 41;
    pthread_mutex_unlock(&a->lock);
    return HETIR_OK;
}

static void release(hetir_buffer *buffer)
{
    cl.release(buffer->token);
}

static hetir_result write(hetir_buffer *buffer, size_t offset, const void *data, size_t size)
{
    accelerator *a = buffer->device->state;
    int code = cl.write(a->queue, buffer->token, 1, offset, size, data, 0, NULL, NULL);
    return code ? failed("clEnqueueWriteBuffer", code) : HETIR_OK;
}

static hetir_result read(const hetir_buffer *buffer, size_t offset, void *data, size_t size)
{
    accelerator *a = buffer->device->state;
    int code = cl.read(a->queue, buffer->token, 1, offset, size, data, 0, NULL, NULL);
    return code ? failed("clEnqueueReadBuffer", code) : HETIR_OK;
}

/* Sets the boolean specialisation constants, which keep sums in order; false for what is no
 * module. */
static int switch_on(uint32_t *words, size_t count)
{
    if (count < SPIRV_HEADER || words[0] != SPIRV_MAGIC)
        return 0;
    for (size_t at = SPIRV_HEADER; at < count;) {
        size_t length = words[at] >> 16;
        if (length == 0 || length > count - at)
            return 0;
        if ((words[at] & 0xFFFF) == SPEC_FALSE)
            words[at] = (uint32_t)length << 16 | SPEC_TRUE;
        at += length;
    }
    return 1;
}

static hetir_result build(accelerator *a, const program_source *source, const uint32_t *words,
                          program *made)
{
    char log[400] = "";
    int code = 0;
    made->program = cl.program(a->context, words, source->code_size, &code);
    if (code)
        return failed("clCreateProgramWithIL", code);
    code = cl.build(made->program, 1, &a->device,
                    a->exact_division ? "-cl-fp32-correctly-rounded-divide-sqrt" : "", NULL, NULL);
    if (code) {
        cl.log(made->program, a->device, BUILD_LOG, sizeof log - 1, log, NULL);
        cl.drop_program(made->program);
        return hetir_fail(HETIR_DEVICE_FAILED, "clBuildProgram failed with code %d: %s", code, log);
    }
    made->kernel = cl.kernel(made->program, source->entry, &code);
    if (!code)
        code = cl.kernel_info(made->kernel, KERNEL_ARGS, sizeof made->argument_count,
                              &made->argument_count, NULL);
    if (code)
        cl.drop_program(made->program);
    return code ? failed("clCreateKernel", code) : HETIR_OK;
}

static hetir_result load(hetir_device *device, const program_source *source, void **loaded)
{
    program *made = calloc(1, sizeof *made);
    uint32_t *words = malloc(source->code_size + 4);
    hetir_result result;
    if (!made || !words)
        result = hetir_fail(HETIR_OUT_OF_MEMORY, "no memory to load `%s`", source->entry);
    else if (!source->code || source->code_size % 4)
        result = hetir_fail(HETIR_BAD_FILE, "the code of `%s` is no SPIR-V", source->entry);
    else {
        memcpy(words, source->code, source->code_size);
        result = switch_on(words, source->code_size / 4)
                     ? build(device->state, source, words, made)
                     : hetir_fail(HETIR_BAD_FILE, "the code of `%s` is no SPIR-V", source->entry);
    }
    free(words);
    if (result != HETIR_OK) {
        free(made);
        return result;
    }
    pthread_mutex_init(&made->lock, NULL);
    *loaded = made;
    return HETIR_OK;
}

static void unload(hetir_device *device, void *loaded)
{
    program *made = loaded;
    (void)device;
    cl.drop_kernel(made->kernel);
    cl.drop_program(made->program);
    pthread_mutex_destroy(&made->lock);
    free(made);
}

/* Sets the arguments: arrays, the block, records, the hidden word, local memory for exchanges. */
static int set_arguments(accelerator *a, program *made, const launch_request *r, handle *block)
{
    const handle none = NULL;
    unsigned n = 0;
    int code = 0;
    for (uint32_t i = 0; i < r->array_count && !code; i++) {
        uint64_t address;
        memcpy(&address, r->block + r->places[i], 8);
        address -= r->arrays[i]->address;
        memcpy(r->block + r->places[i], &address, 8);
        code = cl.argument(made->kernel, n++, sizeof(handle), &r->arrays[i]->token);
    }
    if (r->block_size > BY_VALUE_BYTES && !code) {
        *block = cl.buffer(a->context, READ_ONLY | COPY_HOST, r->block_size, r->block, &code);
        code = code ? code : cl.argument(made->kernel, n++, sizeof(handle), block);
    } else if (r->block_size && !code)
        code = cl.argument(made->kernel, n++, r->block_size, r->block);
    if (!code)
        code = cl.argument(made->kernel, n++, sizeof(handle), r->records ? &r->records->token : &none);
    if (!code)
        code = cl.argument(made->kernel, n++, sizeof(handle), &a->hidden);
    if (!code && n < made->argument_count)
        code = cl.argument(made->kernel, n,
                           LANE_BYTES * (size_t)(r->workgroup[0] * r->workgroup[1] * r->workgroup[2]), NULL);
    return code;
}

static hetir_result launch(hetir_device *device, void *loaded, const launch_request *r)
{
    accelerator *a = device->state;
    program *made = loaded;
    size_t total[3], items[3];
    handle block = NULL;
    int code;
    for (int i = 0; i < 3; i++) {
        items[i] = (size_t)r->workgroup[i];
        if (__builtin_mul_overflow((size_t)r->grid[i], items[i], &total[i]))
            return hetir_fail(HETIR_BAD_SHAPE, "the grid is too large");
    }
    pthread_mutex_lock(&made->lock);
    code = set_arguments(a, made, r, &block);
    if (!code)
        code = cl.run(a->queue, made->kernel, 3, NULL, total, items, 0, NULL, NULL);
    pthread_mutex_unlock(&made->lock);
    if (!code)
        code = cl.finish(a->queue);
    if (block)
        cl.release(block);
    return code ? failed("the launch", code) : HETIR_OK;
}

static const device_calls calls = {rank, allocate, release, write, read, load, unload, launch};

static hetir_device *open_device(handle device, int number)
{
    char language[256] = "";
    uint8_t zeros[HIDDEN_BYTES] = {0};
    uint64_t floats = 0;
    size_t most = 0;
    int code = 0;
    accelerator *a;
    hetir_device *made;
    if (cl.info(device, IL_VERSION, sizeof language - 1, language, NULL) || !strstr(language, "SPIR-V"))
        return NULL;
    a = calloc(1, sizeof *a);
    made = hetir_device_new("opencl", number, &calls, a);
    if (a && made && !cl.info(device, DEVICE_NAME, sizeof made->title - 1, made->title, NULL) &&
        !cl.info(device, MOST_ITEMS, sizeof most, &most, NULL) &&
        !cl.info(device, SINGLE_FP, sizeof floats, &floats, NULL)) {
        a->device = device;
        a->exact_division = (floats & EXACT_DIVISION) != 0;
        a->next_address = (uint64_t)1 << 56;
        pthread_mutex_init(&a->lock, NULL);
        made->most_items = (int64_t)most;
        a->context = cl.context(NULL, 1, &device, NULL, NULL, &code);
        if (!code)
            a->queue = cl.queue(a->context, device, 0, &code);
        if (!code)
            a->hidden = cl.buffer(a->context, READ_WRITE | COPY_HOST, sizeof zeros, zeros, &code);
        if (!code)
            return made;
    }
    free(a);
    free(made);
    return NULL;
}

int hetir_probe_opencl(hetir_device **devices, int count)
{
    handle platforms[MOST_PLATFORMS], found[MOST_DEVICES];
    unsigned platform_count = 0, device_count = 0;
    int number = 0;
    if (!hetir_resolve("HETIR_LIBOPENCL", "libOpenCL.so.1", symbols, sizeof symbols / sizeof symbols[0]))
        return count;
    if (cl.platforms(MOST_PLATFORMS, platforms, &platform_count))
        return count;
    for (unsigned i = 0; i < platform_count && i < MOST_PLATFORMS; i++) {
        if (cl.devices(platforms[i], (uint64_t)(unsigned)ALL_DEVICES, MOST_DEVICES, found, &device_count))
            continue;
        for (unsigned j = 0; j < device_count && j < MOST_DEVICES && count < MOST_DEVICES; j++)
            if ((devices[count] = open_device(found[j], number))) {
                count++;
                number++;
            }
    }
    return count;
}
