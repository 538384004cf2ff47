"""What LLVM's register allocation of a kernel needs of the stack, read from its assembly."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hetir.artifact import Artifact
from hetir.backends.cpu.targets import resolve
from hetir.backends.llvm.machine import compile_ir

_SPILL = re.compile(r"(\d+)-byte (?:Folded )?Spill")
_X86 = re.compile(r"^\s+subq\s+\$(\d+), %rsp", re.MULTILINE)
_ARM = re.compile(r"^\s+sub\s+sp, sp, #(\d+)(?:, lsl #(\d+))?", re.MULTILINE)
_ARM_PUSH = re.compile(r"\[sp, #-(\d+)\]!")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Bytes of the frame that the code takes, and bytes that its spills store, each counted once.

    The frame holds private arrays and spilled values; registers saved for the caller by single
    pushes are not in it.
    """

    frame_bytes: int
    spill_bytes: int


def stack(artifact: Artifact) -> Stack:
    """The figures of a CPU artifact; its code is generated once more."""
    machine = resolve(artifact.target)[1]
    made = compile_ir(artifact.text, machine, level=3, assembly=True, optimised=True, comments=True)
    return read(made.assembly or "")


def read(assembly: str) -> Stack:
    """The figures of assembly that LLVM commented, for x86-64 or AArch64."""
    frames = [int(size) for size in _X86.findall(assembly)]
    frames.append(
        sum(int(size) << int(shift or 0) for size, shift in _ARM.findall(assembly))
        + sum(map(int, _ARM_PUSH.findall(assembly)))
    )
    return Stack(frame_bytes=max(frames), spill_bytes=sum(map(int, _SPILL.findall(assembly))))
