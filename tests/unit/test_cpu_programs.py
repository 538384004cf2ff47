"""Barriers, subgroups, exits and private memory on the CPU, against the evaluator and NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hetir import emulator
from hetir.backends.cpu.frame import plan, size_of
from hetir.backends.cpu.schedule import schedule
from hetir.ir.core import Kernel
from hetir.ir.text import parse_module
from hetir.passes.expand_arrays import expand_arrays
from hetir.testing.differential import differences
from tests.unit.cpu_support import run

Dims = tuple[int, int, int]


def parse(body: str, params: str, **options: Any) -> Kernel:
    """A kernel from the text of its body."""
    listed = ", ".join(f"{p} from {i}" for i, p in enumerate(filter(None, params.split("; "))))
    (kernel,) = parse_module(f"kernel k({listed}) {{\n{body}\n}}\n").kernels
    return replace(kernel, options=replace(kernel.options, **options))


def agree(
    kernel: Kernel,
    args: Sequence[Any],
    grid: Dims,
    workgroup: Dims,
    levels: Sequence[int] = (0, 3),
) -> list[Any]:
    """The arrays that the CPU leaves, after a check that the evaluator leaves the same."""
    want = [np.copy(a) for a in args]
    report = emulator.run(kernel, want, grid, workgroup, checks=True)
    assert not report.faults, str(report)
    for level in levels:
        got = [np.copy(a) for a in args]
        run(kernel, got, grid, workgroup, pieces=2, optimise=level)
        assert not differences(want, got)
    return want


def test_values_live_across_a_barrier() -> None:
    kernel = parse(
        """
        %l: i64 = local_id axis=0
        %g: i64 = global_id axis=0
        %n: i64 = group_size axis=0
        %tile: array<f32[64], shared> = alloc
        %v: f32 = load %x, %g
        %two: f32 = add %v, %v
        store %tile, %l, %v
        barrier scope=workgroup
        %one: i64 = const 1
        %last: i64 = sub %n, %one
        %back: i64 = sub %last, %l
        %w: f32 = load %tile, %back
        %sum: f32 = add %two, %w
        store %y, %g, %sum
        return
        """,
        "%x: array<f32[?], global>; %y: array<f32[?], global>",
    )
    x = np.arange(150, dtype=np.float32)
    got = agree(kernel, [x, np.zeros_like(x)], (3, 1, 1), (50, 1, 1))
    want = 2 * x + x.reshape(3, 50)[:, ::-1].reshape(-1)
    np.testing.assert_array_equal(got[1], want)


def test_tree_reduction_with_barriers_in_a_loop() -> None:
    kernel = parse(
        """
        %l: i64 = local_id axis=0
        %g: i64 = global_id axis=0
        %zero: i64 = const 0
        %one: i64 = const 1
        %two: i64 = const 2
        %half: i64 = const 32
        %tile: array<i64[64], shared> = alloc
        %v: i64 = load %x, %g
        store %tile, %l, %v
        barrier scope=workgroup
        loop %half (%d: i64) {
          %stop: bool = eq %d, %zero
          if %stop {
            break
          } else {
            yield
          }
          %mine: bool = lt %l, %d
          if %mine {
            %far: i64 = add %l, %d
            %a: i64 = load %tile, %l
            %b: i64 = load %tile, %far
            %c: i64 = add %a, %b
            store %tile, %l, %c
            yield
          } else {
            yield
          }
          barrier scope=workgroup
          %next: i64 = div %d, %two
          yield %next
        }
        %first: bool = eq %l, %zero
        if %first {
          %r: i64 = load %tile, %zero
          %group: i64 = group_id axis=0
          store %y, %group, %r
          yield
        } else {
          yield
        }
        return
        """,
        "%x: array<i64[?], global>; %y: array<i64[?], global>",
    )
    x = np.arange(256, dtype=np.int64) ** 2
    got = agree(kernel, [x, np.zeros(4, np.int64)], (4, 1, 1), (64, 1, 1))
    np.testing.assert_array_equal(got[1], x.reshape(4, 64).sum(axis=1))


KINDS = {
    "f32": ("add", "mul", "min", "max"),
    "f16": ("add", "max"),
    "bf16": ("mul", "min"),
    "f64": ("add",),
    "i8": ("add", "mul", "min", "xor"),
    "u64": ("max", "and", "or"),
    "bool": ("and", "or", "xor"),
}


@pytest.mark.parametrize("width", [1, 3, 8, 64])
@pytest.mark.parametrize("element", KINDS)
def test_subgroup_trees(element: str, width: int) -> None:
    """Every lane's result, with partial subgroups and lanes that take no part."""
    kinds = KINDS[element]
    lines = [
        "%lx: i64 = local_id axis=0",
        "%ly: i64 = local_id axis=1",
        "%gx: i64 = group_id axis=0",
        "%three: i64 = const 3",
        "%fifty: i64 = const 50",
        "%row: i64 = mul %gx, %three",
        "%line: i64 = add %row, %ly",
        "%start: i64 = mul %line, %fifty",
        "%g: i64 = add %start, %lx",
        f"%v: {element} = load %x, %g",
        "%w: bool = load %where, %g",
    ]
    for index, kind in enumerate(kinds):
        lines += [
            f"%c{index}: i64 = const {index}",
            f"%r{index}: {element} = subgroup_reduce %v, %w kind={kind}",
            f"store %y, %c{index}, %g, %r{index}",
        ]
        for inclusive in (False, True):
            name = f"{index}{int(inclusive)}"
            place = len(kinds) * (1 + inclusive) + index
            said = str(inclusive).lower()
            lines += [
                f"%s{name}: {element} = subgroup_scan %v, %w inclusive={said} kind={kind}",
                f"%d{name}: i64 = const {place}",
                f"store %y, %d{name}, %g, %s{name}",
            ]
    params = (
        f"%x: array<{element}[?], global>; %where: array<bool[?], global>; "
        f"%y: array<{element}[?, ?], global>"
    )
    kernel = parse("\n".join([*lines, "return"]), params, subgroup_size=width)
    random = np.random.default_rng(width)
    dtype = kernel.params[0].value.type.element.numpy
    count = 2 * 150
    values = random.integers(-5, 6, count).astype(np.float32)
    x = (values != 0 if element == "bool" else values + (0.1 if "f" in element else 0)).astype(
        dtype
    )
    where = random.random(count) < 0.8
    y = np.zeros((3 * len(kinds), count), dtype)
    agree(kernel, [x, where, y], (2, 1, 1), (50, 3, 1), levels=(1,))


