"""Rules of loads, stores, atomics and fences on plain LLVM memory.

The lowering table says which order an operation needs; `target` is the table's name of the
processor. LLVM then writes the table's instruction, as the tests of the assembly hold it to.
"""

from __future__ import annotations

from collections.abc import Sequence

from hetir.backends.llvm.code import Code, memory_type
from hetir.backends.llvm.extremes import extreme
from hetir.backends.llvm.rules import ALL, FLOATS, INTS, NARROW, Key, byte, truth
from hetir.ir.core import Operation
from hetir.ir.types import BOOL, RefType, Scalar
from hetir.memory.lowering import Kind, lookup
from hetir.memory.program import Order, Scope

_KINDS = {
    "atomic.load": Kind.LOAD,
    "atomic.store": Kind.STORE,
    "atomic.rmw": Kind.RMW,
    "atomic.cas": Kind.CAS,
}
_LLVM_RMW = {"exchange": "xchg"}
_LLVM_FLOAT_RMW = {"add": "fadd", "sub": "fsub", "min": "fminimum", "max": "fmaximum"}


def element_of(op: Operation) -> Scalar:
    """The element type of an access."""
    element = op.attrs["element"]
    assert isinstance(element, Scalar)
    return element


def order_of(target: str, op: Operation) -> str | None:
    """LLVM's order of an atomic access, or None where a plain access is enough.

    Shared and private memory is seen by one workgroup only, whatever the scope.
    """
    space = op.operands[0].type
    assert isinstance(space, RefType)
    near = space.space in ("shared", "private")
    scope = Scope.WORKGROUP if near else Scope(str(op.attrs["scope"]))
    (step,) = lookup(target, _KINDS[op.name], Order(str(op.attrs["order"])), scope).steps
    return None if step.order is None else _llvm(step.order)


def _llvm(order: Order) -> str:
    return "monotonic" if order is Order.RELAXED else str(order)


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


def atomic_load(code: Code, op: Operation, address: str, order: str | None) -> str:
    """An atomic load; plain where it needs no order."""
    if order is None:
        return load(code, op, address, "")
    element = element_of(op)
    kind = memory_type(element)
    return code.add(f"load atomic {kind}, ptr {address} {order}, align {element.bytes}")


def atomic_store(code: Code, op: Operation, address: str, value: str, order: str | None) -> None:
    """An atomic store; plain where it needs no order."""
    if order is None:
        store(code, op, address, value, "")
        return
    element = element_of(op)
    kind = memory_type(element)
    code.put(f"store atomic {kind} {value}, ptr {address} {order}, align {element.bytes}")


def atomic_rmw(code: Code, op: Operation, address: str, value: str, order: str | None) -> str:
    """A read-modify-write; plain where it needs no order."""
    kind, element = str(op.attrs["kind"]), element_of(op)
    if element.name in FLOATS:
        kind = _LLVM_FLOAT_RMW.get(kind, kind)
    elif kind in ("min", "max") and not element.signed:
        kind = f"u{kind}"
    wide = memory_type(element)
    if order is not None:
        name = _LLVM_RMW.get(kind, kind)
        return code.add(
            f"atomicrmw {name} ptr {address}, {wide} {value} {order}, align {element.bytes}"
        )
    old = load(code, op, address, "")
    store(code, op, address, _combine(code, kind, element, old, value), "")
    return old


def _combine(code: Code, kind: str, element: Scalar, old: str, value: str) -> str:
    wide = memory_type(element)
    if kind == "exchange":
        return value
    if kind in ("fminimum", "fmaximum"):
        return extreme(code, kind[1:], wide, old, value)
    if kind.endswith(("min", "max")):
        name = kind if kind.startswith("u") else f"s{kind}"
        return code.intrinsic(name, wide, (wide, old), (wide, value))
    return code.add(f"{kind} {wide} {old}, {value}")


def atomic_cas(
    code: Code, op: Operation, address: str, expected: str, desired: str, order: str | None
) -> str:
    """Compare-and-exchange of bits; the old value."""
    element = element_of(op)
    raw = f"i{element.bits}"
    want, new = (_raw(code, element, v) for v in (expected, desired))
    if order is None:
        old = code.add(f"load {raw}, ptr {address}, align {element.bytes}")
        same = code.add(f"icmp eq {raw} {old}, {want}")
        kept = code.add(f"select i1 {same}, {raw} {new}, {raw} {old}")
        code.put(f"store {raw} {kept}, ptr {address}, align {element.bytes}")
        return _cooked(code, element, old)
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


def fence(code: Code, op: Operation, target: str) -> None:
    """A fence towards other threads; nothing where the table runs the scope in one thread.

    A fence that the processor needs no instruction for still holds LLVM back.
    """
    scope, order = Scope(str(op.attrs["scope"])), Order(str(op.attrs["order"]))
    (access,) = lookup(target, Kind.LOAD, Order.RELAXED, scope).steps
    if access.order is not None:
        code.put(f"fence {_llvm(order)}")


def access(code: Code, op: Operation, args: Sequence[str], tags: str, target: str) -> str | None:
    """Emit an access; gives the result's name if there is one."""
    address = code.index(args[0], args[1])
    order = order_of(target, op) if op.name in _KINDS else None
    match op.name:
        case "load":
            return load(code, op, address, tags)
        case "store":
            return store(code, op, address, args[2], tags)
        case "atomic.load":
            return atomic_load(code, op, address, order)
        case "atomic.store":
            return atomic_store(code, op, address, args[2], order)
        case "atomic.rmw":
            return atomic_rmw(code, op, address, args[2], order)
        case _:
            return atomic_cas(code, op, address, args[2], args[3], order)


def covered() -> frozenset[Key]:
    """The accesses that `access` emits."""
    plain = {(name, kind) for name in ("load", "store") for kind in ALL}
    words = (*INTS, *FLOATS, *NARROW)
    atomic = {(f"atomic.{n}", kind) for n in ("load", "store", "cas") for kind in words}
    kinds = ("add", "sub", "min", "max", "and", "or", "xor", "exchange")
    rmw = {("atomic.rmw", kind, element) for kind in kinds for element in INTS}
    rmw |= {("atomic.rmw", kind, element) for kind in _LLVM_FLOAT_RMW for element in FLOATS}
    return frozenset(plain | atomic | rmw | {("atomic.rmw", "exchange", k) for k in words})
