"""Operations between the lanes of a subgroup.

The flow must be uniform over the subgroup. `where` says which lanes take part; a lane that
does not reads as 0, or as the operation's identity in reductions.
"""

from __future__ import annotations

from hetir.frontend.bundles import any_bundle, each
from hetir.frontend.errors import OperandError
from hetir.frontend.forms import VectorType
from hetir.frontend.primitive import current, primitive
from hetir.frontend.values import Bundle, KernelValue, Typed, describe
from hetir.ir import ops
from hetir.ir.core import Value
from hetir.ir.types import BOOL, I64, U64
from hetir.lang.memory import word


def _where(where: KernelValue) -> Value:
    return current().convert(where, BOOL)


def _shuffle(mode: str, value: KernelValue, which: KernelValue, where: KernelValue) -> KernelValue:
    tracer = current()
    if any_bundle((value,)):
        return each(tracer, "shuffle", (value,), lambda v: _shuffle(mode, v[0], which, where))
    lane = tracer.index(which, "a lane")
    return tracer.typed(ops.SHUFFLE, tracer.default(value), lane, _where(where), mode=mode)


@primitive
def shuffle(value: KernelValue, lane: KernelValue, where: KernelValue = True) -> KernelValue:
    """The `value` of lane number `lane`."""
    return _shuffle("index", value, lane, where)


@primitive
def shuffle_xor(value: KernelValue, mask: KernelValue, where: KernelValue = True) -> KernelValue:
    """The `value` of the lane whose number is this one's exclusive or with `mask`."""
    return _shuffle("xor", value, mask, where)


@primitive
def shuffle_up(value: KernelValue, distance: KernelValue, where: KernelValue = True) -> KernelValue:
    """The `value` of the lane `distance` below; 0 where there is none."""
    return _shuffle("up", value, distance, where)


@primitive
def shuffle_down(
    value: KernelValue, distance: KernelValue, where: KernelValue = True
) -> KernelValue:
    """The `value` of the lane `distance` above; 0 where there is none."""
    return _shuffle("down", value, distance, where)


@primitive
def ballot(predicate: KernelValue, where: KernelValue = True) -> KernelValue:
    """One bit a lane, as `u64`: whether `predicate` holds there.

    A kernel with `subgroup_size=128` gets the vector `u64x2`: lanes 0 to 63, then 64 to 127.
    """
    tracer = current()
    test, takes = tracer.convert(predicate, BOOL), _where(where)
    low = tracer.value(ops.BALLOT, test, takes)
    if tracer.options.width <= U64.bits:
        return Typed(low)
    half = tracer.const(I64, U64.bits)
    upper = tracer.value(ops.SHUFFLE, test, half, takes, mode="xor")
    high = tracer.value(ops.BALLOT, upper, tracer.const(BOOL, 1))
    return Bundle(VectorType(U64, 2), (low, high))


@primitive
def any_(predicate: KernelValue, where: KernelValue = True) -> KernelValue:
    """Whether `predicate` holds in any lane, as `bool_`."""
    tracer = current()
    return tracer.typed(ops.VOTE, tracer.convert(predicate, BOOL), _where(where), mode="any")


@primitive
def all_(predicate: KernelValue, where: KernelValue = True) -> KernelValue:
    """Whether `predicate` holds in all lanes, as `bool_`."""
    tracer = current()
    return tracer.typed(ops.VOTE, tracer.convert(predicate, BOOL), _where(where), mode="all")


@primitive
def subgroup_reduce(value: KernelValue, op: str, where: KernelValue = True) -> KernelValue:
    """The reduction of `value` over the subgroup, in every lane, by a fixed tree.

    `op` is add, mul, min, max, and, or, xor. Lane i combines i and i xor distance, for the
    distances width / 2 down to 1.
    """
    tracer = current()
    if any_bundle((value,)):
        return each(tracer, "subgroup_reduce", (value,), lambda v: subgroup_reduce(v[0], op, where))
    ir = tracer.default(value)
    check_reduction("subgroup_reduce", op, value)
    return tracer.typed(ops.SUBGROUP_REDUCE, ir, _where(where), kind=op)


@primitive
def subgroup_scan(
    value: KernelValue, op: str, inclusive: bool = True, where: KernelValue = True
) -> KernelValue:
    """The reduction of the lanes up to this one, without it unless `inclusive`."""
    tracer = current()
    if any_bundle((value,)):
        return each(
            tracer,
            "subgroup_scan",
            (value,),
            lambda v: subgroup_scan(v[0], op, inclusive, where),
        )
    ir = tracer.default(value)
    check_reduction("subgroup_scan", op, value)
    return tracer.typed(ops.SUBGROUP_SCAN, ir, _where(where), kind=op, inclusive=bool(inclusive))


def check_reduction(name: str, op: object, value: KernelValue) -> None:
    """Refuse a reduction that is not defined for the value's type."""
    tracer = current()
    kind = tracer.type_of(value)
    bits = word("reduction", op, ops.REDUCE_KINDS) in ("and", "or", "xor")
    if kind.kind == "f8" or (kind.is_float if bits else kind == BOOL):
        hint = "convert with `int(...)`" if not bits else None
        tracer.fail(
            OperandError, f"`{name}` with `{op}` is not defined for {describe(value)}", hint=hint
        )
