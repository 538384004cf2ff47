/* The conformance kernels for the CPU driver, with the runtime's calling convention. */
#include <stdint.h>
#include <string.h>

#include "hetir_runtime.h"

#define KERNEL(name)                                                                           \
    void name(const uint8_t *args, const hetir_launch *launch, uint8_t *scratch, int64_t first, \
              int64_t last)

typedef struct { float a; int32_t pad; float *x; int64_t nx, sx; float *y; int64_t ny, sy; } saxpy_args;

static int64_t group_items(const hetir_launch *l)
{
    return l->group_size[0] * l->group_size[1] * l->group_size[2];
}

KERNEL(saxpy)
{
    const saxpy_args *a = (const void *)args;
    (void)scratch;
    for (int64_t i = first * group_items(launch); i < last * group_items(launch) && i < a->ny; i++) {
        float *x = (void *)((char *)a->x + i * a->sx), *y = (void *)((char *)a->y + i * a->sy);
        *y += a->a * *x;
    }
}

KERNEL(dump)
{
    uint8_t *out;
    int64_t size;
    (void)scratch, (void)last;
    memcpy(&out, args, 8);
    memcpy(&size, args + 8, 8);
    if (first == 0) {
        memcpy(out, args, (size_t)size - 48);
        memcpy(out + size - 48, launch->num_groups, 24);
        memcpy(out + size - 24, launch->group_size, 24);
    }
}

typedef struct { char *x; int64_t n, m, sn, sm; } scale_args;

KERNEL(scale2d)
{
    const scale_args *a = (const void *)args;
    (void)launch, (void)scratch, (void)last;
    for (int64_t i = 0; first == 0 && i < a->n; i++)
        for (int64_t j = 0; j < a->m; j++)
            *(float *)(a->x + i * a->sn + j * a->sm) *= 2;
}

KERNEL(fails)
{
    (void)args, (void)launch, (void)scratch, (void)first, (void)last;
}

KERNEL(spin)
{
    (void)args, (void)scratch, (void)first, (void)last;
    while (!__atomic_load_n(launch->stop, __ATOMIC_SEQ_CST)) {
    }
}

KERNEL(hang)
{
    uint32_t *go;
    (void)launch, (void)scratch, (void)first, (void)last;
    memcpy(&go, args, 8);
    while (!__atomic_load_n(go, __ATOMIC_SEQ_CST)) {
    }
}

KERNEL(writes_record)
{
    uint64_t used = 8, value = 0x1122334455667788;
    (void)args, (void)scratch;
    if (first == 0 && last > 0) {
        memcpy(launch->records + 8, &used, 8);
        memcpy(launch->records + 16, &value, 8);
    }
}
