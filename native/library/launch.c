/* Launches: the specialisation for the arguments, the best payload for the device, the run. */
#include <stdlib.h>

#include "arguments.h"

typedef struct {
    hetir_kernel *kernel;
    hetir_device *device;
    const int64_t *grid, *workgroup;
    kernel_row row;
    packed arguments;
} launching;

static hetir_result check_shape(const launching *l)
{
    int64_t items = 1;
    for (int axis = 0; axis < 3; axis++) {
        if (l->grid[axis] < 0)
            return hetir_fail(HETIR_BAD_SHAPE, "the grid of `%s` has the extent %lld", l->kernel->name,
                              (long long)l->grid[axis]);
        if (l->workgroup[axis] < 1 || __builtin_mul_overflow(items, l->workgroup[axis], &items))
            return hetir_fail(HETIR_BAD_SHAPE, "the workgroup of `%s` has the extent %lld",
                              l->kernel->name, (long long)l->workgroup[axis]);
    }
    if (items > l->device->most_items)
        return hetir_fail(HETIR_BAD_SHAPE, "a workgroup of %lld work-items, %s takes %lld",
                          (long long)items, l->device->name, (long long)l->device->most_items);
    return HETIR_OK;
}

/* Packs the arguments for the first specialisation that takes them. */
static hetir_result choose(launching *l, const hetir_argument *arguments, size_t count)
{
    hetir_result result = HETIR_BAD_ARGUMENT;
    for (uint32_t i = 0; i < l->kernel->row_count; i++) {
        l->row = container_kernel(&l->kernel->module->file, l->kernel->rows[i]);
        memset(&l->arguments, 0, sizeof l->arguments);
        /* all parameters may be constants: then there is no block */
        l->arguments.block = aligned_alloc(64, ((size_t)l->row.args_size + 64) / 64 * 64);
        if (!l->arguments.block)
            return hetir_fail(HETIR_OUT_OF_MEMORY, "no memory for the arguments of `%s`", l->kernel->name);
        memset(l->arguments.block, 0, l->row.args_size);
        result = hetir_pack(l->kernel, &l->row, l->device, l->grid, l->workgroup, arguments, count,
                            &l->arguments);
        if (result == HETIR_OK)
            return HETIR_OK;
        free(l->arguments.block);
        l->arguments.block = NULL;
    }
    return result;
}

static int fits(const launching *l, const payload_row *payload)
{
    int fixed = payload->workgroup[0] && payload->workgroup[1] && payload->workgroup[2];
    for (int axis = 0; axis < 3 && fixed; axis++)
        if (payload->workgroup[axis] != l->workgroup[axis])
            return 0;
    return !(payload->index_bits == 32 && l->arguments.wide) &&
           !(payload->flags & DISJOINT && l->arguments.meets) &&
           (payload->aligned & ~l->arguments.aligned) == 0;
}

/* How good a payload is for a launch on its device; 0 when it does not run. */
static int64_t rank(const launching *l, const payload_row *payload)
{
    const char *target = container_string(&l->kernel->module->file, payload->target);
    int64_t level = l->device->calls->rank(l->device, target);
    if (level <= 0 || !fits(l, payload))
        return 0;
    return level << 16 | (payload->workgroup[0] != 0) << 10 | (payload->index_bits == 32) << 9 |
           ((payload->flags & DISJOINT) != 0) << 8 | __builtin_popcountll(payload->aligned);
}

static hetir_result find_payload(const launching *l, uint32_t *index, payload_row *best)
{
    const container *file = &l->kernel->module->file;
    int64_t most = 0;
    for (uint32_t i = 0; i < l->row.payloads.count; i++) {
        payload_row payload = container_payload(file, l->row.payloads.first + i);
        int64_t found = rank(l, &payload);
        if (found > most) {
            most = found;
            *index = l->row.payloads.first + i;
            *best = payload;
        }
    }
    if (most)
        return HETIR_OK;
    return hetir_fail(HETIR_NO_PAYLOAD,
                      "%s has no code of `%s` (%s) that %s runs for such a launch; build it with "
                      "another --target or --workgroup",
                      l->kernel->module->path, l->kernel->name,
                      container_string(file, l->row.signature), l->device->name);
}

