"""A stopped launch in memory, and as the metadata and tensors of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from hetir.checkpoint import values
from hetir.checkpoint.errors import CheckpointError
from hetir.checkpoint.file import FORMAT_VERSION, Contents
from hetir.compiler import Dims
from hetir.diagnostics import HetirError
from hetir.ir.canonical import CANONICAL_VERSION, content_hash
from hetir.ir.core import Kernel
from hetir.ir.text import parse_kernel, print_kernel
from hetir.ir.types import Scalar
from hetir.ir.verify import verify
from hetir.passes.resumable import DONE, NOT_STARTED, NUMBER_BITS
from hetir.passes.safe_points import Plan, SafePoint, Slot, plan
from hetir.version import IR_VERSION, MATH_VERSION, OPS_VERSION, __version__

_Array = np.ndarray[Any, Any]
_MASK = (1 << NUMBER_BITS) - 1


@lru_cache(maxsize=256)
def plan_of(text: str) -> Plan:
    """The safe points of a kernel's text, verified."""
    kernel = parse_kernel(text)
    verify(kernel)
    return plan(kernel)


@dataclass(frozen=True, slots=True)
class Job:
    """What a launch is, apart from how far it has come: all that a resumed one must repeat."""

    text: str
    grid: Dims
    workgroup: Dims
    id: str
    scratch: tuple[str, ...] = ()

    @property
    def kernel(self) -> Kernel:
        """The kernel with its safe points."""
        return self.plan.kernel

    @property
    def plan(self) -> Plan:
        """Its safe points and slots."""
        return plan_of(self.text)

    @property
    def groups(self) -> int:
        """Workgroups in the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def items(self) -> int:
        """Work-items a workgroup."""
        return self.workgroup[0] * self.workgroup[1] * self.workgroup[2]

    @property
    def group_bytes(self) -> int:
        """Bytes of saved state of one workgroup."""
        made = self.plan
        return sum(
            kind.bytes
            * (made.elements(kind, shared=False) * self.items + made.elements(kind, shared=True))
            for kind in made.types
        )


@dataclass(frozen=True, slots=True)
class State:
    """Saved slots by type: `items` is [place, ticket, work-item], `shared` [ticket, element]."""

    items: Mapping[Scalar, _Array]
    shared: Mapping[Scalar, _Array]

    @classmethod
    def of(cls, job: Job, flat: Mapping[Scalar, _Array], capacity: int, tickets: int) -> State:
        """The state as kernels lay it out, without the tickets that were not taken."""
        items: dict[Scalar, _Array] = {}
        shared: dict[Scalar, _Array] = {}
        for kind, memory in flat.items():
            places = job.plan.elements(kind, shared=False)
            split = places * capacity * job.items
            whole = memory[:split].reshape(places, capacity, job.items)
            items[kind] = whole[:, :tickets].copy()
            shared[kind] = memory[split:].reshape(capacity, -1)[:tickets].copy()
        return cls(items, shared)

    def flat(self, job: Job, capacity: int) -> dict[Scalar, _Array]:
        """The state as kernels lay it out, with room for `capacity` workgroups."""
        found: dict[Scalar, _Array] = {}
        for kind, items in self.items.items():
            tickets = items.shape[1]
            places = np.zeros((items.shape[0], capacity, job.items), kind.numpy)
            places[:, :tickets] = items
            shared = np.zeros((capacity, self.shared[kind].shape[1]), kind.numpy)
            shared[:tickets] = self.shared[kind]
            found[kind] = np.concatenate([places.reshape(-1), shared.reshape(-1)])
        return found


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A stopped launch: its job, its arguments and how far each workgroup has come."""

    job: Job
    names: tuple[str, ...]
    values: tuple[Any, ...]
    status: _Array
    state: State
    epoch: int
    producer: Mapping[str, str]

    @property
    def tickets(self) -> int:
        """Workgroups stopped on the way."""
        return int((self.status > 0).sum())

    @property
    def done(self) -> bool:
        """Whether every workgroup has ended."""
        return bool((self.status == DONE).all())

    def to_file(self) -> tuple[dict[str, Any], dict[str, _Array]]:
        """Metadata and tensors, as docs/checkpoint-format.md says."""
        encoded = values.encode(self.names, self.values, self.job.scratch)
        watermark, exceptions = _done(self.status)
        meta = self._meta() | {"watermark": watermark, "arguments": encoded.arguments}
        tensors: dict[str, _Array] = {"blocks.exceptions": exceptions}
        for point in self.job.plan.points:
            tensors |= self._point(point)
        for index, buffer in enumerate(encoded.buffers):
            tensors[f"buffer.{index}"] = buffer
        return meta, tensors

    def _meta(self) -> dict[str, Any]:
        job = self.job
        kernel = job.kernel
        return {
            "format": FORMAT_VERSION,
            "hetir": __version__,
            "canonical": CANONICAL_VERSION,
            "versions": {"ir": IR_VERSION, "ops": OPS_VERSION, "math": MATH_VERSION},
            "kernel": kernel.name,
            "hash": content_hash(kernel),
            "text": job.text,
            "math": kernel.options.math,
            "grid": list(job.grid),
            "workgroup": list(job.workgroup),
            "subgroup_size": kernel.options.width,
            "launch": job.id,
            "epoch": self.epoch,
            "producer": dict(self.producer),
            "points": [_described(point) for point in job.plan.points],
        }

    def _point(self, point: SafePoint) -> dict[str, _Array]:
        groups = np.flatnonzero((self.status > 0) & ((self.status & _MASK) == point.number))
        if not groups.size:
            return {}
        tickets = self.status[groups] >> NUMBER_BITS
        found: dict[str, _Array] = {f"point.{point.number}.groups": groups.astype(np.int64)}
        for index, slot in enumerate(point.slots):
            found[f"point.{point.number}.slot.{index}"] = _saved(self.state, slot, tickets)
        return found


