"""What a run of the shim found and did."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A rule that the program broke: `kind` names the rule, `line` is in the source.

    Kinds: type, alignment, count, mask, overlap, bounds, budget, queue, flag, hazard, cache,
    uninitialised, deadlock, cores, sync, barrier, atomic, trap, load, crash, timeout.
    """

    kind: str
    message: str
    line: int
    core: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The faults of a run (it ends at its first) and, when there are none, what it did.

    `counts` holds `vector`, `loads`, `stores` (instructions that ran), `flags`, `barriers`,
    `syncs`, `cleans` (sites that ran) and `buffer_bytes` (the most of the Unified Buffer in use).
    """

    faults: tuple[Fault, ...]
    counts: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def ok(self) -> bool:
        """Whether the program ran to its end without a fault."""
        return not self.faults

    def raise_faults(self) -> Report:
        """Raises ShimFaultError for the first fault; this report when there is none."""
        if self.faults:
            raise ShimFaultError(self.faults[0])
        return self


class ShimFaultError(Exception):
    """A program broke a rule of the hardware under the shim."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"line {fault.line}, core {fault.core}: {fault.kind}: {fault.message}")
        self.fault = fault
