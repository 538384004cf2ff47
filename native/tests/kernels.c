/* Kernels with the runtime's calling convention, compiled to a relocatable object for the tests. */
#include <math.h>
#include <string.h>

#include "hetir_runtime.h"
#include "kernels.h"

#define KERNEL(name)                                                                           \
    void name(const uint8_t *args, const hetir_launch *launch, uint8_t *scratch, int64_t first, \
              int64_t last)

static uint64_t add(uint64_t *to, uint64_t value)
{
    return __atomic_fetch_add(to, value, __ATOMIC_SEQ_CST);
}

KERNEL(count_groups)
{
    const count_args *a = (const void *)args;
    (void)launch, (void)scratch;
    for (int64_t g = first; g < last; g++)
        __atomic_fetch_add(&a->seen[g], 1, __ATOMIC_RELAXED);
}

KERNEL(sum_ranges)
{
    (void)launch, (void)scratch;
    add(((const sum_args *)args)->total, (uint64_t)(last - first));
}

/* Shared memory first, 64-byte aligned, then 24 bytes for each of 4 work-items. */
KERNEL(use_scratch)
{
    uint64_t *bad = ((const sum_args *)args)->total;
    for (int64_t g = first; g < last; g++) {
        if ((uintptr_t)scratch & 63 || launch->group_size[0] != 4 || launch->num_groups[0] != 5000)
            add(bad, 1);
        memset(scratch, (int)(g & 0xff), 1024 + 4 * 24);
        for (int i = 0; i < 1024 + 4 * 24; i++)
            if (scratch[i] != (g & 0xff))
                add(bad, 1);
    }
}

KERNEL(chain_step)
{
    const chain_args *a = (const void *)args;
    (void)launch, (void)scratch;
    for (int64_t g = first; g < last; g++) {
        uint64_t before = add(&a->state[0], 1);
        if (before < a->step * a->groups || before >= (a->step + 1) * a->groups)
            add(&a->state[1], 1);
    }
}

KERNEL(wait_for)
{
    const wait_args *a = (const void *)args;
    (void)launch, (void)scratch, (void)first, (void)last;
    while (__atomic_load_n(a->go, __ATOMIC_SEQ_CST) == 0) {
    }
}

KERNEL(until_stopped)
{
    (void)args, (void)scratch, (void)first, (void)last;
    while (__atomic_load_n(launch->stop, __ATOMIC_SEQ_CST) == 0) {
    }
}

static const double table[4] = {1.5, 2.5, 3.5, 4.5};
static uint64_t counter = 40;
static uint64_t zeroed[8];
static const double *pointers[2] = {&table[1], &table[3]};
double (*volatile rounding)(double) = floor;

static int chosen(int which)
{
    switch (which) { /* a jump table */
    case 0: return 11;
    case 1: return -7;
    case 2: return 5;
    case 3: return 90;
    case 4: return 13;
    case 5: return 66;
    default: return 0;
    }
}

KERNEL(uses_everything)
{
    volatile double x = 2.75;
    volatile int which = 3;
    volatile size_t n = 200;
    uint8_t from[256], to[256];
    (void)launch, (void)scratch, (void)last;
    memset(from, 7, n);
    memcpy(to, from, n);
    counter += 2;
    zeroed[3] += 1;
    *((const sum_args *)args)->total =
        to[199] == 7 && counter == 42 && zeroed[3] == 1 && zeroed[0] == 0 && *pointers[1] == 4.5 &&
        rounding(x) == 2.0 && fma(x, x, -7.5625) == 0.0 && fmaf(2.0f, (float)x, 1.0f) == 6.5f &&
        fmod(x, 2.0) == 0.75 && chosen(which) == 90 && first == 0;
}
