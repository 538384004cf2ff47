"""Kernels of nested loops and branches around a few cells of memory, all of them i32 (or i64).

Work-items have a private array, a row of the output, and a place in shared memory that they hand
round between barriers where control flow is uniform. Loops count up and down by varying and
uniform bounds, break and continue; few cells and few values make what analyses must not mix up
meet soon: a load before a loop and the store inside it, a value that only the next turn needs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import pytest

from hetir import runtime
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Options, Param, Region, Value
from hetir.ir.types import BOOL, I64, ArrayType, Scalar, array, static_array
from hetir.testing import Case, Input

SHARE = float(os.environ.get("HETIR_DENSE", "0.4"))
"""Which part of all seeds the tests of dense kernels run; faults are seeded against all of them."""
CELLS = 3
MOST_ITEMS = 40
COLUMNS = 4
_COMPARES = (ops.LT, ops.GE, ops.EQ, ops.NE)


@dataclass(frozen=True, slots=True)
class Known:
    """A value in scope; whether the whole workgroup has the same."""

    value: Value
    uniform: bool


@dataclass(frozen=True, slots=True)
class Loop:
    """What an exit of the loop around hands on: `counter` is there in endless ones."""

    carried: int
    counter: Value | None


def need(device: str) -> None:
    """Skip a test whose device is not here."""
    if device not in {d.name for d in runtime.devices(emulated=True)}:
        pytest.skip(f"no device `{device}`")


def seeds(first: int, count: int) -> range:
    """The seeds that run, of `count`."""
    return range(first, first + max(1, round(count * SHARE)))


def cells(seed: int, size: int = 9, most: int = MOST_ITEMS, *, more: bool = True) -> Case:
    """The case of a seed, in workgroups of at most so many work-items.

    With `more`, loops also go on with sums and cells are picked, which gives values more uses.
    """
    writer = _Writer(Random(f"cells {seed}"), size, most)
    # random numbers of its own, so that what it adds leaves the rest of a kernel as it is
    writer.more = Random(f"more {seed}") if more else None
    return writer.case()


class _Writer:
    def __init__(self, random: Random, size: int, most: int) -> None:
        self.random, self.left, self.most = random, size, most
        self.more: Random | None = None
        self.kind: Scalar = I64
        self.b = Builder()
        self.known: list[Known] = []
        self.loop: Loop | None = None
        self.meets = True  # whether the whole workgroup comes here
        self.depth = 0
        self.alone = random.random() < 0.3  # nobody waits: a work-item may end early

    def case(self) -> Case:
        """The kernel around the statements."""
        random = self.random
        items = random.choice([n for n in (1, 4, 5, 8, MOST_ITEMS, MOST_ITEMS) if n <= self.most])
        groups = random.choice((1, 2, 3))
        x, out = Value(array(self.kind, 1)), Value(array(self.kind, 2))
        n = Value(self.kind)
        self.out, b = out, self.b
        self.place, self.row = b.value(ops.LOCAL_ID, axis=0), b.value(ops.GLOBAL_ID, axis=0)
        self.items = b.value(ops.GROUP_SIZE, axis=0)
        self.private = b.value(ops.ALLOC, type=static_array(self.kind, (CELLS,), "private"))
        kinds = [static_array(self.kind, (MOST_ITEMS,), "shared")] * 2
        self.shared = [b.value(ops.ALLOC, type=kind) for kind in kinds]
        self.know(n, True)
        self.know(b.value(ops.LOAD, x, self.row), False)
        self.know(b.value(ops.LOAD, x, self.number(0)), True)
        self.know(self.place, False)
        self.know(b.value(ops.GROUP_ID, axis=0), True)
        for at in range(CELLS):
            b.emit(ops.STORE, self.private, self.number(at), self.any().value)
        while self.left > 0:
            self.statement()
        for column in range(COLUMNS):
            self.put(self.out, [self.row, self.number(column)], self.mixed(column))
        b.emit(ops.RETURN)
        inputs = (
            Input(self.kind, (items * groups,), "C", writes=False),
            Input(self.kind, (items * groups, COLUMNS), "C", writes=True),
            Input(self.kind, None, "C", writes=False),
        )
        params = tuple(Param(v, (i,)) for i, v in enumerate((x, out, n)))
        kernel = Kernel(name="cells", params=params, body=b.region(), options=Options())
        return Case((groups, 1, 1), (items, 1, 1), inputs, random.randrange(1 << 16), kernel)

    # ---- values

    def number(self, value: int) -> Value:
        return self.b.const(I64, value)

    def know(self, value: Value, uniform: bool) -> Known:
        self.known.append(Known(value, uniform))
        return self.known[-1]

    def any(self, *, uniform: bool = False) -> Known:
        """A value in scope, the newest most often, or a constant."""
        fit = [k for k in self.known if k.uniform or not uniform]
        if not fit or self.random.random() < 0.12:
            return Known(self.number(self.random.choice((0, 1, -1, 2, 3, 7))), True)
        return fit[-1 - min(len(fit) - 1, int(self.random.expovariate(0.4)))]

    def small(self, count: int, *, uniform: bool = False) -> Known:
        """A number from 0 up to a count."""
        if self.random.random() < 0.5:
            return Known(self.number(self.random.randrange(count)), True)
        known = self.any(uniform=uniform)
        return Known(self.b.value(ops.MOD, known.value, self.number(count)), known.uniform)

    def condition(self, *, uniform: bool = False) -> Known:
        if self.random.random() < 0.08:
            return Known(self.b.const(BOOL, self.random.random() < 0.5), True)
        one, two = self.any(uniform=uniform), self.any(uniform=uniform)
        if self.random.random() < 0.4:
            two = Known(self.number(self.random.choice((0, 1, 2))), True)
        spec = self.random.choice(_COMPARES)
        return Known(self.b.value(spec, one.value, two.value), one.uniform and two.uniform)

    def mixed(self, salt: int) -> Value:
        """A number that all values in scope, and the private cells, have a part in."""
        found = self.number(salt)
        for known in self.known[-2 - salt :]:
            found = self.b.value(ops.MUL, found, self.number(31))
            found = self.b.value(ops.ADD, found, known.value)
        cell = self.b.value(ops.LOAD, self.private, self.number(salt % CELLS))
        return self.b.value(ops.XOR, found, cell)

    # ---- statements

    def statement(self) -> None:
        """One of all kinds; nested ones as long as there is room."""
        self.left -= 1
        plain = [self.compute, self.compute, self.masked, self.get, self.set]
        plain += [self.update, self.update]
        if self.alone:
            plain += [self.end] if self.depth else []
        elif self.meets:
            plain += [self.exchange, self.exchange]
        if self.loop is not None and self.depth:
            plain += [self.leave, self.leave]
        if self.depth < 3:
            plain += [self.branch, self.counted, self.counted, self.endless]
        self.random.choice(plain)()

    def compute(self) -> None:
        spec = self.random.choice((ops.ADD, ops.SUB, ops.MUL, ops.XOR, ops.MIN, ops.MAX))
        one, two = self.any(), self.any()
        self.know(self.b.value(spec, one.value, two.value), one.uniform and two.uniform)
        if self.more and self.more.random() < 0.4:
            self.pick(self.more)

    def masked(self) -> None:
        """A part of a number: what fits 32 bits without a sign, or fewer."""
        whole = self.any()
        if self.random.random() < 0.3:
            count = self.number(self.random.choice((1, 31, 32, 33, 63)))
            spec = self.random.choice((ops.SHR, ops.SHL))
            self.know(self.b.value(spec, whole.value, count), whole.uniform)
            return
        ones = self.number(self.random.choice((0xFFFFFFFF, 0x7FFFFFFF, 0xFF, 1 << 31)))
        self.know(self.b.value(ops.AND, whole.value, ones), whole.uniform)

    def cell(self) -> tuple[Value, list[Value]]:
        if self.random.random() < 0.6:
            return self.private, [self.small(CELLS).value]
        return self.out, [self.row, self.small(COLUMNS).value]

    def get(self) -> None:
        where, indices = self.cell()
        self.know(self.b.value(ops.LOAD, where, *indices), False)

    def set(self) -> None:
        where, indices = self.cell()
        self.put(where, indices, self.any().value)

    def update(self) -> None:
        """Read a cell, compute, and write it again."""
        where, indices = self.cell()
        old = self.b.value(ops.LOAD, where, *indices)
        spec = self.random.choice((ops.ADD, ops.SUB, ops.XOR))
        self.know(self.b.value(spec, old, self.any().value), False)
        self.put(where, indices, self.known[-1].value)

    def sum_up(self) -> Callable[[], None]:
        """Add to a cell, now and then; what this gives does so again, in the loop behind.

        Nothing else uses what is added.
        """
        random = self.more
        if random is None or random.random() < 0.6:
            return lambda: None
        place = self.number(random.randrange(CELLS))
        step = self.b.value(ops.LOAD, self.private, self.number(random.randrange(CELLS)))
        where, indices = random.choice(((self.private, [place]), (self.out, [self.row, place])))

        def add() -> None:
            old = self.b.value(ops.LOAD, where, *indices)
            self.put(where, indices, self.b.value(ops.ADD, old, step))

        add()
        return add

    def pick(self, random: Random) -> None:
        """Set a cell by an `if` that not all take alike, to one of two values that all have."""
        one, other = random.sample([k.value for k in self.known if k.uniform], 2)
        unlike = random.choice([k.value for k in self.known if not k.uniform])
        place = random.choice((self.place, unlike))
        limit = self.number(random.randrange(1, 4))
        cond = self.b.value(random.choice(_COMPARES), place, limit)
        regions = (
            self.nested((), lambda: self.b.emit(ops.YIELD, one) and None),
            self.nested((), lambda: self.b.emit(ops.YIELD, other) and None),
        )
        op = self.b.emit(ops.IF, cond, types=(self.kind,), regions=regions)
        self.put(self.private, [self.number(random.randrange(CELLS))], op.result)

    def put(self, where: Value, indices: list[Value], value: Value) -> None:
        assert isinstance(where.type, ArrayType)
        self.b.emit(ops.STORE, where, *indices, value)

    def exchange(self) -> None:
        """Everybody writes its place; after a barrier reads another's, or all read one."""
        first, second = self.random.sample(self.shared, 2)
        both = self.random.random() < 0.3
        self.put(first, [self.place], self.any().value)
        if both:
            self.put(second, [self.place], self.any().value)
        self.b.emit(ops.BARRIER, attrs={"scope": "workgroup"})
        if self.random.random() < 0.4:
            self.know(self.b.value(ops.LOAD, first, self.number(0)), True)
        else:
            moved = self.b.value(ops.ADD, self.place, self.number(self.random.randrange(1, 4)))
            other = self.b.value(ops.MOD, moved, self.items)
            self.know(self.b.value(ops.LOAD, first, other), False)
        self.b.emit(ops.BARRIER, attrs={"scope": "workgroup"})

    def leave(self) -> None:
        """An `if` with an exit of the loop."""
        assert self.loop is not None
        cond = self.condition()
        spec = self.random.choice((ops.BREAK, ops.CONTINUE))
        self.meets = self.meets and cond.uniform

        def go() -> None:
            if self.random.random() < 0.5:
                self.set()
            self.hand_on(spec)

        leave = self.nested((), go)
        stay = self.nested((), lambda: self.b.emit(ops.YIELD) and None)
        self.b.emit(ops.IF, cond.value, types=(), regions=(leave, stay))

    def end(self) -> None:
        """An `if` in which the work-item ends."""
        cond = self.condition()
        leave = self.nested((), lambda: self.b.emit(ops.RETURN) and None)
        stay = self.nested((), lambda: self.b.emit(ops.YIELD) and None)
        self.b.emit(ops.IF, cond.value, types=(), regions=(leave, stay))

    def hand_on(self, spec: ops.Spec) -> None:
        """The terminator of a loop's body."""
        assert self.loop is not None
        values = [self.any().value for _ in range(self.loop.carried)]
        if self.loop.counter is not None and spec is not ops.BREAK:
            values.insert(0, self.b.value(ops.ADD, self.loop.counter, self.number(1)))
        self.b.emit(spec, *values)

    def nested(self, args: tuple[Value, ...], body: Callable[[], None]) -> Region:
        """A region; what it knows is forgotten behind it."""
        outer, known = self.b, len(self.known)
        state = self.meets, self.loop
        self.b = Builder()
        self.depth += 1
        body()
        made = self.b.region(*args)
        self.depth -= 1
        self.b, (self.meets, self.loop) = outer, state
        del self.known[known:]
        return made

    def some(self) -> None:
        for _ in range(self.random.choice((1, 1, 2, 3))):
            self.statement()

    def branch(self) -> None:
        """An `if` with a result."""
        cond = self.condition()

        def arm() -> None:
            self.meets = self.meets and cond.uniform
            self.some()
            self.b.emit(ops.YIELD, self.any().value)

        regions = (self.nested((), arm), self.nested((), arm))
        result = self.b.emit(ops.IF, cond.value, types=(self.kind,), regions=regions).result
        self.know(result, False)

    def counted(self) -> None:
        """A `for` over a few turns, up or down."""
        meets = self.meets and self.random.random() < 0.6
        start, stop = self.small(3, uniform=meets), self.small(5, uniform=meets)
        step = Known(self.number(self.random.choice((1, 1, 2, -1))), True)
        uniform = start.uniform and stop.uniform
        index, carried = Value(I64, "i"), Value(self.kind, "c")
        initial, go_on = self.any().value, self.sum_up()

        def body() -> None:
            self.meets = meets and uniform
            self.loop = None if self.meets and not self.alone else Loop(1, None)
            self.know(index, uniform)
            self.know(carried, False)
            go_on()
            self.some()
            self.b.emit(ops.YIELD, self.any().value)

        region = self.nested((index, carried), body)
        op = self.b.emit(
            ops.FOR, start.value, stop.value, step.value, initial,
            types=(self.kind,), regions=(region,),
        )  # fmt: skip
        self.know(op.result, False)

    def endless(self) -> None:
        """A `loop` that counts its turns."""
        meets = self.meets and self.random.random() < 0.5
        limit = self.small(4, uniform=meets)
        counter, carried = Value(I64, "n"), Value(self.kind, "c")
        initial, go_on = self.any().value, self.sum_up()

        def body() -> None:
            self.meets = meets and limit.uniform
            self.loop = None if self.meets and not self.alone else Loop(1, counter)
            self.know(counter, limit.uniform)
            self.know(carried, False)
            done = self.b.value(ops.GE, counter, limit.value)
            assert done.type == BOOL
            leave = self.nested((), lambda: self.b.emit(ops.BREAK, self.any().value) and None)
            stay = self.nested((), lambda: self.b.emit(ops.YIELD) and None)
            self.b.emit(ops.IF, done, types=(), regions=(leave, stay))
            go_on()
            self.some()
            following = self.b.value(ops.ADD, counter, self.number(1))
            self.b.emit(ops.YIELD, following, self.any().value)

        region = self.nested((counter, carried), body)
        op = self.b.emit(
            ops.LOOP, self.number(0), initial, types=(self.kind,), regions=(region,)
        )  # fmt: skip
        self.know(op.result, False)
