"""A warm launch by number of arrays: hetir beside numba, Taichi, Warp, cffi and ctypes.

Usage: launch_path.py [--json] [PEER...]; without peers it starts a process for each, with the
interpreter that HETIR_BENCH_PYTHON_<PEER> names, and prints a table in microseconds. Each call
takes two scalars and 3 to 13 arrays of 16 elements, and reads three of them.
"""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

COUNTS = (3, 4, 8, 13)
CALLS, ROUNDS, ITEMS = 500, 15, 16
PEERS = ("hetir", "numba", "taichi", "warp", "cffi", "ctypes")
Call = Callable[[], object]


def arrays(count: int) -> list[np.ndarray[Any, Any]]:
    """The arguments, all ones."""
    return [np.ones(ITEMS, np.float32) for _ in range(count)]


def names(count: int) -> list[str]:
    """What the arrays are called."""
    return [f"x{i}" for i in range(count)]


def module_of(name: str, text: str) -> ModuleType:
    """A module of this source, which its functions can be read from."""
    path = Path(tempfile.mkdtemp(prefix="hetir-bench-")) / f"{name}.py"
    path.write_text(text)
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def hetir_calls(count: int) -> Iterator[tuple[str, Call]]:
    """Brackets, a bound launch, a recorded one, and one that goes through a queue."""
    import hetir

    listed = ", ".join(names(count))
    text = (
        "import hetir, hetir.lang as hl\n@hetir.kernel\n"
        f"def k(a: hl.f32, b: hl.i32, {listed}):\n    i = hl.global_id(0)\n"
        "    if i < x0.shape[0]:\n        x0[i] = a * x1[i] + x2[i]\n"
    )
    kernel, values = module_of(f"k{count}", text).k, (2.0, 3, *arrays(count))
    bound = kernel[1, ITEMS]
    yield "kernel[grid, workgroup](...)", lambda: kernel[1, ITEMS](*values)
    yield "bound = kernel[...]; bound(...)", lambda: bound(*values)
    with hetir.Graph() as graph:
        bound(*values)
    yield "plan.run()", graph.instantiate().run
    queued = {"grid": 1, "workgroup": ITEMS}
    yield "launch(...).wait()", lambda: kernel.launch(values, **queued).wait()


def numba_calls(count: int) -> Iterator[tuple[str, Call]]:
    """A function that releases the lock, and one with a parallel loop."""
    import numba

    listed = ", ".join(names(count))
    text = (
        f"def f(a, b, {listed}):\n    for i in range(x0.size):\n        x0[i] = a * x1[i] + x2[i]\n"
    )
    function = module_of(f"f{count}", text).f
    values = (np.float32(2), np.int32(3), *arrays(count))
    serial = numba.njit(nogil=True)(function)
    yield "njit(nogil=True)", lambda: serial(*values)


def taichi_calls(count: int) -> Iterator[tuple[str, Call]]:
    """A kernel on the CPU."""
    import taichi as ti

    ti.init(arch=ti.cpu, log_level=ti.ERROR)
    listed = ", ".join(f"{n}: ti.types.ndarray(ti.f32, 1)" for n in names(count))
    text = (
        f"import taichi as ti\n@ti.kernel\ndef k(a: ti.f32, b: ti.i32, {listed}):\n"
        "    for i in range(x0.shape[0]):\n        x0[i] = a * x1[i] + x2[i]\n"
    )
    kernel, values = module_of(f"t{count}", text).k, (2.0, 3, *arrays(count))
    yield "kernel(...)", lambda: kernel(*values)


def warp_calls(count: int) -> Iterator[tuple[str, Call]]:
    """A kernel on the CPU, over arrays of its own."""
    import warp as wp

    wp.config.quiet = True
    listed = ", ".join(f"{n}: wp.array(dtype=wp.float32)" for n in names(count))
    text = (
        f"import warp as wp\n@wp.kernel\ndef k(a: wp.float32, b: wp.int32, {listed}):\n"
        "    i = wp.tid()\n    x0[i] = a * x1[i] + x2[i]\n"
    )
    kernel = module_of(f"w{count}", text).k
    values = [2.0, 3, *(wp.array(x, dtype=wp.float32, device="cpu") for x in arrays(count))]
    yield "launch(...)", lambda: wp.launch(kernel, dim=ITEMS, inputs=values, device="cpu")


