"""hetIR to an Ascend C program: scalars for what is uniform, lanes under masks for the rest."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence

from hetir.backends.ascend.simd_loops import Loops
from hetir.backends.ascend.simd_program import Global
from hetir.backends.ascend.simd_reps import (
    Affine,
    Box,
    Num,
    Pointer,
    Rep,
    Uniform,
    grouped,
    minus,
    plus,
    times,
)
from hetir.backends.ascend.simd_scalar import c_type, index_expression
from hetir.backends.ascend.simd_vector_rules import CONVERSIONS, RULES
from hetir.ir import ops
from hetir.ir.core import Operation, Region, Value
from hetir.ir.types import BOOL, I64, ArrayType, RefType, Scalar
from hetir.passes.layout import accessed

_ACCESS = (ops.LOAD, ops.ATOMIC_LOAD)
_SHOWN = 56
_LAUNCH_BYTES = 48  # three counts of workgroups, then three of work-items


class Emitter(Loops):
    """Emits a lowered kernel's body; the arguments are loaded at the start."""

    rules = RULES
    conversions = CONVERSIONS

    def run(self) -> None:
        """Emit everything inside the loop over workgroups."""
        self.arguments()
        self.block_of(self.kernel.body)

    # ---- arguments and ids ---------------------------------------------------------------

    def arguments(self) -> None:
        """Pointers and scalars of the argument block."""
        _, written = accessed(self.kernel)
        self.anywhere = Global("global memory")
        self.globals = {}
        self.extents: dict[tuple[Value, str, int], Num] = {}
        for param, slot in zip(self.kernel.params, self.layout.slots, strict=True):
            value = param.value
            if isinstance(value.type, ArrayType):
                apart = self.disjoint or not written
                place = Global(value.name) if apart else self.anywhere
                self.globals[value] = place
                self.reps[value] = Pointer(self.argument_name(value), place)
                continue
            kind = value.type
            assert isinstance(kind, Scalar)
            if value not in self.users:
                continue
            stored = "uint8_t" if kind == BOOL else c_type(kind)
            text = f"LoadGlobal<{stored}>(launch, {_LAUNCH_BYTES + slot.offset})"
            text = f"{text} != 0" if kind == BOOL else text
            with self.at_start():
                name = self.scalar(c_type(kind), value.name or "argument", text)
            self.reps[value] = Uniform(name)

    def argument_name(self, value: Value) -> str:
        """The C++ parameter of an array."""
        return self.parameters[value]

    def of_array(self, op: Operation) -> Uniform:
        """An extent or stride of a parameter, loaded once."""
        (array,) = op.operands
        axis = op.attrs["axis"]
        assert isinstance(axis, int)
        key = (array, op.name, axis)
        if key not in self.extents:
            index = [p.value for p in self.kernel.params].index(array)
            slot = self.layout.slots[index]
            assert slot.ndim is not None
            number = axis if op.name == "dim" else slot.ndim + axis
            offset = _LAUNCH_BYTES + slot.offset + 8 + 8 * number
            what = "extent" if op.name == "dim" else "stride"
            text = f"LoadGlobal<int64_t>(launch, {offset})"
            with self.at_start():
                self.extents[key] = self.scalar("int64_t", f"{array.name}_{what}{axis}", text)
        return Uniform(str(self.extents[key]))

    def id_of(self, op: Operation) -> Rep:
        """A grid or local id."""
        axis = op.attrs.get("axis", 0)
        assert isinstance(axis, int)
        if op.name == "subgroup_size":
            return Uniform(str(self.kernel.options.width))
        if op.name == "local_id":
            return self._local_id(axis, 0)
        if op.name == "global_id":
            group, size = self.index("group_id", axis), self.index("group_size", axis)
            start = self.started(axis, group, size)
            return self._local_id(axis, start)
        return Uniform(str(self.index(op.name, axis)))

    def started(self, axis: int, group: Num, size: Num) -> Num:
        """The first global id of a workgroup on an axis."""
        key = ("start", axis)
        if key not in self.ids:
            with self.in_group():
                self.ids[key] = self.number(f"start_{'xyz'[axis]}", times(group, size))
        return self.ids[key]

    def _local_id(self, axis: int, base: Num) -> Rep:
        shape = self.shape
        if shape.tiled and axis > 0:
            return Uniform(str(plus(base, f"row_{'xyz'[axis]}")))
        if shape.tiled:
            return Affine(plus(base, "tile"), (1, 0, 0))
        if shape.extents[axis] == 1:
            return Uniform(str(base))
        x, y, z = (int(a == axis) for a in range(3))
        return Affine(base, (x, y, z))

    def index(self, name: str, axis: int) -> Num:
        """`group_id`, `group_size` or `num_groups` as a number or a name."""
        key = (name, axis)
        if key not in self.ids:
            letter = "xyz"[axis]
            if name == "group_size" and not self.shape.tiled:
                self.ids[key] = self.shape.extents[axis]
            elif name == "group_id":
                self.ids[key] = f"group_{letter}"
            else:
                self.ids[key] = f"{'groups' if name == 'num_groups' else 'size'}_{letter}"
        return self.ids[key]

    # ---- regions and ops -----------------------------------------------------------------

    def block_of(self, region: Region) -> None:
        """Emit a region's ops, without its terminator."""
        outer, self.region = self.region, region
        for op in region.body:
            if not op.spec.terminator:
                self.op(op)
        self.flush()
        self.region = outer

    def op(self, op: Operation) -> None:
        """Emit one op."""
        _STRUCTURE.get(op.name, Emitter.value)(self, op)

    def value(self, op: Operation) -> None:
        """Emit an op whose result is known at once, or a pure one."""
        match op.name:
            case "base":
                self.reps[op.result] = self.reps[op.operands[0]]
            case "dim" | "stride":
                self.reps[op.result] = self.of_array(op)
            case "assume_uniform":
                self.reps[op.result] = self.agreed(op)
            case _ if op.name in _IDS:
                self.reps[op.result] = self.id_of(op)
            case _:
                self.plain(op)

    def wait(self, _: Operation) -> None:
        """A barrier or fence: all lanes run an instruction together, so what is open ends here."""
        self.flush()

    def plain(self, op: Operation) -> None:
        """A pure op: of scalars, of a line, of masks, of vectors, or in a lane loop."""
        reps = [self.reps.get(v) for v in op.operands]
        if all(isinstance(r, Uniform | Pointer) for r in reps):
            self.reps[op.result] = self.uniform(op)
            return
        cond = reps[0]
        if op.name == "select" and isinstance(cond, Uniform) and cond.text in ("true", "false"):
            chosen = self.reps.get(op.operands[1 if cond.text == "true" else 2])
            if chosen is not None:
                self.reps[op.result] = chosen
                return
        special = _SPECIAL.get(op.name)
        if special is not None:
            found = special(self, op)
            if found is not None:
                self.reps[op.result] = found
                return
        found = self.of_rows(op) if self._of_numbers(op) else None
        if found is not None:
            self.reps[op.result] = found
            return
        self.at(op) if not any(self.pending(v) for v in op.operands) else None
        found = self.vectorised(op)
        if found is not None:
            self.reps[op.result] = found
        else:
            self.later(op)

    def _of_numbers(self, op: Operation) -> bool:
        """Whether the scalar unit makes a row's number of it: vectors take floats for all rows."""
        kind = op.result.type
        whole = isinstance(kind, Scalar) and kind.is_int
        return whole or op.name == "cast" or (op.name, str(op.operands[0].type)) not in self.rules

    def uniform(self, op: Operation) -> Rep:
        """An op of scalars."""
        kind = op.result.type
        if isinstance(kind, RefType):
            texts = [str(self.text_of(v)) for v in op.operands]
            text = f"{texts[0]} ? {texts[1]} : {texts[2]}"
            return Pointer(self.scalar("GM_ADDR", "chosen", text), self.anywhere)
        known = self.known_bool(op)
        if known is not None:
            return known
        folded = self.numbers(op)
        if (
            folded is not None
            and len(str(folded)) < _SHOWN
            and len(self.users.get(op.result, ())) < 2
        ):
            return Uniform(str(folded))
        args = [self.grouped_text(v) for v in op.operands]
        text = index_expression(op, args, op.result not in self.safe)
        if folded is not None:
            text = str(folded)
        if op.spec is ops.CONST or text in args or (grouped(text) == text and len(text) < _SHOWN):
            return Uniform(text)
        uses = len(self.users.get(op.result, ()))
        if uses <= 1 and len(text) < _SHOWN:
            return Uniform(text)
        self.at(op)
        return Uniform(self.scalar(c_type(kind), op.result.name or op.name, text))

    def known_bool(self, op: Operation) -> Uniform | None:
        """A comparison of two numbers."""
        compare = _NUMERIC.get(op.name)
        if compare is None or op.operands[0].type != I64:
            return None
        a, b = (_num(self.text_of(v)) for v in op.operands)
        if not isinstance(a, int) or not isinstance(b, int):
            return None
        return Uniform("true" if compare(a, b) else "false")

    def numbers(self, op: Operation) -> Num | None:
        """i64 sums and products with what is a number folded."""
        if op.result.type != I64 or op.name not in _FOLDED or op.result not in self.safe:
            return None
        a, b = (_num(self.text_of(v)) for v in op.operands)
        return _FOLDED[op.name](a, b)

    # ---- lines ---------------------------------------------------------------------------

    def line(self, op: Operation) -> Rep | None:
        """i64 sums, differences and multiples of lines."""
        if op.result.type != I64:
            return None
        parts = [self.as_line(v) for v in op.operands]
        if any(p is None for p in parts):
            return None
        a, b = parts
        assert a is not None
        assert b is not None
        if op.name == "mul":
            if any(f != 0 for f in a.factors):
                a, b = b, a
            if any(f != 0 for f in a.factors):
                return None
            scale = self.number("scale", a.base)
            x, y, z = (times(f, scale) for f in b.factors)
            base = times(b.base, scale)
        else:
            join = plus if op.name == "add" else minus
            x, y, z = (join(f, g) for f, g in zip(a.factors, b.factors, strict=True))
            base = join(a.base, b.base)
        hint = op.result.name or "base"
        base = self.number(hint, base) if _long(base, self.users.get(op.result, ())) else base
        x, y, z = (self.number("step", f) for f in (x, y, z))
        return Affine(base, (x, y, z))

    def as_line(self, value: Value) -> Affine | None:
        """A value as a line over the lanes."""
        rep = self.reps.get(value)
        if isinstance(rep, Uniform):
            return Affine(_num(rep.text), (0, 0, 0))
        return rep if isinstance(rep, Affine) else None

    def shifted_line(self, op: Operation) -> Rep | None:
        """A line shifted left by a number."""
        rep, count = self.reps.get(op.operands[0]), self.reps.get(op.operands[1])
        known = isinstance(count, Uniform) and count.text.isdigit()
        if op.result.type != I64 or not isinstance(rep, Affine) or not known:
            return None
        assert isinstance(count, Uniform)
        scale = 1 << int(count.text) % 64
        x, y, z = (times(f, scale) for f in rep.factors)
        return Affine(times(rep.base, scale), (x, y, z))

    # ---- ranges of lanes -----------------------------------------------------------------

    def compared(self, op: Operation) -> Rep | None:
        """A line along one axis against a scalar: a range of lanes."""
        a, b = (self.reps.get(v) for v in op.operands)
        name = op.name
        if isinstance(a, Uniform):
            a, b, name = b, a, _MIRRORED.get(name, name)
        line = op.operands[0] if a is self.reps.get(op.operands[0]) else op.operands[1]
        if not (isinstance(a, Affine) and isinstance(b, Uniform)) or len(a.axes) != 1:
            return None
        (axis,) = a.axes
        factor = a.factors[axis]
        if line not in self.safe or not isinstance(factor, int) or factor < 1 or name == "ne":
            return None
        if name == "eq" and factor != 1:
            return None
        self.at(op)
        extent = self.shape.extents[axis]
        names = {"lt": "LanesBelow", "ge": "LanesBelow"}
        end = self.lanes_end(names.get(name, "LanesUpTo"), a.base, _num(b.text), axis, factor)
        bound: tuple[Num, Num] = (0, end)
        if name in ("ge", "gt"):
            bound = (end, extent)
        elif name == "eq":
            bound = (self.lanes_end("LanesBelow", a.base, _num(b.text), axis, 1), end)
        return self.box({axis: bound})

    def box(self, bounds: Mapping[int, tuple[Num, Num]]) -> Box:
        """A range on some axes."""
        x, y, z = (bounds.get(a) for a in range(3))
        return Box((x, y, z))

    def joined(self, op: Operation) -> Rep | None:
        """Both of two ranges."""
        if op.result.type != BOOL:
            return None
        a, b = (self.reps.get(v) for v in op.operands)
        if isinstance(a, Box) and isinstance(b, Box):
            return self.intersect(a, b)
        if isinstance(a, Uniform):
            a, b = b, a
        if isinstance(a, Box) and isinstance(b, Uniform) and a.single is not None:
            low, high = a.bounds[a.single] or (0, 0)
            end = self.scalar("int32_t", "lanes_end", f"{b.text} ? {high} : {low}")
            return self.box({a.single: (low, end)})
        return None

    def reversed(self, op: Operation) -> Rep | None:
        """The lanes outside a range that touches an end."""
        rep = self.reps.get(op.operands[0])
        return self.outside(rep) if isinstance(rep, Box) else None


