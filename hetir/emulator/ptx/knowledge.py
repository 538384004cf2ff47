"""What threads know of each other's accesses: the causality order of the PTX memory model.

A thread's accesses have its clock, and the number of barriers that its block has passed. To know
an access is to be ordered after it.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Knowledge:
    """Known accesses: a thread's up to a clock, a block's from before a barrier's number."""

    threads: dict[int, int] = field(default_factory=dict[int, int])
    blocks: dict[int, int] = field(default_factory=dict[int, int])

    def learn(self, other: Knowledge) -> None:
        """Know what the other knows."""
        for mine, theirs in ((self.threads, other.threads), (self.blocks, other.blocks)):
            for key, clock in theirs.items():
                if mine.get(key, -1) < clock:
                    mine[key] = clock

    def copy(self) -> Knowledge:
        """The same knowledge, to be changed apart."""
        return Knowledge(dict(self.threads), dict(self.blocks))

    def has(self, thread: int, clock: int, block: int, barriers: int) -> bool:
        """Whether an access is known."""
        return self.threads.get(thread, -1) >= clock or self.blocks.get(block, -1) > barriers


@dataclass(frozen=True, slots=True)
class Offer:
    """What a release at a location gives to those who read it, within its scope."""

    what: Knowledge
    thread: int
    block: int
    scope: str

    def reaches(self, block: int, scope: str) -> bool:
        """Whether release and acquire include each other's thread in their scopes."""
        return self.block == block or (self.scope != "cta" and scope != "cta")


def narrower(one: str, other: str) -> str:
    """The smaller of two scopes."""
    return min(one, other, key=("cta", "gpu", "sys").index)