def from_file(contents: Contents) -> Snapshot:
    """The stopped launch that a file holds.

    Raises:
        CheckpointError: the file is whole, but no checkpoint that this hetir can resume.
    """
    try:
        return _from_file(contents)
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, HetirError) as error:
        raise CheckpointError(f"the file makes no sense: {error}") from None


def _from_file(contents: Contents) -> Snapshot:
    meta, tensors = contents.meta, contents.tensors
    _require(meta)
    job = Job(meta["text"], _dims(meta["grid"]), _dims(meta["workgroup"]), str(meta["launch"]))
    if content_hash(job.kernel) != meta["hash"]:
        raise CheckpointError("the kernel in the file is not the one that was stopped")
    if [_described(point) for point in job.plan.points] != meta["points"]:
        raise CheckpointError("the safe points of the file are not those of its kernel")
    buffers = [tensors[f"buffer.{n}"] for n in range(_buffers(tensors))]
    names, given = values.decode(meta["arguments"], buffers)
    status = np.full(job.groups, NOT_STARTED, np.int64)
    status[: int(meta["watermark"])] = DONE
    status[tensors["blocks.exceptions"]] = DONE
    state = _restore(job, tensors, status)
    scratch = tuple(n for n, a in meta["arguments"].items() if "scratch" in a and a["bytes"])
    job = replace(job, scratch=scratch)
    return Snapshot(job, names, given, status, state, int(meta["epoch"]), meta["producer"])


def _require(meta: Mapping[str, Any]) -> None:
    """Refuse files whose ops mean something else here.

    The mathematics needs no such check: its functions are part of the kernel's text.
    """
    known = {"ir": IR_VERSION, "ops": OPS_VERSION}
    found = {name: meta["versions"][name] for name in known}
    if found != known:
        raise CheckpointError(
            f"the file was written for versions {found}, this hetir has {known}",
            hint=f"resume it with hetir {meta['hetir']}",
        )


def _buffers(tensors: Mapping[str, Any]) -> int:
    return sum(name.startswith("buffer.") for name in tensors)


def _dims(given: Sequence[int]) -> Dims:
    x, y, z = map(int, given)
    if min(x, y, z) < 0:
        raise ValueError("a negative extent")
    return x, y, z


def _described(point: SafePoint) -> dict[str, Any]:
    slots = [{"dtype": str(s.element), "kind": s.kind, "count": s.count} for s in point.slots]
    return {"id": point.id, "slots": slots}


def _done(status: _Array) -> tuple[int, _Array]:
    """All groups below the watermark are done; the exceptions are those done above it."""
    open_ = np.flatnonzero(status != DONE)
    watermark = int(open_[0]) if open_.size else status.size
    above = np.flatnonzero(status[watermark:] == DONE) + watermark
    return watermark, above.astype(np.int64)


def _saved(state: State, slot: Slot, tickets: _Array) -> _Array:
    """One slot of some workgroups as the file has it, the workgroup first."""
    last = slot.place + slot.count
    if slot.kind == "shared":
        return state.shared[slot.element][tickets, slot.place : last]
    rows = state.items[slot.element][slot.place : last][:, tickets]
    match slot.kind:
        case "uniform":
            return rows[0, :, 0]
        case "varying":
            return rows[0]
        case _:
            return np.moveaxis(rows, 0, -1)


def _restore(job: Job, tensors: Mapping[str, _Array], status: _Array) -> State:
    """The state again; marks in `status` where each stopped workgroup goes on."""
    held = [tensors.get(f"point.{p.number}.groups") for p in job.plan.points]
    total = sum(groups.size for groups in held if groups is not None)
    made = job.plan
    items = {
        k: np.zeros((made.elements(k, shared=False), total, job.items), k.numpy) for k in made.types
    }
    shared = {k: np.zeros((total, made.elements(k, shared=True)), k.numpy) for k in made.types}
    ticket = 0
    for point, groups in zip(made.points, held, strict=True):
        if groups is None:
            continue
        span = slice(ticket, ticket + groups.size)
        if (status[groups] != NOT_STARTED).any():
            raise CheckpointError("a workgroup of the file has two states")
        status[groups] = (np.arange(ticket, ticket + groups.size) << NUMBER_BITS) | point.number
        for index, slot in enumerate(point.slots):
            _fill(items, shared, slot, span, tensors[f"point.{point.number}.slot.{index}"])
        ticket += groups.size
    return State(items, shared)


def _fill(
    items: Mapping[Scalar, _Array],
    shared: Mapping[Scalar, _Array],
    slot: Slot,
    span: slice,
    data: _Array,
) -> None:
    last = slot.place + slot.count
    if data.dtype != slot.element.numpy:
        raise CheckpointError("a slot of the file has another type than its kernel says")
    if slot.kind == "shared":
        shared[slot.element][span, slot.place : last] = data
        return
    rows = items[slot.element][slot.place : last, span]
    match slot.kind:
        case "uniform":
            rows[0, :, 0] = data
        case "varying":
            rows[0] = data
        case _:
            rows[...] = np.moveaxis(data, -1, 0)


def described(kernel: Kernel) -> str:
    """The text that a file stores of a kernel with its safe points."""
    return print_kernel(kernel)
