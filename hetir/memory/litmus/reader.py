"""Reading a litmus file: the program, its claim, and the model it is for."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hetir.diagnostics import Label
from hetir.memory.claim import Claim, parse_claim
from hetir.memory.litmus import hetir, opencl, ptx, vulkan
from hetir.memory.litmus.table import LitmusError, Sections, blank, split
from hetir.memory.models.base import Model
from hetir.memory.models.ir import IrModel
from hetir.memory.models.opencl import OpenClModel
from hetir.memory.models.ptx import PtxModel
from hetir.memory.models.vulkan import VulkanModel
from hetir.memory.program import Program
from hetir.source import Loc


@dataclass(frozen=True, slots=True, kw_only=True)
class Litmus:
    """A program, a claim about its final states, and the model that its text is written for."""

    program: Program
    claim: Claim
    model: Model


@dataclass(frozen=True, slots=True)
class _Dialect:
    read: Callable[[Sections], Program]
    model: Callable[[], Model]


_DIALECTS: Mapping[str, _Dialect] = {
    "HETIR": _Dialect(hetir.program, IrModel),
    "PTX": _Dialect(ptx.program, PtxModel),
    "VULKAN": _Dialect(vulkan.program, VulkanModel),
    "OPENCL": _Dialect(opencl.program, OpenClModel),
}


def parse(text: str, file: str = "<litmus>") -> Litmus:
    """Read litmus text; raise LitmusError with the reason and the place where it cannot be read."""
    try:
        return _parse(text)
    except LitmusError as error:
        raise _placed(error, text, file) from None


def _placed(error: LitmusError, text: str, file: str) -> LitmusError:
    """The error with a label: at the words that it quotes last, else at the first line."""
    bare = blank(text)
    quoted = re.findall(r"`([^`]+)`", error.message)
    words = quoted[-1] if quoted and error.at < 0 else ""
    found = re.search(rf"(?<!\w){re.escape(words)}(?!\w)", bare) if words else None
    start = error.at if error.at >= 0 else found.start() if found else 0
    line = text.count("\n", 0, start) + 1
    column = start - (text.rfind("\n", 0, start) + 1)
    whole = text.split("\n")[line - 1]
    end = column + len(words.split("\n")[0]) if found else len(whole)
    # the text need not be on disk
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    label = Label(Loc(file, line, column, line, end), "")
    return LitmusError(error.message, label, hint=error.hint)


def _parse(text: str) -> Litmus:
    sections = split(text)
    dialect = _DIALECTS.get(sections.arch)
    if dialect is None:
        known = ", ".join(_DIALECTS)
        raise LitmusError(f"`{sections.arch}` is not one of {known}")
    program = dialect.read(sections)
    names = frozenset(location.name for location in program.locations)
    try:
        claim = parse_claim(sections.claim, names)
    except ValueError as error:
        at = sections.code_at + len(sections.code)
        at += len(text[at:]) - len(text[at:].lstrip())
        raise LitmusError(str(error), at=at) from None
    return Litmus(program=program, claim=claim, model=dialect.model())


def read(path: Path) -> Litmus:
    """Read a litmus file; raise LitmusError where there is none or it cannot be read."""
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise LitmusError(
            f"cannot read {path}: {error}", hint="give the path of a litmus file"
        ) from None
