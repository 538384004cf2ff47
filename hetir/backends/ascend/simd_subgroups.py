"""Subgroup operations: another lane's value by Gather, or in a lane loop."""

from __future__ import annotations

import re

from hetir.backends.ascend.simd_memory import Memory
from hetir.backends.ascend.simd_program import (
    Access,
)
from hetir.backends.ascend.simd_reps import (
    FULL,
    Affine,
    Bits,
    Box,
    Rep,
    Row,
    Tensor,
    Uniform,
)
from hetir.backends.ascend.simd_scalar import c_type
from hetir.ir.core import Operation, Value
from hetir.ir.types import BOOL, I64


class Subgroups(Memory):
    """The subgroup operations of a kernel; reductions and scans are expanded to shuffles."""

    def shuffle(self, op: Operation) -> None:
        """Another lane's value, or 0 from one that is not there or takes no part."""
        self.flush()
        self.at(op)
        found = self._shuffled_vector(op)
        if found is None:
            found = self._shuffled_lanes(op)
        self.reps[op.result] = found

    def _shuffled_lanes(self, op: Operation) -> Rep:
        value, index, where = op.operands
        width, mode = self.kernel.options.width, str(op.attrs["mode"])
        source = self.held_lanes(value)
        to = self.buffer_for(op.result.type, op.result.name or "shuffled")
        at, reads = self.rep_text(self.reps[index], I64)
        own = f"lane % {width}"
        column = {
            "index": at,
            "xor": f"({own} ^ {at})",
            "up": f"({own} - {at})",
            "down": f"({own} + {at})",
        }[mode]
        text, more = self.rep_text(source, value.type)
        part, parts = self.rep_text(self.held_lanes(where), BOOL)
        text, part = (re.sub(r"\blane\b", "from", t) for t in (text, part))
        zero = "false" if value.type == BOOL else f"static_cast<{c_type(value.type)}>(0)"
        there = f"column >= 0 && column < {width} && from < {self.shape.items}"
        taken = there if part == "true" else f"{there} && {part}"
        body = [
            f"const int64_t column = {column};",
            f"const int32_t from = lane / {width} * {width} + static_cast<int32_t>(column);",
        ]
        chosen = f"{taken} ? {text} : {zero}"
        put = f"SetBit({to.name}, lane, {chosen});"
        if value.type != BOOL:
            put = f"{to.name}.SetValue(lane, {chosen});"
        lines, over = self.lane_loop(self.mask, [*body, put])
        if value.type == BOOL:
            lines = [f"ClearMask({to.name}, kLanes);", *lines]
        self.scalar_ops += 1
        held = self.held(to, op.result.type)
        own_bits = [Access(to)] if value.type == BOOL else []
        touched = (*reads, *more, *parts, *over, *own_bits)
        self.instr("S", lines, touched, [Access(to)], op="lanes")
        return held

    def held_lanes(self, value: Value) -> Rep:
        """A value as something of which any lane can be read."""
        rep = self.reps[value]
        if isinstance(rep, Affine | Box | Row):
            return self.rep_bits(rep) if isinstance(rep, Box) else self.tensor(value)
        return rep

    def _shuffled_vector(self, op: Operation) -> Rep | None:
        """By Gather, where the lane's distance is one number and all lanes take part."""
        value, index, where = op.operands
        known, part = self.reps[index], self.reps[where]
        numeric = isinstance(known, Uniform) and known.text.isdigit()
        everyone = isinstance(part, Uniform) and part.text == "true"
        if not numeric or not everyone or value.type == BOOL:
            return None
        assert isinstance(known, Uniform)
        rep = self.reps[value]
        if isinstance(rep, Affine) or (isinstance(rep, Tensor) and rep.buffer.size not in (2, 4)):
            return None
        source = self.tensor(value)
        if source.buffer.size not in (2, 4):
            return None
        table, there = self.lane_table(str(op.attrs["mode"]), int(known.text), source.buffer.size)
        made = Tensor(self.buffer(op.result.name or "shuffled", source.kind), source.kind)
        line = f"Gather({made.text()}, {source.text()}, {table.text()}, 0, kLanes);"
        self.instr(
            "V", line, [self.access(source), self.access(table)], [self.access(made)], op="Gather"
        )
        if there is None:
            return made
        zero = self.duplicate("0", source.kind, "zero")
        chosen = Tensor(self.buffer("there", source.kind), source.kind)
        self.blend(chosen, there, made, zero)
        return chosen

    def lane_table(self, mode: str, distance: int, size: int) -> tuple[Tensor, Bits | None]:
        """Where each lane reads, in bytes, and which lanes read one that is there."""
        width, items = self.kernel.options.width, self.shape.items
        sources = [_source(mode, lane, distance, width, items) for lane in range(items)]
        key = ("shuffle", mode, distance, size)
        if key not in self.tables:
            own = f"lane % {width}"
            moved = {
                "index": str(distance),
                "xor": f"({own} ^ {distance})",
                "up": f"({own} - {distance})",
                "down": f"({own} + {distance})",
            }[mode]
            with self.at_start():
                made = self.temp("uint32_t", "from_lanes")
                text = f"static_cast<uint32_t>({size} * (lane / {width} * {width} + {moved}))"
                there = f"column >= 0 && column < {width} && from < {items}"
                if None in sources:
                    body = [
                        f"const int32_t column = {moved};",
                        f"const int32_t from = lane / {width} * {width} + column;",
                        f"const bool inside = {there};",
                        f"{made.text()}.SetValue(lane, inside ? {size} * from : 0);",
                    ]
                    bits = Bits(self.bits_buffer("there"))
                    body.append(f"SetBit({bits.buffer.name}, lane, inside);")
                    self._fill(made, bits, body)
                    self.there[key] = bits
                else:
                    self.fill_table(made, text, "0")
                self.tables[key] = made
        return self.tables[key], self.there.get(key)

    there: dict[object, Bits]

    def _fill(self, made: Tensor, bits: Bits, body: list[str]) -> None:
        lines, _ = self.lane_loop(FULL, body)
        if self.shape.items < self.shape.lanes:
            head = f"for (int32_t lane = {self.shape.items}; lane < kLanes; ++lane) {{"
            lines += [head, f"    {made.text()}.SetValue(lane, 0);", "}"]
        lines = [f"ClearMask({bits.buffer.name}, kLanes);", *lines]
        self.instr("S", lines, [Access(bits.buffer)], [self.access(made), Access(bits.buffer)])


def _source(mode: str, lane: int, distance: int, width: int, items: int) -> int | None:
    own = lane % width
    moved = {"index": distance, "xor": own ^ distance, "up": own - distance}
    column = moved.get(mode, own + distance)
    source = lane - own + column
    return source if 0 <= column < width and source < items else None
