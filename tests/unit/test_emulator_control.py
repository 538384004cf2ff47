"""Random structured control flow, against an interpreter of one work-item with Python integers."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from hetir.emulator import run
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Operation, Param, Region, Value
from hetir.ir.types import BOOL, I64, array
from hetir.ir.verify import verify

COLUMNS = 6
Bits = dict[Value, int]


# ---- one work-item, in Python --------------------------------------------------------------


class Leave(Exception):  # noqa: N818
    """A break, continue or return on its way out."""

    def __init__(self, kind: str, values: list[int]) -> None:
        self.kind, self.values = kind, values


def wrap(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


PLAIN: Mapping[str, Callable[..., int]] = {
    "add": lambda a, b: wrap(a + b),
    "sub": lambda a, b: wrap(a - b),
    "mul": lambda a, b: wrap(a * b),
    "xor": lambda a, b: a ^ b,
    "mod": lambda a, b: a % b if b else 0,
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "ge": lambda a, b: a >= b,
    "select": lambda c, a, b: a if c else b,
}


class Item:
    """Runs the kernel for one work-item; `rows` is the memory."""

    def __init__(self, kernel: Kernel, item: int, rows: list[list[int]]) -> None:
        self.item, self.rows, self.known = item, rows, Bits()
        with contextlib.suppress(Leave):
            self.region(kernel.body, [])

    def region(self, region: Region, args: list[int]) -> list[int]:
        self.known.update(zip(region.args, args, strict=True))
        for op in region.body:
            values = [self.known.get(v, 0) for v in op.operands]
            if op.spec.terminator:
                if op.name == "yield":
                    return values
                raise Leave(op.name, values)
            self.known.update(zip(op.results, self.step(op, values), strict=True))
        raise AssertionError("no terminator")

    def step(self, op: Operation, values: list[int]) -> list[int]:
        match op.name:
            case "const":
                bits = op.attrs["bits"]
                assert isinstance(bits, int)
                return [wrap(bits)]
            case "global_id":
                return [self.item]
            case "load":
                return [self.rows[values[1]][values[2]]]
            case "store":
                self.rows[values[1]][values[2]] = values[3]
                return []
            case "if":
                return self.region(op.regions[0 if values[0] else 1], [])
            case "for":
                start, stop, step, *carried = values
                indices = range(start, stop, step) if step else range(0)
                return self.repeat(op, iter(indices), carried)
            case "loop":
                return self.repeat(op, None, values)
            case _:
                return [int(PLAIN[op.name](*values))]

    def repeat(self, op: Operation, indices: object, carried: list[int]) -> list[int]:
        while True:
            args = carried
            if indices is not None:
                index = next(indices, None)
                if index is None:
                    return carried
                args = [index, *carried]
            try:
                carried = self.region(op.regions[0], args)
            except Leave as leave:
                if leave.kind == "break":
                    return leave.values
                if leave.kind == "return":
                    raise
                carried = leave.values


# ---- random kernels ------------------------------------------------------------------------


class Grow:
    """A random kernel over i64 values that writes into the work-item's own row."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.rows = Value(array(I64, 2), "rows")
        self.budget = 40
        builder = Builder()
        self.id = builder.value(ops.GLOBAL_ID, axis=0)
        self.fill(builder, [self.id, builder.const(I64, 3)], None, 0)
        builder.emit(ops.RETURN)
        params = (Param(self.rows, (0,)),)
        self.kernel = Kernel(name="random", params=params, body=builder.region())

    def fill(self, b: Builder, seen: list[Value], loop: int | None, depth: int) -> list[Value]:
        """Append a few statements; `loop` is how many values the loop around carries."""
        for _ in range(self.rng.randint(1, 5)):
            self.budget -= 1
            choice = self.rng.random()
            if choice < 0.45 or depth > 3 or self.budget < 0:
                seen = [*seen, self.arithmetic(b, seen)]
            elif choice < 0.6:
                column = b.const(I64, self.rng.randrange(COLUMNS))
                b.emit(ops.STORE, self.rows, self.id, column, self.rng.choice(seen))
                other = b.const(I64, self.rng.randrange(COLUMNS))
                seen = [*seen, b.value(ops.LOAD, self.rows, self.id, other)]
            elif choice < 0.8:
                seen = [*seen, *self.branch(b, seen, loop, depth)]
            else:
                seen = [*seen, *self.loop(b, seen, depth)]
        return seen

    def arithmetic(self, b: Builder, seen: list[Value]) -> Value:
        name = self.rng.choice(["add", "sub", "mul", "xor", "mod", "select"])
        x, y = (self.rng.choice(seen[-6:]) for _ in range(2))
        if name == "mod":
            y = b.const(I64, self.rng.choice([-3, 2, 5, 0]))
        if name == "select":
            return b.value(ops.SELECT, self.condition(b, seen), x, y)
        return b.value(ops.TABLE[name], x, y)

    def condition(self, b: Builder, seen: list[Value]) -> Value:
        left = b.value(ops.MOD, self.rng.choice(seen[-6:]), b.const(I64, self.rng.randint(2, 7)))
        spec = ops.TABLE[self.rng.choice(["lt", "eq", "ge"])]
        return b.value(spec, left, b.const(I64, self.rng.randint(0, 3)))

    def branch(
        self, b: Builder, seen: list[Value], loop: int | None, depth: int
    ) -> tuple[Value, ...]:
        condition, count = self.condition(b, seen), self.rng.randint(0, 2)
        regions = []
        leaves = self.rng.randrange(8)  # 0: the first side leaves, 1: the second
        for side in range(2):
            inner = Builder()
            known = self.fill(inner, seen, loop, depth + 1)
            if leaves == side:
                self.leave(inner, known, loop)
            else:
                inner.emit(ops.YIELD, *(self.rng.choice(known) for _ in range(count)))
            regions.append(inner.region())
        types = [I64] * count
        return b.emit(ops.IF, condition, types=types, regions=tuple(regions)).results

    def leave(self, b: Builder, known: list[Value], loop: int | None) -> None:
        kinds = [ops.RETURN] if loop is None else [ops.BREAK, ops.CONTINUE, ops.RETURN]
        kind = self.rng.choice(kinds)
        count = 0 if kind is ops.RETURN else loop or 0
        b.emit(kind, *(self.rng.choice(known) for _ in range(count)))

    def loop(self, b: Builder, seen: list[Value], depth: int) -> tuple[Value, ...]:
        count = self.rng.randint(1, 3)
        initial = [self.rng.choice(seen) for _ in range(count)]
        args = [Value(I64, f"c{n}") for n in range(count)]
        inner = Builder()
        if self.rng.random() < 0.6:
            return self.counted(b, inner, seen, initial, args, depth)
        # the counter lies in memory, where a `continue` cannot forget it
        column = inner.const(I64, COLUMNS + depth)
        start = b.const(I64, 0)
        b.emit(ops.STORE, self.rows, self.id, b.const(I64, COLUMNS + depth), start)
        turn = inner.value(ops.LOAD, self.rows, self.id, column)
        following = inner.value(ops.ADD, turn, inner.const(I64, 1))
        inner.emit(ops.STORE, self.rows, self.id, column, following)
        limit = inner.value(ops.MOD, self.id, inner.const(I64, self.rng.randint(1, 6)))
        out, stay = Builder(), Builder()
        out.emit(ops.BREAK, *args)
        stay.emit(ops.YIELD)
        over = inner.value(ops.GE, turn, limit)
        inner.emit(ops.IF, over, types=(), regions=(out.region(), stay.region()))
        known = self.fill(inner, [*seen, turn, *args], count, depth + 1)
        inner.emit(ops.YIELD, *(self.rng.choice(known) for _ in range(count)))
        made = b.emit(ops.LOOP, *initial, types=[I64] * count, regions=(inner.region(*args),))
        return made.results

    def counted(
        self,
        b: Builder,
        inner: Builder,
        seen: list[Value],
        initial: list[Value],
        args: list[Value],
        depth: int,
    ) -> tuple[Value, ...]:
        step = self.rng.choice([1, 2, -1, 0])
        far = b.value(ops.MOD, self.rng.choice(seen), b.const(I64, self.rng.randint(1, 6)))
        near = b.const(I64, self.rng.randint(-1, 2))
        bounds = (near, far) if step >= 0 else (far, near)
        index = Value(I64, "i")
        known = self.fill(inner, [*seen, index, *args], len(args), depth + 1)
        inner.emit(ops.YIELD, *(self.rng.choice(known) for _ in args))
        region = inner.region(index, *args)
        made = b.emit(
            ops.FOR, *bounds, b.const(I64, step), *initial,
            types=[I64] * len(args), regions=(region,),
        )  # fmt: skip
        return made.results


