"""Where flags and pipe barriers stand: before the instructions that need them, and none more.

First each instruction gets what it lacks, and each loop waits before it for what its body would
wait for; then one sync after the other is taken away where the rest is enough, those of the
innermost loops first. What waits for the scalars of a branch (the last elements of an array, say)
need not wait where the branch is not taken: its end sets the flag. A pair of pipes has eight
events: one may be set again when the setting pipe knows that the last wait for it has happened.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence

from hetir.backends.ascend.simd_flow import ALL, EVENTS, NOTHING, Flow, Point, State, is_flag
from hetir.backends.ascend.simd_program import (
    PIPES,
    Block,
    Branch,
    Instr,
    Loop,
    Node,
    Sync,
    blocks_of,
    instructions,
)

_FEW = 8  # ends of branches that are tried one by one: each is a walk through the program

Step = Callable[[Point, State], State]


def synchronise(program: Block, taken: Mapping[tuple[str, str], int] | None = None) -> None:
    """Fill the `syncs` of every instruction.

    `taken` says how many events of a pair of pipes others use.
    """
    ends: list[Instr] = []
    anchors = _anchored(program, ends)
    walks = _Pass(Flow(program), taken or {})
    walks.place(anchors)
    walks.prune()
    if walks.sink(ends):
        walks.prune()
    if walks.number():
        while walks.prune():
            walks.follow()  # afresh: without what was pending while all were there
    _drop(program, {*anchors.values(), *ends})


def covered(program: Block) -> bool:
    """Whether nothing needs one more flag or barrier."""
    return _Pass(Flow(program), {}).covered()


def _anchored(block: Block, ends: list[Instr]) -> dict[Loop, Instr]:
    """Put an empty instruction before every loop: a place for what its body waits for once.

    Also at the end of branches that hold scalars alone; these go to `ends`.
    """
    found: dict[Loop, Instr] = {}
    nodes: list[Node] = []
    for node in block.nodes:
        for inner in blocks_of(node):
            found |= _anchored(inner, ends)
            if isinstance(node, Branch) and _scalars(inner):
                ends.append(Instr("S", []))
                inner.nodes.append(ends[-1])
        if isinstance(node, Loop):
            found[node] = Instr("S", [])
            nodes.append(found[node])
        nodes.append(node)
    block.nodes = nodes
    return found


def _scalars(block: Block) -> bool:
    """Whether a block holds instructions of the scalar unit that touch memory, and no others."""
    found = [n for n in block.nodes if isinstance(n, Instr)]
    touches = any(n.reads or n.writes for n in found)
    return touches and len(found) == len(block.nodes) and all(n.pipe == "S" for n in found)


def _drop(block: Block, anchors: set[Instr]) -> None:
    """Take out the empty instructions that nothing waits at."""
    for node in block.nodes:
        for inner in blocks_of(node):
            _drop(inner, anchors)
    idle = {n for n in anchors if not n.syncs}
    block.nodes = [n for n in block.nodes if not (isinstance(n, Instr) and n in idle)]


class _Pass:
    """Places syncs in a graph, takes them away again, gives them events.

    `states` are what is pending before each point, `numbered` says that events count, `full`
    that all events of a pair of pipes were in use somewhere.
    """

    def __init__(self, flow: Flow, taken: Mapping[tuple[str, str], int]) -> None:
        self.flow = flow
        self.taken = taken
        self.numbered = False
        self.changed = self.full = False
        self.states: list[State | None] = []

    # ---- walks -----------------------------------------------------------------------------

    def walk(self, step: Step) -> None:
        """Fill `states`, from the start along every path until nothing changes."""
        points = self.flow.points
        self.states = [NOTHING, *[None] * (len(points) - 1)]
        work = [0]
        while work:
            point = points[heapq.heappop(work)]
            before = self.states[point.number]
            assert before is not None
            after = step(point, before)
            for number, apart in point.following:
                known = self.states[number]
                arrives = self.flow.joined(known or NOTHING, after, apart)
                if arrives != known:
                    self.states[number] = arrives
                    if number not in work:
                        heapq.heappush(work, number)

    def passed(self, point: Point, state: State, without: Sync | None = None) -> tuple[State, bool]:
        """The state behind a point, and whether it lacked nothing."""
        free = True
        for sync in point.instr.syncs if point.instr else ():
            if sync is not without:
                free = free and not self.in_use(sync, state, without)
                state = self.through(sync, state)
        return self.flow.ran(point, state), free and not self.flow.lacking(point, state)

    def in_use(self, sync: Sync, state: State, without: Sync | None = None) -> bool:
        """Whether a flag is set while its last wait may be to come."""
        return self.numbered and is_flag(sync) and self.flow.in_use(sync, state, without)

    def through(self, sync: Sync, state: State) -> State:
        """The state behind a sync."""
        state = self.flow.synced(sync, state)
        return self.flow.waiting(sync, state) if self.numbered and is_flag(sync) else state

    # ---- placing ---------------------------------------------------------------------------

    def place(self, anchors: Mapping[Loop, Instr]) -> None:
        """Give every instruction what it lacks, and anchors what their loops lack."""
        at = {p.instr: p for p in self.flow.points if p.instr is not None}
        for loop, anchor in anchors.items():
            at[anchor].waits = self.flow.memory.waits(instructions(loop.body))
        self.changed = True
        while self.changed:
            self.changed = False
            self.walk(self.supplied)
        for anchor in anchors.values():
            at[anchor].waits = ()

    def supplied(self, point: Point, state: State) -> State:
        """The state behind a point that gets what it lacks."""
        for sync in point.instr.syncs if point.instr else ():
            state = self.through(sync, state)
        while wanted := self.flow.lacking(point, state):
            assert point.instr is not None
            sync = self.best(point, state, wanted)
            point.instr.syncs.append(sync)
            state = self.through(sync, state)
            self.changed = True
        return self.flow.ran(point, state)

    def best(self, point: Point, state: State, wanted: list[Sync]) -> Sync:
        """The one that leaves the fewest others to do."""
        if len(wanted) == 1:
            return wanted[0]
        return min(wanted, key=lambda s: len(self.flow.lacking(point, self.flow.synced(s, state))))

    # ---- taking away -------------------------------------------------------------------------

    def prune(self) -> bool:
        """Take away each sync that the rest makes needless; whether there was one."""
        found = False
        tried = [(p, s) for p in self.flow.points if p.instr for s in p.instr.syncs]
        for point, sync in sorted(tried, key=lambda t: (t[1].source != ALL, -t[0].depth)):
            found |= self.needless(point, sync) and self.take(point, sync)
        return found

    def needless(self, point: Point, sync: Sync) -> bool:
        """Whether nothing lacks a sync; then `states` are those without it."""
        changed: dict[int, State] = {}
        work = [point.number]
        while work:
            number = heapq.heappop(work)
            before = changed.get(number, self.states[number])
            assert before is not None
            after, enough = self.passed(self.flow.points[number], before, sync)
            if not enough:
                return False
            for following, apart in self.flow.points[number].following:
                known = changed.get(following, self.states[following])
                assert known is not None
                arrives = self.flow.joined(known, after, apart)
                if arrives != known:
                    changed[following] = arrives
                    if following not in work:
                        heapq.heappush(work, following)
        for number, state in changed.items():
            self.states[number] = state
        return True

    def sink(self, ends: Sequence[Instr]) -> bool:
        """Set flags at the ends of branches in place of later ones; whether there was one."""
        groups = [[end] for end in ends] if len(ends) <= _FEW else [ends]
        found = [self.sunk(group, target) for group in groups for target in PIPES[1:]]
        self.follow()
        return any(found)

    def sunk(self, ends: Sequence[Instr], target: str) -> bool:
        """As `sink`, for one pipe and ends that all get a flag or none."""
        at = {p.instr: p for p in self.flow.points if p.instr in ends}
        later = {end: self.around(at[end], Sync("S", target)) for end in ends}
        added = {end: Sync("S", target) for end in ends if later[end]}
        if not added:
            return False
        for end, sync in added.items():
            end.syncs.append(sync)
        self.follow()
        tried = {s: p for found in later.values() for p, s in found}
        gone = [s for s, p in tried.items() if self.needless(p, s) and self.take(p, s)]
        for end, sync in added.items() if not gone else ():
            end.syncs.remove(sync)
        return bool(gone)

    def around(self, end: Point, sync: Sync) -> list[tuple[Point, Sync]]:
        """The flags between the same pipes in the blocks around a branch."""
        return [
            (point, each)
            for point in self.flow.points
            if point.instr is not None and point.blocks == end.blocks[:-1][: len(point.blocks)]
            for each in point.instr.syncs
            if (each.source, each.target) == (sync.source, sync.target)
        ]

    def take(self, point: Point, sync: Sync) -> bool:
        """Take a sync away, and its event out of use."""
        assert point.instr is not None
        point.instr.syncs.remove(sync)
        self.flow.events.forget(sync)
        return True

    def follow(self) -> None:
        """Fill `states` for the syncs that there are."""
        self.walk(lambda point, state: self.passed(point, state)[0])

    def covered(self) -> bool:
        """Whether no point lacks anything, and no event is set too early."""
        self.numbered = True
        self.follow()
        befores = zip(self.flow.points, self.states, strict=True)
        return all(self.passed(point, state or NOTHING)[1] for point, state in befores)

    # ---- events ------------------------------------------------------------------------------

    def number(self) -> bool:
        """Give every flag an event that is free; whether one had to wait for that."""
        self.numbered = self.changed = True
        while self.changed:
            self.changed = False
            self.walk(self.counted)
        return self.full

    def counted(self, point: Point, state: State) -> State:
        """The state behind a point whose flags get events that are free there."""
        for sync in list(point.instr.syncs) if point.instr else ():
            most = EVENTS - self.taken.get((sync.source, sync.target), 0)
            while self.in_use(sync, state):
                assert point.instr is not None
                self.changed = True
                if sync.event + 1 < most:
                    self.flow.events.take_next(sync)
                    continue
                # what sets the flag waits until the last wait for it has happened
                self.full = True
                back = Sync(sync.target, "S") if sync.source == "S" else Sync(ALL, ALL)
                point.instr.syncs.insert(point.instr.syncs.index(sync), back)
                state = self.through(back, state)
            state = self.through(sync, state)
        return self.flow.ran(point, state)
