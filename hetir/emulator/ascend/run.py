"""Runs a kernel's source under the shim in a process of its own, over memory that it shares."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from hetir.emulator.ascend.build import library, line_of, runner
from hetir.emulator.ascend.report import Fault, Report
from hetir.emulator.ascend.sites import sync_sites

ORDERS = ("newest", "oldest", "eager")
"""The hostile orders that a kernel must be right in; then come `random:SEED` and `program`."""

_ARCHES = {"910b": 2201, "910c": 2201, "310p": 2002, "950": 3510}
CORES = {2201: 48, 2002: 8, 3510: 72}
_BUFFER_BYTES = {2201: 192 * 1024, 2002: 256 * 1024}
_KEPT_BACK, _RESERVED = 256, 8192
_BASE, _PAGE = 0x1000_0000_0000, 4096
_DEFAULT_BOUNDS = 1024
_FIRST_PAUSE, _LAST_PAUSE = 0.02, 0.1
_ENTRY = re.compile(r"__global__\s+(?:__\w+__(?:\([^)]*\))?\s+)*void\s+(\w+)\s*\(")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A launch in workgroups, and the work-items of one (SIMT code starts a thread for each)."""

    grid: tuple[int, int, int] = (1, 1, 1)
    workgroup: tuple[int, int, int] = (1, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A stretch of device memory that the kernel may touch; `item` is its elements' size."""

    address: int
    size: int
    item: int
    writable: bool
    name: str


Map = tuple[int, int, int, str]
"""Address, size, offset in a file, and the file, of memory."""


def launch_block(shape: Shape, arguments: bytes = b"") -> bytes:
    """The block that ends a kernel's parameters: grid and workgroup (int64), then arguments."""
    return np.array([*shape.grid, *shape.workgroup], "<i8").tobytes() + arguments


def arch_number(arch: str | int) -> int:
    """2201, 2002 or 3510 for a name such as `910b` or `ascend:950`, or the number itself."""
    if isinstance(arch, int):
        return arch
    return _ARCHES[arch.rpartition(":")[2]]


def usable_bytes(arch: int, reserve: bool) -> int:
    """What a kernel has of the Unified Buffer; `reserve` keeps 8 KiB for the framework."""
    if arch == 3510:  # 8 KiB are always kept, and the data cache takes 32 at least
        return (256 - 8 - 32) * 1024
    return _BUFFER_BYTES[arch] - _KEPT_BACK - _RESERVED * reserve


def order_words(order: str | int) -> str:
    """The order's name and seed; a number counts ORDERS through, then seeds random ones."""
    if isinstance(order, int):
        order = ORDERS[order] if order < len(ORDERS) else f"random:{order}"
    name, _, seed = order.partition(":")
    if name not in {*ORDERS, "random", "program"}:
        raise ValueError(f"no order is called `{name}`: {', '.join(ORDERS)}, random:SEED, program")
    return f"{name} {int(seed or 1)}"


def disabled_lines(source: str, disabled: Collection[int]) -> list[int]:
    """The lines of the sites with these numbers."""
    if not disabled:
        return []
    sites = sync_sites(source)
    return [sites[index].line for index in disabled]


class More(TypedDict, total=False):
    """What `run` may be told beyond what every run needs.

    entry: the kernel's name; the first of the source if left out.
    addresses: offset in the launch block to the number of the array whose address goes there.
    shape: the launch, which SIMT code needs; taken from the launch block if left out.
    compiler: `g++` or `clang++`; the first that is here if left out.
    reserve: whether 8 KiB of the Unified Buffer are kept for the framework; True if left out.
    hazards: report accesses that nothing orders (if left out); without, they show as wrong values.
    late_types: report element types that an operation does not take when it runs.
    align: where arrays may start, 512; a small one lets them end next to unmapped memory.
    seconds: how long the kernel may take, 60.
    """

    entry: str | None
    addresses: Mapping[int, int]
    shape: Shape | None
    compiler: str | None
    reserve: bool
    hazards: bool
    late_types: bool
    align: int
    seconds: float


def run(
    source: str,
    *,
    arch: str | int,
    arrays: Sequence[np.ndarray[Any, Any]],
    launch_block: bytes,
    blocks: int,
    order: str | int = "newest",
    disabled: Collection[int] = (),
    **more: Unpack[More],
) -> Report:
    """Compile a source and run one of its kernels; what it writes is in `arrays` afterwards.

    The kernel's parameters are the arrays in order (each contiguous, at an address of its own
    with nothing mapped around it), then the address of `launch_block`.

    Args:
        source: Ascend C with one synchronising call a line at most.
        arch: `910b`, `310p`, `950`, or the number of the architecture.
        arrays: changed in place; one that is not writable is read-only to the kernel too.
        launch_block: as `launch_block()` makes it.
        blocks: how many cores run the kernel; SIMT code has its shape instead.
        order: how unkind the pipes are: one of ORDERS, `random:SEED`, `program`, or a number.
        disabled: the numbers (see `sync_sites`) of calls that do nothing.
        more: see `More`.

    Raises:
        ShimBuildError: the compiler refused the source.
        ValueError: an order or a site that there is not, or an array that is not contiguous.
    """
    number = arch_number(arch)
    name = more.get("entry") or entry_of(source)
    lines = disabled_lines(source, disabled)
    words = order_words(order)
    late_types = more.get("late_types", False)
    built = library(source, arch=number, compiler=more.get("compiler"), late_types=late_types)
    places, offsets, total = _place([*arrays], launch_block, more.get("align", 512))
    block = bytearray(launch_block)
    for at, index in more.get("addresses", {}).items():
        block[at : at + 8] = places[index].address.to_bytes(8, "little")
    contents = [_bytes(array) for array in arrays]
    with tempfile.TemporaryDirectory() as folder:
        memory = Path(folder) / "memory"
        shared = np.memmap(memory, np.uint8, "w+", shape=(max(total, 1),))
        parts = [shared[at : at + p.size] for p, at in zip(places, offsets, strict=True)]
        for part, content in zip(parts, [*contents, np.frombuffer(block, np.uint8)], strict=True):
            part[:] = content
        job = Job(
            built=built,
            entry=name,
            maps=tuple(
                (p.address, p.size, at, str(memory)) for p, at in zip(places, offsets, strict=True)
            ),
            places=tuple(places),
            arguments=tuple(place.address for place in places),
            arch=number,
            blocks=blocks,
            shape=more.get("shape") or _shape_of(launch_block),
            order=words,
            lines=tuple(lines),
            reserve=more.get("reserve", True),
            hazards=more.get("hazards", True),
            bounds=launch_bounds(source, name),
            seconds=more.get("seconds", 60.0),
        )
        report = run_in_place(job)
        for part, array, content in zip(parts, arrays, contents, strict=False):
            if array.flags.writeable:
                content[:] = part
    return report


def entry_of(source: str) -> str:
    """The name of the first kernel of a source. Raises ValueError."""
    match = _ENTRY.search(source)
    if match is None:
        raise ValueError("the source has no `__global__ void` function")
    return match[1]


def has_kernel(source: str, entry: str) -> bool:
    """Whether a source defines a kernel of that name."""
    return re.search(rf"__global__\b[^;{{}}]*\bvoid\s+{re.escape(entry)}\s*\(", source) is not None


def launch_bounds(source: str, entry: str) -> int:
    """The most threads a block of a SIMT kernel, by its `__launch_bounds__`; 1024 without."""
    pattern = rf"__launch_bounds__\(\s*(\d+)\s*\)[^;{{]*\b{entry}\s*\("
    match = re.search(pattern, source)
    return int(match[1]) if match else _DEFAULT_BOUNDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run of a compiled kernel over memory that lies in files.

    `maps` says what is mapped, `places` what of it the kernel may touch.
    `built` is what `library` gave, `arguments` are the kernel's parameters (addresses), `lines`
    the lines whose synchronising calls do nothing, `order` what `order_words` gave, `bounds` what
    its `__launch_bounds__` says.
    """

    built: Path
    entry: str
    maps: tuple[Map, ...]
    places: tuple[Place, ...]
    arguments: tuple[int, ...]
    arch: int
    blocks: int
    shape: Shape
    order: str = "newest 1"
    lines: tuple[int, ...] = ()
    reserve: bool = True
    hazards: bool = True
    bounds: int = _DEFAULT_BOUNDS
    seconds: float = 60.0

    def text(self, report: Path) -> str:
        """The job as the runner reads it: a key and its values a line."""
        limit = usable_bytes(self.arch, self.reserve)
        rows = [
            f"library {self.built}",
            f"entry {self.entry}",
            f"report {report}",
            f"arch {self.arch}",
            f"blocks {self.blocks}",
            f"cores {CORES[self.arch]}",
            f"limit {limit}",
            f"reserve {_RESERVED * self.reserve}",
            f"hazards {int(self.hazards)}",
            f"order {self.order}",
            "grid " + " ".join(map(str, self.shape.grid)),
            "threads " + " ".join(map(str, self.shape.workgroup)),
            "disabled " + " ".join(map(str, self.lines)),
        ]
        rows += ["simt", f"bounds {self.bounds}"] if self.arch == 3510 else []
        rows += [f"map {at} {size} {offset} {file}" for at, size, offset, file in self.maps]
        rows += [
            f"region {at.address} {at.size} {at.item} {int(at.writable)} {at.name}"
            for at in self.places
        ]
        rows += [f"argument {address}" for address in self.arguments]
        return "\n".join(rows) + "\n"


def run_in_place(job: Job, stop: Callable[[], bool] = lambda: False) -> Report:
    """Run a compiled kernel in a process of its own, which ends early once `stop` says so.

    Raises ShimBuildError.
    """
    with tempfile.TemporaryDirectory() as folder:
        path, written = Path(folder) / "job", Path(folder) / "report"
        path.write_text(job.text(written), encoding="utf-8")
        process = subprocess.Popen(
            [str(runner()), str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        if not _waited(process, time.monotonic() + job.seconds, stop):
            process.kill()
            process.communicate()
            message = f"the kernel did not end within {job.seconds:g} seconds"
            return Report(faults=(Fault(kind="timeout", message=message, line=0, core=0),))
        errors = process.communicate()[1]
        text = written.read_text(encoding="utf-8") if written.exists() else ""
    return _parse(text, process.returncode, errors, job.built)


def _waited(process: subprocess.Popen[bytes], deadline: float, stop: Callable[[], bool]) -> bool:
    """Whether a process ended by itself, before its time was up and before it was to stop."""
    pause = _FIRST_PAUSE
    while process.poll() is None:
        if stop() or time.monotonic() > deadline:
            return False
        try:
            process.wait(pause)
        except subprocess.TimeoutExpired:
            pause = min(2 * pause, _LAST_PAUSE)
    return True


_LINE_FLAG = 1 << 63


def _parse(text: str, status: int, errors: bytes, built: Path) -> Report:
    faults: list[Fault] = []
    counts: dict[str, int] | None = None
    for row in map(json.loads, text.splitlines()):
        if "fault" in row:
            core, other = int(row["core"]), int(row["other"])
            line = int(row["line"]) or line_of(built, int(row["pc"]))
            message = str(row["message"])
            if other:
                there = other - _LINE_FLAG if other & _LINE_FLAG else line_of(built, other)
                message += f" (it does at line {there})"
            faults.append(Fault(kind=row["fault"], message=message, line=line, core=core))
        else:
            counts = {key: int(value) for key, value in row.items() if key != "done"}
    if not faults and (status != 0 or counts is None):
        said = errors.decode(errors="replace").strip()
        message = f"the runner ended with {status}" + (f": {said}" if said else "")
        faults.append(Fault(kind="crash", message=message, line=0, core=0))
    return Report(faults=tuple(faults), counts=counts or {})


def _shape_of(block: bytes) -> Shape:
    words = [int(word) for word in np.frombuffer(block, "<i8", 6)]
    return Shape(grid=(words[0], words[1], words[2]), workgroup=(words[3], words[4], words[5]))


def _place(
    arrays: list[np.ndarray[Any, Any]], block: bytes, align: int
) -> tuple[list[Place], list[int], int]:
    """Places for the arrays and the block, each ending as near to a page's end as it may.

    Also where their bytes are in the file, and the file's size.
    """
    places: list[Place] = []
    offsets: list[int] = []
    address, offset = _BASE, 0
    sizes = [(array.nbytes, array.itemsize, array.flags.writeable) for array in arrays]
    for index, (size, item, writable) in enumerate([*sizes, (len(block), 8, False)]):
        pages = max(1, -(-(size + align) // _PAGE))
        start = (pages * _PAGE - size) // align * align
        name = f"array {index}" if index < len(arrays) else "the launch block"
        places.append(
            Place(
                address=address + start,
                size=size,
                item=item,
                writable=writable,
                name=name,
            )
        )
        offsets.append(offset + start)
        address += (pages + 16) * _PAGE
        offset += pages * _PAGE
    return places, offsets, offset


def _bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    if not array.flags.c_contiguous:
        raise ValueError("arrays of the shim must be contiguous")
    return array.reshape(-1).view(np.uint8)
