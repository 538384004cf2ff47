"""Where an op came from, in the user's Python."""

from __future__ import annotations

import linecache
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Loc:
    """A span of source text; columns are 0-based and `end_col` is exclusive.

    `caller` is the place that called the helper function this one lies in.
    """

    file: str
    line: int
    col: int
    end_line: int
    end_col: int
    caller: Loc | None = None

    def source(self) -> str:
        """The whole first line, or an empty string when the source is gone."""
        return linecache.getline(self.file, self.line).rstrip("\n")

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col + 1}"


def whole_line(file: str, line: int) -> Loc:
    """The text of a line, without the spaces around it."""
    text = linecache.getline(file, line).rstrip()
    return Loc(file, line, len(text) - len(text.lstrip()), line, len(text))
