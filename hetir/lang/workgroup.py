"""Reductions and scans over a workgroup, in the kernel language.

The tree is fixed, whatever the device and the subgroup width: chunks of 32 work-items in
linear order combine by `subgroup_reduce`'s (or the scan's) tree; the chunks' results are then
reduced by the same tree (or added from the left). What is missing from a chunk counts as the
operation's identity.
"""

from __future__ import annotations

import math

import hetir.lang.indices as hi
import hetir.lang.memory as hm
import hetir.lang.subgroups as hs
import hetir.lang.values as hv
from hetir.frontend.primitive import current, library, primitive
from hetir.frontend.values import KernelValue
from hetir.ir.types import Scalar
from hetir.lang.control import static_range

_CHUNK = 32
_MOST_ITEMS = 1024


@library
def workgroup_reduce(value: KernelValue, op: str) -> KernelValue:
    """The reduction of `value` over the workgroup, in every work-item.

    `op` is add, mul, min, max, and, or, xor. Every work-item of the workgroup (at most 1024)
    must call it.
    """
    mine = _checked("workgroup_reduce", value, op)
    empty = _identity(op, mine.dtype)
    local, size = linear_item()
    chunk = _chunk_reduce(mine, op, local, size, empty)
    chunks = (size + (_CHUNK - 1)) // _CHUNK
    results = hm.shared(_CHUNK, mine.dtype)
    if local % _CHUNK == 0:
        results[local // _CHUNK] = chunk
    hm.barrier()
    lane = local % _CHUNK
    part = _typed(empty, mine.dtype)
    if lane < chunks:
        part = results[lane]
    whole = _chunk_reduce(part, op, local, size, empty)
    total = hm.shared(1, mine.dtype)
    if local == 0:
        total[0] = whole
    hm.barrier()
    return total[0]


@library
def workgroup_scan(value: KernelValue, op: str, inclusive: bool = True) -> KernelValue:
    """The reduction of the work-items up to this one in linear order.

    It leaves this one out unless `inclusive`; the first then has the operation's identity.
    Every work-item of the workgroup (at most 1024) must call it.
    """
    mine = _checked("workgroup_scan", value, op)
    empty = _identity(op, mine.dtype)
    local, size = linear_item()
    upto = _chunk_scan(mine, op, local)
    results = hm.shared(_CHUNK, mine.dtype)
    hm.barrier()
    if local % _CHUNK == _CHUNK - 1 or local == size - 1:
        results[local // _CHUNK] = upto
    hm.barrier()
    before = _typed(empty, mine.dtype)
    first = local < _CHUNK
    if not first:
        before = _prefix(results, op, local // _CHUNK)
    if inclusive:
        return hv.where(first, upto, _combine(op, before, upto))
    left = _left_neighbour(upto, local)
    inner = hv.where(first, left, _combine(op, before, left))
    return hv.where(local % _CHUNK == 0, before, inner)


def _combine(op: str, a: KernelValue, b: KernelValue) -> KernelValue:
    """One step of the tree."""
    if op == "add":
        return a + b
    if op == "mul":
        return a * b
    if op == "min":
        return hv.min(a, b)
    if op == "max":
        return hv.max(a, b)
    if op == "and":
        return a & b
    if op == "or":
        return a | b
    return a ^ b


def linear_item() -> tuple[KernelValue, KernelValue]:
    """The work-item's linear local id and the workgroup's size."""
    width, height = hi.group_size(0), hi.group_size(1)
    local = hi.local_id(0) + width * (hi.local_id(1) + height * hi.local_id(2))
    return local, width * height * hi.group_size(2)


def _chunk_reduce(
    value: KernelValue, op: str, local: KernelValue, size: KernelValue, empty: KernelValue
) -> KernelValue:
    """The reduction over each chunk of 32, in its first work-item at least."""
    if _width() == _CHUNK:
        return hs.subgroup_reduce(value, op)
    return _exchange_reduce(value, op, local, size, empty)


def _exchange_reduce(
    value: KernelValue, op: str, local: KernelValue, size: KernelValue, empty: KernelValue
) -> KernelValue:
    """`subgroup_reduce`'s tree through shared memory, right in each chunk's first work-item.

    It depends on the upper lanes only before they would read a missing one.
    """
    slots = hm.shared(_MOST_ITEMS, value.dtype)
    for step in static_range(5):
        distance = _CHUNK >> (step + 1)
        hm.barrier()
        slots[local] = value
        hm.barrier()
        partner = local ^ distance
        other = _typed(empty, value.dtype)
        if partner < size:
            other = slots[partner]
        value = _combine(op, value, other)
    return value


def _chunk_scan(value: KernelValue, op: str, local: KernelValue) -> KernelValue:
    """The inclusive scan over each chunk of 32."""
    if _width() == _CHUNK:
        return hs.subgroup_scan(value, op)
    slots = hm.shared(_MOST_ITEMS, value.dtype)
    for step in static_range(5):
        distance = 1 << step
        hm.barrier()
        slots[local] = value
        hm.barrier()
        if local % _CHUNK >= distance:
            value = _combine(op, slots[local - distance], value)
    return value


def _prefix(results: KernelValue, op: str, chunk: KernelValue) -> KernelValue:
    """The chunks before one, from the first on."""
    total = results[0]
    for i in range(1, chunk):
        total = _combine(op, total, results[i])
    return total


def _left_neighbour(value: KernelValue, local: KernelValue) -> KernelValue:
    """The value of the work-item before this one in its chunk; its own at a chunk's start."""
    slots = hm.shared(_MOST_ITEMS, value.dtype)
    hm.barrier()
    slots[local] = value
    hm.barrier()
    if local % _CHUNK > 0:
        value = slots[local - 1]
    return value


@primitive
def _checked(name: str, value: KernelValue, op: str) -> KernelValue:
    hs.check_reduction(name, op, value)
    return hv.typed(value)


@primitive
def _typed(value: KernelValue, dtype: Scalar) -> KernelValue:
    return hv.cast(value, dtype)


@primitive
def _width() -> int:
    return current().options.width


@primitive
def _identity(op: str, dtype: Scalar) -> KernelValue:
    """What changes nothing: as `subgroup_reduce` pads."""
    if op in ("min", "max") and dtype.is_float:
        return math.inf if op == "min" else -math.inf
    low = -(1 << (dtype.bits - 1)) if dtype.signed else 0
    high = (1 << (dtype.bits - int(dtype.signed))) - 1
    ones = -1 if dtype.signed else high
    values = {"mul": 1, "min": high, "max": low, "and": ones}
    return values.get(op, 0)
