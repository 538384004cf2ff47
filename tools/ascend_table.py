"""Writes the tables of docs/ascend.md: `python -m tools.ascend_table [--print]`.

For every kernel of the library on every SIMD target: instructions of the vector unit, hetIR ops
that run in lane loops of the scalar unit, bytes of the Unified Buffer, flags; or why it is
refused. Then every op and type that the targets refuse. With `--print` the page is left alone.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from hetir import compiler, library
from hetir.backends.ascend.simd import build
from hetir.backends.ascend.simd_program import instructions
from hetir.backends.ascend.targets import chip_of, resolve
from hetir.diagnostics import HetirError
from hetir.passes.simplify import simplify

PAGE = Path(__file__).parents[1] / "docs" / "ascend.md"
TARGETS = ("ascend:910b", "ascend:310p")
_START, _END = "<!-- tables of tools/ascend_table.py -->\n", "<!-- end of the tables -->\n"


def kernels() -> Iterator[tuple[str, compiler.Kernel, compiler.Dims]]:
    """Each kernel of the library once, as its case launches it."""
    seen: set[str] = set()
    for name in library.NAMES:
        for step in library.case(name, size=library.SMALL[name]).steps:
            if step.kernel.name in seen:
                continue
            seen.add(step.kernel.name)
            values = step.kernel.operands(step.arguments)
            traced = compiler.record(step.kernel, step.kernel.specialise(values))
            yield step.kernel.name, compiler.prepare(traced.module), compiler.dims(step.workgroup)


def row(kernel: compiler.Kernel, target: str, workgroup: compiler.Dims) -> str:
    """Four cells, or one with the reason."""
    try:
        made = build(simplify(kernel), target, workgroup, disjoint=True)
    except HetirError as error:
        return f"refused: {str(error).splitlines()[0].partition(': ')[2]} | | | "
    steps = list(instructions(made.program))
    vector = sum(i.pipe == "V" for i in steps)
    copies = sum(i.pipe in ("MTE2", "MTE3") for i in steps)
    syncs = Counter(
        "cache" if s.cache else "barrier" if s.source == s.target else "flag"
        for i in steps
        for s in i.syncs
    )
    flags = f"{syncs['flag']} + {syncs['barrier']} + {syncs['cache']}"
    room = chip_of(target).buffer_bytes
    return f"{vector} + {copies} | {made.scalar_ops} | {made.buffer_bytes:,} of {room:,} | {flags}"


def library_table(target: str) -> Iterator[str]:
    """A target's kernels."""
    yield f"### {target}\n"
    counted = "vector + copy instructions | ops in lane loops | buffer bytes"
    yield f"| kernel | {counted} | flags + barriers + cache |"
    yield "|---|---|---|---|---|"
    for name, kernel, workgroup in kernels():
        yield f"| {name} | {row(kernel, target, workgroup)} |"
    yield ""


def refusal_table(target: str) -> Iterator[str]:
    """What the table of ops refuses, joined by reason."""
    reasons: dict[str, list[str]] = {}
    for key, sentence in resolve(target).unsupported.items():
        plain = "no f64 unit: only its bits are moved" if "no f64 unit" in sentence else sentence
        reasons.setdefault(plain, []).append(" ".join(key))
    yield f"| refused on {target} | why |"
    yield "|---|---|"
    for sentence, keys in reasons.items():
        names = sorted({k.split()[0] for k in keys})
        shown = ", ".join(f"`{n}`" for n in names)
        where = f"{shown} (of `f64`)" if "f64" in sentence else shown
        yield f"| {where} | {sentence} |"
    yield ""


def tables() -> str:
    """The generated part of the page."""
    lines: list[str] = []
    for target in TARGETS:
        lines += library_table(target)
    lines += refusal_table(TARGETS[0])
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with the tables between its marks."""
    before, _, rest = text.partition(_START)
    _, _, after = rest.partition(_END)
    return f"{before}{_START}\n{tables()}\n{_END}{after}"


def main() -> int:
    """Write or print."""
    if sys.argv[1:] == ["--print"]:
        print(tables())
        return 0
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
