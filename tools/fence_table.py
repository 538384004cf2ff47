"""Writes docs/fences-table.md: instructions that wait for memory, beside a mapping by fences.

    python -m tools.fence_table > docs/fences-table.md

`MEMBAR` and `CCTL.IVALL` are counted in the machine code for sm_90, full barriers in the assembly
for x86-64 and `dmb` in that for AArch64, all in the text of the code: what a loop runs counts once.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hetir import compiler, library
from hetir.backends import cpu, ptx
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, walk
from hetir.passes.fences import ACQUIRES, ATOMICS, RELEASES, placed
from hetir.passes.simplify import simplify

COUNTED = {
    "MEMBAR": ("ptx:sm_90", re.compile(r"\bMEMBAR\b")),
    "CCTL.IVALL": ("ptx:sm_90", re.compile(r"\bCCTL\.IVALL\b")),
    "x86 full barriers": ("cpu:x86-64-v3", re.compile(r"\bmfence\b|\block\s+or|\bxchg[bwlq]\b")),
    "dmb": ("cpu:aarch64:neoverse-n1", re.compile(r"\bdmb\b")),
}
HEAD = """# What orders cost

Written by `python -m tools.fence_table`. Instructions that wait for memory in the code of each kernel that orders any, as it is compiled and, after the bar, by the naive mapping: a full fence before each access that releases and after each that acquires, every fence a full one, nothing removed. A kernel of kernels/ that is not listed has none either way. What a loop runs counts once; copies that LLVM makes of a loop's body count each; x86's exchange is a full barrier wherever it stands.

"""  # noqa: E501


def naive(kernel: Kernel) -> Kernel:
    """The kernel with full fences around relaxed accesses."""

    def region(old: Region) -> Region:
        return Region(old.args, tuple(new for op in old.body for new in around(op)))

    def around(op: Operation) -> Iterator[Operation]:
        order = op.attrs.get("order", "relaxed")
        full = Operation(
            ops.FENCE, attrs={"order": "seq_cst", "scope": op.attrs.get("scope", "")}, loc=op.loc
        )
        if op.spec is ops.FENCE:
            yield full
        elif op.spec in ATOMICS and order != "relaxed":
            if order in RELEASES:
                yield full
            yield replace(op, attrs={**op.attrs, "order": "relaxed"})
            if order in ACQUIRES:
                yield replace(full)
        else:
            yield replace(op, regions=tuple(map(region, op.regions))) if op.regions else op

    return replace(kernel, body=region(kernel.body))


def counts(kernel: Kernel) -> dict[str, int]:
    """How many of each instruction the code of a kernel has."""
    texts: dict[str, str] = {}
    for target in dict.fromkeys(target for target, _ in COUNTED.values()):
        if target.startswith("ptx"):
            texts[target] = ptx.sass(ptx.compile_kernel(kernel, target=target))
        else:
            made = cpu.compile_kernel(kernel, target=target, optimise=1, workgroup=(1, 1, 1))
            texts[target] = cpu.disassemble(made)
    return {name: len(found.findall(texts[target])) for name, (target, found) in COUNTED.items()}


def compared(kernel: Any, arguments: tuple[Any, ...]) -> dict[str, tuple[int, int]] | None:
    """What hetir and the naive mapping emit, or None for a kernel that orders nothing."""
    traced = compiler.prepare(compiler.record(kernel, kernel.specialise(arguments)).module)
    simple = simplify(traced)
    if all(op.attrs.get("order", "relaxed") == "relaxed" for op in walk(simple.body)):
        return None
    ours, theirs = counts(placed(simple)[0]), counts(naive(simple))
    return {name: (ours[name], theirs[name]) for name in COUNTED}


def kernels() -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """Every kernel of kernels/ and kernels/sync with arguments of its types."""
    seen: set[str] = set()
    for name in library.NAMES:
        case = library.case(name, size=library.SMALL[name])
        yield from _new(name, ((s.kernel, s.arguments) for s in case.steps), seen)
    for name in library.SYNC:
        case = library.scenario(name).case(np.random.default_rng(0))
        yield from _new(f"sync/{name}", ((s.kernel, s.arguments) for s in case.steps), seen)


def _new(name: str, found: Any, seen: set[str]) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    for kernel, arguments in found:
        shown = f"{name}:{kernel.name}"
        if shown not in seen:
            seen.add(shown)
            yield shown, kernel, arguments


def main() -> None:
    """Print the page."""
    lines = [f"| kernel | {' | '.join(COUNTED)} |", "|---|" + "---|" * len(COUNTED)]
    total: Mapping[str, tuple[int, int]] = dict.fromkeys(COUNTED, (0, 0))
    for shown, kernel, arguments in kernels():
        found = compared(kernel, arguments)
        if found is None:
            continue
        lines.append(_row(shown, found))
        total = {n: (total[n][0] + a, total[n][1] + b) for n, (a, b) in found.items()}
    lines.append(_row("all", total))
    sys.stdout.write(HEAD + "\n".join(lines) + "\n")


def _row(shown: str, found: Mapping[str, tuple[int, int]]) -> str:
    return f"| {shown} | " + " | ".join(f"{a} / {b}" for a, b in found.values()) + " |"


if __name__ == "__main__":
    main()