@pytest.mark.parametrize("block", range(8))
def test_random_control_flow(block: int) -> None:
    groups, size = 2, 9
    for seed in range(block * 25, block * 25 + 25):
        kernel = Grow(seed).kernel
        verify(kernel)
        rows = np.arange(groups * size * (COLUMNS + 6), dtype=np.int64).reshape(groups * size, -1)
        want = rows.tolist()
        for item in range(groups * size):
            Item(kernel, item, want)
        report = run(kernel, [rows], (groups,), (size,), checks=True, seed=seed)
        assert not report.faults, (seed, str(report))
        assert rows.tolist() == want, seed


def test_an_if_whose_sides_both_leave() -> None:
    """Odd items return, even ones leave the loop; what follows the `if` is not reached."""
    rows, b = Value(array(I64, 2), "rows"), Builder()
    item = b.value(ops.GLOBAL_ID, axis=0)
    body, odd, even = Builder(), Builder(), Builder()
    two, nought = body.const(I64, 2), body.const(I64, 0)
    is_odd = body.value(ops.EQ, body.value(ops.MOD, item, two), body.const(I64, 1))
    odd.emit(ops.RETURN)
    even.emit(ops.BREAK, two)
    body.emit(ops.IF, is_odd, types=(), regions=(odd.region(), even.region()))
    body.emit(ops.BREAK, nought)
    left = b.emit(ops.LOOP, types=[I64], regions=(body.region(),))
    b.emit(ops.STORE, rows, item, b.const(I64, 0), left.result)
    b.emit(ops.RETURN)
    kernel = Kernel(name="k", params=(Param(rows, (0,)),), body=b.region())
    memory = np.zeros((6, 1), np.int64)
    run(kernel, [memory], (1,), (6,))
    assert memory[:, 0].tolist() == [2, 0, 2, 0, 2, 0]


