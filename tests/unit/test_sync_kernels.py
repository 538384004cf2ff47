"""The synchronising kernels: right where they may run, safe, none of their orders too strong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

import hetir
from hetir import compiler, library
from hetir.passes.certificate import Certificate
from hetir.passes.progress import ProgressError
from hetir.target import UnsupportedError
from tests.conftest import Golden

WAITING = {
    *("grid_barrier", "locks", "look_back", "message", "once", "ring"),
    *("stream_k", "three_party", "tile_signal"),
}
"""Scenarios of which a work-item waits for another one."""
TARGETS = ("ptx:sm_90", "ptx:sm_75", "spirv:opencl", "spirv:vulkan", "cpu")
SLOW = {"histogram", "look_back", "once", "ring"}
"""Scenarios whose certificates take more than a second."""
# across the system there is none
NO_SYSTEM = {("across_system", "spirv:vulkan")}


def test_the_list_is_the_folder() -> None:
    files = {path.stem for path in (library.folder() / "sync").glob("*.py")}
    assert files == set(library.SYNC)


FEW = {"coherent": 2, "dekker": 2, "locks": 4, "ring": 5, "seqlock": 4, "once": 4}
"""Sizes of the cases that take longer than the others."""


def case_of(name: str) -> library.Case:
    sizes = {"size": FEW[name]} if name in FEW else {}
    return library.scenario(name).case(np.random.default_rng(1), **sizes)


# ---- runs ----------------------------------------------------------------------------------


def test_every_scenario_runs_where_every_work_item_progresses() -> None:
    for name in library.SYNC:
        case = case_of(name)
        case.reset()
        case.run("ptx-emulator")
        assert case.error() == 0, name


def devices() -> Iterator[str]:
    yield from ("cpu", "emulator")
    yield from (d.name for d in hetir.devices() if d.name.startswith(("opencl", "vulkan")))


@pytest.mark.filterwarnings("ignore:.*ends loops after:RuntimeWarning")
@pytest.mark.parametrize("name", library.SYNC)
def test_other_devices_run_what_does_not_wait_and_refuse_the_rest(name: str) -> None:
    for device in devices():
        case = case_of(name)
        case.reset()
        if name not in WAITING:
            case.run(device)
            assert case.error() == 0, device
            continue
        with pytest.raises(ProgressError) as refused:
            case.run(device)
        assert device in refused.value.message
        assert refused.value.labels[0].loc.file.endswith(f"{name}.py")


def test_a_wait_for_another_workgroup_needs_a_cooperative_kernel() -> None:
    module = library.scenario("grid_barrier")
    loose = hetir.kernel(module.turned.__wrapped__)
    (step,) = module.small()
    with pytest.raises(ProgressError, match="may not have started"):
        loose.launch(step.arguments, grid=2, workgroup=2, device="ptx-emulator")


def test_a_retry_is_no_wait() -> None:
    import hetir.lang as hl

    @hetir.kernel
    def doubled(x: hl.Array[hl.i32, 1]):
        seen = hl.atomic_load(x, 0)
        while True:
            found = hl.atomic_compare_exchange(x, 0, seen, seen + 2)
            if found == seen:
                break
            seen = found

    x = np.zeros(1, np.int32)
    doubled[2, 4](x)
    assert x[0] == 16


# ---- certificates --------------------------------------------------------------------------


def certificates(module: ModuleType, target: str) -> dict[str, list[Certificate]]:
    """The certificates of each kernel, one for each small launch."""
    found: dict[str, list[Certificate]] = {}
    for step in module.small():
        if (step.kernel.name, target) in NO_SYSTEM:
            continue
        made = compiler.certificate(step.kernel, target, step.arguments, step.grid, step.workgroup)
        found.setdefault(step.kernel.name, []).append(made)
    return found


def hold(name: str, target: str) -> None:
    for kernel, several in certificates(library.scenario(name), target).items():
        assert all(c.unsafe is None for c in several), kernel
        loose = [
            {(s.op.loc, w.left) for s in c.sites for w in s.weaker if not (w.broken or w.on_target)}
            for c in several
        ]
        # each weaker form breaks on one of the launches
        assert not set.intersection(*loose), kernel
        assert any(c.sites for c in several)


@pytest.mark.parametrize("name", sorted({*library.SYNC} - SLOW))
def test_a_scenario_is_safe_and_nothing_weaker_is(name: str) -> None:
    hold(name, "ptx:sm_90")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target"),
    [(n, t) for n in library.SYNC for t in TARGETS if n in SLOW or t != TARGETS[0]],
)
def test_a_scenario_is_safe_and_nothing_weaker_is_on(name: str, target: str) -> None:
    hold(name, target)


# ---- the exact instructions ----------------------------------------------------------------


def plain(instruction: str) -> str:
    """An instruction without the names of its values."""
    bare = re.sub(r"%[\w.]+|\b\d+\b|[\[\];,]|\bptr\b|\balign\b", " ", instruction)
    return " ".join(bare.replace("=", " ").split())


def emitted(target: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in library.SYNC:
        for step in library.scenario(name).small():
            if (step.kernel.name, target) in NO_SYSTEM:
                continue
            made = hetir.compile(step.kernel, target=target)
            first = step.kernel.__wrapped__.__code__.co_firstlineno
            found[f"{name}.{step.kernel.name}"] = [
                f"{f.location.line - first}: {f.kind} {f.order} {f.scope}: "
                f"{plain(f.instruction) or 'nothing'}"
                for f in made.fences
                if f.location
            ]
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_the_instructions_are_these(target: str, golden: Golden) -> None:
    text = json.dumps(emitted(target), indent=1) + "\n"
    golden.check(f"sync/{target.replace(':', '_')}.json", text)


def test_vulkan_refuses_system_scope() -> None:
    module = library.scenario("message")
    with pytest.raises(UnsupportedError, match="Vulkan has no scope wider than the device"):
        hetir.compile(module.across_system, target="spirv:vulkan")
