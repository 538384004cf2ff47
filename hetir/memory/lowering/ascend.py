"""Ascend's rows: no memory model is published, so the strongest documented sequences."""

from __future__ import annotations

from collections.abc import Mapping

from hetir.memory.lowering.rows import Kind, Part, Row, Step, refuse, row
from hetir.memory.program import Order, Scope

ASCEND_SIMD = "ascend:910b"
ASCEND_SIMT = "ascend:950"

_CLEAN = Step(
    part=Part.CACHE,
    text="DataCacheCleanAndInvalid<T, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>",
)
_DRAIN = Step(part=Part.FENCE, text="PipeBarrier<PIPE_ALL>()")
_SYNC = Step(part=Part.FENCE, text="DataSyncBarrier<MemDsbT::ALL>()")
_SCALAR = Step(part=Part.ACCESS, text="GlobalTensor scalar access")
_SCALAR_TO_COPY = Step(part=Part.FENCE, text="SetFlag/WaitFlag<HardEvent::S_MTE2>")
_COPY_ATOMIC = Step(part=Part.ACCESS, text="SetAtomicAdd/Max/Min, DataCopy, SetAtomicNone")
_NO_OLD_VALUE = (
    "this Ascend generation has no atomic operation that gives the old value; use one whose "
    "result is not used (add, min, max), or compile for ascend:950"
)


def simd(target: str, kind: Kind, order: Order | None, scope: Scope) -> Row:
    """Return the row of the vector generations (910B, 910C, 310P)."""
    if kind is Kind.BARRIER:
        return _simd_barrier(target, order, scope)
    if order is None:
        step = Step(part=Part.ACCESS, text="DataCopy, or GetValue/SetValue where irregular")
        return row(target, kind, order, scope, step)
    if scope in {Scope.SUBGROUP, Scope.WORKGROUP}:
        steps = (_DRAIN,) if kind is Kind.FENCE else (_DRAIN, _SCALAR)
        return row(target, kind, order, scope, *steps, note="one core runs a workgroup")
    if kind in {Kind.RMW, Kind.CAS}:
        return refuse(target, kind, order, scope, _NO_OLD_VALUE)
    release = (_DRAIN, _CLEAN, _SYNC) if order.releases else ()
    acquire = (_CLEAN, _SCALAR_TO_COPY) if order.acquires else ()
    access = {
        Kind.FENCE: (),
        Kind.LOAD: (_CLEAN, _SCALAR),
        Kind.STORE: (_SCALAR, _CLEAN),
        Kind.REDUCTION: (_COPY_ATOMIC, _DRAIN),
    }[kind]
    return row(target, kind, order, scope, *release, *access, *acquire)


def _simd_barrier(target: str, order: Order | None, scope: Scope) -> Row:
    if scope is Scope.DEVICE:
        step = Step(part=Part.BARRIER, text="SyncAll()", order=order, scope=scope)
        return row(target, Kind.BARRIER, order, scope, _DRAIN, step)
    note = "a workgroup is one core's loop; a barrier splits it"
    return row(target, Kind.BARRIER, order, scope, _DRAIN, note=note)


_SIMT_FENCES: Mapping[Scope, str] = {
    Scope.SUBGROUP: "asc_threadfence_block()",
    Scope.WORKGROUP: "asc_threadfence_block()",
    Scope.DEVICE: "asc_threadfence()",
}


def simt(target: str, kind: Kind, order: Order | None, scope: Scope) -> Row:
    """Return the row of the SIMT generation (950)."""
    if kind is Kind.BARRIER:
        if scope is Scope.DEVICE:
            return refuse(target, kind, order, scope, "SIMT mode on ascend:950 has no grid barrier")
        step = Step(part=Part.BARRIER, text="asc_syncthreads()", order=order, scope=scope)
        return row(target, kind, order, scope, step)
    if order is None:
        return row(target, kind, order, scope, Step(part=Part.ACCESS, text="plain access"))
    if scope is Scope.SYSTEM:
        return refuse(
            target, kind, order, scope, "no fence reaches the host; use device scope and wait"
        )
    fence = Step(part=Part.FENCE, text=_SIMT_FENCES[scope], order=Order.SEQ_CST, scope=scope)
    if kind is Kind.FENCE:
        steps = () if order is Order.RELAXED else (fence,)
        return row(target, kind, order, scope, *steps)
    before = (fence,) if order.releases else ()
    after = (fence,) if order.acquires else ()
    words = {Kind.LOAD: "volatile load", Kind.STORE: "volatile store", Kind.CAS: "asc_atomic_cas"}
    text = words.get(kind, "asc_atomic_{operation}")
    access = Step(part=Part.ACCESS, text=text, order=Order.RELAXED, scope=scope)
    return row(target, kind, order, scope, *before, access, *after)
