"""Compile time of generated kernels by number of operations; prints one JSON line a kernel.

Usage: compile_times.py SECONDS; kernels grow until the next would pass SECONDS in all.
"""

import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hetir import compiler, library
from hetir.ir.core import walk

STATEMENTS = (1, 8, 24, 80, 240, 800, 2400)
HEAD = """import hetir, hetir.lang as hl

@hetir.kernel
def generated(a: hl.f32, x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    if i < y.shape[0]:
"""


def source(statements: int, seed: int) -> str:
    """A kernel of straight lines, loads, branches and loops in fixed shares."""
    draw = random.Random(seed)
    lines, known = ["v0 = x[i]"], 1
    for _ in range(statements):
        p, q, r = (f"v{draw.randrange(max(0, known - 8), known)}" for _ in range(3))
        constant = round(draw.uniform(0.1, 2.0), 6)
        kind = draw.randrange(20)
        if kind == 0:
            lines += [f"v{known} = {p}", f"if {q} > {constant}:", f"    v{known} = {r} * {q}"]
        elif kind == 1:
            lines += [f"v{known} = {p}", f"for k{known} in range(i, i + {draw.randrange(3, 9)}):"]
            lines += [f"    v{known} += {q} * x[k{known}]"]
        elif kind < 5:
            lines += [f"v{known} = {p} + x[i + {draw.randrange(64)}] * {constant}"]
        else:
            lines += [f"v{known} = {p} * {q} + {r} * {constant} - a"]
        known += 1
    live = " + ".join(f"v{k}" for k in range(max(0, known - 8), known))
    lines.append(f"y[i] = {live}")
    return HEAD + "".join(f"        {line}\n" for line in lines)


def measured(statements: int, seed: int, folder: Path) -> dict[str, Any]:
    """The stages of one compilation that no cache has seen."""
    file = folder / f"generated_{statements}_{seed}.py"
    file.write_text(source(statements, seed))
    kernel = library.load(file).generated
    stages: dict[str, float] = {}

    def stage(name: str, function: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        made = function()
        stages[f"{name}_ms"] = (time.perf_counter() - start) * 1e3
        return made

    traced = stage("trace", lambda: compiler.record(kernel, kernel.annotated()))
    prepared = stage("prepare", lambda: compiler.prepare(traced.module))
    made = stage("lower", lambda: compiler.lower(prepared, "cpu", (256, 1, 1)))
    return {
        "kind": "compile",
        "ops": sum(1 for _ in walk(prepared.body)),
        "code_bytes": len(made.binary),
        "ms": sum(stages.values()),
        **stages,
    }


def main(seconds: float) -> None:
    """Best of three for each size, one for large ones; the first compilation is not counted."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        measured(2, 99, Path(folder))
        for statements in STATEMENTS:
            begin = time.perf_counter()
            tries = range(3 if statements < 500 else 1)
            made = [measured(statements, seed, Path(folder)) for seed in tries]
            best = min(made, key=lambda row: row["ms"])
            print(json.dumps(best), flush=True)
            took = time.perf_counter() - begin
            if time.perf_counter() - start + 3 * took > seconds:
                return


if __name__ == "__main__":
    main(float(sys.argv[1]))
