"""Runs kernels compiled to SPIR-V on this machine's OpenCL and Vulkan devices, where it has any."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from hetir import runtime
from hetir.backends.spirv import compile_kernel
from hetir.backends.spirv.targets import NAMES
from hetir.ir.core import Kernel
from hetir.runtime.drivers.vulkan import VulkanDriver
from tests.unit.cpu_support import Run

Dims = tuple[int, int, int]


@cache
def device_of(target: str) -> runtime.Device | None:
    """The first device that runs a target; its warning about long loops is spent."""
    found = next((d for d in runtime.devices() if d.can_run(target)), None)
    if found is not None and isinstance(found.driver, VulkanDriver):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.driver.warn_of_loops()
    return found


def _param(target: str) -> Any:
    missing = device_of(target) is None
    return pytest.param(target, marks=pytest.mark.skipif(missing, reason=f"no device for {target}"))


HERE = [_param(target) for target in NAMES]
"""Both targets; those that no device here runs are skipped."""


def run(
    kernel: Kernel,
    arguments: Sequence[Any],
    grid: Dims,
    workgroup: Dims,
    folder: object = None,
    *,
    target: str,
    records: int = 0,
    fixed: bool = False,
    **_: object,
) -> Run:
    """Compile and launch; the workgroup's size is compiled in when `fixed`."""
    del folder
    artifact = compile_kernel(kernel, target=target, workgroup=workgroup if fixed else None)
    device = device_of(target)
    assert device is not None
    program = device.load(artifact, [f"argument {i}" for i in range(len(arguments))])
    seen: list[bytes] = []
    room = runtime.Records(size=16 + records, finish=seen.append) if records else None
    values = [a[()] if isinstance(a, np.ndarray) and not a.ndim else a for a in arguments]
    program.launch(values, grid=grid, workgroup=workgroup, records=room).wait()
    return Run(_sorted(seen[0]) if seen else bytes(16), artifact)


def _sorted(data: bytes) -> bytes:
    """The records by work-item: those of unlike ones come in any order."""
    capacity, used = struct.unpack_from("<QQ", data)
    found, at = [], 16
    while at < 16 + min(used, capacity) and at + 24 <= len(data):
        (size,) = struct.unpack_from("<I", data, at)
        found.append(data[at : at + size])
        at += size
    found.sort(key=lambda record: struct.unpack_from("<qq", record, 8))
    rest = bytes(len(data) - at)  # devices give memory as they find it
    return data[:16] + b"".join(found) + rest
