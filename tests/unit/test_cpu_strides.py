"""Arrays through which lanes step by strides of the launch: windows, where they are short steps."""

import re

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir.backends.cpu import emit_ir
from hetir.target import Assumptions
from tests.unit.test_cpu_clamps import LANES, prepared, runner


@hetir.kernel
def moved(p: hl.Array[hl.f32, 2], v: hl.Array[hl.f32, 2], dt: hl.f32):
    """Points in rows, as NumPy has them."""
    i = hl.global_id(0)
    if i < p.shape[0]:
        x, y = p[i, 0], p[i, 1]
        v[i, 0] -= y * dt
        v[i, 1] += x * dt
        p[i, 0] = x + v[i, 0]
        p[i, 1] = y + v[i, 1]


@pytest.mark.parametrize("lanes", LANES)
def test_points(lanes):
    rng = np.random.default_rng(0)
    for columns in (2, 3, 4, 5, 9):
        p, v = rng.random((150, columns), np.float32), rng.random((150, columns), np.float32)
        for shift in (0, 3):  # v in wider rows than p
            q, w = p.copy(), np.full((150, columns + shift), 7, np.float32)
            w[:, :columns] = v
            run = runner(moved, (q, w[:, :columns], np.float32(0)), (64,), lanes)
            run((q, w[:, :columns], np.float32(0.5)), (3,))
            after = v.copy()
            after[:, 0] -= p[:, 1] * np.float32(0.5)
            after[:, 1] += p[:, 0] * np.float32(0.5)
            assert (w[:, :columns] == after).all()
            assert (w[:, columns:] == 7).all()
            assert (q[:, :2] == p[:, :2] + after[:, :2]).all()
            assert (q[:, 2:] == p[:, 2:]).all()


@hetir.kernel
def greyed(image: hl.Array[hl.u8, 3], grey: hl.Array[hl.u8, 2]):
    x, y = hl.global_id(0), hl.global_id(1)
    if x < grey.shape[1] and y < grey.shape[0]:
        r, g, b = image[y, x, 0], image[y, x, 1], image[y, x, 2]
        grey[y, x] = hl.u8(0.25 * r + 0.5 * g + 0.25 * b)


@hetir.kernel
def added(x: hl.Array[hl.i16, 2], y: hl.Array[hl.i32, 2]):
    c, r = hl.global_id(0), hl.global_id(1)
    if r < x.shape[0] and c < x.shape[1]:
        y[r, c] += x[r, c]


@hetir.kernel
def summed(x: hl.Array[hl.f32, 2], y: hl.Array[hl.f32, 1]):
    """A loop, branches, a clamp and a barrier around strides."""
    i = hl.global_id(0)
    tile = hl.shared(64, hl.f32)
    total = hl.f32(0)
    for k in range(x.shape[1]):
        if k % 2 == 0:
            total += x[min(i, x.shape[0] - 1), k] - x[i, k] / 2
        else:
            total += x[i, k] / 2
    tile[hl.local_id(0)] = total
    hl.barrier()
    y[i] = tile[63 - hl.local_id(0)]


@pytest.mark.parametrize("lanes", LANES)
def test_images_and_views(lanes):
    rng = np.random.default_rng(1)
    for channels in (3, 4, 5):
        image, grey = rng.integers(0, 256, (5, 70, channels), np.uint8), np.zeros((5, 70), np.uint8)
        runner(greyed, (image, grey), (64,), lanes)((image, grey), (2, 5))
        weights = np.array([0.25, 0.5, 0.25], np.float32)
        assert (grey == (image[..., :3] * weights).sum(2).astype(np.uint8)).all()
    x, y = np.arange(1200, dtype=np.int16).reshape(6, 200), np.zeros((6, 800), np.int32)
    for a, b in ((1, 2), (2, 2), (3, 3), (4, 4), (2, 4), (-1, -1), (-2, 2), (7, 5)):
        one = x[:, ::a]
        two = y[:, ::b][:, : one.shape[1]]
        before, other = two.copy(), y.copy()
        other[:, ::b][:, : one.shape[1]] += one
        runner(added, (one, two), (64,), lanes)((one, two), (4, 6))
        assert (two == before + one).all(), (a, b)
        assert (y == other).all(), (a, b)
    turned = np.asfortranarray(x)
    two = np.zeros((6, 200), np.int32, order="F")
    runner(added, (turned, two), (64,), lanes)((turned, two), (4, 6))
    assert (two == x).all()
    for columns in (1, 2, 3, 4, 6):
        x = rng.integers(-50, 50, (128, columns)).astype(np.float32)
        for source in (x, np.asfortranarray(x), x[::-1], np.repeat(x, 2, 0)[::2]):
            y = np.zeros(128, np.float32)
            runner(summed, (source, y), (64,), lanes)((source, y), (2,))
            assert (y == (source / 2).sum(1).reshape(2, 64)[:, ::-1].ravel()).all()


def test_three_channels_are_read_without_gathers():
    """The versions for one to four elements apart come first."""
    image, grey = np.zeros((5, 70, 3), np.uint8), np.zeros((5, 70), np.uint8)
    promised = Assumptions(index_bits=32)
    text = emit_ir(prepared(greyed, (image, grey)), workgroup=(64, 4, 1), assumptions=promised)
    usual = text.split("\nstep", 1)[1].split("llvm.masked.gather", 1)[0]
    assert len(re.findall(r"\nstep\d+:", "\nstep" + usual)) == 4
    assert len(re.findall(r" store <\d+ x i8>", usual)) >= 4
