"""Artifacts as bytes for the cache: JSON and the code; no pickle, nothing is evaluated."""

from __future__ import annotations

import dataclasses
import json
import struct
from base64 import b64decode, b64encode
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

from hetir import artifact as artifacts
from hetir.artifact import Artifact
from hetir.source import Loc

_HEAD = struct.Struct("<4sQ")
_MAGIC = b"HTA1"
_TAG = "$"
_BYTES = "bytes"
_CLASSES: Mapping[str, type] = MappingProxyType(
    {
        kind.__name__: kind
        for kind in (*vars(artifacts).values(), Loc)
        if issubclass(type(kind), type) and dataclasses.is_dataclass(kind)  # loads nothing lazy
    }
)


def encode(artifact: Artifact) -> bytes:
    """The artifact as bytes; equal artifacts give equal bytes."""
    plain = _lower(dataclasses.replace(artifact, binary=None))
    text = json.dumps(plain, separators=(",", ":"), sort_keys=True).encode()
    code = artifact.binary
    mark = b"" if code is None else b"\1" + code
    return _HEAD.pack(_MAGIC, len(text)) + text + mark


def decode(data: bytes) -> Artifact:
    """The artifact that `encode` wrote; ValueError for anything else."""
    if len(data) < _HEAD.size:
        raise ValueError("the artifact is cut short")
    magic, size = _HEAD.unpack_from(data)
    if magic != _MAGIC or size > len(data) - _HEAD.size:
        raise ValueError("this is no artifact")
    end = _HEAD.size + size
    try:
        made = _raise(json.loads(data[_HEAD.size : end]))
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"the artifact is damaged: {error}") from error
    if not isinstance(made, Artifact):
        raise ValueError("this is no artifact")  # noqa: TRY004 - of what the bytes hold
    return dataclasses.replace(made, binary=data[end + 1 :] if len(data) > end else None)


def _lower(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and type(value).__name__ in _CLASSES:
        fields = {f.name: _lower(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {_TAG: type(value).__name__, **fields}
    if isinstance(value, tuple):
        return [_lower(item) for item in cast("tuple[Any, ...]", value)]
    if isinstance(value, bytes):
        return {_TAG: _BYTES, "base64": b64encode(value).decode()}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"an artifact cannot hold a `{type(value).__name__}`")


def _raise(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_raise(item) for item in cast("list[Any]", value))
    if isinstance(value, dict):
        plain = cast("dict[str, Any]", value)
        if plain[_TAG] == _BYTES:
            return b64decode(plain["base64"], validate=True)
        fields = {key: _raise(item) for key, item in plain.items() if key != _TAG}
        return _CLASSES[plain[_TAG]](**fields)
    return value