/* The payload loaded on the device, once. */
static hetir_result load(const launching *l, uint32_t index, const payload_row *payload, void **program)
{
    hetir_module *module = l->kernel->module;
    const container *file = &module->file;
    hetir_result result = HETIR_OK;
    loaded *found;
    pthread_mutex_lock(&module->lock);
    for (found = module->programs; found; found = found->next)
        if (found->payload == index && found->device == l->device)
            break;
    if (!found) {
        program_source source = {
            .entry = container_string(file, payload->entry),
            .target = container_string(file, payload->target),
            .shared_bytes = payload->shared_bytes,
            .item_bytes = payload->item_bytes,
            .block_size = l->row.args_size,
            .array_count = l->arguments.array_count,
            .cooperative = (l->row.flags & COOPERATIVE) != 0,
        };
        source.code = container_blob(file, payload->code, &source.code_size);
        source.text = container_blob(file, payload->text, &source.text_size);
        found = calloc(1, sizeof *found);
        result = found ? l->device->calls->load(l->device, &source, &found->program)
                       : hetir_fail(HETIR_OUT_OF_MEMORY, "no memory to load `%s`", l->kernel->name);
        if (result == HETIR_OK) {
            found->payload = index;
            found->device = l->device;
            found->next = module->programs;
            module->programs = found;
        } else {
            free(found);
            found = NULL;
        }
    }
    pthread_mutex_unlock(&module->lock);
    if (found)
        *program = found->program;
    return result;
}

static hetir_result make_records(hetir_device *device, hetir_buffer **records)
{
    uint64_t header[2] = {RECORD_ROOM - RECORD_HEADER, 0};
    hetir_result result = hetir_allocate(device, RECORD_ROOM, records);
    return result == HETIR_OK ? hetir_write(*records, 0, header, sizeof header) : result;
}

static hetir_result read_records(const launching *l, const payload_row *payload,
                                 const hetir_buffer *records)
{
    uint8_t *data = malloc(RECORD_ROOM);
    hetir_result result = HETIR_OK;
    if (!data)
        return hetir_fail(HETIR_OUT_OF_MEMORY, "no memory for what `%s` printed", l->kernel->name);
    result = hetir_read(records, 0, data, RECORD_ROOM);
    if (result == HETIR_OK)
        result = hetir_report(l->kernel, payload, data, RECORD_ROOM);
    free(data);
    return result;
}

static hetir_result run(const launching *l, const payload_row *payload, void *program)
{
    hetir_result result = HETIR_OK;
    launch_request request = {
        .block = l->arguments.block,
        .block_size = l->row.args_size,
        .array_count = l->arguments.array_count,
        .arrays = l->arguments.arrays,
        .places = l->arguments.places,
    };
    memcpy(request.grid, l->grid, sizeof request.grid);
    memcpy(request.workgroup, l->workgroup, sizeof request.workgroup);
    if (payload->sites.count)
        result = make_records(l->device, &request.records);
    if (result == HETIR_OK)
        result = l->device->calls->launch(l->device, program, &request);
    if (result == HETIR_OK && request.records)
        result = read_records(l, payload, request.records);
    hetir_free(request.records);
    return result;
}

/* Checks a launch and finds its payload; the caller frees the block. */
static hetir_result prepare(launching *l, const hetir_argument *arguments, size_t count, uint32_t *index,
                            payload_row *payload)
{
    hetir_result result;
    if (!l->kernel || !l->device || !l->grid || !l->workgroup || (!arguments && count))
        return hetir_fail(HETIR_BAD_ARGUMENT, "a launch takes no null pointers");
    result = check_shape(l);
    if (result == HETIR_OK)
        result = choose(l, arguments, count);
    return result == HETIR_OK ? find_payload(l, index, payload) : result;
}

hetir_result hetir_launch_grid(hetir_kernel *kernel, hetir_device *device, const int64_t grid[3],
                               const int64_t workgroup[3], const hetir_argument *arguments, size_t count)
{
    launching l = {.kernel = kernel, .device = device, .grid = grid, .workgroup = workgroup};
    payload_row payload;
    uint32_t index = 0;
    void *program = NULL;
    hetir_result result = prepare(&l, arguments, count, &index, &payload);
    if (result == HETIR_OK && grid[0] > 0 && grid[1] > 0 && grid[2] > 0) {
        result = load(&l, index, &payload, &program);
        if (result == HETIR_OK)
            result = run(&l, &payload, program);
    }
    free(l.arguments.block);
    return result;
}

hetir_result hetir_launch_1d(hetir_kernel *kernel, hetir_device *device, int64_t groups, int64_t items,
                             const hetir_argument *arguments, size_t count)
{
    const int64_t grid[3] = {groups, 1, 1}, workgroup[3] = {items, 1, 1};
    return hetir_launch_grid(kernel, device, grid, workgroup, arguments, count);
}

const char *hetir_launch_target(hetir_kernel *kernel, hetir_device *device, const int64_t grid[3],
                                const int64_t workgroup[3], const hetir_argument *arguments, size_t count)
{
    launching l = {.kernel = kernel, .device = device, .grid = grid, .workgroup = workgroup};
    payload_row payload;
    uint32_t index = 0;
    hetir_result result = prepare(&l, arguments, count, &index, &payload);
    free(l.arguments.block);
    return result == HETIR_OK ? container_string(&kernel->module->file, payload.target) : NULL;
}
