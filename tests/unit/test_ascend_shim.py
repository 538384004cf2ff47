"""Right programs give NumPy's bits under the shim in every order, and every flag is needed."""

import ml_dtypes
import numpy as np
import pytest

from hetir.emulator.ascend import (
    ORDERS,
    Shape,
    launch_block,
    removals,
    run,
    sync_sites,
)
from tests.unit.ascend_shim_support import EACH_COMPILER, HEAD, call, needs_compiler, numbers, unit

pytestmark = needs_compiler
EVERY_ORDER = (*ORDERS, "random:1", "random:2", "program")

TILE = """
    constexpr uint32_t tile = 256;
    const int64_t n = 1000;
"""
RIGHT = {
    # queues, two buffers each, ragged last tile, tiles spread over cores
    "add": TILE
    + """
    TQue<TPosition::VECIN, 2> in;
    TQue<TPosition::VECOUT, 2> out;
    pipe.InitBuffer(in, 2, tile * 4);
    pipe.InitBuffer(out, 2, tile * 4);
    for (int64_t i = GetBlockIdx() * tile; i < n; i += GetBlockNum() * tile) {
        const uint32_t count = n - i < tile ? uint32_t(n - i) : tile;
        DataCopyExtParams ext(1, count * 4, 0, 0, 0);
        auto p = in.AllocTensor<float>();
        DataCopyPad(p, x[i], ext, DataCopyPadExtParams<float>(false, 0, 0, 0));
        in.EnQue(p);
        p = in.DeQue<float>();
        auto q = out.AllocTensor<float>();
        Add(q, p, p, count);
        out.EnQue(q);
        in.FreeTensor(p);
        q = out.DeQue<float>();
        DataCopyPad(y[i], q, ext);
        out.FreeTensor(q);
    }
""",
    # explicit flags, one buffer
    "saxpy": TILE
    + """
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 2 * tile * 4);
    auto p = buffer.GetWithOffset<float>(tile, 0);
    auto q = buffer.GetWithOffset<float>(tile, tile * 4);
    for (int64_t i = GetBlockIdx() * tile; i < n; i += GetBlockNum() * tile) {
        const uint32_t count = n - i < tile ? uint32_t(n - i) : tile;
        DataCopyExtParams ext(1, count * 4, 0, 0, 0);
        DataCopyPad(p, x[i], ext, DataCopyPadExtParams<float>(false, 0, 0, 0));
        SetFlag<HardEvent::MTE2_V>(0);
        WaitFlag<HardEvent::MTE2_V>(0);
        Muls(q, p, 1.5f, count);
        PipeBarrier<PIPE_V>();
        Adds(q, q, 0.25f, count);
        SetFlag<HardEvent::V_MTE3>(1);
        WaitFlag<HardEvent::V_MTE3>(1);
        DataCopyPad(y[i], q, ext);
        SetFlag<HardEvent::MTE3_MTE2>(2);
        WaitFlag<HardEvent::MTE3_MTE2>(2);
    }
""",
    # no arithmetic between load and store
    "copy": """
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 2> both;
    pipe.InitBuffer(both, 2, 256 * 4);
    for (int i = GetBlockIdx() * 200; i < 1000; i += GetBlockNum() * 200) {
        auto p = both.AllocTensor<float>();
        DataCopy(p, x[i], 200);
        both.EnQue(p);
        p = both.DeQue<float>();
        DataCopy(y[i], p, 200);
        both.FreeTensor(p);
    }
""",
    # one core: the sum by the documented tree, its value through a scalar
    "sum": """
    if (GetBlockIdx() == 0) {
        TBuf<> buffer;
        pipe.InitBuffer(buffer, 3 * 4096);
        auto p = buffer.GetWithOffset<float>(512, 0);
        auto r = buffer.GetWithOffset<float>(8, 4096);
        auto w = buffer.GetWithOffset<float>(512, 8192);
        DataCopy(p, x, 512);
        SetFlag<HardEvent::MTE2_V>(0);
        WaitFlag<HardEvent::MTE2_V>(0);
        ReduceSum(r, p, w, 512);
        SetFlag<HardEvent::V_S>(0);
        WaitFlag<HardEvent::V_S>(0);
        y.SetValue(0, r.GetValue(0));
        DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE>(y);
    }
""",
    # lanes reversed by Gather, its offsets written by the scalar unit
    "reverse": """
    if (GetBlockIdx() == 0) {
        TBuf<> buffer;
        pipe.InitBuffer(buffer, 3 * 1024);
        auto p = buffer.GetWithOffset<float>(256, 0);
        auto q = buffer.GetWithOffset<float>(256, 1024);
        auto u = buffer.GetWithOffset<uint32_t>(256, 2048);
        for (int i = 0; i < 256; ++i) u.SetValue(i, (255 - i) * 4);
        DataCopy(p, x, 256);
        SetFlag<HardEvent::MTE2_V>(0);
        WaitFlag<HardEvent::MTE2_V>(0);
        SetFlag<HardEvent::S_V>(1);
        WaitFlag<HardEvent::S_V>(1);
        Gather(q, p, u, 0, 256);
        SetFlag<HardEvent::V_MTE3>(2);
        WaitFlag<HardEvent::V_MTE3>(2);
        DataCopy(y, q, 256);
    }
""",
    # where x < 0.5 take x, else 2
    "choose": """
    if (GetBlockIdx() == 0) {
        TBuf<> buffer;
        pipe.InitBuffer(buffer, 3 * 4096);
        auto p = buffer.GetWithOffset<float>(1024, 0);
        auto q = buffer.GetWithOffset<float>(1024, 4096);
        auto m = buffer.GetWithOffset<uint8_t>(128, 8192);
        DataCopy(p, x, 1000);
        SetFlag<HardEvent::MTE2_V>(0);
        WaitFlag<HardEvent::MTE2_V>(0);
        CompareScalar(m, p, 0.5f, CMPMODE::LT, 1024);
        PipeBarrier<PIPE_V>();
        Select(q, m, p, 2.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 1000);
        SetFlag<HardEvent::V_MTE3>(2);
        WaitFlag<HardEvent::V_MTE3>(2);
        DataCopy(y, q, 1000);
    }
""",
    # every core adds the same ones
    "add_atomically": """
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 4096);
    auto p = buffer.GetWithOffset<int32_t>(1000, 0);
    Duplicate(p, int32_t(GetBlockIdx() + 1), 1000);
    SetFlag<HardEvent::V_MTE3>(2);
    WaitFlag<HardEvent::V_MTE3>(2);
    SetAtomicAdd<int32_t>();
    DataCopy(z, p, 1000);
    SetAtomicNone();
""",
    # each core writes its part, all meet, each reads another's part
    "meet": """
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 4096);
    auto p = buffer.GetWithOffset<int32_t>(16, 0);
    const int me = GetBlockIdx(), next = (me + 1) % GetBlockNum();
    Duplicate(p, int32_t(me + 100), 16);
    SetFlag<HardEvent::V_MTE3>(2);
    WaitFlag<HardEvent::V_MTE3>(2);
    DataCopy(z[me * 16], p, 16);
    SyncAll();
    DataCopy(p, z[next * 16], 16);
    SetFlag<HardEvent::MTE2_MTE3>(2);
    WaitFlag<HardEvent::MTE2_MTE3>(2);
    DataCopy(z[500 + me * 16 - 4], p, 16);
""",
    "meet_by_flags": """
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 4096);
    auto p = buffer.GetWithOffset<int32_t>(16, 0);
    const int me = GetBlockIdx(), next = (me + 1) % GetBlockNum();
    Duplicate(p, int32_t(me + 100), 16);
    SetFlag<HardEvent::V_MTE3>(2);
    WaitFlag<HardEvent::V_MTE3>(2);
    DataCopy(z[me * 16], p, 16);
    CrossCoreSetFlag<0, PIPE_MTE3>(5);
    CrossCoreWaitFlag(5);
    DataCopy(p, z[next * 16], 16);
    SetFlag<HardEvent::MTE2_MTE3>(2);
    WaitFlag<HardEvent::MTE2_MTE3>(2);
    DataCopy(z[500 + me * 16 - 4], p, 16);
""",
    # in turn: each core waits for the one before it
    "take_turns": """
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 4096);
    auto p = buffer.GetWithOffset<int32_t>(16, 0);
    auto w = buffer.GetWithOffset<int32_t>(8, 2048);
    const int me = GetBlockIdx(), last = GetBlockNum() - 1;
    if (me > 0) {
        IBWait(z, w, me, 0);
    }
    DataCopy(p, z[992], 8);
    SetFlag<HardEvent::MTE2_V>(0);
    WaitFlag<HardEvent::MTE2_V>(0);
    Muls(p, p, 2, 8);
    PipeBarrier<PIPE_V>();
    Adds(p, p, me, 8);
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(z[992], p, 8);
    if (me < last) {
        IBSet(z, w, me + 1, 0);
    }
""",
    # one core tells another by memory: the scalar caches of both must be cleaned
    "pass_on": """
    GlobalTensor<int32_t> flag;
    flag.SetGlobalBuffer((__gm__ int32_t *)c + 512);
    if (GetBlockIdx() == 0) {
        z.SetValue(0, 77);
        DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE>(z);
        flag.SetValue(0, -1);
        DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE>(flag);
    } else if (GetBlockIdx() == 1) {
        while (flag.GetValue(0) != -1) {
            DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE>(flag);
        }
        z.SetValue(256, z.GetValue(0) + 1);
        DataCacheCleanAndInvalid<int32_t, CacheLine::ENTIRE_DATA_CACHE>(z);
    }
""",
    # a row's softmax: the sum by ReduceSum, division as the unit does it
    "softmax": """
    if (GetBlockIdx() == 0) {
        TBuf<> buffer;
        pipe.InitBuffer(buffer, 4 * 4096);
        auto p = buffer.GetWithOffset<float>(512, 0);
        auto q = buffer.GetWithOffset<float>(512, 4096);
        auto r = buffer.GetWithOffset<float>(8, 8192);
        auto w = buffer.GetWithOffset<float>(512, 12288);
        DataCopy(p, x, 512);
        SetFlag<HardEvent::MTE2_V>(0);
        WaitFlag<HardEvent::MTE2_V>(0);
        ReduceMax(r, p, w, 512);
        SetFlag<HardEvent::V_S>(0);
        WaitFlag<HardEvent::V_S>(0);
        const float most = r.GetValue(0);
        Adds(p, p, -most, 512);
        PipeBarrier<PIPE_V>();
        Exp(p, p, 512);
        SetFlag<HardEvent::S_V>(0);
        WaitFlag<HardEvent::S_V>(0);
        PipeBarrier<PIPE_V>();
        ReduceSum(r, p, w, 512);
        SetFlag<HardEvent::V_S>(0);
        WaitFlag<HardEvent::V_S>(0);
        const float all = r.GetValue(0);
        Duplicate(q, all, 512);
        PipeBarrier<PIPE_V>();
        Div(q, p, q, 512);
        SetFlag<HardEvent::V_MTE3>(0);
        WaitFlag<HardEvent::V_MTE3>(0);
        DataCopy(y, q, 512);
    }
""",
    # a result each repeat, each block and each pair; the largest with its place
    "reductions": """
    if (GetBlockIdx() == 0) {
        TBuf<> buffer;
        pipe.InitBuffer(buffer, 4 * 4096);
        auto p = buffer.GetWithOffset<float>(512, 0);
        auto q = buffer.GetWithOffset<float>(1000, 4096);
        auto w = buffer.GetWithOffset<float>(512, 12288);
        DataCopy(p, x, 512);
        Duplicate(q, 0.0f, 1000);
        SetFlag<HardEvent::MTE2_V>(0);
        WaitFlag<HardEvent::MTE2_V>(0);
        PipeBarrier<PIPE_V>();
        ReduceRepeat<ReduceType::SUM>(q, p, 64, 8, 1, 1, 8);
        ReduceMax(q[16], p, w, 512, true);
        ReduceDataBlock<ReduceType::MIN>(q[64], p, 64, 8, 1, 1, 8);
        ReducePairElem<ReduceType::SUM>(q[256], p, 64, 8, 1, 1, 8);
        SetFlag<HardEvent::V_MTE3>(2);
        WaitFlag<HardEvent::V_MTE3>(2);
        DataCopy(y, q, 1000);
    }
""",
    # masks and strides: every other block of 32 bytes, lanes 0 to 3 of each
    "strided": """
    if (GetBlockIdx() == 0) {
        TBuf<> buffer;
        pipe.InitBuffer(buffer, 2 * 4096);
        auto p = buffer.GetWithOffset<float>(1000, 0);
        auto q = buffer.GetWithOffset<float>(1000, 4096);
        DataCopy(p, x, 1000);
        Duplicate(q, 0.0f, 1000);
        SetFlag<HardEvent::MTE2_V>(0);
        WaitFlag<HardEvent::MTE2_V>(0);
        PipeBarrier<PIPE_V>();
        uint64_t mask[2] = {0x0f0f0f0f0f0f0f0full, 0};
        Add(q, p, p, mask, 4, BinaryRepeatParams(2, 2, 2, 16, 16, 16));
        SetFlag<HardEvent::V_MTE3>(2);
        WaitFlag<HardEvent::V_MTE3>(2);
        DataCopy(y, q, 1000);
    }
""",
    # rows of 5 floats to blocks of their own, and back
    "rows": """
    if (GetBlockIdx() == 0) {
        TBuf<> buffer;
        pipe.InitBuffer(buffer, 8192);
        auto p = buffer.GetWithOffset<float>(1600, 0);
        DataCopyPad(p, x, DataCopyExtParams(200, 20, 0, 0, 0),
                    DataCopyPadExtParams<float>(true, 0, 3, -1.0f));
        SetFlag<HardEvent::MTE2_MTE3>(0);
        WaitFlag<HardEvent::MTE2_MTE3>(0);
        DataCopyPad(y[4], p, DataCopyExtParams(100, 32, 0, 0, 0));
    }
""",
}
SOURCE = unit(RIGHT)


