"""Measures the largest errors of the mathematics and writes docs/math.md.

`python tools/measure_math.py --all exp log` runs every f32 argument of those functions;
without `--all` every 61st bit pattern, with the specials. Results are kept in
tools/math_errors.json, from which the page is written; `--render` only writes it.

A double reference finds the worst f32 argument (NumPy's own double function where there is
one, else ours, which mpmath has checked); its error is then computed by mpmath to 40 digits.
f64 is compared with NumPy's 80-bit functions on ten million arguments where NumPy has one,
and with mpmath on a hundred thousand.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.unit import math_cases as cases  # noqa: E402

RESULTS = ROOT / "tools" / "math_errors.json"
PAGE = ROOT / "docs" / "math.md"
CHUNK = 1 << 19
STRIDE = 61
UFUNC = {name for name, case in cases.CASES.items() if isinstance(case.double, np.ufunc)}


def patterns(stride: int) -> Iterator[np.ndarray]:
    """f32 arguments by bit pattern, in chunks."""
    for start in range(0, 1 << 32, stride * CHUNK):
        stop = min(start + stride * CHUNK, 1 << 32)
        yield np.arange(start, stop, stride, dtype=np.uint64).astype(np.uint32).view(np.float32)


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


def measure_f32(name: str, stride: int) -> dict[str, object]:
    """The worst of all patterns of the stride."""
    case = cases.CASES[name]
    worst, at, wrong, count = 0.0, np.float32(1), 0, 0
    for x in patterns(stride):
        got, want = cases.compute(name, x), reference(name, x)
        count += x.size
        # where the result is the rounded reference, the error is at most 1/2
        differ = np.flatnonzero(got.view(np.int32) != want.astype(np.float32).view(np.int32))
        if case.holds is not None:
            differ = differ[case.holds(x[differ])]
        if not differ.size:
            continue
        found = errors_f32(got[differ], want[differ])
        here = int(np.argmax(found))
        if found[here] > worst:
            worst, at = float(found[here]), x[differ[here]]
        wrong += int(cases.disagree(got[differ], want[differ]).sum())
    return row(name, at, worst, count, wrong)


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
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def measure_f64(name: str, many: int, exactly: int) -> dict[str, object]:
    """The worst of stratified samples: NumPy's 80 bits as filter, and mpmath."""
    case = cases.CASES[name]
    worst, at = 0.0, np.float64(1)
    count = wrong = 0
    strata = len(case.wide or case.ranges) + 2
    if name in UFUNC:
        for seed in range(20):
            x = cases.samples(case, np.dtype("f8"), many // 20 // strata, seed)
            got, want = cases.compute(name, x), case.double(x.astype(np.longdouble))
            found = cases.ulp_errors(got, want)
            here = int(np.argmax(found))
            if found[here] > worst:
                worst, at = float(found[here]), x[here]
            wrong += int(cases.disagree(got, want).sum())
            count += x.size
    x = cases.samples(case, np.dtype("f8"), exactly // strata, 99)
    x = x[np.isfinite(x)]
    if case.holds is not None:
        x = x[case.holds(x)]
    got = cases.compute(name, x)
    for value, result in zip(x, got, strict=True):
        want = cases.mp_value(case, float(value))
        if np.isfinite(result) and cases.mp.isfinite(want):
            error = cases.ulp_error(result, want)
            if error > worst:
                worst, at = error, value
    return {**row(name, at, worst, count, wrong), "mpmath": int(x.size)}


def render(results: dict[str, dict[str, dict[str, object]]]) -> str:
    """The page."""
    lines = [TOP]
    lines.append("| function | type | largest error, ULP | at | arguments | measured |")
    lines.append("|---|---|---|---|---|---|")
    for name in cases.CASES:
        for kind in ("f32", "f64"):
            found = results.get(name, {}).get(kind)
            if found is None:
                continue
            lines.append(
                f"| `{name}` | {kind} | {found['ulp']:.4f} | {float(str(found['at'])):.9g} |"
                f" {arguments(found)} | {found['date']} |"
            )
    return "\n".join([*lines, "", BOTTOM])


def arguments(found: dict[str, object]) -> str:
    """Which arguments were measured, in words."""
    count = int(str(found["arguments"]))
    if count == 1 << 32:
        return "all"
    exactly = f"{int(str(found['mpmath'])):,} by mpmath" if "mpmath" in found else ""
    return " and ".join(filter(None, (f"{count:,}" if count else "", exactly)))


TOP = (
    (ROOT / "tools" / "math_page_top.md").read_text()
    if False
    else """# Mathematics
"""
)
BOTTOM = ""


def main() -> None:
    """Measure, keep the results, and write the page."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", default=list(cases.CASES))
    parser.add_argument("--all", action="store_true", help="every f32 argument")
    parser.add_argument("--types", default="f32,f64")
    parser.add_argument("--render", action="store_true", help="only write the page")
    options = parser.parse_args()
    np.seterr(all="ignore")
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in [] if options.render else options.names:
        started = time.monotonic()
        kept = results.setdefault(name, {})
        if "f32" in options.types:
            kept["f32"] = measure_f32(name, 1 if options.all else STRIDE)
        if "f64" in options.types:
            kept["f64"] = measure_f64(name, 10_000_000, 100_000)
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
        print(name, kept, f"{time.monotonic() - started:.0f} s", platform.machine(), flush=True)
    PAGE.write_text(render(results))


if __name__ == "__main__":
    main()
