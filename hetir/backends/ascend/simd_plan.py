"""Where each buffer lies in the Unified Buffer: those that do not live together share space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hetir.backends.ascend.simd_program import Block, Buffer, Declare, Instr, blocks_of


@dataclass(slots=True)
class _Life:
    """First and last position of a buffer, as paths of (block, node) from the outermost block."""

    paths: list[tuple[tuple[int, int, int], ...]] = field(
        default_factory=list[tuple[tuple[int, int, int], ...]]
    )


def plan(program: Block, room: int) -> int:
    """Give every buffer its offset; the bytes that all of them take together.

    Where `room` bytes hold every buffer beside all others, none share: what shares bytes must
    wait for each other.

    A buffer lives in the innermost block that holds all that touches it, from the first node
    there to the last: what is carried round a loop is written before it, so that its block lies
    outside. A declared buffer's block is the declaration's.
    """
    lives = _lives(program)
    if sum(b.bytes for b in lives) <= room:
        at = 0
        for buffer in lives:
            buffer.offset = at
            at += buffer.bytes
        return at
    spans = [(*_span(life), buffer) for buffer, life in lives.items()]
    placed: list[tuple[int, int, Buffer]] = []
    for start, stop, buffer in sorted(spans, key=lambda s: (-s[2].bytes, s[0])):
        rivals = sorted(
            (other.offset, other.offset + other.bytes)
            for first, last, other in placed
            if first <= stop and start <= last
        )
        buffer.offset = _gap(rivals, buffer.bytes)
        placed.append((start, stop, buffer))
    return max((b.offset + b.bytes for b in lives), default=0)


def _gap(rivals: list[tuple[int, int]], size: int) -> int:
    """The lowest offset at which `size` bytes are free."""
    at = 0
    for start, stop in rivals:
        if at + size <= start:
            break
        at = max(at, stop)
    return at


def _lives(program: Block) -> dict[Buffer, _Life]:
    found: dict[Buffer, _Life] = {}
    for path, buffer in _touches(program, (), _Counter()):
        found.setdefault(buffer, _Life()).paths.append(path)
    return found


class _Counter:
    def __init__(self) -> None:
        self.value = 0


def _touches(
    block: Block, path: tuple[tuple[int, int, int], ...], counter: _Counter
) -> Iterator[tuple[tuple[tuple[int, int, int], ...], Buffer]]:
    """Each touch of a buffer with its path: (block, first position, last position) a level."""
    for node in block.nodes:
        start = counter.value
        counter.value += 1
        inner: list[tuple[tuple[tuple[int, int, int], ...], Buffer]] = []
        for one in blocks_of(node):
            inner += _touches(one, (), counter)
        own = (*path, (id(block), start, counter.value))
        yield from (((*own, *deeper), buffer) for deeper, buffer in inner)
        if isinstance(node, Declare):
            yield own, node.buffer
        elif isinstance(node, Instr):
            for access in (*node.reads, *node.writes):
                if isinstance(access.place, Buffer):
                    yield own, access.place


def _span(life: _Life) -> tuple[int, int]:
    depth = 0
    while all(len(p) > depth + 1 for p in life.paths) and _one(life, depth):
        depth += 1
    return min(p[depth][1] for p in life.paths), max(p[depth][2] for p in life.paths)


def _one(life: _Life, depth: int) -> bool:
    """Whether all touches lie in one block one level deeper."""
    return len({(p[depth][1], p[depth + 1][0]) for p in life.paths}) == 1
