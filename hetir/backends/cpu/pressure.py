"""How many work-items a leaf runs as one vector: as many as the registers hold the values of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hetir.backends.cpu.program import Control, Exchange, Leaf, Node, Schedule, Subgroups
from hetir.ir import ops
from hetir.ir.core import Operation, Region, Value, walk
from hetir.ir.types import BOOL, I64, RefType, Scalar
from hetir.passes.regions import LOOPS, number
from hetir.passes.uniformity import Uniformity

_IDS = (ops.LOCAL_ID, ops.GLOBAL_ID, ops.LANE_ID)
_ACCESSES = (ops.LOAD, ops.STORE)
_POINTER_BYTES = 8
_MOST_LANES = 64  # a mask is an integer
_PLAIN = 16  # ops for each access where arithmetic is all that counts
LONGEST = 512  # ops that are worth LLVM's time in several registers side by side
_SPARE = 4  # as many values as registers hold, where spilling them does not matter
ONE_BY_ONE = (ops.ATOMIC_CAS, ops.PRINT, ops.ASSERT, ops.OUT_OF_BOUNDS)


@dataclass(frozen=True, slots=True)
class Shape:
    """A workgroup, the lanes that fill a register, a subgroup, and all vector registers.

    Without `register_bytes` every leaf has `lanes`.
    """

    workgroup: tuple[int, int, int]
    lanes: int
    subgroup: int
    register_bytes: int


def widths(
    schedule: Schedule, shape: Shape, known: Uniformity, definitions: Mapping[Value, Operation]
) -> dict[int, int]:
    """The lanes of each leaf, by its id.

    Several registers side by side hide the latency of what depends on itself from turn to
    turn, and of long chains, for which that matters more than values that do not fit. Very long
    leaves have one: LLVM's time grows faster than their code. Leaves that share a private array,
    whose layout depends on the lanes, have equal lanes.
    """
    found: dict[int, int] = {}
    for leaf, most in leaves(schedule.nodes, _MOST_LANES, shape.subgroup):
        found[id(leaf)] = shape.lanes
        body = list(walk(Region((), tuple(leaf.ops))))
        one_by_one = any(op.spec in ONE_BY_ONE for op in body)
        if shape.register_bytes and len(body) <= LONGEST and not one_by_one:
            need = max(1, Pressure(known, definitions).leaf(leaf))
            room = shape.register_bytes * (_SPARE if is_chain(body) else 1)
            folded = _folded(leaf, shape.lanes, definitions)
            found[id(leaf)] = _lanes(shape, min(most, folded, (room - 1) // need))
    if schedule.private:
        found = dict.fromkeys(found, min(found.values(), default=0))
    return found


def in_registers(
    schedule: Schedule, lanes: Mapping[int, int], items: int, subgroup: int
) -> dict[Value, int]:
    """The context values that need no memory, each with its lanes.

    One vector runs all items of the level, workgroup or subgroup, that makes and reads them.
    `lanes` is the width of each leaf, by its id.
    """
    homes: dict[Value, set[int]] = {}
    counts: dict[Value, set[int]] = {}
    for home, node in _homes(schedule.nodes, 0):
        size = subgroup if home and items % subgroup == 0 else 0 if home else items
        if isinstance(node, Leaf) and lanes[id(node)] != size:
            size = 0
        for value in touched(node):
            place = schedule.same.get(value, value)
            homes.setdefault(place, set()).add(home)
            counts.setdefault(place, set()).add(size)
    found: dict[Value, int] = {}
    for value in schedule.context:
        place = schedule.same.get(value, value)
        at, sizes = homes.get(place, set()), counts.get(place, set())
        if len(sizes) == 1 and 0 not in sizes and (len(at) == 1 or sizes == {items}):
            found[value] = sizes.pop()
    return found


def _homes(nodes: Sequence[Node], home: int) -> Iterator[tuple[int, Node]]:
    """Every node that touches the context, with 0 or the id of the subgroups' program around."""
    for node in nodes:
        match node:
            case Subgroups(nodes=inner):
                yield from _homes(inner, id(node))
            case Control(regions=regions):
                yield home, node
                for region in regions:
                    yield from _homes(region, home)
            case _:
                yield home, node


def touched(node: Node) -> tuple[Value, ...]:
    """The values in the context that a node reads or writes."""
    match node:
        case Leaf():
            return (*node.inputs, *node.outputs, *node.moved)
        case Exchange(op=op):
            return (*op.operands, *op.results)
        case Control(op=op):
            return (*op.operands, *op.results)
        case _:
            return ()


def leaves(nodes: Sequence[Node], most: int, subgroup: int) -> Iterator[tuple[Leaf, int]]:
    """All leaves, each with the most lanes that its level allows."""
    for node in nodes:
        match node:
            case Leaf():
                yield node, most
            case Subgroups(nodes=inner):
                yield from leaves(inner, min(most, subgroup), subgroup)
            case Control(regions=regions):
                for region in regions:
                    yield from leaves(region, most, subgroup)
            case _:
                pass


def size_of(leaf: Leaf) -> int:
    """How many ops a leaf has, inner ones too."""
    return sum(1 for _ in walk(Region((), tuple(leaf.ops))))


