"""What all parts of the SIMD emitter share: names, the current block, buffers, the lanes' shape."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePath

from hetir.artifact import Layout
from hetir.backends.ascend.simd_numbers import Numbers
from hetir.backends.ascend.simd_program import (
    Access,
    Block,
    Buffer,
    Declare,
    Instr,
    Note,
)
from hetir.backends.ascend.simd_reps import (
    FULL,
    Bits,
    Box,
    Mask,
    Num,
    Rep,
    Tensor,
    Uniform,
    grouped,
)
from hetir.backends.ascend.simd_scalar import c_type
from hetir.diagnostics import Label
from hetir.ir.core import Kernel, Operation, Region, Value, walk
from hetir.ir.types import BOOL, ArrayType, RefType, Scalar, Type
from hetir.passes.uniformity import Uniformity
from hetir.source import Loc
from hetir.target import UnsupportedError

LANE_STEP = 64
"""Lanes are planned in multiples of it: a comparison takes whole 256 bytes of 32-bit lanes."""

_RESERVED = frozenset(
    re.findall(
        r"\w+",
        """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl
    const constexpr continue decltype default delete do double else enum explicit export
    extern false float for friend goto if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register return short signed
    sizeof static struct switch template this throw true try typedef typeid typename union
    unsigned using virtual void volatile while xor xor_eq half event_t lane pipe launch
    memory buffer
    """,
    )
)
SIZES: Mapping[str, int] = {
    "float": 4,
    "half": 2,
    "bfloat16_t": 2,
    **{f"{s}int{b}_t": b // 8 for s in ("", "u") for b in (8, 16, 32, 64)},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """What the emitter asks of an architecture."""

    name: str
    arch: int
    pads: bool
    """DataCopyPad moves any number of bytes."""
    int_equal: bool
    """Compare takes int32 for equality."""
    bfloat: bool
    buffer_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The lanes of one pass: a whole workgroup of known extents, or a tile of its first axis."""

    extents: tuple[int, int, int]
    tiled: bool = False

    @property
    def items(self) -> int:
        """Work-items of one pass."""
        x, y, z = self.extents
        return x * y * z

    @property
    def lanes(self) -> int:
        """Lanes of a buffer."""
        return -(-self.items // LANE_STEP) * LANE_STEP

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes with more than one work-item."""
        return tuple(a for a, n in enumerate(self.extents) if n > 1) or (0,)

    @property
    def flat(self) -> bool:
        """Whether a lane's number is its local id of the first axis."""
        return self.axes == (0,)


@dataclass(slots=True)
class Emission:
    """What one kernel's emission collects."""

    prologue: Block = field(default_factory=Block)
    body: Block = field(default_factory=Block)
    buffers: list[Buffer] = field(default_factory=list[Buffer])


class State:
    """Names, blocks, buffers and masks of a kernel that is being emitted."""

    def __init__(
        self,
        kernel: Kernel,
        layout: Layout,
        chip: Chip,
        shape: Shape,
        known: Uniformity,
        disjoint: bool,
    ) -> None:
        self.kernel, self.layout, self.chip, self.shape = kernel, layout, chip, shape
        self.known, self.disjoint = known, disjoint
        self.out = Emission()
        self.stack: list[Block] = [self.out.body]
        self.reps: dict[Value, Rep] = {}
        self.mask: Mask = Box(((0, "active"), None, None)) if shape.tiled else FULL
        self.users = users_of(kernel.body)
        self.names: dict[str, int] = {}
        self.facts = Numbers()
        self.note = ""
        self.tables: dict[object, Tensor] = {}
        self.mask_bits: dict[Box, tuple[Block, Bits]] = {}
        self.row_lanes: dict[Value, tuple[Block, Tensor]] = {}
        self.ids: dict[tuple[str, int], Num] = {}

    # ---- names and blocks ----------------------------------------------------------------

    def fresh(self, hint: str) -> str:
        """A C++ name that nothing else has."""
        name = "".join(c if c.isascii() and c.isalnum() else "_" for c in hint) or "v"
        if name[0].isdigit() or name in _RESERVED or name[0] == "_":
            name = f"{name}_" if name[0].isalpha() else f"v{name}"
        count = self.names.get(name, 0)
        self.names[name] = count + 1
        return name if not count else self.fresh(f"{name}_{count + 1}")

    @property
    def block(self) -> Block:
        """Where nodes go."""
        return self.stack[-1]

    @contextmanager
    def inside(self, block: Block) -> Generator[None]:
        """Emit into a block of a loop or branch."""
        self.stack.append(block)
        note, self.note = self.note, ""
        yield
        self.note = note
        self.stack.pop()

    @contextmanager
    def at_start(self) -> Generator[None]:
        """Emit before the loop over workgroups."""
        stack, self.stack = self.stack, [self.out.prologue]
        note, self.note = self.note, ""
        yield
        self.stack, self.note = stack, note

    def at(self, op: Operation) -> None:
        """Say which line of the kernel comes next."""
        place = place_of(op.loc)
        if place and place != self.note:
            self.note = place
            self.block.nodes.append(Note(place))

    def instr(
        self,
        pipe: str,
        lines: str | Sequence[str],
        reads: Iterable[Access] = (),
        writes: Iterable[Access] = (),
        *,
        op: str = "",
        leaves: bool = False,
    ) -> Instr:
        """Append an instruction."""
        text = [lines] if isinstance(lines, str) else list(lines)
        made = Instr(pipe, text, tuple(reads), tuple(writes), leaves, op)
        self.block.nodes.append(made)
        return made

    def scalar(self, kind: str, hint: str, text: str, reads: Iterable[Access] = ()) -> str:
        """A constant of the scalar unit; its name."""
        name = self.fresh(hint)
        if kind == "int64_t":
            self.facts.note(name, text)
        self.instr("S", f"const {kind} {name} = {text};", reads)
        return name

    def number(self, hint: str, value: Num, kind: str = "int64_t") -> Num:
        """A number or a name: long text is computed once."""
        if isinstance(value, int) or grouped(value) == value:
            return value
        return self.scalar(kind, hint, value)

    # ---- buffers -------------------------------------------------------------------------

    def buffer(self, hint: str, kind: str, count: int | None = None) -> Buffer:
        """A new buffer of one element a lane, or of `count`."""
        made = Buffer(self.fresh(hint), kind, count or self.shape.lanes, SIZES[kind])
        self.out.buffers.append(made)
        return made

    def bits_buffer(self, hint: str) -> Buffer:
        """A new buffer of one bit a lane."""
        return self.buffer(hint, "uint8_t", max(32, self.shape.lanes // 8))

    def buffer_for(self, kind: Type, hint: str) -> Buffer:
        """A new buffer for a value of a hetIR type."""
        if kind == BOOL:
            return self.bits_buffer(hint)
        return self.buffer(hint, storage(kind))

    def held(self, buffer: Buffer, kind: Type) -> Tensor | Bits:
        """What a buffer of `buffer_for` holds."""
        return Bits(buffer) if kind == BOOL else Tensor(buffer, buffer.kind)

    def declare(self, buffer: Buffer) -> None:
        """Begin a buffer's life here."""
        self.block.nodes.append(Declare(buffer))

    def access(self, rep: Rep) -> Access:
        """What reading or writing a tensor or mask touches."""
        assert isinstance(rep, Tensor | Bits)
        buffer = rep.buffer
        if isinstance(rep, Tensor) and isinstance(rep.start, int) and rep.start:
            start = rep.start * buffer.size
            return Access(buffer, start, start + self.shape.lanes * buffer.size)
        if isinstance(rep, Tensor) and rep.start == 0 and buffer.count > self.shape.lanes:
            return Access(buffer, 0, self.shape.lanes * buffer.size)
        return Access(buffer)

    # ---- refusals ------------------------------------------------------------------------

    def refuse(self, op: Operation, sentence: str) -> UnsupportedError:
        """The error for what the chip cannot do."""
        labels = (Label(op.loc, ""),) if op.loc else ()
        return UnsupportedError(f"{sentence} on target `{self.chip.name}`", *labels)


def users_of(region: Region) -> dict[Value, list[Operation]]:
    """The ops that use each value."""
    found: dict[Value, list[Operation]] = {}
    for op in walk(region):
        for value in op.operands:
            found.setdefault(value, []).append(op)
    return found


def place_of(loc: Loc | None) -> str:
    """File and line of the user's kernel that an op comes from."""
    if loc is None:
        return ""
    while loc.caller is not None:
        loc = loc.caller
    return f"{PurePath(loc.file).name}:{loc.line}"


def storage(kind: Type) -> str:
    """The C++ type of a value's elements in memory."""
    if isinstance(kind, RefType):
        return "uint64_t"
    assert isinstance(kind, Scalar)
    return "uint8_t" if kind == BOOL else c_type(kind)


def is_private(kind: Type) -> bool:
    """Whether a type is a private array's."""
    return isinstance(kind, ArrayType) and kind.space == "private"


def uniform_text(rep: Rep) -> str | None:
    """The text of a value that is the same for all lanes."""
    return rep.text if isinstance(rep, Uniform) else None
