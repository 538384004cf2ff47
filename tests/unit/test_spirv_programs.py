"""Control flow, barriers, subgroups, memory and records as SPIR-V, on OpenCL and Vulkan devices."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from hetir.backends.spirv import compile_kernel
from hetir.backends.spirv.targets import NAMES
from hetir.backends.spirv.uniform import PartialWorkgroupError
from hetir.ir.core import Kernel
from hetir.ir.text import parse_kernel
from hetir.ir.types import SCALARS
from tests.unit import test_cpu_memory, test_cpu_programs
from tests.unit.spirv_support import HERE, device_of, run

MEMORY = (
    "float_atomics_end_on_nan",
    "print_and_assert_write_records",
    "without_a_buffer_nothing_is_written",
    "debug_skips_and_reports_accesses_out_of_bounds",
    "debug_reports_a_step_of_zero",
    "records_past_the_capacity_are_counted_and_dropped",
    "strided_arguments",
    "empty_ranges_run_nothing",
)


def cases(module: Any, names: tuple[str, ...] = ()) -> Iterator[Any]:
    """The CPU's tests, each with its parameters."""
    for name, test in inspect.getmembers(module, inspect.isfunction):
        short = name.removeprefix("test_")
        if short == name or (names and short not in names):
            continue
        chosen: list[dict[str, Any]] = [{}]
        for mark in getattr(test, "pytestmark", []):
            given, values = mark.args
            given = [given] if isinstance(given, str) else list(given)
            rows = [v if isinstance(v, tuple) else (v,) for v in values]
            chosen = [{**c, **dict(zip(given, r, strict=True))} for c in chosen for r in rows]
        for kept in chosen:
            if set(kept) == set(inspect.signature(test).parameters) and short not in REFUSED:
                shown = "-".join(map(str, kept.values()))
                # hundreds of barriers: vendors' compilers take seconds for each
                slow = kept.get("width", 1) not in (1, 32) or kept.get("element", "f32") != "f32"
                marks = pytest.mark.slow if slow and short == "subgroup_trees" else ()
                yield pytest.param(module, test, kept, id=f"{short}-{shown}", marks=marks)


REFUSED = ("subgroup_op_where_only_some_subgroups_are",)
CASES = (*cases(test_cpu_programs), *cases(test_cpu_memory, MEMORY))


def test_every_named_test_is_there() -> None:
    found = {case.values[1].__name__.removeprefix("test_") for case in CASES}
    assert set(MEMORY) <= found
    assert len(found) >= len(MEMORY) + 9


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize(("module", "test", "given"), CASES)
def test_as_on_the_cpu(
    module: Any, test: Any, given: dict[str, Any], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "run", functools.partial(run, target=target))
    if test is not test_cpu_programs.test_subgroup_trees:
        test(**given)
        return
    with monkeypatch.context() as patch:  # once is enough: there is no level of optimisation
        patch.setattr(test_cpu_programs.agree, "__defaults__", ((0,),))
        test(**given)


