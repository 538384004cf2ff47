"""The linear form between PTX text and blocks: steps, labels, branches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hetir.emulator.ptx.barrier import BarrierStep
from hetir.emulator.ptx.batch import Batch
from hetir.emulator.ptx.build import Build, Reader, Step
from hetir.emulator.ptx.warp import WarpStep


@dataclass(frozen=True, slots=True)
class Branch:
    """To `target` where the guard holds, else on; `uniform` says that a warp never splits."""

    target: str
    guard: Reader | None
    uniform: bool
    where: Build


@dataclass(frozen=True, slots=True)
class Table:
    """To one of several labels by an index."""

    index: Reader
    targets: tuple[str, ...]
    where: Build


@dataclass(frozen=True, slots=True)
class Mark:
    """A label."""

    name: str


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of the threads."""


Item = Branch | Table | Mark | Exit | WarpStep | BarrierStep | Callable[[Batch], None]


def predicated(step: Step, guard: Reader) -> Step:
    """A step for those of the active lanes whose guard holds."""

    def run(r: Batch) -> None:
        chosen = guard(r)
        if chosen.all():
            step(r)
        elif chosen.any():
            saved = r.idx
            r.idx = chosen.nonzero()[0] if saved is None else saved[chosen]
            try:
                step(r)
            finally:
                r.idx = saved

    return run