def tree_sum(values):
    """Adjacent pairs of each 64, then the results from the first to the last."""
    parts = [list(values[i : i + 64]) for i in range(0, len(values), 64)]
    while len(parts[0]) > 1:
        parts = [[a + b for a, b in zip(p[::2], p[1::2], strict=True)] for p in parts]
    total = parts[0][0]
    for part in parts[1:]:
        total = total + part[0]
    return total


def expected(name, blocks):  # noqa: C901 - one case a program
    """x, y, z afterwards, by NumPy."""
    x, y, z = numbers(1000), np.zeros(1000, np.float32), np.arange(1000, dtype=np.int32)
    match name:
        case "add":
            y = x + x
        case "saxpy":
            y = x * np.float32(1.5) + np.float32(0.25)
        case "copy":
            y = x
        case "sum":
            y[0] = tree_sum(x[:512])
        case "reverse":
            y[:256] = x[255::-1]
        case "choose":
            y = np.where(x < 0.5, x, np.float32(2))
        case "add_atomically":
            z += blocks * (blocks + 1) // 2
        case "meet" | "meet_by_flags":
            for core in range(blocks):
                z[core * 16 : core * 16 + 16] = core + 100
                at = 496 + core * 16
                z[at : at + 16] = (core + 1) % blocks + 100
        case "take_turns":
            for core in range(blocks):
                z[992:] = z[992:] * 2 + core
        case "pass_on":
            z[0], z[256], z[512] = 77, 78, -1
        case "reductions":
            p = x[:512]
            y[:8] = [tree_sum(p[i : i + 64]) for i in range(0, 512, 64)]
            y[16:18] = p.max(), np.uint32(p.argmax()).view(np.float32)
            y[64:128] = p.reshape(64, 8).min(axis=1)
            y[256:512] = p[::2] + p[1::2]
        case "strided":
            lanes = np.add.outer(np.arange(4) * 128, np.add.outer(np.arange(8) * 16, np.arange(4)))
            y[lanes] = x[lanes] + x[lanes]
        case "rows":
            rows = np.full((100, 8), -1, np.float32)
            rows[:, :5] = x[:500].reshape(100, 5)
            y[4:804] = rows.ravel()
        case _:
            raise AssertionError(name)
    return x, y, z