ELEMENTS = [n for n, t in SCALARS.items() if t.is_int or t.is_float]
SEEN = ("u8", "i16", "i32", "u64", "bf16", "f64")


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(
    "element", [pytest.param(n, marks=() if n in SEEN else pytest.mark.slow) for n in ELEMENTS]
)
def test_read_modify_writes(element: str, space: str, target: str) -> None:
    def one_by_one(kernel: Kernel, arguments: list[Any], *_: Any) -> None:
        """A launch an item, so that the order is known."""
        x, y, old = arguments
        artifact = compile_kernel(kernel, target=target)
        device = device_of(target)
        assert device is not None
        program = device.load(artifact)
        for i in range(len(x)):
            program.launch((x[i : i + 1], y, old[i : i + 1]), grid=1, workgroup=1).wait()

    test_cpu_memory.check_updates(element, space, one_by_one)


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("element", ["u8", "f16", "i32", "f32", "u64"])
def test_many_items_add_to_one_place(element: str, target: str) -> None:
    dtype = SCALARS[element].numpy
    count = 2000 if element != "u8" else 200
    x, y, old = np.ones(count, dtype), np.zeros(1, dtype), np.zeros(count, dtype)
    kernel = test_cpu_memory.rmw(element, "add", "global")
    run(kernel, [x, y, old], (count // 20, 1, 1), (20, 1, 1), target=target)
    assert y[0] == count
    assert sorted(old.astype(int).tolist()) == list(range(count))


COMPUTED = """kernel k(%x: array<TYPE[?], global> from 0, %y: array<TYPE[?], global> from 1) {
  %i: i64 = local_id axis=0
  %a: TYPE = load %y, %i
  %one: TYPE = const 1.5
  %b: TYPE = add %a, %one
  %old: TYPE = atomic.cas %x, %i, %b, %b order=relaxed scope=device
  store %y, %i, %old
  return
}
"""


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_floats_that_were_computed_are_compared_as_bits(element: str, target: str) -> None:
    """Mesa 22.3 ended the process where it saw through the conversion."""
    dtype = SCALARS[element].numpy
    x, y = np.array([2.5, 3, -1.5, 4], dtype), np.array([1, 1, -3, 0], dtype)
    kernel = parse_kernel(COMPUTED.replace("TYPE", element))
    run(kernel, [x, y], (1, 1, 1), (4, 1, 1), target=target, fixed=True)
    assert x.tolist() == y.tolist() == [2.5, 3, -1.5, 4]


LEAST = """kernel k(%x: array<f64[?], global> from 0, %y: array<f32[?], global> from 1) {
  %i: i64 = global_id axis=0
  %zero: i64 = const 0
  %v: f32 = load %y, %i
  %wide: f64 = cast %v
  %old: f64 = atomic.rmw %x, %zero, %wide kind=min order=ORDER scope=device
  %twice: f32 = add %v, %v
  store %y, %i, %twice
  return
}
"""


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("order", ["acquire", "release", "acq_rel", "seq_cst"])
def test_work_items_go_on_after_float_atomics(order: str, target: str) -> None:
    """Their loops end in unlike rounds, too."""
    kernel = parse_kernel(LEAST.replace("ORDER", order))
    x, y = np.array([1e9]), np.random.default_rng(1).permutation(90).astype(np.float32)
    want = 2 * y
    run(kernel, [x, y], (5, 1, 1), (18, 1, 1), target=target, fixed=True)
    assert x[0] == 0
    np.testing.assert_array_equal(y, want)


NEIGHBOURS = """kernel k(%x: array<u16[?], global> from 0, %y: array<u32[?], global> from 1) {
  %x0: i64 = local_id axis=0
  %y0: i64 = local_id axis=1
  %width: i64 = group_size axis=0
  %row: i64 = mul %y0, %width
  %i: i64 = add %row, %x0
  %one: u16 = const 1
  %old: u16 = atomic.rmw %x, %i, %one kind=add order=ORDER scope=device
  %wide: u32 = cast %old
  store %y, %i, %wide
  return
}
"""


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("order", ["acquire", "release", "acq_rel", "seq_cst"])
def test_work_items_go_on_after_atomics_on_parts_of_words(order: str, target: str) -> None:
    """Neighbours share a word, so that their loops end in unlike rounds (see `_in_word`)."""
    kernel = parse_kernel(NEIGHBOURS.replace("ORDER", order))
    for size in ((9, 1, 1), (3, 3, 1), (2, 5, 1), (16, 2, 1)):
        for first in (0, 1):
            items = int(np.prod(size))
            x = np.arange(100, 102 + items, dtype=np.uint16)[first : first + items]
            want, y = x.copy(), np.zeros(items, np.uint32)
            run(kernel, [x, y], (1, 1, 1), size, target=target, fixed=True)
            assert y.tolist() == want.tolist()
            assert x.tolist() == (want + 1).tolist()


@pytest.mark.parametrize("target", NAMES)
def test_exchanges_of_a_part_of_the_workgroup_are_refused(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go through shared memory with barriers, which the whole workgroup must reach."""
    monkeypatch.setattr(test_cpu_programs, "run", functools.partial(run, target=target))
    with pytest.raises(PartialWorkgroupError, match=r"`subgroup_reduce` in control flow .*"):
        test_cpu_programs.test_subgroup_op_where_only_some_subgroups_are()
