"""Runs compiled kernels in tests: links the object with the system compiler, calls it."""

from __future__ import annotations

import ctypes
import itertools
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hetir.artifact import Artifact
from hetir.backends.cpu import compile_kernel
from hetir.backends.llvm.machine import binding
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import NO_ATTRS, Attr, Kernel, Options, Param, Value
from hetir.ir.text import parse_kernel
from hetir.ir.types import Scalar, Type, array
from hetir.testing import on_cpu

_COUNT = itertools.count()


class _Launch(ctypes.Structure):
    _fields_ = (
        ("num_groups", ctypes.c_int64 * 3),
        ("group_size", ctypes.c_int64 * 3),
        ("records", ctypes.c_void_p),
        ("stop", ctypes.c_void_p),
    )


@dataclass
class Run:
    """What a launch left besides its arrays."""

    records: bytes
    artifact: Artifact


def kernel_of(
    build: Callable[..., None], types: Sequence[Type], *, name: str = "k", **options: Any
) -> Kernel:
    """A kernel from a function that gets a builder and the parameters."""
    values = [Value(t, f"p{i}") for i, t in enumerate(types)]
    builder = Builder()
    build(builder, *values)
    builder.emit(ops.RETURN)
    params = tuple(Param(v, (i,)) for i, v in enumerate(values))
    return Kernel(name=name, params=params, body=builder.region(), options=Options(**options))


def elementwise(
    spec: ops.Spec, sources: Sequence[Scalar], to: Scalar, attrs: Mapping[str, Attr] = NO_ATTRS
) -> Kernel:
    """out[i] = op(in0[i], ...), for one workgroup along x."""

    def build(b: Builder, *arrays: Value) -> None:
        i = b.value(ops.GLOBAL_ID, axis=0)
        args = [b.value(ops.LOAD, a, i) for a in arrays[:-1]]
        b.emit(ops.STORE, arrays[-1], i, b.emit(spec, *args, attrs=attrs).result)

    return kernel_of(build, [array(t, 1) for t in (*sources, to)])


def link(artifact: Artifact, folder: Path) -> Callable[..., None]:
    """The entry point of an object for this machine; nothing but libc and libm is linked."""
    assert artifact.binary is not None
    stem = folder / f"k{next(_COUNT)}"
    stem.with_suffix(".o").write_bytes(artifact.binary)
    command = ["gcc", "-shared", "-o", f"{stem}.so", f"{stem}.o", "-lm", "-Wl,-z,defs", "-nostdlib"]
    subprocess.run([*command, "-lc"], check=True, capture_output=True)
    return ctypes.CDLL(f"{stem}.so")[artifact.entry]


def jit(artifact: Artifact) -> Callable[..., None]:
    """The entry point through LLVM's own loader, which is quicker than a linker."""
    llvm = binding()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(artifact.binary))
    engine.finalize_object()
    address = engine.get_function_address(artifact.entry)
    entry = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)(address)
    entry.engine = engine
    return entry


def pack(artifact: Artifact, arguments: Sequence[Any]) -> Any:
    """The argument block."""
    block = np.zeros(artifact.layout.size, np.uint8)
    for slot, value in zip(artifact.layout.slots, arguments, strict=True):
        if slot.ndim is None:
            raw = np.atleast_1d(value).view(np.uint8)
        else:
            numbers = [value.ctypes.data, *value.shape, *value.strides]
            raw = np.array(numbers, np.int64).view(np.uint8)
        block[slot.offset : slot.offset + len(raw)] = raw
    return block


def enter(
    artifact: Artifact,
    arguments: Sequence[Any],
    grid: tuple[int, int, int],
    workgroup: tuple[int, int, int],
    *,
    records: np.ndarray[Any, Any] | None = None,
    folder: Path | None = None,
) -> Callable[[int, int], None]:
    """A function that runs workgroups [first, last), each call with scratch of its own."""
    entry = link(artifact, folder) if folder else jit(artifact)
    block = pack(artifact, arguments)
    shared = -(-artifact.resources.shared_bytes // 64) * 64
    size = shared + artifact.resources.item_bytes * int(np.prod(workgroup))
    address = None if records is None else records.ctypes.data
    launch = _Launch(grid, workgroup, address, None)

    def go(first: int, last: int) -> None:
        guard = np.full(size + 128 + 64, 0xA5, np.uint8)
        start = -guard.ctypes.data % 64 + 64
        entry(
            ctypes.c_void_p(block.ctypes.data),
            ctypes.byref(launch),
            ctypes.c_void_p(guard.ctypes.data + start),
            ctypes.c_int64(first),
            ctypes.c_int64(last),
        )
        assert (guard[:start] == 0xA5).all(), "scratch underrun"
        assert (guard[start + size :] == 0xA5).all(), "scratch overrun"

    return go


def run(
    kernel: Kernel,
    arguments: Sequence[Any],
    grid: tuple[int, int, int],
    workgroup: tuple[int, int, int],
    folder: Path | None = None,
    *,
    pieces: int = 1,
    records: int = 0,
    **options: Any,
) -> Run:
    """Compile for this machine and run the whole grid, in `pieces` calls of the entry.

    With a folder the object is linked there by the system's linker.
    """
    artifact = compile_kernel(kernel, **options)
    buffer = np.zeros(16 + records, np.uint8)
    buffer[:8] = np.array([records], np.uint64).view(np.uint8)
    go = enter(
        artifact, arguments, grid, workgroup, records=buffer if records else None, folder=folder
    )
    total = int(np.prod(grid))
    for piece in range(pieces):
        go(total * piece // pieces, total * (piece + 1) // pieces)
    if not records:
        buffer[:] = 0
    return Run(buffer.tobytes(), artifact)


def run_text(
    text: str,
    arguments: list[Any],
    workgroup: tuple[int, int, int],
    lanes: int | None,
    grid: tuple[int, int, int] = (1, 1, 1),
) -> None:
    """Run a kernel written as IR on vectors of so many work-items."""
    on_cpu(lanes=lanes)(parse_kernel(text), arguments, grid, workgroup)