@pytest.mark.parametrize("name", RIGHT)
def test_right_program_is_right_in_every_order(name):
    for order in EVERY_ORDER:
        for blocks in (2, 5):
            report, (_, y, z) = call(SOURCE, name, blocks=blocks, order=order)
            assert report.ok, (order, report.faults)
            if name == "softmax":
                e = np.exp(numbers(512).astype(np.float64) - numbers(512).max())
                np.testing.assert_allclose(y[:512], e / e.sum(), rtol=2e-6)
                continue
            _, want_y, want_z = expected(name, blocks)
            np.testing.assert_array_equal(y.view(np.uint32), want_y.view(np.uint32))
            np.testing.assert_array_equal(z, want_z)


def kernel_of(source, line):
    return [row for row in source.splitlines()[:line] if "__aicore__ void" in row][-1]


@pytest.mark.parametrize("name", RIGHT)
def test_every_flag_and_barrier_is_needed(name):
    sites = [s for s in sync_sites(SOURCE) if f" {name}(" in kernel_of(SOURCE, s.line)]
    assert sites
    blocks = 1 if name in {"add", "copy", "saxpy"} else 2  # one core, so that buffers come again
    for site in sites:
        report, (_, y, z) = call(SOURCE, name, blocks=blocks, disabled=[site.index], seconds=1)
        _, want_y, want_z = expected(name, blocks) if name != "softmax" else (0, y, z)
        same = np.array_equal(y, want_y) and np.array_equal(z, want_z)
        assert not (report.ok and same), site


