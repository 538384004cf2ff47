"""What LLVM's register allocation of a kernel spills, read from its assembly."""

from __future__ import annotations

import re
from dataclasses import replace

from hetir.artifact import Artifact
from hetir.backends.cpu.targets import resolve
from hetir.backends.llvm.machine import compile_ir, version

_SPILL = re.compile(r"(\d+)-byte (?:Folded )?Spill")


def counted(artifact: Artifact) -> Artifact:
    """A CPU artifact with the bytes that its code spills; the code is generated once more."""
    machine = resolve(artifact.target)[1]
    made = compile_ir(artifact.text, machine, level=3, assembly=True, optimised=True, comments=True)
    figures = replace(
        artifact.resources,
        spill_bytes=spilled(made.assembly or ""),
        source=f"LLVM {version()}'s register allocation",
    )
    return replace(artifact, resources=figures)


def spilled(assembly: str) -> int:
    """Bytes that the spills in assembly with LLVM's comments store, each counted once."""
    return sum(map(int, _SPILL.findall(assembly)))
