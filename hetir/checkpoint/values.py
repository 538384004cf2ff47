"""The arguments of a launch as data: buffers of bytes, and views of them."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from hetir import runtime
from hetir.checkpoint.errors import CheckpointError
from hetir.ir.types import SCALARS
from hetir.runtime.hostmemory import host_bytes

_Array = np.ndarray[Any, Any]
_NAMES = {kind.numpy: name for name, kind in SCALARS.items()}


@dataclass(slots=True)
class Encoded:
    """Arguments by name as JSON, and the bytes of the memory that their arrays lie in.

    Arrays that overlap lie in one buffer, so that they overlap again when they are restored.
    `scratch` names arguments whose contents are not kept.
    """

    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    buffers: list[_Array] = field(default_factory=list[_Array])


def encode(names: Sequence[str], values: Sequence[Any], scratch: Sequence[str] = ()) -> Encoded:
    """Arguments as data. Arrays on a device are copied to the host first."""
    host = OnHost()
    given = host.all(values)
    kept = [v for n, v in zip(names, given, strict=True) if n not in scratch]
    dropped = [v for n, v in zip(names, given, strict=True) if n in scratch]
    made = Encoded()
    ranges = _ranges([a for v in kept for a in _arrays(v)])
    made.buffers = [host_bytes(low, high - low) for low, high in ranges]
    empty = _ranges([a for v in dropped for a in _arrays(v)])
    for name, value in zip(names, given, strict=True):
        made.arguments[name] = _encode(value, ranges, empty if name in scratch else [])
    return made


def decode(
    arguments: Mapping[str, Any], buffers: Sequence[_Array]
) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Names and values again, arrays as views of fresh host memory."""
    memory = [np.array(b, np.uint8) for b in buffers]
    scratch: dict[int, _Array] = {}
    values = [_decode(item, memory, scratch) for item in arguments.values()]
    return tuple(arguments), tuple(values)


class OnHost:
    """Host copies of device arrays; arrays of one buffer become views of one copy."""

    def __init__(self) -> None:
        self.copies: dict[int, _Array] = {}

    def all(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """All values of a launch, each as `value` has it."""
        return tuple(map(self.value, values))

    def value(self, value: Any) -> Any:
        """The value with device arrays replaced, those in tuples too."""
        if isinstance(value, runtime.Array):
            return self.array(value)
        if isinstance(value, tuple):
            items = cast("tuple[Any, ...]", value)
            found = [self.value(item) for item in items]
            return type(items)(*found) if hasattr(items, "_fields") else tuple(found)
        return value

    def array(self, value: runtime.Array) -> _Array:
        """The host's copy of one array."""
        buffer = value.buffer
        copy = self.copies.get(id(buffer))
        if copy is None:
            whole = runtime.Array(buffer, (buffer.memory.size,), np.dtype(np.uint8), (1,))
            copy = self.copies[id(buffer)] = np.array(whole.numpy())
        return np.ndarray(value.shape, value.dtype, copy, value.offset, value.strides)


def _arrays(value: Any) -> list[_Array]:
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, tuple):
        return [a for item in cast("tuple[Any, ...]", value) for a in _arrays(item)]
    return []


def _bounds(array: _Array) -> tuple[int, int]:
    low, high = np.lib.array_utils.byte_bounds(array)
    return (low, high) if array.size else (low, low)


def _ranges(arrays: Sequence[_Array]) -> list[tuple[int, int]]:
    """The memory that arrays cover, ranges that overlap made one."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(_bounds(a) for a in arrays if a.size):
        if found and low < found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def _encode(
    value: Any, ranges: Sequence[tuple[int, int]], scratch: Sequence[tuple[int, int]]
) -> dict[str, Any]:
    if isinstance(value, np.ndarray):
        array = cast("_Array", value)
        low, high = _bounds(array)
        place = {"dtype": _NAMES[array.dtype], "shape": list(array.shape)}
        place |= {"strides": list(array.strides)}
        start = int(array.__array_interface__["data"][0])
        for index, (first, last) in enumerate(ranges):
            if first <= low and high <= last and array.size:
                return {"kind": "array", **place, "buffer": index, "offset": start - first}
        for index, (first, last) in enumerate(scratch):
            if first <= low and high <= last and array.size:
                size = last - first
                known = {"scratch": index, "bytes": size, "offset": start - first}
                return {"kind": "array", **place, **known}
        return {"kind": "array", **place, "scratch": -1, "bytes": 0, "offset": 0}
    if isinstance(value, np.generic):
        one = cast("np.generic[Any]", value)
        return {"kind": "scalar", "dtype": _NAMES[one.dtype], "bits": one.tobytes().hex()}
    for kind in (bool, int, str):  # their subclasses, such as enumerations, as what they are of
        if isinstance(value, kind):
            text = str.__str__(value) if isinstance(value, str) else str(int(value))
            return {"kind": kind.__name__, "value": text}
    if isinstance(value, float):
        return {"kind": "float", "value": value.hex()}
    if isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        fields = list(getattr(items, "_fields", ()))
        parts = [_encode(item, ranges, scratch) for item in items]
        return {"kind": "tuple", "class": type(items).__name__, "fields": fields, "items": parts}
    return {"kind": "constant"}


def _decode(item: Any, memory: Sequence[_Array], scratch: dict[int, _Array]) -> Any:
    """One value; raises CheckpointError for what `encode` never writes."""
    try:
        return _decoded(item, memory, scratch)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise CheckpointError(f"an argument in the file has no meaning: {error}") from None


def _decoded(item: Mapping[str, Any], memory: Sequence[_Array], scratch: dict[int, _Array]) -> Any:
    match item["kind"]:
        case "array":
            return _view(item, memory, scratch)
        case "scalar":
            return np.frombuffer(bytes.fromhex(item["bits"]), SCALARS[item["dtype"]].numpy)[0]
        case "bool":
            return bool(int(item["value"]))
        case "int":
            return int(item["value"])
        case "float":
            return float.fromhex(item["value"])
        case "tuple":
            items = [_decoded(part, memory, scratch) for part in item["items"]]
            fields = item["fields"]
            made: Any = namedtuple(item["class"], fields) if fields else None  # noqa: PYI024 # pyright: ignore[reportUntypedNamedTuple]
            return made(*items) if fields else tuple(items)
        case "str":
            return str(item["value"])
        case "constant":
            return None
        case other:
            raise ValueError(f"kind {other}")


def _view(item: Mapping[str, Any], memory: Sequence[_Array], scratch: dict[int, _Array]) -> _Array:
    kind, shape = SCALARS[item["dtype"]].numpy, tuple(map(int, item["shape"]))
    if 0 in shape:
        return np.empty(shape, kind)
    if "buffer" in item:
        block = memory[int(item["buffer"])]
    else:
        block = scratch.get(int(item["scratch"]))
        if block is None:
            block = scratch[int(item["scratch"])] = np.zeros(int(item["bytes"]), np.uint8)
    strides = tuple(map(int, item["strides"]))
    return np.ndarray(shape, kind, block, int(item["offset"]), strides)
