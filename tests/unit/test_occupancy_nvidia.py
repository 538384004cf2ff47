"""hetir's NVIDIA occupancy against NVIDIA's cuda_occupancy.h, configuration by configuration.

The device figures that the header is given come from NVIDIA's CCCL, not from hetir's table, so
that a wrong figure in the table shows as a difference.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hetir.limits import Limits, NvidiaUnit, devices, limits_of, targets
from hetir.residency import occupancy

SOURCES = Path(__file__).parent / "nvidia"
CAPABILITIES = (70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)
# cc, items, registers, shared, shared of the unit, opt-in, reserved: not in CCCL;
# CUDA C++ Programming Guide 12.9, table Technical Specifications per Compute Capability
XAVIER = (7, 2, 2048, 65536, 49152, 98304, 98304, 0)
INT_MAX = 2**31 - 1
NONE = -1

CONFIGURATION = np.dtype(
    [
        (name, np.int32)
        for name in (
            "device",
            "workgroup",
            "registers",
            "static",
            "dynamic",
            "barriers",
            "carveout",
            "virtual",
        )
    ]
)
ANSWER = np.dtype(
    [
        (name, np.int32)
        for name in (
            "status",
            "groups",
            "subgroups",
            "workgroups",
            "registers",
            "shared_memory",
            "barriers",
            "virtual_resources",
            "allocated_registers",
            "allocated_shared",
            "factors",
        )
    ]
)
# bits of cudaOccLimitingFactor
FACTORS = {
    "subgroups": 1,
    "registers": 2,
    "shared_memory": 4,
    "workgroups": 8,
    "barriers": 16,
    "virtual_resources": 32,
}
BOUNDS = tuple(name for name in ANSWER.names or () if name in FACTORS)

TRAITS = (
    "major",
    "minor",
    "items",
    "unit_registers",
    "shared",
    "unit_shared",
    "optin",
    "reserved",
    "workgroups",
    "workgroup_registers",
    "workgroup",
    "x",
    "y",
    "z",
    "grid_x",
    "grid_y",
    "grid_z",
    "subgroup",
    "cluster",
)


def _include(package: str, header: str) -> Path:
    """Where a package of the test extra has a header."""
    file = next(f for f in files(package) or [] if str(f).endswith(f"/{header}"))
    return Path(str(file.locate())).resolve().parents[header.count("/")]


def _library(directory: Path, name: str, include: Path) -> Any:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    path = directory / f"{name}.so"
    command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-I", str(include)]
    subprocess.run([*command, str(SOURCES / f"{name}.cpp"), "-o", str(path)], check=True)
    return ctypes.CDLL(str(path))


@pytest.fixture(scope="module")
def vendor(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The two compiled vendor headers, and the devices as CCCL describes them."""
    directory = tmp_path_factory.mktemp("nvidia")
    header = _include("nvidia-cuda-runtime", "cuda_occupancy.h")
    cccl = _include("nvidia-cuda-cccl", "cuda/__device/arch_traits.h")
    traits_library = _library(directory, "traits", cccl)

    def traits(capability: int) -> dict[str, int]:
        out = np.zeros(len(TRAITS), np.int32)
        traits_library.traits(capability, out.ctypes.data_as(ctypes.c_void_p))
        return dict(zip(TRAITS, out.tolist(), strict=True))

    rows = [XAVIER if c == 72 else tuple(traits(c).values())[:8] for c in CAPABILITIES]
    return SimpleNamespace(
        traits=traits,
        library=_library(directory, "occupancy", header),
        devices=np.array(rows, np.int32),
    )


def _limits(capability: int) -> Limits:
    return limits_of(f"ptx:sm_{capability}")


def _unit(capability: int) -> NvidiaUnit:
    unit = _limits(capability).unit
    assert isinstance(unit, NvidiaUnit)
    return unit


@pytest.mark.parametrize("capability", [c for c in CAPABILITIES if c != 72])
def test_table_equals_cccl(vendor: SimpleNamespace, capability: int) -> None:
    theirs = vendor.traits(capability)
    limits, unit = _limits(capability), _unit(capability)
    # CCCL 13.3 leaves the blocks of 8.8 as for 8.6, and so does the header
    assert unit.work_items == theirs["items"]
    assert unit.workgroups == theirs["workgroups"]
    assert unit.registers == theirs["unit_registers"]
    assert unit.registers_per_workgroup == theirs["workgroup_registers"]
    assert unit.unit_shared_bytes == theirs["unit_shared"]
    assert unit.reserved_shared_bytes == theirs["reserved"]
    assert limits.shared_bytes == theirs["shared"]
    assert limits.shared_bytes_optin == theirs["optin"]
    assert limits.max_workgroup_size == theirs["workgroup"]
    assert limits.max_workgroup_dims == (theirs["x"], theirs["y"], theirs["z"])
    assert limits.max_grid_dims == (theirs["grid_x"], theirs["grid_y"], theirs["grid_z"])
    assert limits.subgroup_sizes == (theirs["subgroup"],)
    assert ("cluster" in limits.features) == bool(theirs["cluster"])
    assert (unit.max_cluster_size > 1) == bool(theirs["cluster"])


