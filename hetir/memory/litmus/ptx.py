"""Litmus text in PTX: `st.release.gpu x, 1`, `atom.acq_rel.sys.add r, x, 1`, `fence.sc.gpu`."""

from __future__ import annotations

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
    Store,
)

SCOPES = {
    "cta": Scope.WORKGROUP,
    "cluster": Scope.CLUSTER,
    "gpu": Scope.DEVICE,
    "sys": Scope.SYSTEM,
}
ORDERS = {
    "relaxed": Order.RELAXED,
    "acquire": Order.ACQUIRE,
    "release": Order.RELEASE,
    "acq_rel": Order.ACQ_REL,
    "sc": Order.SEQ_CST,
}
PROXIES = {
    "ld": "generic",
    "st": "generic",
    "suld": "surface",
    "sust": "surface",
    "tld": "texture",
    "cold": "constant",
}
OPS = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^", "min": "min", "max": "max"}


def program(sections: Sections) -> Program:
    """Read a PTX litmus program."""
    return assemble(sections, SCOPES, _instruction)


def _instruction(text: str) -> Instruction:
    word, _, rest = text.partition(" ")
    parts = word.split(".")
    args = operands(rest)
    match parts[0]:
        case "ld" if len(parts) == 1:
            return Assign(register=args[0], value=operand(args[1]))
        case "mov":
            return Assign(register=args[0], value=operand(args[1]))
        case "ld" | "suld" | "tld" | "cold":
            register, place = args
            order, scope = _ordering(text, parts[1:])
            return Load(
                register=register,
                address=Address(base=place),
                order=order,
                scope=scope,
                tags=_proxy(parts[0]),
                text=text,
            )
        case "st" | "sust":
            place, value = args
            order, scope = _ordering(text, parts[1:])
            return Store(
                address=Address(base=place),
                value=operand(value),
                order=order,
                scope=scope,
                tags=_proxy(parts[0]),
                text=text,
            )
        case "atom" | "red":
            return _atomic(text, parts, args)
        case "fence" | "membar":
            return _fence(text, parts)
        case "bar" | "barrier":
            return _barrier(text, args)
        case _:
            raise LitmusError(f"unknown PTX instruction `{text}`")


def _proxy(opcode: str) -> frozenset[str]:
    proxy = PROXIES[opcode]
    return frozenset() if proxy == "generic" else frozenset({f"proxy:{proxy}"})


def _ordering(text: str, parts: list[str]) -> tuple[Order | None, Scope | None]:
    if parts == ["volatile"]:
        return Order.RELAXED, Scope.SYSTEM
    if parts in (["weak"], []):
        return None, None
    if len(parts) != 2 or parts[0] not in ORDERS or parts[1] not in SCOPES:
        raise LitmusError(f"expected `.order.scope` or `.weak` in `{text}`")
    return ORDERS[parts[0]], SCOPES[parts[1]]


def _atomic(text: str, parts: list[str], args: list[str]) -> Instruction:
    if len(parts) != 4:
        raise LitmusError(f"expected `.order.scope.operation` in `{text}`")
    order, scope = _ordering(text, parts[1:3])
    assert order is not None
    register = None
    if parts[0] == "atom":
        register, *args = args
    place, *values = args
    address = Address(base=place)
    if parts[3] == "cas":
        expected, desired = map(operand, values)
        failure = Order.ACQUIRE if order.acquires else Order.RELAXED
        return Cas(
            register=register,
            address=address,
            expected=expected,
            desired=desired,
            failure_order=failure,
            order=order,
            scope=scope,
            text=text,
        )
    op = "exchange" if parts[3] == "exch" else OPS.get(parts[3])
    if op is None or len(values) != 1:
        raise LitmusError(f"unknown atomic operation in `{text}`")
    return Rmw(
        register=register,
        address=address,
        op=op,
        operand=operand(values[0]),
        order=order,
        scope=scope,
        text=text,
    )


def _fence(text: str, parts: list[str]) -> Fence:
    if parts[1] == "proxy":
        return Fence(tags=frozenset({f"proxy:{parts[2]}"}), text=text)
    if parts[0] == "membar":
        widths = {"cta": Scope.WORKGROUP, "gl": Scope.DEVICE, "sys": Scope.SYSTEM}
        return Fence(order=Order.SEQ_CST, scope=widths[parts[1]], text=text)
    if len(parts) == 2:
        return Fence(order=Order.ACQ_REL, scope=SCOPES[parts[1]], text=text)
    order, scope = _ordering(text, parts[1:])
    return Fence(order=order, scope=scope, text=text)


def _barrier(text: str, args: list[str]) -> Barrier:
    if not 1 <= len(args) <= 3:
        raise LitmusError(f"expected a barrier, and perhaps its number and count, in `{text}`")
    return Barrier(
        name=args[0],
        key=operand(args[1]) if len(args) > 1 else None,
        count=operand(args[2]) if len(args) > 2 else None,
        execution=Scope.WORKGROUP,
        order=Order.ACQ_REL,
        scope=Scope.WORKGROUP,
        text=text,
    )
