"""Loads and stores: whole rows by the copy engines, shared arrays by Gather, the rest by lanes."""

from __future__ import annotations

from collections.abc import Sequence

from hetir.backends.ascend.simd_numbers import divided
from hetir.backends.ascend.simd_program import Access, Block, Branch, Buffer, Global, Instr
from hetir.backends.ascend.simd_reps import (
    FULL,
    Affine,
    Array,
    Box,
    Num,
    Pointer,
    Rep,
    Row,
    Tensor,
    Uniform,
    grouped,
    minus,
    plus,
    times,
)
from hetir.backends.ascend.simd_scalar import c_type
from hetir.backends.ascend.simd_state import storage
from hetir.backends.ascend.simd_vector import Vectors
from hetir.ir import ops
from hetir.ir.core import Operation, Region, walk
from hetir.ir.types import BOOL, ArrayType, Scalar

_BLOCK = 32
_WRITERS = (ops.STORE, ops.ATOMIC_STORE, ops.ATOMIC_RMW, ops.ATOMIC_CAS)
_ADDED = frozenset({"f32", "f16", "bf16", "i32", "u32", "i16", "i8"})
_COMPARED = frozenset({"i32", "i16", "i8"})


class Memory(Vectors):
    """The accesses of a kernel."""

    region: Region

    def lanes_name(self, op: Operation) -> str:
        """A name for what an access of an array loads."""
        rep = self.reps.get(op.operands[0])
        if isinstance(rep, Array):
            return f"{rep.buffer.name}_lanes"
        return (
            f"{rep.text}_lanes" if isinstance(rep, Pointer) and rep.text.isidentifier() else "lanes"
        )

    # ---- loads ---------------------------------------------------------------------------

    def load(self, op: Operation) -> None:
        """A plain load, or an atomic one that no other workgroup is waited for with."""
        self._check_atomic_load(op)
        target = self.reps.get(op.operands[0])
        rep = None
        if isinstance(target, Array):
            rep = self._load_local(op, target)
        elif isinstance(target, Pointer):
            rep = self._load_global(op, target)
        if rep is not None:
            self.reps[op.result] = rep
            return
        if self.group.scatters and not isinstance(target, Array):
            self.flush()
        self.group.loads |= not isinstance(target, Array)
        self.group.memory = True
        self.later(op)

    def _check_atomic_load(self, op: Operation) -> None:
        wide = op.attrs.get("scope") in ("device", "system")
        if op.spec is ops.ATOMIC_LOAD and wide:
            raise self.refuse(op, "waiting for other workgroups is not available")

    def _load_global(self, op: Operation, target: Pointer) -> Rep | None:
        kind, offset = _element(op), self.reps.get(op.operands[1])
        if isinstance(offset, Uniform):
            if self.group.scatters:
                self.flush()
            self.at(op)
            text = f"LoadGlobal<{storage(kind)}>({target.text}, {offset.text})"
            text = f"{text} != 0" if kind == BOOL else text
            name = self.scalar(
                c_type(kind), op.result.name or "loaded", text, [Access(target.place)]
            )
            return Uniform(name)
        row = self.row(op.operands[1])
        if row is not None and row.step == 0 and not self.shape.flat:
            return self.load_rows(op, target, row)
        if not isinstance(offset, Affine | Row) or not self._rows(offset, kind):
            return None
        assert isinstance(self.mask, Box)
        if not self.chip.pads and (self.mask.bounds[0] or (0, 0))[0] != 0:
            return None  # only a padding copy begins within a block
        if self.group.scatters:
            self.flush()
        self.at(op)
        made = Tensor(
            self.buffer(op.result.name or self.lanes_name(op), storage(kind)), storage(kind)
        )
        lines = self._row_copies(offset, kind, made, target, into=True)
        if isinstance(offset, Row) and offset.reads:
            self.instr("S", [], offset.reads)
        self.instr("MTE2", lines, [Access(target.place)], [self.access(made)], op="CopyIn")
        return made

    def _rows(self, offset: Affine | Row, kind: Scalar) -> bool:
        """Whether lanes that agree in y and z lie one after the other, and can be copied so."""
        step = offset.step if isinstance(offset, Row) else offset.factors[0]
        if kind == BOOL or not isinstance(self.mask, Box) or step != kind.bytes:
            return False
        several = any(a > 0 for a in self.shape.axes)
        return not several or self.shape.extents[0] * kind.bytes % _BLOCK == 0

    def _row_copies(
        self,
        offset: Affine | Row,
        kind: Scalar,
        made: Tensor,
        target: Pointer,
        *,
        into: bool,
        shifted: bool = False,
    ) -> list[str]:
        """A copy of each row; `made` holds the lanes where they belong."""
        assert isinstance(self.mask, Box)
        bounds = [b or (0, n) for b, n in zip(self.mask.bounds, self.shape.extents, strict=True)]
        (low, high), per = bounds[0], _BLOCK // kind.bytes
        x, y, z = self.coords
        gx, gy, _ = self.shape.extents
        row: Num = 0 if self.shape.flat else times(gx, plus(y, times(gy, z)))
        del x
        first, left = (0, 0) if shifted else _aligned(low, per)
        start = plus(row, first)
        place = made.text() if start == 0 else f"{made.buffer.name}[{start}]"
        at = offset.at((low, y, z))
        count = minus(high, low)
        whole = "" if self.chip.pads else "Blocks"
        if into:
            extra = f", {left}" if left != 0 else ""
            line = f"Copy{whole}In({place}, {target.text}, {at}, {count}{extra});"
        else:
            line = f"Copy{whole}Out({target.text}, {at}, {place}, {count});"
        return self.each_row(bounds, line)

    def _store_tails(self, lines: Sequence[str], value: Tensor, kind: Scalar, to: Global) -> None:
        """Where copies are of whole blocks, what a row has after the last one."""
        assert isinstance(self.mask, Box)
        low, high = self.mask.bounds[0] or (0, self.shape.extents[0])
        count, per = minus(high, low), _BLOCK // kind.bytes
        if self.chip.pads or (isinstance(count, int) and count % per == 0):
            return
        tails = [line.replace("CopyBlocksOut", "StoreTail") for line in lines]
        body = Instr("S", tails, (self.access(value),), (Access(to),), op="lanes")
        if isinstance(count, int):
            self.block.nodes.append(body)
        else:
            cond = f"{grouped(count)} % {per} != 0"
            self.block.nodes.append(Branch(cond, Block([body]), Block()))

    # ---- stores --------------------------------------------------------------------------

    def store(self, op: Operation) -> None:
        """A store; atomic ones are as plain ones, which become visible when the kernel ends."""
        target = self.reps.get(op.operands[0])
        if isinstance(target, Array):
            if not self._store_local(op, target):
                self.group.memory = True
                self.later(op)
            return
        if isinstance(target, Pointer) and self._store_rows(op, target):
            return
        if self.group.scatters or (self.group.loads and not self.disjoint and not self.chip.pads):
            self.flush()
        self.group.scatters = self.group.memory = True
        self.later(op)

    def _store_rows(self, op: Operation, target: Pointer) -> bool:
        kind, offset = _element(op), self.reps.get(op.operands[1])
        if not isinstance(offset, Affine | Row) or not self._rows(offset, kind):
            return False
        assert isinstance(self.mask, Box)
        low = (self.mask.bounds[0] or (0, 0))[0]
        if low != 0 and kind.bytes not in (2, 4):
            return False
        value = self.tensor(op.operands[2])
        if self.group.memory:
            self.flush()
        self.at(op)
        if low == 0 and value.start == 0:
            lines = self._row_copies(offset, kind, value, target, into=False)
        elif low == 0:
            value = self._copied(value)
            lines = self._row_copies(offset, kind, value, target, into=False)
        else:
            high = (self.mask.bounds[0] or (0, 0))[1]
            reach = minus(high, low) if self.shape.flat else minus(self.shape.items, low)
            value = self._shifted(value, low, reach)
            lines = self._row_copies(offset, kind, value, target, into=False, shifted=True)
        if isinstance(offset, Row) and offset.reads:
            self.instr("S", [], offset.reads)
        self.instr("MTE3", lines, [self.access(value)], [Access(target.place)], op="CopyOut")
        self._store_tails(lines, value, kind, target.place)
        return True

    def _copied(self, value: Tensor) -> Tensor:
        made = self.temp(value.buffer.kind)
        self.copy_lanes(made, value, None)
        return made

    def _shifted(self, value: Tensor, low: Num, count: Num) -> Tensor:
        """The lanes from `low` on, at the front of a tensor."""
        size = value.buffer.size
        made = self.temp(value.buffer.kind, "shifted")
        source, factors = value.text(value.buffer.kind), self._linear_factors(size)
        self.gather(made, source, self.access(value), factors, times(size, low), count)
        return made

    def gather(
        self, made: Tensor, source: str, reads: Access, factors: tuple[int, int, int],
        base: Num, count: Num,
    ) -> None:  # fmt: skip
        """`made` = the elements at `base` and the byte offsets of the lanes' local ids."""
        table = self.offsets(factors)
        start = base if isinstance(base, int) else f"static_cast<uint32_t>({base})"
        line = f"Gather({made.text()}, {source}, {table.text()}, {start}, {count});"
        self.instr("V", line, [reads, self.access(table)], [self.access(made)], op="Gather")

    # ---- shared and private arrays -------------------------------------------------------

    def _load_local(self, op: Operation, target: Array) -> Rep | None:
        kind, offset = _element(op), self.reps.get(op.operands[1])
        if kind == BOOL:
            return None
        if isinstance(offset, Uniform):
            if self.group.memory:
                self.flush()
            self.at(op)
            if target.private:
                return self._row_of(op, target, offset.text)
            index = self.index_of(target, offset.text)
            name = op.result.name or self.lanes_name(op)
            text = f"{target.buffer.name}.GetValue({index})"
            return Uniform(self.scalar(c_type(kind), name, text, [Access(target.buffer)]))
        if target.private:
            return None
        found = None
        if isinstance(offset, Affine) and kind.bytes in (2, 4):
            found = self._gathered(op, target, offset)
        row = self.row(op.operands[1])
        if found is None and row is not None and row.step == 0 and not self.shape.flat:
            return self.load_rows(op, target, row)
        return found

    def _row_of(self, op: Operation, target: Array, offset: str) -> Tensor:
        """A private array's element as its row of lanes, copied unless nothing changes it first."""
        buffer = target.buffer
        if offset.lstrip("-").isdigit():
            start: Num = int(offset) // buffer.size * self.shape.lanes
        else:
            start = f"{grouped(offset)} / {buffer.size} * kLanes"
        row = Tensor(buffer, buffer.kind, start)
        if self._unchanged(op):
            return row
        made = Tensor(self.buffer(op.result.name or self.lanes_name(op), buffer.kind), buffer.kind)
        self.copy_lanes(made, row, None)
        return made

    def _unchanged(self, load: Operation) -> bool:
        """Whether a loaded value's uses all come before the array may change, in its region."""
        body = self.region.body
        if load not in body:
            return False
        left = set(self.users.get(load.result, ()))
        array = load.operands[0]
        for op in body[body.index(load) + 1 :]:
            if not left:
                return True
            if op in left:
                if op.regions or op.spec.terminator:
                    return False
                left.discard(op)
                if op.spec in _WRITERS and op.operands[0] is array:
                    return not left
                continue
            inner = [op, *(o for r in op.regions for o in walk(r))]
            if any(o.spec in _WRITERS and o.operands[0] is array for o in inner):
                return False
        return not left

    def _gathered(self, op: Operation, target: Array, offset: Affine) -> Rep | None:
        """A shared array at a fixed pattern of the lanes."""
        size = target.buffer.size
        factors = _numbers(offset.factors)
        count = self._reach(target, offset)
        if factors is None:
            return None
        if factors != self._linear_factors(size) or count is None:
            made = self._strided_load(op, target, offset.base, factors)
            if made is not None:
                return made
        if count is None or min(factors) < 0:
            return None
        if self.group.memory:
            self.flush()
        self.at(op)
        made = Tensor(
            self.buffer(op.result.name or self.lanes_name(op), target.buffer.kind),
            target.buffer.kind,
        )
        aligned = self.facts.multiple(offset.base) % _BLOCK == 0
        if aligned and factors == self._linear_factors(size):
            start = _element_of(offset.base, size)
            source = target.buffer.name if start == 0 else f"{target.buffer.name}[{start}]"
            units = times(count, size // 2)
            line = f"CopyLanes({made.text()}, {source}, {units});"
            part = self._part(target.buffer, start)
            self.instr("V", line, [part], [self.access(made)], op="Or")
        else:
            reads = Access(target.buffer)
            self.gather(made, target.buffer.name, reads, factors, offset.base, count)
        return made

    def _strided_load(
        self, op: Operation, target: Array, base: Num, factors: tuple[int, int, int]
    ) -> Tensor | None:
        """A shared array's rows, which lie anywhere at whole blocks."""
        if not self._strided(target, base, factors):
            return None
        kind = target.buffer.kind
        start = _element_of(base, target.buffer.size)
        place = Tensor(target.buffer, kind, start)
        made = Tensor(self.buffer(op.result.name or self.lanes_name(op), kind), kind)
        steps = [f // target.buffer.size for f in factors]
        lines = self.copied_rows(made, self._linear_factors(1), place, steps)
        if lines is None:
            return None
        if self.group.memory:
            self.flush()
        self.at(op)
        reads = [self._spanned(target.buffer, start, steps)]
        self.instr("V", lines, reads, [self.access(made)], op="Or")
        return made

    def _strided_store(
        self, op: Operation, target: Array, base: Num, factors: tuple[int, int, int]
    ) -> bool:
        """Rows that lie apart in a shared array at whole blocks, and not over each other."""
        size = target.buffer.size
        steps = [f // size for f in factors]
        least = 1
        for axis in self.shape.axes:
            if steps[axis] < least:
                return False
            least = steps[axis] * (self.shape.extents[axis] - 1) + least
        if not self._strided(target, base, factors) or self.pending(op.operands[2]):
            return False
        value = self.tensor(op.operands[2])
        start = _element_of(base, size)
        place = Tensor(target.buffer, target.buffer.kind, start)
        lines = self.copied_rows(place, steps, value, self._linear_factors(1))
        if lines is None:
            return False
        self.flush()
        self.at(op)
        writes = [self._spanned(target.buffer, start, steps)]
        self.instr("V", lines, [self.access(value)], writes, op="Or")
        return True

    def _strided(self, target: Array, base: Num, factors: tuple[int, int, int]) -> bool:
        size = target.buffer.size
        aligned = self.facts.multiple(base) % _BLOCK == 0 and self.whole_rows(size)
        return aligned and factors[0] == size and isinstance(self.mask, Box)

    def _spanned(self, buffer: Buffer, start: Num, steps: Sequence[int]) -> Access:
        """What lanes touch of a buffer, each a number of elements from the ones beside it."""
        if not isinstance(start, int) or min(steps) < 0:
            return Access(buffer)
        last = sum(s * (n - 1) for s, n in zip(steps, self.shape.extents, strict=True))
        return Access(buffer, start * buffer.size, (start + last + 1) * buffer.size)

    def _part(self, buffer: Buffer, start: Num) -> Access:
        """An element of a buffer for each lane, from `start` on."""
        if not isinstance(start, int):
            return Access(buffer)
        return Access(buffer, start * buffer.size, (start + self.shape.items) * buffer.size)

    def _reach(self, target: Array, offset: Affine) -> Num | None:
        """How many lanes, from the first on, may be read; None where only each lane knows."""
        if self.mask == FULL:
            return self.shape.items
        first = self._first_lanes()
        if first is not None:
            return first
        factors, base = _numbers(offset.factors), self.facts.range_of(offset.base)
        if factors is None or base is None:
            return None
        last = sum(f * (n - 1) for f, n in zip(factors, self.shape.extents, strict=True))
        room = target.buffer.count * target.buffer.size - target.buffer.size
        inside = base[0] >= 0 and base[1] + last <= room and min(factors) >= 0
        return self.shape.items if inside else None

    def _first_lanes(self) -> Num | None:
        """How many lanes are on, where they are the first ones and not all."""
        if not isinstance(self.mask, Box):
            return None
        x, y, z = self.mask.bounds
        gx, gy, gz = self.shape.extents
        if self.shape.flat:
            return self.mask.prefix()
        if x is None and z is None and y is not None and y[0] == 0 and gz == 1:
            return times(gx, y[1])
        if x is None and y is None and z is not None and z[0] == 0:
            return times(gx * gy, z[1])
        return None

    def _linear_factors(self, size: int) -> tuple[int, int, int]:
        """The factors of an array with one element a lane, in the lanes' order."""
        gx, gy, _ = self.shape.extents
        whole = (size, size * gx, size * gx * gy)
        x, y, z = (f if a in self.shape.axes else 0 for a, f in enumerate(whole))
        return (x, y, z)

    def _store_local(self, op: Operation, target: Array) -> bool:
        kind, offset = _element(op), self.reps.get(op.operands[1])
        if kind == BOOL:
            return False
        if target.private:
            if not isinstance(offset, Uniform):
                return False
            self._store_row(op, target, offset.text)
            return True
        if not isinstance(offset, Affine) or kind.bytes < 2 or not isinstance(self.mask, Box):
            return False
        prefix, factors = self._first_lanes(), _numbers(offset.factors)
        exact = factors == self._linear_factors(kind.bytes)
        aligned = self.facts.multiple(offset.base) % _BLOCK == 0
        if not (exact and aligned) or (prefix is None and self.mask != FULL):
            return factors is not None and self._strided_store(op, target, offset.base, factors)
        if self.pending(op.operands[2]):
            return False
        value = self.tensor(op.operands[2])
        self.flush()
        self.at(op)
        start = _element_of(offset.base, kind.bytes)
        place = target.buffer.name if start == 0 else f"{target.buffer.name}[{start}]"
        count = self.shape.items if prefix is None else prefix
        units = times(count, kind.bytes // 2)
        line = f"CopyLanes({place}, {value.text(target.buffer.kind)}, {units});"
        self.instr("V", line, [self.access(value)], [self._part(target.buffer, start)], op="Or")
        return True

    def _store_row(self, op: Operation, target: Array, offset: str) -> None:
        buffer = target.buffer
        if offset.lstrip("-").isdigit():
            start: Num = int(offset) // buffer.size * self.shape.lanes
        else:
            start = f"{grouped(offset)} / {buffer.size} * kLanes"
        self.flush()
        self.at(op)
        rep = self.reps[op.operands[2]]
        self.assign_lanes(Tensor(buffer, buffer.kind, start), rep, op.operands[2].type, self.mask)

    # ---- atomics -------------------------------------------------------------------------

    def atomic(self, op: Operation) -> None:
        """A read-modify-write: any on shared memory, on global memory what a copy can do."""
        if not isinstance(self.reps.get(op.operands[0]), Array):
            self._check_global(op)
            if self.group.scatters:
                self.flush()
            self.group.scatters = True
        self.group.memory = True
        self.later(op)

    def _check_global(self, op: Operation) -> None:
        kind = _element(op)
        if op.spec is ops.ATOMIC_CAS:
            raise self.refuse(op, "a global compare-and-exchange is not available")
        how = str(op.attrs["kind"])
        if self.users.get(op.result):
            raise self.refuse(op, "the old value of a global atomic is not available")
        allowed = _COMPARED if how in ("min", "max") else _ADDED
        if how not in ("add", "sub", "min", "max") or kind.name not in allowed:
            raise self.refuse(op, f"a global atomic `{how}` of `{kind}` is not available")
        if not self.chip.pads:
            raise self.refuse(op, "a global atomic of single elements is not available")

    def alloc(self, op: Operation) -> None:
        """A shared array, or a private one with a row of lanes for each element."""
        kind = op.attrs["type"]
        assert isinstance(kind, ArrayType)
        count = 1
        for extent in kind.shape or ():
            count *= extent
        private = kind.space == "private"
        lanes = self.shape.lanes if private else 1
        buffer = self.buffer(
            op.result.name or kind.space, storage(kind.element), max(1, count) * lanes
        )
        self.declare(buffer)
        self.reps[op.result] = Array(buffer, private)


def _aligned(low: Num, per: int) -> tuple[Num, Num]:
    """The lane at the last block's start before a lane, and how far behind it the lane lies."""
    if isinstance(low, int):
        return low // per * per, low % per
    return f"({low} & ~{per - 1})", f"{low} & {per - 1}"


def _element_of(offset: Num, size: int) -> Num:
    """The number of the element at a byte offset."""
    return offset // size if isinstance(offset, int) else divided(offset, size)


def _numbers(factors: tuple[Num, Num, Num]) -> tuple[int, int, int] | None:
    x, y, z = factors
    if isinstance(x, int) and isinstance(y, int) and isinstance(z, int):
        return (x, y, z)
    return None


def _element(op: Operation) -> Scalar:
    kind = op.attrs["element"]
    assert isinstance(kind, Scalar)
    return kind