def library_of(count: int) -> Path:
    """A C function of the same arguments."""
    listed = ", ".join(f"float *{n}" for n in names(count))
    folder = Path(tempfile.mkdtemp(prefix="hetir-bench-"))
    source, out = folder / "f.c", folder / "f.so"
    source.write_text(
        f"void f(float a, int b, {listed}) {{ (void)b; "
        f"for (int i = 0; i < {ITEMS}; i++) x0[i] = a * x1[i] + x2[i]; }}\n"
    )
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", source, "-o", out], check=True)
    return out


def cffi_calls(count: int) -> Iterator[tuple[str, Call]]:
    """A call with `from_buffer` for each array, as a careful wrapper makes it."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(f"void f(float a, int b, {', '.join(['float *'] * count)});")
    function, values = ffi.dlopen(str(library_of(count))).f, arrays(count)
    of = ffi.from_buffer
    yield (
        "f(a, b, from_buffer(x)...)",
        lambda: function(2.0, 3, *(of("float[]", x) for x in values)),
    )


def ctypes_calls(count: int) -> Iterator[tuple[str, Call]]:
    """A call with the address of each array."""
    function, values = ctypes.CDLL(str(library_of(count))).f, arrays(count)
    function.argtypes = [ctypes.c_float, ctypes.c_int, *[ctypes.c_void_p] * count]
    yield "f(a, b, x.ctypes.data...)", lambda: function(2.0, 3, *(x.ctypes.data for x in values))


def microseconds(call: Call) -> dict[str, float]:
    """The best and the median of several rounds."""
    for _ in range(20):
        call()
    rounds: list[float] = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        rounds.append((time.perf_counter() - start) / CALLS * 1e6)
    return {"us": min(rounds), "us_median": statistics.median(rounds)}


def measure(peer: str) -> list[dict[str, Any]]:
    """Rows of one peer, in this process."""
    calls = globals()[f"{peer}_calls"]
    return [
        {"kind": "launch_path", "peer": peer, "call": name, "arrays": count, **microseconds(call)}
        for count in COUNTS
        for name, call in calls(count)
    ]


def table(rows: list[dict[str, Any]]) -> str:
    """Best times in microseconds, a line a kind of call, and what a further array costs."""
    lines = ["| peer | call | " + " | ".join(f"{n} arrays" for n in COUNTS) + " | a further one |"]
    lines.append("|" + "---|" * (len(COUNTS) + 3))
    kinds = dict.fromkeys((row["peer"], row["call"]) for row in rows if "failed" not in row)
    for peer, call in kinds:
        found = {r["arrays"]: r["us"] for r in rows if (r["peer"], r.get("call")) == (peer, call)}
        further = (found[COUNTS[-1]] - found[COUNTS[0]]) / (COUNTS[-1] - COUNTS[0])
        times = " | ".join(f"{found[n]:.2f}" for n in COUNTS)
        lines.append(f"| {peer} | `{call}` | {times} | {further:.2f} |")
    lines += [f"| {r['peer']} | {r['failed']} |" for r in rows if "failed" in r]
    return "\n".join(lines)


def _all() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for peer in PEERS:
        python = os.environ.get(f"HETIR_BENCH_PYTHON_{peer.upper()}", sys.executable)
        command = [python, __file__, "--json", peer]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            rows += json.loads(done.stdout.strip().split("\n")[-1])  # peers greet before it
        else:
            rows.append({"peer": peer, "failed": done.stderr.strip().split("\n")[-1][:100]})
    return rows


def main(arguments: list[str]) -> None:
    """Measure what is asked for."""
    peers = [argument for argument in arguments if argument != "--json"]
    rows = [row for peer in peers for row in measure(peer)] if peers else _all()
    print(json.dumps(rows) if "--json" in arguments else table(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
