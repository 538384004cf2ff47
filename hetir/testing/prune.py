"""Generated kernels without some of their ops, still free of races and in bounds.

What a kernel's order, indices and ends depend on stays; any other op may go: numbers become
zeros, an `if` one of its arms, a `for` its initial values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value, walk
from hetir.ir.rewrite import Env
from hetir.ir.types import ArrayType, Scalar
from hetir.passes.dce import dce
from hetir.passes.regions import definitions, falls, make_const, replace_operands, source_of
from hetir.testing.cases import Case

_KEPT = (ops.CONST, ops.ALLOC, ops.VIEW, ops.BARRIER)
_REPORTS = (ops.PRINT, ops.ASSERT, ops.FENCE)


def optional(kernel: Kernel) -> list[Operation]:
    """The ops that may go, in program order."""
    fixed = _Fixed(kernel)
    return [op for op in walk(kernel.body) if fixed.may_go(op)]


def without(kernel: Kernel, gone: set[Operation]) -> Kernel:
    """The kernel without optional ops, and without what nobody needs then."""
    body = Region(kernel.body.args, tuple(_kept(kernel.body, gone, {})))
    return _tidy(replace(kernel, body=body))


class _Fixed:
    """The ops that everything rests on."""

    def __init__(self, kernel: Kernel) -> None:
        self.defs = definitions(kernel.body)
        self.needed: set[Operation] = set()
        self.ends: set[Operation] = set()  # the ifs that end loops
        for op in walk(kernel.body):
            for value in self.resting(op):
                self.need(value)

    def resting(self, op: Operation) -> tuple[Value, ...]:
        """The operands of an op that must stay what they are."""
        head = op.operands[0].type if op.operands else None
        if op.spec is ops.FOR:
            return op.operands[:3]
        if op.spec is ops.LOOP:
            self.ends.add(next(o for o in op.regions[0].body if o.spec is ops.IF))
            return (op.operands[0], *self.counters(op.regions[0]))
        if op in self.ends:
            return op.operands
        if isinstance(head, ArrayType) and op.spec not in (ops.DIM, ops.STRIDE):
            count = len(op.operands) if op.spec is ops.VIEW else 1 + head.ndim
            return op.operands[1:count]
        return ()

    def counters(self, body: Region) -> Iterator[Value]:
        """The next counters of an endless loop, wherever they stand."""
        for op in body.body:
            if op.spec in (ops.CONTINUE, ops.YIELD):
                yield op.operands[0]
            elif op.spec is ops.IF:
                for region in op.regions:
                    yield from self.leaving(region)

    def leaving(self, region: Region) -> Iterator[Value]:
        for op in region.body:
            if op.spec is ops.CONTINUE:
                yield op.operands[0]
            elif op.spec is ops.IF:
                for inner in op.regions:
                    yield from self.leaving(inner)

    def need(self, value: Value) -> None:
        """Keep what makes a value; a remainder is small whatever is divided."""
        op = self.defs.get(value)
        if op is None or op in self.needed:
            return
        self.needed.add(op)
        for operand in op.operands[1 if op.spec is ops.MOD else 0 :]:
            self.need(operand)

    def may_go(self, op: Operation) -> bool:
        if op.spec.terminator or op.spec in _KEPT or op in self.needed or op in self.ends:
            return False
        if op.spec is ops.IF:
            return any(map(falls, op.regions))
        if op.spec in (ops.STORE, ops.ATOMIC_STORE):
            root = source_of(op.operands[0], self.defs).root
            return root is None or root not in self.defs
        if not op.results:
            return op.spec in _REPORTS or op.spec in (ops.FOR, ops.LOOP)
        return op.spec is ops.SELECT or all(isinstance(v.type, Scalar) for v in op.results)


def _kept(region: Region, gone: set[Operation], env: Env) -> Iterator[Operation]:
    for op in region.body:
        if op not in gone:
            regions = tuple(Region(r.args, tuple(_kept(r, gone, env))) for r in op.regions)
            yield replace_operands(replace(op, regions=regions), env)
        elif op.spec is ops.IF:
            arm = next(filter(falls, op.regions))
            *body, last = _kept(arm, gone, env)
            yield from body
            env.update(zip(op.results, last.operands, strict=True))
        elif op.spec is ops.FOR:
            values = [env.get(v, v) for v in op.operands[3:]]
            env.update(zip(op.results, values, strict=True))
        elif op.spec is ops.SELECT and isinstance(op.result.type, ArrayType):
            env[op.result] = env.get(op.operands[1], op.operands[1])
        else:
            for value in op.results:
                assert isinstance(value.type, Scalar)
                zero = make_const(value.type, 0, op.loc)
                env[value] = zero.result
                yield zero


def _tidy(kernel: Kernel) -> Kernel:
    """Without shared arrays that nobody reads, and without barriers when there is none left."""
    kernel = dce(kernel)
    defs = definitions(kernel.body)
    loads = (op.operands[0] for op in walk(kernel.body) if op.spec is ops.LOAD)
    read = {source_of(array, defs).root for array in loads}
    shared = {op.result for op in walk(kernel.body) if _is_shared(op)}
    barriers = shared & read

    def cleaned(region: Region) -> Region:
        body: list[Operation] = []
        for op in region.body:
            writes = op.spec is ops.STORE or op.name.startswith("atomic")
            unread = writes and source_of(op.operands[0], defs).root in shared - read
            if not unread and (op.spec is not ops.BARRIER or barriers):
                body.append(replace(op, regions=tuple(map(cleaned, op.regions))))
        return Region(region.args, tuple(body))

    return dce(replace(kernel, body=cleaned(kernel.body)))


def _is_shared(op: Operation) -> bool:
    kind = op.result.type if op.spec is ops.ALLOC else None
    return isinstance(kind, ArrayType) and kind.space == "shared"


def lean(case: Case) -> Case:
    """The case without arguments that the kernel does not use."""
    used = {v for op in walk(case.kernel.body) for v in op.operands}
    pairs = list(zip(case.kernel.params, case.inputs, strict=True))
    keep = [n for n, (param, _) in enumerate(pairs) if param.value in used]
    for number in keep:  # and those in whose memory they lie
        under = pairs[number][1].of
        keep += [under] if under is not None and under not in keep else []
    keep.sort()
    params = tuple(replace(pairs[n][0], source=(at,)) for at, n in enumerate(keep))
    inputs = [pairs[n][1] for n in keep]
    shared = [i if i.of is None else replace(i, of=keep.index(i.of)) for i in inputs]
    return replace(case, kernel=replace(case.kernel, params=params), inputs=tuple(shared))
