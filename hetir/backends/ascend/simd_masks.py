"""Which lanes are on: ranges of local ids where conditions are lines, bits where they are not."""

from __future__ import annotations

import re

from hetir.backends.ascend.simd_program import (
    Access,
)
from hetir.backends.ascend.simd_reps import (
    FULL,
    Bits,
    Box,
    Mask,
    Num,
    Rep,
    Uniform,
    grouped,
    plus,
)
from hetir.backends.ascend.simd_scalar import c_type
from hetir.backends.ascend.simd_subgroups import Subgroups
from hetir.ir.core import Operation


class Masks(Subgroups):
    """The masks of a kernel."""

    def intersect(self, a: Box, b: Box) -> Box:
        """The lanes in both ranges."""
        bounds: list[tuple[Num, Num] | None] = []
        for axis, (one, two) in enumerate(zip(a.bounds, b.bounds, strict=True)):
            if one is None or two is None or one == two:
                bounds.append(one or two)
                continue
            low, extent = self._most(one[0], two[0], "Greater"), self.shape.extents[axis]
            ends = [e for e in (one[1], two[1]) if e != extent]  # none lies beyond it
            high = self._most(ends[0], ends[-1], "Lesser") if ends else extent
            bounds.append((low, high))
        return Box((bounds[0], bounds[1], bounds[2]))

    def _most(self, a: Num, b: Num, name: str) -> Num:
        if a == b:
            return a
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b) if name == "Greater" else min(a, b)
        if name == "Greater" and 0 in (a, b):
            return b if a == 0 else a
        return self.scalar("int32_t", "lanes_end", f"{name}<int32_t>({a}, {b})")

    def outside(self, box: Box) -> Box | None:
        """The lanes outside a range that touches an end of its only axis."""
        axis = box.single
        if axis is None:
            return None
        low, high = box.bounds[axis] or (0, 0)
        extent = self.shape.extents[axis]
        if low == 0:
            bound = (high, extent)
        elif high == extent:
            bound = (0, low)
        else:
            return None
        x, y, z = (bound if a == axis else None for a in range(3))
        return Box((x, y, z))

    def lanes_end(self, name: str, first: Num, stop: Num, axis: int, factor: int) -> Num:
        """How many lanes of an axis lie below a number, or not above it."""
        extent = self.shape.extents[axis]
        if isinstance(first, int) and isinstance(stop, int):
            room = stop - first - (name == "LanesBelow")
            return min(max(room // factor + 1, 0), extent)
        steps = f", {factor}" if factor != 1 else ""
        text = f"{name}({first}, {stop}, {extent}{steps})"
        return self.scalar("int32_t", "lanes_end", text)

    def both(self, mask: Mask, cond: Rep) -> Mask:
        """The lanes of a mask where a condition holds."""
        if isinstance(mask, Box) and isinstance(cond, Box):
            return self.intersect(mask, cond)
        if mask == FULL:
            assert isinstance(cond, Bits)
            return cond
        return self.bits_op("And", self.rep_bits(mask), self.rep_bits(cond))

    def without(self, mask: Mask, cond: Rep) -> Mask:
        """The lanes of a mask where a condition does not hold."""
        if isinstance(cond, Box):
            rest = self.outside(cond)
            if rest is not None:
                return self.both(mask, rest)
        off = self.bits_op("Not", self.rep_bits(cond))
        return self.both(mask, off)

    def any_of(self, mask: Mask) -> str:
        """C++ text that is true where a lane is on."""
        if isinstance(mask, Box):
            tests = [f"{low} < {high}" for low, high in filter(None, mask.bounds)]
            return " && ".join(tests) if tests else "true"
        text = f"AnyLane({mask.buffer.name}, {self.shape.items})"
        return self.scalar("bool", "some", text, [Access(mask.buffer)])

    def agreed(self, op: Operation) -> Rep:
        """A value that the kernel promises to be the same for all work-items."""
        value = op.operands[0]
        if self.pending(value):
            self.flush()
        rep = self.reps[value]
        if isinstance(rep, Uniform):
            return rep
        lane = self.first_lane()
        text, reads = self.rep_text(rep, value.type)
        coords = dict(
            zip(("item_x", "item_y", "item_z"), _split(self.shape.extents, lane), strict=True)
        )
        text = re.sub(r"\blane\b", lane, text)
        for name, shown in coords.items():
            text = re.sub(rf"\b{name}\b", shown, text)
        return Uniform(self.scalar(c_type(value.type), op.result.name or "agreed", text, reads))

    def first_lane(self) -> str:
        """The first lane that is on."""
        if isinstance(self.mask, Bits):
            text = f"FirstLane({self.mask.buffer.name}, {self.shape.items})"
            return self.scalar("int32_t", "first", text, [Access(self.mask.buffer)])
        x, y, z = (b[0] if b else 0 for b in self.mask.bounds)
        gx, gy, _ = self.shape.extents
        return (
            str(plus(x, f"{gx} * ({plus(y, f'{gy} * {grouped(str(z))}')})")) if y or z else str(x)
        )


def _split(extents: tuple[int, int, int], lane: str) -> tuple[str, str, str]:
    """A lane's local ids."""
    gx, gy, _ = extents
    return f"({lane} % {gx})", f"({lane} / {gx} % {gy})", f"({lane} / {gx * gy})"
