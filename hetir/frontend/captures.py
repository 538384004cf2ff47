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

    found: dict[tuple[int, str], Capture] = field(default_factory=dict)
    owners: list[object] = field(default_factory=list)

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
        self._note(function, "__code__", lambda: function.__code__)

    def _note(self, owner: object, name: str, read: Callable[[], Any]) -> Any:
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


def _constant(value: object) -> bool:
    """Modules and hetir's own functions do not change under a kernel."""
    home = str(getattr(value, "__module__", ""))
    return isinstance(value, types.ModuleType) or home.startswith("hetir.lang")


def _snapshot(value: object) -> object:
    if isinstance(value, (list, dict, set)):
        return value.copy()  # pyright: ignore[reportUnknownVariableType]
    return value.copy() if isinstance(value, np.ndarray) else value


def _unchanged(then: object, now: object) -> bool:
    if isinstance(then, np.ndarray):
        return isinstance(now, np.ndarray) and then.dtype == now.dtype and np.array_equal(then, now)
    if then is now:
        return True
    if type(then) is not type(now):
        return False
    if isinstance(then, (bool, int, float, str, bytes)):
        return repr(then) == repr(now)
    if isinstance(then, (tuple, list, dict, set)):
        try:
            return bool(then == now)
        except ValueError:  # arrays inside have no one truth
            return False
    return False
