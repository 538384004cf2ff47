"""The lowering table: what each target emits for each memory operation, or why it refuses.

Backends and the checker read this and nothing else says it. A row is an (operation, order,
scope) of one target. Its steps are emitted in their order; a step's `text` is the target's own
instruction with `{type}`, `{address}` and the like left to the emitter, its `order`, `scope` and
`tags` are what the target's memory model (`hetir.memory.models`) sees of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from hetir.memory.program import Order, Scope

PLAIN = None
"""The order of an access that is not atomic."""

IR_SCOPES = (Scope.SUBGROUP, Scope.WORKGROUP, Scope.DEVICE, Scope.SYSTEM)
BARRIER_SCOPES = IR_SCOPES[:3]


class Kind(StrEnum):
    """hetIR's memory operations; a reduction is a read-modify-write whose old value is unused."""

    LOAD = "load"
    STORE = "store"
    RMW = "rmw"
    REDUCTION = "reduction"
    CAS = "cas"
    FENCE = "fence"
    BARRIER = "barrier"


class Part(StrEnum):
    """What a step is: the access itself, a fence, a barrier, or an update of a hidden word."""

    ACCESS = "access"
    FENCE = "fence"
    BARRIER = "barrier"
    HIDDEN_UPDATE = "hidden update"
    CACHE = "cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One instruction, as text and as its memory model sees it."""

    part: Part
    text: str
    order: Order | None = None
    scope: Scope | None = None
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One entry of the table: the steps, or `refused` with the sentence that the user reads.

    `unfenced` are cheaper steps (where there are any) that are right only if the work-item runs
    no acquire, acq_rel or seq_cst fence after the operation.
    """

    target: str
    kind: Kind
    order: Order | None
    scope: Scope
    steps: tuple[Step, ...] = ()
    unfenced: tuple[Step, ...] = ()
    refused: str = ""
    note: str = ""


PTX_SM_75 = "ptx:sm_75"
PTX_SM_90 = "ptx:sm_90"
OPENCL = "spirv:opencl"
OPENCL_FENCED = "spirv:opencl with seq_cst fences"
VULKAN = "spirv:vulkan"
X86 = "cpu:x86-64"
AARCH64 = "cpu:aarch64"
ASCEND_SIMD = "ascend:910b"
ASCEND_SIMT = "ascend:950"

_ACCESSES = (Kind.LOAD, Kind.STORE, Kind.RMW, Kind.REDUCTION, Kind.CAS)


def _impossible(kind: Kind, order: Order | None) -> str:
    """Say why no target has this operation with this order."""
    if kind is Kind.LOAD and order in {Order.RELEASE, Order.ACQ_REL}:
        return "a load cannot release; use acquire, or seq_cst"
    if kind is Kind.STORE and order in {Order.ACQUIRE, Order.ACQ_REL}:
        return "a store cannot acquire; use release, or seq_cst"
    return ""


def _operations() -> Iterator[tuple[Kind, Order | None, Scope]]:
    """Yield every (operation, order, scope) of hetIR."""
    for kind in _ACCESSES:
        orders = (PLAIN, *Order) if kind in {Kind.LOAD, Kind.STORE} else tuple(Order)
        for order in orders:
            for scope in IR_SCOPES:
                yield kind, order, scope
    for order in Order:
        for scope in IR_SCOPES:
            yield Kind.FENCE, order, scope
    for scope in BARRIER_SCOPES:
        yield Kind.BARRIER, Order.ACQ_REL, scope


# PTX, after "PTX Writer's Guide to Interoperability", chapter "Atomics ABI", and the ISA.

_PTX_SCOPES: Mapping[Scope, tuple[str, Scope]] = {
    # a warp is no scope of PTX's model: its smallest is the block
    Scope.SUBGROUP: ("cta", Scope.WORKGROUP),
    Scope.WORKGROUP: ("cta", Scope.WORKGROUP),
    Scope.DEVICE: ("gpu", Scope.DEVICE),
    Scope.SYSTEM: ("sys", Scope.SYSTEM),
}
_PTX_OPCODES: Mapping[Kind, str] = {
    Kind.LOAD: "ld",
    Kind.STORE: "st",
    Kind.RMW: "atom",
    Kind.REDUCTION: "atom",
    Kind.CAS: "atom",
}
_PTX_WEAKER: Mapping[Kind, Order] = {
    # what follows the fence.sc of a seq_cst access
    Kind.LOAD: Order.ACQUIRE,
    Kind.STORE: Order.RELAXED,
    Kind.RMW: Order.ACQUIRE,
    Kind.REDUCTION: Order.ACQUIRE,
    Kind.CAS: Order.ACQUIRE,
}


def _ptx(target: str, kind: Kind, order: Order | None, scope: Scope) -> Row:
    name, wide = _PTX_SCOPES[scope]
    if kind is Kind.BARRIER:
        return _ptx_barrier(target, scope)
    if kind is Kind.FENCE:
        assert order is not None
        return _row(target, kind, order, scope, *_ptx_fence(target, order, name, wide))
    if order is PLAIN:
        opcode = _PTX_OPCODES[kind]
        step = Step(part=Part.ACCESS, text=f"{opcode}.weak.{{space}}.{{type}}")
        return _row(target, kind, order, scope, step)
    if order is not Order.SEQ_CST:
        row = _row(target, kind, order, scope, _ptx_access(kind, order, name, wide))
        if kind is not Kind.REDUCTION or order.acquires:
            return row
        return replace(row, unfenced=(_ptx_red(order, name, wide),), note=_RED_NOTE)
    fence = Step(
        part=Part.FENCE, text=f"fence.sc.{name};", order=Order.SEQ_CST, scope=wide
    )
    return _row(target, kind, order, scope, fence, _ptx_access(kind, _PTX_WEAKER[kind], name, wide))


def _ptx_access(kind: Kind, order: Order, name: str, wide: Scope) -> Step:
    operation = {
        Kind.LOAD: "",
        Kind.STORE: "",
        Kind.CAS: ".cas",
    }.get(kind, ".{operation}")
    text = f"{_PTX_OPCODES[kind]}.{order}.{name}.{{space}}{operation}.{{type}}"
    return Step(part=Part.ACCESS, text=text, order=order, scope=wide)


def _ptx_red(order: Order, name: str, wide: Scope) -> Step:
    text = f"red.{order}.{name}.{{space}}.{{operation}}.{{type}}"
    return Step(part=Part.ACCESS, text=text, order=order, scope=wide, tags=frozenset({"red"}))


_RED_NOTE = (
    "`red` reads nothing that a later fence could acquire (section 8.8), so it stands for a "
    "reduction only where no acquire fence of the work-item follows"
)


def _ptx_fence(target: str, order: Order, name: str, wide: Scope) -> tuple[Step, ...]:
    if order is Order.RELAXED:
        return ()
    emitted = order
    if target == PTX_SM_75 and order is not Order.SEQ_CST:
        # assemblers accept fence.acquire and fence.release below sm_90 and emit nothing for them
        emitted = Order.ACQ_REL
    word = "sc" if emitted is Order.SEQ_CST else str(emitted)
    return (Step(part=Part.FENCE, text=f"fence.{word}.{name};", order=emitted, scope=wide),)


def _ptx_barrier(target: str, scope: Scope) -> Row:
    if scope is Scope.DEVICE:
        return _refuse(target, Kind.BARRIER, Order.ACQ_REL, scope, _GRID_BARRIER)
    text = "bar.warp.sync {mask};" if scope is Scope.SUBGROUP else "bar.sync 0;"
    step = Step(
        part=Part.BARRIER, text=text, order=Order.ACQ_REL, scope=_PTX_SCOPES[scope][1]
    )
    return _row(target, Kind.BARRIER, Order.ACQ_REL, scope, step)


_GRID_BARRIER = (
    "no single instruction waits for the grid; a cooperative kernel's barrier is an arrival by "
    "atomic_add(acq_rel, device) of one work-item a workgroup, between two workgroup barriers"
)


# SPIR-V, after the memory model appendix of Vulkan and section 3.3.6 of the OpenCL API.

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
        return _row(target, kind, order, scope, update, access, note=_HIDDEN_NOTE)
    before = step(Kind.FENCE, Order.ACQUIRE, scope)
    after = step(Kind.FENCE, Order.RELEASE, scope)
    return _row(target, kind, order, scope, before, update, after, note=_HIDDEN_NOTE)


def _opencl(target: str, kind: Kind, order: Order | None, scope: Scope) -> Row:
    if order is PLAIN:
        step = Step(part=Part.ACCESS, text="OpLoad" if kind is Kind.LOAD else "OpStore")
        return _row(target, kind, order, scope, step)
    if kind is Kind.BARRIER and scope is Scope.DEVICE:
        return _refuse(target, kind, order, scope, _GRID_BARRIER)
    if kind is Kind.FENCE and order is Order.RELAXED:
        return _row(target, kind, order, scope)
    if order is Order.SEQ_CST and kind is not Kind.BARRIER:
        if target == OPENCL_FENCED:
            return _hidden(target, kind, scope, _opencl_step)
        if kind is Kind.FENCE:
            return _refuse(target, kind, order, scope, _FENCED_ONLY)
    return _row(target, kind, order, scope, _opencl_step(kind, order, scope), note=_ONE_SCOPE)


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


def _vulkan(target: str, kind: Kind, order: Order | None, scope: Scope) -> Row:
    if scope is Scope.SYSTEM and order is not PLAIN:
        return _refuse(
            target,
            kind,
            order,
            scope,
            "Vulkan has no scope wider than the device; use device scope, or a host that waits",
        )
    if kind is Kind.BARRIER and scope is Scope.DEVICE:
        return _refuse(target, kind, order, scope, _GRID_BARRIER)
    if order is PLAIN:
        opcode = "OpLoad" if kind is Kind.LOAD else "OpStore"
        step = Step(
            part=Part.ACCESS,
            text=f"{opcode} NonPrivatePointer|Aligned",
            tags=frozenset({"nonprivate"}),
        )
        return _row(target, kind, order, scope, step)
    if kind is Kind.FENCE and order is Order.RELAXED:
        return _row(target, kind, order, scope)
    if order is not Order.SEQ_CST:
        return _row(target, kind, order, scope, _vulkan_step(kind, order, scope))
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


# CPUs. One thread runs a whole workgroup, so narrower orders are program order.

_X86_TEXT: Mapping[Kind, str] = {
    Kind.LOAD: "mov",
    Kind.STORE: "mov",
    Kind.RMW: "lock {operation}",
    Kind.REDUCTION: "lock {operation}",
    Kind.CAS: "lock cmpxchg",
}
_SAME_THREAD = "one thread runs a workgroup: its program order is enough"


def _x86(target: str, kind: Kind, order: Order | None, scope: Scope) -> Row:
    narrow = _cpu_narrow(target, kind, order, scope)
    if narrow is not None:
        return narrow
    if kind is Kind.FENCE:
        if order is not Order.SEQ_CST:
            return _row(target, kind, order, scope, note="x86 orders this by itself")
        step = Step(
            part=Part.FENCE, text="mfence", order=order, scope=scope, tags=frozenset({"mfence"})
        )
        return _row(target, kind, order, scope, step)
    if kind is Kind.STORE and order is Order.SEQ_CST:
        step = Step(
            part=Part.ACCESS,
            text="xchg",
            order=order,
            scope=scope,
            tags=frozenset({"exchange"}),
        )
        return _row(target, kind, order, scope, step)
    step = Step(part=Part.ACCESS, text=_X86_TEXT[kind], order=order, scope=scope)
    return _row(target, kind, order, scope, step)


_AARCH64_SUFFIX: Mapping[Order, tuple[str, frozenset[str]]] = {
    Order.RELAXED: ("", frozenset()),
    Order.ACQUIRE: ("a", frozenset({"A"})),
    Order.RELEASE: ("l", frozenset({"L"})),
    Order.ACQ_REL: ("al", frozenset({"A", "L"})),
    Order.SEQ_CST: ("al", frozenset({"A", "L"})),
}
_AARCH64_LOADS: Mapping[Order, tuple[str, frozenset[str]]] = {
    Order.RELAXED: ("ldr", frozenset()),
    Order.ACQUIRE: ("ldapr", frozenset({"Q"})),
    Order.SEQ_CST: ("ldar", frozenset({"A"})),
}
_AARCH64_STORES: Mapping[Order, tuple[str, frozenset[str]]] = {
    Order.RELAXED: ("str", frozenset()),
    Order.RELEASE: ("stlr", frozenset({"L"})),
    Order.SEQ_CST: ("stlr", frozenset({"L"})),
}
_AARCH64_FENCES: Mapping[Order, tuple[str, frozenset[str]]] = {
    Order.ACQUIRE: ("dmb ishld", frozenset({"dmb.ld"})),
    Order.RELEASE: ("dmb ish", frozenset({"dmb.full"})),
    Order.ACQ_REL: ("dmb ish", frozenset({"dmb.full"})),
    Order.SEQ_CST: ("dmb ish", frozenset({"dmb.full"})),
}


def _aarch64(target: str, kind: Kind, order: Order | None, scope: Scope) -> Row:
    narrow = _cpu_narrow(target, kind, order, scope)
    if narrow is not None:
        return narrow
    if order is PLAIN:
        text, tags = _AARCH64_LOADS[Order.RELAXED]
        if kind is Kind.STORE:
            text, tags = _AARCH64_STORES[Order.RELAXED]
        return _row(target, kind, order, scope, Step(part=Part.ACCESS, text=text, tags=tags))
    if kind is Kind.FENCE:
        if order is Order.RELAXED:
            return _row(target, kind, order, scope)
        text, tags = _AARCH64_FENCES[order]
        step = Step(part=Part.FENCE, text=text, order=order, scope=scope, tags=tags)
        return _row(target, kind, order, scope, step)
    match kind:
        case Kind.LOAD:
            text, tags = _AARCH64_LOADS[order]
        case Kind.STORE:
            text, tags = _AARCH64_STORES[order]
        case _:
            suffix, tags = _AARCH64_SUFFIX[order]
            text = f"cas{suffix}" if kind is Kind.CAS else f"ld{{operation}}{suffix}"
    step = Step(part=Part.ACCESS, text=text, order=order, scope=scope, tags=tags)
    return _row(target, kind, order, scope, step)


def _cpu_narrow(target: str, kind: Kind, order: Order | None, scope: Scope) -> Row | None:
    """Return the row of what stays within one thread, or None for the rest."""
    if kind is Kind.BARRIER and scope is Scope.DEVICE:
        return _refuse(target, kind, order, scope, _GRID_BARRIER)
    if kind is Kind.BARRIER:
        return _row(target, kind, order, scope, note="the loop over work-items ends and restarts")
    if scope not in {Scope.SUBGROUP, Scope.WORKGROUP} or order is PLAIN:
        return None
    if kind is Kind.FENCE:
        return _row(target, kind, order, scope, note=_SAME_THREAD)
    step = Step(part=Part.ACCESS, text="plain access")
    return _row(target, kind, order, scope, step, note=_SAME_THREAD)


# Ascend publishes no memory model: what is emitted is the strongest documented sequence.

_CLEAN = Step(
    part=Part.CACHE,
    text="DataCacheCleanAndInvalid<T, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>",
)
_DRAIN = Step(part=Part.FENCE, text="PipeBarrier<PIPE_ALL>()")
_SYNC = Step(part=Part.FENCE, text="DataSyncBarrier<MemDsbT::ALL>()")
_SCALAR = Step(part=Part.ACCESS, text="GlobalTensor scalar access")
_SCALAR_TO_COPY = Step(part=Part.FENCE, text="SetFlag/WaitFlag<HardEvent::S_MTE2>")
_NO_OLD_VALUE = (
    "this Ascend generation has no atomic operation that gives the old value; use one whose "
    "result is not used (add, min, max), or compile for ascend:950"
)


def _ascend_simd(target: str, kind: Kind, order: Order | None, scope: Scope) -> Row:
    if kind is Kind.BARRIER:
        if scope is Scope.DEVICE:
            step = Step(part=Part.BARRIER, text="SyncAll()", order=order, scope=scope)
            return _row(target, kind, order, scope, _DRAIN, step)
        note = "a workgroup is one core's loop; a barrier splits it"
        return _row(target, kind, order, scope, _DRAIN, note=note)
    if order is PLAIN:
        step = Step(part=Part.ACCESS, text="DataCopy, or GetValue/SetValue where irregular")
        return _row(target, kind, order, scope, step)
    if scope in {Scope.SUBGROUP, Scope.WORKGROUP}:
        steps = (_DRAIN,) if kind is Kind.FENCE else (_DRAIN, _SCALAR)
        return _row(target, kind, order, scope, *steps, note="one core runs a workgroup")
    if kind in {Kind.RMW, Kind.CAS}:
        return _refuse(target, kind, order, scope, _NO_OLD_VALUE)
    release = (_DRAIN, _CLEAN, _SYNC) if order.releases else ()
    acquire = (_CLEAN, _SCALAR_TO_COPY) if order.acquires else ()
    match kind:
        case Kind.FENCE:
            return _row(target, kind, order, scope, *release, *acquire)
        case Kind.LOAD:
            return _row(target, kind, order, scope, *release, _CLEAN, _SCALAR, *acquire)
        case Kind.STORE:
            return _row(target, kind, order, scope, *release, _SCALAR, _CLEAN)
        case _:
            copy = Step(part=Part.ACCESS, text="SetAtomicAdd/Max/Min, DataCopy, SetAtomicNone")
            return _row(target, kind, order, scope, *release, copy, _DRAIN, *acquire)


_SIMT_FENCES: Mapping[Scope, str] = {
    Scope.SUBGROUP: "asc_threadfence_block()",
    Scope.WORKGROUP: "asc_threadfence_block()",
    Scope.DEVICE: "asc_threadfence()",
}


def _ascend_simt(target: str, kind: Kind, order: Order | None, scope: Scope) -> Row:
    if kind is Kind.BARRIER:
        if scope is Scope.DEVICE:
            return _refuse(target, kind, order, scope, "SIMT mode on ascend:950 has no grid barrier")
        step = Step(part=Part.BARRIER, text="asc_syncthreads()", order=order, scope=scope)
        return _row(target, kind, order, scope, step)
    if order is PLAIN:
        return _row(target, kind, order, scope, Step(part=Part.ACCESS, text="plain access"))
    if scope is Scope.SYSTEM:
        return _refuse(
            target, kind, order, scope, "no fence reaches the host; use device scope and wait"
        )
    fence = Step(part=Part.FENCE, text=_SIMT_FENCES[scope], order=Order.SEQ_CST, scope=scope)
    if kind is Kind.FENCE:
        steps = () if order is Order.RELAXED else (fence,)
        return _row(target, kind, order, scope, *steps)
    before = (fence,) if order.releases else ()
    after = (fence,) if order.acquires else ()
    words = {Kind.LOAD: "volatile load", Kind.STORE: "volatile store", Kind.CAS: "asc_atomic_cas"}
    text = words.get(kind, "asc_atomic_{operation}")
    access = Step(part=Part.ACCESS, text=text, order=Order.RELAXED, scope=scope)
    return _row(target, kind, order, scope, *before, access, *after)


def _row(
    target: str, kind: Kind, order: Order | None, scope: Scope, *steps: Step, note: str = ""
) -> Row:
    return Row(target=target, kind=kind, order=order, scope=scope, steps=steps, note=note)


def _refuse(target: str, kind: Kind, order: Order | None, scope: Scope, why: str) -> Row:
    return Row(target=target, kind=kind, order=order, scope=scope, refused=why)


_RULES = {
    PTX_SM_75: _ptx,
    PTX_SM_90: _ptx,
    OPENCL: _opencl,
    OPENCL_FENCED: _opencl,
    VULKAN: _vulkan,
    X86: _x86,
    AARCH64: _aarch64,
    ASCEND_SIMD: _ascend_simd,
    ASCEND_SIMT: _ascend_simt,
}

_Key = tuple[str, Kind, Order | None, Scope]


def _build() -> dict[_Key, Row]:
    table: dict[_Key, Row] = {}
    for target, rule in _RULES.items():
        for kind, order, scope in _operations():
            impossible = _impossible(kind, order)
            row = (
                _refuse(target, kind, order, scope, impossible)
                if impossible
                else rule(target, kind, order, scope)
            )
            table[target, kind, order, scope] = row
    return table


TABLE: Mapping[_Key, Row] = _build()
TARGETS = tuple(_RULES)


def target_of(name: str) -> str:
    """Return the table's target for a target name such as `ptx:sm_89` or `ascend:310p`.

    Raises:
        KeyError: the table has no such target.
    """
    if name.startswith("ptx:sm_"):
        number = int("".join(filter(str.isdigit, name.removeprefix("ptx:sm_"))))
        return PTX_SM_90 if number >= 90 else PTX_SM_75
    if name == "ascend:310p":
        return ASCEND_SIMD
    if name not in _RULES:
        raise KeyError(name)
    return name


def lookup(target: str, kind: Kind, order: Order | None, scope: Scope) -> Row:
    """Return the row of an operation on a target of the table."""
    return TABLE[target_of(target), kind, order, scope]
