"""What can be wrong with a hetbin file, or with a use of it."""

from __future__ import annotations

from hetir.diagnostics import HetirError, LaunchError


class HetbinError(HetirError):
    """A hetbin cannot be written or found as asked.

    Cause: as the message says, such as a kernel that the file does not have. Fix: as the hint says.
    """

    code = "HET550"


class DamagedHetbinError(HetirError):
    """A hetbin file is damaged, cut short or of another kind.

    `file` and the byte `offset` of the damage are attributes.

    Cause: it was changed, or never written whole. Fix: build it again: `hetir build`.
    """

    code = "HET551"

    def __init__(self, file: str, offset: int, what: str) -> None:
        super().__init__(
            f"{file} is damaged at byte {offset}: {what}", hint="build it again: `hetir build`"
        )
        self.file, self.offset = file, offset


class HetbinVersionError(HetirError):
    """A hetbin file was written by a newer hetir than this one.

    Cause: its format has a newer major version. Fix: read it with a hetir at least as new.
    """

    code = "HET552"


class NoSpecialisationError(LaunchError):
    """No specialisation of a kernel in a hetbin takes these arguments.

    Cause: an element type, a rank or a stride that it was not built for.
    Fix: pass such arguments, or build with one more `--signature`.
    """

    code = "HET553"
