"""SPIR-V's grammar: opcodes, operands and what each needs, from Khronos' own tables.

`grammar.json` is written by tools/spirv_grammar.py and committed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

MAGIC = 0x07230203
Version = tuple[int, int]


class Row(NamedTuple):
    """An instruction or an enumerant: its number, the kinds of its operands, what it needs.

    One of `capabilities` must be declared. One of `extensions` must be, too, in modules older
    than `version`; None stands for never in a version.
    """

    number: int
    operands: tuple[str, ...]
    capabilities: tuple[str, ...]
    extensions: tuple[str, ...]
    version: Version | None


class Grammar(NamedTuple):
    """The tables by name, and those that a disassembler needs by number."""

    instructions: Mapping[str, Row]
    enums: Mapping[str, Mapping[str, Row]]
    masks: frozenset[str]
    composites: Mapping[str, tuple[str, ...]]
    extended: Mapping[str, Mapping[str, int]]
    opcodes: Mapping[int, str]


@cache
def grammar() -> Grammar:
    """The grammar, read once a process."""
    path = Path(__file__).with_name("grammar.json")
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    instructions = {name: _row(row) for name, row in document["instructions"].items()}
    return Grammar(
        instructions=instructions,
        enums={
            kind: {name: _row(row) for name, row in rows.items()}
            for kind, rows in document["enums"].items()
        },
        masks=frozenset(document["masks"]),
        composites={kind: tuple(bases) for kind, bases in document["composites"].items()},
        extended=document["extended"],
        opcodes={row.number: name for name, row in instructions.items()},
    )


def _row(row: list[Any]) -> Row:
    number, operands, capabilities, extensions, version = row
    return Row(number, tuple(operands), tuple(capabilities), tuple(extensions), _version(version))


def _version(text: str) -> Version | None:
    if text == "None":
        return None
    major, _, minor = text.partition(".")
    return int(major), int(minor)
