"""User-facing errors: a message, where it happened, and how to fix it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hetir.source import Loc

_SHOWN_CALLERS = 8


@dataclass(frozen=True, slots=True)
class Label:
    """What happened at one place."""

    loc: Loc
    text: str


class HetirError(Exception):
    """The base of every error a user can cause; `str()` is the rendered text.

    Subclasses set `code`; each stands in docs/errors.md with cause, example and fix.
    """

    code: ClassVar[str] = "HET000"

    def __init__(self, message: str, *labels: Label, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.labels = labels
        self.hint = hint

    def __str__(self) -> str:
        return render(self)


class CompileError(HetirError):
    """The base of every error found while a kernel is read or compiled."""


class OutsideKernelError(CompileError):
    """A function of the kernel language is called by ordinary Python; it works only in a kernel.

    Cause: it stands for an operation of the device. Fix: call it in a function that
    `@hetir.kernel` compiles.
    """

    code = "HET217"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"`hl.{name}` works only inside a kernel",
            hint="call it in a function that is compiled by `@hetir.kernel`",
        )


class LaunchError(HetirError):
    """The base of every error found while a kernel is launched or runs."""


def render(error: HetirError) -> str:
    """Draw the message, the source lines with carets, and the hint."""
    lines = [f"error[{error.code}]: {error.message}"]
    for label in error.labels:
        lines += _snippet(label)
        callers = _callers(label.loc)
        # a recursion that is refused has a long chain of calls
        for caller in callers[:_SHOWN_CALLERS]:
            lines += _snippet(Label(caller, "called from here"))
        if len(callers) > _SHOWN_CALLERS:
            lines.append(f" = called through {len(callers) - _SHOWN_CALLERS} more functions")
    if error.hint:
        lines.append(f" = help: {error.hint}")
    return "\n".join(lines)


def _callers(loc: Loc) -> list[Loc]:
    found: list[Loc] = []
    while loc.caller is not None:
        loc = loc.caller
        found.append(loc)
    return found


def _snippet(label: Label) -> list[str]:
    loc = label.loc
    gutter = " " * len(str(loc.line))
    head = f"{gutter}--> {_shown_path(loc.file)}:{loc.line}:{loc.col + 1}"
    source = loc.source()
    if not source:
        return [head, f"{gutter} = {label.text}"] if label.text else [head]
    end = loc.end_col if loc.end_line == loc.line else len(source)
    # tabs keep their width so that the carets stand under the text
    indent = "".join("\t" if c == "\t" else " " for c in source[: loc.col])
    carets = indent + "^" * max(1, end - loc.col)
    return [
        head,
        f"{gutter} |",
        f"{loc.line} | {source}",
        f"{gutter} | {carets} {label.text}".rstrip(),
    ]


def _shown_path(file: str) -> str:
    """The path relative to the working directory when it lies inside it."""
    if not Path(file).is_absolute():
        return file
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else relative
