"""Where flags and pipe barriers stand: before the instructions that need them, and none more.

The scalar unit hands instructions to the pipes in program order and runs on; each pipe runs its
own in order but starts the next before the last has finished. So two instructions that touch
the same bytes, one of them writing, need a flag where their pipes differ and a barrier of the
pipe where they are one (the scalar unit needs none with itself).

An access that may still be running is pending for each pipe that has not been made to wait for
it. A flag from X to Y makes Y wait for what X has run and for what X itself waited for; one to
the scalar unit holds back whatever is issued later. A pair of pipes has eight events: one may be
set again when the setting pipe knows that the last wait for it has happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hetir.backends.ascend.simd_program import (
    PIPES,
    Access,
    Block,
    Branch,
    Buffer,
    Global,
    Instr,
    Loop,
    Node,
    Sync,
    blocks_of,
    count_syncs,
    instructions,
)

ALL = "ALL"
EVENTS = 8
_THOROUGH = 6_000  # steps times syncs: up to here each sync is tried, beyond only the likely ones
_READ, _WRITE = 0, 1
_EVERY = (1 << len(PIPES)) - 1
_S = PIPES.index("S")
_STALE = 1 << len(PIPES)
"""One more bit: the scalar unit's cache may hold what lay in global memory before a copy."""

Cells = np.ndarray[Any, np.dtype[np.intp]]
State = np.ndarray[Any, np.dtype[np.uint8]]
"""For each cell of memory, pipe, and read or write: one bit a pipe that need not have waited."""


def synchronise(program: Block, taken: Mapping[tuple[str, str], int] | None = None) -> None:
    """Fill the `syncs` of every instruction, then take away those that later ones made needless.

    `taken` says how many events of a pair of pipes others use.
    """
    anchors = _anchored(program)
    memory = _Memory(program, taken or {})
    analysis = _Analysis(memory, anchors=anchors)
    while analysis.changed:
        analysis.changed = False
        analysis.idle.clear()
        analysis.block(program, memory.nothing())
    candidates = dict(analysis.idle)
    steps = len(memory.touched)
    if steps * count_syncs(program) <= _THOROUGH:
        candidates |= dict.fromkeys((i, s) for i in memory.touched for s in i.syncs)
    candidates |= dict.fromkeys((i, s) for i in memory.touched for s in i.syncs if s.source == ALL)
    for instr, sync in candidates:
        at = instr.syncs.index(sync)
        instr.syncs.pop(at)
        if not covered(program, memory):
            instr.syncs.insert(at, sync)
    _drop(program, set(anchors.values()))


def _anchored(block: Block) -> dict[Loop, Instr]:
    """Put an empty instruction before every loop: a place for what its body waits for once."""
    found: dict[Loop, Instr] = {}
    nodes: list[Node] = []
    for node in block.nodes:
        for inner in blocks_of(node):
            found |= _anchored(inner)
        if isinstance(node, Loop):
            found[node] = Instr("S", [])
            nodes.append(found[node])
        nodes.append(node)
    block.nodes = nodes
    return found


def _drop(block: Block, anchors: set[Instr]) -> None:
    """Take out the empty instructions that nothing waits at."""
    for node in block.nodes:
        for inner in blocks_of(node):
            _drop(inner, anchors)
    idle = {n for n in anchors if not n.syncs}
    block.nodes = [n for n in block.nodes if not (isinstance(n, Instr) and n in idle)]


def covered(program: Block, memory: _Memory | None = None) -> bool:
    """Whether nothing needs one more flag or barrier."""
    found = memory or _Memory(program)
    analysis = _Analysis(found, looks=True)
    analysis.block(program, found.nothing())
    return not analysis.changed


