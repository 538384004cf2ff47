"""Red zones, reduction and runners of `hetir.testing`: what they must see, planted."""

import random
from dataclasses import replace

import numpy as np

from hetir import testing
from hetir.ir.core import Region, walk
from hetir.runtime.hostmemory import host_bytes
from hetir.testing.guard import Guarded
from hetir.testing.reduce import reduce


def test_copies_keep_values_strides_alignment_and_overlaps():
    memory = np.arange(64, dtype=np.int16)
    given = [memory[3:40:2], memory[10:2:-1], np.float32(2), memory[60:], np.zeros((0, 3))]
    copies = Guarded(given).arguments
    for one, two in zip(given, copies, strict=True):
        np.testing.assert_array_equal(one, two)
        if isinstance(one, np.ndarray) and one.size:
            assert one.strides == two.strides
            assert one.ctypes.data % 256 == two.ctypes.data % 256
            assert not np.shares_memory(memory, two)
    copies[0][...] = -1
    assert (copies[1][1::2] == -1).all()
    assert (memory >= 0).all()


def test_stray_bytes_are_seen_before_after_and_between():
    def guarded():
        return Guarded([np.zeros((4, 3), np.int32)[:, ::2], np.ones(5, np.uint8)], [True, False])

    made = guarded()
    made.arguments[0][...] = 7
    assert made.stray() == []
    for offset in (-1, 4, 48, 200):
        made = guarded()
        host_bytes(made.arguments[0].ctypes.data + offset, 1)[0] ^= 255
        (found,) = made.stray()
        assert "1 bytes outside the arrays were written" in found
    made = guarded()
    made.arguments[1][2] = 9
    assert made.stray(), "an array that the kernel must not write"


def test_a_failing_kernel_becomes_small():
    """The operands of `shr` are swapped: a few ops and work-items are enough to show that."""

    def swapped(region):
        body = []
        for op in region.body:
            operands = op.operands[::-1] if op.name == "shr" else op.operands
            body.append(replace(op, operands=operands, regions=tuple(map(swapped, op.regions))))
        return Region(region.args, tuple(body))

    def fails(case):
        broken = replace(case.kernel, body=swapped(case.kernel.body))
        return bool(
            testing.differences(case.run(testing.checked), case.run(testing.evaluator, broken))
        )

    def differs(case):
        try:
            return any(op.name == "shr" for op in walk(case.kernel.body)) and fails(case)
        except AssertionError:  # an index that a wrong shift took out of bounds
            return False

    cases = (testing.generate(random.Random(seed).randrange) for seed in range(400))
    case = next(filter(differs, cases))
    small = reduce(case, fails)
    assert sum(1 for _ in walk(small.kernel.body)) <= 30
    assert fails(small)
