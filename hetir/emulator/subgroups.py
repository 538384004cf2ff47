"""Subgroup operations, over a matrix with one row a subgroup and one column a lane.

Lanes that do not exist, are not here or do not take part hold zero or the identity. The
matrix is padded to a power of two columns; the trees are those of the op table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hetir.emulator.faults import BadLaneError, DivergentSubgroupError
from hetir.emulator.frame import Frame
from hetir.emulator.run_state import Run, partial_subgroups
from hetir.emulator.values import Lanes, spread
from hetir.ir import numerics
from hetir.ir.core import Operation
from hetir.ir.types import Scalar
from hetir.passes.identity import identity_bits

COMBINE: dict[str, Callable[..., Lanes]] = {
    "add": numerics.add,
    "mul": numerics.mul,
    "min": numerics.minimum,
    "max": numerics.maximum,
    "and": numerics.and_,
    "or": numerics.or_,
    "xor": numerics.xor,
}


def identity(op: Operation) -> Lanes:
    """What a lane that takes no part in a reduction counts as."""
    kind = op.result.type
    assert isinstance(kind, Scalar)
    bits = identity_bits(str(op.attrs["kind"]), kind)
    return numerics.const({"bits": bits}, kind.numpy)


@dataclass(frozen=True, slots=True)
class Rows:
    """Where the lanes of a frame stand in the matrix."""

    rows: int
    columns: int
    width: int
    at: Lanes

    def matrix(self, lanes: Lanes, where: Lanes, empty: Lanes | np.generic) -> Lanes:
        """One value each lane that takes part, `empty` elsewhere."""
        flat = np.full(self.rows * self.columns, empty)
        flat[self.at] = np.where(where, lanes, empty)
        return flat.reshape(self.rows, self.columns)

    def back(self, matrix: Lanes) -> Lanes:
        """Each lane's own element."""
        return matrix.reshape(-1)[self.at]


def rows_of(frame: Frame) -> Rows:
    """The matrix of the frame's subgroups; partial ones have empty columns."""
    batch = frame.batch
    width = batch.width
    columns = 1 << (width - 1).bit_length()
    per_group = -(-batch.items // width)
    local = frame.own(batch.local)
    row = frame.own(batch.slot) * per_group + local // width
    return Rows(len(batch.groups) * per_group, columns, width, row * columns + local % width)


def reduce_rows(kind: str, matrix: Lanes) -> Lanes:
    """Distances from half the columns down to 1: lane i combines i and i xor distance."""
    columns = int(matrix.shape[1])
    distance = columns // 2
    while distance:
        other = matrix[:, np.bitwise_xor(np.arange(columns), distance)]
        matrix = COMBINE[kind]({}, matrix.dtype, matrix, other)
        distance //= 2
    return matrix


def scan_rows(kind: str, matrix: Lanes) -> Lanes:
    """Distances 1, 2, 4, ... below the columns: lane i combines i - distance and i."""
    distance = 1
    while distance < matrix.shape[1]:
        moved = matrix.copy()
        left, right = matrix[:, :-distance], matrix[:, distance:]
        moved[:, distance:] = COMBINE[kind]({}, matrix.dtype, left, right)
        matrix, distance = moved, distance * 2
    return matrix


def _operands(run: Run, op: Operation, frame: Frame) -> list[Lanes]:
    """The operands of every lane, after the check that each subgroup is whole."""
    partial = partial_subgroups(frame)
    if partial is not None:
        run.fault(
            DivergentSubgroupError, op, frame, partial,
            f"`{op.name}` is reached by only some lanes of a subgroup",
            hint="call it in uniform control flow and say with `where=` who takes part",
        )  # fmt: skip
    return [spread(frame.scalar(v), frame.count) for v in op.operands]


def _reduce(run: Run, op: Operation, frame: Frame) -> None:
    value, where = _operands(run, op, frame)
    rows = rows_of(frame)
    matrix = rows.matrix(value, where, identity(op))
    frame.values[op.results[0]] = rows.back(reduce_rows(str(op.attrs["kind"]), matrix))


def _scan(run: Run, op: Operation, frame: Frame) -> None:
    value, where = _operands(run, op, frame)
    rows, empty = rows_of(frame), identity(op)
    scanned = scan_rows(str(op.attrs["kind"]), rows.matrix(value, where, empty))
    if not op.attrs["inclusive"]:
        scanned = np.roll(scanned, 1, axis=1)
        scanned[:, 0] = empty
    frame.values[op.results[0]] = rows.back(scanned)


def _shuffle(run: Run, op: Operation, frame: Frame) -> None:
    value, which, where = _operands(run, op, frame)
    rows, mode = rows_of(frame), str(op.attrs["mode"])
    lane = rows.at % rows.columns
    if mode in ("index", "xor"):
        _check_lane(run, op, frame, which)
    source = _source(mode, lane, which)
    matrix = rows.matrix(value, where, value.dtype.type(0))
    exists = (source >= 0) & (source < rows.width)
    at = rows.at - lane + np.where(exists, source, 0)
    taken = matrix.reshape(-1)[at]
    frame.values[op.results[0]] = np.where(exists, taken, value.dtype.type(0))


def _source(mode: str, lane: Lanes, which: Lanes) -> Lanes:
    """The lane read from; far outside stays outside (an operand may be any i64)."""
    near = np.clip(which, -1024, 1024)
    match mode:
        case "index":
            return near
        case "xor":
            return np.where(near == which, lane ^ near, -1)
        case "up":
            return lane - near
        case _:
            return lane + near


def _check_lane(run: Run, op: Operation, frame: Frame, which: Lanes) -> None:
    if run.checker is None:
        return
    bad = np.flatnonzero((which < 0) | (which >= frame.batch.width))
    if len(bad):
        run.fault(
            BadLaneError, op, frame, bad,
            f"lane {which[bad[0]]} does not exist in a subgroup of {frame.batch.width}",
            hint="take the lane modulo `hl.subgroup_size()`",
        )  # fmt: skip


def _vote(run: Run, op: Operation, frame: Frame) -> None:
    value, where = _operands(run, op, frame)
    every, rows = op.attrs["mode"] == "all", rows_of(frame)
    matrix = rows.matrix(value, where, np.bool_(every))
    answer = matrix.all(axis=1) if every else matrix.any(axis=1)
    frame.values[op.results[0]] = np.asarray(answer)[rows.at // rows.columns]


def _ballot(run: Run, op: Operation, frame: Frame) -> None:
    value, where = _operands(run, op, frame)
    rows = rows_of(frame)
    matrix = rows.matrix(value, where, np.bool_(False))[:, :64].astype(np.uint64)
    bits = np.bitwise_or.reduce(matrix << np.arange(matrix.shape[1], dtype=np.uint64), axis=1)
    frame.values[op.results[0]] = bits[rows.at // rows.columns]


HANDLERS: dict[str, Callable[[Run, Operation, Frame], None]] = {
    "shuffle": _shuffle,
    "ballot": _ballot,
    "vote": _vote,
    "subgroup_reduce": _reduce,
    "subgroup_scan": _scan,
}
