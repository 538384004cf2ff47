"""Modules that are loaded when something of them is first used."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import PathFinder
from types import ModuleType


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
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
