"""Lowering a hetIR program to a target's program, by the table and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from hetir.memory.lowering import OPENCL, OPENCL_FENCED, VULKAN, Kind, Part, Row, Step, lookup
from hetir.memory.models.aarch64 import AArch64Model
from hetir.memory.models.base import Model
from hetir.memory.models.opencl import OpenClModel
from hetir.memory.models.ptx import PtxModel
from hetir.memory.models.vulkan import VulkanModel
from hetir.memory.models.x86 import X86Model
from hetir.memory.program import (
    SCOPES,
    Address,
    Barrier,
    Cas,
    Const,
    Fence,
    Instruction,
    Jump,
    Load,
    Location,
    MemoryOperation,
    Order,
    Program,
    Rmw,
    Scope,
    Space,
    Store,
    Thread,
)

Lookup = Callable[[str, Kind, Order | None, Scope], Row]


def hidden_word(thread: Thread, scope: Scope | None) -> str:
    """Return the word that updates which stand for seq_cst go to: one a device, or one for all."""
    if scope is Scope.SYSTEM:
        return "#hidden"
    return f"#hidden of device {thread.place.get(Scope.DEVICE, 0)}"


class RefusedError(Exception):
    """The target refuses an operation of the program; the message says why."""


def model_of(target: str) -> Model:
    """Return the memory model that judges programs lowered to a target.

    Where a model's text admits values out of thin air, the one without is taken: that no
    implementation makes them is an assumption of every mapping (docs/memory-model.md).
    """
    if target.startswith("ptx:"):
        return PtxModel()
    if target == OPENCL:
        return OpenClModel(thin_air=False)
    if target == VULKAN:
        return VulkanModel(thin_air=False)
    return X86Model() if target == "cpu:x86-64" else AArch64Model()


def lower(program: Program, target: str, rows: Lookup = lookup) -> Program:
    """Return the program that a target runs for `program`.

    Raises:
        RefusedError: the table refuses one of its operations.
    """
    if target == OPENCL:
        program = one_scope(program)
        target = OPENCL_FENCED if _has_strong_fence(program) else OPENCL
    # an access whose index is read names the array, `x` of `x[0]`
    arrays = {place.name.partition("[")[0]: place.space for place in program.locations}
    spaces = arrays | {location.name: location.space for location in program.locations}
    threads = tuple(
        replace(thread, body=tuple(_body(thread, target, rows, spaces)))
        for thread in program.threads
    )
    known = set(spaces)
    hidden = {
        item.address.base
        for thread in threads
        for item in thread.body
        if isinstance(item, Rmw) and item.address.base not in known
    }
    places = (*program.locations, *(Location(name=name) for name in sorted(hidden)))
    return replace(program, threads=threads, locations=places)


def _has_strong_fence(program: Program) -> bool:
    return any(
        isinstance(item, Fence) and item.order is Order.SEQ_CST
        for thread in program.threads
        for item in thread.body
    )


def one_scope(program: Program) -> Program:
    """Give every atomic operation and fence the widest scope that any of them has.

    OpenCL synchronises only operations of the same scope.
    """
    used = [
        item.scope
        for thread in program.threads
        for item in thread.body
        if isinstance(item, Load | Store | Rmw | Cas | Fence) and item.scope is not None
    ]
    if not used:
        return program
    widest = max(used, key=SCOPES.index)

    def widened(item: Instruction) -> Instruction:
        if isinstance(item, Load | Store | Rmw | Cas | Fence) and item.scope is not None:
            return replace(item, scope=widest)
        return item

    threads = tuple(replace(t, body=tuple(map(widened, t.body))) for t in program.threads)
    return replace(program, threads=threads)


def _body(thread: Thread, target: str, rows: Lookup, spaces: dict[str, Space]) -> list[Instruction]:
    lowered: list[Instruction] = []
    for position, item in enumerate(thread.body):
        if not isinstance(item, Load | Store | Rmw | Cas | Fence | Barrier):
            lowered.append(item)
            continue
        row = rows(target, _kind(item), item.order, item.scope or Scope.WORKGROUP)
        if row.refused:
            raise RefusedError(row.refused)
        cheaper = row.unfenced and not _fenced_after(thread.body, position)
        steps = row.unfenced if cheaper else row.steps
        lowered += [_step(thread, item, step, target, spaces) for step in steps]
    return lowered


def _fenced_after(body: tuple[Instruction, ...], position: int) -> bool:
    """Whether an acquiring fence may run after an operation; with a jump, any in the body may."""
    rest = body if any(isinstance(item, Jump) for item in body) else body[position:]
    return any(isinstance(i, Fence) and i.order is not None and i.order.acquires for i in rest)


def _kind(item: MemoryOperation) -> Kind:
    match item:
        case Load():
            return Kind.LOAD
        case Store():
            return Kind.STORE
        case Rmw(register=None):
            return Kind.REDUCTION
        case Rmw():
            return Kind.RMW
        case Cas():
            return Kind.CAS
        case Fence():
            return Kind.FENCE
        case Barrier():
            return Kind.BARRIER
        case _:
            assert_never(item)


def _step(
    thread: Thread, item: MemoryOperation, step: Step, target: str, spaces: dict[str, Space]
) -> Instruction:
    if step.part is Part.FENCE:
        return Fence(order=step.order, scope=step.scope, tags=step.tags, text=step.text)
    if step.part is Part.HIDDEN_UPDATE:
        tags = _classed(step.tags, Space.GLOBAL, target)
        return Rmw(
            register="#",
            address=Address(base=hidden_word(thread, step.scope)),
            op="+",
            operand=Const(0),
            order=step.order,
            scope=step.scope,
            tags=tags,
            text=step.text,
        )
    if isinstance(item, Barrier | Fence):
        return replace(item, order=step.order, scope=step.scope, tags=step.tags, text=step.text)
    tags = _classed(step.tags, spaces[item.address.base], target)
    if isinstance(item, Store) and "exchange" in tags:
        return Rmw(
            register="#",
            address=item.address,
            op="exchange",
            operand=item.value,
            order=step.order,
            scope=step.scope,
            text=step.text,
        )
    if isinstance(item, Rmw) and "red" not in tags and item.register is None:
        item = replace(item, register="#")
    if isinstance(item, Cas):
        item = replace(item, failure_order=_failure(step.order))
    return replace(item, order=step.order, scope=step.scope, tags=tags, text=step.text)


def _classed(tags: frozenset[str], space: Space, target: str) -> frozenset[str]:
    """Add the storage class of an access, which only Vulkan's model asks for."""
    if target != VULKAN:
        return tags
    return tags | {"sc0" if space is Space.GLOBAL else "sc1"}


def _failure(order: Order | None) -> Order:
    """A failing compare-and-swap keeps what its order says of reads."""
    if order is Order.SEQ_CST:
        return order
    return Order.ACQUIRE if order is not None and order.acquires else Order.RELAXED
