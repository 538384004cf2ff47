"""Cases as small files: what generated kernels once found, and what runs them again.

A hetIR case is its text (`.hir`), a Python case its source (`.py`); comments before it say what it
found. The last of them holds the launch and the arguments, bytes and all, so that no later
generator or NumPy makes other ones.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hetir.ir.text import parse_kernel, print_kernel
from hetir.ir.types import SCALARS
from hetir.runtime.hostmemory import host_bytes
from hetir.testing.cases import Case, Input
from hetir.testing.guard import Guarded
from hetir.testing.sources import SourceCase

FOLDER = Path(__file__).parent / "corpus"
MARK = "launch "


class _Stored:
    """What a stored case has for arguments: the same bytes at every call."""

    __slots__ = ("_launch",)

    def __init__(self, launch: dict[str, Any]) -> None:
        self._launch = launch

    def arguments(self) -> list[Any]:
        """Fresh arguments that overlap as they did."""
        memories = [np.frombuffer(_unpacked(m), np.uint8).copy() for m in self._launch["memories"]]
        made: list[Any] = []
        for each in self._launch["arguments"]:
            dtype = SCALARS[each["type"]].numpy
            if "value" in each:
                made.append(np.frombuffer(bytes.fromhex(each["value"]), dtype)[0])
                continue
            shape, strides = tuple(each["shape"]), tuple(each["strides"])
            if 0 in shape:
                made.append(np.zeros(shape, dtype))
                continue
            memory = memories[each["memory"]]
            array = np.ndarray(shape, dtype, memory, each["offset"], strides)
            array.flags.writeable = each["writeable"]
            made.append(array)
        return made


@dataclass(frozen=True, slots=True, repr=False)
class StoredCase(Case):
    """A hetIR case whose arguments are stored."""

    stored: _Stored

    def arguments(self) -> list[Any]:
        """Fresh arguments, the same at every call."""
        return self.stored.arguments()


@dataclass(frozen=True, slots=True)
class StoredSource(SourceCase):
    """A Python case whose arguments are stored."""

    stored: _Stored

    def arguments(self) -> list[Any]:
        """Fresh arguments, the same at every call."""
        return self.stored.arguments()


def write(case: Case | SourceCase) -> str:
    """A case as text, its launch in a comment before it."""
    launch = json.dumps(_launch(case))
    if isinstance(case, SourceCase):
        return f"# {MARK}{launch}\n{case.source}"
    return f"// {MARK}{launch}\n{print_kernel(case.kernel, locations=False)}"


def read(path: Path) -> Case | SourceCase:
    """The case that a file holds."""
    text = path.read_text(encoding="utf-8")
    comment = "#" if path.suffix == ".py" else "//"
    start = f"{comment} {MARK}"
    (line,) = (line for line in text.splitlines() if line.startswith(start))
    launch = json.loads(line.removeprefix(start))
    inputs = tuple(
        Input(SCALARS[a["type"]], tuple(a["shape"]) if "shape" in a else None, "C", a["writes"])
        for a in launch["arguments"]
    )
    shape: dict[str, Any] = {
        "grid": tuple(launch["grid"]),
        "workgroup": tuple(launch["workgroup"]),
        "inputs": inputs,
        "seed": 0,
        "stored": _Stored(launch),
    }
    if path.suffix == ".py":
        return StoredSource(**shape, source=text.partition(line)[2].lstrip("\n"))
    return StoredCase(**shape, kernel=parse_kernel(text))


def _launch(case: Case | SourceCase) -> dict[str, Any]:
    guarded = Guarded(case.arguments())
    arguments: list[dict[str, Any]] = []
    for value, place, given in zip(guarded.arguments, guarded.places, case.inputs, strict=True):
        each: dict[str, Any] = {"type": given.kind.name, "writes": given.writes}
        if given.extents is None:
            each["value"] = np.asarray(value).tobytes().hex()
        else:
            each |= {"shape": value.shape, "strides": value.strides}
            each["writeable"] = bool(value.flags.writeable)
            if place is not None:
                each |= {"memory": place[0], "offset": place[1]}
        arguments.append(each)
    memories = [_packed(host_bytes(m.ctypes.data, m.size).tobytes()) for m in guarded.memories]
    return {
        "grid": case.grid,
        "workgroup": case.workgroup,
        "arguments": arguments,
        "memories": memories,
    }


def _packed(data: bytes) -> str:
    return base64.b85encode(zlib.compress(data, 9)).decode()


def _unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b85decode(text))
