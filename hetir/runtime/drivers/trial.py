"""A trial of a device's arithmetic, for what its own answers do not promise.

A small kernel divides, takes square roots and sums products in order, subnormal numbers among
them; its results are IEEE's to the bit or the device is not reproducible. The modules are
written by tools/float_check.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hetir.artifact import Artifact, Layout, Resources, Slot
from hetir.runtime.driver import Driver, DriverError, Task

_COUNT, _ROUNDS = 512, 70_000
_ARRAYS = 5
_NAME = "float_check"
Lanes = np.ndarray[Any, Any]


def artifact(target: str, dtype: str) -> Artifact:
    """The kernel for a target, in f32 or f64."""
    file = f"{_NAME}.{target.partition(':')[2]}.{dtype}.spv"
    slots = tuple(
        Slot(offset=24 * i, source=(i,), dtype=dtype, ndim=1, reads=i < 2, writes=i >= 2)
        for i in range(_ARRAYS)
    )
    return Artifact(
        kernel=_NAME,
        target=target,
        entry=f"hetir_kernel_{_NAME}",
        text="",
        binary=Path(__file__).with_name(file).read_bytes(),
        layout=Layout(slots=slots, size=128),
        resources=Resources(),
    )


Load = Callable[[Artifact], Any]


def passes(driver: Driver, load: Load, target: str, dtype: str) -> bool:
    """Run the kernel, loaded by `load`, a work-item a workgroup, and compare."""
    operands, expected = _operands(dtype)
    try:
        found = _run(driver, load(artifact(target, dtype)), operands, len(operands[0]))
    except DriverError:
        return False
    return all(a.tobytes() == b.tobytes() for a, b in zip(found, expected, strict=True))


def loops_end_early(driver: Driver, load: Load, target: str) -> bool:
    """Whether a loop of 70,000 rounds does not get there."""
    ones = np.ones(_ROUNDS, np.float32)
    *_, total = _run(driver, load(artifact(target, "f32")), (ones, ones), 1)
    return total[0] != _ROUNDS


def _run(driver: Driver, program: Any, operands: tuple[Lanes, Lanes], groups: int) -> list[Lanes]:
    """Quotients, roots and totals of the first `groups` elements."""
    queue = driver.make_queue()
    first = operands[0]
    memories = [driver.allocate(first.nbytes) for _ in range(_ARRAYS)]
    try:
        for memory, operand in zip(memories, operands, strict=False):
            driver.write(queue, memory, 0, operand.view(np.uint8))
        words = [w for memory in memories for w in (memory.address, len(first), first.itemsize)]
        task = Task(
            program=program,
            grid=(groups, 1, 1),
            workgroup=(1, 1, 1),
            block=np.array([*words, 0], np.int64).tobytes(),
            memories=tuple(memories),
        )
        driver.launch(queue, task).wait()
        results = [np.empty(groups, first.dtype) for _ in memories[2:]]
        for memory, result in zip(memories[2:], results, strict=True):
            driver.read(queue, memory, 0, result.view(np.uint8))
        return results
    finally:
        for memory in memories:
            driver.free(memory)
        driver.free_queue(queue)


@cache
def _operands(dtype: str) -> tuple[tuple[Lanes, Lanes], tuple[Lanes, Lanes, Lanes]]:
    """Operands, subnormal ones among them, and the right results by NumPy."""
    kind = np.dtype({"f32": np.float32, "f64": np.float64}[dtype])
    least = np.finfo(kind).minexp
    random = np.random.default_rng(0)
    x, y = ((random.random(_COUNT) + 0.5).astype(kind) for _ in range(2))
    x[:128] = np.ldexp(x[:128], random.integers(least - 10, 2, 128)).astype(kind)
    y[:128] = np.ldexp(y[:128], random.integers(-10, 2, 128)).astype(kind)
    x[:8] = np.arange(1, 9, dtype=f"u{kind.itemsize}").view(kind)
    total = kind.type(0)
    for product in x * y:
        total += product
    return (x, y), (x / y, np.sqrt(x), np.full_like(x, total))
