"""What can be unrolled: tuples and other collections that are known while compiling."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from hetir.frontend.bundles import need_vector
from hetir.frontend.errors import NotStaticError
from hetir.frontend.extents import extents
from hetir.frontend.frame import Frame
from hetir.frontend.operators import compute
from hetir.frontend.values import (
    ArrayHandle,
    Bundle,
    Extents,
    RangeValue,
    Typed,
    describe,
    is_plain,
)

_TOO_MANY = 65536


def static_items(frame: Frame, value: Any, node: ast.AST) -> list[Any]:
    """The elements of a collection, or an error when they are known at run time only."""
    if isinstance(value, Extents):
        return list(extents(frame.at(node), value))
    if isinstance(value, Bundle):
        return list(map(Typed, need_vector(frame.at(node), value, "a loop").items))
    if isinstance(value, RangeValue):
        bounds = (value.start, value.stop, value.step)
        if not all(map(is_plain, bounds)):
            frame.fail(
                NotStaticError,
                "the bounds of this range are known at run time only",
                node,
                hint="write a `for` statement",
            )
        value = compute(frame.at(node), range, *bounds)
    if isinstance(value, (str, ArrayHandle)) or not isinstance(value, Iterable):
        frame.fail(
            NotStaticError,
            f"{describe(value)} cannot be iterated over",
            node,
            hint="loop over its indices: `for i in range(n)`",
        )
    items = compute(frame.at(node), _first, value)
    if len(items) > _TOO_MANY:
        frame.fail(
            NotStaticError, f"unrolling more than {_TOO_MANY} steps is refused", node,
            hint="write `for i in range(n)`",
        )  # fmt: skip
    return items


def _first(value: Iterable[Any]) -> list[Any]:
    """The elements, cut one past what is allowed."""
    return [item for item, _ in zip(value, range(_TOO_MANY + 1), strict=False)]
