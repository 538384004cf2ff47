"""A spin lock and a ticket lock around a sum that is no atomic."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step


@hetir.kernel(cooperative=True)
def spin_lock(total: hl.Array[hl.i32, 1], mutex: hl.Array[hl.i32, 1]):
    if hl.local_id(0) == 0:
        while hl.atomic_exchange(mutex, 0, 1, order="acquire") == 1:
            pass
        total[0] += 1
        hl.atomic_store(mutex, 0, 0, order="release")


@hetir.kernel(cooperative=True)
def ticket_lock(total: hl.Array[hl.i32, 1], tickets: hl.Array[hl.i32, 1],
                serving: hl.Array[hl.i32, 1]):  # fmt: skip
    if hl.local_id(0) == 0:
        mine = hl.atomic_add(tickets, 0, 1)
        while hl.atomic_load(serving, 0, order="acquire") != mine:
            pass
        total[0] += 1
        hl.atomic_store(serving, 0, mine + 1, order="release")


def case(rng, size=16):
    """`size` workgroups take each lock once."""
    totals, mutex, tickets, serving = (np.zeros(n, np.int32) for n in (2, 1, 1, 1))

    def reset():
        for array in (totals, mutex, tickets, serving):
            array.fill(0)

    return Case(
        steps=(
            Step(spin_lock, (totals[:1], mutex), (size,), (32,)),
            Step(ticket_lock, (totals[1:], tickets, serving), (size,), (32,)),
        ),
        reset=reset,
        results={"totals": totals},
        expected=lambda: {"totals": np.full(2, size, np.int32)},
        bytes=16 * size,
        flops=2 * size,
    )


def small():
    """The launches that the certificates judge on."""
    total, first, second = (np.zeros(1, np.int32) for _ in range(3))
    return (
        Step(spin_lock, (total, first), (2,), (1,)),
        Step(ticket_lock, (total, first, second), (2,), (1,)),
    )
