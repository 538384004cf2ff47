"""What a target or device allows: frozen records that passes, backends and the runtime read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Dims = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A product; `units` counts its multiprocessors, compute units, Xe-cores or cores."""

    name: str
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaUnit:
    """A streaming multiprocessor. `barriers` of 0 means that they are not counted."""

    work_items: int
    workgroups: int
    registers: int
    registers_per_workgroup: int
    max_registers: int
    register_granule: int
    partitions: int
    unit_shared_bytes: int
    reserved_shared_bytes: int
    shared_granule: int
    carveouts_kib: tuple[int, ...]
    barriers: int
    virtual_resources: int
    max_cluster_size: int
    max_cluster_size_optin: int
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdUnit:
    """A compute unit, or the workgroup processor that pairs two of them from gfx10.

    `vector_registers` and `vector_granule` run parallel to the target's subgroup sizes;
    `scalar_registers` of 0 means that they limit nothing.
    """

    simds: int
    subgroups_per_simd: int
    vector_registers: tuple[int, ...]
    vector_granule: tuple[int, ...]
    max_vector_registers: int
    unified_accumulation: bool
    accumulation_registers: int
    scalar_registers: int
    scalar_granule: int
    max_scalar_registers: int
    unit_shared_bytes: int
    shared_granule: int
    barriers: int
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IntelUnit:
    """An Xe-core. `large_registers` of 0 means that there is no large-register mode."""

    engines: int
    threads_per_engine: int
    registers: int
    large_registers: int
    unit_shared_bytes: int
    shared_steps_kib: tuple[int, ...]
    workgroups: int
    barriers: int
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AscendUnit:
    """One core. `register_steps` lists (largest workgroup, registers a work-item) in SIMT mode."""

    mode: str
    buffer_bytes: int
    l1_bytes: int
    l0a_bytes: int
    l0b_bytes: int
    l0c_bytes: int
    vector_bytes: int
    compare_bytes: int
    work_items: int
    register_steps: tuple[tuple[int, int], ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuUnit:
    """One hardware thread of the host; cache sizes of 0 are unknown."""

    vector_bytes: int
    l1_bytes: int
    l2_bytes: int
    parts: tuple[Part, ...]


Unit = NvidiaUnit | AmdUnit | IntelUnit | AscendUnit | CpuUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What `target` allows.

    `shared_bytes` is what a workgroup has without asking (on SPIR-V: on every device),
    `shared_bytes_optin` is the most there is. `private_bytes` bounds the arrays of one work-item.
    `max_grid_dims` bounds one launch of the hardware; larger grids are folded. `unit` is None
    where a target is many devices. `sources` gives, for each figure, the document that it was
    taken from.
    """

    target: str
    title: str
    vendor: str
    subgroup_sizes: tuple[int, ...]
    max_workgroup_size: int
    max_workgroup_dims: Dims
    max_grid_dims: Dims
    shared_bytes: int
    shared_bytes_optin: int
    shared_alignment: int
    private_bytes: int
    features: frozenset[str]
    unit: Unit | None
    sources: Mapping[str, str]

    @property
    def subgroup_size(self) -> int:
        """The width that the hardware prefers: 32 where it has it, else its largest."""
        return 32 if 32 in self.subgroup_sizes else max(self.subgroup_sizes)

    @property
    def shared_name(self) -> str:
        """What the vendor calls the memory that a workgroup shares, for messages."""
        return "Unified Buffer" if self.vendor == "ascend" else "shared memory"
