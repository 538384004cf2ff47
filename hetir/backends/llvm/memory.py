"""Rules of loads, stores, atomics and fences on plain LLVM memory."""

from __future__ import annotations

from collections.abc import Sequence

from hetir.backends.llvm.code import Code, memory_type
from hetir.backends.llvm.rules import ALL, FLOATS, INTS, NARROW, Key, byte, truth
from hetir.ir.core import Operation
from hetir.ir.types import BOOL, RefType, Scalar

_ORDERS = {"relaxed": "monotonic"}
_LLVM_RMW = {"exchange": "xchg"}


def element_of(op: Operation) -> Scalar:
    """The element type of an access."""
    element = op.attrs["element"]
    assert isinstance(element, Scalar)
    return element


def alone(op: Operation) -> bool:
    """Whether no other thread can see the access: one thread runs a whole workgroup."""
    space = op.operands[0].type
    assert isinstance(space, RefType)
    return space.space in ("shared", "private") or op.attrs["scope"] in ("subgroup", "workgroup")


def _order(op: Operation) -> str:
    order = str(op.attrs["order"])
    return _ORDERS.get(order, order)


def load(code: Code, op: Operation, address: str, tags: str) -> str:
    """A plain load."""
    element = element_of(op)
    kind = memory_type(element)
    value = code.add(f"load {kind}, ptr {address}, align {element.bytes}{tags}")
    return truth(code, value) if element == BOOL else value


def store(code: Code, op: Operation, address: str, value: str, tags: str) -> None:
    """A plain store."""
    element = element_of(op)
    kind, raw = memory_type(element), byte(code, element, value)
    code.put(f"store {kind} {raw}, ptr {address}, align {element.bytes}{tags}")


def atomic_load(code: Code, op: Operation, address: str) -> str:
    """An atomic load; plain where nobody else can see it."""
    if alone(op):
        return load(code, op, address, "")
    element = element_of(op)
    kind = memory_type(element)
    return code.add(f"load atomic {kind}, ptr {address} {_order(op)}, align {element.bytes}")


def atomic_store(code: Code, op: Operation, address: str, value: str) -> None:
    """An atomic store; plain where nobody else can see it."""
    if alone(op):
        store(code, op, address, value, "")
        return
    element = element_of(op)
    kind = memory_type(element)
    code.put(f"store atomic {kind} {value}, ptr {address} {_order(op)}, align {element.bytes}")


def atomic_rmw(code: Code, op: Operation, address: str, value: str) -> str:
    """An integer read-modify-write; plain where nobody else can see it."""
    kind, element = str(op.attrs["kind"]), element_of(op)
    if kind in ("min", "max") and not element.signed:
        kind = f"u{kind}"
    wide = memory_type(element)
    if not alone(op):
        name = _LLVM_RMW.get(kind, kind)
        return code.add(
            f"atomicrmw {name} ptr {address}, {wide} {value} {_order(op)}, align {element.bytes}"
        )
    old = load(code, op, address, "")
    store(code, op, address, _combine(code, kind, element, old, value), "")
    return old


def _combine(code: Code, kind: str, element: Scalar, old: str, value: str) -> str:
    wide = memory_type(element)
    if kind == "exchange":
        return value
    if kind.endswith(("min", "max")):
        name = kind if kind.startswith("u") else f"s{kind}"
        return code.intrinsic(name, wide, (wide, old), (wide, value))
    return code.add(f"{kind} {wide} {old}, {value}")


def atomic_cas(code: Code, op: Operation, address: str, expected: str, desired: str) -> str:
    """Compare-and-exchange of bits; the old value."""
    element = element_of(op)
    raw = f"i{element.bits}"
    want, new = (_raw(code, element, v) for v in (expected, desired))
    if alone(op):
        old = code.add(f"load {raw}, ptr {address}, align {element.bytes}")
        same = code.add(f"icmp eq {raw} {old}, {want}")
        kept = code.add(f"select i1 {same}, {raw} {new}, {raw} {old}")
        code.put(f"store {raw} {kept}, ptr {address}, align {element.bytes}")
        return _cooked(code, element, old)
    order = _order(op)
    failure = {"release": "monotonic", "acq_rel": "acquire"}.get(order, order)
    pair = code.add(
        f"cmpxchg ptr {address}, {raw} {want}, {raw} {new} {order} {failure}, align {element.bytes}"
    )
    return _cooked(code, element, code.add(f"extractvalue {{ {raw}, i1 }} {pair}, 0"))


def _raw(code: Code, element: Scalar, value: str) -> str:
    if element.name not in FLOATS:
        return value
    return code.add(f"bitcast {memory_type(element)} {value} to i{element.bits}")


def _cooked(code: Code, element: Scalar, raw: str) -> str:
    if element.name not in FLOATS:
        return raw
    return code.add(f"bitcast i{element.bits} {raw} to {memory_type(element)}")


def fence(code: Code, op: Operation) -> None:
    """A fence towards other threads; nothing within a workgroup."""
    if op.attrs["scope"] in ("device", "system"):
        code.put(f"fence {_order(op)}")


def access(code: Code, op: Operation, args: Sequence[str], tags: str) -> str | None:
    """Emit an access; gives the result's name if there is one."""
    address = code.index(args[0], args[1])
    match op.name:
        case "load":
            return load(code, op, address, tags)
        case "store":
            return store(code, op, address, args[2], tags)
        case "atomic.load":
            return atomic_load(code, op, address)
        case "atomic.store":
            return atomic_store(code, op, address, args[2])
        case "atomic.rmw":
            return atomic_rmw(code, op, address, args[2])
        case _:
            return atomic_cas(code, op, address, args[2], args[3])


def covered() -> frozenset[Key]:
    """The accesses that `access` emits."""
    plain = {(name, kind) for name in ("load", "store") for kind in ALL}
    words = (*INTS, *FLOATS, *NARROW)
    atomic = {(f"atomic.{n}", kind) for n in ("load", "store", "cas") for kind in words}
    kinds = ("add", "sub", "min", "max", "and", "or", "xor", "exchange")
    rmw = {("atomic.rmw", kind, element) for kind in kinds for element in INTS}
    return frozenset(plain | atomic | rmw | {("atomic.rmw", "exchange", k) for k in words})
