"""Values that take the place of what a loop with barriers carries."""

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir import compiler, runtime
from hetir.backends.cpu import compile_kernel
from hetir.backends.cpu.program import Control, Leaf, every
from hetir.backends.cpu.schedule import schedule
from hetir.passes.expand_arrays import expand_arrays
from hetir.passes.simplify import simplify

ITEMS = 64
TURNS = 5


@hetir.kernel
def replaced(x: hl.Array[hl.u32, 1], y: hl.Array[hl.u32, 1], n: hl.i64):
    """The next value is made between two barriers, when the old one has been read."""
    i = hl.local_id(0)
    tile = hl.shared(ITEMS, hl.u32)
    a = x[i]
    for _ in range(n):
        tile[i] = a
        hl.barrier()
        a = a * hl.u32(3) + tile[ITEMS - 1 - i]
        hl.barrier()
    y[i] = a


@hetir.kernel
def read_later(x: hl.Array[hl.u32, 1], y: hl.Array[hl.u32, 1], n: hl.i64):
    """The old value is read when the new one is there."""
    i = hl.local_id(0)
    tile = hl.shared(ITEMS, hl.u32)
    a, s = x[i], hl.u32(0)
    for _ in range(n):
        tile[i] = s
        following = a * hl.u32(5) + hl.u32(1)
        hl.barrier()
        s = tile[ITEMS - 1 - i] + a
        hl.barrier()
        a = following
    y[i] = a + s


@hetir.kernel
def exchanged(x: hl.Array[hl.u32, 1], y: hl.Array[hl.u32, 1], n: hl.i64):
    """What one takes is what the other was, and one value goes to two."""
    i = hl.local_id(0)
    tile = hl.shared(ITEMS, hl.u32)
    a, b, c, d = x[i], x[i] + hl.u32(7), hl.u32(1), hl.u32(2)
    for _ in range(n):
        tile[i] = a + c
        hl.barrier()
        t = tile[ITEMS - 1 - i] + b + d
        hl.barrier()
        a, b, c, d = b, t, t, c
    y[i] = a + b * hl.u32(3) + c * hl.u32(5) + d * hl.u32(11)


@hetir.kernel
def left_early(x: hl.Array[hl.u32, 1], y: hl.Array[hl.u32, 1], n: hl.i64):
    """The loop is left with the old value, or goes on with it."""
    i = hl.local_id(0)
    tile = hl.shared(ITEMS, hl.u32)
    a = x[i]
    for k in range(n):
        tile[i] = a
        hl.barrier()
        t = tile[ITEMS - 1 - i] + a * hl.u32(3)
        hl.barrier()
        if k == 1:
            continue
        if k == 3:
            break
        a = t
    y[i] = a


@hetir.kernel
def nested(x: hl.Array[hl.u32, 1], y: hl.Array[hl.u32, 1], n: hl.i64):
    """The inner loop starts with the outer one's value, which is read afterwards."""
    i = hl.local_id(0)
    tile = hl.shared(ITEMS, hl.u32)
    a = x[i]
    for _ in range(n):
        b = a
        for _ in range(n):
            tile[i] = b
            hl.barrier()
            b = b * hl.u32(3) + tile[ITEMS - 1 - i]
            hl.barrier()
        a = a + b
    y[i] = a


@hetir.kernel
def parted(x: hl.Array[hl.u32, 1], y: hl.Array[hl.u32, 1], n: hl.i64):
    """Some items end their turns earlier than others, with the same value."""
    i = hl.local_id(0)
    tile = hl.shared(ITEMS, hl.u32)
    a, s = x[i], hl.u32(0)
    for k in range(n):
        tile[i] = a
        hl.barrier()
        a = tile[ITEMS - 1 - i] + a * hl.u32(3)
        hl.barrier()
        if (i + k) % 3 == 0:
            s = s + hl.u32(1)
            continue
        s = s * hl.u32(2) + a
    y[i] = a + s


KERNELS = (replaced, read_later, exchanged, left_early, nested, parted)


def after_replaced(a, n):
    for _ in range(n):
        a = a * 3 + a[::-1]
    return a


def after_read_later(a, n):
    s = np.zeros_like(a)
    for _ in range(n):
        a, s = a * 5 + 1, s[::-1] + a
    return a + s


def after_exchanged(a, n):
    b, c, d = a + 7, np.full_like(a, 1), np.full_like(a, 2)
    for _ in range(n):
        t = (a + c)[::-1] + b + d
        a, b, c, d = b, t, t, c
    return a + b * 3 + c * 5 + d * 11


def after_left_early(a, n):
    for k in range(min(n, 3)):
        a = a if k == 1 else a[::-1] + a * 3
    return a


def after_nested(a, n):
    for _ in range(n):
        a = a + after_replaced(a, n)
    return a


def after_parted(a, n):
    s, items = np.zeros_like(a), np.arange(ITEMS)
    for k in range(n):
        a = a[::-1] + a * 3
        s = np.where((items + k) % 3 == 0, s + 1, s * 2 + a)
    return a + s


def lowered(kernel, arguments):
    traced = compiler.record(kernel, kernel.specialise(arguments))
    return simplify(compiler.prepare(traced.module))


@pytest.mark.parametrize("lanes", [0, 4, 8, 16, 32, None])
@pytest.mark.parametrize("kernel", KERNELS)
def test_loops_carry_what_they_should(kernel, lanes):
    x = np.arange(ITEMS, dtype=np.uint32) * np.uint32(2654435761)
    for n in (0, 1, TURNS):
        y = np.zeros_like(x)
        arguments = (x, y, np.int64(n))
        made = compile_kernel(
            lowered(kernel, arguments), workgroup=(ITEMS, 1, 1), lanes=lanes, optimise=0
        )
        loaded = runtime.device("cpu").load(made, names=kernel.parameters)
        loaded.run(arguments, (1, 1, 1), (ITEMS, 1, 1))
        np.testing.assert_array_equal(y, globals()[f"after_{kernel.name}"](x, n))


@pytest.mark.parametrize(
    ("kernel", "shared"),
    [(replaced, 1), (read_later, 1), (exchanged, 0), (left_early, 0), (nested, 1), (parted, 0)],
)
def test_how_many_values_lie_where_the_loop_wants_them(kernel, shared):
    x = np.zeros(ITEMS, np.uint32)
    program = schedule(expand_arrays(lowered(kernel, (x, x, np.int64(1)))))
    loops = [node for node in every(program.nodes) if isinstance(node, Control)]
    results = {value for node in loops for value in node.op.results}
    assert len(program.same.keys() - results) == shared
    moved = [node for node in every(program.nodes) if isinstance(node, Leaf) and not node.ops]
    assert not moved
