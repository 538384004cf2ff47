"""Trials of a device, for what its own answers do not promise.

A small kernel divides, takes square roots and sums products in order, subnormal numbers among
them; its results are IEEE's to the bit or the device is not reproducible. Others add floats by
atomics, and exchange values between the lanes of subgroups. The modules are written by
tools/trial_modules.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hetir.artifact import Artifact, Layout, Resources, Slot, Variant
from hetir.runtime.driver import Dims, Driver, DriverError, Task

SUBGROUPS = "subgroups"
_FLOAT_ADDS = {"atomic_f32_add": "f32", "atomic_f64_add": "f64"}
_COUNT, _ROUNDS = 512, 70_000
_RESULTS, _GROUPS = 8, 3
_FACTOR = 0x10_0000_0007
Lanes = np.ndarray[Any, Any]
Load = Callable[[Artifact], Any]


def _artifact(name: str, target: str, form: object, dtype: str, arrays: int) -> Artifact:
    """A module of this folder, which takes some arrays of one dimension."""
    file = f"{name}.{target.partition(':')[2]}.{form}.spv"
    slots = tuple(
        Slot(offset=24 * i, source=(i,), dtype=dtype, ndim=1, reads=True, writes=True)
        for i in range(arrays)
    )
    return Artifact(
        kernel=name,
        target=target,
        entry=f"hetir_kernel_{name}",
        text="",
        binary=Path(__file__).with_name(file).read_bytes(),
        layout=Layout(slots=slots, size=-(-24 * arrays // 16) * 16),
        resources=Resources(),
        subgroup_size=form if isinstance(form, int) else 32,
    )


def _run(
    driver: Driver, program: Any, arrays: Sequence[Lanes], grid: Dims, workgroup: Dims
) -> list[Lanes]:
    """What a launch leaves in its arrays."""
    queue = driver.make_queue()
    memories = [driver.allocate(array.nbytes) for array in arrays]
    try:
        for memory, array in zip(memories, arrays, strict=True):
            driver.write(queue, memory, 0, array.view(np.uint8))
        shaped = zip(memories, arrays, strict=True)
        words = [w for m, array in shaped for w in (m.address, len(array), array.itemsize)]
        block = np.array([*words, *[0] * (len(words) % 2)], np.int64).tobytes()
        task = Task(
            program=program, grid=grid, workgroup=workgroup, block=block, memories=tuple(memories)
        )
        driver.launch(queue, task).wait()
        results = [np.empty_like(array) for array in arrays]
        for memory, result in zip(memories, results, strict=True):
            driver.read(queue, memory, 0, result.view(np.uint8))
        return results
    finally:
        for memory in memories:
            driver.free(memory)
        driver.free_queue(queue)


def _same(found: Sequence[Lanes], expected: Sequence[Lanes]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(found, expected, strict=True))


# ---- arithmetic --------------------------------------------------------------------------


def passes(driver: Driver, load: Load, target: str, dtype: str) -> bool:
    """Run the kernel, loaded by `load`, a work-item a workgroup, and compare."""
    (x, y), expected = _operands(dtype)
    try:
        program = load(_artifact("float_check", target, dtype, dtype, 5))
        blank = [np.zeros_like(x) for _ in expected]
        found = _run(driver, program, [x, y, *blank], (_COUNT, 1, 1), (1, 1, 1))
    except DriverError:
        return False
    return _same(found[2:], expected)


def fuses(driver: Driver, load: Load, target: str, dtype: str) -> bool:
    """Whether `fma` rounds once: it finds what a product lost, and keeps to subnormal numbers."""
    (x, y), _ = _operands(dtype)
    x, y = x[256:320].copy(), y[256:320].copy()
    rounded = x * y
    exact = [Fraction(float(a)) * Fraction(float(b)) for a, b in zip(x, y, strict=True)]
    lost = [float(e - Fraction(float(r))) for e, r in zip(exact, rounded, strict=True)]
    try:
        program = load(_artifact("fma_check", target, dtype, dtype, 4))
        z, least = -rounded, np.finfo(x.dtype).smallest_subnormal
        x[:2], y[:2], z[:2] = least, (-1, 3), least
        want = np.array(lost, x.dtype)
        want[:2] = 0, 4 * least
        *_, found = _run(driver, program, [x, y, z, np.zeros_like(x)], (len(x), 1, 1), (1, 1, 1))
    except DriverError:
        return False
    return _same([found], [want])


def parts(driver: Driver, load: Load, target: str) -> bool:
    """Whether work-items may take unlike ways after a barrier that stands in a branch."""
    try:
        program = load(_artifact("branch_check", target, "i32", "i32", 2))
        arrays = [np.zeros(64, np.int32), np.ones(64, np.int32)]
        found, _ = _run(driver, program, arrays, (1, 1, 1), (64, 1, 1))
    except DriverError:
        return False
    return found.tolist() == [1, 0] * 32


def compares(driver: Driver, load: Load, target: str) -> bool:
    """Whether 32-bit integers compare with constants as in 64 bits."""
    x = np.array([*range(-9, 10), 299, 300, 301, -(1 << 31), (1 << 31) - 1], np.int32)
    total = np.zeros_like(x)
    for number, bound in enumerate((0, 5, -7, 300, 1 << 40)):
        found = (x < bound, bound < x, x >= bound, bound >= x)
        for place, verdict in enumerate(found):
            total |= verdict.astype(np.int32) << (4 * number + place)
    try:
        program = load(_artifact("sign_check", target, "i32", "i32", 2))
        _, got = _run(driver, program, [x, np.zeros_like(x)], (len(x), 1, 1), (1, 1, 1))
    except DriverError:
        return False
    return _same([got], [total])


def keeps_zeros(driver: Driver, load: Load, target: str) -> bool:
    """Whether constant zeros, and a value less itself, are computed as IEEE says."""
    x = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan], np.float32)
    zero = np.float32(0)
    with np.errstate(all="ignore"):
        rows = (zero + x, zero - x, zero * x, x / zero, zero / x, x - x, x + -zero)
    want = np.stack(rows, axis=1).reshape(-1)
    try:
        program = load(_artifact("zero_check", target, "f32", "f32", 2))
        _, got = _run(driver, program, [x, np.empty_like(want)], (len(x), 1, 1), (1, 1, 1))
    except DriverError:
        return False
    same = got.view(np.uint32) == want.view(np.uint32)
    return bool((same | (np.isnan(got) & np.isnan(want))).all())


def loops_end_early(driver: Driver, load: Load, target: str) -> bool:
    """Whether a loop of 70,000 rounds does not get there."""
    program = load(_artifact("float_check", target, "f32", "f32", 5))
    ones = np.ones(_ROUNDS, np.float32)
    arrays = [ones, ones, *(np.zeros_like(ones) for _ in range(3))]
    *_, total = _run(driver, program, arrays, (1, 1, 1), (1, 1, 1))
    return total[0] != _ROUNDS


@cache
def _operands(dtype: str) -> tuple[tuple[Lanes, Lanes], tuple[Lanes, Lanes, Lanes]]:
    """Operands, subnormal ones among them, and the right results by NumPy."""
    kind = np.dtype({"f32": np.float32, "f64": np.float64}[dtype])
    least = np.finfo(kind).minexp
    random = np.random.default_rng(0)
    x, y = ((random.random(_COUNT) + 0.5).astype(kind) for _ in range(2))
    x[:128] = np.ldexp(x[:128], random.integers(least - 10, 2, 128)).astype(kind)
    y[:128] = np.ldexp(y[:128], random.integers(-10, 2, 128)).astype(kind)
    x[:8] = np.arange(1, 9, dtype=f"u{kind.itemsize}").view(kind)
    y[200:202] = 0.0, -0.0  # quotients of infinity
    total = kind.type(0)
    for product in x * y:
        total += product
    with np.errstate(divide="ignore"):
        return (x, y), (x / y, np.sqrt(x), np.full_like(x, total))


# ---- options -----------------------------------------------------------------------------


def adds(driver: Driver, load: Load, target: str, dtype: str) -> bool:
    """Whether atomics add floats as NumPy does, and count what many work-items add."""
    (x, y), _ = _operands(dtype)
    program = load(_artifact("add_check", target, dtype, dtype, 5))
    blank = [np.zeros_like(x) for _ in range(3)]
    _, after, old, total, tiles = _run(driver, program, [x, y, *blank], (_COUNT, 1, 1), (1, 1, 1))
    shared = x + y if target == "spirv:opencl" else blank[2]
    count = np.zeros_like(x)
    count[0] = _COUNT
    return _same((after, old, total, tiles), (x + y, y, count, shared))


def lanes_agree(driver: Driver, program: Any, width: int, workgroup: Dims) -> bool:
    """Whether subgroups have a width, and lanes in order of the linear id, in workgroups."""
    items = workgroup[0] * workgroup[1] * workgroup[2]
    blank = np.zeros(_GROUPS * items * _RESULTS, np.uint64)
    found = _run(driver, program, [blank], (_GROUPS, 1, 1), workgroup)
    return _same(found, [np.tile(_exchanged(width, items), _GROUPS)])


def _exchanged(width: int, items: int) -> Lanes:
    """What the kernel of a width leaves for the items of one workgroup."""
    item = np.arange(items)
    lane, first = item % width, item // width * width
    value = item.astype(np.uint64) * np.uint64(_FACTOR)

    def shuffled(values: Lanes, source: Lanes) -> Lanes:
        there = (source >= 0) & (source < width) & (first + source < items)
        picked = values[np.where(there, first + source, 0)]
        return np.where(there, picked, np.uint64(0))

    moved = (lane * 5 + 3) & (width - 1)
    sources = (lane ^ 1, lane ^ width // 2, lane - 1, lane + 3, 0 * lane, moved)
    results = [shuffled(value, source) for source in sources]
    results.append(shuffled(value & np.uint64(0xFFFFFFFF), moved))
    looped = value
    for _ in range(3):
        looped = shuffled(looped, lane ^ 1) + value
    return np.stack([*results, looped], axis=1).reshape(-1)


class Options:
    """Which options of `hetir.artifact.Variant` a device has, each tried once.

    `offered` is what the device says of an option and a subgroup width; what it does not
    offer is not tried, since compilers were seen to end the process. Options in `avoided` are
    not used even where the device has them.
    """

    def __init__(
        self,
        driver: Driver,
        load: Load,
        target: str,
        offered: Callable[[str, int], bool],
        *,
        processor: bool = False,
    ) -> None:
        self._driver, self._load, self._target, self._offered = driver, load, target, offered
        # a processor has no lanes: shuffles were 1.2 to 2.6 times slower than shared memory
        self.avoided = frozenset({SUBGROUPS}) if processor else frozenset[str]()
        self._lock = threading.RLock()
        self._programs: dict[int, Any] = {}
        self._known: dict[tuple[str, int, Dims], bool] = {}

    def form(self, artifact: Artifact, workgroup: Dims) -> Variant | None:
        """The best form of an artifact for workgroups of a size; None for the plain one."""
        width = artifact.subgroup_size
        wanted = [v for v in artifact.variants if self.avoided.isdisjoint(v.needs)]
        return next(
            (v for v in wanted if all(self.has(n, width, workgroup) for n in v.needs)), None
        )

    def has(self, option: str, width: int, workgroup: Dims) -> bool:
        """Whether the device has an option, for a subgroup width and a workgroup's size."""
        key = (option, width, workgroup) if option == SUBGROUPS else (option, 0, (0, 0, 0))
        found = self._known.get(key)
        if found is None:
            with self._lock:
                found = self._known[key] = self._try(option, width, workgroup)
        return found

    def _try(self, option: str, width: int, workgroup: Dims) -> bool:
        if not self._offered(option, width):
            return False
        try:
            if option != SUBGROUPS:
                return adds(self._driver, self._load, self._target, _FLOAT_ADDS[option])
            if width not in self._programs:
                artifact = _artifact("lane_check", self._target, width, "u64", 1)
                self._programs[width] = self._load(artifact)
            return lanes_agree(self._driver, self._programs[width], width, workgroup)
        except (DriverError, MemoryError):
            return False
