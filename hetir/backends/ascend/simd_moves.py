"""Where values live that change: buffers of lanes and C++ variables, and how they are assigned."""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager

from hetir.backends.ascend.simd_masks import Masks
from hetir.backends.ascend.simd_program import (
    Access,
    Block,
    Buffer,
    Declare,
    Instr,
    Node,
    blocks_of,
)
from hetir.backends.ascend.simd_reps import (
    FULL,
    Bits,
    Mask,
    Num,
    Pointer,
    Rep,
    Tensor,
    Uniform,
    grouped,
)
from hetir.backends.ascend.simd_scalar import c_type
from hetir.ir.core import Operation, Value
from hetir.ir.types import RefType, Type


class Moves(Masks):
    """Places for carried values, results and what they take."""

    varying_values: set[Value]
    kept: set[Buffer]
    """Buffers that are carried, or read in more than one place of the program."""
    group_block: Block

    def varies(self, value: Value) -> bool:
        """Whether a value needs lanes."""
        return self.known.varying(value) or value in self.varying_values

    def text_of(self, value: Value) -> Num:
        """The text of a uniform value."""
        rep = self.reps[value]
        assert isinstance(rep, Uniform | Pointer)
        return rep.text

    def grouped_text(self, value: Value) -> str:
        """The text of a uniform value beside an operator."""
        return grouped(str(self.text_of(value)))

    @contextmanager
    def under(self, mask: Mask) -> Generator[None]:
        """Emit with other lanes on."""
        outer, self.mask = self.mask, mask
        yield
        self.mask = outer

    @contextmanager
    def in_group(self) -> Generator[None]:
        """Emit at the start of a workgroup's turn."""
        stack, self.stack = self.stack, [self.group_block]
        note, self.note = self.note, ""
        yield
        self.stack, self.note = stack, note

    group_block: Block

    def move(
        self, targets: Sequence[Target], values: Sequence[Value], mask: Mask, user: Operation
    ) -> None:
        """Assign several values at once: none is overwritten before it is read."""
        pairs = [(t, v) for t, v in zip(targets, values, strict=True) if t is not None]
        held = {t for t, _ in pairs if isinstance(t, Buffer)}
        names = {t for t, _ in pairs if isinstance(t, str)}
        for target, value in pairs:
            rep = self.reps.get(value)
            if isinstance(rep, Tensor | Bits) and rep.buffer in held and rep.buffer is not target:
                self.reps[value] = self._saved(value, rep)
            elif isinstance(rep, Uniform) and rep.text != target and _mentions(rep.text, names):
                self.reps[value] = Uniform(self.scalar(c_type(value.type), "next", rep.text))
        exported: list[tuple[Buffer, Value]] = []
        for target, value in pairs:
            if isinstance(target, Buffer) and self.pending(value):
                self.assign(target, value, mask, user)
                exported.append((target, value))
        self.flush()
        # lanes first: their lines and rows may name scalars that change
        for target, value in sorted(pairs, key=lambda pair: isinstance(pair[0], str)):
            if isinstance(target, str):
                text = str(self.text_of(value))
                if text != target:
                    self.instr("S", f"{target} = {text};")
            elif (target, value) not in exported:
                ends = user.spec.terminator and mask == FULL
                if not (ends and self._renamed(target, value, held)):
                    self.assign(target, value, mask)

    def _renamed(self, target: Buffer, value: Value, held: Collection[Buffer]) -> bool:
        """Let the instruction that made a value in this block write it to its place at once.

        Everything else that uses the value has been emitted, for it ends the block; but a value
        of two places, of those that are `held`, is copied from one to the other.
        """
        rep, nodes = self.reps.get(value), self.block.nodes
        if not isinstance(rep, Tensor) or rep.start != 0 or rep.buffer in (*held, *self.kept):
            return False
        made = rep.buffer
        if (made.kind, made.count) != (target.kind, target.count):
            return False
        at = next((i for i, n in enumerate(nodes) if _touches(n, made)), len(nodes))
        if not nodes[at:] or not _makes(nodes[at], made, target):
            return False
        if any(_touches(n, target) or _writes(n, made) for n in nodes[at + 1 :]):
            return False
        for node in nodes[at:]:
            _rename(node, made, target)
        self.reps[value] = Tensor(target, target.kind)
        return True

    def _saved(self, value: Value, rep: Tensor | Bits) -> Rep:
        if isinstance(rep, Bits):
            return self.bits_op("Or", rep, rep)
        made = Tensor(self.buffer("next", rep.kind), rep.kind)
        self.copy_lanes(made, rep, None)
        return made

    def home(self, value: Value, hint: str) -> Buffer | str:
        """A place for a value that changes: a buffer of lanes or a C++ variable."""
        if self.varies(value):
            return self.buffer_for(value.type, hint)
        return self.fresh(hint)

    def settle(self, value: Value, home: Buffer | str) -> None:
        """From here on a value is what its place holds."""
        if isinstance(home, Buffer):
            self.reps[value] = self.held(home, value.type)
        elif isinstance(value.type, RefType):
            self.reps[value] = Pointer(home, self.anywhere)
        else:
            self.reps[value] = Uniform(home)


Target = Buffer | str | None

# instructions whose result may lie where an operand lies
_IN_PLACE = frozenset(
    ("Add", "Sub", "Mul", "Adds", "Muls", "Max", "Min", "Maxs", "Mins", "And", "Or", "Not", "Abs")
)


def _accesses(node: Node) -> Iterator[tuple[Access, bool]]:
    """What a node and the nodes inside touch, and whether they write it."""
    if isinstance(node, Instr):
        yield from ((a, False) for a in node.reads)
        yield from ((a, True) for a in node.writes)
    for block in blocks_of(node):
        for inner in block.nodes:
            yield from _accesses(inner)


def _touches(node: Node, buffer: Buffer) -> bool:
    declared = isinstance(node, Declare) and node.buffer is buffer
    return declared or any(a.place is buffer for a, _ in _accesses(node))


def _writes(node: Node, buffer: Buffer) -> bool:
    return any(a.place is buffer and writes for a, writes in _accesses(node))


def _makes(node: Node, made: Buffer, target: Buffer) -> bool:
    """Whether an instruction writes a buffer alone, and could write another that it may read."""
    if not isinstance(node, Instr) or [w.place for w in node.writes] != [made]:
        return False
    reads = {a.place for a in node.reads}
    return made not in reads and (target not in reads or node.op in _IN_PLACE)


def _rename(node: Node, old: Buffer, new: Buffer) -> None:
    """Put one buffer in the place of another in a node and the nodes inside."""
    if isinstance(node, Instr):
        word = re.compile(rf"\b{old.name}\b")
        node.lines = [word.sub(new.name, line) for line in node.lines]
        node.reads, node.writes = (
            tuple(Access(new, a.start, a.stop) if a.place is old else a for a in accesses)
            for accesses in (node.reads, node.writes)
        )
    for block in blocks_of(node):
        for inner in block.nodes:
            _rename(inner, old, new)


def declared(kind: Type) -> str:
    """The C++ type of a variable."""
    return "GM_ADDR" if isinstance(kind, RefType) else c_type(kind)


def _mentions(text: str, names: set[str]) -> bool:
    return any(word in names for word in re.findall(r"\w+", text))
