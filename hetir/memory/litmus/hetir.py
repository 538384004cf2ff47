"""Litmus text in hetIR's own words: `store.release.device x, 1`, `barrier`, `fence.seq_cst.device`.

A location in workgroup memory is declared as `x @ shared aliases`-free text: `shared x = 0`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from hetir.memory.litmus.assemble import assemble
from hetir.memory.litmus.table import LitmusError, Sections, operand, operands
from hetir.memory.program import (
    Address,
    Assign,
    Barrier,
    Cas,
    Fence,
    Instruction,
    Load,
    Order,
    Program,
    Rmw,
    Scope,
    Space,
    Store,
)

SCOPES = {
    "subgroup": Scope.SUBGROUP,
    "sg": Scope.SUBGROUP,
    "workgroup": Scope.WORKGROUP,
    "wg": Scope.WORKGROUP,
    "device": Scope.DEVICE,
    "dev": Scope.DEVICE,
    "system": Scope.SYSTEM,
}
OPS = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^", "min": "min", "max": "max"}
OPS["exchange"] = "exchange"


def program(sections: Sections) -> Program:
    """Read a hetIR litmus program."""
    shared = set(re.findall(r"\bshared\s+(\w+)", sections.initial))
    initial = re.sub(r"\b(shared|global)\s+", "", sections.initial)
    read = assemble(replace(sections, initial=initial), SCOPES, _instruction)
    places = tuple(
        replace(place, space=Space.SHARED) if place.name in shared else place
        for place in read.locations
    )
    return replace(read, locations=places)


def _instruction(text: str) -> Instruction:
    word, _, rest = text.partition(" ")
    opcode, *parts = word.split(".")
    args = operands(rest)
    order, scope = _ordering(text, parts)
    match opcode:
        case "mov":
            return Assign(register=args[0], value=operand(args[1]))
        case "load":
            register, place = args
            return Load(
                register=register, address=Address(base=place), order=order, scope=scope, text=text
            )
        case "store":
            place, value = args
            return Store(
                address=Address(base=place),
                value=operand(value),
                order=order,
                scope=scope,
                text=text,
            )
        case "fence":
            return Fence(order=order, scope=scope, text=text)
        case "barrier":
            execution = SCOPES[parts[0]] if parts else Scope.WORKGROUP
            return barrier(execution, text)
        case "cas":
            return _cas(text, args, order, scope)
        case _ if opcode.removeprefix("atomic_") in OPS:
            register, place, value = args
            return Rmw(
                register=None if register == "_" else register,
                address=Address(base=place),
                op=OPS[opcode.removeprefix("atomic_")],
                operand=operand(value),
                order=order,
                scope=scope,
                text=text,
            )
        case _:
            raise LitmusError(f"unknown hetIR instruction `{text}`")


def barrier(execution: Scope, text: str = "barrier") -> Barrier:
    """Return hetIR's barrier: it orders all memory at the scope that waits."""
    return Barrier(
        name=str(execution), execution=execution, order=Order.ACQ_REL, scope=execution, text=text
    )


def _ordering(text: str, parts: list[str]) -> tuple[Order | None, Scope | None]:
    if text.startswith("barrier") or not parts:
        return None, None
    if len(parts) != 2 or parts[0] not in set(Order) or parts[1] not in SCOPES:
        raise LitmusError(f"expected `.order.scope` in `{text}`")
    return Order(parts[0]), SCOPES[parts[1]]


def _cas(text: str, args: list[str], order: Order | None, scope: Scope | None) -> Cas:
    register, place, expected, desired = args
    if order is None:
        raise LitmusError(f"`{text}` needs an order and a scope")
    return Cas(
        register=register,
        address=Address(base=place),
        expected=operand(expected),
        desired=operand(desired),
        failure_order=failure_of(order),
        order=order,
        scope=scope,
        text=text,
    )


def failure_of(order: Order) -> Order:
    """Return the order of the read that a failing compare-and-swap of `order` is."""
    if order is Order.SEQ_CST:
        return order
    return Order.ACQUIRE if order.acquires else Order.RELAXED
