"""The entry function of a kernel: loops over workgroups, then over a program's leaves."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from math import prod

from hetir.artifact import Layout
from hetir.backends.cpu.divergence import Divergence, divergence
from hetir.backends.cpu.frame import Workgroup
from hetir.backends.cpu.items import Item
from hetir.backends.cpu.levels import Levels
from hetir.backends.cpu.masked import MaskedLeaf
from hetir.backends.cpu.prefetch import Prefetches
from hetir.backends.cpu.pressure import Shape, in_registers, widths
from hetir.backends.cpu.program import (
    Leaf,
    Once,
    Schedule,
)
from hetir.backends.cpu.rows import Anchor, anchor, run_on
from hetir.backends.cpu.shortcuts import shortcuts
from hetir.backends.cpu.streaming import Streams
from hetir.backends.cpu.subgroups import Exchanger
from hetir.backends.cpu.tiles import Tiles, rows_of
from hetir.backends.cpu.vectors import Rep
from hetir.backends.llvm.structure import Joint
from hetir.ir import ops
from hetir.ir.build import constant
from hetir.ir.core import Kernel, Operation, Value, walk
from hetir.ir.types import I64, Scalar
from hetir.passes.access import Addresses
from hetir.passes.magnitude import addressing, magnitudes, positive
from hetir.passes.ranges import SIGNED, Bounds, inside, ranges
from hetir.passes.regions import exits_of
from hetir.passes.uniformity import Uniformity, uniformity
from hetir.target import Assumptions, Target

# what of a kernel keeps its groups, and their items, in order
_ORDERED = (
    *(ops.ATOMIC_LOAD, ops.ATOMIC_STORE, ops.ATOMIC_RMW, ops.ATOMIC_CAS, ops.FENCE),
    *(ops.PRINT, ops.ASSERT, ops.OUT_OF_BOUNDS, ops.ALLOC),
)

# Sums of a few such numbers do not wrap. Where one lane's value of a line is small, so are the
# others', which may be off and of which nothing else is known.
_SMALL = (-(1 << 61), 1 << 61)

_SIGNATURE = "ptr %args, ptr %launch, ptr noalias %scratch, i64 %first, i64 %last"


def entry_of(kernel: Kernel) -> str:
    """The name of the entry function: no kernel's name can hide memcpy's."""
    return f"hetir_kernel_{kernel.name}"


def symbol(kernel: Kernel) -> str:
    """The entry in LLVM's spelling, whatever letters the name is written in."""
    raw = entry_of(kernel).encode()
    shown = "".join(
        chr(c) if (chr(c).isalnum() and c < 128) or c == 95 else f"\\{c:02X}" for c in raw
    )
    return f'@"{shown}"'