@pytest.mark.parametrize("width", [1, 5, 32, 64, 128])
def test_shuffles_ballots_and_votes(width: int) -> None:
    lines = ["%g: i64 = global_id axis=0", "%v: i16 = load %x, %g", "%by: i64 = load %d, %g"]
    lines += ["%w: bool = load %where, %g", "%p: bool = load %pred, %g"]
    for index, mode in enumerate(("index", "xor", "up", "down")):
        lines += [
            f"%c{index}: i64 = const {index}",
            f"%r{index}: i16 = shuffle %v, %by, %w mode={mode}",
            f"store %y, %c{index}, %g, %r{index}",
        ]
    lines += [
        "%b: u64 = ballot %p, %w",
        "store %bits, %g, %b",
        "%any: bool = vote %p, %w mode=any",
        "%all: bool = vote %p, %w mode=all",
        "store %votes, %c0, %g, %any",
        "store %votes, %c1, %g, %all",
        "return",
    ]
    params = (
        "%x: array<i16[?], global>; %d: array<i64[?], global>; %where: array<bool[?], global>; "
        "%pred: array<bool[?], global>; %y: array<i16[?, ?], global>; "
        "%bits: array<u64[?], global>; %votes: array<bool[?, ?], global>"
    )
    kernel = parse("\n".join(lines), params, subgroup_size=width)
    random = np.random.default_rng(width)
    count = 3 * 70
    x = random.integers(-1000, 1000, count).astype(np.int16)
    by = random.integers(-3, width + 3, count)
    by[:4] = (1 << 63) - 1, -(1 << 63), 1 << 40, -1
    where, pred = random.random(count) < 0.9, random.random(count) < 0.7
    where[:16] = True
    pred[:16] = True
    y, bits = np.zeros((4, count), np.int16), np.zeros(count, np.uint64)
    args = [x, by, where, pred, y, bits, np.zeros((2, count), bool)]
    want = [np.copy(a) for a in args]
    emulator.run(kernel, want, (3, 1, 1), (70, 1, 1))
    for level in (0, 3):
        got = [np.copy(a) for a in args]
        run(kernel, got, (3, 1, 1), (70, 1, 1), optimise=level)
        assert not differences(want, got)
    for group in range(3):
        for first in range(0, 70, width):
            lanes = range(group * 70 + first, group * 70 + min(first + width, 70))
            bit = sum(1 << n for n, i in enumerate(lanes) if where[i] and pred[i]) & ((1 << 64) - 1)
            assert all(int(want[5][i]) == bit for i in lanes)


