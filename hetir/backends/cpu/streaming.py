"""Which stores may go past the caches: their line is not read first, and takes nobody's place.

That pays where the array is larger than the last cache, is only written, and each line of it is
written in one go. The processor keeps such stores in no order with others, so that kernels that
synchronise have none, and the entry function ends with a fence.
"""

from __future__ import annotations

from hetir.backends.cpu.frame import Frame
from hetir.backends.llvm.code import Code
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value, walk
from hetir.ir.types import ArrayType, RefType
from hetir.passes.layout import roots_of
from hetir.passes.regions import LOOPS
from hetir.target import Target

_LINE = 64
_PIECE = 16
_FENCE = "llvm.x86.sse.sfence"
_SYNC = (ops.ATOMIC_LOAD, ops.ATOMIC_STORE, ops.ATOMIC_RMW, ops.ATOMIC_CAS, ops.FENCE)


class Streams:
    """Answers for the stores of one kernel.

    `in_rows` says that vectors run along rows of work-items, where one continues the other's
    lines; elsewhere a vector must have whole lines.
    """

    def __init__(self, kernel: Kernel, target: Target, frame: Frame, *, in_rows: bool) -> None:
        self._bytes = target.limits.get("cache_bytes")
        self._stores = streaming(kernel) if self._bytes else {}
        self._params = {p.value: index for index, p in enumerate(kernel.params)}
        self._frame = frame
        self._in_rows = in_rows
        self._used = False

    def of(self, op: Operation, vector_bytes: int) -> tuple[str, int] | None:
        """For a store of whole vectors, the name of whether it streams, and the alignment then."""
        if op not in self._stores or vector_bytes < _LINE:
            return None
        assert self._bytes is not None
        self._used = True
        array, looped = self._stores[op]
        assert isinstance(array.type, ArrayType)
        large = self._frame.large(self._params[array], self._bytes // array.type.element.bytes)
        return large, _PIECE if self._in_rows and not looped else _LINE

    def end(self, code: Code) -> None:
        """What the end of the entry function needs, before anybody is told of it."""
        if self._used:
            code.declarations[_FENCE] = f"declare void @{_FENCE}()"
            code.put(f"call void @{_FENCE}()")


def streaming(kernel: Kernel) -> dict[Operation, tuple[Value, bool]]:
    """The stores to arrays that are only written, each with its array and whether a loop does it.

    A store that a loop does again and again to one place is none of them.
    """
    if any(op.spec in _SYNC for op in walk(kernel.body)):
        return {}
    roots = roots_of(kernel)
    read: set[Value] = set()
    for op in walk(kernel.body):
        if op.spec is ops.LOAD:
            read |= roots.get(op.operands[0], frozenset())
    found: dict[Operation, tuple[Value, bool]] = {}
    for op, moves, looped in _stores(kernel.body, frozenset(), looped=False):
        kind, arrays = op.operands[0].type, roots.get(op.operands[0], frozenset())
        assert isinstance(kind, RefType)
        if kind.space == "global" and moves and len(arrays) == 1 and not arrays & read:
            (array,) = arrays
            found[op] = array, looped
    return found


def _stores(
    region: Region, moving: frozenset[Value], *, looped: bool
) -> list[tuple[Operation, bool, bool]]:
    """Each store, whether the innermost loop moves its place, and whether there is one."""
    known = set(moving)
    found: list[tuple[Operation, bool, bool]] = []
    for op in region.body:
        if op.spec is ops.STORE:
            found.append((op, not looped or op.operands[1] in known, looped))
        for inner in op.regions:
            if op.spec in LOOPS:
                found += _stores(inner, frozenset(inner.args), looped=True)
            else:
                found += _stores(inner, frozenset(known), looped=looped)
        if not op.regions and not known.isdisjoint(op.operands):
            known.update(op.results)
    return found
