"""What `hl` is while a source runs as plain Python."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable, Generator, Sequence
from functools import cache
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

import hetir.lang as hl
from hetir import emulator
from hetir.frontend import trace
from hetir.ir import ops
from hetir.ir.types import BOOL, F32, I64, SCALARS, U64, ArrayType, Scalar
from hetir.passes.inline import inline
from hetir.testing.lockstep import COMBINE, Meeting, Steps, identity
from hetir.testing.plain import Array, Number, Vector, apply, each, number, together

_NUMBERS = itertools.count()
MATH = ("exp", "log", "sin", "tanh", "erf", "rsqrt", "log1p", "exp2", "atan", "cbrt", "sigmoid")
"""Functions of one float, whose bits the evaluator says, one call at a time."""


class _Type:
    """`hl.i32(x)`."""

    def __init__(self, kind: Scalar) -> None:
        self.kind = kind

    def __call__(self, value: Any) -> Number:
        return number(self.kind, value)

    def vector(self, length: int) -> Callable[..., Vector]:
        """`hl.vector(hl.i32, length)`."""

        def make(*values: Any) -> Vector:
            flat = [n for v in values for n in (v if isinstance(v, Vector) else (v,))]
            return Vector([number(self.kind, n) for n in flat * (length // len(flat))])

        return make


def _where(condition: Any, a: Any, b: Any) -> Any:
    one, two = together((a, b))
    return one if condition else two


def _dot(a: Vector, b: Vector) -> Number:
    total, *rest = [apply(ops.MUL, *pair) for pair in zip(a, b, strict=True)]
    for product in rest:
        total = apply(ops.ADD, total, product)
    return total


def _insert(v: Vector, index: Any, value: Any) -> Vector:
    items = list(v)
    items[int(index)] = number(items[0].kind, value)
    return Vector(items)


def _load_vector(x: Array, index: Any, length: int) -> Vector:
    *outer, last = map(int, index)
    items: list[Any] = [x[(*outer, last + i)] for i in range(length)]
    return Vector(items)


def _store_vector(x: Array, index: Any, value: Vector) -> None:
    *outer, last = map(int, index)
    for i, item in enumerate(value):
        x[(*outer, last + i)] = item


def _function(spec: ops.Spec) -> Callable[..., Number]:
    def run(*values: Any) -> Number:
        return apply(spec, *together(values))

    return run


def function_of(source: str, name: str) -> FunctionType:
    """A function of a source; its text can be found as for one in a file."""
    file = f"<generated {next(_NUMBERS)}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    namespace: dict[str, Any] = {"hl": hl}
    exec(compile(source, file, "exec"), namespace)  # our own generated text
    return namespace[name]


@cache
def _math_kernel(name: str, kind: Scalar) -> Any:
    """`y[0] = hl.name(x[0])`, traced."""
    source = f"def one(x, y):\n    y[0] = hl.{name}(x[0])\n"
    return inline(trace(function_of(source, "one"), (ArrayType(kind, 1),) * 2))


def _math(name: str) -> Callable[[Number], Number]:
    def run(x: Number) -> Number:
        x = x if x.kind.is_float else x.to(F32)
        y = np.zeros(1, x.kind.numpy)
        emulator.run(_math_kernel(name, x.kind), [x.lane.copy(), y], (1, 1, 1), (1, 1, 1))
        return Number(x.kind, y)

    return run


class _Language:
    """The functions that need to know the work-item that runs now."""

    def __init__(self, now: Any) -> None:
        self.now = now

    # -- ids

    def linear(self) -> int:
        x, y, z = self.now.item.id
        return x + self.now.size[0] * (y + self.now.size[1] * z)

    def local_id(self, axis: int = 0) -> Number:
        return number(I64, self.now.item.id[axis])

    def group_id(self, axis: int = 0) -> Number:
        return number(I64, self.now.item.group.id[axis])

    def group_size(self, axis: int = 0) -> Number:
        return number(I64, self.now.size[axis])

    def num_groups(self, axis: int = 0) -> Number:
        return number(I64, self.now.grid[axis])

    def global_id(self, axis: int = 0) -> Number:
        start = self.now.item.group.id[axis] * self.now.size[axis]
        return number(I64, start + self.now.item.id[axis])

    def global_size(self, axis: int = 0) -> Number:
        return number(I64, self.now.grid[axis] * self.now.size[axis])

    def lane_id(self) -> Number:
        return number(I64, self.linear() % self.now.width)

    def subgroup_id(self) -> Number:
        return number(I64, self.linear() // self.now.width)

    def subgroup_size(self) -> Number:
        return number(I64, self.now.width)

    # -- memory

    def shared(self, shape: Any, kind: _Type) -> Array:
        self.now.item.allocs += 1
        made = np.zeros(shape, kind.kind.numpy)
        return Array(kind.kind, self.now.item.group.shared.setdefault(self.now.item.allocs, made))

    def private(self, shape: Any, kind: _Type) -> Array:
        return Array(kind.kind, np.zeros(shape, kind.kind.numpy))

    # -- meetings

    def barrier(self, scope: str = "workgroup") -> Steps:
        yield Meeting("barrier", "barrier", {"scope": scope})

    def subgroup_barrier(self) -> Steps:
        return self.barrier("subgroup")

    def shuffle(self, value: Any, which: Any, where: Any = True, mode: str = "index") -> Steps:
        attrs = {"mode": mode}
        return (yield from _exchange("shuffle", attrs, value, number(I64, which), where))

    def shuffle_xor(self, value: Any, which: Any, where: Any = True) -> Steps:
        return self.shuffle(value, which, where, "xor")

    def shuffle_up(self, value: Any, which: Any, where: Any = True) -> Steps:
        return self.shuffle(value, which, where, "up")

    def shuffle_down(self, value: Any, which: Any, where: Any = True) -> Steps:
        return self.shuffle(value, which, where, "down")

    def any_(self, value: Any, where: Any = True) -> Steps:
        return (yield from _exchange("vote", {"mode": "any"}, number(BOOL, value), where))

    def all_(self, value: Any, where: Any = True) -> Steps:
        return (yield from _exchange("vote", {"mode": "all"}, number(BOOL, value), where))

    def ballot(self, value: Any, where: Any = True) -> Steps:
        return (yield from _exchange("ballot", {}, number(BOOL, value), where, kind=U64))

    def subgroup_reduce(self, value: Any, op: str, where: Any = True) -> Steps:
        return (yield from _exchange("subgroup_reduce", {"kind": op}, value, where))

    def subgroup_scan(
        self, value: Any, op: str, inclusive: bool = True, where: Any = True
    ) -> Steps:
        attrs = {"kind": op, "inclusive": inclusive}
        return (yield from _exchange("subgroup_scan", attrs, value, where))

    def workgroup_reduce(self, value: Number, op: str) -> Steps:
        lanes = yield from self.everyone(value)
        chunks = [_reduced(op, lanes[at : at + 32]) for at in range(0, len(lanes), 32)]
        return Number(value.kind, _reduced(op, chunks))

    def everyone(self, value: Number) -> Generator[Meeting, Any, list[Any]]:
        """The values of all work-items of the workgroup, in linear order."""
        board, mine = self.now.item.group.board, self.linear()
        yield from self.barrier()
        board[mine] = value.lane
        yield from self.barrier()
        return [board[n] for n in sorted(board)]

    # -- reports

    def print(self, text: Any, *values: Any) -> None:
        line = text.format(*values) if values else text  # an f-string is text already
        self.now.said.print(self.group_number(), self.linear(), line)

    def assert_(self, condition: Any, message: str = "") -> None:
        if not condition:
            self.now.said.fail(message or "assertion failed")

    def group_number(self) -> int:
        x, y, z = self.now.item.group.id
        return x + self.now.grid[0] * (y + self.now.grid[1] * z)


def _exchange(
    name: str, attrs: dict[str, Any], value: Number, *more: Any, kind: Scalar | None = None
) -> Steps:
    """One subgroup op; the last operand is who takes part."""
    *rest, where = more
    lanes = [value.lane, *(v.lane for v in rest), number(BOOL, where).lane]
    answer = yield Meeting(name, name, attrs, lanes)
    return Number(kind or value.kind, answer)


def _reduced(op: str, lanes: Sequence[Any]) -> Any:
    """The fixed tree over 32 lanes, read at the first."""
    values = [*lanes, *[identity(op, lanes[0])] * (32 - len(lanes))]
    combine = COMBINE[op].evaluate
    assert combine is not None
    while len(values) > 1:
        half = len(values) // 2
        pairs = zip(values[:half], values[half:], strict=True)
        values = [np.reshape(combine({}, a.dtype, a, b), (1,)) for a, b in pairs]
    return values[0]


def _atomic(kind: str) -> Callable[..., Number]:
    def run(x: Array, index: Any, value: Any, order: str = "", scope: str = "") -> Number:
        old, new = x[index], number(x.kind, value)
        assert isinstance(old, Number)
        x[index] = apply(COMBINE[kind], old, new) if kind in COMBINE else new
        return old

    return run


def _compare_exchange(x: Array, index: Any, expected: Any, desired: Any, **_: str) -> Number:
    old = x[index]
    assert isinstance(old, Number)
    if old.lane.tobytes() == number(x.kind, expected).lane.tobytes():
        x[index] = desired
    return old


def _atomic_load(x: Array, index: Any, **_: str) -> Any:
    return x[index]


def _nothing(*_: Any) -> None:
    """A fence."""


def _cast(value: Any, kind: _Type) -> Number:
    return number(kind.kind, value)


def _bitcast(value: Number, kind: _Type) -> Number:
    return apply(ops.BITCAST, value, to=kind.kind)


MEETINGS = frozenset(
    {"barrier", "subgroup_barrier", "any_", "all_", "ballot", "workgroup_reduce"}
    | {"shuffle", "shuffle_xor", "shuffle_up", "shuffle_down", "subgroup_reduce", "subgroup_scan"}
)
"""The functions at which work-items wait."""


def language(now: Any) -> SimpleNamespace:
    """What `hl` is while the source runs: types, and the functions by their names."""
    simple = ("fma", "sqrt", "floor", "ceil", "trunc", "rint", "popcount", "clz", "mul_hi", "div")
    names = (*simple, "ctz", "rem", "abs", "min", "max", "min_number", "max_number")
    own = _Language(now)
    members: dict[str, Any] = {n: each(_function(ops.TABLE[n])) for n in names}
    members |= {("bool_" if t == BOOL else n): _Type(t) for n, t in SCALARS.items()}
    members |= {
        n: getattr(own, n) for n in vars(_Language) if not n.startswith("_") and n in vars(hl)
    }
    members |= {n: each(_math(n)) for n in MATH}
    words = {"and": "and_", "or": "or_"}
    for kind in ops.RMW_KINDS:
        members[f"atomic_{words.get(kind, kind)}"] = _atomic(kind)
    return SimpleNamespace(
        **members,
        atomic_compare_exchange=_compare_exchange,
        atomic_load=_atomic_load,
        atomic_store=_atomic("exchange"),
        fence=_nothing,
        minimum_number=members["min_number"],
        maximum_number=members["max_number"],
        where=each(_where),
        vector=_Type.vector,
        dot=_dot,
        insert=_insert,
        load_vector=_load_vector,
        store_vector=_store_vector,
        static_range=range,
        cast=_cast,
        bitcast=_bitcast,
    )
