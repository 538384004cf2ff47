"""AArch64 objects run under an emulator, where the machine has one: the same bits.

Needs Debian's qemu-user-static and gcc-aarch64-linux-gnu.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetir.artifact import Artifact
from hetir.backends.cpu import compile_kernel
from tests.unit.cpu_support import pack
from tests.unit.test_cpu_memory import check_updates
from tests.unit.test_cpu_ops import GROUPS, check

QEMU, GCC = shutil.which("qemu-aarch64-static"), shutil.which("aarch64-linux-gnu-gcc")
DRIVER = Path(__file__).with_name("aarch64_driver.c")

pytestmark = pytest.mark.skipif(
    not (QEMU and GCC), reason="needs qemu-aarch64-static and aarch64-linux-gnu-gcc"
)


def emulate(artifact: Artifact, arguments: list[Any], grid: Any, workgroup: Any, to: Path) -> None:
    """Run the whole grid; arrays are written in place."""
    assert artifact.binary is not None
    (to / "k.o").write_bytes(artifact.binary)
    program = str(to / "k")
    command = [GCC, "-static", "-O1", f"-DENTRY={artifact.entry}", DRIVER, to / "k.o", "-lm"]
    subprocess.run([*map(str, command), "-o", program], check=True)
    slots = [s for s in artifact.layout.slots if s.ndim is not None]
    arrays = [a for s, a in zip(artifact.layout.slots, arguments, strict=True) if s in slots]
    items, groups = int(np.prod(workgroup)), int(np.prod(grid))
    shared = -(-artifact.resources.shared_bytes // 64) * 64
    scratch = shared + artifact.resources.item_bytes * items + 64
    block = pack(artifact, arguments)
    job = np.array([len(block), len(arrays), scratch, 0, groups, *grid, *workgroup], np.int64)
    parts = [job.tobytes(), block.tobytes()]
    for slot, array in zip(slots, arrays, strict=True):
        assert array.flags.c_contiguous
        parts += [np.array([slot.offset, 0, array.nbytes], np.int64).tobytes(), array.tobytes()]
    done = subprocess.run(
        [str(QEMU), program], input=b"".join(parts), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    at = 0
    for array in arrays:
        raw = np.frombuffer(done.stdout[at : at + array.nbytes], array.dtype)
        at += array.nbytes
        if array.flags.writeable:
            array[...] = raw.reshape(array.shape)


@pytest.mark.slow
@pytest.mark.parametrize("key", GROUPS)
def test_pure_ops(key: str, tmp_path: Path) -> None:
    check(GROUPS[key], tmp_path, runner=on_arm)


def on_arm(
    kernel: Any, args: list[Any], grid: Any, workgroup: Any, folder: Path, **options: Any
) -> None:
    artifact = compile_kernel(kernel, target="cpu:aarch64", **options)
    emulate(artifact, args, grid, workgroup, folder)


@pytest.mark.slow
@pytest.mark.parametrize("element", ["i8", "u16", "i32", "u64", "f16", "bf16", "f32", "f64"])
def test_read_modify_writes(element: str, tmp_path: Path) -> None:
    check_updates(element, "global", lambda *args: on_arm(*args, tmp_path, optimise=1))
