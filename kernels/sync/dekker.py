"""Dekker's entry: of two workgroups that announce themselves and then look, at most one enters."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step


@hetir.kernel
def by_accesses(wants: hl.Array[hl.i32, 1], inside: hl.Array[hl.i32, 1]):
    if hl.local_id(0) == 0:
        me = hl.group_id(0)
        hl.atomic_store(wants, me, 1, order="seq_cst")
        if hl.atomic_load(wants, 1 - me, order="seq_cst") == 0:
            inside[me] = 1


@hetir.kernel
def by_fences(wants: hl.Array[hl.i32, 1], inside: hl.Array[hl.i32, 1]):
    if hl.local_id(0) == 0:
        me = hl.group_id(0)
        hl.atomic_store(wants, me, 1)
        hl.fence("seq_cst", "device")
        if hl.atomic_load(wants, 1 - me) == 0:
            inside[me] = 1


@hetir.kernel
def judged(inside: hl.Array[hl.i32, 1], broken: hl.Array[hl.i32, 1]):
    """How often both were inside."""
    if hl.global_id(0) == 0:
        for i in range(inside.shape[0] // 2):
            broken[0] += inside[2 * i] & inside[2 * i + 1]


def case(rng, size=8):
    """`size` turns of each."""
    wants, inside, broken = map(_zeros, ((2 * size, 2), 4 * size, 1))
    turns = [
        Step((by_accesses, by_fences)[i % 2], (wants[i], inside[2 * i : 2 * i + 2]), (2,), (32,))
        for i in range(2 * size)
    ]

    def reset():
        for array in (wants, inside, broken):
            array.fill(0)

    return Case(
        steps=(*turns, Step(judged, (inside, broken), (1,), (1,))),
        reset=reset,
        results={"broken": broken},
        expected=lambda: {"broken": np.zeros(1, np.int32)},
        bytes=wants.nbytes,
        flops=0,
    )


def _zeros(count):
    return np.zeros(count, np.int32)


def small():
    """The launches that the certificates judge on."""
    return (
        Step(by_accesses, (_zeros(2), _zeros(2)), (2,), (1,)),
        Step(by_fences, (_zeros(2), _zeros(2)), (2,), (1,)),
    )
