"""What may still be running when an instruction is issued: sets of bits over memory and pipes.

The scalar unit hands instructions to the pipes in program order and runs on; each pipe runs its
own in order but starts the next before the last has finished. So two instructions that touch
the same bytes, one of them writing, need a flag where their pipes differ and a barrier of the
pipe where they are one (the scalar unit needs none with itself).

A pipe need not wait for an access that it has been made to wait for before. A flag from X to Y
makes Y wait for what X has run and for what X itself waited for; one to the scalar unit holds
back whatever is issued later. Where paths meet, what each of them left is kept apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hetir.backends.ascend.simd_program import (
    PIPES,
    Access,
    Block,
    Branch,
    Buffer,
    Global,
    Instr,
    Loop,
    Sync,
    instructions,
)

ALL = "ALL"
EVENTS = 8  # of a pair of pipes

State = Mapping[int, int]
"""Sets of pipes (bits), each with the accesses that a path made just these wait for.

One bit more says that no cache hides it. An access is a bit too: a cell of memory, the pipe that
touched it, and whether it wrote. What everything has waited for is left out.
"""

_FRESH = 1 << len(PIPES)
_EVERY = _FRESH - 1
NOTHING: State = {}


@dataclass(frozen=True, slots=True)
class Wait:
    """What an instruction of a pipe must not find pending; `fresh` what no cache may hide."""

    pipe: str
    pending: int
    fresh: int


@dataclass(eq=False, slots=True)
class Point:
    """An instruction with its syncs (or where paths meet), and the points that may follow it.

    `depth` counts the loops around it, and `blocks` are the blocks around it from the outermost.
    `apart` of a following point says that iterations share no global data. `runs` and `copies`
    are what the instruction leaves pending, and what of that a cache may hide; what is `renewed`
    is over.
    """

    number: int
    instr: Instr | None
    depth: int
    blocks: tuple[Block, ...]
    following: list[tuple[int, bool]] = field(default_factory=list[tuple[int, bool]])
    waits: tuple[Wait, ...] = ()
    runs: int = 0
    copies: int = 0
    renewed: int = 0


class Memory:
    """Memory in cells: bytes that the same accesses touch, and places of global memory."""

    def __init__(self, program: Block) -> None:
        accesses = [a for i in instructions(program) for a in (*i.reads, *i.writes)]
        bounds = {e for a in accesses if isinstance(a.place, Buffer) for e in _range(a)}
        self.cells = {bound: cell for cell, bound in enumerate(sorted(bounds))}
        places = dict.fromkeys(a.place for a in accesses if isinstance(a.place, Global))
        self.places = {place: len(bounds) + at for at, place in enumerate(places)}
        self.count = len(bounds) + len(places)
        cells = (1 << self.count) - 1
        self.own = {p: self._at(cells, p, 0) | self._at(cells, p, 1) for p in PIPES}
        self.shared = self._every(sum(1 << cell for cell in self.places.values()), (0, 1))

    def describe(self, point: Point) -> None:
        """Fill in what a point's instruction waits for and leaves pending."""
        instr = point.instr
        if instr is None:
            return
        reads, writes = self._cells(instr.reads), self._cells(instr.writes)
        point.waits = self.waits([instr])
        point.runs = self._at(reads, instr.pipe, 0) | self._at(writes, instr.pipe, 1)
        point.copies = point.runs & self.shared if instr.pipe == "MTE3" else 0
        known = [Access(place) for place in instr.renews if place in self.places]
        point.renewed = self._every(self._cells(known), (0, 1))

    def waits(self, instrs: Iterable[Instr]) -> tuple[Wait, ...]:
        """What each pipe must not find pending when some instructions begin."""
        found: dict[str, tuple[int, int]] = {}
        for instr in instrs:
            reads, writes = found.get(instr.pipe, (0, 0))
            found[instr.pipe] = reads | self._cells(instr.reads), writes | self._cells(instr.writes)
        return tuple(
            Wait(
                pipe,
                self._every(reads, (1,)) | self._every(writes, (0, 1)),
                self._every(reads, (1,)) if pipe == "S" else 0,
            )
            for pipe, (reads, writes) in found.items()
        )

    def _cells(self, accesses: Iterable[Access]) -> int:
        found = 0
        for access in accesses:
            if isinstance(access.place, Global):
                found |= 1 << self.places[access.place]
            else:
                start, stop = (self.cells[bound] for bound in _range(access))
                found |= (1 << stop) - (1 << start)
        return found

    def _at(self, cells: int, pipe: str, writes: int) -> int:
        return cells << self.count * (2 * PIPES.index(pipe) + writes)

    def _every(self, cells: int, kinds: tuple[int, ...]) -> int:
        found = 0
        for pipe in PIPES:
            for kind in kinds:
                found |= self._at(cells, pipe, kind)
        return found


