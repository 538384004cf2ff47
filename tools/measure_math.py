"""Measures the largest errors of the mathematics and writes docs/math.md.

`python tools/measure_math.py --all exp log` runs every f32 argument of those functions;
without `--all` every 61st bit pattern, with the specials. Results are kept in
tools/math_errors.json, from which the page is written; `--render` only writes it. With
`--state FILE` a run that was stopped goes on where it was, function and chunk. `--bits` compares
the bits of every function on every device that is here with the CPU's instead, and keeps how many
differ in tools/math_bits.json; `--devices` names some of them.

A double reference finds the worst f32 argument (NumPy's own double function where there is
one, else ours, which mpmath has checked); its error is then computed by mpmath to 40 digits.
f64 is compared on ten million arguments with NumPy's 80-bit functions or, where NumPy has none,
with libquadmath's 113 bits (tools/quad_reference.c), and with mpmath on a hundred thousand.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import functools
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import hetir  # noqa: E402
import hetir.compiler  # noqa: E402  registers the emulated devices
from hetir.target import UnsupportedError  # noqa: E402
from tests.unit import math_cases as cases  # noqa: E402

RESULTS = ROOT / "tools" / "math_errors.json"
BITS = ROOT / "tools" / "math_bits.json"
PAGE = ROOT / "docs" / "math.md"
CHUNK = 1 << 19
STRIDE = 61
UFUNC = {name for name, case in cases.CASES.items() if isinstance(case.double, np.ufunc)}


def patterns(stride: int, first: int) -> Iterator[tuple[int, np.ndarray]]:
    """f32 arguments by bit pattern from `first` on, in chunks, and where each chunk ends."""
    for start in range(first, 1 << 32, stride * CHUNK):
        stop = min(start + stride * CHUNK, 1 << 32)
        bits = np.arange(start, stop, stride, dtype=np.uint64).astype(np.uint32)
        yield stop, bits.view(np.float32)


@dataclass
class Progress:
    """How far one function's f32 arguments are measured, and the worst so far."""

    next: int = 0
    worst: float = 0.0
    at: float = 1.0
    wrong: int = 0
    count: int = 0

    def add(self, name: str, x: np.ndarray) -> None:
        """Measure some arguments."""
        got, want = cases.compute(name, x), reference(name, x)
        self.count += x.size
        # where the result is the rounded reference, the error is at most 1/2
        unlike = got.view(np.int32) != want.astype(np.float32).view(np.int32)
        unlike &= (got == got) | (want == want)  # any NaN is like any other
        differ = np.flatnonzero(unlike)
        if not differ.size:
            return
        found = errors_f32(got[differ], want[differ])
        here = int(np.argmax(found))
        if found[here] > self.worst:
            self.worst, self.at = float(found[here]), float(x[differ[here]])
        self.wrong += int(cases.disagree(got[differ], want[differ]).sum())


