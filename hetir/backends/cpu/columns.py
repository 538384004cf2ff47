"""Rows of a table, one a lane, that a leaf reads or writes column by column.

Where lane l has elements l * step, l * step + 1, ..., one column is a gather. Several at a time are
a vector of each lane's neighbouring elements, and a transpose of these in registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hetir.backends.cpu.accesses import Accesses
from hetir.backends.cpu.vectors import Rep
from hetir.backends.llvm import memory
from hetir.backends.llvm.code import Code, memory_type
from hetir.ir import ops
from hetir.ir.core import Operation, Value
from hetir.ir.types import BOOL
from hetir.passes.access import Addresses, Term

_LEAST = 4  # columns that are worth it
_LEAST_OF_WINDOW = 8  # and where a few vectors of memory hold them all
_PIECE = 16  # bytes within which every instruction set can interleave

_Key = tuple[Value, frozenset[tuple[Term, int]]]


@dataclass(frozen=True, slots=True)
class Most:
    """The most lanes, and the bytes of a vector register."""

    lanes: int
    bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Accesses of neighbouring elements by address; `first` and `last` as they are written."""

    ops: tuple[Operation, ...]
    first: Operation
    last: Operation


def groups(body: Sequence[Operation], indices: Addresses, most: Most) -> Iterator[Group]:
    """The groups of a body and of what is inside.

    No access that may tell stands between the members of one.
    """
    loads: dict[_Key, dict[int, Operation]] = {}
    stores: dict[_Key, dict[int, Operation]] = {}
    for op in body:
        for region in op.regions:
            yield from groups(region.body, indices, most)
        if op.spec not in (ops.LOAD, ops.STORE):
            if not op.spec.pure:
                yield from _close(loads, most)
                yield from _close(stores, most)
            continue
        terms, constant = indices.form(op.operands[1]).split()
        key, like = (op.operands[0], terms), stores
        if op.spec is ops.LOAD:
            like = loads
            yield from _close(stores, most)
        else:
            yield from _close(loads, most)
            if constant in stores.get(key, {constant: op}):
                yield from _close(stores, most)
        like.setdefault(key, {}).setdefault(constant, op)
    yield from _close(loads, most)
    yield from _close(stores, most)


def _close(found: dict[_Key, dict[int, Operation]], most: Most) -> Iterator[Group]:
    """The groups among accesses that differ by constants, which are forgotten."""
    for members in found.values():
        order = list(members.values())
        for some in _runs(members, most):
            places = sorted(map(order.index, some))
            yield Group(tuple(some), order[places[0]], order[places[-1]])
    found.clear()


def _runs(members: Mapping[int, Operation], most: Most) -> Iterator[list[Operation]]:
    """Those that follow each other in memory, a power of two of them at a time."""
    left = dict(sorted(members.items(), key=lambda item: item[0]))
    for place, op in tuple(left.items()):
        size = memory.element_of(op).bytes
        count = 1
        while count < min(most.lanes, most.bytes // size) and all(
            place + n * size in left for n in range(2 * count)
        ):
            count *= 2
        if count >= _LEAST:
            yield [left.pop(place + n * size) for n in range(count)]


