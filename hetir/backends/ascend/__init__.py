"""Ascend C: hetIR to source for Huawei's processors, as lanes of the Unified Buffer."""

from __future__ import annotations

import hashlib

from hetir.artifact import Artifact, Resources
from hetir.backends.ascend import build as host_side
from hetir.backends.ascend import simd, simt
from hetir.backends.ascend.simd import Workgroup, entry_of
from hetir.backends.ascend.targets import SIMD, resolve
from hetir.ir.core import Kernel
from hetir.passes.layout import layout_of
from hetir.target import Assumptions

__all__ = ["SIMD", "USES", "compile_kernel", "fingerprint"]

VERSION = 18  # of the code that this backend writes, part of every key

USES = frozenset({"disjoint"})
"""The promises of a launch that change the code."""


def fingerprint(target: str) -> str:
    """Part of the cache key."""
    return " ".join((resolve(target).fingerprint, str(VERSION), host_side.identity())).strip()


def compile_kernel(
    kernel: Kernel,
    *,
    target: str = "ascend:910b",
    workgroup: Workgroup | None = None,
    assumptions: Assumptions | None = None,
) -> Artifact:
    """Compile a kernel without calls to an Ascend C source file, and that where bisheng is.

    `workgroup` fixes the work-items a workgroup. Without it a kernel whose work-items work
    together is compiled for the artifact's own choice, and any other kernel for all sizes.
    """
    if target == simt.NAME:
        return _simt(kernel, workgroup)
    promised = assumptions or Assumptions()
    made = simd.build(kernel, target, workgroup, promised.disjoint)
    shaped = b"\0".join((fingerprint(target).encode(), made.text.encode()))
    return Artifact(
        kernel=kernel.name,
        target=target,
        entry=made.entry,
        text=made.text,
        binary=host_side.compiled(made.text, target),
        layout=layout_of(kernel),
        resources=Resources(shared_bytes=made.buffer_bytes, source="hetir's plan"),
        workgroup=made.workgroup,
        subgroup_size=kernel.options.width,
        key=hashlib.sha256(shaped).hexdigest(),
    )


def _simt(kernel: Kernel, workgroup: Workgroup | None) -> Artifact:
    """The artifact of a kernel for the SIMT generation."""
    made = simt.build(kernel, entry_of(kernel), workgroup)
    shaped = b"\0".join((fingerprint(simt.NAME).encode(), made.text.encode()))
    return Artifact(
        kernel=kernel.name,
        target=simt.NAME,
        entry=made.entry,
        text=made.text,
        binary=host_side.compiled(made.text, simt.NAME),
        layout=layout_of(kernel),
        resources=Resources(shared_bytes=made.shared_bytes, source="hetir's plan"),
        workgroup=workgroup,
        subgroup_size=kernel.options.width,
        key=hashlib.sha256(shaped).hexdigest(),
    )
