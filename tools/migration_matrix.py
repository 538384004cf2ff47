"""Every ordered pair of devices x every checkpointable kernel x stops: are the bits equal?

    python -m tools.migration_matrix [--kernels softmax,matmul] [--devices cpu,opencl:0]
        [--stops 3,17] [--json FILE]

Each launch of a library kernel's small case is stopped after so many safe points on the first
device, saved, and resumed on the second; the results are compared with an uninterrupted run on the
evaluator's peer, the CPU, byte for byte. Devices run in this process: OpenCL and Vulkan, too.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hetir
from hetir import library
from hetir.diagnostics import HetirError

EMULATED = ("emulator", "ptx-emulator", "ascend-shim:950", "ascend-shim")


def devices() -> list[str]:
    """Real devices that are here, then those emulators that run the whole library."""
    return [*(d.name for d in hetir.devices()), *EMULATED]


def run(name: str, first: str, second: str, stop: int, folder: Path) -> tuple[str, int]:
    """One cell: `equal`, `DIFFERENT` or why it is refused, and the workgroups stopped midway."""
    case = library.case(name, size=library.SMALL[name])
    midway = 0
    try:
        for index, step in enumerate(case.steps):
            path = folder / f"{index}.hetck"
            path.unlink(missing_ok=True)
            launch = step.kernel.launch(
                step.arguments,
                grid=step.grid,
                workgroup=step.workgroup,
                device=first,
                checkpoint=hetir.StopAt(safe_points=stop, path=path),
            )
            launch.wait()
            if not path.exists():
                continue
            midway += hetir.checkpoint.load(path).tickets
            again = hetir.resume(path, second)
            again.wait()
            for old, new in zip(step.arguments, again.arguments.values(), strict=True):
                if isinstance(old, np.ndarray) and old.flags.writeable:
                    old[...] = new
    except HetirError as error:
        return error.message.splitlines()[0], midway
    return ("equal" if _equal(case, _want(name)) else "DIFFERENT"), midway


_wanted: dict[str, dict[str, bytes]] = {}


def _want(name: str) -> dict[str, bytes]:
    """The results of an uninterrupted run on the CPU."""
    if name not in _wanted:
        case = library.case(name, size=library.SMALL[name])
        case.run()
        _wanted[name] = {k: v.tobytes() for k, v in case.results.items()}
    return _wanted[name]


def _equal(case: library.Case, want: dict[str, bytes]) -> bool:
    return all(v.tobytes() == want[k] for k, v in case.results.items())


def matrix(
    kernels: Sequence[str], names: Sequence[str], stops: Sequence[int]
) -> dict[str, dict[str, Any]]:
    """Cells by `kernel`, then by `first > second`; prints a row a kernel."""
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for kernel in kernels:
            row: dict[str, Any] = {}
            for first in names:
                for second in names:
                    cells = [run(kernel, first, second, stop, Path(folder)) for stop in stops]
                    row[f"{first} > {second}"] = {
                        "result": sorted({result for result, _ in cells}),
                        "midway": sum(count for _, count in cells),
                    }
            found[kernel] = row
            counts = Counter(r for cell in row.values() for r in cell["result"])
            midway = sum(cell["midway"] for cell in row.values())
            shown = ", ".join(f"{n} {what}" for what, n in counts.items())
            print(
                f"{kernel:18} {len(row):3} pairs: {shown}; {midway} workgroups midway", flush=True
            )
    return found


def main() -> None:
    """Read the options, print the matrix, and fail where a cell differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", default=",".join(library.NAMES))
    parser.add_argument("--devices", default="")
    parser.add_argument("--stops", default="3,17")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)
    names = given.devices.split(",") if given.devices else devices()
    found = matrix(given.kernels.split(","), names, [int(s) for s in given.stops.split(",")])
    if given.json:
        made = {"date": datetime.date.today().isoformat(), "devices": names, "kernels": found}
        given.json.write_text(json.dumps(made, indent=1) + "\n")
    bad = [k for k, row in found.items() for c in row.values() if "DIFFERENT" in c["result"]]
    sys.exit(f"different: {', '.join(bad)}" if bad else 0)


if __name__ == "__main__":
    main()