class Emitter(Levels):
    """Emits one kernel: the levels and their loops."""

    def __init__(
        self,
        kernel: Kernel,
        schedule: Schedule,
        layout: Layout,
        target: Target,
        *,
        workgroup: Workgroup | None,
        assumptions: Assumptions,
        lanes: int = 0,
        register_bytes: int = 0,
    ) -> None:
        addresses = Addresses(kernel)
        self.indices = Addresses(kernel, products=False)
        self._definitions = addresses.definitions
        self._lanes = lanes
        self.vector_bytes = 4 * lanes
        rows = bool(workgroup and lanes and workgroup[0] % lanes == 0)
        self.known: Uniformity = uniformity(
            kernel, scope="row" if rows else "workgroup", lockstep=True
        )
        shape = Shape(workgroup or (1, 1, 1), lanes, kernel.options.width, register_bytes)
        self._widths = widths(schedule, shape, self.known, self._definitions)
        blocks = lanes and register_bytes and shape.workgroup[1] % 2 == 0
        tiles = Tiles(kernel, addresses) if blocks else None
        tiled = tiles.widths(schedule, shape, self._widths) if tiles else {}
        self._widths |= tiled
        self._tiled = bool(tiled)
        widest = max(self._widths.values(), default=lanes)
        super().__init__(
            kernel,
            schedule,
            layout,
            target,
            workgroup=workgroup,
            assumptions=assumptions,
            lanes=widest,
        )
        bounds = Bounds(index_bits=assumptions.index_bits, workgroup=workgroup)
        known = ranges(kernel, bounds)
        self.small = frozenset(v for v, found in known.items() if inside(found, _SMALL))
        self.short = frozenset(v for v, found in known.items() if inside(found, SIGNED))
        self.natural = frozenset(v for v, found in known.items() if found[0] >= 0)
        self.registers = {
            self.plan.context[value]: count
            for value, count in in_registers(
                schedule, self._widths, prod(workgroup or ()), kernel.options.width
            ).items()
        }
        self.exact = frozenset(magnitudes(kernel)) | addressing(kernel) | self.small
        self.positive = positive(kernel)
        wide = "avx512f" in target.features
        self.shortcuts = shortcuts(kernel.body, self._definitions) if wide else {}
        self.divergence: Divergence = divergence(kernel.body, self.known)
        group = tiles.known if tiles and tiled else self.known
        self._by_row = self.known, self.divergence
        self._by_group = group, divergence(kernel.body, group) if tiled else self.divergence
        subgroup = kernel.options.width if schedule.has_subgroups else widest
        self.narrowest = min((*self._widths.values(), subgroup), default=lanes)
        self._anchor = self._anchored() if self._free else None
        _, sy, sz = workgroup or (1, 1, 1)
        in_rows = self._free or (sy * sz == 1 and self._single)
        self.streams = Streams(kernel, target, self.frame, in_rows=in_rows)
        self.prefetches = Prefetches(kernel, addresses, self.known, self.frame, in_rows=in_rows)
        self._returns: list[str] = []
        self._exits: list[tuple[str, str]] = []
        self._joined: list[str] = []

    @property
    def vectors(self) -> bool:
        """Whether work-items run as vectors."""
        return bool(self._lanes)

    @property
    def item_bytes(self) -> int:
        """Context bytes a work-item; the last vector is whole even where items are missing."""
        if not self._lanes or not self.frame.workgroup:
            return self.plan.item_bytes
        items = prod(self.frame.workgroup)
        whole = -(-items // self.frame.lanes) * self.frame.lanes
        return -(-self.plan.item_bytes * whole // items)

    # ---- the function ----------------------------------------------------------------

    def module(self) -> str:
        """The whole LLVM module."""
        for param, index in self.params.items():
            if isinstance(param.type, Scalar):
                self.outer[param] = self.frame.scalar(index, param.type)
        self._groups()
        self.frame.finish()
        body = "\n".join(self.code.lines)
        parts = [
            f"define void {symbol(self.kernel)}({_SIGNATURE}) #0 {{\nentry:\n{body}\n}}",
            *self.records.text(),
            *sorted(self.code.declarations.values()),
            "attributes #0 = { nounwind }",
            "attributes #1 = { nounwind noinline cold }",
            "!0 = !{}",
            *self.aliases.text(),
        ]
        return "\n\n".join(parts) + "\n"

    def _groups(self) -> None:
        """Run workgroups [first, last), x fastest."""
        code, frame = self.code, self.frame
        nx, ny = frame.num_groups(0), frame.num_groups(1)
        begin, done = code.fresh("start"), code.fresh("done")
        some = code.add("icmp slt i64 %first, %last")
        code.branch(some, begin, done)
        code.start(begin)
        x = code.add(f"urem i64 %first, {nx}")
        rest = code.add(f"udiv i64 %first, {nx}")
        y, z = code.add(f"urem i64 {rest}, {ny}"), code.add(f"udiv i64 {rest}, {ny}")
        head, end = code.fresh("group"), code.fresh("next")
        code.jump(head)
        code.start(head)
        phis = code.reserve()
        names = tuple("%" + code.fresh("g") for _ in range(4))
        self.group = names
        self._returns.append(end)
        self._clear_mask()
        taken = "1"
        if self._anchor is not None or (self._free and prod((self.frame.workgroup or ())[1:]) > 1):
            taken = self._row_of_groups(nx)
        else:
            self.nodes(self.schedule.nodes)
        self._returns.pop()
        code.jump(end)
        code.start(end)
        nexts = self._next_group(names, nx, ny, taken)
        pairs = zip(names, ("%first", x, y, z), nexts, strict=True)
        code.fill(
            phis, [f"  {n} = phi i64 [ {a}, %{begin} ], [ {b}, %{end} ]" for n, a, b in pairs]
        )
        code.branch(code.add(f"icmp slt i64 {nexts[0]}, %last"), head, done)
        code.start(done)
        self.streams.end(code)
        code.put("ret void")

    @property
    def _single(self) -> bool:
        """Whether work-items run from end to end without meeting others."""
        leaves = [node for node in self.schedule.nodes if not isinstance(node, Once)]
        return len(leaves) == 1 and isinstance(leaves[0], Leaf)

    @property
    def _free(self) -> bool:
        """Whether work-items of unlike groups may run in any order."""
        return (
            bool(self._lanes)
            and self.frame.workgroup is not None
            and self.frame.workgroup[0] % self._lanes == 0
            and not self._tiled
            and self._single
            and not any(op.spec in _ORDERED for op in walk(self.kernel.body))
        )

    def _anchored(self) -> Anchor | None:
        if self.schedule.masked:
            return None
        (leaf,) = (node for node in self.schedule.nodes if isinstance(node, Leaf))
        return anchor(self.kernel, leaf, self._definitions)

    def width_of(self, leaf: Leaf) -> int:
        """How many work-items a leaf runs as one vector."""
        return self._widths[id(leaf)]

    def _row_of_groups(self, nx: str) -> str:
        """Run the groups to the end of a row of them, a row of work-items at a time.

        Neighbouring groups continue each other's rows in memory. Gives how many groups ran.
        """
        code, names = self.code, self.group
        left = code.add(f"sub nsw i64 %last, {names[0]}")
        wide = code.add(f"sub nsw i64 {nx}, {names[1]}")
        count = code.intrinsic("smin", "i64", ("i64", left), ("i64", wide))
        if self._anchor is not None:
            self._whole_rows(self._anchor, count)
            return count
        stop = code.add(f"add nsw i64 {names[1]}, {count}")
        shift = code.add(f"sub nsw i64 {names[0]}, {names[1]}")
        with self._rows() as (y, z, base), self.counted(names[1], stop, 1) as x:
            linear = code.add(f"add nsw i64 {shift}, {x}")
            self.group = (linear, x, *names[2:])
            for node in self.schedule.nodes:
                if isinstance(node, Leaf):
                    self._row(node, y, z, base)
                else:
                    self.nodes((node,))
        self.group = names
        return count

    def _whole_rows(self, at: Anchor, count: str) -> None:
        """Run `count` groups as if they were one; only their ids along y and z are known."""
        names = self.group
        self.group = ("0", "0", *names[2:])
        self.nodes(node for node in self.schedule.nodes if isinstance(node, Once))
        with self._rows() as (y, z, _):
            run_on(self, at, names[1], count, y, z)
        self.group = names

    def _next_group(
        self, names: Sequence[str], nx: str, ny: str, taken: str
    ) -> tuple[str, str, str, str]:
        """Count up the linear id and the three coordinates."""
        code = self.code
        linear, x, y, z = names
        after = code.add(f"add nsw i64 {linear}, {taken}")
        x_up = code.add(f"add nuw i64 {x}, {taken}")
        x_over = code.add(f"icmp eq i64 {x_up}, {nx}")
        y_up = code.add(f"add nuw i64 {y}, 1")
        y_over = code.add(f"icmp eq i64 {y_up}, {ny}")
        both = code.add(f"and i1 {x_over}, {y_over}")
        z_up = code.add(f"add nuw i64 {z}, 1")
        y_next = code.add(f"select i1 {both}, i64 0, i64 {y_up}")
        return (
            after,
            code.add(f"select i1 {x_over}, i64 0, i64 {x_up}"),
            code.add(f"select i1 {x_over}, i64 {y_next}, i64 {y}"),
            code.add(f"select i1 {both}, i64 {z_up}, i64 {z}"),
        )

    @property
    def whole(self) -> bool:
        """Whether work-items run as vectors, and every subgroup has all of its items."""
        items, width = prod(self.frame.workgroup or ()), self.kernel.options.width
        return bool(self._lanes) and items % width == 0

    def constant(self, value: Value) -> int | None:
        """An integer that is known when compiling."""
        made = self.definition(value)
        found = None if made is None else constant(made)
        return int(found) if isinstance(found, int) else None

    def known_name(self, value: Value) -> str | None:
        """The name of a value that is alike in all items."""
        return self.outer.get(value)

    @contextmanager
    def each_lane(self, first: str) -> Generator[tuple[str, str]]:
        """A loop over the items of a subgroup: gives the item and its lane."""
        with self.counted(first, self.lanes_end(first), 1) as item:
            yield item, self.code.add(f"sub nuw nsw i64 {item}, {first}")

    # ---- leaves ----------------------------------------------------------------------

    def definition(self, value: Value) -> Operation | None:
        """The op that results in a value."""
        found = self._definitions.get(value)
        return found if found is not None and value in found.results else None

    def exits_of(self, loop: Operation) -> list[Operation]:
        """The terminators that end a turn of a loop."""
        return list(exits_of(loop.regions[0]))

    def _vectors(self, vector: MaskedLeaf, leaf: Leaf) -> None:
        """Run a leaf for every item of the level, a vector at a time."""
        frame, width = self.frame, vector.width
        sx, sy, sz = (int(frame.group_size(axis)) for axis in range(3))
        tail = bool(sx * sy * sz % width)
        level = self.kernel.options.width if len(self._returns) > 1 else sx * sy * sz
        if width == level and (len(self._returns) == 1 or self.whole):
            self._vector_at(vector, leaf, self.first, tail=False)
        elif len(self._returns) > 1:
            with self.counted(self.first, self.lanes_end(self.first), width) as linear:
                self._vector_at(vector, leaf, linear, tail=tail)
        elif sx % width:
            with self.counted("0", frame.items(), width) as linear:
                self._vector_at(vector, leaf, linear, tail=tail)
        else:
            with self._rows() as (y, z, base):
                self._row(leaf, y, z, base)

    @contextmanager
    def _rows(self) -> Generator[tuple[str, str, str]]:
        """A loop over the rows of a workgroup: gives y, z and the first item's linear id."""
        code = self.code
        sx, sy, sz = map(self.frame.group_size, range(3))
        with self.counted("0", sz, 1) as z, self.counted("0", sy, 1) as y:
            plane = code.add(f"mul nuw nsw i64 {z}, {sy}")
            row = code.add(f"add nuw nsw i64 {plane}, {y}")
            yield y, z, code.add(f"mul nuw nsw i64 {row}, {sx}")

    def _row(self, leaf: Leaf, y: str, z: str, base: str) -> None:
        """Run a leaf for a row of work-items that whole vectors fill."""
        vector = MaskedLeaf(self, self.width_of(leaf))
        with self.counted("0", self.frame.group_size(0), vector.width) as x:
            linear = self.code.add(f"add nuw nsw i64 {base}, {x}")
            local = (Rep("line", x, 1), Rep("same", y), Rep("same", z))
            vector.run(leaf, linear, local, tail=None)

    def _vector_at(self, vector: MaskedLeaf, leaf: Leaf, linear: str, *, tail: bool) -> None:
        """One vector of a linear range, whose items may lie in several rows."""
        code, frame, width = self.code, self.frame, vector.width
        sx, sy = int(frame.group_size(0)), int(frame.group_size(1))
        items = vector.spread(Rep("line", linear, 1), I64)
        if sx == prod(frame.workgroup or ()):
            x, y, z = Rep("line", linear, 1), Rep("same", "0"), Rep("same", "0")
        elif sx % width == 0:
            x = Rep("line", code.add(f"urem i64 {linear}, {sx}"), 1)
            row = code.add(f"udiv i64 {linear}, {sx}")
            y = Rep("same", code.add(f"urem i64 {row}, {sy}"))
            z = Rep("same", code.add(f"udiv i64 {row}, {sy}"))
        elif vector.rows > 1:
            x, y, z = self._block_at(vector.rows, linear)
        else:
            kind = vector.of("i64")
            x = Rep("lanes", code.add(f"urem {kind} {items}, splat (i64 {sx})"))
            rows = code.add(f"udiv {kind} {items}, splat (i64 {sx})")
            y = Rep("lanes", code.add(f"urem {kind} {rows}, splat (i64 {sy})"))
            z = Rep("lanes", code.add(f"udiv {kind} {rows}, splat (i64 {sy})"))
        mask = None
        if tail:
            count = frame.items()
            mask = code.add(f"icmp ult {vector.of('i64')} {items}, splat (i64 {count})")
        vector.run(leaf, linear, (x, y, z), tail=mask)

    def _block_at(self, rows: int, linear: str) -> tuple[Rep, Rep, Rep]:
        """The ids of the items of some whole rows of one plane."""
        code, (sx, sy, sz) = self.code, self.frame.workgroup or (1, 1, 1)
        y = z = "0"
        if rows < sy * sz:
            row = code.add(f"udiv i64 {linear}, {sx}")
            y = code.add(f"urem i64 {row}, {sy}")
            z = code.add(f"udiv i64 {row}, {sy}")
        each = [f"{r}" if y == "0" else code.add(f"add nuw nsw i64 {y}, {r}") for r in range(rows)]
        x = Rep("rows", "", 1, names=("0",) * rows)
        return x, Rep("rows", "", names=tuple(each)), Rep("same", z)

    def exchange(self, op: Operation) -> None:
        """Run a subgroup op for the items of the level."""
        Exchanger(self, op, self.first, self.kernel.options.width).emit()

    def leaf(self, leaf: Leaf) -> None:
        """Run a leaf for every item of the level."""
        if self._lanes:
            width = self.width_of(leaf)
            rows = rows_of(width, self.frame.workgroup)
            self.known, self.divergence = self._by_group if rows > 1 else self._by_row
            self._vectors(MaskedLeaf(self, width, rows), leaf)
            self.item = Item(self.first, None)
            return
        code, frame = self.code, self.frame
        sx, sy, sz = map(frame.group_size, range(3))
        if len(self._returns) > 1:
            stop = self.lanes_end(self.first)
            with self.counted(self.first, stop, 1) as linear:
                x, rest = code.add(f"urem i64 {linear}, {sx}"), code.add(f"udiv i64 {linear}, {sx}")
                y, z = code.add(f"urem i64 {rest}, {sy}"), code.add(f"udiv i64 {rest}, {sy}")
                self._work_item(leaf, linear, (x, y, z))
            return
        with self.counted("0", sz, 1) as z, self.counted("0", sy, 1) as y:
            plane = code.add(f"mul nuw nsw i64 {z}, {sy}")
            row = code.add(f"add nuw nsw i64 {plane}, {y}")
            base = code.add(f"mul nuw nsw i64 {row}, {sx}")
            with self.counted("0", sx, 1) as x:
                linear = code.add(f"add nuw nsw i64 {base}, {x}")
                self._work_item(leaf, linear, (x, y, z))

    def lanes_end(self, first: str) -> str:
        """One past the last item of the subgroup that starts at `first`."""
        code, kind = self.code, "i64"
        whole = code.add(f"add nuw nsw i64 {first}, {self.kernel.options.width}")
        return code.intrinsic("umin", kind, (kind, whole), (kind, self.frame.items()))

    def _work_item(self, leaf: Leaf, linear: str, local: tuple[str, str, str]) -> None:
        code = self.code
        self.item, self.item_end = Item(linear, local), code.fresh("item_end")
        self.watched = set(leaf.outputs)
        self._skip_returned()
        for op in leaf.again:
            self.emit(op)
        for value in leaf.inputs:
            self.local[value] = self.load(value, linear)
        move = Joint(code.fresh("move"))
        self.enter(move)
        self.body(leaf.ops)
        self.exit()
        if move.edges:
            if not leaf.ops[-1].spec.terminator:
                code.put("unreachable")
            self.land(move, tuple(Value(v.type) for v in leaf.moved), leaf.moved)
        if not leaf.ops[-1].spec.terminator or move.edges:
            code.jump(self.item_end)
        code.start(self.item_end)
        self.watched = set()
        self.local.clear()
        self.item = Item(self.first, None)

    def land(self, move: Joint, fresh: Sequence[Value], moved: Sequence[Value]) -> None:
        """What a terminator carried goes to its places in the context."""
        self.phis(move, fresh)
        for source, value in zip(fresh, moved, strict=True):
            self.save(value, self.item.linear, self.local[source])

    def _clear_mask(self) -> None:
        if self.schedule.masked:
            items, column = self.frame.items(), self.frame.column(self.plan.mask)
            name = "llvm.memset.p0.i64"
            self.code.declarations[name] = f"declare void @{name}(ptr, i8, i64, i1)"
            self.code.put(f"call void @{name}(ptr {column}, i8 0, i64 {items}, i1 false)")

    def _skip_returned(self) -> None:
        if self.schedule.masked:
            code, runs = self.code, self.code.fresh("runs")
            byte = code.add(f"load i8, ptr {self.mask(self.item.linear)}")
            code.branch(code.add(f"icmp ne i8 {byte}, 0"), self.item_end, runs)
            code.start(runs)
