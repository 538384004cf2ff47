"""Reads the hidden buffer of a launch: printed lines, failed assertions, bad indices."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from hetir.artifact import Artifact, Site
from hetir.diagnostics import Label, LaunchError
from hetir.ir.literals import shown
from hetir.ir.types import SCALARS
from hetir.runtime import Records

_HEADER = struct.Struct("<QQ")
_RECORD = struct.Struct("<IIqq")
CAPACITY_BYTES = 1 << 20
Dims = tuple[int, int, int]


class CheckFailedError(LaunchError):
    """A `hl.assert_`, or an index check of `debug=True`, failed while the kernel ran.

    Cause: the condition was false, or an index lay outside its array, for the work-item
    named. The access was skipped and the kernel went on. Fix: guard the line.
    """

    code = "HET510"


@dataclass(frozen=True, slots=True)
class Record:
    """One record: its site, the work-item that wrote it, and the operands."""

    site: Site
    group: int
    item: int
    operands: tuple[float | int | bool, ...]


def read(artifact: Artifact, data: bytes) -> tuple[list[Record], int]:
    """All records of a buffer, ordered by work-item, and how many bytes found no room."""
    capacity, used = _HEADER.unpack_from(data)
    found = sorted(_records(artifact, data[_HEADER.size :][: min(used, capacity)]), key=_order)
    return found, max(0, used - capacity)


def _order(record: Record) -> tuple[int, int]:
    return record.group, record.item


def _records(artifact: Artifact, data: bytes) -> Iterator[Record]:
    at = 0
    while at + _RECORD.size <= len(data):
        size, index, group, item = map(int, _RECORD.unpack_from(data, at))
        if size < _RECORD.size or at + size > len(data) or index >= len(artifact.sites):
            return
        site: Site = artifact.sites[int(index)]
        start = at + _RECORD.size
        operands = tuple(
            _operand(data[start + 8 * k : start + 8 * k + 8], dtype)
            for k, dtype in enumerate(site.dtypes)
        )
        yield Record(site, group, item, operands)
        at += size


def _operand(raw: bytes, dtype: str) -> float | int | bool:
    kind = SCALARS[dtype]
    value = np.frombuffer(raw[: kind.bytes], kind.numpy)[0]
    if kind.kind == "bool":
        return bool(value)
    return int(value) if kind.is_int else float(value)


@dataclass(slots=True)
class Wishes:
    """What printed lines show beside their text."""

    items: bool = os.environ.get("HETIR_PRINT_ITEMS", "") not in ("", "0")


_WISHES = Wishes()


def print_items(wanted: bool = True) -> None:
    """Begin each line of `hl.print` with the work-item that wrote it, or stop doing so.

    HETIR_PRINT_ITEMS=1 begins with it. Holds for every device and thread of the process.
    """
    _WISHES.items = wanted


def signed(line: str, group: int, item: int, grid: Dims | None, workgroup: Dims | None) -> str:
    """A printed line, begun with its work-item where that is wanted and known."""
    if not _WISHES.items or grid is None or workgroup is None:
        return line
    return f"workgroup {_place(group, grid)}, item {_place(item, workgroup)}: {line}"


def _place(linear: int, extents: Dims) -> Dims:
    x, y, _ = extents
    return linear % x, linear // x % y, linear // (x * y)


def finish(
    artifact: Artifact,
    echo: Callable[[str], None],
    grid: Dims | None = None,
    workgroup: Dims | None = None,
) -> Callable[[bytes], None]:
    """What to do with the buffer at the end of a launch: print the lines, raise the failure.

    Without `grid` and `workgroup` work-items are not named.
    """

    def run(data: bytes) -> None:
        found, lost = read(artifact, data)
        for record in found:
            if record.site.kind == "print":
                echo(signed(_line(record), record.group, record.item, grid, workgroup))
        if lost:
            echo(f"hetir: the print buffer is full: {lost} bytes of {artifact.kernel} are lost")
        failed = [r for r in found if r.site.kind != "print"]
        if failed:
            raise _failure(artifact, failed)

    return run


def request(artifact: Artifact, grid: Dims, workgroup: Dims) -> Records | None:
    """The hidden buffer of a launch, for kernels that print or check."""
    if not artifact.sites:
        return None
    return Records(size=CAPACITY_BYTES, finish=finish(artifact, print, grid, workgroup))


def _line(record: Record) -> str:
    pairs = zip(record.site.dtypes, record.operands, strict=True)
    return record.site.format.format(*(shown(SCALARS[dtype], value) for dtype, value in pairs))


def _failure(artifact: Artifact, failed: list[Record]) -> CheckFailedError:
    first = failed[0]
    who = f"work-item {first.item} of workgroup {first.group}"
    if first.site.kind == "assert":
        message = f"assertion failed in `{artifact.kernel}`: {first.site.format}"
    else:
        index = ", ".join(str(v) for v in first.operands[::2])
        shape = ", ".join(str(v) for v in first.operands[1::2])
        message = (
            f"index ({index}) is out of bounds for `{first.site.format}` of shape ({shape}) "
            f"in `{artifact.kernel}`"
        )
    more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
    labels = (Label(first.site.loc, f"{who}{more}"),) if first.site.loc else ()
    return CheckFailedError(message, *labels)
