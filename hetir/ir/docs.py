"""Writes docs/ops.md from the op table: `python -m hetir.ir.docs [PATH]`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from hetir.ir.ops import CLASSES, TABLE, Effect, Spec

_HEAD = """\
# The ops of hetIR

Written by `python -m hetir.ir.docs` from the table in `hetir/ir/ops.py`: change the table, not
this page. [ir.md](ir.md) says what the table cannot.

A signature reads "operands -> results". Every use of one letter is the same type:
"""

_TABLE_HEAD = """
`...` stands for what the op's rule says, `to` for the type that the attribute names. Effects:
*reads* and *writes* memory, *syncs* (waits for other work-items or exchanges values with them: is
never moved, removed or duplicated); an op without effects, that neither holds regions nor ends
one, is pure. Varying says how a result may differ between the work-items of a workgroup.

| op | signature | attributes | effects | varying | meaning |
|---|---|---|---|---|---|
"""


def ops_page() -> str:
    """The whole of docs/ops.md."""
    classes = "".join(f"- `{letter}`: {words}\n" for letter, (words, _) in CLASSES.items())
    return _HEAD + "\n" + classes + _TABLE_HEAD + "".join(map(_row, TABLE.values()))


def _row(spec: Spec) -> str:
    cells = (
        f"`{spec.name}`",
        f"`{spec.signature}`",
        "<br>".join(_attrs(spec)),
        ", ".join(_effects(spec)),
        spec.varying if spec.results else "",
        spec.doc + (" Commutative." if spec.commutative else ""),
    )
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _attrs(spec: Spec) -> Iterator[str]:
    for name, allowed in spec.attrs.items():
        values = allowed if isinstance(allowed, tuple) else (allowed.__name__,)
        yield f"`{name}`: {', '.join(values)}"


def _effects(spec: Spec) -> Iterator[str]:
    words = {Effect.READ: "reads", Effect.WRITE: "writes", Effect.SYNC: "syncs"}
    yield from (word for effect, word in words.items() if effect in spec.effect)
    if spec.regions:
        yield f"regions: {spec.regions}"
    if spec.terminator:
        yield "ends a region"


if __name__ == "__main__":
    Path(*sys.argv[1:2] or ["docs/ops.md"]).write_text(ops_page(), encoding="utf-8")
