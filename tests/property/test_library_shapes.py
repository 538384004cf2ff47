"""The kernel library in random shapes: clean under every check, and right, wherever it may run."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

import hetir
from hetir import library
from hetir.library import Case, Step

FRESH = random.SystemRandom().randrange(1 << 40)
MANY = 25
WIDTHS = (1, 2, 7, 32, 33, 64, 100, 128)
FLAT = ((1, 1), (5, 3), (32, 1), (16, 8), (64, 4))


def length(choose: Random, most: int, least: int = 0) -> int:
    """An extent: none, one, about a multiple of a workgroup, or any."""
    near = choose.choice((16, 32, 64, 128, 256)) * choose.randint(1, 4) + choose.randint(-1, 1)
    found = choose.choice((0, 1, near, near, choose.randint(0, most), choose.randint(0, most)))
    return max(least, min(found, most))


def line(most: int, least: int = 0) -> Callable[[Random], Any]:
    return lambda choose: length(choose, most, least)


def box(*most: int, least: int = 0) -> Callable[[Random], Any]:
    return lambda choose: tuple(length(choose, n, least) for n in most)


def rows(most: int, width: int, least: int = 1) -> Callable[[Random], Any]:
    """Rows may be none, but are not empty where NumPy's reference needs an element."""
    return lambda choose: (length(choose, most), length(choose, width, least))


SHAPES: dict[str, Callable[[Random], Any]] = {
    "vector_add": line(2000),
    "saxpy": line(2000),
    "softmax": rows(6, 300),
    "sum": line(3000),
    "histogram": line(3000),
    "matmul": box(50, 90, 80),
    "mandelbrot": box(20, 80),
    "transpose": box(80, 80),
    "sobel": box(20, 140, least=1),
    "layer_norm": rows(6, 300),
    "rms_norm": rows(6, 300),
    "reduce_max": line(3000, least=1),
    "scan": line(9000),
    "jacobi": box(20, 140),
    "nbody": line(150),
    "spmv": line(500, least=1),
    "bitonic_sort": line(20_000),
    "flash_attention": lambda choose: (choose.randint(0, 2), length(choose, 70)),
    "gaussian_blur": box(20, 140, least=1),
    "top_k": rows(6, 300, least=0),
    "rotary": lambda choose: (choose.randint(0, 3), length(choose, 30), 2 * length(choose, 40)),
    "int8_matmul": box(40, 50, 40),
    "fft": lambda choose: (choose.randint(0, 3), 1 << choose.randint(0, 11)),
    "triangular_solve": box(40, 150),
    "black_scholes": line(2000),
    "cross_entropy": rows(6, 300),
    "monte_carlo": line(600),
}
"""A shape in each kernel's domain; the extents are its case's."""

ROWS = {"softmax", "layer_norm", "rms_norm", "cross_entropy"}
"""One workgroup of any size a row."""
GUARDED = {"vector_add", "saxpy", "black_scholes", "spmv", "triangular_solve"}
"""A work-item an element, in workgroups of any size."""
GUARDED_2D = {"mandelbrot", "sobel", "jacobi", "gaussian_blur"}


def launched(name: str, step: Step, choose: Random) -> Step:
    """The step with another workgroup, where the kernel takes any."""
    if name in ROWS:
        return replace(step, workgroup=(choose.choice(WIDTHS),))
    if name in GUARDED:
        workgroup: tuple[int, ...] = (choose.choice(WIDTHS),)
    elif name in GUARDED_2D:
        workgroup = choose.choice(FLAT)
    else:
        return step
    extents = zip(step.grid, step.workgroup, workgroup, strict=True)
    grid = tuple(hetir.cdiv(groups * old, new) for groups, old, new in extents)
    return replace(step, grid=grid, workgroup=workgroup)


def drawn(name: str, seed: int) -> tuple[Any, Case]:
    """A size and the case of it."""
    choose = Random(f"{name} {seed}")
    size = SHAPES[name](choose)
    case = library.case(name, size=size, rng=np.random.default_rng(seed))
    return size, replace(case, steps=tuple(launched(name, s, choose) for s in case.steps))


def hold(name: str, seed: int) -> None:
    size, case = drawn(name, seed)
    said = f"{name} of size {size}, seed {seed}"
    for device in ("cpu", "emulator"):
        case.reset()
        for step in case.steps:
            if device == "emulator":
                report = hetir.check(
                    step.kernel, step.arguments, step.grid, step.workgroup, seed=seed
                )
                assert [str(fault) for fault in report.faults] == [], said
            step.kernel.launch(
                step.arguments, grid=step.grid, workgroup=step.workgroup, device=device
            ).wait()
        if any(array.size for array in case.results.values()):
            assert case.error() <= case.tolerance, f"{said} on {device}"


def test_every_kernel_has_its_shapes() -> None:
    assert list(SHAPES) == list(library.NAMES)
    sizes = {name: {str(drawn(name, seed)[0]) for seed in range(12)} for name in SHAPES}
    assert all(len(found) >= 5 for found in sizes.values())


@pytest.mark.parametrize("name", library.NAMES)
def test_a_kernel_is_clean_and_right_in_random_shapes(name: str) -> None:
    for seed in (0, FRESH):
        hold(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", library.NAMES)
def test_a_kernel_is_clean_and_right_in_many_random_shapes(name: str) -> None:
    for number in range(MANY):
        hold(name, 2 + number if number % 2 else FRESH + 1 + number)


# ---- kernels/sync ----------------------------------------------------------------------------

SIZES: dict[str, Callable[[Random], int]] = {
    "coherent": lambda choose: choose.randint(0, 2),
    "dekker": lambda choose: choose.randint(0, 3),
    "exchange": lambda choose: 64 * choose.randint(0, 4),
    "grid_barrier": lambda choose: 64 * choose.randint(1, 4),
    "histogram": lambda choose: 64 * choose.randint(0, 4),
    "last_block": lambda choose: 64 * choose.randint(1, 4),
    "locks": lambda choose: choose.randint(0, 5),
    "look_back": lambda choose: 64 * choose.randint(0, 4),
    "message": lambda choose: choose.randint(0, 6),
    "once": lambda choose: choose.randint(0, 6),
    "ring": lambda choose: choose.randint(0, 9),
    "seqlock": lambda choose: choose.randint(1, 6),
    "stream_k": lambda choose: choose.randint(1, 100),
    "three_party": lambda choose: choose.randint(1, 4),
    "tile_signal": lambda choose: choose.randint(1, 100),
}
"""What each scenario's case takes."""


def hold_scenario(name: str, seed: int) -> None:
    """Right on the emulator, where each work-item gets its turn; no race on weak memory."""
    size = SIZES[name](Random(f"{name} {seed}"))
    case = library.scenario(name).case(np.random.default_rng(seed), size=size)
    case.reset()
    case.run("ptx-emulator")
    assert case.error() == 0, f"{name} of size {size}, seed {seed}"
    for step in library.scenario(name).small():
        report = hetir.check(
            step.kernel, step.arguments, step.grid, step.workgroup, weak=True, runs=5, seed=seed
        )
        assert [str(fault) for fault in report.faults] == [], f"{name}, seed {seed}"


@pytest.mark.parametrize("name", library.SYNC)
def test_a_scenario_is_right_and_does_not_race(name: str) -> None:
    for seed in (0, FRESH):
        hold_scenario(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", library.SYNC)
def test_a_scenario_is_right_in_many_shapes(name: str) -> None:
    for number in range(MANY):
        hold_scenario(name, FRESH + 1 + number)