def test_subgroup_op_where_only_some_subgroups_are() -> None:
    """Control flow that is uniform in a subgroup and not in the workgroup."""
    kernel = parse(
        """
        %g: i64 = global_id axis=0
        %l: i64 = local_id axis=0
        %zero: i64 = const 0
        %yes: bool = const true
        %tile: array<f32[8], shared> = alloc
        %v: f32 = load %x, %g
        %s: i64 = subgroup_id
        %lane: i64 = lane_id
        %part: f32 = subgroup_reduce %v, %yes kind=add
        %leads: bool = eq %lane, %zero
        if %leads {
          store %tile, %s, %part
          yield
        } else {
          yield
        }
        barrier scope=workgroup
        %first: bool = eq %s, %zero
        %r: f32 = if %first {
          %t: f32 = load %tile, %lane
          %whole: f32 = subgroup_reduce %t, %yes kind=add
          yield %whole
        } else {
          yield %v
        }
        store %y, %g, %r
        return
        """,
        "%x: array<f32[?], global>; %y: array<f32[?], global>",
        subgroup_size=8,
    )
    x = np.random.default_rng(0).integers(0, 100, 128).astype(np.float32)
    got = agree(kernel, [x, np.zeros_like(x)], (2, 1, 1), (64, 1, 1))
    np.testing.assert_array_equal(got[1][:8], np.full(8, x[:64].sum()))
    np.testing.assert_array_equal(got[1][64:72], np.full(8, x[64:].sum()))
    np.testing.assert_array_equal(got[1][8:64], x[8:64])


def test_divergent_return_after_the_last_barrier() -> None:
    """Items that returned take no part in the leaves that follow."""
    kernel = parse(
        """
        %g: i64 = global_id axis=0
        %l: i64 = local_id axis=0
        %n: i64 = num_groups axis=0
        %four: i64 = const 4
        %tile: array<i64[16], shared> = alloc
        %uniform: bool = gt %n, %four
        if %uniform {
          store %tile, %l, %g
          barrier scope=workgroup
          %odd: i64 = const 1
          %bit: i64 = and %g, %odd
          %some: bool = cast %bit
          if %some {
            return
          } else {
            yield
          }
          yield
        } else {
          yield
        }
        store %y, %g, %l
        return
        """,
        "%y: array<i64[?], global>",
    )
    got = agree(kernel, [np.full(16 * 5, -1)], (5, 1, 1), (16, 1, 1))
    np.testing.assert_array_equal(got[0], np.where(np.arange(80) % 2, -1, np.arange(80) % 16))


def test_uniform_return_before_a_barrier() -> None:
    kernel = parse(
        """
        %g: i64 = global_id axis=0
        %l: i64 = local_id axis=0
        %group: i64 = group_id axis=0
        %tile: array<i64[16], shared> = alloc
        %one: i64 = const 1
        %stop: bool = eq %group, %one
        if %stop {
          return
        } else {
          yield
        }
        store %tile, %l, %g
        barrier scope=workgroup
        %fifteen: i64 = const 15
        %back: i64 = sub %fifteen, %l
        %v: i64 = load %tile, %back
        store %y, %g, %v
        return
        """,
        "%y: array<i64[?], global>",
    )
    got = agree(kernel, [np.full(48, -1)], (3, 1, 1), (16, 1, 1))
    want = np.arange(48).reshape(3, 16)[:, ::-1].copy()
    want[1] = -1
    np.testing.assert_array_equal(got[0], want.reshape(-1))


