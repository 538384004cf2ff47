"""Prints which kernels of the library give the evaluator's bits on each SPIR-V device here.

Run `python tools/spirv_table.py [KERNEL...]`. Exits with 1 when one does not.
"""

from __future__ import annotations

import sys

import numpy as np

from hetir import library, runtime


def results(name: str, device: str) -> dict[str, bytes]:
    """What a case leaves in its results."""
    case = library.case(name, size=library.SMALL[name])
    case.reset()
    case.run(device)
    return {key: np.ascontiguousarray(value).tobytes() for key, value in case.results.items()}


def verdict(name: str, device: str, expected: dict[str, bytes]) -> str:
    """`same`, `differs`, or the first line of the error."""
    try:
        return "same" if results(name, device) == expected else "differs"
    except runtime.DeviceError as error:
        return str(error).splitlines()[0]


def main() -> int:
    """Print the table."""
    devices = [d for d in runtime.devices() if d.target.startswith("spirv:")]
    print("| kernel |", " | ".join(d.portrait.title for d in devices), "|")
    print("|---" * (len(devices) + 1) + "|")
    passed = True
    for name in sys.argv[1:] or library.NAMES:
        expected = results(name, "emulator")
        row = [verdict(name, d.name, expected) for d in devices]
        passed &= all(word == "same" for word in row)
        print(f"| {name} |", " | ".join(row), "|", flush=True)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
