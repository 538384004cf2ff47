/* The CPU: object code on the runtime's pool, on the program's own memory. */
#include <stdio.h>
#include <stdlib.h>

#include "hetir_runtime.h"
#include "internal.h"

enum { MOST_ITEMS = 4096 };

#if defined(__x86_64__)

/* The x86-64 level of this machine, 1 to 4; HETIR_CPU_LEVEL lowers it. */
static int level(void)
{
    const char *asked = getenv("HETIR_CPU_LEVEL");
    int found = 1;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt"))
        found = 2;
    if (found == 2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"))
        found = 3;
    if (found == 3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        found = 4;
    if (asked && asked[0] >= '1' && asked[0] <= '4' && !asked[1] && asked[0] - '0' < found)
        found = asked[0] - '0';
    return found;
}

static int rank(const hetir_device *device, const char *target)
{
    static const char *const levels[] = {"cpu:x86-64", "cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4"};
    (void)device;
    for (int i = 0; i < 4; i++)
        if (strcmp(target, levels[i]) == 0)
            return i < level() ? i + 1 : 0;
    return 0;
}

#else

static int rank(const hetir_device *device, const char *target)
{
    (void)device;
    return strcmp(target, "cpu:aarch64") == 0;
}

#endif

static hetir_result allocate(hetir_device *device, hetir_buffer *buffer)
{
    size_t rounded = (buffer->size + 63) / 64 * 64;
    (void)device;
    buffer->token = rounded < buffer->size ? NULL : aligned_alloc(64, rounded ? rounded : 64);
    buffer->address = (uint64_t)(uintptr_t)buffer->token;
    return buffer->token ? HETIR_OK
                         : hetir_fail(HETIR_OUT_OF_MEMORY, "no memory for %zu bytes", buffer->size);
}

static void release(hetir_buffer *buffer)
{
    free(buffer->token);
}

static hetir_result write(hetir_buffer *buffer, size_t offset, const void *data, size_t size)
{
    memcpy((uint8_t *)buffer->token + offset, data, size);
    return HETIR_OK;
}

static hetir_result read(const hetir_buffer *buffer, size_t offset, void *data, size_t size)
{
    memcpy(data, (const uint8_t *)buffer->token + offset, size);
    return HETIR_OK;
}

static hetir_result load(hetir_device *device, const program_source *source, void **program)
{
    char message[256] = "";
    (void)device;
    *program = hetir_program_load(source->code, source->code_size, source->entry, source->shared_bytes,
                                  source->item_bytes, message, sizeof message);
    return *program ? HETIR_OK : hetir_fail(HETIR_DEVICE_FAILED, "%s", message);
}

static void unload(hetir_device *device, void *program)
{
    (void)device;
    hetir_program_free(program);
}

static hetir_result launch(hetir_device *device, void *program, const launch_request *request)
{
    const int64_t *g = request->grid, *w = request->workgroup;
    uint8_t *records = request->records ? request->records->token : NULL;
    hetir_job *job = NULL;
    int status = hetir_run(program, request->block, request->block_size, g[0], g[1], g[2], w[0], w[1],
                           w[2], records, -1, &job);
    (void)device;
    hetir_job_free(job);
    if (status == HETIR_NO_MEMORY)
        return hetir_fail(HETIR_OUT_OF_MEMORY, "no memory for the shared and private memory of a grid");
    return status == HETIR_DONE ? HETIR_OK
                                : hetir_fail(HETIR_DEVICE_FAILED, "the launch was lost, status %d", status);
}

static const device_calls calls = {rank, allocate, release, write, read, load, unload, launch};

int hetir_probe_cpu(hetir_device **devices, int count)
{
    hetir_device *made = hetir_device_new("cpu", -1, &calls, NULL);
    if (!made || hetir_threads() < 1) { /* HETIR_NUM_THREADS is no number */
        free(made);
        return count;
    }
    snprintf(made->title, sizeof made->title, "CPU, %d threads", hetir_threads());
    made->most_items = MOST_ITEMS;
    devices[count] = made;
    return count + 1;
}
