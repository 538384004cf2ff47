"""Runners for every target that this machine can run or emulate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hetir import compiler, runtime
from hetir.artifact import Artifact
from hetir.backends import ascend, cpu, ptx, spirv
from hetir.backends.spirv.uniform import PartialWorkgroupError
from hetir.ir.core import Kernel
from hetir.limits import check as limit_checks
from hetir.passes import fences
from hetir.passes.layout import layout_of
from hetir.passes.simplify import simplify
from hetir.runtime.arrays import Array
from hetir.target import Assumptions, UnsupportedError
from hetir.testing.cases import Dim3, Said
from hetir.testing.differential import launched
from hetir.testing.guard import Guarded

REFUSALS = (
    UnsupportedError,
    PartialWorkgroupError,
    limit_checks.PrivateMemoryError,
    limit_checks.SharedMemoryError,
    limit_checks.SubgroupSizeError,
    limit_checks.UnifiedBufferError,
    limit_checks.WorkgroupSizeError,
)
"""What a target says of kernels that it cannot hold; anything else that it raises is a fault."""

_NOTHING = Assumptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDevice:
    """Compiles for a target and runs on a device of this process, as a launch does.

    Args:
        device: a device's name, such as `opencl:0` or `ptx-emulator`.
        target: what to compile for; the device's own if left out.
        optimise: LLVM's level, for `cpu` and `ptx`.
        lanes: for `cpu`: work-items that run as one vector; None as the backend chooses.
        simplified: whether the passes run first; the kernel as it is, if not.
        fixed: whether the code may rely on the workgroup's size.
        promised: whether it may rely on all that holds of the arguments.
        owned: whether the arrays lie in the device's memory, guarded, or are copied by the launch.
    """

    device: str
    target: str = ""
    optimise: int = 3
    lanes: int | None = None
    simplified: bool = True
    fixed: bool = True
    promised: bool = True
    owned: bool = False

    def __call__(self, kernel: Kernel, arguments: list[Any], grid: Dim3, workgroup: Dim3) -> Said:
        """Raises one of REFUSALS where the target cannot hold the kernel."""
        device = runtime.device(self.device)
        names = [f"argument {n}" for n in range(len(arguments))]

        def run(values: Sequence[Any]) -> Said:
            artifact = self.artifact(kernel, values, grid, workgroup)
            return launched(device.load(artifact, names), values, grid, workgroup)

        return _run_owned(run, device, arguments) if self.owned else run(arguments)

    def artifact(
        self, kernel: Kernel, arguments: Sequence[Any], grid: Dim3, workgroup: Dim3
    ) -> Artifact:
        """The code for one launch."""
        device = runtime.device(self.device)
        target = self.target or device.target
        compiler.check_limits(kernel, target, workgroup)
        ready = fences.placed(simplify(kernel))[0] if self.simplified else kernel
        layout = layout_of(ready)
        facts = runtime.Packer(layout, device).pack(tuple(arguments), grid, workgroup)[1]
        holds = compiler.promised(facts, layout, target) if self.promised else _NOTHING
        return self._compile(ready, target, workgroup if self.fixed else None, holds)

    def _compile(
        self, kernel: Kernel, target: str, workgroup: Dim3 | None, holds: Assumptions
    ) -> Artifact:
        family = target.partition(":")[0]
        shared: dict[str, Any] = {"target": target, "workgroup": workgroup}
        if family == "cpu":
            return cpu.compile_kernel(
                kernel, **shared, assumptions=holds, optimise=self.optimise, lanes=self.lanes
            )
        if family == "ptx":
            return ptx.compile_kernel(
                kernel, **shared, assumptions=holds, optimise=self.optimise, binary=False
            )
        if family == "ascend":
            return ascend.compile_kernel(kernel, **shared, assumptions=holds)
        return spirv.compile_kernel(kernel, **shared)


def _run_owned(
    run: Callable[[list[Any]], Said], device: runtime.Device, arguments: Sequence[Any]
) -> Said:
    """Run over copies in the device's memory, red zones around them; bring results back."""
    guarded = Guarded(arguments)
    copies = [device.array(memory) for memory in guarded.memories]
    moved: list[Any] = []
    for argument, place in zip(arguments, guarded.places, strict=True):
        if place is None:
            moved.append(argument)
            continue
        number, offset = place
        at = copies[number].offset + offset
        moved.append(
            Array(
                copies[number].storage,
                argument.shape,
                argument.dtype,
                argument.strides,
                at,
                writeable=argument.flags.writeable,
            )
        )
    said = run(moved)
    for memory, copy in zip(guarded.memories, copies, strict=True):
        memory[...] = copy.numpy()
    guarded.hand_back(arguments)
    if stray := guarded.stray():
        raise AssertionError("; ".join(stray))
    return said
