"""The targets that run concurrent programs here, and how each is made to interleave them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from hetir import runtime
from hetir.backends.ptx import compile_kernel as compile_ptx
from hetir.emulator.ascend import compilers
from hetir.ir.core import Kernel
from hetir.memory.program import Scope
from hetir.passes.fences import placed
from hetir.passes.simplify import simplify
from hetir.testing import litmus
from hetir.testing.litmus import Launch, Litmus
from tests.unit import ptx_support
from tests.unit.spirv_support import device_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """How programs are run: `alone` those whose work-items each have a workgroup.

    `together` is for work-items that share workgroups, and, where there is no other, for all.
    """

    name: str
    runner: litmus.Runner
    together: Launch
    alone: Launch | None = None
    widest: Scope = Scope.SYSTEM

    def launch_of(self, found: Litmus) -> Launch:
        """The launch for a program."""
        alone = all(len(group) == 1 for group in found.groups)
        return self.alone if alone and self.alone else self.together


def on_ptx_emulator(
    kernel: Kernel,
    arguments: list[object],
    grid: tuple[int, int, int],
    workgroup: tuple[int, int, int],
    seed: int,
) -> None:
    """Compile to PTX and run it with the race detector; AssertionError for a race."""
    simple, _ = placed(simplify(kernel))
    chip = ("sm_75", "sm_90", "sm_120")[seed % 3]
    made = compile_ptx(simple, target=f"ptx:{chip}", binary=False)
    ptx_support.launch(made, arguments, grid, workgroup, races=True, uninitialised=True)


WEAK = Target(name="evaluator, weak", runner=litmus.weakly, together=Launch())


def devices(scale: int = 1) -> Iterator[Target]:
    """The executable targets; `scale` multiplies the instances of a launch."""
    merged = Launch(rounds=2, copies=8 * scale, slots=4, merged=True)
    # a few threads, each of which runs one work-item at a time
    tickets = Launch(rounds=2000 * scale, copies=2, patience=100)
    for name in ("cpu", "opencl", "vulkan"):
        device = runtime.device("cpu") if name == "cpu" else device_of(f"spirv:{name}")
        if device is None:
            continue
        # lavapipe ends a shader's loops after 65,536 turns
        short = Launch(rounds=200, copies=2 + 14 * (scale > 1), patience=20)
        yield Target(
            name=name,
            runner=litmus.on_device(device),
            together=merged,
            alone=short if name == "vulkan" else tickets,
            widest=Scope.DEVICE if name == "vulkan" else Scope.SYSTEM,
        )
    yield Target(name="ptx-emulator", runner=on_ptx_emulator, together=merged)
    if compilers():
        shim = litmus.on_device(runtime.device("ascend-shim:950"))
        # no fence of the 950 reaches the host
        yield Target(name="ascend-shim:950", runner=shim, together=merged, widest=Scope.DEVICE)


@cache
def targets() -> dict[str, Target]:
    """The targets by name."""
    return {target.name: target for target in devices()}