class _Memory:
    """Memory in cells: bytes that the same accesses touch, places of global memory, events."""

    def __init__(self, program: Block, taken: Mapping[tuple[str, str], int] | None = None) -> None:
        self.taken = taken or {}
        self.touched: dict[Instr, tuple[Cells, Cells]] = {}
        accesses = [a for i in instructions(program) for a in (*i.reads, *i.writes)]
        ends = {e for a in accesses if isinstance(a.place, Buffer) for e in _range(a)}
        self.ends = np.array(sorted(ends), np.intp)
        places = {a.place: None for a in accesses if isinstance(a.place, Global)}
        first = len(self.ends)
        self.places = {place: first + at for at, place in enumerate(places)}
        self.events = first + len(self.places)
        pairs = [(x, y) for x in range(len(PIPES)) for y in range(len(PIPES)) if x != y]
        self.pairs = {pair: self.events + EVENTS * at for at, pair in enumerate(pairs)}
        self.count = self.events + EVENTS * len(pairs)
        for instr in instructions(program):
            self.touched[instr] = (self.cells(instr.reads), self.cells(instr.writes))

    def nothing(self) -> State:
        """The state in which nothing runs."""
        return np.zeros((self.count, len(PIPES), 2), np.uint8)

    def cells(self, accesses: Iterable[Access]) -> Cells:
        """The cells that some accesses touch."""
        found: list[Cells] = []
        for access in accesses:
            if isinstance(access.place, Global):
                found.append(np.array([self.places[access.place]], np.intp))
            else:
                start, stop = np.searchsorted(self.ends, _range(access))
                found.append(np.arange(start, stop, dtype=np.intp))
        return np.unique(np.concatenate(found)) if found else np.zeros(0, np.intp)

    def event(self, sync: Sync) -> int:
        """The cell of a flag's event."""
        return self.pairs[PIPES.index(sync.source), PIPES.index(sync.target)] + sync.event

    @property
    def shared(self) -> slice:
        """The cells of global memory."""
        return slice(len(self.ends), self.events)


def _range(access: Access) -> tuple[int, int]:
    buffer = access.place
    assert isinstance(buffer, Buffer)
    return buffer.offset + access.start, buffer.offset + min(access.stop, buffer.bytes)


