"""An entry with all that it calls, as blocks of steps: functions are inlined where called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hetir.emulator.ptx.barrier import BarrierStep
from hetir.emulator.ptx.build import Build, Step
from hetir.emulator.ptx.calls import emit_function
from hetir.emulator.ptx.items import Branch, Exit, Item, Mark, Table
from hetir.emulator.ptx.layout import Instance, Layout
from hetir.emulator.ptx.order import weak_topological_order
from hetir.emulator.ptx.syntax import Function, Module
from hetir.emulator.ptx.types import Lanes, PtxType
from hetir.emulator.ptx.warp import WarpStep


@dataclass(slots=True)
class Block:
    """Steps that run one after another, then where the lanes go.

    `meeting` is set where the block is one step at which lanes wait for each other.
    """

    steps: list[Step] = field(default_factory=list[Step])
    meeting: WarpStep | BarrierStep | None = None
    end: Branch | Table | Exit | None = None
    targets: tuple[int, ...] = ()
    next: int = -1


@dataclass(slots=True, kw_only=True)
class Program:
    """What a launch of an entry executes, and what it needs.

    `approximate` names the instructions whose result is not the device's bit for bit;
    `contractible` those that an assembler may fuse, for they have no rounding modifier.
    """

    function: Function
    blocks: list[Block]
    register_types: list[PtxType]
    local_stride: int
    local_table: Lanes
    parameter_table: Lanes
    parameter_bytes: int
    static_shared_bytes: int
    shared_table: Lanes
    dynamic_base: int
    approximate: tuple[str, ...]
    contractible: tuple[str, ...]


def build(module: Module, function: Function, addresses: Mapping[str, int]) -> Program:
    """The program of an entry; `addresses` are those of the module's global and const variables."""
    layout = Layout(module, function, addresses)
    items: list[Item] = []
    emit_function(layout, Instance(layout, function), items)
    items.append(Exit())
    blocks = _ordered(_blocks(items))
    return Program(
        function=function,
        blocks=blocks,
        register_types=layout.register_types,
        local_stride=layout.local.stride,
        local_table=layout.local.table(),
        parameter_table=layout.parameters.table(),
        parameter_bytes=layout.parameter_bytes,
        static_shared_bytes=layout.static_shared_bytes,
        shared_table=layout.shared.table(),
        dynamic_base=layout.dynamic_base,
        approximate=tuple(sorted(layout.approximate)),
        contractible=tuple(sorted(layout.contractible)),
    )


def _blocks(items: list[Item]) -> list[Block]:
    blocks = [Block()]
    labels: dict[str, int] = {}

    def fresh() -> Block:
        if blocks[-1].steps or blocks[-1].meeting or blocks[-1].end:
            blocks.append(Block())
        return blocks[-1]

    for item in items:
        match item:
            case Mark(name):
                fresh()
                labels[name] = len(blocks) - 1
            case Branch() | Table() | Exit():
                # a block with a meeting has nothing else
                (fresh() if blocks[-1].meeting or blocks[-1].end else blocks[-1]).end = item
                blocks.append(Block())
            case WarpStep() | BarrierStep():
                fresh().meeting = item
                blocks.append(Block())
            case _:
                blocks[-1].steps.append(item)
    if not (blocks[-1].steps or blocks[-1].end):
        blocks[-1].end = Exit()
    for at, block in enumerate(blocks):
        _connect(block, at, labels)
    return blocks


def _connect(block: Block, at: int, labels: dict[str, int]) -> None:
    match block.end:
        case Branch(target, guard, _, where):
            block.targets = (_label(where, labels, target),)
            block.next = at + 1 if guard is not None else -1
        case Table(_, targets, where):
            block.targets = tuple(_label(where, labels, t) for t in targets)
        case Exit():
            pass
        case None:
            block.next = at + 1


def _label(where: Build, labels: dict[str, int], name: str) -> int:
    if name not in labels:
        raise where.wrong(f"the label `{name.split('#')[0]}` is not there")
    return labels[name]


def _ordered(blocks: list[Block]) -> list[Block]:
    successors = [(*((b.next,) if b.next >= 0 else ()), *b.targets) for b in blocks]
    order = weak_topological_order(successors)
    place = {old: new for new, old in enumerate(order)}
    out: list[Block] = []
    for old in order:
        block = blocks[old]
        block.targets = tuple(place[t] for t in block.targets)
        block.next = place[block.next] if block.next >= 0 else -1
        out.append(block)
    return out