def test_removing_a_whole_pair_changes_the_result():
    # a set and its wait have the same detail; without both nothing waits and nothing is left over
    sites = [s for s in sync_sites(SOURCE) if " saxpy(" in kernel_of(SOURCE, s.line)]
    pairs = {}
    for site in sites:
        if site.call in ("SetFlag", "WaitFlag"):
            pairs.setdefault(site.detail, []).append(site.index)
    assert len(pairs) == 3
    for pair in pairs.values():
        report, _ = call(SOURCE, "saxpy", blocks=1, disabled=pair)
        assert [fault.kind for fault in report.faults] == ["hazard"]


def test_hostile_orders_show_a_missing_flag_as_wrong_values():
    indices = [
        s.index
        for s in sync_sites(SOURCE)
        if " saxpy(" in kernel_of(SOURCE, s.line) and s.detail[0] == "HardEvent::MTE2_V"
    ]
    wrong = {}
    for order in EVERY_ORDER:
        report, (_, y, _) = call(
            SOURCE, "saxpy", blocks=1, order=order, disabled=indices, hazards=False
        )
        wrong[order] = not (report.ok and np.array_equal(y, expected("saxpy", 1)[1]))
    assert not wrong["program"]
    assert wrong["newest"]


@pytest.mark.parametrize("compiler", EACH_COMPILER)
def test_both_compilers_agree(compiler):
    report, (_, y, _) = call(SOURCE, "saxpy", blocks=3, compiler=compiler)
    assert report.ok
    np.testing.assert_array_equal(y, expected("saxpy", 3)[1])
    assert report.counts["vector"] == 8
    assert report.counts["buffer_bytes"] == 2048