@dataclass(slots=True)
class _Analysis:
    """One walk over a program; loops are walked to their fixed point.

    `looks` adds nothing and says by `changed` whether something is missing. `idle` are the
    syncs that the last walk found without a conflict of their own to order.
    """

    memory: _Memory
    anchors: dict[Loop, Instr] = field(default_factory=dict[Loop, Instr])
    looks: bool = False
    missing: dict[tuple[str, str], None] | None = None
    changed: bool = True
    exits: list[State] = field(default_factory=list[State])
    idle: dict[tuple[Instr, Sync], None] = field(default_factory=dict[tuple[Instr, Sync], None])

    def __post_init__(self) -> None:
        self.changed = not self.looks

    def block(self, block: Block, state: State) -> State:
        """The state after a block; the argument is not kept."""
        for node in block.nodes:
            state = self.node(node, state)
        return state

    def node(self, node: Node, state: State) -> State:
        match node:
            case Instr():
                return self.instr(node, state)
            case Loop():
                return self.loop(node, state)
            case Branch():
                return self.block(node.then, state.copy()) | self.block(node.other, state)
            case _:
                return state

    def loop(self, loop: Loop, before: State) -> State:
        anchor = self.anchors.get(loop)
        if anchor is not None and not self.looks:
            # what the body needs of itself first; the rest is waited for once, before the loop
            self.around(loop, self.memory.nothing())
            for pair in self.lacking(loop, before):
                sync = Sync(*pair)
                anchor.syncs.append(sync)
                self.changed = True
                self.free(anchor, sync, before)
                self.apply(sync, before)
        return self.around(loop, before)

    def lacking(self, loop: Loop, before: State) -> list[tuple[str, str]]:
        """The flags and barriers that a loop's body lacks when it is entered so."""
        found = _Analysis(self.memory, looks=True, missing={})
        found.around(loop, before.copy())
        return list(found.missing or ())

    def around(self, loop: Loop, before: State) -> State:
        """The state after a loop, whose iterations are walked until nothing changes."""
        entry = before
        while True:
            self.exits.append(self.memory.nothing())
            after = self.block(loop.body, entry.copy())
            left = self.exits.pop()
            if loop.apart:
                after[self.memory.shared] = 0
            joined = entry | after
            if np.array_equal(joined, entry):
                return entry | left
            entry = joined

    def instr(self, instr: Instr, state: State) -> State:
        for sync in list(instr.syncs):
            self.free(instr, sync, state)
            wanted = {(s.source, s.target) for s in self.needed(instr, state)}
            key = (instr, sync)
            if (sync.source, sync.target) in wanted or sync.source == ALL:
                self.idle.pop(key, None)
            else:
                self.idle[key] = None
            self.apply(sync, state)
        while wanted := self.needed(instr, state):
            self.changed = True
            if self.missing is not None:
                first = self.best(instr, state, wanted)
                if not first.cache:
                    self.missing[first.source, first.target] = None
                self.apply(first, state)
                continue
            if self.looks:
                break
            sync = self.best(instr, state, wanted)
            instr.syncs.append(sync)
            self.free(instr, sync, state)
            self.apply(sync, state)
        if instr.leaves and self.exits:
            self.exits[-1] |= state
        self.run(instr, state)
        for source, target in instr.orders:
            self.order(PIPES.index(source), PIPES.index(target), state)
        return state

    def best(self, instr: Instr, state: State, wanted: list[Sync]) -> Sync:
        """The one that leaves the fewest others to do."""
        if len(wanted) == 1:
            return wanted[0]

        def left(sync: Sync) -> int:
            after = state.copy()
            self.apply(sync, after)
            return len(self.needed(instr, after))

        return min(wanted, key=left)

    def run(self, instr: Instr, state: State) -> None:
        """What an instruction touches is pending for every pipe."""
        reads, writes = self.memory.touched[instr]
        pipe = PIPES.index(instr.pipe)
        targets = _EVERY & ~(1 << _S) if pipe == _S else _EVERY
        state[reads, pipe, _READ] = targets
        state[writes, pipe, _WRITE] = targets
        if instr.pipe == "MTE3":
            state[writes[writes >= len(self.memory.ends)], pipe, _WRITE] |= _STALE

    def needed(self, instr: Instr, state: State) -> list[Sync]:
        """The flags and barriers that an instruction waits for, in a fixed order."""
        reads, writes = self.memory.touched[instr]
        bit = 1 << PIPES.index(instr.pipe)
        seen = state[reads, :, _WRITE] & bit
        sources = seen.any(0) | (state[writes] & bit).any((0, 2))
        found = [Sync(PIPES[source], instr.pipe) for source in np.flatnonzero(sources)]
        if not found and instr.pipe == "S" and (state[reads, :, _WRITE] & _STALE).any():
            found.append(Sync("S", "S", cache=True))
        return found

    def free(self, instr: Instr, sync: Sync, state: State) -> None:
        """Find an event of the pair that may be set; where there is none, wait for everything."""
        if sync.source == sync.target:
            return
        bit = 1 << PIPES.index(sync.source)
        while (state[self.memory.event(sync), PIPES.index(sync.target), _WRITE] & bit) != 0:
            self.changed = True
            if self.looks:
                return
            if sync.event + 1 < EVENTS - self.memory.taken.get((sync.source, sync.target), 0):
                sync.event += 1
                continue
            every = Sync(ALL, ALL)
            instr.syncs.insert(instr.syncs.index(sync), every)
            self.apply(every, state)
            return

    def apply(self, sync: Sync, state: State) -> None:
        """Take away what a flag or barrier orders."""
        if sync.source == ALL:
            state &= np.uint8(_STALE)
            return
        if sync.cache:
            # what the scalar unit has waited for is read afresh
            state[(state & (1 << _S)) == 0] &= np.uint8(~_STALE & 255)
            return
        source, target = PIPES.index(sync.source), PIPES.index(sync.target)
        self.order(source, target, state)
        if source != target and target != _S:
            state[self.memory.event(sync), target, _WRITE] = _EVERY & ~(1 << target)

    def order(self, source: int, target: int, state: State) -> None:
        """Take away what the target need not wait for any more."""
        clear = np.uint8(_EVERY if target == _S else 1 << target)
        # the source pipe has finished its own, and has waited for what is not pending for it
        done = (state & np.uint8(1 << source)) == 0
        done[:, source] = True
        state[done] &= ~clear