def test_every_capability_of_the_table_is_compared() -> None:
    named = [*targets(), *devices()]
    numbers = {int(n[7:].rstrip("af")) for n in named if n.startswith("ptx:")}
    assert numbers == set(CAPABILITIES)


def _edges(unit: NvidiaUnit, limits: Limits) -> list[int]:
    """Sizes of shared memory at which something changes, and their neighbours."""
    at = {0, limits.shared_bytes, limits.shared_bytes_optin, unit.unit_shared_bytes}
    for kib in unit.carveouts_kib:
        for groups in range(1, unit.workgroups + 2):
            share = kib * 1024 // groups // unit.shared_granule * unit.shared_granule
            at |= {share, share - unit.reserved_shared_bytes}
    return sorted({max(0, size + d) for size in at for d in (-1, 0, 1)})


def _configurations(index: int, rng: np.random.Generator) -> Iterator[tuple[int, ...]]:
    capability = CAPABILITIES[index]
    unit, limits = _unit(capability), _limits(capability)
    sizes = [
        w + d for w in (32, 64, 96, 128, 160, 256, 384, 512, 768, 992, 1024) for d in (-1, 0, 1)
    ]
    # every register count that an instruction can name, and past it, at every edge of the size
    for size in (1, *sizes):
        for registers in range(258):
            yield (index, size, registers, 0, 0, 1, NONE, 0)
    for size in range(1, 1090):
        yield (index, size, 32, 0, 0, 1, NONE, 0)
    for shared in _edges(unit, limits):
        for carveout in (NONE, 0, 1, 50, 100):
            yield (index, 64, 16, 0, shared, 1, carveout, 0)
    for carveout in range(-1, 101):
        for shared in (0, 1, 1024, 8192, 33000, 49152, 49153, limits.shared_bytes_optin):
            yield (index, 128, 16, 0, shared, 1, carveout, 0)
    for used in range(70):
        yield (index, 32, 16, 0, 0, used, NONE, 0)
        yield (index, 32, 16, 0, 0, 1, NONE, 2 * used)
    static = rng.integers(0, 49153, 4000)
    dynamic = rng.integers(0, limits.shared_bytes_optin + 2048, 4000) * rng.integers(0, 2, 4000)
    columns = (
        np.full(4000, index),
        rng.integers(1, 1090, 4000),
        rng.integers(0, 260, 4000),
        static,
        dynamic,
        rng.integers(0, 18, 4000),
        rng.integers(-1, 101, 4000),
        rng.integers(0, 40, 4000),
    )
    yield from zip(*(column.tolist() for column in columns), strict=True)


def _ours(row: tuple[int, ...]) -> tuple[int, ...]:
    index, size, registers, static, dynamic, barriers, carveout, virtual = row
    found = occupancy(
        _LIMITS[index],
        size,
        registers,
        static + dynamic,
        barriers=barriers,
        carveout=None if carveout == NONE else carveout,
        virtual_resources=virtual,
    )
    bounds = found.bounds
    return (
        0,
        found.groups_per_unit,
        *(INT_MAX if bounds[name] is None else bounds[name] for name in BOUNDS),
        found.residency.allocated_registers,
        found.residency.allocated_shared_bytes,
        sum(FACTORS[name] for name in found.limiters),
    )


_LIMITS = [_limits(capability) for capability in CAPABILITIES]


def test_every_configuration_equals_the_vendors(
    vendor: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(20250101)
    rows = [row for i in range(len(CAPABILITIES)) for row in _configurations(i, rng)]
    asked = np.array(rows, CONFIGURATION)
    theirs = np.zeros(len(rows), ANSWER)
    vendor.library.residency(
        vendor.devices.ctypes.data_as(ctypes.c_void_p),
        asked.ctypes.data_as(ctypes.c_void_p),
        theirs.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_long(len(rows)),
    )
    ours = np.array([_ours(row) for row in rows], ANSWER)
    # the header names what limited before it counts barriers, and keeps it when they limit more
    stale = theirs["barriers"] < np.minimum.reduce([theirs[n] for n in BOUNDS if n != "barriers"])
    theirs["factors"][stale] = FACTORS["barriers"]
    different = np.flatnonzero(ours != theirs)
    with capsys.disabled():
        count = f"{len(rows)} configurations, {len(different)} differences"
        sys.stdout.write(f"\ncuda_occupancy.h: {count}\n")
    shown = [(rows[i], ours[i].tolist(), theirs[i].tolist()) for i in different[:5]]
    assert not shown
    assert len(rows) >= 200_000


def test_best_workgroup_size_equals_the_vendors(vendor: SimpleNamespace) -> None:
    rows = [
        (index, 1, registers, 0, shared, 1, NONE, 0)
        for index in range(len(CAPABILITIES))
        for registers in (0, 16, 40, 72, 128, 255)
        for shared in (0, 1000, 20000, 49152, 60000)
    ]
    asked = np.array(rows, CONFIGURATION)
    sizes = np.zeros(len(rows), np.int32)
    vendor.library.best_sizes(
        vendor.devices.ctypes.data_as(ctypes.c_void_p),
        asked.ctypes.data_as(ctypes.c_void_p),
        sizes.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_long(len(rows)),
    )
    ours = [occupancy(_LIMITS[row[0]], 32, row[2], row[4]).best_workgroup_size for row in rows]
    assert ours == sizes.tolist()
