"""What the PTX emulator reports: text it cannot read, and what has no meaning when it runs."""

from __future__ import annotations

from dataclasses import dataclass

from hetir.diagnostics import HetirError, Label
from hetir.source import Loc


@dataclass(frozen=True, slots=True)
class Place:
    """A span of PTX text, and the user's line that the nearest `.loc` names."""

    ptx: Loc
    user: Loc | None = None

    def labels(self, text: str) -> tuple[Label, ...]:
        """The user's line first, where one is known, then the PTX line."""
        if self.user is None:
            return (Label(self.ptx, text),)
        return (Label(self.user, text), Label(self.ptx, "in this PTX"))


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread of a launch; axis 0 is x."""

    block: tuple[int, int, int]
    thread: tuple[int, int, int]

    def __str__(self) -> str:
        return f"thread {self.thread} of block {self.block}"


class PtxError(HetirError):
    """The base of every error of the PTX emulator."""

    def __init__(
        self, message: str, place: Place | None = None, text: str = "", hint: str | None = None
    ) -> None:
        self.place = place
        super().__init__(message, *(place.labels(text) if place else ()), hint=hint)


class PtxSyntaxError(PtxError):
    """The text is not PTX.

    Cause: a token or statement that the PTX ISA does not have. Fix: correct the text; `ptxas`
    names the same place.
    """

    code = "HET620"


class PtxUnknownError(PtxError):
    """An instruction, modifier, directive or special register that the emulator lacks.

    Cause: what is not executed exactly is not executed, and never skipped. Fix: write the kernel
    without it.
    """

    code = "HET621"


class PtxOperandError(PtxError):
    """An operand has another size or kind than its instruction, or its name is not declared.

    Cause: registers of another width, a missing modifier, a misspelt name. Fix: correct the
    instruction.
    """

    code = "HET622"


class Fault(PtxError):  # noqa: N818 (a public name)
    """A thread did what has no meaning; `thread` is the first that did."""

    def __init__(
        self,
        message: str,
        place: Place | None = None,
        thread: Thread | None = None,
        hint: str | None = None,
    ) -> None:
        self.thread = thread
        super().__init__(message, place, str(thread) if thread else "", hint)


class OutOfBoundsFault(Fault):
    """An address lies in no allocation, or in one of another state space.

    Cause: an index past the end, a wrong pointer, a store to constant memory. Fix: guard the
    access.
    """

    code = "HET623"


class MisalignedFault(Fault):
    """An address is no multiple of the bytes accessed.

    Cause: a vector or wide access at an address that is not aligned to it. Fix: align the data,
    or access its parts.
    """

    code = "HET624"


class UninitialisedFault(Fault):
    """Shared or local memory is read before it is written.

    Cause: such memory starts with no value. Fix: write it first.
    """

    code = "HET625"


class BarrierFault(Fault):
    """Threads wait at a barrier that others of their block cannot reach.

    Cause: a branch or an exit that not all threads take stands before it. Fix: move the barrier
    out of the branch.
    """

    code = "HET626"


class LaneFault(Fault):
    """A warp instruction names or reads a lane that does not take part.

    Cause: a member mask with lanes that take another branch, or a shuffle out of the mask.
    Fix: name the lanes that are there.
    """

    code = "HET627"


class RaceFault(Fault):
    """Two accesses of one location, one a write, are not ordered and not both strong.

    Cause: no barrier, or no release and acquire in scopes that include each other, is between
    them. Fix: order them, or make both atomic.
    """

    code = "HET628"

    def __init__(
        self, message: str, place: Place, thread: Thread, other_place: Place, other: Thread
    ) -> None:
        super().__init__(message, place, thread)
        self.other = other
        self.labels += other_place.labels(f"{other}, not ordered with it")


class TrapFault(Fault):
    """`trap` was executed, or a call through a pointer to no function.

    Cause: the kernel found a state that it excludes. Fix: see what leads to the trap.
    """

    code = "HET629"


class PtxLaunchError(PtxError):
    """The launch does not fit the entry: its sizes, parameters or arrays.

    Cause: a block past `.maxntid`, parameters of another size, arrays that overlap. Fix: launch
    as the entry declares.
    """

    code = "HET630"


class EndlessFault(Fault):
    """The step limit was reached.

    Cause: a loop that does not end, or waits for a block that does not run yet. Fix: end it, pass
    `cooperative=True`, or raise `step_limit`.
    """

    code = "HET631"


class PtxLinkError(PtxError):
    """A function or variable is not defined, or a function calls itself.

    Cause: the module declares it only, or is recursive. Fix: link the definition in.
    """

    code = "HET632"
