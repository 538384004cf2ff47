"""A launch as a Python script that needs hetir and NumPy only: arrays, kernel, expected values."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from hetir.ir.types import SCALARS
from hetir.runtime.layout import address_of, bounds

_COLUMNS = 90
_NAMES = {t.numpy: name for name, t in SCALARS.items()}

IR_HEAD = '''"""A kernel that should leave EXPECTED, on every device. Needs hetir and NumPy."""

import numpy as np

from hetir import emulator, records, runtime
from hetir.backends.cpu import compile_kernel
from hetir.diagnostics import LaunchError
from hetir.ir.text import parse_kernel
from hetir.ir.types import SCALARS
'''
IR_RUN = """
def on_emulator(values):
    report = emulator.run(parse_kernel(KERNEL), values, GRID, WORKGROUP, checks=True)
    print(*report.faults, sep="\\n")
    return list(report.output)


def on_cpu(values):
    artifact = compile_kernel(parse_kernel(KERNEL), workgroup=WORKGROUP)
    program = runtime.device("cpu").load(artifact, [f"argument {n}" for n in range(len(values))])
    lines = []
    room = runtime.Records(size=1 << 22, finish=records.finish(artifact, lines.append))
    try:
        program.run(values, GRID, WORKGROUP, records=room if artifact.sites else None)
    except LaunchError as error:  # a check of the kernel failed
        print(error)
    return lines


DEVICES = {"emulator": on_emulator, "cpu": on_cpu}
"""
SOURCE_HEAD = '''"""A kernel that should leave EXPECTED, on every device. Needs hetir and NumPy."""

import contextlib
import io

import numpy as np

import hetir
import hetir.lang as hl
from hetir.diagnostics import LaunchError
from hetir.ir.types import SCALARS

'''
SOURCE_RUN = """
def runs(device):
    def run(values):
        with contextlib.redirect_stdout(io.StringIO()) as text:
            launch = generated.launch(values, grid=GRID, workgroup=WORKGROUP, device=device)
            with contextlib.suppress(LaunchError):  # a check of the kernel failed
                launch.wait()
        return text.getvalue().splitlines()

    return run


DEVICES = {name: runs(name) for name in ("emulator", "cpu")}
"""
_TAIL = """
wrong = 0
for name, run in DEVICES.items():
    values = arguments()
    lines = run(values)
    if lines != LINES:
        wrong += 1
        print(f"{name} printed {lines} instead of {LINES}")
    for number, want in EXPECTED.items():
        got, want = np.ascontiguousarray(values[number]), np.asarray(want)
        bits = f"u{want.dtype.itemsize}"
        same = (got.view(bits) == want.view(bits)) | ((got != got) & (want != want))
        if not same.all():
            wrong += 1
            print(f"{name}: argument {number} is\\n{got}\\nand should be\\n{want}")
print("DIFFERENT" if wrong else "as expected")
raise SystemExit(min(wrong, 1))
"""


def script(
    head: str,
    kernel: str,
    run: str,
    arguments: Sequence[Any],
    expected: Mapping[int, Any],
    lines: Sequence[str],
    launch: tuple[Any, Any],
) -> str:
    """The text of the script; `expected` has what some arguments must be afterwards."""
    memory, places = _memories(arguments)
    text = [head, kernel, f"GRID, WORKGROUP = {launch[0]}, {launch[1]}", "", ""]
    text += ["def arguments():"]
    text += [f"    memory{n} = {_numbers(m)}" for n, m in enumerate(memory)]
    text += ["    return [", *(f"        {place}," for place in places), "    ]", ""]
    text += ["", f"LINES = {list(lines)}", "EXPECTED = {"]
    text += [f"    {n}: {_numbers(a)}.reshape({a.shape})," for n, a in expected.items()]
    return "\n".join([*text, "}", run, _TAIL])


@dataclass(slots=True)
class _Block:
    """Bytes that some arguments cover together."""

    low: int
    high: int
    dtype: np.dtype[Any]


def _memories(arguments: Sequence[Any]) -> tuple[list[Any], list[str]]:
    """The memory under the arrays, as flat arrays, and the arguments over it as Python."""
    arrays: list[Any] = [a for a in arguments if isinstance(a, np.ndarray) and a.size]
    blocks: list[_Block] = []
    for array in sorted(arrays, key=lambda a: _bounds(a)[0]):
        low, high = _bounds(array)
        if blocks and low < blocks[-1].high:
            blocks[-1].high = max(blocks[-1].high, high)
        else:
            blocks.append(_Block(low, high, array.dtype))
    first = [
        next(n for n, a in enumerate(arrays) if b.low <= _bounds(a)[0] < b.high) for b in blocks
    ]
    blocks = [b for _, b in sorted(zip(first, blocks, strict=True), key=lambda pair: pair[0])]
    memories = [_bytes(b).view(b.dtype) for b in blocks]
    return memories, [_place(a, blocks) for a in arguments]


def _bounds(array: Any) -> tuple[int, int]:
    return bounds(address_of(array), array.shape, array.strides, array.itemsize)


def _bytes(block: _Block) -> Any:
    class Raw:
        __array_interface__ = {  # noqa: RUF012 - NumPy's protocol
            "data": (block.low, True),
            "shape": (block.high - block.low,),
            "typestr": "|u1",
            "version": 3,
        }

    return np.array(Raw())


def _place(argument: Any, blocks: Sequence[_Block]) -> str:
    """An argument as Python."""
    if not isinstance(argument, np.ndarray):
        return f"{_numbers(np.asarray(argument).reshape(1))}[0]"
    array = cast("Any", argument)
    kind = _kind(array.dtype)
    if not array.size:
        return f"np.zeros({array.shape}, {kind})"
    low, high = _bounds(array)
    number = next(n for n, b in enumerate(blocks) if b.low <= low and high <= b.high)
    start = address_of(array) - blocks[number].low
    return f"np.ndarray({array.shape}, {kind}, memory{number}, {start}, {array.strides})"


def _kind(dtype: np.dtype[Any]) -> str:
    if dtype.kind in "iuf" and hasattr(np, dtype.name):
        return f"np.{dtype.name}"
    return f'SCALARS["{_NAMES[dtype]}"].numpy'


def _numbers(array: Any) -> str:
    """A flat array as Python: numbers where they say all bits, else bits."""
    flat = np.ascontiguousarray(array).reshape(-1)
    kind = _kind(flat.dtype)
    if flat.dtype.kind in "iub":
        return f"np.array({_listed(map(str, flat.tolist()))}, {kind})"
    numbers = [float(v) for v in flat]
    if all(map(math.isfinite, numbers)):
        return f"np.array({_listed(map(repr, numbers))}, {kind})"
    words = flat.view(f"u{flat.dtype.itemsize}").tolist()
    return f"np.array({_listed(map(hex, words))}, np.uint{8 * flat.dtype.itemsize}).view({kind})"


def _listed(words: Iterable[str]) -> str:
    """A list, in lines of 100 columns."""
    text = ", ".join(words)
    if len(text) < _COLUMNS:
        return f"[{text}]"
    return "[\n" + textwrap.indent(textwrap.fill(text, _COLUMNS), " " * 8) + "\n    ]"
