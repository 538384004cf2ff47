/* From arguments to the canonical block, and what a launch may rely on. */
#ifndef HETIR_ARGUMENTS_H
#define HETIR_ARGUMENTS_H

#include "internal.h"

enum { MOST_ARRAYS = 64 };

typedef struct {
    uint8_t *block; /* of the kernel's size, zeroed by the caller */
    hetir_buffer *arrays[MOST_ARRAYS];
    uint32_t places[MOST_ARRAYS]; /* where the block has their addresses */
    uint64_t lows[MOST_ARRAYS], highs[MOST_ARRAYS];
    uint8_t writes[MOST_ARRAYS];
    uint32_t array_count;
    int wide, meets;
    uint64_t aligned; /* a bit for each slot */
} packed;

/* Packs the arguments of a specialisation; HETIR_BAD_ARGUMENT with a sentence for what it was not
 * built for. */
hetir_result hetir_pack(const hetir_kernel *kernel, const kernel_row *row, const hetir_device *device,
                        const int64_t *grid, const int64_t *workgroup, const hetir_argument *arguments,
                        size_t count, packed *to);

#endif
