"""How many bits an i64 value can need: what indices may be computed with, and narrowed to."""

from __future__ import annotations

from collections.abc import Mapping

from hetir.ir import ops
from hetir.ir.build import constant
from hetir.ir.core import Kernel, Operation, Region, Value, walk
from hetir.ir.types import I64, Scalar
from hetir.passes.regions import definitions, exits_of

FULL = 64
# no launch has 2**62 work-items, no array 2**48 bytes
_KNOWN = {
    "local_id": 13,
    "group_size": 13,
    "lane_id": 8,
    "subgroup_id": 13,
    "subgroup_size": 8,
    "group_id": 62,
    "num_groups": 62,
    "global_id": 62,
    "dim": 48,
    "stride": 48,
}


def magnitudes(kernel: Kernel) -> Mapping[Value, int]:
    """For each i64 value a b so that -2**(b-1) <= value < 2**(b-1), where b is below 64.

    Such a value, and sums with what keeps b below 64, never wrapped on the way. Values that
    are missing can be anything.
    """
    found: dict[Value, int] = {}
    _region(kernel.body, found)
    return found


def _region(region: Region, found: dict[Value, int]) -> None:
    for op in region.body:
        if op.spec is ops.FOR:
            # an index that the body sees lies between start and stop
            start, stop = (found.get(v, FULL) for v in op.operands[:2])
            _note(found, op.regions[0].args[0], max(start, stop))
        if op.results and op.results[0].type == I64 and not op.regions:
            _note(found, op.result, _bits(op, found))
        for inner in op.regions:
            _region(inner, found)


def _note(found: dict[Value, int], value: Value, bits: int) -> None:
    if bits < FULL:
        found[value] = bits


def _bits(op: Operation, found: Mapping[Value, int]) -> int:  # noqa: PLR0911 - one an op
    known = _KNOWN.get(op.name)
    if known is not None:
        return known + 1  # the sign
    args = [found.get(v, FULL) for v in op.operands]
    match op.name:
        case "const":
            return int(constant(op) or 0).bit_length() + 1
        case "add" | "sub":
            return max(args) + 1
        case "neg" | "abs":
            return args[0] + 1
        case "mul":
            return args[0] + args[1]
        case "min" | "max":
            return max(args)
        case "select":
            return max(args[1:])
        case "div" | "floordiv":
            return args[0] + 1
        case "rem" | "mod":
            return args[1]
        case "cast":
            return _cast(op.operands[0])
        case _:
            return FULL


def _cast(value: Value) -> int:
    kind = value.type
    if not isinstance(kind, Scalar) or kind.kind not in ("bool", "int", "uint"):
        return FULL
    return kind.bits + (kind.kind != "int")


_ACCESSES = (
    *(ops.LOAD, ops.STORE, ops.ATOMIC_LOAD, ops.ATOMIC_STORE, ops.ATOMIC_RMW, ops.ATOMIC_CAS),
)
_THROUGH = (
    *(ops.ADD, ops.SUB, ops.MUL, ops.NEG, ops.SHL, ops.MIN, ops.MAX, ops.SELECT),
    ops.ASSUME_UNIFORM,
)


def addressing(kernel: Kernel) -> frozenset[Value]:
    """The i64 values of an expanded kernel that addresses are made of.

    Index arithmetic that overflows has no meaning (the evaluator reports it), so that these
    never wrap where the access is executed.
    """
    makers = definitions(kernel.body)
    todo = [op.operands[1] for op in walk(kernel.body) if op.spec in _ACCESSES]
    found: set[Value] = set()
    while todo:
        value = todo.pop()
        if value in found or value.type != I64:
            continue
        found.add(value)
        op = makers.get(value)
        if op is None:
            continue
        if op.spec in _THROUGH:
            todo += op.operands
        elif op.spec is ops.IF:
            at = op.results.index(value)
            ends = (r.terminator for r in op.regions)
            todo += [e.operands[at] for e in ends if e.spec is ops.YIELD]
        elif op.spec in (ops.FOR, ops.LOOP):
            todo += _sources(op, value)
    return frozenset(found)


def _sources(op: Operation, value: Value) -> list[Value]:
    """What a loop's index, carried value or result may come from."""
    args, counted = op.regions[0].args, op.spec is ops.FOR
    if counted and value is args[0]:
        return [op.operands[0], op.operands[2]]
    carried = args[1:] if counted else args
    initial = op.operands[3:] if counted else op.operands
    ends = list(exits_of(op.regions[0]))
    if value in op.results:
        at = op.results.index(value)
        left = [e.operands[at] for e in ends if e.spec is ops.BREAK]
        return [*left, *(carried[at : at + 1] if counted else ())]
    at = carried.index(value)
    return [initial[at], *(e.operands[at] for e in ends if e.spec is not ops.BREAK)]


def positive(kernel: Kernel) -> frozenset[Value]:
    """The i64 values that are known to be at least 1."""
    found: set[Value] = set()
    for op in walk(kernel.body):
        if not op.results or op.results[0].type != I64 or op.regions:
            continue
        number = constant(op)
        if (
            (number is not None and number > 0)
            or op.spec in (ops.GROUP_SIZE, ops.NUM_GROUPS, ops.SUBGROUP_SIZE)
            or (op.spec in (ops.MUL, ops.MIN) and all(v in found for v in op.operands))
            or (op.spec is ops.MAX and any(v in found for v in op.operands))
        ):
            found.add(op.results[0])
    return frozenset(found)
