"""One SIMD kernel from hetIR to text: shape of the lanes, emission, plan, flags, source."""

from __future__ import annotations

from dataclasses import dataclass

from hetir.artifact import Layout
from hetir.backends.ascend.simd_dead import drop_dead_scalars, inline_known_branches
from hetir.backends.ascend.simd_emit import Emitter
from hetir.backends.ascend.simd_lanes import Group
from hetir.backends.ascend.simd_passes import lowered, ties
from hetir.backends.ascend.simd_plan import plan
from hetir.backends.ascend.simd_program import Block, Buffer, Instr, Loop, Node, instructions
from hetir.backends.ascend.simd_queues import Queue, events_of, through_queues
from hetir.backends.ascend.simd_state import LANE_STEP, Chip, Shape
from hetir.backends.ascend.simd_sync import synchronise
from hetir.backends.ascend.simd_text import source
from hetir.backends.ascend.targets import chip_of, resolve
from hetir.diagnostics import Label
from hetir.ir.core import Kernel, walk
from hetir.ir.types import ArrayType
from hetir.limits import UnifiedBufferError
from hetir.passes.layout import accessed, layout_of
from hetir.passes.magnitude import addressing, magnitudes, positive
from hetir.passes.uniformity import uniformity

Workgroup = tuple[int, int, int]