def errors_f32(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """ULP errors of f32 results against doubles; 0 where one is not finite."""
    exponent = (want.view(np.int64) >> 52) & 0x7FF
    scale = (2069 - np.maximum(exponent, 897) << 52).view(np.float64)
    found = np.abs(got.astype(np.float64) - want) * scale
    found[~(np.isfinite(got) & (np.abs(want) < 3.4028235677973366e38))] = 0
    return found


def reference(name: str, x: np.ndarray) -> np.ndarray:
    """The function in double precision."""
    wide = x.astype(np.float64)
    if name in UFUNC:
        return cases.CASES[name].double(wide)
    return cases.compute(name, wide)


def measure_f32(name: str, stride: int, state: Path | None = None) -> dict[str, object]:
    """The worst of all patterns of the stride; `state` keeps how far it is."""
    saved = json.loads(state.read_text()) if state is not None and state.exists() else {}
    progress = Progress(**saved.get(name, {}))
    for done, (stop, x) in enumerate(patterns(stride, progress.next)):
        progress.add(name, x)
        progress.next = stop
        if state is not None and done % 100 == 99:
            state.write_text(json.dumps({**saved, name: asdict(progress)}))
    if state is not None:
        state.write_text(json.dumps({**saved, name: asdict(progress)}))
    return row(name, np.float32(progress.at), progress.worst, progress.count, progress.wrong)


def row(name: str, at: np.floating, filtered: float, count: int, wrong: int) -> dict[str, object]:
    """A measurement, its worst error computed anew by mpmath."""
    case = cases.CASES[name]
    got = cases.compute(name, np.array([at]))[0]
    exact = cases.ulp_error(got, cases.mp_value(case, float(at)))
    return {
        # no difference from the rounded reference: correctly rounded, but for its own error
        "ulp": round(max(exact, 0.5), 4),
        "filter": round(filtered, 4),
        "at": repr(float(at)),
        "arguments": count,
        "wrong_specials": wrong,
        "date": today(),
    }


def measure_f64(name: str, many: int, exactly: int) -> dict[str, object]:
    """The worst of stratified samples: 80 or 113 bits as filter, and mpmath."""
    case = cases.CASES[name]
    worst, at = 0.0, np.float64(1)
    count = wrong = 0
    strata = len(case.wide or case.ranges) + 2
    for seed in range(20):
        x = cases.samples(case, np.dtype("f8"), many // 20 // strata, seed)
        got = cases.compute(name, x)
        found, want = wide_errors(name, x, got)
        here = int(np.argmax(found))
        if found[here] > worst:
            worst, at = float(found[here]), x[here]
        wrong += int(cases.disagree(got, want).sum())
        count += x.size
    x = cases.samples(case, np.dtype("f8"), exactly // strata, 99)
    x = x[np.isfinite(x)]
    got = cases.compute(name, x)
    for value, result in zip(x, got, strict=True):
        want = cases.mp_value(case, float(value))
        if np.isfinite(result) and cases.mp.isfinite(want):
            error = cases.ulp_error(result, want)
            if error > worst:
                worst, at = error, value
    return {**row(name, at, worst, count, wrong), "mpmath": int(x.size)}


def wide_errors(name: str, x: np.ndarray, got: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ULP errors of f64 results, and the values, by NumPy's 80 bits or libquadmath's 113."""
    case = cases.CASES[name]
    extended = case.extended or (case.double if name in UFUNC else None)
    if extended is None:
        errors, values = np.empty_like(x), np.empty_like(x)
        pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (x, got, errors, values)]
        getattr(quad(), f"quad_{name}")(ctypes.c_long(x.size), *pointers)
        return errors, values
    want = extended(x.astype(np.longdouble))
    return cases.ulp_errors(got, want), want


@functools.cache
def quad() -> ctypes.CDLL:
    """tools/quad_reference.c, compiled; GCC brings libquadmath."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "quad.so"
        flags = ("-O2", "-shared", "-fPIC", "-lquadmath", "-o", str(library))
        source = str(ROOT / "tools" / "quad_reference.c")
        subprocess.run(["gcc", source, *flags], check=True)
        return ctypes.CDLL(str(library))


def measure_pair(name: str, dtype: str, many: int, exactly: int) -> dict[str, object]:
    """The worst of a function of two arguments over stratified pairs."""
    case, kind = cases.BINARY[name], np.dtype(dtype)
    worst, at = 0.0, (1.0, 1.0)
    count = wrong = 0
    for seed in range(10):
        a, b = pairs(name, kind, many // 10, seed)
        got = cases.compute(name, a, b)
        want = case.double(a.astype(np.longdouble), b.astype(np.longdouble))
        found = cases.ulp_errors(got, want)
        here = int(np.argmax(found))
        if found[here] > worst:
            worst, at = float(found[here]), (float(a[here]), float(b[here]))
        wrong += int(cases.disagree(got, want).sum())
        count += a.size
    a, b = pairs(name, kind, exactly, 99)
    got = cases.compute(name, a, b)
    for x, y, result in zip(a, b, got, strict=True):
        want = cases.mp_value(case, float(x), float(y)) if np.isfinite(x + y) else np.nan
        if np.isfinite(result) and cases.mp.isfinite(want):
            error = cases.ulp_error(result, want)
            if error > worst:
                worst, at = error, (float(x), float(y))
    values = [np.array([v], kind) for v in at]
    exact = cases.ulp_error(cases.compute(name, *values)[0], cases.mp_value(case, *at))
    return {
        "ulp": round(exact, 4),
        "filter": round(worst, 4),
        "at": ", ".join(f"{v:.9g}" for v in at),
        "arguments": count,
        "wrong_specials": wrong,
        "mpmath": exactly,
        "date": today(),
    }


def pairs(name: str, dtype: np.dtype, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random bits, moderate values, and for powers results over the whole range."""
    rng = np.random.default_rng(seed)
    third = count // 3
    bits = rng.integers(0, 1 << 8 * dtype.itemsize, (2, third), dtype=f"u{dtype.itemsize}")
    moderate = np.exp(rng.uniform(-20, 20, (2, third))) * rng.choice([-1.0, 1.0], (2, third))
    largest = 88.0 if dtype.itemsize == 4 else 709.0
    base = np.exp(rng.uniform(-largest, largest, third) * 10.0 ** rng.uniform(-7, 0, third))
    base = base.astype(dtype)
    power = rng.uniform(-1.15 * largest, largest, third) / np.log(base.astype(np.float64))
    first = np.concatenate([bits[0].view(dtype), moderate[0].astype(dtype), base])
    second = np.concatenate([bits[1].view(dtype), moderate[1].astype(dtype), power.astype(dtype)])
    return first, second


def count_unlike(name: str, dtype: str, device: str, many: int) -> dict[str, object]:
    """How many of `many` arguments or more give other bits on a device than on the CPU."""
    case, kind = {**cases.CASES, **cases.BINARY}[name], np.dtype(dtype)
    strata = len((case.wide if kind.itemsize == 8 else ()) or case.ranges) + 2
    count = -(-many // strata)
    x = [cases.samples(case, kind, count, seed) for seed in range(1 + (name in cases.BINARY))]
    ours, theirs = cases.compute(name, *x), cases.compute(name, *x, device=device)
    bits = f"u{kind.itemsize}"
    unlike = (ours.view(bits) != theirs.view(bits)) & ~(np.isnan(ours) & np.isnan(theirs))
    return {"arguments": x[0].size, "unlike": int(unlike.sum()), "date": today()}


def compare_devices(names: list[str], devices: list[str], many: int) -> None:
    """Compare devices with the CPU; none named means all, emulated ones too."""
    devices = devices or [d.name for d in hetir.devices(emulated=True) if d.name != "cpu"]
    for device, name in itertools.product(devices, names):
        found: dict[str, dict[str, object]] = {}
        for kind, dtype in (("f32", "f4"), ("f64", "f8")):
            try:
                found[kind] = count_unlike(name, dtype, device, many)
            except UnsupportedError:  # a chip without f64
                assert kind == "f64"
        print(device, name, found, flush=True)
        results = json.loads(BITS.read_text()) if BITS.exists() else {}
        results.setdefault(hetir.device(device).portrait.title, {})[name] = found
        BITS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


def same_bits() -> list[str]:
    """The page's lines on devices."""
    lines: list[str] = []
    for title, rows in json.loads(BITS.read_text()).items() if BITS.exists() else ():
        every = [one for row in rows.values() for one in row.values()]
        unlike = sum(one["unlike"] for one in every)
        least, last = min(one["arguments"] for one in every), max(one["date"] for one in every)
        lines.append(
            f"- {title}: {len(rows)} functions, {len(every)} with their types, {least:,} arguments "
            f"each or more: {unlike} unlike the CPU's ({last})."
        )
    return lines


def today() -> str:
    """The date of a measurement."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def render(results: dict[str, dict[str, dict[str, object]]]) -> str:
    """The page."""
    lines = [TOP]
    for name in (*cases.CASES, *cases.BINARY):
        for kind in ("f32", "f64"):
            if (found := results.get(name, {}).get(kind)) is None:
                continue
            at = ", ".join(f"{float(v):.9g}" for v in str(found["at"]).split(", "))
            lines.append(
                f"| `{SHOWN.get(name, name)}` | {kind} | {found['ulp']:.3f} | {at} |"
                f" {arguments(found)} | {found['date']} |"
            )
    return "\n".join([*lines, MIDDLE, *same_bits(), BOTTOM])


def arguments(found: dict[str, object]) -> str:
    """Which arguments were measured, in words."""
    count = int(str(found["arguments"]))
    if count == 1 << 32:
        return "all 2^32"
    exactly = f"{int(str(found['mpmath'])):,} by mpmath" if "mpmath" in found else ""
    return ", ".join(filter(None, (f"{count:,}" if count else "", exactly)))


SHOWN = {"gelu_tanh": 'gelu(approximate="tanh")'}
TOP = """# Mathematics

Written by `python tools/measure_math.py`: change that script, not this page.

`hl.exp` and its like return the same bits on every target. They are functions of the kernel
language (`hetir/lang/math`), inlined into the kernel like any helper: in `f32` they use
+ - * and integer operations, and one division or square root where that pays (both are
correctly rounded everywhere: a target without them gets `hetir/passes/expansions/divide.py`, a
device whose own are inexact is refused); in `f64` also `fma`. There are no tables in memory and
no branches, but for `sin`, `cos` and `tan` of large arguments and `lgamma` beside its zeros.
`f16`, `bf16` and integers are computed in `f32`; the result of `f16` and `bf16` is rounded once
more.

## Method
- Values that the last rounding would spoil are pairs of floats whose sum is the value
  (Dekker 1971), so that what remains is one rounding and little more. The one place with two
  is a subnormal result.
- Exponentials: x = n ln 2 + r (Cody and Waite 1980), a polynomial for e^r, 2^n in two factors.
  Logarithms: x = 2^k (1 + f), |f| <= 1/3, a polynomial for log(1 + f). Powers: 2^(y log2 x)
  with the logarithm as a pair, by atanh.
- `sin`, `cos`, `tan`: pi/2 in parts up to 6000 (`f64`: 10^6), beyond that Payne and Hanek
  (1983), so that every finite argument is reduced in full.
- `erf`, `erfc`, `gelu`: exp(-a^2) times a polynomial in (a - 2) / (a + 2), over 1 + 3a/2.
  `tgamma`, `lgamma`: Stirling's formula in pairs, reflected for negative arguments; `lgamma` is
  expanded about each of its negative zeros, which is known as a pair.
- The coefficients are minimax polynomials from Remez' exchange, rounded one by one;
  `tools/minimax.py` derives all of them and writes `hetir/lang/math/tables.py`.

## Special values
As C's Annex F where C has the function: signed zeros, infinities, NaN, domain errors give
NaN and poles give infinities. Subnormal arguments and results are kept. `rsqrt(-0.0)` is
-infinity; `silu` and `gelu` of -infinity are -0. A NaN result is a NaN; its bits are not
promised before `bitcast` makes them canonical.

## `math="native"`
`@hetir.kernel(math="native")` lets a device use its own `f32` functions for what the kernel
itself writes: `exp`, `exp2`, `log`, `log2`, `sin`, `cos`, `tanh`, `sqrt`, `rsqrt`, `1 / x` and
`x / y` (not by a power of two). Each becomes the op `native`, whose last operand is the
reproducible value: the op's meaning, what the evaluator and the CPU compute, and what a target
without the function falls back to. Other functions of `hl`, `f64`, and the roots and quotients
of `f16` and `bf16` stay reproducible. A target takes the op with a rule `("native", kind)`.

| target | what it becomes | largest error |
|---|---|---|
| `cpu`, `emulator` | the reproducible value | as below |
| `ptx` | `.approx` instructions; `div.full` | of the PTX ISA: `exp2` 2 ULP; `exp` that and \
abs(x) 2^-23 relative; `log2`, `log` 2^-22, from 1/2 to 2 absolute, elsewhere relative; `sin`, \
`cos` 2^-20.5 absolute to 2 pi, 2^-14.7 to 100 pi; `tanh` 2^-11 relative; `rsqrt` 2^-22.9 and \
`sqrt` 2^-23 relative; `1 / x` 1 ULP; quotients 2 ULP |
| `spirv:opencl` | `native_exp` and so on of OpenCL C; `tanh` the reproducible value | \
the device's: OpenCL leaves error and range to the implementation |
| `spirv:vulkan` | `GLSL.std.450` and `OpFDiv` | of the specification (Precision and Operation of \
SPIR-V Instructions): `exp`, `exp2` 3 + 2 abs(x) ULP; `log`, `log2` 3 ULP, from 1/2 to 2 \
2^-21 absolute; `rsqrt` 2 ULP; quotients 2.5 ULP; `sin`, `cos`, `tanh` the device's |

## Errors
ULP is the unit of the last place of the exact result, of subnormal results the least
subnormal. The worst `f32` argument was found by a double reference, NumPy's or, where NumPy
has none, ours, which stands in the table too; the error shown is mpmath's, to 40 digits.
`f64` was compared with NumPy's 80-bit functions or libquadmath's 113 bits, and with mpmath.
"Arguments" counts bit patterns for `f32`: all of them.

| function | type | largest error, ULP | at | arguments | measured |
|---|---|---|---|---|---|"""
MIDDLE = """
## The same bits
The device's bits beside the CPU's, which are themselves compared with the evaluator's
(`python tools/measure_math.py --bits`; a slow test demands the same):
"""
BOTTOM = """
## Speed
[Beside NumPy and torch](../bench/results/mathematics-2026-11-30.md), by
`python -m bench.mathematics`.

## Random numbers
`hl.philox(seed, counter)` gives four `u32` of Philox 4x32-10 (Salmon and others, SC 2011);
tested with Random123's known answers. `seed` is 64 bits or two words, `counter` 64 bits or
up to four words, low word first. `hl.uniform(word)` is a multiple of 2^-24 from 0 to below 1,
`hl.uniform_f64(low, high)` of 2^-53; `hl.normal(a, b)` gives two independent normal `f32`
(Box and Muller), at most 5.77.

## Exact sums
`hl.sum_exact(value)` is the sum of a float (`f16`, `bf16`, `f32`, `f64`) over the workgroup,
rounded once to its type: no order changes its bits. Integers wrap. Over a whole grid,
`hl.exact_add(sums, value)` adds to an `i64` array of `hl.EXACT_WORDS` zeros
(`hl.EXACT_WORDS_F64` for `f64`) by integer atomics, and `hl.exact_value(sums, dtype)`, in a
later kernel, rounds it; a kernel that does so stays reproducible. Integers are refused there:
`hl.atomic_add` is exact. Up to 2^31 additions; a zero sum is +0; infinities and NaN behave as
in a sum.
"""


def main() -> None:
    """Measure, keep the results, and write the page."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", default=[*cases.CASES, *cases.BINARY])
    parser.add_argument("--all", action="store_true", help="every f32 argument")
    parser.add_argument("--types", default="f32,f64")
    parser.add_argument("--state", type=Path, help="where a run keeps how far it is")
    parser.add_argument("--render", action="store_true", help="only write the page")
    parser.add_argument("--bits", action="store_true", help="compare devices with the CPU")
    parser.add_argument("--devices", nargs="*", default=[], help="those to compare")
    parser.add_argument("--many", type=int, default=10**6, help="arguments to compare")
    options = parser.parse_args()
    np.seterr(all="ignore")
    if options.bits:
        compare_devices(options.names, options.devices, options.many)
    for name in [] if options.render or options.bits else options.names:
        started = time.monotonic()
        for kind in options.types.split(","):
            keep(name, kind, measure(name, kind, 1 if options.all else STRIDE, options.state))
        print(name, kept().get(name), f"{time.monotonic() - started:.0f} s", flush=True)
    PAGE.write_text(render(kept()))


def measure(name: str, kind: str, stride: int, state: Path | None) -> dict[str, object]:
    """One function's row for one type."""
    if name in cases.BINARY:
        return measure_pair(name, kind.replace("f32", "f4").replace("f64", "f8"), 10**7, 10**5)
    return measure_f32(name, stride, state) if kind == "f32" else measure_f64(name, 10**7, 10**5)


def kept() -> dict[str, dict[str, dict[str, object]]]:
    """The results so far."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def keep(name: str, kind: str, row: dict[str, object]) -> None:
    """Add a result to the file, which another run may have written to."""
    results = kept()
    results.setdefault(name, {})[kind] = row
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