def test_unaligned_arrays_beside_unmapped_memory():
    for size in (1000, 1001):
        report, (_, y, _) = call(SOURCE, "add", size=size, align=4)
        assert report.ok, report.faults
        np.testing.assert_array_equal(y[:1000], numbers(size)[:1000] * 2)


OPS = (
    HEAD
    + """
template <typename T, typename U, typename Body>
__aicore__ inline void each(GM_ADDR a, GM_ADDR b, GM_ADDR c, int32_t n, Body body) {
    GlobalTensor<T> x, y;
    GlobalTensor<U> z;
    x.SetGlobalBuffer((__gm__ T *)a);
    y.SetGlobalBuffer((__gm__ T *)b);
    z.SetGlobalBuffer((__gm__ U *)c);
    TPipe pipe;
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 3 * 16384);
    auto p = buffer.GetWithOffset<T>(n, 0);
    auto q = buffer.GetWithOffset<T>(n, 16384);
    auto r = buffer.GetWithOffset<U>(n, 32768);
    DataCopy(p, x, n);
    DataCopy(q, y, n);
    SetFlag<HardEvent::MTE2_V>(0);
    WaitFlag<HardEvent::MTE2_V>(0);
    body(r, p, q);
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(z, r, n);
}
"""
)
_ONE = """
extern "C" __global__ __aicore__ void {name}(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR launch) {{
    const int32_t n = 512;
    {setup}
    each<{source}, {target}>(a, b, c, n, [&](auto r, auto p, auto q) {{ {body}; (void)q; }});
    (void)launch;
}}
"""
_C = {"f2": "half", "f4": "float", "i2": "int16_t", "i4": "int32_t", "u2": "uint16_t"}
_C |= {"u4": "uint32_t", "i8": "int64_t", "i1": "int8_t", "u1": "uint8_t", "bf": "bfloat16_t"}
EXACT = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}
EXACT_TYPES = ("f2", "f4", "i2", "i4")
SHIFTED = ("i2", "u2", "i4", "u4")
ROUGH = ("Exp", "Ln", "Sqrt", "Rsqrt", "Reciprocal")
BITWISE = {"And": np.bitwise_and, "Or": np.bitwise_or}
MODES = ("NONE", "RINT", "FLOOR", "CEIL", "ROUND", "TRUNC")
CASTS = [
    *((s, d, m) for s, d in (("f4", "i4"), ("f4", "i2"), ("f2", "i4")) for m in MODES[1:]),
    *(("f4", "f4", m) for m in MODES[1:]),
    *(("f2", d, m) for d in ("i1", "u1") for m in MODES),
    *((s, d, "NONE") for s, d in (("f2", "f4"), ("i1", "f2"), ("u1", "f2"), ("i2", "f4"))),
    *((s, d, "NONE") for s, d in (("i4", "i2"), ("i4", "i8"), ("i8", "i4"), ("bf", "f4"))),
    *((s, d, m) for s, d in (("f4", "f2"), ("i4", "f4")) for m in MODES),
    *(("f4", "bf", m) for m in MODES[1:]),
    *(("f4", "i8", m) for m in ("RINT", "TRUNC")),
]


