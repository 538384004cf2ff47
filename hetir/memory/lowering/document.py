"""The lowering table as Markdown: `python -m hetir.memory.lowering.document > FILE`."""

from __future__ import annotations

from collections.abc import Iterator

from hetir.memory.lowering import TABLE, TARGETS, Kind, Row
from hetir.memory.program import Order, Scope

HEAD = """# What each memory operation becomes

Written by `python -m hetir.memory.lowering.document` from the table in `hetir/memory/lowering`:
change the table, not this page. [memory-model.md](memory-model.md) says what it must preserve and
how that is checked. The rows are those of device scope; another scope changes the scope's name
(PTX `.cta`, `.gpu`, `.sys`; SPIR-V `Subgroup`, `Workgroup`, `Device`, `CrossDevice`) and what the
notes say.
"""


def markdown() -> str:
    """Return the page: a table a target at device scope, and what its notes say."""
    tables = "\n".join(line for target in TARGETS for line in _target(target))
    return f"{HEAD}\n{tables.rstrip()}\n"


def _target(target: str) -> Iterator[str]:
    yield f"## {target}"
    yield ""
    yield "| operation | order | emitted |"
    yield "|---|---|---|"
    for kind in Kind:
        for order in (None, *Order):
            row = TABLE.get((target, kind, order, Scope.DEVICE))
            if row is not None and kind is not Kind.BARRIER and not _never(row):
                yield f"| {kind} | {order or 'plain'} | {_shown(row)} |"
    for scope in (Scope.SUBGROUP, Scope.WORKGROUP, Scope.DEVICE):
        row = TABLE[target, Kind.BARRIER, Order.ACQ_REL, scope]
        yield f"| {scope} barrier | | {_shown(row)} |"
    yield ""
    notes = {row.note for key, row in TABLE.items() if key[0] == target and row.note}
    yield from (f"- {note[0].upper()}{note[1:]}." for note in sorted(notes))
    yield ""


def _never(row: Row) -> bool:
    """Whether no target has the operation: a load that releases or a store that acquires."""
    return row.refused.startswith(("a load cannot", "a store cannot"))


def _shown(row: Row) -> str:
    if row.refused:
        return f"refused: {row.refused}"
    steps = "; ".join(f"`{step.text}`" for step in row.steps) or "nothing"
    if row.unfenced:
        cheaper = "; ".join(f"`{step.text}`" for step in row.unfenced)
        return f"{steps}, or {cheaper} where no acquire fence follows".replace("|", "\\|")
    return steps.replace("|", "\\|")


if __name__ == "__main__":
    import sys

    sys.stdout.write(markdown())
