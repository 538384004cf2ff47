"""Modules that are loaded when something of them is first used, by one thread while others wait."""

from __future__ import annotations

import importlib.util
import sys
import threading
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

# what the import system asks of a package between looking for a module of it and loading that: if
# the package's own code ran then, the module could be there twice
_KNOWN = ("__path__", "__spec__")
_LOCK = threading.RLock()
_LOADING: set[int] = set()


class _Lazy(ModuleType):
    """A module whose code has not run; it becomes a plain one when it has."""

    def __getattribute__(self, name: str) -> Any:
        if name in _KNOWN:
            return ModuleType.__getattribute__(self, name)
        with _LOCK:
            if type(self) is _Lazy and id(self) not in _LOADING:
                _load(self)
            return ModuleType.__getattribute__(self, name)


def _load(module: ModuleType) -> None:
    """Run a module's code; what it asks of itself meanwhile is there as far as it ran."""
    _LOADING.add(id(module))
    try:
        spec = ModuleType.__getattribute__(module, "__spec__")
        spec.loader.exec_module(module)
        module.__class__ = ModuleType
    finally:
        _LOADING.discard(id(module))


def lazy(name: str) -> ModuleType:
    """The module of that name; its code runs at the first use of an attribute."""
    if name in sys.modules:
        return sys.modules[name]
    # the parent may be lazy too: to ask the import system for anything of it would load it
    above = name.rpartition(".")[0]
    parent = sys.modules.get(above) or importlib.import_module(above)
    known = object.__getattribute__(parent, "__spec__")
    spec = PathFinder.find_spec(name, known.submodule_search_locations)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(name)
    module = importlib.util.module_from_spec(spec)
    module.__class__ = _Lazy
    sys.modules[name] = module
    return module
