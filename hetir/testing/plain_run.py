"""Runs a kernel's source as plain Python, one work-item at a time: a second opinion on tracing.

Python itself does the control flow. Where work-items meet, their functions are generators that
stop there (`hetir.testing.lockstep`): `hl.barrier()` becomes `(yield from hl.barrier())`.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from hetir.ir.types import I64, Scalar
from hetir.testing.cases import Said
from hetir.testing.lockstep import Steps, run_group
from hetir.testing.plain import Array, Number, number
from hetir.testing.plain_language import MEETINGS, language


def run_plain(
    source: str,
    name: str,
    kinds: Sequence[Scalar],
    arguments: Sequence[Any],
    grid: tuple[int, int, int],
    workgroup: tuple[int, int, int],
    width: int = 32,
) -> Said:
    """Run the function `name` of the source for every work-item; arrays are written in place."""
    now = SimpleNamespace(grid=grid, size=workgroup, width=width, said=Said())
    namespace: dict[str, Any] = {"hl": language(now), "range": _range}
    tree = _Meets().visit(ast.parse(source))
    exec(compile(ast.fix_missing_locations(tree), "<plain>", "exec"), namespace)  # our own text
    bound = [
        Number(k, a) if np.ndim(a) == 0 else Array(k, a)
        for k, a in zip(kinds, arguments, strict=True)
    ]
    for z, y, x in itertools.product(*(range(n) for n in grid[::-1])):
        group = SimpleNamespace(id=(x, y, z), shared={}, board={})
        items = [
            SimpleNamespace(id=local[::-1], group=group, allocs=0)
            for local in itertools.product(*(range(n) for n in workgroup[::-1]))
        ]
        run_group([_steps(now, item, namespace[name], bound) for item in items], width)
    return now.said.in_order()


def _steps(now: SimpleNamespace, item: Any, function: Any, arguments: Sequence[Any]) -> Steps:
    """A work-item's run: `now` says which one it is whenever it goes on."""
    now.item = item
    inner = function(*arguments)
    answer = None
    while True:
        now.item = item
        try:
            meeting = inner.send(answer)
        except StopIteration:
            return
        answer = yield meeting


class _Meets(ast.NodeTransformer):
    """Makes every function a generator, and its calls of such wait for them."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def visit_Module(self, node: ast.Module) -> ast.Module:
        self.names = {f.name for f in node.body if isinstance(f, ast.FunctionDef)}
        self.generic_visit(node)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        never = ast.parse("if False:\n    yield").body
        node.body = [*never, *node.body]
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.Expr:
        self.generic_visit(node)
        check = ast.parse("hl.assert_(0, 0)", mode="eval").body
        assert isinstance(check, ast.Call)
        check.args = [node.test, *([node.msg] if node.msg else [])]
        return ast.Expr(check)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.Assign:
        self.generic_visit(node)
        assert node.value is not None
        return ast.Assign([node.target], ast.Call(node.annotation, [node.value], []))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        of_hl = isinstance(node.func, ast.Attribute) and node.func.attr in MEETINGS
        own = isinstance(node.func, ast.Name) and node.func.id in self.names
        return ast.YieldFrom(node) if own or of_hl else node


def _range(*bounds: Any) -> Iterator[Number]:
    """Python's range; a step of 0 runs nothing."""
    numbers = [int(b) for b in bounds]
    if len(numbers) == 3 and numbers[2] == 0:
        return
    for index in range(*numbers):
        yield number(I64, index)
