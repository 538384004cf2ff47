"""The argument block of a kernel: where each parameter lies and how it is used."""

from __future__ import annotations

from collections.abc import Iterator

from hetir.artifact import Layout, Slot
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value, walk
from hetir.ir.types import ArrayType, RefType, Scalar

_READ_ONLY = (ops.LOAD, ops.ATOMIC_LOAD)
_WRITE_ONLY = (ops.STORE, ops.ATOMIC_STORE)
_ACCESSES = (*_READ_ONLY, *_WRITE_ONLY, ops.ATOMIC_RMW, ops.ATOMIC_CAS)


def layout_of(kernel: Kernel) -> Layout:
    """The canonical block: parameters in order, each aligned to its own size."""
    reads, writes = accessed(kernel)
    slots: list[Slot] = []
    offset = 0
    for param in kernel.params:
        kind = param.value.type
        assert isinstance(kind, (Scalar, ArrayType))
        scalar = isinstance(kind, Scalar)
        size = kind.bytes if scalar else 8 + 16 * kind.ndim
        align = kind.bytes if scalar else 8
        offset = -(-offset // align) * align
        slots.append(
            Slot(
                offset=offset,
                source=tuple(map(_step, param.source)),
                dtype=str(kind if scalar else kind.element),
                ndim=None if scalar else kind.ndim,
                reads=scalar or param.value in reads,
                writes=param.value in writes,
            )
        )
        offset += size
    return Layout(slots=tuple(slots), size=-(-offset // 16) * 16)


def _step(field: int | str) -> int | str:
    """A field as the runtime takes it: in a tuple or vector its position."""
    return int(field) if isinstance(field, str) and field.isdecimal() else field


def accessed(kernel: Kernel) -> tuple[set[Value], set[Value]]:
    """The array parameters that may be read, and those that may be written."""
    roots = roots_of(kernel)
    reads: set[Value] = set()
    writes: set[Value] = set()
    for op in walk(kernel.body):
        if op.spec in _ACCESSES:
            found = roots.get(op.operands[0], frozenset())
            if op.spec not in _WRITE_ONLY:
                reads |= found
            if op.spec not in _READ_ONLY:
                writes |= found
    return reads, writes


def roots_of(kernel: Kernel) -> dict[Value, frozenset[Value]]:
    """The parameters and allocs that each array or reference may come from."""
    roots: dict[Value, frozenset[Value]] = {
        p.value: frozenset((p.value,)) for p in kernel.params if isinstance(p.value.type, ArrayType)
    }
    edges: dict[Value, list[Value]] = {}
    for target, source in _flows(kernel.body, ()):
        if isinstance(target.type, (ArrayType, RefType)):
            edges.setdefault(source, []).append(target)
    for op in walk(kernel.body):
        if op.spec is ops.ALLOC:
            roots[op.result] = frozenset(op.results)
    work = list(roots)
    while work:
        source = work.pop()
        for target in edges.get(source, ()):
            before = roots.get(target, frozenset())
            if not roots[source] <= before:
                roots[target] = before | roots[source]
                work.append(target)
    return roots


def _flows(region: Region, loop: tuple[Operation, ...]) -> Iterator[tuple[Value, Value]]:
    """(to, from) for each way in which an array can become another value."""
    for op in region.body:
        match op.name:
            case "view" | "base":
                yield op.result, op.operands[0]
            case "select":
                yield op.result, op.operands[1]
                yield op.result, op.operands[2]
            case "if":
                for inner in op.regions:
                    yield from _flows(inner, loop)
                    if inner.terminator.spec is ops.YIELD:
                        yield from zip(op.results, inner.terminator.operands, strict=True)
            case "for" | "loop":
                yield from _loop_flows(op)
            case "break":
                yield from zip(loop[-1].results, op.operands, strict=True)
            case "continue":
                yield from zip(carried_args(loop[-1]), op.operands, strict=True)
            case _:
                pass


def carried_args(op: Operation) -> tuple[Value, ...]:
    """The block arguments of a loop that carry values from one iteration to the next."""
    return op.regions[0].args[1:] if op.spec is ops.FOR else op.regions[0].args


def _loop_flows(op: Operation) -> Iterator[tuple[Value, Value]]:
    carried, (region,) = carried_args(op), op.regions
    yield from zip(carried, op.operands[3:] if op.spec is ops.FOR else op.operands, strict=True)
    if op.spec is ops.FOR:
        yield from zip(op.results, carried, strict=True)
    if region.terminator.spec is ops.YIELD:
        yield from zip(carried, region.terminator.operands, strict=True)
    yield from _flows(region, (op,))
