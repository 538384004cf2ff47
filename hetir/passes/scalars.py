"""Small private arrays at constant indices become plain values."""

from __future__ import annotations

from dataclasses import replace

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value, walk
from hetir.ir.types import ArrayType, Scalar
from hetir.passes.forward import Ops
from hetir.passes.regions import LOOPS, definitions, is_private, make_const, number
from hetir.source import Loc

MAX_ELEMENTS = 64
"""The most elements that an array which becomes values may have."""

Element = tuple[Value, int]


def scalars(kernel: Kernel) -> Kernel:
    """The kernel without private arrays that are only read and written at constant indices.

    Each element becomes a value, carried around loops and out of ifs that write it. What was
    never written reads as 0 (it has no meaning).
    """
    arrays = _candidates(kernel)
    if not arrays:
        return kernel
    return replace(kernel, body=_Promotion(arrays, kernel).region(kernel.body, ()))


def _candidates(kernel: Kernel) -> dict[Value, tuple[int, ...]]:
    """The private arrays to replace, with their shapes."""
    defs = definitions(kernel.body)
    found: dict[Value, tuple[int, ...]] = {}
    for op in walk(kernel.body):
        if op.spec is ops.ALLOC and is_private(op.result):
            kind = op.result.type
            assert isinstance(kind, ArrayType)
            elements = 1
            for extent in kind.shape or ():
                elements *= extent
            if elements <= MAX_ELEMENTS:
                found[op.result] = kind.shape or ()
            continue
        for value in op.operands:
            if value in found and not _constant_access(op, found[value], defs):
                del found[value]
    return found


def _constant_access(op: Operation, shape: tuple[int, ...], defs: dict[Value, Operation]) -> bool:
    """Whether an op reads or writes its array at a constant index in bounds."""
    if op.spec in (ops.DIM, ops.STRIDE):
        return False
    if op.spec not in (ops.LOAD, ops.STORE):
        return False
    indices = [number(defs.get(v)) for v in op.operands[1 : 1 + len(shape)]]
    return all(i is not None and 0 <= i < n for i, n in zip(indices, shape, strict=True))


class _Promotion:
    """A walk that knows each element's current value."""

    def __init__(self, arrays: dict[Value, tuple[int, ...]], kernel: Kernel) -> None:
        self.arrays = arrays
        self.defs = definitions(kernel.body)
        self.env: dict[Value, Value] = {}
        self.now: dict[Element, Value] = {}
        self.written: dict[Operation, tuple[Element, ...]] = {}
        self.loop: tuple[Element, ...] = ()

    def element(self, op: Operation) -> Element:
        shape = self.arrays[op.operands[0]]
        at = 0
        for extent, index in zip(shape, op.operands[1:], strict=False):
            at = at * extent + (number(self.defs[index]) or 0)
        return op.operands[0], at

    def writes(self, op: Operation) -> tuple[Element, ...]:
        """The elements that an op with regions may write, in a fixed order."""
        if op not in self.written:
            found: dict[Element, None] = {}
            for inner in (o for r in op.regions for o in r.body):
                if inner.spec is ops.STORE and inner.operands[0] in self.arrays:
                    found[self.element(inner)] = None
                elif inner.regions:
                    found.update(dict.fromkeys(self.writes(inner)))
            self.written[op] = tuple(found)
        return self.written[op]

    def read(self, element: Element, out: Ops, loc: Loc | None) -> Value:
        """The element's value; 0 where it has none yet."""
        if element not in self.now:
            kind = element[0].type
            assert isinstance(kind, ArrayType)
            out.append(make_const(kind.element, 0, loc))
            return out[-1].result
        return self.now[element]

    def read_all(self, elements: tuple[Element, ...], out: Ops, loc: Loc | None) -> list[Value]:
        return [self.read(e, out, loc) for e in elements]

    def region(self, region: Region, yields: tuple[Element, ...]) -> Region:
        """`yields` are the elements whose values the region's `yield` gains."""
        out: Ops = []
        for op in region.body:
            self.op(op, yields, out)
        return Region(region.args, tuple(out))

    def op(self, op: Operation, yields: tuple[Element, ...], out: Ops) -> None:
        operands = tuple(self.env.get(v, v) for v in op.operands)
        array = op.operands[0] if op.operands else None
        if op.spec is ops.ALLOC and op.result in self.arrays:
            # a new array in every iteration: nothing of the last one is left
            self.now = {e: v for e, v in self.now.items() if e[0] is not op.result}
        elif array in self.arrays and op.spec is ops.LOAD:
            self.env[op.result] = self.read(self.element(op), out, op.loc)
        elif array in self.arrays:
            self.now[self.element(op)] = operands[-1]
        elif op.spec is ops.IF:
            out.append(self.branch(op, operands))
        elif op.spec in LOOPS:
            out.append(self.repeat(op, operands, out))
        elif op.spec in (ops.BREAK, ops.CONTINUE, ops.YIELD):
            gained = yields if op.spec is ops.YIELD else self.loop
            out.append(replace(op, operands=(*operands, *self.read_all(gained, out, op.loc))))
        else:
            out.append(op if operands == op.operands else replace(op, operands=operands))

    def branch(self, op: Operation, operands: tuple[Value, ...]) -> Operation:
        written = self.writes(op)
        before = dict(self.now)
        arms: list[Region] = []
        for arm in op.regions:
            self.now = dict(before)
            arms.append(self.region(arm, written))
        self.now = before
        arrives = any(arm.terminator.spec is ops.YIELD for arm in arms)
        gained = self.gain(written) if arrives else ()
        return replace(op, operands=operands, results=(*op.results, *gained), regions=tuple(arms))

    def gain(self, elements: tuple[Element, ...]) -> tuple[Value, ...]:
        """New values that the elements now have."""
        values: list[Value] = []
        for array, at in elements:
            assert isinstance(array.type, ArrayType)
            kind: Scalar = array.type.element
            values.append(Value(kind, array.name))
            self.now[array, at] = values[-1]
        return tuple(values)

    def repeat(self, op: Operation, operands: tuple[Value, ...], out: Ops) -> Operation:
        (body,) = op.regions
        written = self.writes(op)
        initial = self.read_all(written, out, op.loc)
        outer, self.loop = self.loop, written
        before = dict(self.now)
        args = (*body.args, *self.gain(written))
        inner = Region(args, self.region(body, written).body)
        self.loop = outer
        self.now = before
        results = (*op.results, *self.gain(written))
        return replace(op, operands=(*operands, *initial), results=results, regions=(inner,))
