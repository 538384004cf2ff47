"""Dense straight-line kernels: every pass alone, every backend, against the evaluator.

HETIR_DENSE says which part of all seeds to run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from hetir import testing
from hetir.ir.types import F64, SCALARS, Scalar
from hetir.ir.verify import verify
from hetir.passes.simplify import PASSES, simplify
from hetir.testing.cases import Case
from hetir.testing.runners import REFUSALS, OnDevice
from tests.property.cells import SHARE, need, seeds
from tests.property.expressions import PURE, expression

ALL = tuple(SCALARS.values())
SIGNED = tuple(t for t in ALL if t.is_int and t.signed)


def cases(
    count: int, first: int, types: Sequence[Scalar] = ALL, *, wide: bool = False
) -> Iterator[tuple[int, Case]]:
    """Cases of some seeds."""
    return ((seed, expression(seed, types, wide=wide)) for seed in seeds(first, count))


def divisions(count: int) -> Iterator[tuple[int, Case]]:
    """Quotients and remainders of signed numbers, of which rewrites take most for unsigned."""
    family = ("div", "rem", "floordiv", "mod")
    return ((n, expression(n, SIGNED, family=family)) for n in seeds(3000, count))


def test_no_pass_changes_a_bit():
    changed = Counter[str]()
    for seed, case in (*cases(200, 0), *divisions(20)):
        expected = case.run(testing.evaluator)
        for one in (*PASSES, simplify):
            kernel = one(case.kernel)
            if kernel is case.kernel:
                continue
            verify(kernel)
            changed[one.__name__] += 1
            wrong = testing.differences(expected, case.run(testing.evaluator, kernel))
            assert not wrong, f"seed {seed}, {one.__name__}\n{case}\n{wrong}"
    assert (
        min(changed[n] for n in ("identities", "fold", "strength", "cse", "simplify")) > 5 * SHARE
    )


RUNNERS: dict[str, tuple[OnDevice, int]] = {
    "cpu": (OnDevice(device="cpu", optimise=0, lanes=0, simplified=False), 40),
    "cpu in vectors": (OnDevice(device="cpu", optimise=0, lanes=8, simplified=False), 15),
    "opencl": (OnDevice(device="opencl:0", simplified=False), 25),
    "vulkan": (OnDevice(device="vulkan:0", simplified=False), 25),
    "ptx": (OnDevice(device="ptx-emulator", simplified=False), 25),
    "910b": (OnDevice(device="ascend-shim", simplified=False), 6),
    "950": (OnDevice(device="ascend-shim:950", simplified=False), 5),
}

NO_F64 = tuple(t for t in ALL if t != F64)
TYPES = {
    "910b": NO_F64,
    "950": NO_F64,
}
"""What the devices have, where that is not everything."""


VECTORS = tuple(SCALARS[name] for name in ("f32", "i32", "u32", "i16", "u16"))
UNIT = (
    *("add", "sub", "mul", "neg", "abs", "and", "or", "xor", "not", "eq", "ne"),
    *("lt", "le", "gt", "ge", "min", "max", "select") * 2,
)
"""What the 910B's vector unit computes with, and what it computes."""


def turns(count: int) -> Iterator[tuple[int, Case]]:
    """The 910B's few cases: of its vector unit, and of all ops by turns."""
    for seed in seeds(1000, count):
        types, family = NO_F64, tuple(s.name for s in PURE[seed % 3 :: 3])
        if seed % 2 == 0:
            types, family = VECTORS, UNIT
        yield seed, expression(seed, types, wide=True, family=family)


@pytest.mark.filterwarnings("ignore:.*ends loops after")
@pytest.mark.parametrize("name", RUNNERS)
def test_backends_compute_the_evaluators_bits(name):
    runner, count = RUNNERS[name]
    need(runner.device)
    refused = 0
    types = TYPES.get(name, ALL)
    drawn = turns(count) if name == "910b" else cases(count, 1000, types, wide=True)
    for seed, case in drawn:
        try:
            got = case.run(runner)
        except REFUSALS:
            refused += 1
            continue
        wrong = testing.differences(case.run(testing.evaluator), got)
        assert not wrong, f"seed {seed}\n{case}\n{wrong}"
    assert refused < count * SHARE / 2