def _num(text: Num) -> Num:
    return int(text) if isinstance(text, str) and re.fullmatch(r"-?\d+", text) else text


def _long(base: Num, users: Sequence[Operation]) -> bool:
    return isinstance(base, str) and (len(base) > 40 or (len(users) > 1 and " " in base))


_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_FOLDED: Mapping[str, Callable[[Num, Num], Num]] = {"add": plus, "sub": minus, "mul": times}
_NUMERIC: Mapping[str, Callable[[int, int], bool]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}
_SPECIAL: Mapping[str, Callable[[Emitter, Operation], Rep | None]] = {
    **dict.fromkeys(("add", "sub", "mul"), Emitter.line),
    "shl": Emitter.shifted_line,
    **dict.fromkeys(("lt", "le", "gt", "ge", "eq", "ne"), Emitter.compared),
    "and": Emitter.joined,
    "not": Emitter.reversed,
}
_STRUCTURE: Mapping[str, Callable[[Emitter, Operation], None]] = {
    "if": Emitter.branch,
    "for": Emitter.counted,
    "loop": Emitter.loop,
    **dict.fromkeys(("load", "atomic.load"), Emitter.load),
    **dict.fromkeys(("store", "atomic.store"), Emitter.store),
    **dict.fromkeys(("atomic.rmw", "atomic.cas"), Emitter.atomic),
    "alloc": Emitter.alloc,
    **dict.fromkeys(("barrier", "fence"), Emitter.wait),
    "shuffle": Emitter.shuffle,
    **dict.fromkeys(("lane_id", "subgroup_id"), Emitter.later),
}
_IDS = frozenset(("local_id", "group_id", "group_size", "num_groups", "global_id", "subgroup_size"))