def _range(access: Access) -> tuple[int, int]:
    buffer = access.place
    assert isinstance(buffer, Buffer)
    return buffer.offset + access.start, buffer.offset + min(access.stop, buffer.bytes)


class Events:
    """The waits for flags as bits: accesses of the waiting pipe to an event."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.bits: dict[Sync, int] = {}
        self.users: dict[tuple[str, str, int], int] = {}

    def bit(self, sync: Sync) -> int:
        """The wait for a flag."""
        if sync not in self.bits:
            self.bits[sync] = bit = 1 << 2 * len(PIPES) * self.memory.count + len(self.bits)
            self.memory.own[sync.target] |= bit
            self._use(sync)
        return self.bits[sync]

    def rivals(self, sync: Sync, without: Sync | None) -> int:
        """The waits for a flag's event."""
        bits = self.users.get((sync.source, sync.target, sync.event), 0)
        return bits & ~self.bits.get(without, 0) if without else bits

    def take_next(self, sync: Sync) -> None:
        """Let a flag have the next event."""
        self.users[sync.source, sync.target, sync.event] ^= self.bit(sync)
        sync.event += 1
        self._use(sync)

    def forget(self, sync: Sync) -> None:
        """Let nothing be the rival of a flag that is gone."""
        if sync in self.bits:
            self.users[sync.source, sync.target, sync.event] &= ~self.bits[sync]

    def _use(self, sync: Sync) -> None:
        key = (sync.source, sync.target, sync.event)
        self.users[key] = self.users.get(key, 0) | self.bits[sync]