_GUESSES = (256, 128, 64, 32)  # work-items of a workgroup that nobody chose
_TILES = (1024, 512, 256, 128, LANE_STEP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A kernel's source and what it took."""

    entry: str
    text: str
    program: Block
    workgroup: Workgroup | None
    buffer_bytes: int
    scalar_ops: int
    shape: Shape


def build(kernel: Kernel, target: str, workgroup: Workgroup | None, disjoint: bool) -> Built:
    """Emit a kernel: a whole workgroup at once, or in tiles where it is too large for that.

    Raises:
        UnifiedBufferError: work-items that work together need more than the buffer holds.
    """
    chip = chip_of(target)
    tied = ties(kernel)
    choices = [workgroup] if workgroup is not None else []
    if tied and workgroup is None:
        choices = [(items, 1, 1) for items in _GUESSES]
    for extents in choices:
        made = _emitted(kernel, chip, Shape(extents=extents), extents, disjoint)
        if made.buffer_bytes <= chip.buffer_bytes:
            return made
        if tied and extents == choices[-1]:
            raise _too_large(kernel, chip, made)
    tiles = (Shape(extents=(tile, 1, 1), tiled=True) for tile in _TILES)
    tried = [_emitted(kernel, chip, next(tiles), workgroup, disjoint)]
    while tried[-1].buffer_bytes > chip.buffer_bytes:
        if tried[-1].shape.items == _TILES[-1]:
            raise _too_large(kernel, chip, tried[-1])
        tried.append(_emitted(kernel, chip, next(tiles), workgroup, disjoint))
    return tried[-1]


def _too_large(kernel: Kernel, chip: Chip, made: Built) -> UnifiedBufferError:
    asked, items = made.buffer_bytes, made.shape.items
    labels = (Label(kernel.loc, ""),) if kernel.loc else ()
    return UnifiedBufferError(
        f"{items} work-items take {asked} bytes of the Unified Buffer, "
        f"`{chip.name}` has {chip.buffer_bytes}",
        *labels,
        hint=f"use workgroups of {max(1, items * chip.buffer_bytes // asked)} work-items or fewer, "
        "or smaller shared and private arrays",
    )


def _emitted(
    kernel: Kernel, chip: Chip, shape: Shape, workgroup: Workgroup | None, disjoint: bool
) -> Built:
    low = lowered(kernel, resolve(chip.name), workgroup if not shape.tiled else None)
    emitter = _emitter(low, layout_of(kernel), chip, shape, disjoint)
    emitter.run()
    program = _framed(emitter, low)
    inline_known_branches(program)
    drop_dead_scalars(program)
    used, queues = plan(program, chip.buffer_bytes), list[Queue]()
    if used <= chip.buffer_bytes:
        queues = through_queues(program, chip.buffer_bytes - used)
        queued = sum(q.bytes for q in queues)
        used = plan(program, chip.buffer_bytes - queued) + queued
        synchronise(program, events_of(queues))
    entry = entry_of(kernel)
    arrays = [
        emitter.parameters[p.value] for p in kernel.params if isinstance(p.value.type, ArrayType)
    ]
    text = source(kernel, entry, chip, shape, program, arrays, queues)
    return Built(
        entry=entry,
        text=text,
        program=program,
        workgroup=workgroup if not shape.tiled else None,
        buffer_bytes=used,
        scalar_ops=emitter.scalar_ops,
        shape=shape,
    )


def entry_of(kernel: Kernel) -> str:
    """The name of the C++ function."""
    shown = "".join(c if c.isascii() and c.isalnum() else "_" for c in kernel.name)
    return f"hetir_{shown}"


def _emitter(kernel: Kernel, layout: Layout, chip: Chip, shape: Shape, disjoint: bool) -> Emitter:
    scope = "row" if shape.tiled else "workgroup"
    known = uniformity(kernel, scope=scope, lockstep=True)
    emitter = Emitter(kernel, layout, chip, shape, known, disjoint)
    emitter.group, emitter.scalar_ops = Group(), 0
    emitter.safe = frozenset(magnitudes(kernel)) | addressing(kernel)
    emitter.positive = positive(kernel)
    emitter.varying_values = set()
    emitter.there = {}
    emitter.kept = set()
    emitter.region = kernel.body
    emitter.group_block = Block()
    tiled = _TILE_LOCALS if shape.tiled else ()
    for name in ("kLanes", *(f"{n}_{a}" for n in _FRAME for a in "xyz"), *_LOCALS, *tiled):
        emitter.names[name] = 1
    emitter.parameters = {
        p.value: emitter.fresh(p.value.name or "array")
        for p in kernel.params
        if isinstance(p.value.type, ArrayType)
    }
    return emitter


_FRAME = ("group", "groups", "size", "row", "item")
_LOCALS = ("group", "groups", "buffer", "column", "from", "inside")
_TILE_LOCALS = ("tile", "active")


def _framed(emitter: Emitter, kernel: Kernel) -> Block:
    """The loops over workgroups, and over tiles, around the body."""
    used = {(op.name, op.attrs.get("axis")) for op in walk(kernel.body)}
    program = emitter.out.prologue
    start = Block()
    tiled = emitter.shape.tiled
    sizes = {a for a in range(3) if tiled or ("group_size", a) in used}
    for axis in range(3):
        _launch(start, f"groups_{'xyz'[axis]}", 8 * axis)
    for axis in sorted(sizes):
        if tiled:
            _launch(start, f"size_{'xyz'[axis]}", 24 + 8 * axis)
    start.nodes.append(_scalars("const int64_t groups = groups_x * groups_y * groups_z;"))
    body = Block()
    wanted = {a for n, a in used if n in ("group_id", "global_id")}
    if 0 in wanted:
        body.nodes.append(_scalars("const int64_t group_x = group % groups_x;"))
    if 1 in wanted:
        body.nodes.append(_scalars("const int64_t group_y = group / groups_x % groups_y;"))
    if 2 in wanted:
        body.nodes.append(_scalars("const int64_t group_z = group / (groups_x * groups_y);"))
    body.nodes += emitter.group_block.nodes
    body.nodes += _tiles(emitter) if tiled else emitter.out.body.nodes
    head = "for (int64_t group = GetBlockIdx(); group < groups; group += GetBlockNum())"
    if not emitter.chip.pads and accessed(kernel)[1]:
        # copies are of whole blocks and caches of whole lines: two cores would undo each other
        start.nodes.append(_scalars("if (GetBlockIdx() != 0) return;"))
        head = "for (int64_t group = 0; group < groups; ++group)"
    whole: list[Node] = [*start.nodes, *program.nodes, Loop(head, body, apart=True)]
    return Block(whole)


def _launch(block: Block, name: str, offset: int) -> None:
    block.nodes.append(_scalars(f"const int64_t {name} = LoadGlobal<int64_t>(launch, {offset});"))


def _scalars(line: str) -> Instr:
    return Instr("S", [line])


def _tiles(emitter: Emitter) -> list[Node]:
    """Loops over rows and tiles of a workgroup of any extents."""
    lanes = emitter.shape.extents[0]
    active = f"const int32_t active = Clamp(size_x - tile, 0, {lanes});"
    inner = Block([_scalars(active), *emitter.out.body.nodes])
    loop: Node = Loop(f"for (int64_t tile = 0; tile < size_x; tile += {lanes})", inner, apart=True)
    for letter in "yz":
        head = f"for (int64_t row_{letter} = 0; row_{letter} < size_{letter}; ++row_{letter})"
        loop = Loop(head, Block([loop]), apart=True)
    return [loop]


def buffers(program: Block) -> list[Buffer]:
    """Every buffer of a program, by offset."""
    found: dict[Buffer, None] = {}
    for instr in instructions(program):
        for access in (*instr.reads, *instr.writes):
            if isinstance(access.place, Buffer):
                found.setdefault(access.place)
    return sorted(found, key=lambda b: (b.offset, b.name))
