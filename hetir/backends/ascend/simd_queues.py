"""Double buffering: what only a copy fills and only the vector unit reads goes through a queue.

The scalar unit issues the next iteration's copy while vectors still work on this one's data. A
queue of two buffers lets that copy begin at once: its space was freed one iteration before.
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
    Instr,
    Loop,
    Node,
    blocks_of,
)

DEPTH = 2
MOST = 3
"""Queues of a kernel: each holds two of the eight events of a pair of pipes."""


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue and the buffer that it took the place of."""

    name: str
    buffer: Buffer

    @property
    def bytes(self) -> int:
        """What it takes of the Unified Buffer."""
        return DEPTH * self.buffer.bytes


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A buffer, the block that holds all its uses, and how many loops are around that."""

    buffer: Buffer
    block: Block
    depth: int


def through_queues(program: Block, room: int) -> list[Queue]:
    """Move the copies of the innermost loops to queues, while `room` bytes last."""
    found: list[Queue] = []
    candidates = [c for c in _candidates(program, 0) if c.depth > 0]
    for each in sorted(candidates, key=lambda c: -c.depth):
        queue = Queue(f"{each.buffer.name}_queue", each.buffer)
        if len(found) == MOST or queue.bytes - each.buffer.bytes > room:
            continue
        room -= queue.bytes - each.buffer.bytes
        _rewrite(each, queue)
        _forget(program, each.buffer)
        found.append(queue)
    return found


def _candidates(program: Block, depth: int) -> list[_Candidate]:
    """Buffers that one copy of a block fills, and vector instructions after it read."""
    uses: dict[Buffer, list[tuple[Instr, bool]]] = {}
    for instr, access, writes in _accesses(program.nodes):
        if isinstance(access.place, Buffer):
            uses.setdefault(access.place, []).append((instr, writes))
    declared = {n.buffer for n in _nodes(program) if isinstance(n, Declare)}
    return [
        c
        for c in _filled(program, depth)
        if c.buffer not in declared and _simple(c, uses[c.buffer])
    ]


def _filled(block: Block, depth: int) -> Iterator[_Candidate]:
    for node in block.nodes:
        if isinstance(node, Instr) and node.op == "CopyIn":
            for access in node.writes:
                if isinstance(access.place, Buffer):
                    yield _Candidate(access.place, block, depth)
        for inner in blocks_of(node):
            yield from _filled(inner, depth + isinstance(node, Loop))


def _simple(candidate: _Candidate, uses: Sequence[tuple[Instr, bool]]) -> bool:
    """Whether one copy fills it, vectors of the same block read it later, and nothing leaves."""
    if [i.op for i, writes in uses if writes] != ["CopyIn"] or len(uses) < 2:
        return False
    if any(i.pipe != "V" for i, writes in uses if not writes):
        return False
    between = candidate.block.nodes[slice(*_extent(candidate))]
    inside = {i for i, _, _ in _accesses(between)}
    return all(i in inside for i, _ in uses) and not any(map(_leaves, between))


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


def _rewrite(candidate: _Candidate, queue: Queue) -> None:
    """Put the queue's calls around the copy and behind the last use."""
    buffer, nodes = candidate.buffer, candidate.block.nodes
    first, last = _extent(candidate)
    copy, name, kind = nodes[first], buffer.name, buffer.kind
    assert isinstance(copy, Instr)
    arriving = f"{name}_arriving"
    word = re.compile(rf"\b{name}\b")
    copy.lines = [word.sub(arriving, line) for line in copy.lines]
    before = f"LocalTensor<{kind}> {arriving} = {queue.name}.AllocTensor<{kind}>();"
    after = [
        f"{queue.name}.EnQue({arriving});",
        f"LocalTensor<{kind}> {name} = {queue.name}.DeQue<{kind}>();",
    ]
    candidate.block.nodes = [
        *nodes[:first],
        Instr("S", [before]),
        copy,
        Instr("S", after, orders=(("MTE2", "V"),)),
        *nodes[first + 1 : last],
        Instr("S", [f"{queue.name}.FreeTensor({name});"]),
        *nodes[last:],
    ]


def _forget(program: Block, buffer: Buffer) -> None:
    """The queue orders what touches its buffers: flags need not."""
    for node in _nodes(program):
        if isinstance(node, Instr):
            node.reads = tuple(a for a in node.reads if a.place is not buffer)
            node.writes = tuple(a for a in node.writes if a.place is not buffer)


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
