"""The Ascend C source of a program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from hetir.backends.ascend.simd_state import Chip, Shape
from hetir.ir.core import Kernel

_WIDTH = 100


def source(
    kernel: Kernel,
    entry: str,
    chip: Chip,
    shape: Shape,
    program: Block,
    arrays: Sequence[str],
    used: int,
) -> str:
    """The whole file."""
    lines = list(_lines(program))
    memory = ["const GlobalTensor<uint8_t> memory = Global<uint8_t>(launch, 0);"]
    cached = any("(memory)" in line for line in lines)
    body = [*_buffers(program, used), *(memory if cached else []), *lines]
    if any("CAST_RINT" in line and ("half>" in line or "bfloat16_t>" in line) for line in lines):
        body.insert(0, "SetSaturationFlag<SaturationMode::FLOAT>(false);  // to infinity")
    parts = [*_head(kernel, chip, shape), ""]
    for helper in helpers(body):
        parts += [helper, ""]
    parameters = ", ".join(f"GM_ADDR {name}" for name in (*arrays, "launch"))
    if any("kLanes" in line for line in body):
        parts += [f"constexpr int32_t kLanes = {shape.lanes};", ""]
    parts += [*_wrapped(f'extern "C" __global__ __aicore__ void {entry}({parameters}) {{', 0)]
    parts.append("    TPipe pipe;")
    parts += [line for text in body for line in _wrapped(text, 4)]
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


def _buffers(program: Block, used: int) -> Iterator[str]:
    """The Unified Buffer and its parts; what share bytes do not live together."""
    found: dict[Buffer, None] = {}
    for instr in instructions(program):
        for access in (*instr.reads, *instr.writes):
            if isinstance(access.place, Buffer):
                found.setdefault(access.place)
    if not found:
        return
    yield "TBuf<TPosition::VECCALC> buffer;"
    yield f"pipe.InitBuffer(buffer, {used});"
    for b in found:
        yield (
            f"const LocalTensor<{b.kind}> {b.name} = "
            f"buffer.GetWithOffset<{b.kind}>({b.count}, {b.offset});"
        )


def _lines(block: Block) -> Iterator[str]:
    for node in block.nodes:
        match node:
            case Note():
                yield f"// {node.text}"
            case Instr():
                for sync in node.syncs:
                    yield from _sync(sync)
                yield from node.lines
            case Loop():
                yield f"{node.head} {{"
                yield from (f"    {line}" for line in _lines(node.body))
                yield "}"
            case Branch():
                yield from _branch(node)
            case _:
                pass


def _branch(node: Branch) -> Iterator[str]:
    if node.then.nodes:
        yield f"if ({node.cond}) {{"
        yield from (f"    {line}" for line in _lines(node.then))
    else:
        yield f"if (!({node.cond})) {{"
        yield from (f"    {line}" for line in _lines(node.other))
        yield "}"
        return
    if node.other.nodes:
        yield "} else {"
        yield from (f"    {line}" for line in _lines(node.other))
    yield "}"


def _sync(sync: Sync) -> Iterator[str]:
    """A flag is set and waited for in one place: before the first instruction that needs it."""
    if sync.cache:
        yield "DataCacheCleanAndInvalid<uint8_t, CacheLine::ENTIRE_DATA_CACHE>(memory);"
    elif sync.source == sync.target:
        yield f"PipeBarrier<PIPE_{sync.source}>();"
    else:
        for call in ("SetFlag", "WaitFlag"):
            yield f"{call}<HardEvent::{sync.source}_{sync.target}>(EVENT_ID{sync.event});"


_BREAKS = (", ", " ? ", " : ", " && ", " || ", " + ", " - ", " * ", " / ", " & ", "(")


def _wrapped(text: str, indent: int) -> Iterator[str]:
    """A line of at most 100 columns, broken after commas, operators or parentheses."""
    inner = len(text) - len(text.lstrip(" "))
    line, pad = " " * indent + text, " " * (indent + inner + 8)
    while len(line) > _WIDTH:
        ends = (line.rfind(mark, len(pad) + 1, _WIDTH) + len(mark) - 1 for mark in _BREAKS)
        at = max(ends)
        if at <= len(pad):
            break
        yield line[: at + 1].rstrip()
        line = pad + line[at + 1 :].lstrip()
    yield line
