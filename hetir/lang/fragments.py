"""Matrix fragments: small matrices that a subgroup holds and multiplies together.

The lanes form a grid of rows and columns. Row r of a fragment belongs to the grid's row r modulo
its height, column c to its column c modulo its width: a lane holds its elements of an `acc`, its
rows of an `a` and its columns of a `b`. So a lane has all that its elements of a product need,
and the order of the sums is the same everywhere: the bits are those of every target.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

from hetir.frontend.errors import IndexingError, OperandError
from hetir.frontend.forms import FragmentType, accumulator_of, fragment_type, lane_grid
from hetir.frontend.indexing import Span, checked_indices, positions
from hetir.frontend.meeting import structured
from hetir.frontend.primitive import current, primitive
from hetir.frontend.tracer import Block, Tracer
from hetir.frontend.values import (
    ArrayHandle,
    Bundle,
    KernelValue,
    Typed,
    describe,
    is_plain,
    is_tuple,
)
from hetir.ir import ops
from hetir.ir.core import Value
from hetir.ir.types import I64, Scalar
from hetir.lang.memory import word
from hetir.lang.vectors import type_in_kernel

_MOST_HELD = 128


def fragment(use: Any, rows: Any, columns: Any, dtype: Any) -> FragmentType:
    """The type of a `rows` x `columns` matrix that the lanes of a subgroup hold together.

    `use` is `"a"`, `"b"` or `"acc"`, as in `hl.mma`: `acc + a @ b`. Sides are 4, 8, 16 or 32.
    `a` and `b` hold f16, bf16, f32, f64, i8 or u8, `acc` what their products are added in: f32,
    f64 or i32. `fragment(...)(value)` fills one. Operators and the functions of `hl` work on
    each element, with scalars and with fragments of one use and shape. Which lane holds an
    element is hidden.
    """
    return fragment_type(use, rows, columns, dtype)


def _fragment_in_kernel(
    use: KernelValue, rows: KernelValue, columns: KernelValue, dtype: KernelValue
) -> KernelValue:
    return type_in_kernel(fragment_type, use, rows, columns, dtype)


fragment.__dict__["__hetir_primitive__"] = _fragment_in_kernel


@primitive
def load_fragment(
    kind: KernelValue, x: KernelValue, index: KernelValue, layout: str = "row"
) -> KernelValue:
    """A fragment of type `kind` from the tile of `x` that begins at `index`.

    `index` is a tuple of one integer an axis. The tile lies in the last two axes, transposed
    where `layout` is `"column"`, and inside the array. Elements convert to the fragment's type.
    Every lane of the subgroup must call it, with the same arguments.
    """
    tracer = current()
    if not isinstance(kind, FragmentType):
        tracer.fail(
            OperandError,
            f"a fragment's type is needed, got {describe(kind)}",
            hint='make one: `hl.fragment("a", 16, 16, hl.f16)`',
        )
    _need_room(tracer, kind)
    places = _Places(tracer, kind, x, index, layout)

    def load() -> list[Value]:
        loaded = [tracer.typed(ops.LOAD, x.ir, *place) for place in places.all()]
        return [tracer.convert(item, kind.element, explicit=True) for item in loaded]

    # what several lanes hold they all read, except an `acc`, which may be stored in place
    guard = places.first() if kind.use == "acc" else None
    types = (kind.element,) * kind.share(tracer.options.width)
    return Bundle(kind, tuple(_guarded(tracer, guard, load, types)))


@primitive
def store_fragment(
    x: KernelValue, index: KernelValue, value: KernelValue, layout: str = "row"
) -> None:
    """Store a fragment into the tile of `x` that begins at `index`, as `load_fragment` reads.

    One lane stores each element. Storing an `a` or `b` where it was loaded needs an
    `hl.subgroup_barrier()` between, as several lanes loaded the element.
    """
    tracer = current()
    places = _Places(tracer, _kind(tracer, "store_fragment", value), x, index, layout)

    def store() -> list[Value]:
        for place, item in zip(places.all(), value.items, strict=True):
            tracer.emit(ops.STORE, x.ir, *place, tracer.convert(Typed(item), x.type.element))
        return []

    _guarded(tracer, places.first(), store, ())


@primitive
def mma(a: KernelValue, b: KernelValue, acc: KernelValue) -> KernelValue:
    """The matrix product `acc + a @ b`, as a fragment like `acc`.

    Each element starts as `acc`'s and adds its products in the order of the inner axis. Elements
    of `a` and `b` convert to `acc`'s type first; each product and each sum is rounded once.
    """
    tracer = current()
    kinds = [_kind(tracer, "mma", value) for value in (a, b, acc)]
    _check_product(tracer, *kinds)
    left, right = (
        [tracer.convert(Typed(item), kinds[2].element) for item in value.items] for value in (a, b)
    )
    inner, columns = kinds[0].columns, kinds[2].held(tracer.options.width)[1]
    items: list[Value] = []
    for place, start in enumerate(acc.items):
        row, column = divmod(place, columns)
        pairs = [(left[row * inner + k], right[k * columns + column]) for k in range(inner)]
        items.append(functools.reduce(functools.partial(_add_product, tracer), pairs, start))
    return Bundle(kinds[2], tuple(items))


def _add_product(tracer: Tracer, total: Value, factors: tuple[Value, Value]) -> Value:
    return tracer.value(ops.ADD, total, tracer.value(ops.MUL, *factors))


def _kind(tracer: Tracer, name: str, value: KernelValue) -> FragmentType:
    if isinstance(value, Bundle) and isinstance(value.type, FragmentType):
        return value.type
    return tracer.fail(
        OperandError,
        f"`{name}` needs a fragment, got {describe(value)}",
        hint="load one with `hl.load_fragment`, or fill one: `hl.fragment(...)(0)`",
    )


def _check_product(tracer: Tracer, a: FragmentType, b: FragmentType, acc: FragmentType) -> None:
    shown = f"got `{a}`, `{b}` and `{acc}`"
    if (a.use, b.use, acc.use) != ("a", "b", "acc"):
        tracer.fail(OperandError, f"`mma` needs fragments a, b and acc, {shown}")
    if (a.rows, a.columns, b.columns) != (acc.rows, b.rows, acc.columns):
        tracer.fail(
            OperandError,
            f"the shapes of the product do not fit: {shown}",
            hint="they are [m, k], [k, n] and [m, n]",
        )
    if a.element != b.element or accumulator_of(a.element) != acc.element:
        wanted = accumulator_of(a.element)
        tracer.fail(
            OperandError,
            f"the types of the product do not fit: {shown}",
            hint=f"products of `{a.element}` are added in `{wanted}`" if wanted else None,
        )


def _need_room(tracer: Tracer, kind: FragmentType) -> None:
    width = tracer.options.width
    if kind.share(width) > _MOST_HELD:
        tracer.fail(
            OperandError,
            f"`{kind}` takes {kind.share(width)} registers of each of {width} lanes,"
            f" at most {_MOST_HELD}",
            hint="use smaller tiles, or a wider subgroup: `@hetir.kernel(subgroup_size=32)`",
        )


# ---- tiles in memory -----------------------------------------------------------------------------


class _Places:
    """Where in an array each element lies that a lane holds."""

    def __init__(
        self, tracer: Tracer, kind: FragmentType, x: KernelValue, index: KernelValue, layout: str
    ) -> None:
        self.transposed = word("layout", layout, ("row", "column")) == "column"
        self.tracer, self.kind = tracer, kind
        extents = (kind.columns, kind.rows) if self.transposed else (kind.rows, kind.columns)
        self.start = _start(tracer, x, index, extents)
        _check_whole(tracer)
        self.down, self.along = lane_grid(tracer.options.width)
        lane = tracer.once(ops.LANE_ID)
        # the lane's own row and column of the grid
        self.row = tracer.once(ops.SHR, lane, self._number(self.along.bit_length() - 1))
        self.column = tracer.once(ops.AND, lane, self._number(self.along - 1))

    def all(self) -> list[list[Value]]:
        """The indices of each element, along the rows."""
        rows, columns = self.kind.held(self.tracer.options.width)
        return [self._place(t, u) for t in range(rows) for u in range(columns)]

    def first(self) -> Value | None:
        """Whether a lane is the first that holds its elements; None where each lane is."""
        kind, tests = self.kind, list[Value]()
        for own, side, count, whole in (
            (self.row, kind.rows, self.down, kind.use == "b"),
            (self.column, kind.columns, self.along, kind.use == "a"),
        ):
            holders = 1 if whole else side
            if holders < count:
                tests.append(self.tracer.value(ops.LT, own, self._number(holders)))
        if len(tests) == 2:
            return self.tracer.value(ops.AND, *tests)
        return tests[0] if tests else None

    def _place(self, t: int, u: int) -> list[Value]:
        kind = self.kind
        row = self._number(t)
        if kind.use != "b":
            row = self._spread(self.row, kind.rows, self.down, t)
        column = self._number(u)
        if kind.use != "a":
            column = self._spread(self.column, kind.columns, self.along, u)
        offsets = (column, row) if self.transposed else (row, column)
        *outer, top, left = self.start
        pairs = zip((top, left), offsets, strict=True)
        return [*outer, *(self.tracer.value(ops.ADD, *pair) for pair in pairs)]

    def _spread(self, own: Value, side: int, count: int, step: int) -> Value:
        """The row or column number `step` of a lane; lanes beyond the last hold copies."""
        tracer = self.tracer
        if side < count:
            return tracer.once(ops.AND, own, self._number(side - 1))
        return tracer.once(ops.ADD, own, self._number(count * step)) if step else own

    def _number(self, value: int) -> Value:
        return self.tracer.const(I64, value)


def _guarded(
    tracer: Tracer,
    test: Value | None,
    emit: Callable[[], list[Value]],
    types: Sequence[Scalar],
) -> list[Value]:
    """What `emit` gives where `test` holds, else zeros of these types."""
    if test is None:
        return emit()
    outer = tracer.block
    tracer.block = done = Block(outer)
    tracer.emit(ops.YIELD, *emit())
    tracer.block = skipped = Block(outer)
    tracer.emit(ops.YIELD, *(tracer.const(kind, 0) for kind in types))
    tracer.block = outer
    results = tuple(map(Value, types))
    structured(tracer, ops.IF, (test,), (done.region(), skipped.region()), results)
    return list(results)


def _start(
    tracer: Tracer, x: KernelValue, index: KernelValue, extents: tuple[int, int]
) -> list[Value]:
    """The first index of a tile."""
    if not isinstance(x, ArrayHandle) or x.type.ndim < 2:
        tracer.fail(
            OperandError,
            f"a fragment is a tile of an array of two axes or more, got {describe(x)}",
            hint="give the array, then the index of the tile's first element",
        )
    given = cast("Sequence[Any]", index if is_tuple(index) else (index,))
    checked = checked_indices(tracer, x, list(given))
    if len(given) != x.type.ndim or any(isinstance(at, Span) for at in checked):
        tracer.fail(
            IndexingError,
            f"a tile of {describe(x)} begins at {x.type.ndim} integers",
            hint="give the index of its first element, one integer an axis",
        )
    last = [
        at + extent - 1 if is_plain(at) else at
        for at, extent in zip(checked[-2:], extents, strict=True)
    ]
    checked_indices(tracer, x, [*checked[:-2], *last])
    return positions(tracer, checked)


def _check_whole(tracer: Tracer) -> None:
    """Report, under `debug`, a workgroup whose last subgroup lacks lanes."""
    if not tracer.options.debug:
        return
    x, y, z = (tracer.once(ops.GROUP_SIZE, axis=axis) for axis in range(3))
    size = tracer.once(ops.MUL, tracer.once(ops.MUL, x, y), z)
    width = tracer.options.width
    over = tracer.once(ops.AND, size, tracer.const(I64, width - 1))
    whole = tracer.value(ops.EQ, over, tracer.const(I64, 0))
    message = f"fragments need workgroups of whole subgroups of {width} work-items"
    tracer.emit(ops.ASSERT, whole, attrs={"message": message})
