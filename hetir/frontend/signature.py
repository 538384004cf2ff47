"""Signature strings: `"f32, f32[:], f32[:, ::1], i64, 16"`."""

from __future__ import annotations

import ast
import re

from hetir.frontend.arguments import Argument, Static, Weak
from hetir.frontend.errors import SignatureError
from hetir.frontend.forms import VectorType, vector_type
from hetir.ir.types import SCALARS, ArrayType

_FORM = re.compile(r"(?P<element>\w+)\s*(?:\[(?P<axes>[^\]]*)\])?")
_WEAK = ("int", "float", "bool")


def parse_signature(text: str) -> tuple[Argument, ...]:
    """The arguments that a signature names, separated by commas.

    `f32` is a scalar, `f32[:, :]` an array of two dimensions, `::1` a contiguous last axis,
    `f32[]` an array without dimensions, `f32x4` a vector; `int` and `float` are Python numbers,
    and a literal is a compile-time constant.
    """
    parts = _split(text)
    return tuple(_argument(part.strip(), text) for part in parts)


def _split(text: str) -> list[str]:
    """Split at the commas outside of brackets and quotes."""
    if not text.strip():
        return []
    return re.split(r""",(?![^\[]*\])(?=(?:[^"']|"[^"]*"|'[^']*')*$)""", text)


def _argument(part: str, text: str) -> Argument:
    found = _FORM.fullmatch(part)
    name = found["element"] if found else ""
    if found and found["axes"] is None and name in ("int", "float"):
        return Weak(name)
    if found and found["axes"] is None and (vector := _vector(name)) is not None:
        return vector
    element = SCALARS.get("bool" if name == "bool_" else name)
    if found and element is not None:
        return element if found["axes"] is None else _array(element, found["axes"], part)
    try:
        return Static(ast.literal_eval(part))
    except (ValueError, SyntaxError):
        raise SignatureError(
            f"`{part}` in the signature `{text}` is no type",
            hint="write scalars as `f32`, arrays as `f32[:, :]`",
        ) from None


def _vector(name: str) -> VectorType | None:
    element, times, length = name.partition("x")
    kind = SCALARS.get("bool" if element == "bool_" else element)
    return vector_type(kind, int(length)) if kind and times and length.isdecimal() else None


def _array(element: object, axes: str, part: str) -> ArrayType:
    steps = [axis.strip() for axis in axes.split(",")] if axes.strip() else []
    bad = [s for s in steps if s not in (":", "::1")]
    if bad or "::1" in steps[:-1]:
        raise SignatureError(
            f"`{part}` is no array type",
            hint="write one `:` an axis, and `::1` for a contiguous last axis",
        )
    known = tuple(1 if step == "::1" else None for step in steps)
    return ArrayType(element, len(steps), strides=known if 1 in known else None)  # pyright: ignore
