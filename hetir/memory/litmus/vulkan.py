"""Litmus text for Vulkan: `st.atom.rel.dv.sc0.semsc0.semav x, 1`, `membar.acq.wg.semsc0`."""

from __future__ import annotations

import re

from hetir.memory.litmus.assemble import assemble
from hetir.memory.litmus.table import LitmusError, Sections, operand, operands
from hetir.memory.program import (
    SCOPES as ALL_SCOPES,
)
from hetir.memory.program import (
    Address,
    Barrier,
    Fence,
    Instruction,
    Load,
    Order,
    Program,
    Rmw,
    Scope,
    Store,
)

SCOPES = {
    "sg": Scope.SUBGROUP,
    "wg": Scope.WORKGROUP,
    "qf": Scope.QUEUE_FAMILY,
    "dv": Scope.DEVICE,
}
ORDERS = {"acq": Order.ACQUIRE, "rel": Order.RELEASE, "acq_rel": Order.ACQ_REL}
OPS = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^", "min": "min", "max": "max"}
TAGS = frozenset({"av", "vis", "nonpriv", "semav", "semvis"})


def program(sections: Sections) -> Program:
    """Read a Vulkan litmus program; its second block lists what the host orders."""
    pairs: list[tuple[int, int]] = []
    for part in sections.setup.split(";"):
        if match := re.fullmatch(r"ssw\s+(\d+)\s+(\d+)", part.strip()):
            pairs.append((int(match[1]), int(match[2])))
        elif part.strip():
            raise LitmusError(f"expected `ssw a b`, got `{part.strip()}`")
    return assemble(sections, SCOPES, _instruction, tuple(pairs))


def _instruction(text: str) -> Instruction:
    word, _, rest = text.partition(" ")
    opcode, *parts = word.split(".")
    args = operands(rest)
    if opcode in {"avdevice", "visdevice"}:
        return Fence(tags=frozenset({opcode}), text=text)
    order, scope, tags, op = _modifiers(text, parts)
    match opcode:
        case "ld":
            register, place = args
            return Load(
                register=register,
                address=Address(base=place),
                order=order,
                scope=scope,
                tags=tags,
                text=text,
            )
        case "st":
            place, value = args
            return Store(
                address=Address(base=place),
                value=operand(value),
                order=order,
                scope=scope,
                tags=tags,
                text=text,
            )
        case "rmw":
            register, place, value = args
            return Rmw(
                register=register,
                address=Address(base=place),
                op=op,
                operand=operand(value),
                order=order,
                scope=scope,
                tags=tags,
                text=text,
            )
        case "membar":
            return Fence(order=order, scope=scope, tags=tags, text=text)
        case "cbar":
            return _control_barrier(text, args, order, scope, tags)
        case _:
            raise LitmusError(f"unknown Vulkan instruction `{text}`")


def _modifiers(
    text: str, parts: list[str]
) -> tuple[Order | None, Scope | None, frozenset[str], str]:
    order: Order | None = None
    scope: Scope | None = None
    tags: set[str] = set()
    op = "exchange"
    for part in parts:
        if part == "atom":
            order = order or Order.RELAXED
        elif part in ORDERS:
            order = ORDERS[part]
        elif part in SCOPES:
            scope = SCOPES[part]
        elif part in OPS:
            op = OPS[part]
        elif part in TAGS or re.fullmatch(r"(sem)?sc\d", part):
            tags.add("nonprivate" if part == "nonpriv" else part)
        else:
            raise LitmusError(f"unknown modifier `.{part}` in `{text}`")
    return order, scope, frozenset(tags), op


def _control_barrier(
    text: str, args: list[str], order: Order | None, scope: Scope | None, tags: frozenset[str]
) -> Barrier:
    if scope is None or not args:
        raise LitmusError(f"expected a scope and a barrier in `{text}`")
    # work-items wait for their workgroup at most, however wide the memory scope is
    widest = ALL_SCOPES.index(Scope.WORKGROUP)
    execution = scope if ALL_SCOPES.index(scope) < widest else Scope.WORKGROUP
    return Barrier(
        name=args[0],
        key=operand(args[1]) if len(args) > 1 else None,
        count=operand(args[2]) if len(args) > 2 else None,
        execution=execution,
        order=order,
        scope=scope,
        tags=tags,
        text=text,
    )
