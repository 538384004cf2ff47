"""Rows of work-items that run on over neighbouring groups, in vectors that start where lines do.

NumPy's large arrays begin 16 bytes into a page: vectors that are whole lines and start with the
first element would each lie across two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetir.backends.cpu.masked import MaskedLeaf
from hetir.backends.cpu.program import Leaf
from hetir.backends.cpu.vectors import Rep, Span
from hetir.backends.llvm.memory import element_of
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value, walk
from hetir.passes.regions import LOOPS

if TYPE_CHECKING:
    from hetir.backends.cpu.emit import Emitter

_LINE = 64
_MOST_OPS = 200  # of a leaf that is written a second time, for ends of rows
_LONG = 8  # vectors of a row that is worth two ends
_SUMS = (ops.ADD, ops.SUB, ops.MUL, ops.CONST, ops.GLOBAL_ID)
_PLACES = (ops.LOCAL_ID, ops.GROUP_ID, ops.LANE_ID, ops.SUBGROUP_ID)


@dataclass(frozen=True, slots=True)
class Anchor:
    """The store whose lines the vectors of a leaf follow, and the ops that make its address."""

    leaf: Leaf
    store: Operation
    address: tuple[Operation, ...]


def anchor(kernel: Kernel, leaf: Leaf, definitions: Mapping[Value, Operation]) -> Anchor | None:
    """The first store of a short leaf without loops whose address is a sum.

    None where there is none, or where work-items know more of their place along x than their
    global id.
    """
    body = [*leaf.again, *walk(Region((), tuple(leaf.ops)))]
    if len(body) > _MOST_OPS or any(op.spec in LOOPS for op in body) or _placed(kernel):
        return None
    for op in body:
        if op.spec is ops.STORE:
            needed = _needed(op.operands[:2], set(body), definitions)
            if needed and all(step.spec in _SUMS for step in needed):
                return Anchor(leaf, op, tuple(step for step in body if step in needed))
    return None


def _placed(kernel: Kernel) -> bool:
    places = (op for op in walk(kernel.body) if op.spec in _PLACES)
    return any(op.attrs.get("axis", 0) == 0 for op in places)


def _needed(
    values: Iterable[Value], body: set[Operation], definitions: Mapping[Value, Operation]
) -> set[Operation]:
    """The ops of a leaf that its values come from."""
    found: set[Operation] = set()
    pending = list(values)
    while pending:
        source = definitions.get(pending.pop())
        if source in body and source not in found:
            found.add(source)
            pending += source.operands
    return found


def run_on(host: Emitter, at: Anchor, first: str, count: str, y: str, z: str) -> None:
    """Run a row of the work-items of `count` groups from `first` on, which share y and z."""
    code, size, width = host.code, host.frame.group_size(0), host.width_of(at.leaf)
    start = code.add(f"mul nuw nsw i64 {first}, {size}")
    items = code.add(f"mul nuw nsw i64 {count}, {size}")
    rest = Rep("same", y), Rep("same", z)
    before = _before(MaskedLeaf(host, width), at, (Rep("line", start, 1), *rest), items)
    total = code.add(f"add nuw nsw i64 {items}, {before}")
    origin = code.add(f"sub nsw i64 {start}, {before}")
    with host.counted("0", total, width) as index:
        x = code.add(f"add nsw i64 {origin}, {index}")
        low = code.add(f"sub nsw i64 {before}, {index}")
        high = code.add(f"sub nsw i64 {total}, {index}")
        vector, mask = MaskedLeaf(host, width), f"%{code.fresh('row')}"
        vector.spans[mask] = Span(low, high)
        vector.run(at.leaf, "0", (Rep("line", x, 1), *rest), tail=mask)


def _before(vector: MaskedLeaf, at: Anchor, local: tuple[Rep, ...], items: str) -> str:
    """How many lanes of a row's first vector lie before its first item, which is at `local`."""
    code, size = vector.code, element_of(at.store).bytes
    vector.local = local
    for op in at.address:
        vector.plain(op)
    base, offset = (vector.rep(v) for v in at.store.operands[:2])
    if base.kind != "same" or offset.kind != "line" or offset.step != size:
        return "0"
    where = code.add(f"ptrtoint ptr {base.name} to i64")
    where = code.add(f"add i64 {where}, {offset.name}")
    past = code.add(f"and i64 {where}, {min(_LINE, size * vector.width) - 1}")
    lanes = code.add(f"udiv i64 {past}, {size}")
    long = code.add(f"icmp sge i64 {items}, {_LONG * vector.width}")
    return code.add(f"select i1 {long}, i64 {lanes}, i64 0")
