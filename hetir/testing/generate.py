"""Random well-typed kernels without races, built from a stream of choices.

Work-item i writes row i of the output arrays and nothing else; shared memory is written at
the item's own place between two barriers in uniform flow; everything read is in bounds and
initialised. So every kernel has one meaning, whatever the order of work-items.
"""

from __future__ import annotations

import math

from hetir.ir import ops
from hetir.ir.core import Kernel, Options, Param, Value
from hetir.ir.types import F32, F64, I64, U64, ArrayType, Scalar
from hetir.testing.accessing import SUM_KINDS
from hetir.testing.cases import Case, Dim3, Input
from hetir.testing.controlling import Controlling
from hetir.testing.scope import STORAGE, TYPES, WIDTH, Array, Choose, Shape, T, Var

__all__ = ["STORAGE", "TYPES", "WIDTH", "Choose", "Shape", "T", "generate"]

LAYOUTS = ("C", "reversed", "step", "F", "broadcast", "backwards")
_WIDTHS = (None, None, 8, 16, 4, 64, 2, 1, 128, 32)


def generate(choose: Choose, shape: Shape | None = None, *, launch: Choose | None = None) -> Case:
    """A kernel with its launch and its arguments; `launch` chooses the launch's shape."""
    return _Generator(choose, shape or Shape()).case(launch or choose)


