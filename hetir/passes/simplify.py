"""The standard pipeline: every simplification, in order, until nothing changes."""

from __future__ import annotations

from collections.abc import Callable

from hetir.ir.core import Kernel
from hetir.passes.control import control
from hetir.passes.cse import cse
from hetir.passes.dce import dce
from hetir.passes.fold import fold
from hetir.passes.identities import identities
from hetir.passes.licm import licm
from hetir.passes.scalars import scalars
from hetir.passes.select import if_to_select
from hetir.passes.strength import strength
from hetir.passes.unroll import unroll

Pass = Callable[[Kernel], Kernel]

PASSES: tuple[Pass, ...] = (
    identities,
    fold,
    control,
    unroll,
    scalars,
    if_to_select,
    strength,
    cse,
    licm,
    dce,
)
"""What `simplify` runs, in order; each gives the very same kernel when it changes nothing."""

MAX_ROUNDS = 8


def simplify(kernel: Kernel, passes: tuple[Pass, ...] = PASSES) -> Kernel:
    """The kernel after the passes, repeated until none changes it (at most MAX_ROUNDS times)."""
    unchanged = 0
    for _ in range(MAX_ROUNDS):
        for one in passes:
            before, kernel = kernel, one(kernel)
            unchanged = unchanged + 1 if kernel is before else 0
            if unchanged == len(passes):
                return kernel
    return kernel
