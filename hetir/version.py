"""The versions: of the package, and of what compiled code and files depend on."""

__version__ = "0.1.0"

IR_VERSION = 1
"""The binary and text forms of hetIR."""

OPS_VERSION = 1
"""What ops mean."""

MATH_VERSION = 3
"""The bits of the reproducible mathematics."""

PASSES_VERSION = 4
"""What the simplifications before a backend do."""

CODE_VERSION = (__version__, IR_VERSION, OPS_VERSION, MATH_VERSION, PASSES_VERSION)
"""Part of every cache key."""
