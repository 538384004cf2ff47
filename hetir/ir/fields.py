"""What a single field of hetIR may hold: types, locations, attributes, parameter sources.

Each `*_fault` function takes anything at all and gives the fault, or None.
"""

# annotations are not trusted here: this is where they are checked
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeGuard, cast

from hetir.ir.core import Operation, Region, Value
from hetir.ir.ops import TABLE, Spec
from hetir.ir.types import SCALARS, SPACES, ArrayType, RefType, Scalar
from hetir.source import Loc

MAX_NESTING = 128  # regions inside regions: recursion over them stays within Python's limit
MAX_CALLERS = 200  # calls of helpers that one location lies in
MAX_DIMENSIONS = 6
MAX_TUPLES = 8  # tuples inside tuples in one attribute
INT_LOW, INT_HIGH = -(1 << 63), (1 << 64) - 1  # integer attributes

OPTIONS: Mapping[str, tuple[object, ...]] = {
    "subgroup_size": (None, 1, 2, 4, 8, 16, 32, 64, 128),
    "math": ("reproducible", "native"),
    "debug": (False, True),
    "memory_model": ("drf", "sc"),
    "cooperative": (False, True),
    "fences": ("local", "checked"),
}


def show(value: object) -> str:
    """A short `repr` of anything, for messages."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a broken object may raise anything
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."


def is_size(value: object) -> TypeGuard[int]:
    """Whether this is an integer from 0 that fits 63 bits."""
    return type(value) is int and 0 <= value < 1 << 63


def _items(value: object) -> tuple[object, ...] | None:
    return cast("tuple[object, ...]", value) if type(value) is tuple else None


def type_fault(kind: object) -> str | None:
    """Why `kind` is not a type of hetIR."""
    if isinstance(kind, Scalar):
        known = any(kind is s or kind == s for s in SCALARS.values())
        return None if known else f"unknown scalar type `{show(kind.name)}`"
    if isinstance(kind, RefType):
        return None if kind.space in SPACES else f"unknown space `{show(kind.space)}`"
    return _array_fault(kind) if isinstance(kind, ArrayType) else f"`{show(kind)}` is not a type"


def _array_fault(kind: ArrayType) -> str | None:
    shape, strides, align = kind.shape, kind.strides, kind.align
    if not isinstance(kind.element, Scalar) or type_fault(kind.element):
        return f"unknown element type `{show(kind.element)}`"
    if not is_size(kind.ndim) or kind.ndim > MAX_DIMENSIONS:
        return f"an array has 0 to {MAX_DIMENSIONS} dimensions, got `{show(kind.ndim)}`"
    if kind.space not in SPACES:
        return f"unknown space `{show(kind.space)}`"
    if not is_size(align) or align & (align - 1):
        return f"an alignment is a power of two or 0, got `{show(align)}`"
    if shape is not None and (strides is not None or not _is_row(shape, kind.ndim, is_size)):
        return f"a static array has one extent a dimension and no strides, got `{show(shape)}`"
    if strides is not None and (not _is_row(strides, kind.ndim, _is_stride) or 1 in strides[:-1]):
        return f"known strides are 0, or 1 on the last axis, got `{show(strides)}`"
    return None


def _is_stride(value: object) -> bool:
    return value is None or (is_size(value) and value < 2)


def _is_row(values: object, length: int, test: Callable[[object], bool]) -> bool:
    items = _items(values)
    return items is not None and len(items) == length and all(map(test, items))


def loc_fault(loc: object) -> str | None:
    """Why `loc` is neither a location nor None."""
    depth = 0
    while loc is not None:
        if not isinstance(loc, Loc) or not is_file(loc.file):
            return "a location must be a `Loc` with the name of a file"
        if not all(map(is_size, (loc.line, loc.col, loc.end_line, loc.end_col))):
            return "the lines and columns of a location must be integers of 0 or more"
        loc, depth = loc.caller, depth + 1
        if depth > MAX_CALLERS:
            return f"a location has more than {MAX_CALLERS} callers"
    return None


def is_file(name: object) -> bool:
    """Whether a file could have this name, so that drawing an error can look for it."""
    try:
        return isinstance(name, str) and b"\0" not in name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False


def attr_fault(value: object, depth: int = 0) -> str | None:
    """Why `value` cannot be an attribute."""
    if isinstance(value, (Scalar, ArrayType, RefType)):
        return type_fault(value)
    if type(value) is int:
        return None if INT_LOW <= value <= INT_HIGH else "an integer attribute exceeds 64 bits"
    items = _items(value)
    if items is not None and depth < MAX_TUPLES:
        return next((fault for v in items if (fault := attr_fault(v, depth + 1))), None)
    return None if type(value) in (bool, str) else f"`{show(value)}` cannot be an attribute"


def source_fault(source: object) -> str | None:
    """Why `source` cannot be where a parameter's value comes from."""
    items = _items(source)
    if items and is_size(items[0]) and all(type(field) is str for field in items[1:]):
        return None
    return f"a source is a parameter's position, then field names, got `{show(source)}`"


def operation_fault(op: object) -> str | None:
    """Why an operation's fields cannot even be read."""
    if not isinstance(op, Operation):
        return f"`{show(op)}` is not an operation"
    spec, attrs = op.spec, op.attrs
    if not isinstance(spec, Spec) or not isinstance(spec.name, str):
        return f"`{show(spec)}` is not a row of the op table"
    if TABLE.get(spec.name) is not spec:
        return f"`{show(spec.name)}` is not a row of the op table"
    for field, kind in (("operands", Value), ("results", Value), ("regions", Region)):
        values = _items(getattr(op, field))
        if values is None or not all(isinstance(v, kind) for v in values):
            return f"the {field} of `{spec.name}` must be a tuple of `{kind.__name__}`"
    if not isinstance(attrs, Mapping) or not all(type(name) is str for name in attrs):
        return f"the attributes of `{spec.name}` must be a mapping from names"
    for name, value in attrs.items():
        if problem := attr_fault(value):
            return f"attribute `{name}` of `{spec.name}`: {problem}"
    return None
