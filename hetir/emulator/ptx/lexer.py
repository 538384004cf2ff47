"""PTX text to tokens."""

from __future__ import annotations

import re
from typing import NamedTuple

from hetir.emulator.ptx.faults import Place, PtxSyntaxError
from hetir.source import Loc


class Token(NamedTuple):
    """A token: kind is name, dot, int, real, string, punct or end."""

    kind: str
    text: str
    line: int
    col: int


_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\f\v]+|//[^\n]*)
      | (?P<newline>\n)
      | (?P<comment>/\*.*?\*/)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<real>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b
          |\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
      | (?P<int>(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?)
      | (?P<dot>\.[A-Za-z0-9_]+(?:::[A-Za-z0-9_]+)*)
      | (?P<name>[A-Za-z_$%][A-Za-z0-9_$]*)
      | (?P<punct>[{}()\[\],;:|!@+\-<>=])""",
    re.VERBOSE | re.DOTALL,
)


def tokens(text: str, name: str) -> list[Token]:
    """All tokens, closed by one of kind `end`; lines from 1, columns from 0."""
    found: list[Token] = []
    line, start, at = 1, 0, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            col = at - start
            place = Place(Loc(name, line, col, line, col + 1))
            raise PtxSyntaxError(f"`{text[at]}` begins no PTX token", place)
        kind = match.lastgroup or ""
        if kind == "newline":
            line, start = line + 1, match.end()
        elif kind == "comment":
            lines = match.group().count("\n")
            if lines:
                line, start = line + lines, text.rindex("\n", at, match.end()) + 1
        elif kind != "space":
            found.append(Token(kind, match.group(), line, at - start))
        at = match.end()
    found.append(Token("end", "", line, at - start))
    return found
