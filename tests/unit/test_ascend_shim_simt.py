"""The SIMT mode of the shim: right kernels in every order, wrong ones refused with the line."""

import numpy as np
import pytest

from hetir.emulator.ascend import ORDERS, sync_sites
from tests.unit.ascend_shim_support import (
    EACH_COMPILER,
    call,
    line_of,
    needs_compiler,
    numbers,
    unit,
)

pytestmark = needs_compiler
EVERY_ORDER = (*ORDERS, "random:1", "random:2", "program")

RIGHT = {
    # 16 x 16 tiles of a 32 x 32 matrix by way of shared memory, in one block of 256
    "transpose": """
    __ubuf__ float tile[16][17];
    const uint32_t r = t / 16, c = t % 16;
    for (uint32_t i = 0; i < 2; ++i) {
        for (uint32_t j = 0; j < 2; ++j) {
            tile[r][c] = x[(i * 16 + r) * 32 + j * 16 + c];
            asc_syncthreads();
            y[(j * 16 + r) * 32 + i * 16 + c] = tile[c][r];
            asc_syncthreads();
        }
    }
""",
    # a count of signs: atomics on shared, then on global memory
    "histogram": """
    __ubuf__ int32_t count[2];
    if (t < 2) {
        count[t] = 0;
    }
    asc_syncthreads();
    for (uint32_t i = blockIdx.x * 256 + t; i < 1000; i += gridDim.x * 256) {
        asc_atomic_add(&count[x[i] < 0.0f ? 1 : 0], 1);
    }
    asc_syncthreads();
    if (t < 2) {
        asc_atomic_add(z + t, count[t]);
    }
""",
    # what every block adds is told to the last one to finish
    "last_block": """
    __ubuf__ int32_t last[1];
    if (t == 0) {
        z[blockIdx.x + 1] = int32_t(blockIdx.x) * 3;
        asc_threadfence();
        last[0] = asc_atomic_add(z, 1);
        asc_threadfence();
    }
    asc_syncthreads();
    if (last[0] == int32_t(gridDim.x) - 1 && t < gridDim.x) {
        z[100 + t] = z[t + 1] + 1;
    }
""",
    # block 1 spins until block 0 has passed on a value
    "pass_on": """
    if (t == 0 && blockIdx.x == 0) {
        z[16] = 5;
        asc_threadfence();
        asc_stcg(z + 32, -7);
    } else if (t == 0 && blockIdx.x == 1) {
        while (asc_ldcg(z + 32) != -7) {
        }
        asc_threadfence();
        z[48] = z[16] + 1;
    }
""",
    # what lanes of a warp exchange
    "lanes": """
    const int32_t lane = int32_t(laneid());
    const int32_t v = z[t];
    int32_t got = asc_shfl(v, 3) + asc_shfl_up(v, 1u) * 2 + asc_shfl_down(v, 2u, 8) * 3;
    got += asc_shfl_xor(v, 5) * 5;
    got += int32_t(asc_ballot(v % 3 == 0) & 0xffffu);
    if (lane < 7) {
        got += asc_reduce_max(v) + asc_reduce_add(v) + int32_t(asc_activemask());
    } else {
        got -= asc_all(lane > 6) + asc_any(lane == 40);
    }
    z[t] = got;
""",
    # both ways to make a half, and what the float of this mode does
    "small": """
    const float v = x[t];
    const half h = __float2half_rn(v);
    y[t] = __half2float(__hadd(h, h)) + fmaf(v, 2.0f, 0.5f);
    const float tiny = 1.0e-40f;
    y[256 + t] = tiny / 1.0e-42f;
    y[512 + t] = v / 3.0f;
    z[t] = __float2int_rz(v * 10.0f);
""",
}
SOURCE = unit(RIGHT, simt=True)


def expected(name):
    x, y, z = numbers(1024), np.zeros(1024, np.float32), np.arange(1024, dtype=np.int32)
    match name:
        case "transpose":
            y[:] = x.reshape(32, 32).T.ravel()
        case "histogram":
            z[:2] += [(x[:1000] >= 0).sum(), (x[:1000] < 0).sum()]
        case "last_block":
            z[0], z[1:4], z[100:103] = 3, [0, 3, 6], [1, 4, 7]
        case "pass_on":
            z[16], z[32], z[48] = 5, -7, 6
        case "lanes":
            z[:256] = [lanes(z, i) for i in range(256)]
        case "small":
            v = x[:256]
            h = v.astype(np.float16)
            y[:256] = (h + h).astype(np.float32) + (v * np.float32(2) + np.float32(0.5))
            y[256:512] = np.nan
            y[512:768] = v / np.float32(3)
            z[:256] = np.trunc(v * np.float32(10)).astype(np.int32)
    return y, z


def lanes(z, i):
    base, lane = i // 32 * 32, i % 32
    warp = [int(v) for v in z[base : base + 32]]
    down = lane + 2 if lane % 8 < 6 else lane
    got = warp[3] + warp[max(lane - 1, 0)] * 2 + warp[down] * 3 + warp[lane ^ 5] * 5
    got += sum(1 << k for k in range(16) if warp[k] % 3 == 0)
    if lane < 7:
        return got + warp[6] + sum(warp[:7]) + 0x7F
    return got - 1


@pytest.mark.parametrize("name", RIGHT)
def test_right_kernel_is_right_in_every_order(name):
    grid = {"transpose": 1, "lanes": 1, "small": 1, "pass_on": 2}.get(name, 3)
    z = np.zeros(1024, np.int32)
    for order in EVERY_ORDER:
        options = {"order": order, "grid": grid, "workgroup": 256, "size": 1024}
        if name == "last_block":
            options["zero"] = True
        report, (_, y, z) = call(SOURCE, name, arch="950", **options)
        assert report.ok, (order, report.faults)
        want_y, want_z = expected(name)
        if name == "last_block":
            want_z[:1] = 3
            keep = [*range(4), *range(100, 103)]
            np.testing.assert_array_equal(z[keep], want_z[keep])
            continue
        np.testing.assert_array_equal(y, want_y)
        np.testing.assert_array_equal(z, want_z)


