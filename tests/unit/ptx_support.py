"""Runs kernels compiled to PTX on the emulator, and packs PTX into few modules for ptxas."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hetir.artifact import Artifact
from hetir.backends.ptx import compile_kernel
from hetir.backends.ptx.assembler import find
from hetir.emulator.ptx import Machine, Memory, parse
from hetir.ir.core import Kernel
from hetir.runtime.drivers.grids import dynamic_shared_bytes, launch_parameter, pieces
from hetir.runtime.hostmemory import host_bytes
from hetir.runtime.layout import bounds
from hetir.target import Assumptions
from tests.unit.cpu_support import Run, pack

CHIPS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
MOST = (2**31 - 1, 65535, 65535)
PTXAS = str(find("ptxas"))  # of the test extra


def memory_of(arrays: Iterable[np.ndarray[Any, Any]]) -> Memory:
    """The words that hold the arrays, at their host addresses; nothing else can be reached."""
    spans: list[list[int]] = []
    found = (bounds(a.ctypes.data, a.shape, a.strides, a.itemsize) for a in arrays if a.size)
    # an atomic on a byte works on its word
    for low, high in sorted((low, -(-high // 4) * 4) for low, high in found):
        if spans and low < spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], high)
        else:
            spans.append([low, high])
    memory = Memory()
    for low, high in spans:
        memory.add(host_bytes(low, high - low), f"{low:#x}", address=low)
    return memory


def launch(
    artifact: Artifact,
    arguments: Sequence[Any],
    grid: tuple[int, int, int],
    workgroup: tuple[int, int, int],
    *,
    records: np.ndarray[Any, Any] | None = None,
    most: tuple[int, int, int] = MOST,
    **checks: Any,
) -> None:
    """Run a whole grid of an artifact on the emulator; no instruction may be left to be fused."""
    block = pack(artifact, arguments).tobytes()
    arrays = [a for a in arguments if isinstance(a, np.ndarray) and a.ndim]
    arrays += [a for a in arguments if isinstance(a, np.ndarray) and not a.ndim]
    memory = memory_of([*arrays, *([records] if records is not None else [])])
    address = 0 if records is None else records.ctypes.data
    word = np.zeros(64, np.uint8)
    if artifact.cooperative:
        memory.add(word, "arrivals", address=int(word.ctypes.data))
        checks = {**checks, "cooperative": True}
    arrivals = word.ctypes.data if artifact.cooperative else 0
    machine, shared = Machine(parse(artifact.text)), dynamic_shared_bytes(artifact)
    for first, extents in pieces(grid, most):
        params = block + launch_parameter(grid, first, workgroup, address, arrivals)
        report = machine.launch(
            artifact.entry, extents, workgroup, params, shared, memory, **checks
        )
        assert report.contractible == ()
        assert report.approximate == ()
        assert report.races == ()


def run(
    kernel: Kernel,
    arguments: Sequence[Any],
    grid: tuple[int, int, int],
    workgroup: tuple[int, int, int],
    folder: Path | None = None,
    *,
    target: str = "ptx:sm_90",
    records: int = 0,
    fixed: bool = False,
    checks: dict[str, Any] | None = None,
    **options: Any,
) -> Run:
    """As `cpu_support.run`: compile, run the whole grid on the emulator.

    `fixed` compiles for this workgroup only; `checks` are the emulator's.
    """
    del folder
    if fixed:
        options["workgroup"] = workgroup
    if options.pop("disjoint", False):
        options["assumptions"] = Assumptions(disjoint=True)
    artifact = compile_kernel(kernel, target=target, binary=False, **options)
    buffer = np.zeros(16 + records, np.uint8)
    buffer[:8] = np.array([records], np.uint64).view(np.uint8)
    launch(
        artifact, arguments, grid, workgroup, records=buffer if records else None, **checks or {}
    )
    if not records:
        buffer[:] = 0
    return Run(buffer.tobytes(), artifact)


def promised(
    kernel: Kernel, arguments: Sequence[Any], *, disjoint: bool, copied: bool = False
) -> Assumptions:
    """All that holds of a launch on small arrays; whether they are disjoint is the caller's.

    Of arrays that are `copied` to a device only the strides count.
    """
    aligned: list[bool] = []
    for argument in arguments:
        array = np.asarray(argument)
        last = array.ndim and array.strides[-1] == array.itemsize
        steps = [0 if copied else array.ctypes.data, *array.strides[: -1 if last else None]]
        is_array = isinstance(argument, np.ndarray)
        aligned.append(is_array and all(step % 16 == 0 for step in steps))
    assert len(kernel.params) == len(aligned)
    return Assumptions(index_bits=32, disjoint=disjoint, aligned=tuple(aligned))


def merged(texts: Sequence[str], chip: str) -> str:
    """Many modules as one; the names in the n-th one end with its number."""
    version, bodies = "0", []
    for number, text in enumerate(texts):
        (found,) = re.findall(r"^\.version (\S+)$", text, re.MULTILINE)
        version = max(version, found, key=lambda v: tuple(map(int, v.split("."))))
        body = text.split(".address_size 64")[1]
        for name in set(re.findall(r"(?:\.entry|\.func(?: *\([^)]*\))?)\s+([\w$]+)", body)):
            body = re.sub(rf"(?<![\w$]){re.escape(name)}(?![\w$])", f"{name}_{number}", body)
            body = body.replace(f"{name}_param", f"{name}_{number}_param")
        bodies.append(re.sub(r"(?<![\w$])(hetir_shared)\b", rf"\1_{number}", body))
    return f".version {version}\n.target {chip}\n.address_size 64\n" + "\n".join(bodies)


def assemble_together(texts: Sequence[str], chip: str) -> str:
    """What ptxas says with -v to many modules as one: a start costs more than a kernel."""
    whole = merged(texts, chip)
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(whole)
        file.flush()
        command = [str(PTXAS), "-arch", chip, "-v", "-o", "/dev/null", file.name]
        done = subprocess.run(command, text=True, capture_output=True, check=False)
    log = done.stdout + done.stderr
    assert done.returncode == 0, log[:3000]
    return log