def test_divergent_continue_after_the_last_barrier_of_a_loop() -> None:
    kernel = parse(
        """
        %g: i64 = global_id axis=0
        %l: i64 = local_id axis=0
        %zero: i64 = const 0
        %one: i64 = const 1
        %five: i64 = const 5
        %seven: i64 = const 7
        %tile: array<i64[8], shared> = alloc
        %sum: i64 = for %zero, %five, %one, %zero (%i: i64, %acc: i64) {
          %v: i64 = add %l, %i
          store %tile, %l, %v
          barrier scope=workgroup
          %back: i64 = sub %seven, %l
          %w: i64 = load %tile, %back
          barrier scope=workgroup
          %bit: i64 = and %w, %one
          %odd: bool = cast %bit
          if %odd {
            continue %acc
          } else {
            yield
          }
          %more: i64 = add %acc, %w
          yield %more
        }
        store %y, %g, %sum
        return
        """,
        "%y: array<i64[?], global>",
    )
    got = agree(kernel, [np.zeros(16, np.int64)], (2, 1, 1), (8, 1, 1))
    want = [sum(w for i in range(5) if not (w := 7 - n + i) & 1) for n in range(8)]
    np.testing.assert_array_equal(got[0], want * 2)


@pytest.mark.parametrize("size", [6, 400])
def test_private_array_lives_across_a_barrier(size: int) -> None:
    kernel = parse(
        f"""
        %g: i64 = global_id axis=0
        %l: i64 = local_id axis=0
        %one: i64 = const 1
        %last: i64 = const {size - 1}
        %p: array<f64[{size}], private> = alloc
        %tile: array<f64[8], shared> = alloc
        %v: f64 = cast %g
        store %p, %one, %v
        store %p, %last, %v
        store %tile, %l, %v
        barrier scope=workgroup
        %seven: i64 = const 7
        %back: i64 = sub %seven, %l
        %w: f64 = load %tile, %back
        %a: f64 = load %p, %one
        %b: f64 = load %p, %last
        %c: f64 = sub %a, %w
        %d: f64 = add %c, %b
        store %y, %g, %d
        return
        """,
        "%y: array<f64[?], global>",
    )
    got = agree(kernel, [np.zeros(24)], (3, 1, 1), (8, 1, 1))
    g = np.arange(24.0)
    np.testing.assert_array_equal(got[0], 2 * g - g.reshape(3, 8)[:, ::-1].reshape(-1))


def test_context_values_are_aligned_for_any_number_of_items() -> None:
    kernel = parse(
        """
        %g: i64 = global_id axis=0
        %a: i8 = load %x, %g
        %b: f64 = cast %a
        %c: bool = cast %a
        %d: f32 = cast %a
        %e: i16 = cast %a
        barrier scope=workgroup
        %f: f64 = cast %c
        %h: f64 = cast %d
        %i: f64 = cast %e
        %k: f64 = add %b, %f
        %l: f64 = add %h, %i
        %m: f64 = add %k, %l
        store %y, %g, %m
        return
        """,
        "%x: array<i8[?], global>; %y: array<f64[?], global>",
    )
    lowered = expand_arrays(kernel)
    made = plan(lowered, schedule(lowered))
    assert len(made.context) == 4
    assert all(offset % size_of(value) == 0 for value, offset in made.context.items())
    x = np.arange(-20, 1, dtype=np.int8)
    got = agree(kernel, [x, np.zeros(21)], (3, 1, 1), (7, 1, 1))
    np.testing.assert_array_equal(got[1], 3.0 * x + (x != 0))


def test_expansion_means_the_same_to_the_evaluator() -> None:
    """Views of views, and a select of arrays."""
    kernel = parse(
        """
        %g: i64 = global_id axis=0
        %zero: i64 = const 0
        %one: i64 = const 1
        %two: i64 = const 2
        %row: array<i32[?], global> = view %x, %g, %one, %two steps=[0, 3]
        %other: array<i32[?], global> = view %x, %g, %zero, %two steps=[0, 1]
        %bit: i64 = and %g, %one
        %odd: bool = cast %bit
        %some: array<i32[?], global> = select %odd, %row, %other
        %n: i64 = dim %some axis=0
        %s: i64 = stride %some axis=0
        %v: i32 = load %some, %one
        %wide: i64 = cast %v
        %a: i64 = add %wide, %n
        %b: i64 = add %a, %s
        store %y, %g, %b
        return
        """,
        "%x: array<i32[?, ?], global>; %y: array<i64[?], global>",
    )
    x = np.arange(48, dtype=np.int32).reshape(6, 8)[:, ::-1]
    want, got = ([x.copy(), np.zeros(6, np.int64)] for _ in range(2))
    emulator.run(kernel, want, (1, 1, 1), (6, 1, 1))
    emulator.run(expand_arrays(kernel), got, (1, 1, 1), (6, 1, 1))
    assert not differences(want, got)
