"""The `.hetck` file: a valid safetensors file whose last tensor is a table of checksums.

docs/checkpoint-format.md specifies it to the byte.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from crc32c import crc32c

from hetir.checkpoint.errors import CheckpointVersionError, CorruptCheckpoint
from hetir.ir.types import SCALARS, Scalar

FORMAT_VERSION = 1
PIECE_BYTES = 4 << 20
MAX_HEADER_BYTES = 100 << 20  # the safetensors library's own limit
TABLE = "crc32c"
META = "hetir"

_Array = np.ndarray[Any, Any]
_LENGTH = struct.Struct("<Q")
_DTYPES: Mapping[str, str] = {
    **{t: t.upper() for t in ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")},
    **{t: t.upper() for t in ("f16", "bf16", "f32", "f64")},
    "f8e4m3": "F8_E4M3",
    "f8e5m2": "F8_E5M2",
}
_BY_DTYPE: Mapping[str, Scalar] = {v: SCALARS[k] for k, v in _DTYPES.items()}
_BY_NUMPY = {kind.numpy: _DTYPES[name] for name, kind in SCALARS.items()}


@dataclass(frozen=True, slots=True)
class Contents:
    """The metadata of a file and its tensors by name; the arrays are read-only views of it."""

    meta: Mapping[str, Any]
    tensors: Mapping[str, _Array]


def write(
    file: BinaryIO,
    meta: Mapping[str, Any],
    tensors: Mapping[str, _Array],
    tell: Callable[[int], object] = lambda _: None,
) -> int:
    """Write a checkpoint; gives its size. `tell` gets the bytes of each piece written."""
    arrays = {n: np.ascontiguousarray(a).reshape(a.shape) for n, a in tensors.items()}
    pieces = _pieces(sum(a.nbytes for a in arrays.values()))
    table = np.zeros(pieces + 2, np.uint32)
    header = _header(meta, {**arrays, TABLE: table})
    file.write(header)
    sums = list(_write_data(file, arrays.values(), tell))
    table[:pieces] = sums
    table[pieces] = crc32c(header)
    table[pieces + 1] = crc32c(table[: pieces + 1].tobytes())
    file.write(table.astype("<u4").tobytes())
    return len(header) + sum(a.nbytes for a in arrays.values()) + table.nbytes


def read(path: Path) -> Contents:
    """Read and check a whole file; every checksum is right when this returns.

    Raises:
        CorruptCheckpoint: the file is damaged; the error says where.
        CheckpointVersionError: it is of a newer major version.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < _LENGTH.size:
            raise CorruptCheckpoint(path, size, f"at least {_LENGTH.size} bytes", f"{size} bytes")
        memory = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    (length,) = _LENGTH.unpack(memory[:8].tobytes())
    if length > min(MAX_HEADER_BYTES, size - 8):
        raise CorruptCheckpoint(path, 0, "a header within the file", f"one of {length} bytes")
    entries, meta = _parse(path, memory[8 : 8 + length].tobytes())
    data = memory[8 + length :]
    spans = _spans(path, entries, data.size, 8 + length)
    _check(path, memory, 8 + int(length), spans)
    tensors = {
        name: data[low:high].view(kind.numpy).reshape(shape)
        for name, (kind, shape, low, high) in spans.items()
        if name != TABLE
    }
    return Contents(meta, tensors)


def _pieces(size: int) -> int:
    return -(-size // PIECE_BYTES)


def _header(meta: Mapping[str, Any], arrays: Mapping[str, _Array]) -> bytes:
    entries: dict[str, Any] = {"__metadata__": {META: json.dumps(meta)}}
    offset = 0
    for name, array in arrays.items():
        end = offset + array.nbytes
        entries[name] = {
            "dtype": _BY_NUMPY[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return _LENGTH.pack(len(text)) + text


def _write_data(
    file: BinaryIO, arrays: Iterable[_Array], tell: Callable[[int], object]
) -> Iterator[int]:
    """Write arrays one after the other; yield the checksum of each piece of them."""
    total, room = 0, PIECE_BYTES
    started = False
    for array in arrays:
        data = array.reshape(-1).view(np.uint8).data if array.nbytes else memoryview(b"")
        while len(data):
            part, data = data[:room], data[room:]
            file.write(part)
            tell(len(part))
            total, room, started = crc32c(part, total), room - len(part), True
            if not room:
                yield total
                total, room, started = 0, PIECE_BYTES, False
    if started:
        yield total


def _parse(path: Path, text: bytes) -> tuple[dict[str, Any], Mapping[str, Any]]:
    try:
        entries = cast("dict[str, Any]", json.loads(text))
        meta = json.loads(entries.pop("__metadata__")[META])
        version = meta["format"]
        if not isinstance(version, int):
            raise TypeError("the version is no integer")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptCheckpoint(path, 8, "a safetensors header", str(error)[:80]) from None
    if version > FORMAT_VERSION:
        raise CheckpointVersionError(
            f"{path} has format {version}; this hetir reads up to {FORMAT_VERSION}",
            hint="resume it with the version that wrote it, or a later one",
        )
    return entries, meta


_Span = tuple[Scalar, tuple[int, ...], int, int]


def _spans(path: Path, entries: Mapping[str, Any], size: int, start: int) -> dict[str, _Span]:
    """The tensors, checked to follow one another and to fill the file, the table last."""
    found: dict[str, _Span] = {}
    offset = 0
    for name, entry in entries.items():
        try:
            kind, shape = _BY_DTYPE[entry["dtype"]], _extents(entry["shape"])
            low, high = _extents(entry["data_offsets"])
        except (KeyError, TypeError, ValueError):
            raise CorruptCheckpoint(path, 8, "a tensor's entry", f"`{name}`") from None
        if low != offset or high - low != math.prod(shape) * kind.bytes or high > size:
            raise CorruptCheckpoint(path, start + offset, "a tensor within the file", f"`{name}`")
        found[name] = (kind, shape, low, high)
        offset = high
    last = next(reversed(found), None)
    if last != TABLE or found[TABLE][0] is not SCALARS["u32"] or offset != size:
        raise CorruptCheckpoint(path, start + offset, "the table of checksums last", repr(last))
    low = found[TABLE][2]
    if found[TABLE][1] != (_pieces(low) + 2,):
        raise CorruptCheckpoint(
            path, start + low, f"{_pieces(low) + 2} checksums", "another number"
        )
    return found


def _extents(value: Any) -> tuple[int, ...]:
    items = cast("Sequence[Any]", value)
    if not isinstance(value, list) or any(type(n) is not int or n < 0 for n in items):
        raise TypeError("not a list of extents")
    return tuple(items)


def _check(path: Path, memory: _Array, start: int, spans: Mapping[str, _Span]) -> None:
    """Compare all checksums: the table's own, the header's, then each piece."""
    _, (count,), low, high = spans[TABLE]
    table = memory[start + low : start + high].view("<u4")

    def compare(offset: int, expected: Any, part: _Array) -> None:
        got = crc32c(part.data)
        if got != int(expected):
            raise CorruptCheckpoint(path, offset, f"{int(expected):08x}", f"{got:08x}")

    compare(start + low, table[count - 1], memory[start + low : start + high - 4])
    compare(0, table[count - 2], memory[:start])
    for index in range(count - 2):
        first = start + index * PIECE_BYTES
        compare(first, table[index], memory[first : min(first + PIECE_BYTES, start + low)])
