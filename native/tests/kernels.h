/* The arguments of the kernels in kernels.c. */
#ifndef HETIR_TEST_KERNELS_H
#define HETIR_TEST_KERNELS_H
#include <stdint.h>

typedef struct {
    uint32_t *seen;
} count_args;

typedef struct {
    uint64_t *total;
} sum_args;

typedef struct {
    uint64_t *state; /* groups that ran; groups that ran out of order */
    uint64_t step, groups;
} chain_args;

typedef struct {
    uint64_t *go;
} wait_args;
#endif
