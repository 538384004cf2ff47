"""Loops over constants, read once for each item."""

from __future__ import annotations

import ast
from typing import Any, NoReturn

from hetir.frontend.errors import UnsupportedSyntaxError
from hetir.frontend.expressions import bind
from hetir.frontend.frame import Frame, LoopScope


class _LeftError(Exception):
    """A `break` or `continue` of an unrolled loop that is decided while compiling."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def unroll(frame: Frame, node: ast.For, items: list[Any]) -> None:
    """Read the body once for each item."""
    scope = LoopScope((), (), (), (), None, unrolled=frame.tracer.block)
    frame.loops.append(scope)
    for item in items:
        bind(frame, node.target, item)
        try:
            frame.execute(node.body)
        except _LeftError as left:
            if left.kind == "break":
                break
        if frame.tracer.block.ended:
            break
    frame.loops.pop()


def leave_unrolled(
    frame: Frame, node: ast.Break | ast.Continue, scope: LoopScope, kind: str
) -> NoReturn:
    """Go to the next item, or past the last one, by a decision made while compiling."""
    if frame.tracer.block is not scope.unrolled:
        frame.fail(
            UnsupportedSyntaxError,
            f"`{kind}` of an unrolled loop cannot depend on a value of the kernel",
            node,
            hint="write `for i in range(n)`, or put the rest of the body under `if`",
        )
    raise _LeftError(kind)