def _ops_source():
    loud = "SetSaturationFlag<SaturationMode::FLOAT>(false);"
    kernels = [
        *((f"{op}_{t}", "", t, t, f"{op}(r, p, q, n)") for op in EXACT for t in EXACT_TYPES),
        *((f"{op}_u2", "", "u2", "u2", f"{op}(r, p, q, n)") for op in BITWISE),
        *((f"Left_{t}", "", t, t, f"ShiftLeft(r, p, {_C[t]}(3), n)") for t in SHIFTED),
        *((f"Right_{t}", "", t, t, f"ShiftRight(r, p, {_C[t]}(3), n)") for t in SHIFTED),
        *(
            (f"Cast_{s}_{d}_{m}", loud, s, d, f"Cast(r, p, RoundMode::CAST_{m}, n)")
            for s, d, m in CASTS
        ),
        ("Loud", loud, "f2", "f2", "Mul(r, p, q, n)"),
        ("Quiet", "", "f2", "f2", "Mul(r, p, q, n)"),
        *((op, "", "f4", "f4", f"{op}(r, p, q, n)") for op in ("Div", "Max")),
        *((op, "", "f4", "f4", f"{op}(r, p, n)") for op in ROUGH),
    ]
    return OPS + "".join(
        _ONE.format(name=name, setup=setup, source=_C[s], target=_C[d], body=body)
        for name, setup, s, d, body in kernels
    )


OPS_SOURCE = _ops_source()


def dtype_of(code):
    return np.dtype(ml_dtypes.bfloat16 if code == "bf" else code)


def operate(name, x, y, target, **options):
    z = np.zeros(512, dtype_of(target))
    block = launch_block(Shape())
    report = run(
        OPS_SOURCE,
        arch="910b",
        arrays=[x, y, z],
        launch_block=block,
        blocks=1,
        entry=name,
        **options,
    )
    assert report.ok, report.faults
    return z


