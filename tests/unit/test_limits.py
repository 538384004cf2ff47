"""The tables of limits, and the exact text of the error for each limit."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from hetir.diagnostics import CompileError, Label
from hetir.limits import (
    AscendUnit,
    CpuUnit,
    GridError,
    Limits,
    PrivateMemoryError,
    SharedMemoryError,
    UnifiedBufferError,
    WorkgroupSizeError,
    check_alignment,
    check_cluster,
    check_grid,
    check_launch_shape,
    check_private,
    check_registers,
    check_shared,
    check_subgroup,
    check_workgroup,
    devices,
    limits_of,
    max_registers,
    targets,
)
from hetir.source import Loc

EVERY = {**targets(), **devices()}


def test_the_targets_of_the_contract_are_listed() -> None:
    names = set(targets())
    assert {"hetir", "cpu", "spirv:opencl", "spirv:vulkan"} <= names
    assert {"ascend:910b", "ascend:910c", "ascend:310p", "ascend:950"} <= names
    # what ptxas of CUDA 13.0 lists under --gpu-name
    plain = [75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121]
    ptx = [*plain, "90a", *(f"{n}{v}" for n in (100, 103, 110, 120, 121) for v in "af")]
    assert {f"ptx:sm_{n}" for n in ptx} == {n for n in names if n.startswith("ptx:")}
    assert set(devices()) == {
        *("amd:gfx906", "amd:gfx90a", "amd:gfx942", "amd:gfx1030", "amd:gfx1100"),
        *("intel:xe-hpg", "intel:xe-hpc", "intel:xe2", "ptx:sm_70", "ptx:sm_72"),
    }


@pytest.mark.parametrize("name", EVERY)
def test_every_figure_has_a_source(name: str) -> None:
    limits = EVERY[name]
    described = {"target", "title", "vendor", "unit", "sources"}
    figures = {f.name for f in fields(Limits)} - described
    if limits.unit is not None and not isinstance(limits.unit, CpuUnit):
        figures |= {f.name for f in fields(limits.unit)}
    assert set(limits.sources) == figures
    assert all(len(source) > 20 for source in limits.sources.values())


@pytest.mark.parametrize("name", EVERY)
def test_figures_are_consistent(name: str) -> None:
    limits = EVERY[name]
    assert limits.target == name
    assert limits.subgroup_size in limits.subgroup_sizes
    assert limits.max_workgroup_size <= max(limits.max_workgroup_dims)
    assert 0 < limits.shared_bytes <= limits.shared_bytes_optin
    assert limits.shared_alignment in (16, 32, 64)
    assert {"f16", "i16"} <= limits.features or name.startswith("ascend:")


def test_documented_ascend_buffers() -> None:
    # CANN's platform_config (ub_size); of arch 3510 it has the 248 KiB that 8 KiB of reserve leave
    for name, kib in (("910b", 192), ("910c", 192), ("310p", 256), ("950", 256)):
        unit = limits_of(f"ascend:{name}").unit
        assert isinstance(unit, AscendUnit)
        assert unit.buffer_bytes == kib * 1024
        assert limits_of(f"ascend:{name}").shared_bytes_optin < unit.buffer_bytes


def test_features_follow_the_capability() -> None:
    # PTX ISA: clusters and fence.acquire need sm_90, cp.async and bf16 need sm_80, f8 needs sm_89
    assert {"cluster", "fence_acquire_release", "bf16", "f8"} <= limits_of("sm_90").features
    assert {"cluster", "fence_acquire_release"}.isdisjoint(limits_of("sm_89").features)
    assert {"async_copy", "bf16", "f8"}.isdisjoint(limits_of("sm_75").features)
    assert "architecture" in limits_of("sm_90a").features - limits_of("sm_90").features
    assert "family" in limits_of("sm_100f").features - limits_of("sm_100").features


def test_the_host_is_read() -> None:
    unit = limits_of("cpu").unit
    assert isinstance(unit, CpuUnit)
    assert unit.vector_bytes in (16, 32, 64)
    assert unit.parts[0].units >= 1


def test_short_names_and_cpu_models() -> None:
    assert limits_of("sm_90a").target == "ptx:sm_90a"
    assert limits_of("gfx942") is limits_of("amd:gfx942")
    assert limits_of("cpu:skylake").target == "cpu"


def test_registers_by_workgroup_size() -> None:
    # the programming guide's 65536 registers: 64 each for 1024 work-items, 255 at most
    assert [max_registers(limits_of("sm_90"), n) for n in (32, 256, 257, 512, 1024)] == [
        *(255, 255, 168, 128, 64),
    ]
    assert max_registers(limits_of("ascend:950"), 600) == 32
    assert max_registers(limits_of("cpu"), 600) is None


# Exactly the limit is accepted, one more is not -------------------------------------------------


@pytest.mark.parametrize("name", EVERY)
def test_shared_memory_to_the_byte(name: str) -> None:
    limits = EVERY[name]
    check_shared(limits, limits.shared_bytes_optin)
    error = UnifiedBufferError if name.startswith("ascend:") else SharedMemoryError
    with pytest.raises(error, match=f"{limits.shared_bytes_optin + 1} bytes"):
        check_shared(limits, limits.shared_bytes_optin + 1)


@pytest.mark.parametrize("name", EVERY)
def test_private_memory_to_the_byte(name: str) -> None:
    limits = EVERY[name]
    check_private(limits, limits.private_bytes)
    with pytest.raises(PrivateMemoryError, match=f"{limits.private_bytes + 1} bytes"):
        check_private(limits, limits.private_bytes + 1)


@pytest.mark.parametrize("name", EVERY)
def test_workgroup_to_the_item(name: str) -> None:
    limits = EVERY[name]
    check_workgroup(limits, (limits.max_workgroup_size,))
    check_workgroup(limits, (limits.max_workgroup_size // 8, 4, 2))
    with pytest.raises(WorkgroupSizeError, match=f"at most {limits.max_workgroup_size}"):
        check_workgroup(limits, (limits.max_workgroup_size + 1,))


@pytest.mark.parametrize("name", EVERY)
def test_grids_fold_unless_told_not_to(name: str) -> None:
    limits = EVERY[name]
    check_grid(limits, limits.max_grid_dims[:1], folded=False)
    check_grid(limits, (0, 5, 5), folded=False)
    check_launch_shape(limits, (70000, 70000, 70000), (1,))
    if limits.max_grid_dims[1] < 2**63 - 1:
        with pytest.raises(GridError, match="without folding"):
            check_grid(limits, (1, limits.max_grid_dims[1] + 1), folded=False)
    with pytest.raises(GridError, match="split the launch"):
        check_grid(limits, (2**40, 2**22), (2,))


@pytest.mark.parametrize("name", EVERY)
def test_alignment_to_the_byte(name: str) -> None:
    limits = EVERY[name]
    check_alignment(limits, "`tile`", 3 * limits.shared_alignment)
    with pytest.raises(CompileError, match=f"pad it to {limits.shared_alignment} bytes"):
        check_alignment(limits, "`tile`", limits.shared_alignment - 1)


# Exact texts ------------------------------------------------------------------------------------

SOURCE = """\
def blur(x: hl.Array[hl.f32, 2]):
    tile = hl.shared((240, 260), hl.f32)
