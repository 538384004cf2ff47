"""Which vectors of memory are asked for some kilobytes before they are needed.

The processor follows streams by itself, but no further than a page and not from one row of an
array to the next, and it learns of a line that is stored to when the store waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hetir.backends.cpu.frame import Frame
from hetir.backends.llvm.code import Code
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value
from hetir.ir.types import ArrayType
from hetir.passes.access import Access, Addresses, Atom
from hetir.passes.regions import LOOPS
from hetir.passes.uniformity import Uniformity

_LINE = 64
_AHEAD = 8192  # bytes; half and double of it do almost as well
_LARGE = 1 << 20  # bytes of an array that the nearest caches do not hold
_NAME = "llvm.prefetch.p0"


class Prefetches:
    """Answers for the plain accesses of one kernel.

    `in_rows` says that vectors run along rows of work-items, where one continues the other's
    lines; elsewhere only loops have a direction.
    """

    def __init__(
        self,
        kernel: Kernel,
        addresses: Addresses,
        known: Uniformity,
        frame: Frame,
        *,
        in_rows: bool,
    ) -> None:
        width = (frame.workgroup or (1,))[0]
        self._arrays = leaders(kernel, addresses, known, in_rows=in_rows, width=width)
        self._params = {p.value: index for index, p in enumerate(kernel.params)}
        self._frame = frame

    def emit(self, code: Code, op: Operation, where: str, count: int) -> None:
        """Before an access to `count` bytes at `where`: ask for what lies ahead of them."""
        array = self._arrays.get(op)
        if array is None:
            return
        assert isinstance(array.type, ArrayType)
        ahead = code.index(where, self._distance(self._params[array], array.type.element.bytes))
        code.declarations[_NAME] = f"declare void @{_NAME}(ptr, i32, i32, i32)"
        for line in range(0, count, _LINE):
            place = code.index(ahead, str(line))
            code.put(f"call void @{_NAME}(ptr {place}, i32 {op.spec is ops.STORE:d}, i32 3, i32 1)")

    def _distance(self, index: int, element: int) -> str:
        """How far to look: nowhere in arrays that caches hold or whose short rows lie apart."""
        frame = self._frame
        pays = frame.large(index, _LARGE // element)
        axes = frame.slot(index).ndim or 0
        if axes > 1:
            pays = frame.rows_meet(index, element, pays, _LINE, 4 * _AHEAD)
        return frame.choice(pays, _AHEAD)


def leaders(
    kernel: Kernel, addresses: Addresses, known: Uniformity, *, in_rows: bool, width: int
) -> dict[Operation, Value]:
    """The accesses, each with its array, that come to each line of large arrays first.

    They go on in memory from vector to vector, in the first loop that touches the array, and each
    workgroup has its own. `width` is how many work-items lie side by side, at least.
    """
    params, made = {p.value for p in kernel.params}, addresses.definitions
    first: dict[Value, list[Access]] = {}
    places: dict[Value, Operation | None] = {}
    for op, loop in _plain(kernel.body, None):
        access = addresses.of(op)
        if access.root not in params or access.kind(known) != "contiguous":
            continue
        if not (in_rows if loop is None else _goes_on(access, loop, made, width)):
            continue
        if places.setdefault(access.root, loop) is loop:
            _add(first.setdefault(access.root, []), access)
    return {access.op: root for root, kept in first.items() for access in kept}


def _plain(region: Region, loop: Operation | None) -> Iterator[tuple[Operation, Operation | None]]:
    """Each load and store, with the innermost loop around it."""
    for op in region.body:
        if op.spec in (ops.LOAD, ops.STORE):
            yield op, loop
        for inner in op.regions:
            yield from _plain(inner, op if op.spec in LOOPS else loop)


def _goes_on(access: Access, loop: Operation, made: Mapping[Value, Operation], width: int) -> bool:
    """Whether what lies ahead of a turn of the loop is what later turns need, and no cache has."""
    turn = Atom("iteration", loop)
    start = [atom for term in access.offset.terms if turn not in term for atom in term]
    step = access.offset.coefficient(turn)
    if step is None or not any(atom.kind in ("origin", "value") for atom in start):
        return False  # all workgroups go the same way
    if step.constant is not None:
        covered = 0 < step.constant <= width * access.size
        return covered or (step.constant > 0 and _AHEAD % step.constant == 0)
    return all(len(term) == 1 and _group_size(term[0], made) for term in step.terms)


def _group_size(atom: Atom, made: Mapping[Value, Operation]) -> bool:
    op = made.get(atom.of) if isinstance(atom.of, Value) else None
    return op is not None and op.spec is ops.GROUP_SIZE


def _add(kept: list[Access], access: Access) -> None:
    """Keep an access unless another one is ahead of it by rows or lines; drop those behind it."""
    for index, other in enumerate(kept):
        ahead = _ahead(access, other)
        if ahead is not None:
            if ahead >= _LINE:
                kept[index] = access
            return
    kept.append(access)


def _ahead(one: Access, other: Access) -> int | None:
    """How far the first access is ahead, in bytes, or in rows of a line; None if unknown."""
    apart = one.offset + -other.offset
    rows = [(term, factor) for term, factor in apart.terms.items() if term]
    if not rows:
        return apart.terms.get((), 0)
    if len(rows) > 1 or any(atom.kind != "stride" for atom in rows[0][0]):
        return None
    return rows[0][1] * _LINE
