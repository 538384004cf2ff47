"""Ops of the vector unit, and exact sequences of them for ops that it lacks.

Every lane is computed, whether it is on or not: pure ops have no faults. What has no rule here
runs in a lane loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from hetir.backends.ascend.simd_program import Buffer
from hetir.backends.ascend.simd_reps import (
    FULL,
    Affine,
    Bits,
    Box,
    Mask,
    Num,
    Rep,
    Row,
    Tensor,
    Uniform,
    grouped,
)
from hetir.backends.ascend.simd_rows import Rows
from hetir.backends.ascend.simd_state import storage
from hetir.ir.core import Operation, Value
from hetir.ir.types import BOOL, F32, RefType, Scalar, Type


class Vectors(Rows):
    """Vector instructions of a kernel; `rules` and `conversions` say which ops have them."""

    rules: ClassVar[Mapping[tuple[str, str], Rule]]
    conversions: ClassVar[Mapping[tuple[str, str, str], Rule]]

    # ---- instructions --------------------------------------------------------------------

    def vector(
        self,
        name: str,
        dst: Tensor | Bits,
        *sources: Tensor | Bits | str,
        kind: str | None = None,
        count: str = "kLanes",
        tail: str = "",
    ) -> None:
        """Append `name(dst, sources, count)`; tensors are seen as elements of `kind`."""
        texts = [self.operand(r, kind) for r in (dst, *sources)]
        reads = [self.access(r) for r in sources if not isinstance(r, str)]
        end = f", {tail}" if tail else ""
        line = f"{name}({', '.join(texts)}{end}, {count});"
        self.instr("V", line, reads, [self.access(dst)], op=name)

    def operand(self, rep: Tensor | Bits | str, kind: str | None) -> str:
        """The text of an operand of an instruction."""
        if isinstance(rep, str):
            return rep
        if isinstance(rep, Bits):
            seen = kind or "uint8_t"
            name = rep.buffer.name
            return name if seen == "uint8_t" else f"{name}.ReinterpretCast<{seen}>()"
        return rep.text(kind)

    def temp(self, kind: str, hint: str = "t") -> Tensor:
        """A tensor for an intermediate or a result."""
        return Tensor(self.buffer(hint, kind), kind)

    def temp_bits(self, hint: str = "m") -> Bits:
        """A mask for an intermediate or a result."""
        return Bits(self.bits_buffer(hint))

    def duplicate(self, text: str, kind: str, hint: str = "same") -> Tensor:
        """A value in every lane; elements of 16 or 32 bits."""
        made = self.temp(kind, hint)
        self.vector("Duplicate", made, text)
        return made

    # ---- operands ------------------------------------------------------------------------

    def tensor(self, value: Value) -> Tensor:
        """A value's lanes in a buffer, as elements of its type's C++ type."""
        if self.pending(value):
            self.flush()
        rep = self.reps[value]
        if isinstance(rep, Tensor):
            return rep
        found = self.row_lanes.get(value)
        if found is not None and found[0] in self.stack:
            return found[1]
        made = self.buffer_for(value.type, value.name or "lanes")
        self.assign(made, value, FULL)
        held = self.held(made, value.type)
        assert isinstance(held, Tensor)
        if isinstance(rep, Row):
            self.row_lanes[value] = (self.block, held)
        return held

    def mask_of(self, value: Value) -> Bits:
        """A bool's lanes as bits in a buffer."""
        if self.pending(value):
            self.flush()
        return self.rep_bits(self.reps[value])

    def rep_bits(self, rep: Rep) -> Bits:
        """A rep of a bool as bits in a buffer."""
        match rep:
            case Bits():
                return rep
            case Box():
                return self.box_bits(rep)
            case Uniform():
                made = self.temp_bits()
                self.fill_bits(made, rep.text)
                return made
            case _:
                raise AssertionError("not a bool")

    def fill_bits(self, made: Bits, text: str) -> None:
        """All lanes true, or none."""
        known = {"true": "0xffff", "false": "0"}
        value = known.get(text, f"static_cast<uint16_t>({text} ? 0xffff : 0)")
        self.vector("Duplicate", made, value, kind="uint16_t", count=self.mask_units)

    @property
    def mask_units(self) -> str:
        """The 16-bit units of a mask."""
        return str(max(32, self.shape.lanes // 8) // 2)

    def box_bits(self, box: Box) -> Bits:
        """A range of lanes as bits: the lanes' local ids compared with its ends."""
        found = self.mask_bits.get(box)
        if found is not None and found[0] in self.stack:
            return found[1]
        parts: list[Bits] = []
        for axis, bound in enumerate(box.bounds):
            if bound is None:
                continue
            ids = self.local_floats(axis)
            ends = [("LT", bound[1])] if bound[0] == 0 else [("GE", bound[0]), ("LT", bound[1])]
            for mode, end in ends:
                made = self.temp_bits("on")
                scalar = f"static_cast<float>({end})" if isinstance(end, str) else f"{end}.0f"
                self.vector("CompareScalar", made, ids, scalar, tail=f"CMPMODE::{mode}")
                parts.append(made)
        if not parts:
            parts.append(self.temp_bits("on"))
            self.fill_bits(parts[0], "true")
        result = parts[0]
        for other in parts[1:]:
            result = self.bits_op("And", result, other)
        self.mask_bits[box] = (self.block, result)
        return result

    def bits_op(self, name: str, *sources: Bits, into: Bits | None = None) -> Bits:
        """And, Or or Not of masks."""
        made = into or self.temp_bits()
        self.vector(name, made, *sources, kind="uint16_t", count=self.mask_units)
        return made

    # ---- tables --------------------------------------------------------------------------

    def local_floats(self, axis: int) -> Tensor:
        """The local ids of an axis as floats, made once."""
        key = ("floats", axis)
        if key not in self.tables:
            with self.at_start():
                self.tables[key] = self._local("float", axis)
        return self.tables[key]

    def lane_numbers(self) -> Tensor:
        """The lanes' numbers as int32, made once."""
        if "numbers" not in self.tables:
            with self.at_start():
                made = self.temp("int32_t", "lane_number")
                self.vector("CreateVecIndex", made, "0")
                self.tables["numbers"] = made
        return self.tables["numbers"]

    def _local(self, kind: str, axis: int) -> Tensor:
        made = self.temp(kind, f"local_{'xyz'[axis]}")
        if self.shape.flat:
            self.vector("CreateVecIndex", made, "0.0f")
            return made
        coord = self.coords[axis]
        self.fill_table(made, f"static_cast<{kind}>({coord})", "0.0f")
        return made

    def fill_table(self, made: Tensor, text: str, beyond: str) -> None:
        """A table by a lane loop; the lanes past the work-items get `beyond`."""
        lines, _ = self.lane_loop(FULL, [f"{made.text()}.SetValue(lane, {text});"])
        if self.shape.items < self.shape.lanes:
            head = f"for (int32_t lane = {self.shape.items}; lane < kLanes; ++lane) {{"
            lines += [head, f"    {made.text()}.SetValue(lane, {beyond});", "}"]
        self.instr("S", lines, (), [self.access(made)])

    def offsets(self, factors: Sequence[int]) -> Tensor:
        """For each lane the byte offset that its local ids give, made once."""
        key = ("offsets", *factors)
        if key not in self.tables:
            with self.at_start():
                made = self.temp("uint32_t", "offsets")
                line = Affine(0, (factors[0], factors[1], factors[2])).at(self.coords)
                self.fill_table(made, f"static_cast<uint32_t>({line})", "0")
                self.tables[key] = made
        return self.tables[key]

    # ---- writing a value into a buffer ---------------------------------------------------

    def assign(
        self, buffer: Buffer, value: Value, mask: Mask, user: Operation | None = None
    ) -> None:
        """Make a buffer hold a value, in the lanes of `mask` at least; others keep theirs.

        With FULL every lane may be written. A pending value is written when its group closes.
        """
        if self.pending(value):
            self.group.exports.append((value, buffer))
            if user is not None:
                self.group.satisfied.add((value, user))
            return
        rep = self.reps[value]
        if value.type == BOOL:
            self.assign_bits(Bits(buffer), rep, mask)
        else:
            self.assign_lanes(Tensor(buffer, buffer.kind), rep, value.type, mask)

    def assign_lanes(self, to: Tensor, rep: Rep, kind: Type, mask: Mask) -> None:
        """As `assign`, to a tensor, from a rep of a type."""
        if isinstance(rep, Tensor):
            self._assign_tensor(to, rep, mask)
        elif isinstance(rep, Uniform) and to.buffer.size in (2, 4):
            if mask == FULL:
                self.vector("Duplicate", to, rep.text)
                return
            self._assign_tensor(to, self.duplicate(rep.text, to.buffer.kind), mask)
        elif not (isinstance(rep, Row) and self.duplicate_rows(to, rep, mask)):
            if isinstance(rep, Row) and mask == FULL:
                mask = self.mask  # what a row reads is there for lanes that are on
            text, reads = self.rep_text(rep, kind)
            if isinstance(kind, RefType):
                text = f"reinterpret_cast<uint64_t>({text})"
            lines, more = self.lane_loop(mask, [f"{to.text()}.SetValue(lane, {text});"])
            self.instr("S", lines, (*reads, *more), [self.access(to)])

    def _assign_tensor(self, to: Tensor, rep: Tensor, mask: Mask) -> None:
        if rep == to:
            return
        size = to.buffer.size
        prefix = mask.prefix() if isinstance(mask, Box) and self.shape.flat else None
        if mask == FULL or (prefix is not None and size > 1):
            self.copy_lanes(to, rep, prefix)
            return
        if size in (2, 4):
            self.blend(to, self.rep_bits(mask), rep, to)
            return
        body = [f"{to.text()}.SetValue(lane, {rep.text(to.kind)}.GetValue(lane));"]
        lines, more = self.lane_loop(mask, body)
        self.instr("S", lines, (self.access(rep), *more), [self.access(to)])

    def copy_lanes(self, to: Tensor, rep: Tensor, prefix: Num | None) -> None:
        """Copy all lanes, or the first ones."""
        size = to.buffer.size
        if prefix is None:
            units = str(self.shape.lanes * size // 2)
        else:
            units = str(prefix) if size == 2 else f"{grouped(str(prefix))} * {size // 2}"
        line = f"CopyLanes({to.text()}, {rep.text(to.kind)}, {units});"
        self.instr("V", line, [self.access(rep)], [self.access(to)], op="Or")

    def assign_bits(self, to: Bits, rep: Rep, mask: Mask) -> None:
        """As `assign`, to a mask."""
        source = self.rep_bits(rep)
        if mask == FULL:
            self.bits_op("Or", source, source, into=to)
            return
        on = self.rep_bits(mask)
        kept = self.bits_op("And", to, self.bits_op("Not", on))
        self.bits_op("Or", kept, self.bits_op("And", source, on), into=to)

    def blend(self, to: Tensor, on: Bits, yes: Tensor, no: Tensor) -> None:
        """`to` = `on` ? `yes` : `no`, whatever the bits mean."""
        kind = "float" if to.buffer.size == 4 else "half"
        texts = [self.operand(r, kind) for r in (to, yes, no)]
        line = (
            f"Select({texts[0]}, {on.buffer.name}, {texts[1]}, {texts[2]}, "
            "SELMODE::VSEL_TENSOR_TENSOR_MODE, kLanes);"
        )
        reads = [self.access(r) for r in (on, yes, no)]
        self.instr("V", line, reads, [self.access(to)], op="Select")

    # ---- choosing ------------------------------------------------------------------------

    def vectorised(self, op: Operation) -> Rep | None:
        """The op by vector instructions, or None where there is no rule or it would not pay."""
        kinds = [v.type for v in op.operands]
        if not kinds or not all(isinstance(k, Scalar) for k in kinds):
            return None
        name = str(kinds[1] if op.name == "select" else kinds[0])
        if op.name in ("cast", "bitcast"):
            rule = self.conversions.get((op.name, name, str(op.attrs["to"])))
        else:
            rule = self.rules.get((op.name, name))
        if rule is None or not self._pays(op):
            return None
        return rule(self, op)

    def _pays(self, op: Operation) -> bool:
        """Cheap ops on what a lane loop makes stay in it; float arithmetic leaves it."""
        varying = [v for v in op.operands if not isinstance(self.reps.get(v), Uniform)]
        if any(isinstance(self.reps.get(v), Affine) for v in varying):
            return op.name == "cast"
        if not all(self.pending(v) for v in varying):
            return True
        return op.operands[0].type == F32 and op.name not in ("bitcast", "cast", "select")

    def scalar_text(self, value: Value) -> str | None:
        """The text of a uniform operand."""
        rep = self.reps.get(value)
        return rep.text if isinstance(rep, Uniform) else None

    def result(self, op: Operation, kind: str | None = None) -> Tensor:
        """A tensor for an op's result."""
        return self.temp(kind or storage(op.result.type), op.result.name or op.name)

    def result_bits(self, op: Operation) -> Bits:
        """A mask for an op's result."""
        return self.temp_bits(op.result.name or op.name)


Rule = Callable[[Any, Operation], "Rep | None"]
