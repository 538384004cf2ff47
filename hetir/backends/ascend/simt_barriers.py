"""Whether work-items may still use shared arrays when their workgroup ends, without a barrier."""

from __future__ import annotations

from hetir.ir import ops
from hetir.ir.core import Operation, Region
from hetir.ir.types import RefType


def used_at_end(body: Region) -> bool:
    """Whether some path accesses a shared array after its last barrier of the workgroup."""
    return _ends(body, used=False)[0]


def _ends(region: Region, *, used: bool) -> tuple[bool, bool]:
    """Whether a shared array is in use at a region's end, and where a `break` leaves it."""
    left = False
    for op in region.body:
        match op.name:
            case "if":
                ends = [_ends(r, used=used) for r in op.regions]
                used = any(end for end, _ in ends)
                left |= any(out for _, out in ends)
            case "for":
                used |= _ends(op.regions[0], used=used)[0]
            case "loop":
                again, out = _ends(op.regions[0], used=used)
                used = out or _ends(op.regions[0], used=used or again)[1]
            case "break":
                return False, left or used
            case _:
                used = _touches(op) or (used and not _meets(op))
    return used, left


def _touches(op: Operation) -> bool:
    return any(isinstance(v.type, RefType) and v.type.space == "shared" for v in op.operands)


def _meets(op: Operation) -> bool:
    return op.spec is ops.BARRIER and op.attrs["scope"] != "subgroup"
