"""The Ascend C source of a program."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from hetir.backends.ascend.simd_helpers import helpers
from hetir.backends.ascend.simd_program import (
    Block,
    Branch,
    Buffer,
    Instr,
    Loop,
    Note,
    Sync,
    instructions,
)
from hetir.backends.ascend.simd_queues import DEPTH, Queue, events_of
from hetir.backends.ascend.simd_state import Chip, Shape
from hetir.ir.core import Kernel

Events = Mapping[tuple[str, str, int], str]
"""Names of events that the pipe gives out, for pairs of pipes that queues use too."""

_WIDTH = 100


def source(
    kernel: Kernel,
    entry: str,
    chip: Chip,
    shape: Shape,
    program: Block,
    arrays: Sequence[str],
    queues: Sequence[Queue],
) -> str:
    """The whole file."""
    shared = _events(program, queues)
    lines = list(_lines(program, shared))
    memory = ["const GlobalTensor<uint8_t> memory = Global<uint8_t>(launch, 0);"]
    cached = any("(memory)" in line for line in lines)
    body = [*_buffers(program), *_queues(queues), *_event_lines(shared)]
    body += [*(memory if cached else []), *lines]
    if any("CAST_RINT" in line and ("half>" in line or "bfloat16_t>" in line) for line in lines):
        body.insert(0, "SetSaturationFlag<SaturationMode::FLOAT>(false);  // to infinity")
    parts = [*_head(kernel, chip, shape), ""]
    for helper in helpers(body):
        parts += [helper, ""]
    parameters = ", ".join(f"GM_ADDR {name}" for name in (*arrays, "launch"))
    if any("kLanes" in line for line in body):
        parts += [f"constexpr int32_t kLanes = {shape.lanes};", ""]
    parts += [*wrapped(f'extern "C" __global__ __aicore__ void {entry}({parameters}) {{', 0)]
    parts.append("    TPipe pipe;")
    parts += [line for text in body for line in wrapped(text, 4)]
    parts.append("}")
    return "\n".join(parts) + "\n"


def _head(kernel: Kernel, chip: Chip, shape: Shape) -> list[str]:
    where = f", from {kernel.loc.file.rpartition('/')[2]}" if kernel.loc else ""
    lanes = f"{shape.extents[0]} work-items at a time"
    if not shape.tiled:
        lanes = "workgroups of " + " x ".join(str(n) for n in shape.extents)
    return [
        f"// {kernel.name}{where}: Ascend C for {chip.name.partition(':')[2]} (arch {chip.arch}).",
        f"// Work-items are lanes of vectors in the Unified Buffer: {lanes}.",
        "// `launch` holds int64 counts of workgroups [3] and work-items [3], then the arguments.",
        '#include "kernel_operator.h"',
        "",
        "using namespace AscendC;",
    ]


def _events(program: Block, queues: Sequence[Queue]) -> Events:
    pairs = events_of(queues)
    used = {
        (s.source, s.target, s.event)
        for i in instructions(program)
        for s in i.syncs
        if (s.source, s.target) in pairs
    }
    return {key: f"{key[0]}_to_{key[1]}_{key[2]}".lower() for key in sorted(used)}


def _event_lines(events: Events) -> Iterator[str]:
    for (source, target, _), name in events.items():
        call = f"pipe.AllocEventID<HardEvent::{source}_{target}>()"
        yield f"const event_t {name} = static_cast<event_t>({call});"


def _queues(queues: Sequence[Queue]) -> Iterator[str]:
    """Queues of two buffers: one is filled while the other is read."""
    for q in queues:
        yield f"TQue<TPosition::{q.position}, {DEPTH}> {q.name};"
        yield f"pipe.InitBuffer({q.name}, {DEPTH}, {q.buffer.bytes});"


def _buffers(program: Block) -> Iterator[str]:
    """The Unified Buffer and its parts; what share bytes do not live together."""
    found: dict[Buffer, None] = {}
    for instr in instructions(program):
        for access in (*instr.reads, *instr.writes):
            if isinstance(access.place, Buffer):
                found.setdefault(access.place)
    if not found:
        return
    used = max(b.offset + b.bytes for b in found)
    yield "TBuf<TPosition::VECCALC> buffer;"
    yield f"pipe.InitBuffer(buffer, {used});"
    for b in found:
        yield (
            f"const LocalTensor<{b.kind}> {b.name} = "
            f"buffer.GetWithOffset<{b.kind}>({b.count}, {b.offset});"
        )


def _lines(block: Block, events: Events) -> Iterator[str]:
    for node in block.nodes:
        match node:
            case Note():
                yield f"// {node.text}"
            case Instr():
                for sync in node.syncs:
                    yield from _sync(sync, events)
                yield from node.lines
            case Loop():
                yield f"{node.head} {{"
                yield from (f"    {line}" for line in _lines(node.body, events))
                yield "}"
            case Branch():
                yield from _branch(node, events)
            case _:
                pass


def _branch(node: Branch, events: Events) -> Iterator[str]:
    if node.then.nodes:
        yield f"if ({node.cond}) {{"
        yield from (f"    {line}" for line in _lines(node.then, events))
    else:
        yield f"if (!({node.cond})) {{"
        yield from (f"    {line}" for line in _lines(node.other, events))
        yield "}"
        return
    if node.other.nodes:
        yield "} else {"
        yield from (f"    {line}" for line in _lines(node.other, events))
    yield "}"


def _sync(sync: Sync, events: Events) -> Iterator[str]:
    """A flag is set and waited for in one place: before the first instruction that needs it."""
    if sync.cache:
        yield "DataCacheCleanAndInvalid<uint8_t, CacheLine::ENTIRE_DATA_CACHE>(memory);"
    elif sync.source == sync.target:
        yield f"PipeBarrier<PIPE_{sync.source}>();"
    else:
        key = (sync.source, sync.target, sync.event)
        event = events.get(key, f"EVENT_ID{sync.event}")
        for call in ("SetFlag", "WaitFlag"):
            yield f"{call}<HardEvent::{sync.source}_{sync.target}>({event});"


_TIGHTNESS = {
    **dict.fromkeys((", ", "; "), 0),
    **dict.fromkeys((" ? ", " : "), 1),
    " || ": 2,
    " && ": 3,
    **dict.fromkeys((" | ", " ^ ", " & "), 4),
    **dict.fromkeys((" == ", " != ", " < ", " <= ", " > ", " >= "), 5),
    **dict.fromkeys((" << ", " >> "), 6),
    **dict.fromkeys((" + ", " - "), 7),
    **dict.fromkeys((" * ", " / ", " % "), 8),
    " = ": 9,
}
"""What a line may be broken after (before a ternary's signs), and how unwillingly."""

_MARK = re.compile("|".join(map(re.escape, _TIGHTNESS)))


def wrapped(text: str, indent: int) -> Iterator[str]:
    """A line of at most 100 columns: in few lines, broken where least is open, aligned to it."""
    line = " " * indent + text
    return iter(_laid_out(line, ()) if len(line) > _WIDTH else [line])


def _laid_out(line: str, opened: tuple[int, ...]) -> list[str]:
    """The lines of one; `opened` are the columns of the brackets that are open before it."""
    if len(line) <= _WIDTH:
        return [line]
    tries: list[list[str]] = []
    for cut, columns in _breaks(line, opened):
        column = columns[-1] if columns else _start(line) + 4
        rest = " " * column + line[cut:].lstrip()
        if len(rest) < len(line):
            tries.append([line[:cut].rstrip(), *_laid_out(rest, columns)])
    return min(tries, key=_cost, default=[line])


def _cost(lines: list[str]) -> tuple[int, int]:
    return sum(max(0, len(line) - _WIDTH) for line in lines), len(lines)


def _start(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _breaks(line: str, opened: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Where a line may be broken, the best first, and the columns that are open there.

    After the `=`, between the arguments of the outermost call, or before its first argument.
    """
    found: list[tuple[int, int, int, tuple[int, ...]]] = []
    first: tuple[int, tuple[int, ...]] | None = None
    columns, at, start = opened, _start(line), _start(line)
    for mark in _MARK.finditer(line, start, _WIDTH + 3):
        for place in range(at, mark.start()):
            if line[place] in "([{":
                first = first or (place + 1, (*columns, start + 4))
                columns = (*columns, place + 1)
            elif line[place] in ")]}":
                columns = columns[:-1]
        at = mark.start()
        cut = mark.start() if mark[0] in (" ? ", " : ") else mark.end()
        if len(line[:cut].rstrip()) <= _WIDTH and cut > start + 4:
            found.append((len(columns), _TIGHTNESS[mark[0]], -cut, columns))
    assigns = [f for f in found if f[1] == _TIGHTNESS[" = "] and not f[3]]
    others = [f for f in found if f not in assigns]
    for _, _, cut, there in (*assigns, *sorted(others)[:1]):
        yield -cut, there
    if first is not None:
        yield first