def is_chain(body: Sequence[Operation]) -> bool:
    """Whether ops are arithmetic from end to end, as elementary functions are."""
    accesses = sum(op.spec in _ACCESSES for op in body)
    loops = any(op.spec in LOOPS for op in body)
    return not loops and _PLAIN * max(1, accesses) <= len(body) <= LONGEST


def _folded(leaf: Leaf, least: int, definitions: Mapping[Value, Operation]) -> int:
    """The lanes that stay neighbours in indices cut up by constants, as `i % 16` and `i // 16`."""
    most = _MOST_LANES
    for op in (*leaf.again, *walk(Region((), tuple(leaf.ops)))):
        by = number(definitions.get(op.operands[1])) if op.spec in (ops.AND, ops.SHR) else None
        if by is not None and by >= 0 and op.result.type == I64:
            period = by + 1 if op.spec is ops.AND else 1 << min(by, 63)
            most = min(most, period) if period >= least else most
    return most


def _lanes(shape: Shape, most: int) -> int:
    """The most lanes that divide a row of work-items."""
    x, lanes = shape.workgroup[0], shape.lanes
    while lanes and 2 * lanes <= most and x % (2 * lanes) == 0:
        lanes *= 2
    return lanes


@dataclass(slots=True)
class Pressure:
    """The most bytes a lane that a leaf's values take at one point.

    What is alike in all lanes, and indices that grow by a fixed step from lane to lane, are
    scalars and count nothing, nor does what is alike by `shared`. It is an estimate: LLVM orders
    the code anew.
    """

    known: Uniformity
    definitions: Mapping[Value, Operation]
    shared: Uniformity | None = None
    most: int = 0
    lines: set[Value] = field(default_factory=set[Value])

    def leaf(self, leaf: Leaf) -> int:
        """The answer for one leaf."""
        body = (*leaf.again, *leaf.ops)
        self._forward(body)
        self._backward(body, set())
        return self.most

    # ---- which values are lines ----------------------------------------------------------

    def _forward(self, body: Iterable[Operation]) -> None:
        for op in body:
            if op.spec in (ops.FOR, ops.LOOP):
                args = op.regions[0].args
                self._like(args, op.operands[:1] + op.operands[3:], counted=op.spec is ops.FOR)
            for region in op.regions:
                self._forward(region.body)
            if len(op.results) == 1 and not op.regions and self._line(op):
                self.lines.add(op.result)

    def _like(self, args: Sequence[Value], first: Sequence[Value], *, counted: bool) -> None:
        """What a loop carries is a line where it starts as one."""
        if counted:
            self.lines.update(a for a, f in zip(args, first, strict=True) if f in self.lines)

    def _line(self, op: Operation) -> bool:
        if op.spec in _IDS:
            return op.attrs.get("axis", 0) == 0
        if op.result.type != I64:
            return False
        some = any(v in self.lines for v in op.operands)
        if not some or any(self._wide(v) for v in op.operands):
            return False
        if op.spec is ops.MUL:
            return any(number(self.definitions.get(v)) is not None for v in op.operands)
        return op.spec in (ops.ADD, ops.SUB, ops.CAST)

    def _wide(self, value: Value) -> bool:
        """Whether a value takes vector registers."""
        return (
            self.known.varying(value)
            and (self.shared is None or self.shared.varying(value))
            and value not in self.lines
            and not isinstance(value.type, RefType)
        )

    # ---- what is live --------------------------------------------------------------------

    def _bytes(self, values: Iterable[Value]) -> int:
        return sum(
            max(4, v.type.bytes)
            for v in values
            if self._wide(v) and isinstance(v.type, Scalar) and v.type != BOOL
        )

    def _backward(self, body: Sequence[Operation], live: set[Value]) -> None:
        """`live` holds what is needed after the body, then what is needed before it."""
        for op in reversed(body):
            if op.regions:
                self._structured(op, live)
            transient = 0
            if op.spec in _ACCESSES and self._wide(op.operands[1]):
                transient = _POINTER_BYTES
            self.most = max(self.most, self._bytes({*live, *op.results}) + transient)
            live.difference_update(op.results)
            live.update(op.operands)
            self.most = max(self.most, self._bytes(live) + transient)

    def _structured(self, op: Operation, live: set[Value]) -> None:
        before: set[Value] = set()
        for region in op.regions:
            around = live - set(op.results)
            if op.spec is not ops.IF:
                around |= _outer(region)
            if op.spec is ops.FOR and any(self._wide(v) for v in op.operands[:2]):
                around.update(op.operands[:2])  # in place of a count and an index a lane
            self._backward(region.body, around)
            before |= around - set(region.args)
        live |= before


def _outer(region: Region) -> set[Value]:
    """The values from outside that a region reads: a loop keeps them to its end."""
    made: set[Value] = set()
    used: set[Value] = set()
    _collect(region, made, used)
    return used - made


def _collect(region: Region, made: set[Value], used: set[Value]) -> None:
    made.update(region.args)
    for op in region.body:
        used.update(op.operands)
        made.update(op.results)
        for inner in op.regions:
            _collect(inner, made, used)
