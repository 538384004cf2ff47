"""An Ascend C kernel before it is text: instructions of pipes, buffers, loops and branches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

PIPES = ("S", "V", "MTE2", "MTE3")
"""Scalar unit, vector unit, copies to the Unified Buffer, copies from it."""


_COUNTED = re.compile(r"for \(\w+ (\w+) = (\d+); \1 < (\d+); [^;]*\)")


@dataclass(eq=False, slots=True)
class Buffer:
    """A stretch of the Unified Buffer that holds `count` elements of a C++ type.

    `offset` is the plan's; `whole` buffers live from their `Declare` to the kernel's end of it.
    """

    name: str
    kind: str
    count: int
    size: int
    offset: int = -1

    @property
    def bytes(self) -> int:
        """Its length, whole blocks of 32 bytes."""
        return -(-self.count * self.size // 32) * 32


@dataclass(eq=False, slots=True)
class Global:
    """Global memory as hazards see it: an array parameter, or several that may overlap."""

    name: str


Place = Buffer | Global


@dataclass(frozen=True, slots=True)
class Access:
    """What an instruction touches: bytes `start` to `stop` of a buffer, or all of a place."""

    place: Place
    start: int = 0
    stop: int = 1 << 40


@dataclass(eq=False, slots=True)
class Instr:
    """Lines of C++ that one pipe executes. Scalars are not tracked: the scalar unit is in order.

    `leaves` says that the lines may leave the innermost loop. `syncs` go before it; `orders` are
    pairs of pipes between which the lines themselves set and wait for a flag; of the places that
    it `renews` all accesses are over.
    """

    pipe: str
    lines: list[str]
    reads: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()
    leaves: bool = False
    op: str = ""
    syncs: list[Sync] = field(default_factory=list["Sync"])
    orders: tuple[tuple[str, str], ...] = ()
    renews: tuple[Place, ...] = ()


@dataclass(eq=False, slots=True)
class Sync:
    """`source` to `target` is a flag of an event; one pipe twice is its barrier, or that of all.

    With `cache` it is neither: the scalar unit drops its cached lines of global memory.
    """

    source: str
    target: str
    cache: bool = False
    event: int = 0


@dataclass(eq=False, slots=True)
class Declare:
    """Where a buffer that is filled bit by bit begins to live."""

    buffer: Buffer


@dataclass(eq=False, slots=True)
class Note:
    """A line of comment."""

    text: str


@dataclass(eq=False, slots=True)
class Loop:
    """A C++ loop: `head` without its brace.

    `apart` says that an iteration shares no global data with those after it, nor with what comes
    after the loop.
    """

    head: str
    body: Block
    apart: bool = False

    @property
    def endless(self) -> bool:
        """Whether only what leaves it ends it."""
        return self.head == "while (true)"

    @property
    def runs(self) -> bool:
        """Whether its body runs at least once: its bounds are known."""
        bounds = _COUNTED.fullmatch(self.head)
        return self.endless or (bounds is not None and int(bounds[2]) < int(bounds[3]))


@dataclass(eq=False, slots=True)
class Branch:
    """A C++ `if`."""

    cond: str
    then: Block
    other: Block


Node = Instr | Declare | Note | Loop | Branch


@dataclass(eq=False, slots=True)
class Block:
    """Nodes in order."""

    nodes: list[Node] = field(default_factory=list[Node])


def blocks_of(node: Node) -> Sequence[Block]:
    """The blocks inside a node."""
    if isinstance(node, Loop):
        return (node.body,)
    if isinstance(node, Branch):
        return (node.then, node.other)
    return ()


def instructions(block: Block) -> Iterator[Instr]:
    """Every instruction, in program order."""
    for node in block.nodes:
        if isinstance(node, Instr):
            yield node
        for inner in blocks_of(node):
            yield from instructions(inner)


def count_syncs(block: Block) -> int:
    """How many flags and barriers a program has."""
    return sum(len(i.syncs) for i in instructions(block))