def test_bools_are_carried() -> None:
    """A flag that a loop carries and its condition reads."""
    rows, b = Value(array(I64, 2), "rows"), Builder()
    item = b.value(ops.GLOBAL_ID, axis=0)
    flag, total, index = Value(BOOL, "flag"), Value(I64, "total"), Value(I64, "i")
    body, yes, no = Builder(), Builder(), Builder()
    yes.emit(ops.YIELD, yes.value(ops.ADD, total, index))
    no.emit(ops.YIELD, total)
    (new,) = body.emit(ops.IF, flag, types=[I64], regions=(yes.region(), no.region())).results
    body.emit(ops.YIELD, body.value(ops.NOT, flag), new)
    first = b.value(ops.LT, item, b.const(I64, 2))
    bounds = [b.const(I64, n) for n in (0, 5, 1)]
    region = body.region(index, flag, total)
    made = b.emit(ops.FOR, *bounds, first, item, types=[BOOL, I64], regions=(region,))
    b.emit(ops.STORE, rows, item, b.const(I64, 0), made.results[1])
    b.emit(ops.RETURN)
    kernel = Kernel(name="k", params=(Param(rows, (0,)),), body=b.region())
    memory = np.zeros((4, 1), np.int64)
    run(kernel, [memory], (1,), (4,))
    assert memory[:, 0].tolist() == [0 + 6, 1 + 6, 2 + 4, 3 + 4]
