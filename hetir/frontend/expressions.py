"""Expressions: names, numbers, operators, tuples, comprehensions over constants, f-strings."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from hetir.frontend import operators
from hetir.frontend.errors import UnsupportedSyntaxError
from hetir.frontend.frame import Frame, handles
from hetir.frontend.iteration import static_items
from hetir.frontend.operators import compute
from hetir.frontend.values import FormatText, describe, is_plain, number_kind


@handles(ast.Constant)
def constant(frame: Frame, node: ast.Constant) -> Any:
    """A number, string, None or Ellipsis."""
    if isinstance(node.value, complex):
        frame.fail(
            UnsupportedSyntaxError,
            "a complex number has no meaning in a kernel",
            node,
            hint="compute with the real and the imaginary part",
        )
    return node.value


@handles(ast.Name)
def name(frame: Frame, node: ast.Name) -> Any:
    """A variable."""
    return frame.load(node)


@handles(ast.BinOp)
def binary(frame: Frame, node: ast.BinOp) -> Any:
    """`a + b` and its like; a long chain is read without recursion."""
    chain = [node]
    while isinstance(chain[-1].left, ast.BinOp):
        chain.append(chain[-1].left)
    value = frame.evaluate(chain[-1].left)
    for link in reversed(chain):
        right = frame.evaluate(link.right)
        value = operators.binary(frame.at(link), type(link.op), value, right)
    return value


@handles(ast.UnaryOp)
def unary(frame: Frame, node: ast.UnaryOp) -> Any:
    """`-a`, `+a`, `~a`, `not a`."""
    value = frame.evaluate(node.operand)
    tracer = frame.at(node)
    if isinstance(node.op, ast.Not):
        return operators.negation(tracer, value)
    return operators.unary(tracer, type(node.op), value)


@handles(ast.Tuple, ast.List)
def sequence(frame: Frame, node: ast.Tuple | ast.List) -> Any:
    """A tuple; a list is a tuple too, because nothing in a kernel grows."""
    items: list[Any] = []
    for element in node.elts:
        if isinstance(element, ast.Starred):
            items += static_items(frame, frame.evaluate(element.value), element)
        else:
            items.append(frame.evaluate(element))
    return tuple(items)


@handles(ast.NamedExpr)
def named(frame: Frame, node: ast.NamedExpr) -> Any:
    """`(name := value)`."""
    value = frame.evaluate(node.value)
    frame.store(node.target.id, value, node)
    return value


@handles(ast.ListComp, ast.GeneratorExp)
def comprehension(frame: Frame, node: ast.ListComp | ast.GeneratorExp) -> Any:
    """A comprehension over constants, unrolled into a tuple."""
    items: list[Any] = []
    saved = dict(frame.env)
    _comprehend(frame, node, list(node.generators), items)
    frame.env = saved
    return tuple(items)


def _comprehend(
    frame: Frame,
    node: ast.ListComp | ast.GeneratorExp,
    generators: list[ast.comprehension],
    items: list[Any],
) -> None:
    if not generators:
        items.append(frame.evaluate(node.elt))
        return
    first, *rest = generators
    if first.is_async:
        frame.fail(UnsupportedSyntaxError, "`async for` has no meaning in a kernel", node)
    for item in static_items(frame, frame.evaluate(first.iter), first.iter):
        bind(frame, first.target, item)
        if all(_keeps(frame, condition) for condition in first.ifs):
            _comprehend(frame, node, rest, items)


def _keeps(frame: Frame, condition: ast.expr) -> bool:
    value = frame.evaluate(condition)
    if not is_plain(value):
        frame.fail(
            UnsupportedSyntaxError,
            "a comprehension cannot choose by a value of the kernel",
            condition,
            hint="write a `for` loop with an `if`",
        )
    return bool(operators.compute(frame.at(condition), bool, value))


def bind(frame: Frame, target: ast.expr, value: Any) -> None:
    """Give a name, or a tuple of names, a value; subscripts are stored by `statements`."""
    HANDLE_TARGET[type(target)](frame, target, value)


HANDLE_TARGET: dict[type[ast.expr], Any] = {}


@handles(ast.JoinedStr)
def joined(frame: Frame, node: ast.JoinedStr) -> Any:
    """An f-string: a str when all its parts are plain, else text for `hl.print`."""
    text, values = "", list[Any]()
    for part in node.values:
        if isinstance(part, ast.Constant):
            text += str(part.value).replace("{", "{{").replace("}", "}}")
            continue
        assert isinstance(part, ast.FormattedValue)
        value = frame.evaluate(part.value)
        if is_plain(value) and not (number_kind(value) and _bare(part)):
            text += _formatted(frame, part, value).replace("{", "{{").replace("}", "}}")
            continue
        if not _bare(part):
            frame.fail(
                UnsupportedSyntaxError,
                f"{describe(value)} cannot be formatted with `!` or `:`",
                part.value,
                hint="write `{...}` alone",
            )
        text += "{}"
        values.append(value)
    if all(map(is_plain, values)):
        return text.format(*values)
    return FormatText(text, tuple(values))


def _bare(part: ast.FormattedValue) -> bool:
    # `{x=}` asks for repr, which is the same for numbers
    return part.conversion in (-1, 114, 115) and part.format_spec is None


def _formatted(frame: Frame, part: ast.FormattedValue, value: Any) -> str:
    tracer = frame.at(part.value)
    conversions: dict[int, Callable[[Any], Any]] = {115: str, 114: repr, 97: ascii}
    convert = conversions.get(part.conversion)
    shown = value if convert is None else compute(tracer, convert, value)
    spec = frame.evaluate(part.format_spec) if part.format_spec else ""
    return compute(tracer, format, shown, spec)