class Flow:
    """A program as a graph, and what flags and instructions do to a state."""

    def __init__(self, program: Block) -> None:
        self.memory = Memory(program)
        self.events = Events(self.memory)
        self.points: list[Point] = []
        self.leaving: list[list[Point]] = []
        self.blocks: tuple[Block, ...] = ()
        self._block(program, [self._point(None, [], 0)], 0)
        for point in self.points:
            self.memory.describe(point)

    # ---- the graph -------------------------------------------------------------------------

    def _point(self, instr: Instr | None, before: list[Point], depth: int) -> Point:
        made = Point(len(self.points), instr, depth, self.blocks)
        self.points.append(made)
        for point in before:
            point.following.append((made.number, False))
        return made

    def _block(self, block: Block, ends: list[Point], depth: int) -> list[Point]:
        """The points at which a block ends."""
        outer, self.blocks = self.blocks, (*self.blocks, block)
        for node in block.nodes:
            match node:
                case Instr():
                    ends = [self._point(node, ends, depth)]
                    if node.leaves and self.leaving:
                        self.leaving[-1] += ends
                case Branch():
                    then = self._block(node.then, ends, depth)
                    ends = [*then, *self._block(node.other, ends, depth)]
                case Loop():
                    ends = self._loop(node, ends, depth)
                case _:
                    pass
        self.blocks = outer
        return ends

    def _loop(self, loop: Loop, before: list[Point], depth: int) -> list[Point]:
        head = self._point(None, before, depth)
        self.leaving.append([])
        ends = self._block(loop.body, [head], depth + 1)
        for end in ends:
            end.following.append((head.number, loop.apart))
        last = [] if loop.endless else ends if loop.runs else [head]
        return [*last, *self.leaving.pop()]

    # ---- states ----------------------------------------------------------------------------

    def joined(self, state: State, arriving: State, apart: bool) -> State:
        """The state where a path arrives."""
        kept = ~self.memory.shared if apart else -1
        return _gathered((*state.items(), *((k, a & kept) for k, a in arriving.items())))

    def lacking(self, point: Point, state: State) -> list[Sync]:
        """The flags, barriers and cache operations that a point lacks, in a fixed order."""
        found: list[Sync] = []
        for wait in point.waits:
            pending = hidden = 0
            for waited, accesses in state.items():
                pending |= 0 if waited & _bit(wait.pipe) else accesses & wait.pending
                hidden |= 0 if waited & _FRESH else accesses & wait.fresh
            sources = [pipe for pipe in PIPES if pending & self.memory.own[pipe]]
            found += [Sync(source, wait.pipe) for source in sources]
            if hidden and not sources:
                found.append(Sync("S", "S", cache=True))
        return found

    def synced(self, sync: Sync, state: State) -> State:
        """The state after a flag, barrier or cache operation."""
        if sync.source == ALL:
            return _gathered((k | _EVERY, a) for k, a in state.items())
        if sync.cache:  # what the scalar unit has waited for is read afresh
            return _gathered((k | _FRESH if k & _bit("S") else k, a) for k, a in state.items())
        return self._ordered(sync.source, sync.target, state)

    def _ordered(self, source: str, target: str, state: State) -> State:
        """The target waits for what the source has run, and has waited for itself."""
        gained = _EVERY if target == "S" else _bit(target)
        own = self.memory.own[source]
        parts: list[tuple[int, int]] = []
        for waited, accesses in state.items():
            over = accesses if waited & _bit(source) else accesses & own
            parts += [(waited | gained, over), (waited, accesses & ~over)]
        return _gathered(parts)

    def waiting(self, sync: Sync, state: State) -> State:
        """The state when a flag's wait has been issued too: its event is in use."""
        return _begun(self.events.bit(sync), _bit(sync.target) | _FRESH, state)

    def in_use(self, sync: Sync, state: State, without: Sync | None = None) -> bool:
        """Whether the last wait for a flag's event may be to come; `without` is not there."""
        rivals = self.events.rivals(sync, without)
        return any(a & rivals for k, a in state.items() if not k & _bit(sync.source))

    def ran(self, point: Point, state: State) -> State:
        """The state after a point's instruction was issued."""
        instr = point.instr
        if instr is None:
            return state
        if point.renewed:
            state = _gathered((k, a & ~point.renewed) for k, a in state.items())
        own = _bit("S") if instr.pipe == "S" else 0
        state = _begun(point.runs & ~point.copies, own | _FRESH, state)
        state = _begun(point.copies, own, state)
        for source, target in instr.orders:
            state = self._ordered(source, target, state)
        return state


def _bit(pipe: str) -> int:
    return 1 << PIPES.index(pipe)


def _gathered(parts: Iterable[tuple[int, int]]) -> State:
    """Accesses by the pipes that have waited for them."""
    found: dict[int, int] = {}
    for waited, accesses in parts:
        if accesses and waited != _EVERY | _FRESH:
            found[waited] = found.get(waited, 0) | accesses
    return found


def _begun(accesses: int, waited: int, state: State) -> State:
    """The state after accesses for which only some pipes need not wait."""
    if not accesses:
        return state
    return _gathered([*((k, a & ~accesses) for k, a in state.items()), (waited, accesses)])


def is_flag(sync: Sync) -> bool:
    """Whether a sync takes an event that may be set too early: not where the scalar unit waits."""
    return sync.source != sync.target and sync.target != "S"
