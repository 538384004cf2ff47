"""Runs kernels compiled to Ascend C on the shim, under hostile orders of the pipes."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetir import emulator
from hetir.backends.ascend import compile_kernel
from hetir.emulator import ascend as shim
from hetir.ir.core import Kernel
from hetir.ir.types import SCALARS
from hetir.passes.layout import layout_of
from hetir.target import Assumptions

Dims = tuple[int, int, int]
HEADER_BYTES = 48


@dataclass(frozen=True)
class Launch:
    """A kernel's arguments as the shim takes them."""

    block: bytes
    arrays: list[np.ndarray[Any, Any]]
    addresses: Mapping[int, int]


def launch_of(kernel: Kernel, slots: Sequence[Any], grid: Dims, workgroup: Dims) -> Launch:
    """The launch block and the arrays; `slots` has a value for each slot of the layout."""
    layout = layout_of(kernel)
    block, arrays, addresses = bytearray(layout.size), [], {}
    for slot, value in zip(layout.slots, slots, strict=True):
        if slot.ndim is None:
            raw = np.asarray(value).astype(SCALARS[slot.dtype].numpy).tobytes()
            block[slot.offset : slot.offset + len(raw)] = raw
            continue
        addresses[HEADER_BYTES + slot.offset] = len(arrays)
        numbers = (*value.shape, *value.strides)
        struct.pack_into(f"<{len(numbers)}q", block, slot.offset + 8, *numbers)
        arrays.append(value)
    shape = shim.Shape(grid=grid, workgroup=workgroup)
    return Launch(shim.launch_block(shape, bytes(block)), arrays, addresses)


def run(
    kernel: Kernel,
    arguments: Sequence[Any],
    grid: Dims,
    workgroup: Dims,
    folder: object = None,
    *,
    target: str = "ascend:910b",
    order: str | int = 0,
    blocks: int = 3,
    source: str = "",
    disjoint: bool = True,
) -> shim.Report:
    """Compile for the workgroup and launch; the arrays are changed in place."""
    del folder
    promised = Assumptions(disjoint=disjoint)
    text = (
        source
        or compile_kernel(kernel, target=target, workgroup=workgroup, assumptions=promised).text
    )
    launch = launch_of(kernel, arguments, grid, workgroup)
    report = shim.run(
        text,
        arch=target,
        arrays=launch.arrays,
        launch_block=launch.block,
        blocks=blocks,
        order=order,
        addresses=launch.addresses,
        align=8,
        seconds=120,
    )
    return report.raise_faults()


def copied(slots: Sequence[Any]) -> list[Any]:
    """Arguments of their own for one run."""
    return [v.copy() if isinstance(v, np.ndarray) else v for v in slots]


def evaluated(kernel: Kernel, slots: Sequence[Any], grid: Dims, workgroup: Dims) -> list[Any]:
    """What the evaluator leaves in the arguments."""
    made = copied(slots)
    emulator.run(kernel, made, grid, workgroup, checks=False)
    return made


def same_bits(got: Sequence[Any], want: Sequence[Any]) -> None:
    """Equal bits in every array; NaNs compare equal."""
    for a, b in zip(got, want, strict=True):
        if isinstance(a, np.ndarray) and a.size:
            raw = np.dtype(f"u{a.dtype.itemsize}")
            x, y = (np.ascontiguousarray(v).view(raw) for v in (a, b))
            equal = x == y
            if a.dtype.kind not in "iub":
                with np.errstate(all="ignore"):
                    equal |= (a != a) & (b != b)
            assert equal.all(), (np.argwhere(~equal)[:5].tolist(), a[~equal][:5], b[~equal][:5])


def together(sources: Sequence[str]) -> str:
    """Many files as one: their directives once, the rest of each in a namespace of its own."""
    heads = dict.fromkeys(
        line for text in sources for line in text.splitlines() if line.startswith(("#", "using "))
    )
    parts = list(heads)
    for number, text in enumerate(sources):
        rest = "\n".join(line for line in text.splitlines() if line not in heads)
        # functions with C linkage are the same in all namespaces
        rest = re.sub(r"\bhetir_(?=\w+\()", f"hetir_{number}_", rest)
        parts.append(f"namespace kernel_{number} {{\n{rest}\n}}")
    return "\n".join([*parts, ""])