"""


def _label(text: str) -> Label:
    """A label on the call of `hl.shared` in a file that exists only here."""
    linecache.cache["blur.py"] = (len(SOURCE), None, SOURCE.splitlines(keepends=True), "blur.py")
    return Label(Loc("blur.py", 2, 11, 2, 40), text)


ERRORS: dict[str, Callable[[], object]] = {
    "unknown_target": lambda: limits_of("ptx:sm90"),
    "shared_memory": lambda: check_shared(
        limits_of("ptx:sm_90"), 249600, _label("is 249600 bytes")
    ),
    "private_memory": lambda: check_private(limits_of("sm_90"), 524289, _label("")),
    "shared_memory_one_byte": lambda: check_shared(limits_of("spirv:vulkan"), 65537),
    "unified_buffer": lambda: check_shared(limits_of("ascend:910b"), 249600, _label("")),
    "unified_buffer_simt": lambda: check_shared(limits_of("ascend:950"), 221185),
    "grid_extents": lambda: check_grid(limits_of("ptx:sm_90"), (4, -1)),
    "grid_too_large": lambda: check_grid(limits_of("ptx:sm_90"), (2**40, 2**20), (256,)),
    "grid_not_folded": lambda: check_grid(limits_of("ptx:sm_90"), (1, 65536), folded=False),
    "workgroup_extents": lambda: check_workgroup(limits_of("ptx:sm_90"), (16, 0)),
    "workgroup_size": lambda: check_workgroup(limits_of("ptx:sm_90"), (64, 32)),
    "workgroup_dimension": lambda: check_workgroup(limits_of("ptx:sm_90"), (1, 1, 128)),
    "alignment": lambda: check_alignment(limits_of("ascend:910b"), "`tile`", 100),
    "registers": lambda: check_registers(limits_of("ptx:sm_90"), 80, 1024),
    "registers_simt": lambda: check_registers(limits_of("ascend:950"), 33, 1024),
    "subgroup": lambda: check_subgroup(limits_of("amd:gfx942"), 48),
    "cluster": lambda: check_cluster(limits_of("ptx:sm_90"), 32),
    "cluster_none": lambda: check_cluster(limits_of("ptx:sm_80"), 2),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error_text(name: str, golden: Any) -> None:
    with pytest.raises(CompileError) as raised:
        ERRORS[name]()
    golden.check(f"limits/{name}.txt", f"{raised.value}\n")


def _one_too_many(limits: Limits) -> dict[str, Callable[[], object]]:
    """A call a limit that asks for one more than the target has."""
    x, _, z = limits.max_workgroup_dims
    registers = max_registers(limits, limits.max_workgroup_size)
    calls: dict[str, Callable[[], object]] = {
        "workgroup": lambda: check_workgroup(limits, (limits.max_workgroup_size + 1,)),
        "grid": lambda: check_grid(limits, (1, limits.max_grid_dims[1] + 1), folded=False),
        "shared": lambda: check_shared(limits, limits.shared_bytes_optin + 1),
        "private": lambda: check_private(limits, limits.private_bytes + 1),
        "alignment": lambda: check_alignment(limits, "`tile`", limits.shared_alignment + 1),
        "subgroup": lambda: check_subgroup(limits, 48),
        "cluster": lambda: check_cluster(limits, 17),
    }
    if z < x:
        calls["dimension"] = lambda: check_workgroup(limits, (1, 1, z + 1))
    if registers is not None:
        calls["registers"] = lambda: check_registers(
            limits, registers + 1, limits.max_workgroup_size
        )
    return calls


def test_the_errors_of_every_limit_of_every_target(golden: Any) -> None:
    lines: list[str] = []
    for name, limits in EVERY.items():
        lines.append(f"## {name}")
        for limit, call in _one_too_many(limits).items():
            with pytest.raises(CompileError) as raised:
                call()
            lines += [f"{limit}:", str(raised.value)]
    golden.check("limits/every_target.txt", "\n".join(lines) + "\n")
