"""Programs for the Ascend C shim: many bodies in one translation unit, run one at a time."""

from functools import lru_cache

import numpy as np
import pytest

from hetir.emulator.ascend import Shape, compilers, launch_block, run

needs_compiler = pytest.mark.skipif(not compilers(), reason="no C++ compiler is here")

EACH_COMPILER = [
    pytest.param(n, marks=pytest.mark.skipif(n not in compilers(), reason=f"no {n} is here"))
    for n in ("g++", "clang++")
]

HEAD = '#include "kernel_operator.h"\n\nusing namespace AscendC;\n'
SIMT_HEAD = '#include "simt_api/asc_simt.h"\n#include "simt_api/asc_fp16.h"\n'

_OPEN = """
extern "C" __global__ __aicore__ void {name}(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR launch) {{
    GlobalTensor<float> x, y;
    GlobalTensor<int32_t> z;
    x.SetGlobalBuffer((__gm__ float *)a);
    y.SetGlobalBuffer((__gm__ float *)b);
    z.SetGlobalBuffer((__gm__ int32_t *)c);
    TPipe pipe;
{body}
    (void)launch;
}}
"""
_SIMT_OPEN = """
__global__ __launch_bounds__(256) void {name}(float *x, float *y, int32_t *z,
                                              __gm__ uint8_t *launch) {{
    const uint32_t t = threadIdx.x;
{body}
    (void)x, (void)y, (void)z, (void)launch, (void)t;
}}
"""


def unit(programs, *, simt=False):
    """One source with a kernel for each named body: x, y of floats and z of int32 are at hand."""
    form = _SIMT_OPEN if simt else _OPEN
    kernels = [form.format(name=name, body=body.rstrip()) for name, body in programs.items()]
    return (SIMT_HEAD if simt else HEAD) + "".join(kernels)


def line_of(source, name, text):
    """The number of the only line of a kernel that holds a text."""
    lines = source.splitlines()
    start = next(i for i, line in enumerate(lines) if f"void {name}(" in line)
    return next(i for i in range(start, len(lines)) if text in lines[i]) + 1


@lru_cache
def numbers(size):
    """The same normal numbers for everybody."""
    return np.random.default_rng(7).standard_normal(size).astype(np.float32)


def call(source, name, *, arch="910b", size=1000, blocks=1, workgroup=32, grid=1, **options):
    """Run one kernel on fresh arrays; gives the report and the arrays x, y, z."""
    x, y = numbers(size).copy(), np.zeros(size, np.float32)
    z = np.arange(size, dtype=np.int32) * (not options.pop("zero", False))
    x.flags.writeable = options.pop("write_x", False)
    shape = Shape(grid=(grid, 1, 1), workgroup=(workgroup, 1, 1))
    block = launch_block(shape, np.int64(size).tobytes())
    report = run(
        source,
        arch=arch,
        arrays=[x, y, z],
        launch_block=block,
        blocks=blocks,
        entry=name,
        **options,
    )
    return report, (x, y, z)