def values(code, seed):
    """512 values with the corners of the type among them."""
    rng = np.random.default_rng(seed)
    dtype = dtype_of(code)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        found = rng.integers(info.min, info.max, 512, dtype, endpoint=True)
        found[:6] = [info.min, info.max, 0, 1, info.max - 1, info.min + 1]
        return found
    wide = rng.standard_normal(512) * 2.0 ** rng.integers(-30, 30, 512)
    found = wide.astype(np.float32)
    found[:10] = [0, -0.0, 1, -1, 0.5, 1.5, 2.5, -2.5, 2049, 4098]
    found[10:14] = [1e-40, -1e-39, 65519.0, 3.0000001]
    with np.errstate(over="ignore"):
        return found.astype(dtype)


def test_arithmetic_is_rounded_right_and_integers_wrap():
    for op, function in EXACT.items():
        for t in ("f2", "f4", "i2", "i4"):
            x, y = values(t, 1), values(t, 2)
            with np.errstate(all="ignore"):
                want = function(x, y)
            if t == "f2":  # infinities are another test's
                keep = np.isfinite(want)
                got = operate(f"{op}_{t}", x, y, t)
                np.testing.assert_array_equal(got[keep], want[keep])
                continue
            got = operate(f"{op}_{t}", x, y, t)
            np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))


def test_bits_and_shifts():
    for op, function in BITWISE.items():
        x, y = values("u2", 1), values("u2", 2)
        np.testing.assert_array_equal(operate(f"{op}_u2", x, y, "u2"), function(x, y))
    for t in ("i2", "u2", "i4", "u4"):
        x = values(t, 3)
        np.testing.assert_array_equal(operate(f"Left_{t}", x, x, t), x << dtype_of(t).type(3))
        np.testing.assert_array_equal(operate(f"Right_{t}", x, x, t), x >> dtype_of(t).type(3))


def round_whole(exact, mode):
    match mode:
        case "FLOOR":
            return np.floor(exact)
        case "CEIL":
            return np.ceil(exact)
        case "ROUND":
            return np.trunc(exact + np.copysign(0.5, exact))
        case "TRUNC":
            return np.trunc(exact)
        case _:
            return np.rint(exact)


def round_to(exact, dtype, mode):
    """Exact float64 values to a narrower float, by neighbours of the nearest."""
    with np.errstate(over="ignore", invalid="ignore"):
        nearest = exact.astype(dtype)
        got = nearest.astype(np.float64)
        inf = np.asarray(np.inf, dtype)
        up = np.where(got < exact, np.nextafter(nearest, inf), nearest)
        down = np.where(got > exact, np.nextafter(nearest, -inf), nearest)
        match mode:
            case "FLOOR":
                return down
            case "CEIL":
                return up
            case "TRUNC":
                return np.where(exact > 0, down, up)
            case "ROUND":
                tie = up.astype(np.float64) - exact == exact - down.astype(np.float64)
                return np.where(tie, np.where(exact > 0, up, down), nearest)
            case _:
                return nearest


@pytest.mark.parametrize(("source", "target", "mode"), CASTS)
def test_casts_round_as_documented(source, target, mode):
    x = values(source, 4)
    if target == "u1":
        x = np.abs(x)
    got = operate(f"Cast_{source}_{target}_{mode}", x, x, target)
    dtype = dtype_of(target)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        if x.dtype.kind in "iu":
            want = np.clip(x.astype(object), info.min, info.max).astype(dtype)
        else:
            whole = round_whole(x.astype(np.float64), mode)
            low, high = float(info.min), float(info.max)
            want = np.array(
                [info.min if w <= low else info.max if w >= high else int(w) for w in whole], dtype
            )
    elif target == "f4" and source == "f4":
        want = round_whole(x.astype(np.float64), mode).astype(np.float32)
    elif x.dtype.kind in "iu" or dtype.itemsize < x.dtype.itemsize:
        want = round_to(x.astype(np.float64), dtype, mode)
    else:
        want = x.astype(dtype)
    finite = np.isfinite(np.asarray(want, np.float64))
    np.testing.assert_array_equal(got[finite], np.asarray(want, dtype)[finite])


def test_half_saturates_until_told():
    big = np.full(512, 300, np.float16)
    assert (operate("Loud", big, big, "f2") == np.inf).all()
    assert (operate("Quiet", big, big, "f2") == 65504).all()


