"""Compiled kernels as the device driver runs them: over its own memory, by its own addresses."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence

from hetir.emulator.ascend.build import ShimBuildError, library
from hetir.emulator.ascend.run import (
    CORES,
    Job,
    Map,
    Place,
    Shape,
    arch_number,
    has_kernel,
    launch_bounds,
    order_words,
    run_in_place,
)

ORDER_VARIABLE = "HETIR_ASCEND_SHIM_ORDER"
"""The environment variable that chooses the order of launches on the device."""

_SECONDS = 86400.0
Dims = tuple[int, int, int]
Stretch = tuple[int, int, int, bool, str]
"""Address, size, the size of an element, whether it may be written, and a name."""


def prepare(source: str, entry: str, target: str) -> Callable[..., None]:
    """A kernel of a source for a target such as `ascend:910b`, ready to run.

    The function takes what is mapped, what of it the kernel may touch, the kernel's parameters,
    grid and workgroup, and when to stop. It raises ShimFaultError.

    Raises:
        ShimBuildError: the compiler refused the source.
    """
    arch = arch_number(target)
    if not has_kernel(source, entry):
        raise ShimBuildError(f"the source has no kernel `{entry}`")
    built = library(source, arch=arch)
    bounds = launch_bounds(source, entry)

    def execute(
        maps: Sequence[Map],
        stretches: Sequence[Stretch],
        arguments: Sequence[int],
        shape: tuple[Dims, Dims],
        stop: Callable[[], bool],
    ) -> None:
        places = tuple(
            Place(address=address, size=size, item=item, writable=writes, name=name)
            for address, size, item, writes, name in stretches
        )
        job = Job(
            built=built,
            entry=entry,
            maps=tuple(maps),
            places=places,
            arguments=tuple(arguments),
            arch=arch,
            blocks=min(CORES[arch], math.prod(shape[0])),
            shape=Shape(grid=shape[0], workgroup=shape[1]),
            order=order_words(os.environ.get(ORDER_VARIABLE, "newest")),
            bounds=bounds,
            seconds=_SECONDS,
        )
        report = run_in_place(job, stop)
        if not stop():
            report.raise_faults()

    return execute
