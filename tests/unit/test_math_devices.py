"""The same bits on every device that is here, emulated ones too."""

import ml_dtypes
import numpy as np
import pytest

import hetir
import hetir.compiler  # registers the emulated devices
import hetir.lang as hl
from hetir.ir.types import F32, F64
from hetir.target import UnsupportedError
from tests.unit import test_exact_expansions as expansions
from tests.unit.math_cases import BINARY, CASES, compute, samples

REAL = tuple(device.name for device in hetir.devices() if device.name != "cpu")
EVERY = tuple(device.name for device in hetir.devices(emulated=True) if device.name != "cpu")
# arguments a stratum
DEVICES = {**dict.fromkeys(REAL, 4000), "ptx-emulator": 24}
# one of each kind: a kernel takes a device's own compiler a tenth of a second
SOME = ("exp", "log", "sin", "atan2", "tanh", "erf", "pow", "lgamma")


def _bits_differ(name, device, dtype, count):
    case = {**CASES, **BINARY}[name]
    x = [samples(case, dtype, count, seed) for seed in range(1 + (name in BINARY))]
    ours = compute(name, *x)
    try:
        theirs = compute(name, *x, device=device)
    except UnsupportedError as refusal:
        # a target without f64 or its fused multiply-add refuses it, and says why
        reasons = ("fused multiply-add", "no f64 unit")
        if dtype.itemsize == 8 and any(reason in str(refusal) for reason in reasons):
            return None
        raise
    bits = f"u{dtype.itemsize}"
    nan = np.isnan(ours) & np.isnan(theirs)
    differ = (ours.view(bits) != theirs.view(bits)) & ~nan
    return [a[differ][:3] for a in (*x, ours, theirs)] if differ.any() else None


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", SOME)
def test_the_bits_are_those_of_the_cpu(name, device):
    for dtype in map(np.dtype, ("f4", "f8") if device in REAL else ("f4",)):
        assert _bits_differ(name, device, dtype, DEVICES[device]) is None


@pytest.mark.slow
@pytest.mark.parametrize("device", EVERY)
@pytest.mark.parametrize("name", [*CASES, *BINARY])
def test_a_million_arguments_have_the_bits_of_the_cpu(name, device):
    for dtype in map(np.dtype, ("f4", "f8")):
        assert _bits_differ(name, device, dtype, 250_000) is None


# ---- what the cases leave out: `powi`, `sincos`, and functions of 16 bits ------------------


@hetir.kernel
def integer_power(x, n, y):
    i = hl.global_id(0)
    if i < x.shape[0]:
        y[i] = hl.powi(x[i], n[i])


@hetir.kernel
def both(x, sine, cosine):
    i = hl.global_id(0)
    if i < x.shape[0]:
        sine[i], cosine[i] = hl.sincos(x[i])


@hetir.kernel
def of_16_bits(x, e, s, g):
    i = hl.global_id(0)
    if i < x.shape[0]:
        e[i], s[i], g[i] = hl.exp(x[i]), hl.sin(x[i]), hl.gelu(x[i])


def _launches(count):
    rng = np.random.default_rng(11)
    x = samples(CASES["sin"], np.dtype("f4"), count // 4)
    small, any_power = rng.integers(-40, 40, x.size), rng.integers(-(2**31), 2**31, x.size)
    n = np.where(rng.random(x.size) < 0.7, small, any_power).astype(np.int32)
    near = np.exp(rng.uniform(-80, 80, x.size) / np.maximum(np.abs(n.astype(float)), 1))
    yield integer_power, (near * rng.choice([-1, 1], x.size)).astype(np.float32), (n,), 1
    yield both, x, (), 2
    codes = np.resize(rng.permutation(1 << 16).astype(np.uint16), x.size)
    yield of_16_bits, codes.view(np.float16), (), 3
    yield of_16_bits, codes.view(ml_dtypes.bfloat16), (), 3


def _others_agree(device, count):
    for kernel, x, more, results in _launches(count):
        found = []
        for name in ("cpu", device):
            outputs = [np.empty_like(x) for _ in range(results)]
            launched = kernel.launch(
                (x, *more, *outputs), grid=hetir.cdiv(x.size, 256), workgroup=256, device=name
            )
            launched.wait()
            found.append(outputs)
        for ours, theirs in zip(*found, strict=True):
            same = ours.view(f"u{x.itemsize}") == theirs.view(f"u{x.itemsize}")
            nan = np.isnan(ours.astype(np.float32)) & np.isnan(theirs.astype(np.float32))
            assert (same | nan).all(), (kernel.name, x.dtype, x[~(same | nan)][:3])


@pytest.mark.parametrize("device", DEVICES)
def test_powers_pairs_and_16_bits_have_the_bits_of_the_cpu(device):
    _others_agree(device, 4000 if device in REAL else 512)


@pytest.mark.slow
@pytest.mark.parametrize("device", EVERY)
def test_a_million_powers_pairs_and_16_bits_have_the_bits_of_the_cpu(device):
    _others_agree(device, 1_000_000)


# ---- one rounding: quotients, roots and fused sums, whatever the target has for them -------


@hetir.kernel
def rounded_once(a, b, c, quotient, root, fused):
    i = hl.global_id(0)
    if i < a.shape[0]:
        quotient[i], root[i], fused[i] = a[i] / b[i], hl.sqrt(a[i]), hl.fma(a[i], b[i], c[i])


def _rounds_once(device, kind, count, seed):
    """Division and square root beside NumPy's, fma beside the processor's own."""
    with np.errstate(all="ignore"):
        a, b = expansions.inputs(kind, count, seed)
        c = expansions.addends(a, b, seed)
        wanted = [a / b, np.sqrt(a)]
    found = []
    for name in ("cpu", device):
        out = [np.empty_like(a) for _ in range(3)]
        groups = hetir.cdiv(a.size, 256)
        rounded_once.launch((a, b, c, *out), grid=groups, workgroup=256, device=name).wait()
        found.append(out)
    for got, want in zip(found[1], (*wanted, found[0][2]), strict=True):
        same = got.view(f"u{kind.bytes}") == want.view(f"u{kind.bytes}")
        same |= np.isnan(got) & np.isnan(want)
        assert same.all(), [v[~same][:3] for v in (a, b, c, got, want)]


@pytest.mark.parametrize("device", DEVICES)
def test_quotients_roots_and_sums_are_rounded_once(device):
    for kind in (F32, F64):
        _rounds_once(device, kind, 100_000 if device in REAL else 4000, 21)


@pytest.mark.slow
@pytest.mark.parametrize("device", EVERY)
def test_a_hundred_million_quotients_roots_and_sums_are_rounded_once(device):
    for kind in (F32,) if device.startswith("ascend") else (F32, F64):
        for seed in range(100, 150):
            _rounds_once(device, kind, 2_000_000, seed)
