"""The records of the `.hetbin` file; docs/hetbin-format.md specifies it to the byte."""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from types import MappingProxyType
from typing import NamedTuple

MAGIC = b"\x89HETBIN\n"
MAJOR, MINOR = 1, 0
NONE = 0xFFFFFFFF
"""The index of a blob that is not there."""
ALIGNMENT = 64
"""Of blobs in the file."""

HEADER = Struct("<8sHHIQII")  # magic, major, minor, checksum, file size, size of tables, tables
CHECKSUM_AT = 12
ENTRY = Struct("<IIII")  # offset, records, size of a record, 0

TYPES = (
    *("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"),
    *("f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2"),
)
"""Element types by code."""

COOPERATIVE, REPRODUCIBLE = 1, 2
READS, WRITES = 1, 2
DISJOINT, LANES = 1, 2
KINDS: Mapping[str, int] = MappingProxyType({"cpu": 1, "ptx": 2, "spirv": 3, "ascend": 4})
"""Payload kinds by the family of their target."""

Range = tuple[int, int]
"""The first record of another table and how many."""


class KernelRow(NamedTuple):
    """One kernel for one choice of types."""

    name: int
    signature: int
    reason: int
    file: int
    line: int
    module: int
    subgroup_size: int
    flags: int
    args_size: int
    zero: int
    parameters: int
    parameter_count: int
    slots: int
    slot_count: int
    payloads: int
    payload_count: int
    points: int
    point_count: int


class ParameterRow(NamedTuple):
    """A parameter of the Python function."""

    name: int
    type: int


class SlotRow(NamedTuple):
    """An entry of the argument block; axis n is bit n of `unit_axes` and `zero_axes`."""

    offset: int
    parameter: int
    type: int
    ndim: int
    flags: int
    unit_axes: int
    zero_axes: int
    path: int
    path_count: int


class PayloadRow(NamedTuple):
    """One kernel's code for one target."""

    target: int
    entry: int
    kind: int
    code: int
    text: int
    x: int
    y: int
    z: int
    index_bits: int
    flags: int
    aligned: int
    shared_bytes: int
    item_bytes: int
    registers: int
    spill_bytes: int
    subgroup_size: int
    source: int
    key: int
    zero: int
    sites: int
    site_count: int
    fences: int
    fence_count: int
    variants: int
    variant_count: int


class VariantRow(NamedTuple):
    """Another form of a payload's code, for devices that have what it needs."""

    needs: int
    need_count: int
    code: int
    zero: int


class SiteRow(NamedTuple):
    """A place that writes records."""

    kind: int
    format: int
    types: int
    type_count: int
    file: int
    line: int
    column: int
    end_line: int
    end_column: int


class FenceRow(NamedTuple):
    """What a payload's code does for the order of memory at one place."""

    kind: int
    order: int
    scope: int
    instruction: int
    reason: int
    text_line: int
    file: int
    line: int
    column: int
    end_line: int
    end_column: int


class PointRow(NamedTuple):
    """A fence, a barrier or a safe point of the kernel."""

    kind: int
    text: int
    file: int
    line: int
    column: int


class BlobRow(NamedTuple):
    """Bytes after the tables, with their CRC-32C."""

    offset: int
    size: int
    checksum: int
    zero: int


class WordRow(NamedTuple):
    """A number, or a reference to a string, of a list."""

    value: int


class Table(NamedTuple):
    """A table: its records' form and class."""

    name: str
    form: Struct
    row: type[tuple[int, ...]]


TABLES = (
    Table("kernels", Struct("<18I"), KernelRow),
    Table("parameters", Struct("<2I"), ParameterRow),
    Table("slots", Struct("<3Ii5I"), SlotRow),
    Table("payloads", Struct("<10I3Q2q10I"), PayloadRow),
    Table("variants", Struct("<4I"), VariantRow),
    Table("sites", Struct("<9I"), SiteRow),
    Table("fences", Struct("<11I"), FenceRow),
    Table("points", Struct("<5I"), PointRow),
    Table("blobs", Struct("<QQII"), BlobRow),
    Table("words", Struct("<I"), WordRow),
)
"""In the order of the file; the strings follow them, as a table of bytes."""
