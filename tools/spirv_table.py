"""Prints which kernels of the library give the evaluator's bits on each SPIR-V device here.

Run `python tools/spirv_table.py [KERNEL...]`. Each device has a process of its own, so that a
vendor's crash is one cell of the table. Exits with 1 when a kernel differs or crashes.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Sequence

import numpy as np

from hetir import library, runtime

_RUN = "--run"


def results(name: str, device: str) -> dict[str, bytes]:
    """What a case leaves in its results."""
    case = library.case(name, size=library.SMALL[name])
    case.reset()
    case.run(device)
    return {key: np.ascontiguousarray(value).tobytes() for key, value in case.results.items()}


def verdict(name: str, device: str) -> str:
    """`same`, `differs`, or `refused` with the reason."""
    try:
        return "same" if results(name, device) == results(name, "emulator") else "differs"
    except runtime.DeviceError as error:
        return f"refused: {' '.join(str(error).split('failed with ')[-1].split())}"


def run(device: str, names: Sequence[str]) -> None:
    """Print a line a kernel."""
    warnings.simplefilter("ignore")  # the warning about long loops; none here is
    for name in names:
        print(verdict(name, device), flush=True)


def column(device: str, names: Sequence[str]) -> list[str]:
    """A device's verdicts; after a crash the next process goes on."""
    found: list[str] = []
    while len(found) < len(names):
        command = [sys.executable, __file__, _RUN, device, *names[len(found) :]]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        found += done.stdout.splitlines()
        if done.returncode:
            found.append(f"crashed ({done.returncode})")
    return found


def main() -> int:
    """Print the table."""
    if sys.argv[1:2] == [_RUN]:
        run(sys.argv[2], sys.argv[3:])
        return 0
    names = sys.argv[1:] or list(library.NAMES)
    devices = [d for d in runtime.devices() if d.target.startswith("spirv:")]
    columns = [column(d.name, names) for d in devices]
    print("| kernel |", " | ".join(d.portrait.title for d in devices), "|")
    print("|---" * (len(devices) + 1) + "|")
    for name, *row in zip(names, *columns, strict=True):
        print(f"| {name} |", " | ".join(row), "|")
    bad = [word for words in columns for word in words if not word.startswith(("same", "refused"))]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
