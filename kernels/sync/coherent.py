"""Coherence and agreement: two reads of one word never go back; two readers agree on an order."""

# ruff: noqa: SIM102 (the order of two reads is what it is about)
import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step


@hetir.kernel
def read_read(x: hl.Array[hl.i32, 1], back: hl.Array[hl.i32, 1]):
    """Relaxed is enough: all writes of one word are in one order."""
    group = hl.group_id(0)
    if hl.local_id(0) == 0:
        if group == 0:
            hl.atomic_store(x, 0, 1)
            hl.atomic_store(x, 0, 2)
        else:
            first = hl.atomic_load(x, 0)
            if hl.atomic_load(x, 0) < first:
                back[group] = 1


@hetir.kernel
def independent(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1], seen: hl.Array[hl.i32, 1]):
    """Independent reads of independent writes (IRIW): only seq_cst makes the readers agree."""
    if hl.local_id(0) == 0:
        group = hl.group_id(0)
        if group == 0:
            hl.atomic_store(x, 0, 1, order="seq_cst")
        elif group == 1:
            hl.atomic_store(y, 0, 1, order="seq_cst")
        elif group == 2:
            if hl.atomic_load(x, 0, order="seq_cst") == 1:
                if hl.atomic_load(y, 0, order="seq_cst") == 0:
                    seen[group] = 1
        elif group == 3:
            if hl.atomic_load(y, 0, order="seq_cst") == 1:
                if hl.atomic_load(x, 0, order="seq_cst") == 0:
                    seen[group] = 1


@hetir.kernel
def judged(seen: hl.Array[hl.i32, 1], broken: hl.Array[hl.i32, 1]):
    """How often both orders were seen."""
    if hl.global_id(0) == 0:
        for i in range(seen.shape[0] // 4):
            broken[0] += seen[4 * i + 2] & seen[4 * i + 3]


def case(rng, size=8):
    """`size` turns of each."""
    back, x, y = np.zeros(8, np.int32), *(np.zeros(2 * size, np.int32) for _ in range(2))
    seen, broken = np.zeros(4 * size, np.int32), np.zeros(1, np.int32)
    turns = [
        step
        for i in range(size)
        for step in (
            Step(read_read, (x[i : i + 1], back), (8,), (32,)),
            Step(
                independent,
                (x[size + i : size + i + 1], y[i : i + 1], seen[4 * i : 4 * i + 4]),
                (4,),
                (32,),
            ),
        )
    ]

    def reset():
        for array in (back, x, y, seen, broken):
            array.fill(0)

    return Case(
        steps=(*turns, Step(judged, (seen, broken), (1,), (1,))),
        reset=reset,
        results={"back": back, "broken": broken},
        expected=lambda: {"back": np.zeros(8, np.int32), "broken": np.zeros(1, np.int32)},
        bytes=16 * size,
        flops=0,
    )


def small():
    """The launches that the certificates judge on."""
    x, y, seen = (np.zeros(n, np.int32) for n in (1, 1, 4))
    return (
        Step(read_read, (x, seen), (2,), (1,)),
        Step(independent, (x, y, seen), (4,), (1,)),
    )
