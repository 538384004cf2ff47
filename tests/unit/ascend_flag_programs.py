"""Random programs of pipes, and whether one of their executions finds something unordered."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
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
    Node,
    Sync,
)

# each shares bytes with the next
BUFFERS = tuple(Buffer(f"b{n}", "float", 16, 4, offset=48 * n) for n in range(5))
ARRAYS = (Global("x"), Global("y"))


def program(seed: int, length: int) -> Block:
    """Instructions in blocks, branches and loops of up to two levels."""
    return _block(random.Random(seed), length, depth=0)


def _block(choose: random.Random, length: int, depth: int) -> Block:
    nodes: list[Node] = []
    while length > 0:
        way = choose.random()
        inner = choose.randrange(1, 5)
        if way < 0.1 and depth < 3:
            head = choose.choice(("for (unknown)", "while (true)", "for (int n = 0; n < 2; ++n)"))
            body = _block(choose, inner, depth + 1)
            if head == "while (true)":
                at = choose.randrange(len(body.nodes) + 1)
                body.nodes.insert(at, Instr("S", ["if (done) break;"], leaves=True))
            nodes.append(Loop(head, body, apart=choose.random() < 0.3))
        elif way < 0.2 and depth < 3:
            other = _block(choose, choose.randrange(3), depth + 1)
            nodes.append(Branch("unknown", _block(choose, inner, depth + 1), other))
        else:
            nodes.append(_instr(choose))
            inner = 1
        length -= inner
    return Block(nodes)


def _instr(choose: random.Random) -> Instr:
    pipe = choose.choice(PIPES)
    local = [_part(choose) for _ in range(choose.randrange(1, 3))]
    array = (Access(choose.choice(ARRAYS)),)
    match pipe:
        case "MTE2":
            return Instr(pipe, ["copy in"], reads=array, writes=(local[0],))
        case "MTE3":
            return Instr(pipe, ["copy out"], reads=(local[0],), writes=array)
        case "S" if choose.random() < 0.5:
            reads, writes = (array, ()) if choose.random() < 0.6 else ((), array)
            return Instr(pipe, ["scalar"], reads=reads, writes=writes)
        case _:
            return Instr(pipe, ["compute"], reads=(*local[1:],), writes=(local[0],))


def _part(choose: random.Random) -> Access:
    """A whole buffer or half of it."""
    half = choose.choice((None, 0, 32))
    buffer = choose.choice(BUFFERS)
    return Access(buffer) if half is None else Access(buffer, half, half + 32)


# ---- executions ----------------------------------------------------------------------------

Step = Instr | Sync | None
"""None: what comes next shares no global data with what was before."""


def executions(whole: Block, count: int) -> Iterator[list[Step]]:
    """Ways through a program, at random: a loop runs up to three times.

    One with known bounds does so too, at least once: this is all that is told of it.
    """
    choose = random.Random(0)
    for _ in range(count):
        yield _Walk(choose).run(whole)


class _Leave(Exception):  # noqa: N818 (control flow)
    pass


@dataclass
class _Walk:
    random: random.Random
    steps: list[Step] = field(default_factory=list[Step])

    def run(self, whole: Block) -> list[Step]:
        self.block(whole)
        return self.steps

    def choose(self) -> int:
        return self.random.randrange(3)

    def block(self, block: Block) -> None:
        for node in block.nodes:
            match node:
                case Instr():
                    self.steps += [*node.syncs, node]
                    if node.leaves and (self.choose() != 1 or len(self.steps) > 200):
                        raise _Leave
                case Branch():
                    self.block(node.then if self.choose() % 2 else node.other)
                case Loop():
                    self.loop(node)
                case _:
                    pass

    def loop(self, loop: Loop) -> None:
        count = 10**6 if loop.head == "while (true)" else self.choose()
        count = max(1, count) if loop.runs else count
        try:
            for turn in range(count):
                self.block(loop.body)
                last = loop.runs and turn == count - 1
                self.steps += [None] if loop.apart and not last else []
        except _Leave:
            pass


Clock = dict[str, int]


class Machine:
    """Clocks of the pipes: what each has run, and what it knows to be over."""

    def __init__(self) -> None:
        self.time: Clock = dict.fromkeys(PIPES, 0)
        self.knows: dict[str, Clock] = {pipe: dict.fromkeys(PIPES, 0) for pipe in PIPES}
        self.touched: dict[object, list[tuple[str, int, bool]]] = {}
        self.waits: dict[tuple[str, str, int], int] = {}
        self.hidden: dict[object, int] = {}

    def sound(self, steps: list[Step]) -> bool:
        """Whether an execution finds everything ordered."""
        return all(map(self.step, steps))

    def step(self, step: Step) -> bool:
        if step is None:
            self.hidden.clear()
            for array in ARRAYS:
                self.touched.pop(array, None)
            return True
        return self.sync(step) if isinstance(step, Sync) else self.instr(step)

    def sync(self, sync: Sync) -> bool:
        if sync.cache:
            known = self.knows["S"]["MTE3"]
            self.hidden = {k: at for k, at in self.hidden.items() if at > known}
            return True
        if sync.source == "ALL":
            for pipe in PIPES:
                self.knows[pipe] = dict(self.time)
            return True
        event = (sync.source, sync.target, sync.event)
        flag = sync.source != sync.target and sync.target != "S"
        early = flag and self.waits.get(event, 0) > self.knows[sync.source][sync.target]
        told = self.knows[sync.source] | {sync.source: self.time[sync.source]}
        for pipe in PIPES if sync.target == "S" else (sync.target,):
            self.learn(pipe, told)
        if flag:
            self.time[sync.target] += 1
            self.waits[event] = self.time[sync.target]
        return not early

    def learn(self, pipe: str, told: Mapping[str, int]) -> None:
        self.knows[pipe] = {p: max(self.knows[pipe][p], told[p]) for p in PIPES}

    def instr(self, instr: Instr) -> bool:
        cells = [(c, False) for a in instr.reads for c in _cells(a)]
        cells += [(c, True) for a in instr.writes for c in _cells(a)]
        for cell, writes in cells:
            for pipe, at, wrote in self.touched.get(cell, ()):
                alone = pipe == instr.pipe == "S"
                if (writes or wrote) and not alone and at > self.knows[instr.pipe][pipe]:
                    return False
            if instr.pipe == "S" and not writes and cell in self.hidden:
                return False
        self.time[instr.pipe] += 1
        for cell, writes in cells:
            done = (instr.pipe, self.time[instr.pipe], writes)
            self.touched.setdefault(cell, []).append(done)
            if instr.pipe == "MTE3" and isinstance(cell, Global):
                self.hidden[cell] = self.time["MTE3"]
        return True


def _cells(access: Access) -> Iterator[object]:
    place = access.place
    if isinstance(place, Global):
        yield place
    else:
        stop = min(access.stop, place.bytes)
        yield from range(place.offset + access.start, place.offset + stop, 16)