def test_what_is_not_promised_is_not_exact():
    x = np.abs(values("f4", 5)) + np.float32(0.01)
    y = np.abs(values("f4", 6)) + np.float32(0.01)
    small = np.clip(x, 0.01, 80).astype(np.float32)
    wide = small.astype(np.float64)
    exact = {
        "Div": (x, x.astype(np.float64) / y, 1),
        "Sqrt": (x, np.sqrt(x.astype(np.float64)), 1),
        "Exp": (small, np.exp(wide), 1),
    }
    for op, (operand, want, ulps) in exact.items():
        got = operate(op, operand, y, "f4")
        nearest = want.astype(np.float32)
        off = got.view(np.int32).astype(np.int64) - nearest.view(np.int32)
        assert 0 < np.abs(off).max() <= ulps, op
    for op, want in (("Rsqrt", 1 / np.sqrt(wide)), ("Reciprocal", 1 / wide)):
        error = np.abs(operate(op, small, y, "f4") / want - 1)
        assert 1e-5 < error.max() < 2.1e-4, op
    nan = np.full(512, np.nan, np.float32)
    got = operate("Max", np.arange(512, dtype=np.float32), nan, "f4")
    assert 0 < np.isnan(got).sum() < 512


def test_sites_are_numbered_in_textual_order():
    sites = sync_sites(SOURCE)
    assert [site.index for site in sites] == list(range(len(sites)))
    assert sorted(site.line for site in sites) == [site.line for site in sites]
    assert sync_sites("// PipeBarrier<PIPE_V>();\n") == ()
    assert sync_sites("\n  PipeBarrier<PIPE_V>();\n")[0].line == 2
    with pytest.raises(ValueError, match="line 1 holds two"):
        sync_sites("SetFlag<HardEvent::V_S>(0); WaitFlag<HardEvent::V_S>(0);")


def test_removals_take_a_flag_with_its_wait():
    text = """
    SetFlag<HardEvent::V_S>(0);
    SetFlag<HardEvent::V_S>(1);
    WaitFlag<HardEvent::V_S>(1);
    PipeBarrier<PIPE_V>();
    WaitFlag<HardEvent::V_S>(0);
    CrossCoreSetFlag<0, PIPE_MTE3>(5);
    CrossCoreWaitFlag(5);
    WaitFlag<HardEvent::V_S>(0);
    """
    groups = [tuple(site.index for site in group) for group in removals(text)]
    assert groups == [(0, 4), (1, 2), (3,), (5, 6), (7,)]


def test_what_is_left_when_a_pair_goes_is_refused_or_still_right():
    needless = []
    for group in removals(SOURCE):
        name = kernel_of(SOURCE, group[0].line).partition("void ")[2].partition("(")[0]
        if name not in {"saxpy", "meet", "meet_by_flags", "reverse", "sum"}:
            continue
        left_out = [site.index for site in group]
        report, (_, y, z) = call(SOURCE, name, blocks=3, disabled=left_out, seconds=1)
        _, want_y, want_z = expected(name, 3)
        if report.ok and np.array_equal(y, want_y) and np.array_equal(z, want_z):
            needless.append((name, group[0].detail))
    assert needless == []


ROUNDED = unit(
    {
        "rounded": "    TBuf<TPosition::VECCALC> buffer;\n"
        "    pipe.InitBuffer(buffer, 4096);\n"
        "    LocalTensor<float> t = buffer.Get<float>();\n"
        "    DataCopy(t, x, COUNT);\n"
        "    SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);\n"
        "    WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);\n"
        "    DataCopy(y, t, 96);"
    }
)


@pytest.mark.parametrize(
    ("arch", "count", "message"),
    [
        ("310p", 104, ""),
        ("310p", 112, "ends 48 bytes past the end of array 0"),
        ("910b", 104, "ends 16 bytes past the end of array 0"),
    ],
)
def test_a_block_is_read_whole_where_no_copy_pads(arch, count, message):
    """The end of 100 floats lies within a block; what comes after it is garbage."""
    report, (x, y, _) = call(
        ROUNDED.replace("COUNT", str(count)), "rounded", arch=arch, size=100, align=8
    )
    assert [f.message for f in report.faults] == [f"DataCopy {message}"] * bool(message)
    if not message:
        np.testing.assert_array_equal(y[:96], x[:96])
