"""Message passing by a flag, within a workgroup, within the device, and across the system."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step


@hetir.kernel
def within_workgroup(
    data: hl.Array[hl.i32, 1], flag: hl.Array[hl.i32, 1], out: hl.Array[hl.i32, 1]
):
    group, item = hl.group_id(0), hl.local_id(0)
    if item == 0:
        data[group] = group + 42
        hl.atomic_store(flag, group, 1, order="release", scope="workgroup")
    elif item == 1:
        while hl.atomic_load(flag, group, order="acquire", scope="workgroup") == 0:
            pass
        out[group] = data[group]


@hetir.kernel(cooperative=True)
def within_device(data: hl.Array[hl.i32, 1], flag: hl.Array[hl.i32, 1], out: hl.Array[hl.i32, 1]):
    group, item = hl.group_id(0), hl.local_id(0)
    if item == 0:
        data[group] = group + 42
        hl.atomic_store(flag, group, 1, order="release", scope="device")
        other = hl.num_groups(0) - 1 - group
        while hl.atomic_load(flag, other, order="acquire", scope="device") == 0:
            pass
        out[group] = data[other]


@hetir.kernel(cooperative=True)
def across_system(data: hl.Array[hl.i32, 1], flag: hl.Array[hl.i32, 1], out: hl.Array[hl.i32, 1]):
    group, item = hl.group_id(0), hl.local_id(0)
    if item == 0:
        data[group] = group + 42
        hl.atomic_store(flag, group, 1, order="release", scope="system")
        other = hl.num_groups(0) - 1 - group
        while hl.atomic_load(flag, other, order="acquire", scope="system") == 0:
            pass
        out[group] = data[other]


def case(rng, size=8):
    """All three, one after another, over `size` workgroups of 32."""
    kernels = (within_workgroup, within_device, across_system)
    data, flags, outs = (np.zeros((3, size), np.int32) for _ in range(3))
    steps = tuple(
        Step(k, (data[i], flags[i], outs[i]), (size,), (32,)) for i, k in enumerate(kernels)
    )
    there = np.arange(size) + 42
    return Case(
        steps=steps,
        reset=lambda: flags.fill(0),
        results={"out": outs},
        expected=lambda: {"out": np.stack((there, there[::-1], there[::-1])).astype(np.int32)},
        bytes=outs.nbytes,
        flops=0,
    )


def small():
    """The launches that the certificates judge on."""
    words = tuple(np.zeros(2, np.int32) for _ in range(3))
    return (
        Step(within_workgroup, words, (2,), (2,)),
        Step(within_device, words, (2,), (1,)),
        Step(across_system, words, (2,), (1,)),
    )