class _Generator(Controlling):
    """The kernel around the statements: its launch, parameters and ends."""

    def __init__(self, choose: Choose, shape: Shape) -> None:
        super().__init__(choose, shape)
        self.params: list[Param] = []
        self.inputs: list[Input] = []

    def case(self, launch: Choose) -> Case:
        """Everything."""
        body, self.choose = self.choose, launch
        self.launch()
        self.choose = body
        self.declare()
        self.linear_ids()
        for _ in self.some(1, 4):
            self.identity()
        self.meet()
        self.statements(self.shape.statements)
        if self.choose(8):
            for array in self.such("own"):
                self.store_row(array)
            self.mix(0)
        self.act(ops.RETURN)
        kernel = Kernel(
            name="generated",
            params=tuple(self.params),
            body=self.b.region(),
            options=Options(subgroup_size=self.pinned),
        )
        return Case(self.grid, self.workgroup, tuple(self.inputs), self.choose(1 << 16), kernel)

    def launch(self) -> None:
        """The shape of the launch."""
        x, y, z = 1 + self.choose(33), 1 + self.choose(3), 1 + self.choose(2)
        groups: Dim3 = (1 + self.choose(3), 1 + self.choose(2), 1 + self.chance(4))
        # the simplest has as many in one row, so that what takes several stays
        row, form = self.pick((x * y * z, 1, 64, 1 + self.choose(200))), self.choose(4)
        if form:
            self.workgroup, self.grid = (x, y, z), groups
        else:
            self.workgroup, self.grid = (row, 1, 1), (math.prod(groups), 1, 1)
        self.group_items = math.prod(self.workgroup)
        self.items = self.group_items * math.prod(self.grid)
        self.pinned = self.pick(_WIDTHS)
        self.width = self.pinned or 32

    # -- parameters

    def declare(self) -> None:
        """Arrays to read and to write, and scalars."""
        for _ in self.some(2, 3):
            self.declare_read()
        for number in range(1 + self.choose(2)):
            self.declare_own(number)
        for _ in range(self.choose(2) if self.shape.atomics else 0):
            self.declare_sum()
        self.digest = self.array(Input(U64, (self.items,), "C", writes=True))
        for _ in range(self.choose(3)):
            kind = self.pick(self.storage)
            self.vars.append(Var(self.parameter(kind, Input(kind, None, "C", False)), True))

    def parameter(self, kind: Scalar | ArrayType, given: Input) -> Value:
        """A parameter, fed by an argument."""
        value = Value(kind, "x" if isinstance(kind, ArrayType) else "s")
        self.params.append(Param(value, (len(self.params),)))
        self.inputs.append(given)
        return value

    def array(self, given: Input) -> Value:
        """An array; now and then its type says what is known of its strides."""
        assert given.extents is not None
        ndim = len(given.extents)
        strides = None
        if ndim and given.layout == "C" and self.chance(2):
            strides = (*(None,) * (ndim - 1), 1)
        elif ndim > 1 and given.layout == "broadcast" and self.chance(2):
            strides = (0, *(None,) * (ndim - 1))
        return self.parameter(ArrayType(given.kind, ndim, "global", None, strides), given)

    def declare_read(self) -> None:
        """An array that everybody reads, perhaps in the memory of an earlier one."""
        readable = [n for n, i in enumerate(self.inputs) if not i.writes]
        if readable and self.shape.overlaps and self.chance(4):
            number = self.pick(readable)
            given = self.overlapping(number)
        else:
            extents = tuple(1 + self.choose(9) for _ in range(self.pick((1, 2, 1, 2, 3, 0, 4))))
            layout = self.pick(LAYOUTS) if extents else "C"
            given = Input(self.pick(self.storage), extents, layout, writes=False)
        self.arrays.append(Array(self.array(given), "read"))

    def overlapping(self, number: int) -> Input:
        """The memory of another argument, as it is, backwards, or as another type."""
        other = self.inputs[number]
        layout = self.pick(("same", "flipped", "bits")) if other.extents else "same"
        same = [t for t in self.storage if t.bytes == other.kind.bytes and t.kind != "bool"]
        if layout == "bits" and other.kind.kind != "bool" and other.layout != "broadcast":
            return Input(self.pick(same), other.extents, layout, writes=False, of=number)
        layout = "same" if layout == "bits" else layout
        return Input(other.kind, other.extents, layout, writes=False, of=number)

    def declare_own(self, number: int) -> None:
        """An array of which each work-item has a row, perhaps between the rows of the last one."""
        last = len(self.inputs) - 1
        kind, layout, of = self.pick(self.storage), self.pick(("C", "reversed", "step", "F")), None
        if number and self.shape.overlaps and self.inputs[last].layout == "even":
            kind, layout, of = self.inputs[last].kind, "odd", last
        elif not number and self.shape.overlaps and self.chance(6):
            layout = "even"
        given = Input(kind, (self.items, WIDTH), layout, writes=True, of=of)
        self.arrays.append(Array(self.array(given), "own"))
        if number and self.shape.overlaps and self.chance(4):  # the last one under another name
            again = Input(kind, (self.items, WIDTH), "same", writes=True, of=len(self.inputs) - 1)
            self.arrays.append(Array(self.array(again), "own"))

    def declare_sum(self) -> None:
        """An array that all work-items update in one way."""
        kind = self.pick(SUM_KINDS)
        floats = {"add": (F32, F64), "min": self.types, "max": self.types}.get(kind, ())
        fit = [t for t in self.types if t.is_int or (t.is_float and t in floats)] or [I64]
        given = Input(self.pick(fit), (1 + self.choose(4),), "C", writes=True, zero=True)
        self.arrays.append(Array(self.array(given), "sum", kind=kind))

    def linear_ids(self) -> None:
        """The item's row of the outputs and its place in the workgroup."""
        if max(*self.workgroup[1:], *self.grid[1:]) == 1:
            self.row = self.op(ops.GLOBAL_ID, axis=0)
        else:
            self.many_ids()
        self.vars.append(Var(self.row, False))

    def meet(self) -> None:
        """Whether work-items wait for each other; memory of their own."""
        if self.shape.shared and self.chance(3):
            self.barriers = self.meets = True
            if max(self.workgroup[1:]) == 1:
                self.place = self.op(ops.LOCAL_ID, axis=0)
            self.shared()
        elif self.shape.subgroups:
            self.meets = self.chance(3)
        for _ in self.some(1, 2):
            self.private()

    def many_ids(self) -> None:
        """The same along three axes."""
        x, y, z = (self.op(ops.LOCAL_ID, axis=a) for a in range(3))
        nx, ny, nz = (self.op(ops.GROUP_SIZE, axis=a) for a in range(3))
        gx, gy, gz = (self.op(ops.GROUP_ID, axis=a) for a in range(3))
        self.place = self.line((x, y, z), (nx, ny))
        counts = (self.op(ops.NUM_GROUPS, axis=0), self.op(ops.NUM_GROUPS, axis=1))
        group = self.line((gx, gy, gz), counts)
        size = self.op(ops.MUL, self.op(ops.MUL, nx, ny), nz)
        self.row = self.op(ops.ADD, self.op(ops.MUL, group, size), self.place)

    def line(self, at: tuple[Value, ...], extents: tuple[Value, Value]) -> Value:
        """A linear index."""
        rows = self.op(ops.ADD, self.op(ops.MUL, at[2], extents[1]), at[1])
        return self.op(ops.ADD, self.op(ops.MUL, rows, extents[0]), at[0])
