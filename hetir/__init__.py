"""One kernel in Python, the same meaning and the same bits on every target."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hetir.version import __version__

if TYPE_CHECKING:
    from hetir.checkpoint import StopAt, resume
    from hetir.compiler import check, compile
    from hetir.decorator import Kernel, kernel
    from hetir.frontend import func
    from hetir.hetbin import load
    from hetir.ir.text import parse_module as parse
    from hetir.limits import targets
    from hetir.records import print_items
    from hetir.residency import occupancy
    from hetir.runtime import Graph, array, device, devices, empty, from_dlpack, zeros
    from hetir.tuning import autotune

__all__ = [
    "Graph",
    "Kernel",
    "StopAt",
    "__version__",
    "array",
    "autotune",
    "cdiv",
    "check",
    "compile",
    "device",
    "devices",
    "empty",
    "from_dlpack",
    "func",
    "kernel",
    "load",
    "occupancy",
    "parse",
    "print_items",
    "resume",
    "targets",
    "zeros",
]

# where each public name lives; loaded when first used, so that `import hetir` costs little
_HOMES = {
    **dict.fromkeys(("check", "compile"), "hetir.compiler"),
    **dict.fromkeys(("Kernel", "kernel"), "hetir.decorator"),
    **dict.fromkeys(
        ("Graph", "array", "device", "devices", "empty", "from_dlpack", "zeros"), "hetir.runtime"
    ),
    **dict.fromkeys(("StopAt", "resume"), "hetir.checkpoint"),
    "func": "hetir.frontend",
    "load": "hetir.hetbin",
    "parse": "hetir.ir.text",
    "print_items": "hetir.records",
    "targets": "hetir.limits",
    "occupancy": "hetir.residency",
    "autotune": "hetir.tuning",
}
_MODULES = ("checkpoint", "testing", "torch")
_RENAMED = {"parse": "parse_module"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"hetir.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'hetir' has no attribute {name!r}")
    import_module("hetir.compiler")  # it registers the evaluator and the PTX emulator
    found = getattr(import_module(_HOMES[name]), _RENAMED.get(name, name))
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)


def cdiv(a: int, b: int) -> int:
    """The quotient rounded up: how many groups of `b` cover `a` items."""
    return -(-a // b)
