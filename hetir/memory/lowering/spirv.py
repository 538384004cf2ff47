"""SPIR-V's rows, in both flavours.

After the memory model appendix of Vulkan and section 3.3.6 of the OpenCL API specification.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hetir.memory.lowering.rows import GRID_BARRIER, Kind, Part, Row, Step, refuse, row
from hetir.memory.program import Order, Scope

OPENCL = "spirv:opencl"
OPENCL_FENCED = "spirv:opencl with seq_cst fences"
VULKAN = "spirv:vulkan"

_SPIRV_SCOPES: Mapping[Scope, str] = {
    Scope.SUBGROUP: "Subgroup",
    Scope.WORKGROUP: "Workgroup",
    Scope.DEVICE: "Device",
    Scope.SYSTEM: "CrossDevice",
}
_SPIRV_ORDERS: Mapping[Order, str] = {
    Order.RELAXED: "Relaxed",
    Order.ACQUIRE: "Acquire",
    Order.RELEASE: "Release",
    Order.ACQ_REL: "AcquireRelease",
    Order.SEQ_CST: "SequentiallyConsistent",
}
_SPIRV_OPCODES: Mapping[Kind, str] = {
    Kind.LOAD: "OpAtomicLoad",
    Kind.STORE: "OpAtomicStore",
    Kind.RMW: "OpAtomic{operation}",
    Kind.REDUCTION: "OpAtomic{operation}",
    Kind.CAS: "OpAtomicCompareExchange",
}
_BOTH_REGIONS = frozenset({"global", "local"})


_HIDDEN_NOTE = (
    "the updates of one hidden word a device are in one order, which stands for that of the "
    "seq_cst operations"
)
_AROUND_HIDDEN: Mapping[Kind, Order] = {
    # what follows the hidden update of a seq_cst access
    Kind.LOAD: Order.ACQUIRE,
    Kind.STORE: Order.RELEASE,
    Kind.RMW: Order.ACQ_REL,
    Kind.REDUCTION: Order.ACQ_REL,
    Kind.CAS: Order.ACQ_REL,
}
_MakeStep = Callable[[Kind, Order, Scope], Step]


def _hidden(target: str, kind: Kind, scope: Scope, step: _MakeStep) -> Row:
    """Return the row of a seq_cst operation by an update of the hidden word.

    A fence has an acquire barrier before the update, for what earlier relaxed loads saw, and a
    release barrier after it, for what later relaxed stores hand on.
    """
    order = Order.SEQ_CST
    width = Scope.SYSTEM if scope is Scope.SYSTEM else Scope.DEVICE
    plain = step(Kind.RMW, Order.ACQ_REL, width)
    update = Step(
        part=Part.HIDDEN_UPDATE,
        text=plain.text.replace("{operation}", "IAdd"),
        order=plain.order,
        scope=plain.scope,
        tags=plain.tags,
    )
    if kind is not Kind.FENCE:
        access = step(kind, _AROUND_HIDDEN[kind], scope)
        return row(target, kind, order, scope, update, access, note=_HIDDEN_NOTE)
    before = step(Kind.FENCE, Order.ACQUIRE, scope)
    after = step(Kind.FENCE, Order.RELEASE, scope)
    return row(target, kind, order, scope, before, update, after, note=_HIDDEN_NOTE)


def opencl(target: str, kind: Kind, order: Order | None, scope: Scope) -> Row:
    """Return OpenCL's row, for kernels without or with seq_cst fences."""
    if order is None:
        step = Step(part=Part.ACCESS, text="OpLoad" if kind is Kind.LOAD else "OpStore")
        return row(target, kind, order, scope, step)
    if kind is Kind.BARRIER and scope is Scope.DEVICE:
        return refuse(target, kind, order, scope, GRID_BARRIER)
    if kind is Kind.FENCE and order is Order.RELAXED:
        return row(target, kind, order, scope)
    if order is Order.SEQ_CST and kind is not Kind.BARRIER:
        if target == OPENCL_FENCED:
            return _hidden(target, kind, scope, _opencl_step)
        if kind is Kind.FENCE:
            return refuse(target, kind, order, scope, _FENCED_ONLY)
    return row(target, kind, order, scope, _opencl_step(kind, order, scope), note=_ONE_SCOPE)


def _opencl_step(kind: Kind, order: Order, scope: Scope) -> Step:
    semantics = _SPIRV_ORDERS[order]
    tags: frozenset[str] = frozenset()
    if order is not Order.RELAXED:
        semantics += "|CrossWorkgroupMemory|WorkgroupMemory"
        tags = _BOTH_REGIONS
    return _spirv_step(kind, semantics, order, scope, tags)


def _spirv_step(
    kind: Kind, semantics: str, order: Order, scope: Scope, tags: frozenset[str]
) -> Step:
    name = _SPIRV_SCOPES[scope]
    match kind:
        case Kind.FENCE:
            text, part = f"OpMemoryBarrier {name} {semantics}", Part.FENCE
        case Kind.BARRIER:
            text, part = f"OpControlBarrier {name} {name} {semantics}", Part.BARRIER
        case _:
            text, part = f"{_SPIRV_OPCODES[kind]} {name} {semantics}", Part.ACCESS
    return Step(part=part, text=text, order=order, scope=scope, tags=tags)


_FENCED_ONLY = (
    "a kernel with a seq_cst fence takes the rows of `spirv:opencl with seq_cst fences`: OpenCL's "
    "own seq_cst fences order less than hetIR's"
)
_ONE_SCOPE = (
    "OpenCL's operations synchronise only where both have one scope: the kernel's accesses that "
    "may communicate get the widest scope that any of them has"
)

_VULKAN_CLASSES = "UniformMemory|WorkgroupMemory"
_VULKAN_TAGS = frozenset({"semsc0", "semsc1"})


def vulkan(target: str, kind: Kind, order: Order | None, scope: Scope) -> Row:
    """Return Vulkan's row."""
    if scope is Scope.SYSTEM and order is not None:
        return refuse(
            target,
            kind,
            order,
            scope,
            "Vulkan has no scope wider than the device; use device scope, or a host that waits",
        )
    if kind is Kind.BARRIER and scope is Scope.DEVICE:
        return refuse(target, kind, order, scope, GRID_BARRIER)
    if order is None:
        opcode = "OpLoad" if kind is Kind.LOAD else "OpStore"
        step = Step(
            part=Part.ACCESS,
            text=f"{opcode} NonPrivatePointer|Aligned",
            tags=frozenset({"nonprivate"}),
        )
        return row(target, kind, order, scope, step)
    if kind is Kind.FENCE and order is Order.RELAXED:
        return row(target, kind, order, scope)
    if order is not Order.SEQ_CST:
        return row(target, kind, order, scope, _vulkan_step(kind, order, scope))
    return _hidden(target, kind, scope, _vulkan_step)


def _vulkan_step(kind: Kind, order: Order, scope: Scope) -> Step:
    words, tags = [_SPIRV_ORDERS[order]], set[str]()
    if order is not Order.RELAXED:
        words.append(_VULKAN_CLASSES)
        tags |= _VULKAN_TAGS
    if order.releases:
        words.append("MakeAvailable")
        tags.add("semav")
    if order.acquires:
        words.append("MakeVisible")
        tags.add("semvis")
    return _spirv_step(kind, "|".join(words), order, scope, frozenset(tags))
