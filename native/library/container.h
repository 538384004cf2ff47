/* A hetbin in memory, checked; docs/hetbin-format.md has the tables. */
#ifndef HETIR_CONTAINER_H
#define HETIR_CONTAINER_H

#include <stddef.h>
#include <stdint.h>

enum table_name {
    KERNELS, PARAMETERS, SLOTS, PAYLOADS, VARIANTS, SITES, FENCES, POINTS, BLOBS, WORDS, STRINGS,
    TABLES
};

typedef struct {
    const uint8_t *data;
    uint64_t size;
    struct {
        uint32_t offset, count, size;
    } tables[TABLES];
} container;

typedef struct {
    uint32_t first, count;
} range;

typedef struct {
    uint32_t offset, parameter, type;
    int32_t ndim;
    uint32_t flags, unit_axes, zero_axes;
    range path;
} slot_row;

typedef struct {
    uint32_t name, signature, reason, file, line, module, subgroup_size, flags, args_size, zero;
    range parameters, slots, payloads, points;
} kernel_row;

typedef struct {
    uint32_t target, entry, kind, code, text, workgroup[3], index_bits, flags;
    uint64_t aligned, shared_bytes, item_bytes;
    uint32_t subgroup_size;
    range sites, variants;
} payload_row;

typedef struct {
    uint32_t kind, format;
    range types;
    uint32_t file, line;
} site_row;

enum { KIND_CPU = 1, KIND_PTX = 2, KIND_SPIRV = 3 };
enum { COOPERATIVE = 1, READS = 1, WRITES = 2, DISJOINT = 1 };
#define NO_BLOB UINT32_MAX

/* Checks all of a file; false with a sentence, and `*newer` for a newer major version. */
int container_check(container *c, const uint8_t *data, uint64_t size, int *newer, char *message,
                    size_t message_size);

kernel_row container_kernel(const container *c, uint32_t index);
slot_row container_slot(const container *c, uint32_t index);
payload_row container_payload(const container *c, uint32_t index);
site_row container_site(const container *c, uint32_t index);
uint32_t container_word(const container *c, uint32_t index);
const char *container_parameter(const container *c, uint32_t index);
const char *container_parameter_type(const container *c, uint32_t index);
const char *container_string(const container *c, uint32_t at);
const uint8_t *container_blob(const container *c, uint32_t index, uint64_t *size);

#endif
