"""Random programs of loads, sums, stores, flags and barriers: what the shim lets pass is ordered.

A program in which it finds no hazard gives the same memory in every order; the hostile orders
change the memory of many in which it finds one.
"""

import random

import numpy as np
import pytest

from hetir.emulator.ascend import ORDERS, Shape, launch_block, run
from tests.unit.ascend_shim_support import HEAD, needs_compiler

pytestmark = needs_compiler

FLAGS = ("MTE2_V", "V_MTE3", "MTE3_V", "V_MTE2", "MTE3_MTE2", "MTE2_MTE3")
BARRIERS = ("V", "MTE2", "MTE3")
LANES, BUFFERS, ROWS = 16, 4, 4

_CASES = "".join(
    f"            case {10 + i}:\n"
    f"                SetFlag<HardEvent::{flag}>(p);\n"
    f"                WaitFlag<HardEvent::{flag}>(p);\n"
    "                break;\n"
    for i, flag in enumerate(FLAGS)
) + "".join(
    f"            case {20 + i}:\n"
    f"                PipeBarrier<PIPE_{pipe}>();\n"
    "                break;\n"
    for i, pipe in enumerate(BARRIERS)
)
SOURCE = (
    HEAD
    + f"""
extern "C" __global__ __aicore__ void interpret(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR launch) {{
    GlobalTensor<float> x, y;
    GlobalTensor<int32_t> code;
    x.SetGlobalBuffer((__gm__ float *)a);
    y.SetGlobalBuffer((__gm__ float *)b);
    code.SetGlobalBuffer((__gm__ int32_t *)c);
    TPipe pipe;
    TBuf<> buffer;
    pipe.InitBuffer(buffer, {BUFFERS * LANES * 4});
    auto whole = buffer.Get<float>();
    Duplicate(whole, 1.0f, {BUFFERS * LANES});
    PipeBarrier<PIPE_ALL>();
    for (int i = 0; code.GetValue(i) >= 0; i += 4) {{
        const int p = code.GetValue(i + 1), q = code.GetValue(i + 2), r = code.GetValue(i + 3);
        auto u = buffer.GetWithOffset<float>({LANES}, p % {BUFFERS} * {LANES * 4});
        switch (code.GetValue(i)) {{
            case 0:
                DataCopy(u, x[q * {LANES}], {LANES});
                break;
            case 1:
                DataCopy(y[q * {LANES}], u, {LANES});
                break;
            case 2:
                Add(u, buffer.GetWithOffset<float>({LANES}, q * {LANES * 4}),
                    buffer.GetWithOffset<float>({LANES}, r * {LANES * 4}), {LANES});
                break;
{_CASES}        }}
    }}
    (void)launch;
}}
"""
)


def program(seed):
    """Up to 24 instructions; half of what stands between them is flags and barriers."""
    choose = random.Random(seed)
    code = []
    for _ in range(choose.randrange(6, 24)):
        way = choose.random()
        if way < 0.45:
            code.append((choose.randrange(3), *(choose.randrange(BUFFERS) for _ in range(3))))
        elif way < 0.85:
            code.append((10 + choose.randrange(len(FLAGS)), choose.randrange(6), 0, 0))
        else:
            code.append((20 + choose.randrange(len(BARRIERS)), 0, 0, 0))
    return np.array([*code, (-1, 0, 0, 0)], np.int32)


def memory(code, order, *, hazards):
    x = np.arange(ROWS * LANES, dtype=np.float32) + 10
    y = np.zeros(ROWS * LANES, np.float32)
    report = run(
        SOURCE,
        arch="910b",
        arrays=[x, y, code],
        launch_block=launch_block(Shape()),
        blocks=1,
        order=order,
        hazards=hazards,
    )
    return report, y


def check(seeds):
    """How many programs are ordered, and how many of the others an order showed to be wrong."""
    ordered = shown = racy = 0
    for seed in seeds:
        code = program(seed)
        report, _ = memory(code, "program", hazards=True)
        plain, want = memory(code, "program", hazards=False)
        results = [
            memory(code, order, hazards=False)
            for order in (*ORDERS, "random:1", "random:2", "random:3")
        ]
        same = all(r.ok and np.array_equal(y, want) for r, y in results)
        if report.ok:
            assert plain.ok
            assert same, seed
            ordered += 1
            continue
        assert {fault.kind for fault in report.faults} <= {"hazard", "flag"}, report
        racy += 1
        shown += not same
    return ordered, racy, shown


def test_programs_without_hazards_give_one_result():
    ordered, racy, shown = check(range(30))
    assert ordered >= 5
    assert shown >= racy // 4 > 0


@pytest.mark.slow
def test_many_programs_without_hazards_give_one_result():
    ordered, racy, shown = check(range(1000, 2000))
    assert ordered >= 100
    assert shown >= racy // 4
