"""The same bits on every device that is here, emulated ones too."""

import numpy as np
import pytest

import hetir
import hetir.compiler  # registers the emulated devices
from hetir.target import UnsupportedError
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
