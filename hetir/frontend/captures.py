"""What a kernel read from outside: values that a cached compilation depends on."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class Capture:
    """One captured value: its name, what it was, and how to read it again."""

    name: str
    value: object
    read: Callable[[], object]

    @property
    def stale(self) -> bool:
        """Whether reading it now gives something else."""
        try:
            now = self.read()
        except (LookupError, ValueError, AttributeError):
            return True
        return not _unchanged(self.value, now)


@dataclass(slots=True, eq=False)
class Captures:
    """Everything that one trace captured, each once."""

    found: dict[tuple[int, str], Capture] = field(default_factory=dict[tuple[int, str], Capture])
    owners: list[object] = field(default_factory=list[object])

    def item(self, scope: dict[str, Any], name: str) -> Any:
        """A global variable."""
        return self._note(scope, name, lambda: scope[name])

    def cell(self, name: str, cell: types.CellType) -> Any:
        """A variable of an enclosing function."""
        return self._note(cell, name, lambda: cell.cell_contents)

    def attribute(self, owner: object, name: str) -> Any:
        """An attribute of a captured object or module."""
        return self._note(owner, name, lambda: getattr(owner, name))

    def code(self, function: types.FunctionType) -> None:
        """A helper's code, which somebody may replace in place."""
        if not library(function):
            self._note(function, "__code__", lambda: function.__code__)

    def _note(self, owner: object, name: str, read: Callable[[], Any]) -> Any:
        if str(getattr(owner, "__name__", "")).startswith("hetir.lang"):
            return read()
        key = (id(owner), name)
        if (found := self.found.get(key)) is None:
            value = read()
            if _constant(value):
                return value
            found = self.found[key] = Capture(name, _snapshot(value), read)
            # an id names an object only while it lives
            self.owners.append(owner)
            return value
        return found.read()


def library(function: object) -> bool:
    """Whether a function is hetir's own, which nobody changes while kernels are in use."""
    return str(getattr(function, "__module__", "")).startswith("hetir.lang")


def _constant(value: object) -> bool:
    """Modules and hetir's own functions do not change under a kernel."""
    return isinstance(value, types.ModuleType) or library(value)


def _snapshot(value: Any) -> Any:
    return value.copy() if type(value) in _MUTABLE else value


_MUTABLE = (list, dict, set, np.ndarray)


def _unchanged(then: Any, now: Any) -> bool:
    if type(then) is not type(now):
        return False
    if type(then) is np.ndarray:
        return bool(then.dtype == now.dtype and np.array_equal(then, now))
    if then is now:
        return True
    if isinstance(then, (bool, int, float, str, bytes)):
        return repr(then) == repr(now)
    if isinstance(then, (tuple, list, dict, set)):
        try:
            return bool(then == now)
        except ValueError:  # arrays inside have no one truth
            return False
    return False
