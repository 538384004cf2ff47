"""The tables under hetir/targets, read when a target is first asked for."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from hetir.diagnostics import CompileError
from hetir.limits.host import host_unit
from hetir.limits.model import AmdUnit, AscendUnit, IntelUnit, Limits, NvidiaUnit, Part, Unit

_UNITS: dict[str, type[NvidiaUnit | AmdUnit | IntelUnit | AscendUnit]] = {
    "nvidia": NvidiaUnit,
    "amd": AmdUnit,
    "intel": IntelUnit,
    "ascend": AscendUnit,
}
# older than what hetir compiles for, kept as devices that the occupancy model knows
_OLDEST_PTX = 75
_SHARED_FIELDS = frozenset(f.name for f in fields(Limits)) - {
    "target",
    "title",
    "vendor",
    "unit",
    "sources",
}


class UnknownTargetError(CompileError):
    """A target or device that no table lists.

    Cause: a misspelt name. Fix: take one that `hetir targets` lists.
    """

    code = "HET400"


def limits_of(name: str) -> Limits:
    """The limits of a target (`ptx:sm_90a`) or device (`amd:gfx942`).

    `cpu:NAME` stands for `cpu`, and a name that is unambiguous without its prefix may go
    without (`sm_90`, `gfx942`). Raises UnknownTargetError.
    """
    return _resolve(name.strip().lower())


def targets() -> Mapping[str, Limits]:
    """Every target that hetir compiles for, with its limits."""
    return MappingProxyType({n: e for n, e in _entries().items() if not _is_device(n)})


def devices() -> Mapping[str, Limits]:
    """Every device that the occupancy model knows and that is no target of its own."""
    return MappingProxyType({n: e for n, e in _entries().items() if _is_device(n)})


@cache
def _resolve(name: str) -> Limits:
    entries = _entries()
    full = "cpu" if name.startswith("cpu:") else name
    if full in entries:
        return entries[full]
    matches = [known for known in entries if known.partition(":")[2] == name]
    if len(matches) == 1:
        return entries[matches[0]]
    close = difflib.get_close_matches(name, entries, n=1)
    hint = f"did you mean `{close[0]}`?" if close else "list them with `hetir targets`"
    raise UnknownTargetError(f"there is no target `{name}`", hint=hint)


@cache
def _entries() -> dict[str, Limits]:
    found: dict[str, Limits] = {}
    for table in ("host", "spirv"):
        document = _read(table)
        for name, row in document["target"].items():
            unit = host_unit() if name == "cpu" else None
            found[name] = _limits(name, name.partition(":")[0], document, row, unit)
    found |= _nvidia()
    for vendor in ("ascend", "amd", "intel"):
        document = _read(vendor)
        for name, row in document["device"].items():
            full = f"{vendor}:{name}"
            found[full] = _limits(full, vendor, document, document["common"] | row)
    return found


def _is_device(name: str) -> bool:
    vendor, _, model = name.partition(":")
    if vendor == "ptx":
        return int(model.removeprefix("sm_").rstrip("af")) < _OLDEST_PTX
    return vendor in ("amd", "intel")


def _nvidia() -> dict[str, Limits]:
    document = _read("nvidia")
    found: dict[str, Limits] = {}
    for number, row in document["capability"].items():
        capability = int(number)
        features = [f for f, first in document["features"].items() if first <= capability]
        title = f"NVIDIA capability {capability // 10}.{capability % 10}"
        for variant in row["variants"]:
            name = f"ptx:sm_{number}{variant}"
            extra = {"a": ["architecture"], "f": ["family"], "": []}[variant]
            full = document["common"] | row | {"features": features + extra, "title": title}
            found[name] = _limits(name, "nvidia", document, full)
    return found


def _limits(
    name: str,
    vendor: str,
    document: Mapping[str, Any],
    row: Mapping[str, Any],
    unit: Unit | None = None,
) -> Limits:
    where = {**document.get("fields", {}), **row.get("fields", {})}
    sources = {field: document["sources"][key] for field, key in where.items()}
    if vendor in _UNITS:
        unit = _unit(_UNITS[vendor], row)
    shared = {field: _frozen(row[field]) for field in _SHARED_FIELDS - {"features"}}
    return Limits(
        target=name,
        title=row["title"],
        vendor=vendor,
        unit=unit,
        features=frozenset(row["features"]),
        sources=MappingProxyType(sources),
        **shared,
    )


def _unit(
    kind: type[NvidiaUnit | AmdUnit | IntelUnit | AscendUnit], row: Mapping[str, Any]
) -> Unit:
    values = {f.name: _frozen(row[f.name]) for f in fields(kind) if f.name != "parts"}
    return kind(parts=tuple(Part(**part) for part in row["parts"]), **values)


def _frozen(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return tuple(_frozen(item) for item in cast("list[Any]", value))


def _read(table: str) -> dict[str, Any]:
    # by path and not as the package `hetir.targets`, whose import would hide the function
    path = Path(__file__).parents[1] / "targets" / f"{table}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))
