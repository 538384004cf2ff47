"""Kernels that somebody broke: the evaluator's checks find what counting by hand finds."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from random import Random

import numpy as np

from hetir import emulator
from hetir.emulator.faults import DataRaceError, OutOfBoundsError, UninitialisedError
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Operation, Options, Param, Region, Value, walk
from hetir.ir.types import I64, array, static_array
from hetir.testing import interpret
from tests.property.cells import SHARE, seeds

EXTENT = 7


def straight(random: Random) -> Kernel:
    """Reads and writes of a shared, a private and a global array between barriers, in no order."""
    b, x = Builder(), Value(array(I64, 1))
    place, row = b.value(ops.LOCAL_ID, axis=0), b.value(ops.GLOBAL_ID, axis=0)
    shared = b.value(ops.ALLOC, type=static_array(I64, (EXTENT,), "shared"))
    private = b.value(ops.ALLOC, type=static_array(I64, (EXTENT,), "private"))
    values = [row]

    def index() -> Value:
        base = random.choice((place, place, b.const(I64, random.randrange(EXTENT)), row))
        by = random.choice((0, 0, 0, 1, -1))
        moved = b.value(ops.ADD, base, b.const(I64, by)) if by else base
        if random.random() < 0.85:
            return (
                moved if base is place and not by else b.value(ops.MOD, moved, b.const(I64, EXTENT))
            )
        return moved

    def one_item(body) -> None:
        """A store by one work-item, or by all."""
        if random.random() < 0.6:
            body(b)
            return
        first = b.value(ops.EQ, place, b.const(I64, random.randrange(3)))
        inner, other = Builder(), Builder()
        body(inner)
        inner.emit(ops.YIELD)
        other.emit(ops.YIELD)
        b.emit(ops.IF, first, types=(), regions=(inner.region(), other.region()))

    for _ in range(random.choice((3, 6, 9))):
        where = random.choice((shared, shared, private, x))
        at, value = index(), values[-1]
        match random.choice(("load", "store", "store", "barrier")):
            case "load":
                values.append(b.value(ops.LOAD, where, at))
            case "store":
                one_item(lambda into, w=where, a=at, v=value: into.emit(ops.STORE, w, a, v))
            case _:
                b.emit(ops.BARRIER, attrs={"scope": "workgroup"})
    b.emit(ops.RETURN)
    return Kernel(name="straight", params=(Param(x, (0,)),), body=b.region(), options=Options())


class Count:
    """What a run did, by the interpreter: who touched which cell, and after how many barriers."""

    def __init__(self, kernel: Kernel) -> None:
        self.arrays = {op.result: op.result.type.space for op in walk(kernel.body)
                       if op.spec is ops.ALLOC}  # fmt: skip
        self.epoch = Counter[object]()
        self.touched = defaultdict(list)
        self.written: set[object] = set()
        self.found: set[type] = set()

    def watch(self, op: Operation, item, operands, _) -> None:
        """Note one executed op."""
        who = item.group, item.local
        if op.spec is ops.BARRIER:
            self.epoch[who] += 1
        if op.spec not in (ops.LOAD, ops.STORE):
            return
        space = self.arrays.get(op.operands[0], "global")
        cell = (
            space,
            int(operands[1][0]),
            *{"global": (), "shared": (item.group,)}.get(space, who),
        )
        self.touched[cell].append((who, self.epoch[who], op.spec is ops.STORE))
        if op.spec is ops.STORE:
            self.written.add(cell)
        elif space != "global" and cell not in self.written:
            self.found.add(UninitialisedError)

    def races(self) -> bool:
        """Whether two work-items met at a cell, and one wrote."""
        for (space, *_), users in self.touched.items():
            for n, (one, epoch, writes) in enumerate(users):
                for other, later, also in users[:n]:
                    apart = one[0] != other[0] or epoch == later
                    if space != "private" and one != other and (writes or also) and apart:
                        return True
        return False


def inside(kernel: Kernel) -> Kernel:
    """The same with every index brought into bounds."""

    def fix(region: Region) -> Region:
        made: list[Operation] = []
        for op in region.body:
            if op.spec in (ops.LOAD, ops.STORE):
                b = Builder()
                at = b.value(ops.MOD, op.operands[1], b.const(I64, EXTENT))
                made += [*b.body, replace(op, operands=(op.operands[0], at, *op.operands[2:]))]
            else:
                made.append(replace(op, regions=tuple(map(fix, op.regions))))
        return Region(region.args, tuple(made))

    return replace(kernel, body=fix(kernel.body))


def checked(kernel: Kernel, groups: int, items: int) -> set[type]:
    """The classes of what the evaluator reports, over several schedules."""
    found: set[type] = set()
    for seed in (0, 1):
        x = np.zeros(EXTENT, np.int64)
        report = emulator.run(kernel, [x], (groups, 1, 1), (items, 1, 1), checks=True, seed=seed)
        found |= {type(fault) for fault in report.faults}
    return found


def test_races_and_first_reads_are_what_counting_finds():
    seen = Counter[tuple[bool, bool]]()
    for seed in seeds(0, 150):
        random = Random(f"checks {seed}")
        kernel = inside(straight(random))
        groups, items = random.choice((1, 2)), random.choice((2, 3, 5))
        count = Count(kernel)
        interpret(kernel, [np.zeros(EXTENT, np.int64)], (groups, 1, 1), (items, 1, 1), count.watch)
        found = checked(kernel, groups, items)
        races, early = count.races(), UninitialisedError in count.found
        assert (DataRaceError in found) == races, f"seed {seed}\n{kernel}"
        if not races:  # what others wrote in time is a matter of luck
            assert (UninitialisedError in found) == early, f"seed {seed}\n{kernel}"
        seen[races, early] += 1
    assert len(seen) == 4
    assert min(seen.values()) > 4 * SHARE


def test_indices_out_of_bounds_are_what_numpy_finds():
    seen = Counter[bool]()
    for seed in seeds(0, 120):
        random = Random(f"bounds {seed}")
        extents = random.randrange(1, 6), random.randrange(1, 6)
        offset, scale = random.randrange(-2, 3), random.choice((1, 1, 2, -1))
        items, axis = random.choice((1, 2, 4, 5)), random.randrange(2)
        b, x, y = Builder(), Value(array(I64, 2)), Value(array(I64, 1))
        i = b.value(ops.GLOBAL_ID, axis=0)
        moved = b.value(ops.MUL, i, b.const(I64, scale))
        moved = b.value(ops.ADD, moved, b.const(I64, offset))
        indices = [b.const(I64, 0), moved] if axis else [moved, b.const(I64, 0)]
        b.emit(ops.STORE, y, i, b.value(ops.LOAD, x, *indices))
        b.emit(ops.RETURN)
        params = (Param(x, (0,)), Param(y, (1,)))
        kernel = Kernel(name="k", params=params, body=b.region(), options=Options())
        arguments = [np.ones(extents, np.int64), np.zeros(items, np.int64)]
        report = emulator.run(kernel, arguments, (1, 1, 1), (items, 1, 1))
        at = np.arange(items) * scale + offset
        bad = ((at < 0) | (at >= extents[axis])).sum()
        assert sum(f.count for f in report.faults) == bad, f"seed {seed}"
        assert all(isinstance(f, OutOfBoundsError) for f in report.faults)
        seen[bool(bad)] += 1
    assert min(seen.values()) > 20 * SHARE