def transpose(code: Code, rows: Sequence[str], kind: str, size: int) -> list[str]:
    """The columns of as many vectors as each has elements of `size` bytes, a power of two.

    First rows are interleaved inside pieces of a vector, then whole pieces change places. Each
    turn takes a bit of the row's number into the place in the vector, and one of the column's
    out of it, which is then the bit of that turn of the number among `names`.
    """
    count, names = len(rows), list(rows)
    piece = min(count, _PIECE // size)
    inside, all_ = piece.bit_length() - 1, count.bit_length() - 1
    for turn in range(all_):
        low, high = _interleave(count, piece, 1 << turn) if turn < inside else _sift(count, piece)
        bit = 1 << turn
        for at in (n for n in range(count) if not n & bit):
            a, b = names[at], names[at | bit]
            names[at], names[at | bit] = (_shuffle(code, a, b, kind, count, o) for o in (low, high))
    taken = [inside - 1 - turn if turn < inside else turn for turn in range(all_)]
    places = [sum((n >> t & 1) << turn for turn, t in enumerate(taken)) for n in range(count)]
    return [names[place] for place in places]


def _interleave(count: int, piece: int, unit: int) -> tuple[list[int], list[int]]:
    """Of two vectors' pieces, the first halves by units in turns; and the second halves."""
    low, high = list[int](), list[int]()
    for start in range(0, count, piece):
        for half, order in ((0, low), (piece // 2, high)):
            for at in range(start + half, start + half + piece // 2, unit):
                order += [*range(at, at + unit), *range(count + at, count + at + unit)]
    return low, high


def _sift(count: int, piece: int) -> tuple[list[int], list[int]]:
    """The even pieces of two vectors, and the odd ones."""
    places = [list(range(at, at + piece)) for at in range(0, 2 * count, piece)]
    return [n for p in places[::2] for n in p], [n for p in places[1::2] for n in p]


def _shuffle(code: Code, a: str, b: str, kind: str, count: int, order: Sequence[int]) -> str:
    """Elements of two vectors."""
    vector, places = f"<{count} x {kind}>", ", ".join(f"i32 {n}" for n in order)
    return code.add(f"shufflevector {vector} {a}, {vector} {b}, <{len(order)} x i32> <{places}>")


def _beside(code: Code, a: list[str], b: list[str], kind: str, count: int) -> list[str]:
    """Vectors of `count` elements, each with another one behind it."""
    order = range(2 * count)
    return [_shuffle(code, x, y, kind, count, order) for x, y in zip(a, b, strict=True)]


class Columns(Accesses):
    """Does groups of accesses together; lanes that are off read the row of the first that is on."""

    _groups: dict[Operation, Group]
    _joined: dict[Group, bool]

    def find_groups(self, body: Sequence[Operation]) -> None:
        """Look at a leaf."""
        found = list(groups(body, self.host.indices, Most(self.width, self.host.vector_bytes)))
        self._groups = {op: group for group in found for op in group.ops}
        self._joined = {}

    def load(self, op: Operation) -> None:
        """A plain load, or all of its group."""
        group = self._group_of(op)
        if group is None:
            super().load(op)
        elif op is group.first:
            self._load_rows(group)

    def store(self, op: Operation) -> None:
        """A plain store, or all of its group."""
        group = self._group_of(op)
        if group is None:
            super().store(op)
        elif op is group.last:
            self._store_rows(group)

    def _group_of(self, op: Operation) -> Group | None:
        """The group that is done together, of which an op is one."""
        group = self._groups.get(op)
        if group is None:
            return None
        if op is group.first:
            self._joined[group] = self._pays(op, len(group.ops))
        return group if self._joined[group] else None

    def _pays(self, op: Operation, count: int) -> bool:
        """Whether rows are better than what an access does alone."""
        base, offset = self.rep(op.operands[0]), self.rep(op.operands[1])
        element = memory.element_of(op)
        if base.kind != "same" or element == BOOL:
            return False
        if self.mask is not None and (op.spec is ops.STORE or offset.kind != "lanes"):
            return False
        if offset.kind in ("same", "rows") or (offset.kind, offset.step) == ("line", element.bytes):
            return False
        return count >= _LEAST_OF_WINDOW or self._window(op, element) is None

    def _load_rows(self, group: Group) -> None:
        code, kind, size, count = self._shape(group)
        tags = self.host.aliases.of(group.first.operands[0])
        rows = [
            code.add(f"load <{count} x {kind}>, ptr {where}, align {size}{tags}")
            for where in self._rows_of(group, group.first)
        ]
        parts = [
            transpose(code, rows[at : at + count], kind, size) for at in range(0, self.width, count)
        ]
        while len(parts) > 1:
            lanes = self.width // len(parts)
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [_beside(code, a, b, kind, lanes) for a, b in pairs]
        for op, column in zip(group.ops, parts[0], strict=True):
            self.reps[op.result] = Rep("lanes", column)

    def _store_rows(self, group: Group) -> None:
        code, kind, size, count = self._shape(group)
        tags = self.host.aliases.of(group.first.operands[0])
        columns = [self.vector(op.operands[2]) for op in group.ops]
        rows: list[str] = []
        for at in range(0, self.width, count):
            order = range(at, at + count)
            parts = [_shuffle(code, c, "poison", kind, self.width, order) for c in columns]
            rows += transpose(code, parts, kind, size)
        for row, where in zip(rows, self._rows_of(group, group.last), strict=True):
            code.put(f"store <{count} x {kind}> {row}, ptr {where}, align {size}{tags}")

    def _shape(self, group: Group) -> tuple[Code, str, int, int]:
        element = memory.element_of(group.first)
        return self.code, memory_type(element), element.bytes, len(group.ops)

    def _rows_of(self, group: Group, op: Operation) -> Iterator[str]:
        """The address of each lane's row, by that of an op of the group."""
        code, form = self.code, self.host.indices.form
        base, offset = (self.rep(v) for v in op.operands[:2])
        low = form(group.ops[0].operands[1]).split()[1] - form(op.operands[1]).split()[1]
        places = self._on(offset.name) if offset.kind == "lanes" else ""
        for lane in range(self.width):
            if offset.kind == "lanes":
                name = code.add(f"extractelement {self.of('i64')} {places}, i64 {lane}")
                more = low
            else:
                name, more = offset.name, low + self.offsets(offset)[lane]
            where = code.index(base.name, name)
            yield code.index(where, str(more))

    def _on(self, places: str) -> str:
        """The lanes' places, in those that are off that of one that is on, as some lane is."""
        if self.mask is None:
            return places
        code, vector = self.code, self.of("i64")
        first = code.add(f"extractelement {vector} {places}, i64 {self.first_lane()}")
        flags, other = f"{self.of('i1')} {self.mask}", self.splat("i64", first)
        return code.add(f"select {flags}, {vector} {places}, {vector} {other}")