# name -> (kind, a part of the message, a text on the line at fault, the body)
WRONG = {
    "barrier_in_a_branch": (
        "barrier",
        "a divergent barrier",
        "asc_syncthreads",
        "    if (t < 40) {\n        asc_syncthreads();\n    }",
    ),
    "barrier_after_a_return": (
        "barrier",
        "waits at a barrier that thread 0 never reaches",
        "asc_syncthreads",
        "    if (t == 0) {\n        return;\n    }\n    asc_syncthreads();",
    ),
    "two_barriers": (
        "barrier",
        "divergent barriers",
        "asc_syncthreads();  // theirs",
        "    if (t == 0) {\n        asc_syncthreads();\n    } else {\n"
        "        asc_syncthreads();  // theirs\n    }",
    ),
    "shared_race": (
        "hazard",
        "reads shared memory that thread",
        "z[t] =",
        "    __ubuf__ int32_t same[64];\n    same[t] = 1;\n    z[t] = same[t == 0 ? 0 : t - 1];",
    ),
    "global_race": (
        "hazard",
        "writes global memory that thread",
        "z[0] = ",
        "    z[0] = int32_t(t);",
    ),
    "plain_beside_atomic": (
        "hazard",
        "global memory that thread",
        "asc_atomic_add",
        "    if (t == 0) {\n        z[0] = 1;\n    } else {\n        asc_atomic_add(z, 1);\n    }",
    ),
    "no_fence": (
        "hazard",
        "reads global memory that thread",
        "z[16] + 1",
        "    if (t == 0) {\n        z[16] = 5;\n        asc_stcg(z + 32, -7);\n"
        "    } else if (t == 1) {\n        while (asc_ldcg(z + 32) != -7) {\n        }\n"
        "        z[48] = z[16] + 1;\n    }",
    ),
    "read_past": (
        "bounds",
        "reads 4 bytes that end 4 bytes past the end of array 0",
        "x[1024 + t]",
        "    y[t] = x[1024 + t];",
    ),
    "write_past": (
        "bounds",
        "writes 4 bytes that end 4 bytes past the end of array 1",
        "y[1024 + t]",
        "    y[1024 + t] = 0.0f;",
    ),
    "write_read_only": (
        "bounds",
        "writes array 0, which is read-only",
        "x[t] =",
        "    x[t] = 0.0f;",
    ),
    "read_of_nothing": (
        "uninitialised",
        "reads shared memory that nobody has written",
        "z[t] =",
        "    __ubuf__ int32_t empty[64];\n    z[t] = empty[t];",
    ),
    "wide_atomic_on_shared": (
        "atomic",
        "64-bit atomic operations work on global memory alone",
        "asc_atomic_add",
        "    __ubuf__ int64_t sum[1];\n    asc_atomic_add(sum, int64_t(1));",
    ),
    "torn_atomic": (
        "alignment",
        "an atomic operation across its own size",
        "asc_atomic_add",
        "    asc_atomic_add(reinterpret_cast<int32_t *>(reinterpret_cast<char *>(z) + 2), 1);",
    ),
    "odd_width": (
        "count",
        "a width of 3: it must be a power of two",
        "asc_shfl(",
        "    z[t] = asc_shfl(z[t], 0, 3);",
    ),
    "too_much_shared": (
        "budget",
        "bytes of __ubuf__ arrays: a block has 221184",
        "",
        "    __ubuf__ int32_t large[55297];\n    large[t] = 1;\n    z[t] = large[t];",
    ),
}
WRONG_SOURCE = unit({name: case[3] for name, case in WRONG.items()}, simt=True)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_kernel_is_refused(name):
    kind, message, where, _ = WRONG[name]
    report, _ = call(WRONG_SOURCE, name, arch="950", workgroup=64, size=1024, order="oldest")
    assert len(report.faults) == 1
    fault = report.faults[0]
    assert (fault.kind, message in fault.message) == (kind, True), fault
    assert not where or fault.line == line_of(WRONG_SOURCE, name, where), fault


def test_more_threads_than_the_launch_bounds():
    report, _ = call(SOURCE, "lanes", arch="950", workgroup=257, size=1024)
    assert report.faults[0].message == "257 threads a block, but __launch_bounds__ says 256"


def test_every_barrier_and_fence_is_needed():
    for name in ("transpose", "histogram", "last_block", "pass_on"):
        start = next(i for i, row in enumerate(SOURCE.splitlines()) if f"void {name}(" in row)
        end = next((s for s in SOURCE.splitlines()[start + 1 :] if "__global__" in s), None)
        stop = SOURCE.splitlines().index(end, start + 1) if end else len(SOURCE)
        sites = [site for site in sync_sites(SOURCE) if start < site.line <= stop]
        assert sites
        for site in sites:
            options = {"grid": 3, "workgroup": 256, "size": 1024, "disabled": [site.index]}
            found = [
                call(SOURCE, name, arch="950", order=order, zero=name == "last_block", **options)[0]
                for order in ORDERS
            ]
            assert not all(report.ok for report in found), (name, site)


@pytest.mark.parametrize("compiler", EACH_COMPILER)
def test_both_compilers_take_the_same_source(compiler):
    report, (_, y, _) = call(
        SOURCE, "transpose", arch="950", workgroup=256, size=1024, compiler=compiler
    )
    assert report.ok, report.faults
    np.testing.assert_array_equal(y, expected("transpose")[0])
