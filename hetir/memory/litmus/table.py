"""The common form of litmus files: a name, a block of initial values, code, and a claim."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hetir.diagnostics import HetirError, Label
from hetir.memory.program import Binary, Const, Expr, Instruction, Jump, Reg
from hetir.memory.program import Label as JumpLabel


@dataclass(frozen=True, slots=True, kw_only=True)
class Sections:
    """The parts of a litmus file; `setup` is the second block, where there is one.

    `code_at` is where the code begins in the file.
    """

    arch: str
    name: str
    initial: str
    setup: str
    code: str
    claim: str
    code_at: int


class LitmusError(HetirError):
    """A litmus file cannot be read.

    Cause: a word that the format does not have, or a missing section. Fix: as the message says.
    """

    code = "HET650"

    def __init__(self, message: str, *labels: Label, hint: str | None = None, at: int = -1) -> None:
        super().__init__(message, *labels, hint=hint)
        self.at = at
        """Where in the file's text, if that is known already."""


def blank(text: str) -> str:
    """The text with spaces in place of comments and strings, so that places stay."""
    for pattern in (r"\(\*.*?\*\)", r'"[^"]*"', r"//[^\n]*"):
        text = re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.DOTALL)
    return text


_CLAIM = re.compile(r"^\s*(~exists|exists|forall|filter)\b", re.MULTILINE)


def split(text: str) -> Sections:
    """Cut a file into its sections."""
    bare = blank(text)
    head = re.match(r"\s*(\w+)[ \t]+([^\n]+)", bare)
    claims = list(_CLAIM.finditer(bare))
    if head is None or not claims:
        raise LitmusError("a litmus file starts with `ARCH name` and ends with a claim")
    rest = bare[head.end() : claims[-1].start()]
    initial, rest = _block(rest)
    setup = ""
    if rest.lstrip().startswith("{"):
        setup, rest = _block(rest)
    return Sections(
        arch=head.group(1).upper(),
        name=head.group(2).strip(),
        initial=initial,
        setup=setup,
        code=rest.strip(),
        claim=bare[claims[-1].start() :].strip(),
        code_at=claims[-1].start() - len(rest.lstrip()),
    )


def _block(text: str) -> tuple[str, str]:
    start = text.find("{")
    end = text.find("}", start)
    if start < 0 or end < 0 or text[:start].strip():
        raise LitmusError("expected a block of initial values in braces")
    return text[start + 1 : end], text[end + 1 :]


def columns(code: str) -> list[list[str]]:
    """Return each thread's header and instructions from the table of threads."""
    rows = [row.strip() for row in code.split(";") if row.replace("|", "").strip()]
    if not rows:
        raise LitmusError("there are no threads")
    width = rows[0].count("|") + 1
    for row in rows:
        if row.count("|") + 1 != width:
            raise LitmusError(f"every row must have {width} columns, one a thread, got `{row}`")
    rows = [[cell.strip() for cell in row.split("|")] for row in rows]
    return [[row[column] for row in rows] for column in range(width)]


def header(cell: str, thread: int) -> Mapping[str, int]:
    """Read `P0@cta 0,gpu 1` as the numbers of its scopes."""
    match = re.fullmatch(r"P(\d+)\s*@\s*(.*)", cell)
    if match is None or int(match.group(1)) != thread:
        raise LitmusError(f"expected `P{thread}@...`, got `{cell}`")
    places: dict[str, int] = {}
    for part in match.group(2).split(","):
        words = part.split()
        if len(words) != 2 or not words[1].isdigit():
            raise LitmusError(f"expected `scope number`, got `{part.strip()}`")
        places[words[0]] = int(words[1])
    return places


@dataclass(frozen=True, slots=True, kw_only=True)
class Initial:
    """One entry of the initial block: `P0:r1=2`, `x=1` or `t @ texture aliases x`."""

    name: str
    thread: int | None = None
    value: int = 0
    alias: str | None = None
    proxy: str = ""


def initial_values(block: str) -> list[Initial]:
    """Read the initial block of the table formats."""
    entries: list[Initial] = []
    for part in block.split(";"):
        text = part.strip()
        if not text:
            continue
        if match := re.fullmatch(r"(\w+)\s*(?:@\s*(\w+)\s+)?aliases\s+(\w+)", text):
            entries.append(Initial(name=match[1], proxy=match[2] or "generic", alias=match[3]))
        elif match := re.fullmatch(r"P?(\d+)\s*:\s*(\w+)\s*=\s*(-?\d+)", text):
            entries.append(Initial(name=match[2], thread=int(match[1]), value=int(match[3])))
        elif match := re.fullmatch(r"\[?(\w+)\]?\s*=\s*(-?\d+)", text):
            entries.append(Initial(name=match[1], value=int(match[2])))
        else:
            raise LitmusError(f"cannot read the initial value `{text}`")
    return entries


def operand(text: str) -> Expr:
    """Read a number or a register."""
    word = text.strip()
    if re.fullmatch(r"-?\d+", word):
        return Const(int(word))
    if not re.fullmatch(r"\w+", word):
        raise LitmusError(f"expected a number or a register, got `{word}`")
    return Reg(word)


def operands(text: str) -> list[str]:
    """Split an instruction's operands."""
    return [part.strip() for part in text.split(",")] if text.strip() else []


def control(cell: str) -> Instruction | None:
    """Read a label, `goto L`, `beq a, b, L` or `bne a, b, L`; None for anything else."""
    if match := re.fullmatch(r"(\w+)\s*:", cell):
        return JumpLabel(name=match[1])
    if match := re.fullmatch(r"goto\s+(\w+)", cell):
        return Jump(target=match[1])
    if match := re.fullmatch(r"(beq|bne)\s+([^,]+),([^,]+),\s*(\w+)", cell):
        op = "==" if match[1] == "beq" else "!="
        return Jump(target=match[4], condition=Binary(op, operand(match[2]), operand(match[3])))
    return None
