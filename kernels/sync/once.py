"""Double-checked initialisation: the first to come makes a table, the others wait for it."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

NOBODY, SOMEBODY, READY = 0, 1, 2


@hetir.kernel(cooperative=True)
def double_checked(table: hl.Array[hl.i32, 1], state: hl.Array[hl.i32, 1],
                   out: hl.Array[hl.i32, 1]):  # fmt: skip
    group = hl.group_id(0)
    if hl.local_id(0) == 0:
        if hl.atomic_load(state, 0, order="acquire") != READY:
            if hl.atomic_compare_exchange(state, 0, NOBODY, SOMEBODY) == NOBODY:
                table[0] = 7
                hl.atomic_store(state, 0, READY, order="release")
            else:
                while hl.atomic_load(state, 0, order="acquire") != READY:
                    pass
        out[group] = table[0] + group


def case(rng, size=16):
    """`size` workgroups."""
    table, state, out = (np.zeros(n, np.int32) for n in (1, 1, size))
    return Case(
        steps=(Step(double_checked, (table, state, out), (size,), (32,)),),
        reset=lambda: state.fill(0),
        results={"out": out},
        expected=lambda: {"out": np.arange(7, 7 + size, dtype=np.int32)},
        bytes=out.nbytes,
        flops=0,
    )


def small():
    """The launches that the certificates judge on."""
    table, state, out = (np.zeros(n, np.int32) for n in (1, 1, 2))
    return (Step(double_checked, (table, state, out), (2,), (1,)),)
