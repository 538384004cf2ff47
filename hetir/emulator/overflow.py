"""Which 64-bit ops an index is made of, and where they overflow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hetir.emulator.values import Lanes
from hetir.ir import numerics
from hetir.ir.core import Operation, Region, Value, walk
from hetir.ir.types import I64, ArrayType

_ACCESSES = ("load", "store", "view", "atomic.load", "atomic.store", "atomic.rmw", "atomic.cas")
_CHECKED = ("add", "sub", "mul", "neg", "abs", "shl")
# an op that folds a value into a range (mod, and, shifts right) is where hashing ends
_THROUGH = (*_CHECKED, "min", "max", "select", "div", "floordiv", "assume_uniform")


def index_ops(body: Region) -> frozenset[Operation]:
    """The i64 arithmetic that feeds an index, through joins and loops."""
    sources = dict[Value, list[Value]]()
    makers: dict[Value, Operation] = {}
    todo: list[Value] = []
    for op in walk(body):
        if op.name in _ACCESSES:
            todo += _indices(op)
        if op.spec.regions:
            for value, given in _joined(op):
                sources.setdefault(value, []).append(given)
        elif op.name in _THROUGH:
            sources[op.results[0]] = list(op.operands)
            makers[op.results[0]] = op
    found: set[Operation] = set()
    seen: set[Value] = set()
    while todo:
        value = todo.pop()
        if value in seen or value.type != I64:
            continue
        seen.add(value)
        todo += sources.get(value, [])
        maker = makers.get(value)
        if maker is not None and maker.name in _CHECKED:
            found.add(maker)
    return frozenset(found)


def _indices(op: Operation) -> tuple[Value, ...]:
    """The operands that address, without the values stored."""
    head = op.operands[0].type
    if op.name == "view":
        return op.operands[1:]
    return op.operands[1 : 1 + (head.ndim if isinstance(head, ArrayType) else 1)]


def _joined(op: Operation) -> Iterator[tuple[Value, Value]]:
    """Pairs (result or block argument, a value that it may be)."""
    if op.name == "if":
        for region in op.regions:
            if region.terminator.name == "yield":
                yield from zip(op.results, region.terminator.operands, strict=True)
        return
    carried = op.operands[3:] if op.name == "for" else op.operands
    args = op.regions[0].args[len(op.regions[0].args) - len(carried) :]
    yield from zip(args, carried, strict=True)
    if op.name == "for":
        yield from zip(op.results, args, strict=True)
    for end in _ends(op.regions[0]):
        targets = op.results if end.name == "break" else args
        yield from zip(targets, end.operands, strict=True)


def _ends(region: Region) -> Iterator[Operation]:
    """The terminators that end a turn of this loop, not of one inside it."""
    if region.terminator.name in ("yield", "continue", "break"):
        yield region.terminator
    for op in region.body:
        if op.name == "if":
            for inner in op.regions:
                yield from (e for e in _ends(inner) if e.name != "yield")


def wrapped(name: str, lanes: Sequence[Lanes], value: Lanes) -> Lanes:
    """Where the 64-bit result is not the true one."""
    nought = np.int64(0)
    with np.errstate(all="ignore"):
        match name, *lanes:
            case "add", a, b:
                result = ((a ^ value) & (b ^ value)) < nought
            case "sub", a, b:
                result = ((a ^ b) & (a ^ value)) < nought
            case "mul", a, b:
                result = numerics.mul_hi({}, value.dtype, a, b) != (value >> np.int64(63))
            case "shl", a, b:
                result = (value >> (b & np.int64(63))) != a
            case _:
                result = lanes[0] == np.iinfo(np.int64).min
    return np.asarray(result)
