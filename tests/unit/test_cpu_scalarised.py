"""Ops that LLVM would do lane by lane: integer division, conversions of floats to integers."""

import itertools
import math
import re

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir.backends.cpu import compile_kernel, disassemble
from tests.unit.test_cpu_clamps import prepared, runner

TYPES = {f"{s}{b}": np.dtype(f"{'u' if s == 'u' else ''}int{b}") for s in "iu" for b in (8, 16, 32)}


@hetir.kernel
def divided(x, y, floors, rests, quotients, remainders):
    i = hl.global_id(0)
    if i < x.shape[0]:
        floors[i], rests[i] = x[i] // y[i], x[i] % y[i]
        quotients[i], remainders[i] = hl.div(x[i], y[i]), hl.rem(x[i], y[i])


def operands(kind):
    """All pairs of bytes; of wider integers those around multiples, ends and powers of two."""
    info = np.iinfo(kind)
    if kind.itemsize == 1:
        pairs = np.array([*itertools.product(range(info.min, info.max + 1), repeat=2)])
        return pairs[:, 0].astype(kind), pairs[:, 1].astype(kind)
    rng = np.random.default_rng(kind.itemsize)
    y = rng.integers(info.min, info.max, 4000, endpoint=True, dtype=kind) >> rng.integers(
        0, kind.itemsize * 8, 4000
    ).astype(kind)
    times = rng.integers(info.min, info.max, 4000, dtype=kind) // np.where(y == 0, 1, y)
    corners = [0, 1, 2, 3, info.max, info.max - 1, info.min, info.min + 1, 1 << 12]
    corners += [-1 % (1 << 7), 255] if info.min == 0 else [-1, -2, -(1 << 12)]
    ends = np.array([*itertools.product(corners, repeat=2)])
    near = [(times * y + d).astype(kind) for d in np.array([0, 1, -1]).astype(kind)]
    x = np.concatenate([*near, ends[:, 0].astype(kind)])
    return x, np.concatenate([y, y, y, ends[:, 1].astype(kind)])


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("lanes", [8, None])
def test_integer_division(name, lanes):
    kind = TYPES[name]
    x, y = operands(kind)
    made = [np.empty_like(x) for _ in range(4)]
    run = runner(divided, (x, y, *made), (64,), lanes)
    run((x, y, *made), (-(-x.size // 64),))
    a, b = x.astype(np.int64), y.astype(np.int64)
    safe = np.where(b == 0, 1, b)
    floors, rests = np.where(b == 0, 0, a // safe), np.where(b == 0, 0, a % safe)
    signs = np.where((a < 0) == (b < 0), 1, -1)
    cut = np.where(b == 0, 0, np.abs(a) // np.abs(safe) * signs)
    left = np.where(b == 0, 0, a - cut * b)
    for got, right in zip(made, (floors, rests, cut, left), strict=True):
        assert (got == right.astype(kind)).all()


@hetir.kernel
def converted(x, a, b, c, d):
    i = hl.global_id(0)
    if i < x.shape[0]:
        a[i], b[i], c[i], d[i] = x[i], x[i], x[i], x[i]


def floats(kind):
    """Numbers around all powers of two and whole numbers, and what is none."""
    bits = np.dtype(f"u{kind.itemsize}")
    powers = np.array([s * 2.0**b for b in range(66) for s in (1, -1)], kind)
    zero, end = kind.type(0), kind.type(np.inf)
    near = [np.nextafter(powers, zero), np.nextafter(powers, end), np.nextafter(powers, -end)]
    near += [powers, powers - kind.type(0.5), powers + kind.type(0.5), powers - kind.type(1)]
    rest = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 0.999, -0.999, 1e-40, 3e38]
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 1 << 8 * kind.itemsize, 2000, np.uint64).astype(bits).view(kind)
    return np.concatenate(
        [*near, np.array(rest, kind), noise, rng.uniform(-300, 300, 500)], dtype=kind
    )


def cut(value, info):
    """What a float is as an integer."""
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return info.max if value > 0 else info.min
    return min(max(int(value), info.min), info.max)


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("lanes", [8, None])
@pytest.mark.parametrize("sign", "iu")
def test_floats_to_integers(kind, lanes, sign):
    x = floats(np.dtype(kind))
    made = [np.empty(x.size, f"{sign}{size}") for size in (1, 2, 4, 8)]
    run = runner(converted, (x, *made), (64,), lanes)
    run((x, *made), (-(-x.size // 64),))
    for got in made:
        info = np.iinfo(got.dtype)
        assert got.tolist() == [cut(value, info) for value in x.tolist()], got.dtype


def test_no_lane_has_an_instruction_of_its_own():
    x, y = np.zeros(64, np.float32), [np.zeros(64, np.dtype(t)) for t in ("u1", "i2", "i4", "u4")]
    z, made = np.zeros(64, np.int32), [np.zeros(64, np.int32) for _ in range(4)]
    for kernel, arguments in ((converted, (x, *y)), (divided, (z, z, *made))):
        artifact = compile_kernel(
            prepared(kernel, arguments), target="cpu:x86-64-v4", workgroup=(64, 1, 1)
        )
        text = disassemble(artifact)
        assert re.search(r"vcvttp[sd]2u?dq", text)
        assert not re.search(r"vcvtts[sd]2|\sidiv", text)


@hetir.kernel
def gathered(x, total, out):
    """Float atomics of all work-items on few elements, in both memories."""
    i, lane = hl.global_id(0), hl.local_id(0)
    near = hl.shared(4, x.dtype)
    if lane < 4:
        near[lane] = 1.0
    hl.barrier()
    if i < x.shape[0]:
        hl.atomic_add(total, 0, x[i])
        hl.atomic_sub(total, 1, x[i])
        hl.atomic_min(total, 2, x[i])
        hl.atomic_max(total, 3, x[i])
        hl.atomic_add(total, 4 + i % 3, 1.0)
        hl.atomic_add(near, 0, x[i])
        hl.atomic_sub(near, 1, x[i])
        hl.atomic_min(near, 2, x[i])
        hl.atomic_max(near, 3, x[i])
    hl.barrier()
    if lane < 4:
        out[hl.group_id(0), lane] = near[lane]


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("lanes", [0, 8, None])
def test_float_atomics_of_all_items_on_one_element(kind, lanes):
    x = np.random.default_rng(0).integers(-99, 99, 250).astype(kind)
    run = runner(gathered, (x, np.zeros(7, kind), np.zeros((4, 4), kind)), (64,), lanes)
    for value in (x[7], -0.0, np.nan, np.inf):
        x[7] = value
        total, out = np.zeros(7, kind), np.zeros((4, 4), kind)
        run((x, total, out), (4,))
        with np.errstate(all="ignore"):
            ends = [x.sum(), -x.sum(), min(x.min(), 0.0), max(x.max(), 0.0)]
            rows = np.split(np.pad(x, (0, 6)), 4)
            rows[3] = rows[3][:58]
            parts = [[1 + r.sum(), 1 - r.sum(), min(r.min(), 1), max(r.max(), 1)] for r in rows]
        if np.isnan(value):
            ends[2:] = parts[0][2:] = [value, value]
        assert np.array_equal(total[:4], np.array(ends, kind), equal_nan=True)
        assert total[4:].tolist() == [84, 83, 83]
        assert np.array_equal(out, np.array(parts, kind), equal_nan=True)


def test_float_atomics_do_not_wait_for_the_lanes_beside():
    """One exchange a lane: of lanes that swap together one wins, and all others try again."""
    x, total = np.zeros(64, np.float32), np.zeros(7, np.float32)
    artifact = compile_kernel(
        prepared(gathered, (x, total, np.zeros((4, 4), np.float32))), workgroup=(64, 1, 1)
    )
    for name in ("fadd", "fsub", "fminimum", "fmaximum"):
        assert f"atomicrmw {name} ptr" in artifact.text
    assert "cmpxchg" not in artifact.text
