"""One kernel in Python, the same meaning and the same bits on every target."""

from hetir.compiler import check, compile  # noqa: A004 (the contract's name)
from hetir.frontend import func
from hetir.ir.text import parse_module as parse
from hetir.kernel import Kernel, kernel
from hetir.limits import targets
from hetir.residency import occupancy
from hetir.runtime import array, device, devices, empty, zeros
from hetir.version import __version__

__all__ = [
    "Kernel",
    "__version__",
    "array",
    "cdiv",
    "check",
    "compile",
    "device",
    "devices",
    "empty",
    "func",
    "kernel",
    "occupancy",
    "parse",
    "targets",
    "zeros",
]


def cdiv(a: int, b: int) -> int:
    """The quotient rounded up: how many groups of `b` cover `a` items."""
    return -(-a // b)
