"""Double buffering: what copies and vectors hand to each other in a loop goes through a queue.

The scalar unit issues the next iteration's copy in while vectors still work on this one's data,
and the next iteration's vectors while this one's results are still copied out. A queue of two
buffers lets either begin at once: its space was freed one iteration before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hetir.backends.ascend.simd_program import (
    Access,
    Block,
    Branch,
    Buffer,
    Declare,
    Global,
    Instr,
    Loop,
    Node,
    blocks_of,
)

DEPTH = 2
MOST = 3
"""Queues of a kernel in each direction: one holds two of the eight events of a pair of pipes."""

_PIPES = {"VECIN": ("MTE2", "V"), "VECOUT": ("V", "MTE3")}
"""For each position, the pipe that fills a queue's buffers and the one that reads them."""


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue, the buffer that it took the place of, and its position: VECIN or VECOUT."""

    name: str
    buffer: Buffer
    position: str

    @property
    def bytes(self) -> int:
        """What it takes of the Unified Buffer."""
        return DEPTH * self.buffer.bytes


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A buffer, its position, the block of all its uses, and how many loops are around that."""

    buffer: Buffer
    position: str
    block: Block
    depth: int


def through_queues(program: Block, room: int) -> list[Queue]:
    """Move the copies of the innermost loops to queues, while `room` bytes last."""
    found: list[Queue] = []
    candidates = [c for c in _candidates(program, 0) if c.depth > 0]
    for each in sorted(candidates, key=lambda c: -c.depth):
        queue = Queue(f"{each.buffer.name}_queue", each.buffer, each.position)
        taken = sum(q.position == queue.position for q in found)
        if taken == MOST or queue.bytes - each.buffer.bytes > room:
            continue
        room -= queue.bytes - each.buffer.bytes
        place = Global(f"{each.buffer.name} of a queue")
        _rewrite(each, queue, place)
        _forget(program, each.buffer, place)
        found.append(queue)
    return found


def events_of(queues: Sequence[Queue]) -> dict[tuple[str, str], int]:
    """How many events of each pair of pipes the queues use."""
    found: dict[tuple[str, str], int] = {}
    for queue in queues:
        fills, reads = _PIPES[queue.position]
        for pair in ((fills, reads), (reads, fills)):
            found[pair] = found.get(pair, 0) + DEPTH
    return found


def _candidates(program: Block, depth: int) -> list[_Candidate]:
    """Buffers that one copy of a block fills and vectors after it read, or the other way round."""
    uses: dict[Buffer, list[tuple[Instr, bool]]] = {}
    for instr, access, writes in _accesses(program.nodes):
        if isinstance(access.place, Buffer):
            uses.setdefault(access.place, []).append((instr, writes))
    declared = {n.buffer for n in _nodes(program) if isinstance(n, Declare)}
    return [
        c
        for c in _copied(program, depth)
        if c.buffer not in declared and _simple(c, uses[c.buffer])
    ]


def _copied(block: Block, depth: int) -> Iterator[_Candidate]:
    for node in block.nodes:
        if isinstance(node, Instr) and node.op in ("CopyIn", "CopyOut"):
            position = "VECIN" if node.op == "CopyIn" else "VECOUT"
            for access in (*node.reads, *node.writes):
                if isinstance(access.place, Buffer):
                    yield _Candidate(access.place, position, block, depth)
        for inner in blocks_of(node):
            yield from _copied(inner, depth + isinstance(node, Loop))


def _simple(candidate: _Candidate, uses: Sequence[tuple[Instr, bool]]) -> bool:
    """Whether one copy comes before or after all vectors, in one block that nothing leaves."""
    copies = [(i, writes) for i, writes in uses if i.pipe != "V"]
    if len(copies) != 1 or len(uses) < 2:
        return False
    (copy, fills), first = copies[0], uses[0]
    if candidate.position == "VECIN":
        right = copy.op == "CopyIn" and first[0] is copy and not any(w for _, w in uses[1:])
    else:
        right = copy.op == "CopyOut" and uses[-1][0] is copy and _only_writes(first[0], uses)
    between = candidate.block.nodes[slice(*_extent(candidate))]
    inside = {i for i, _, _ in _accesses(between)}
    del fills
    return right and all(i in inside for i, _ in uses) and not any(map(_leaves, between))


def _only_writes(first: Instr, uses: Sequence[tuple[Instr, bool]]) -> bool:
    return all(writes for instr, writes in uses if instr is first)


def _extent(candidate: _Candidate) -> tuple[int, int]:
    """From the node that fills a buffer to behind the last one that reads it."""
    at = [
        i
        for i, node in enumerate(candidate.block.nodes)
        if any(a.place is candidate.buffer for _, a, _ in _accesses([node]))
    ]
    return at[0], at[-1] + 1


def _leaves(node: Node) -> bool:
    """Whether control may leave the loop around a node from inside it."""
    if isinstance(node, Branch):
        return any(_leaves(n) for b in blocks_of(node) for n in b.nodes)
    return isinstance(node, Instr) and node.leaves


def _rewrite(candidate: _Candidate, queue: Queue, place: Global) -> None:
    """Put the queue's calls around the first use and the last."""
    buffer, nodes = candidate.buffer, candidate.block.nodes
    first, last = _extent(candidate)
    incoming = candidate.position == "VECIN"
    copy = nodes[first if incoming else last - 1]
    assert isinstance(copy, Instr)
    other = f"{buffer.name}_{'arriving' if incoming else 'leaving'}"
    word = re.compile(rf"\b{buffer.name}\b")
    copy.lines = [word.sub(other, line) for line in copy.lines]
    filled, read = (other, buffer.name) if incoming else (buffer.name, other)
    tensor = f"LocalTensor<{buffer.kind}>"
    handing = [
        f"{queue.name}.EnQue({filled});",
        f"{tensor} {read} = {queue.name}.DeQue<{buffer.kind}>();",
    ]
    at = first + 1 if incoming else last - 1
    candidate.block.nodes = [
        *nodes[:first],
        Instr(
            "S",
            [f"{tensor} {filled} = {queue.name}.AllocTensor<{buffer.kind}>();"],
            renews=(place,),
        ),
        *nodes[first:at],
        Instr("S", handing, orders=(_PIPES[queue.position],)),
        *nodes[at:last],
        Instr("S", [f"{queue.name}.FreeTensor({read});"]),
        *nodes[last:],
    ]


def _forget(program: Block, buffer: Buffer, place: Global) -> None:
    """The queue orders copies and vectors: flags need not. Vectors among themselves still do."""

    def left(instr: Instr, accesses: Sequence[Access]) -> tuple[Access, ...]:
        others = (a for a in accesses if a.place is not buffer)
        own = any(a.place is buffer for a in accesses) and instr.pipe == "V"
        return (*others, *((Access(place),) if own else ()))

    for node in _nodes(program):
        if isinstance(node, Instr):
            node.reads, node.writes = left(node, node.reads), left(node, node.writes)


def _nodes(block: Block) -> Iterator[Node]:
    for node in block.nodes:
        yield node
        for inner in blocks_of(node):
            yield from _nodes(inner)


def _accesses(nodes: Sequence[Node]) -> Iterator[tuple[Instr, Access, bool]]:
    for node in nodes:
        if isinstance(node, Instr):
            yield from ((node, a, False) for a in node.reads)
            yield from ((node, a, True) for a in node.writes)
        for inner in blocks_of(node):
            yield from _accesses(inner.nodes)
