"""Statements: assignments, stores, expressions, `assert`."""

from __future__ import annotations

import ast
from typing import Any

from hetir.frontend import indexing, operators, shapes
from hetir.frontend.bundles import make_vector
from hetir.frontend.errors import (
    IndexingError,
    StaticAssertError,
    UnpackError,
    UnsupportedSyntaxError,
)
from hetir.frontend.expressions import HANDLE_TARGET, bind
from hetir.frontend.forms import VectorType
from hetir.frontend.frame import Frame, handles
from hetir.frontend.iteration import static_items
from hetir.frontend.values import (
    ArrayHandle,
    Bundle,
    FormatText,
    Typed,
    WeakNumber,
    describe,
    is_plain,
)
from hetir.ir import ops
from hetir.ir.types import Scalar


@handles(ast.Pass)
def nothing(frame: Frame, node: ast.Pass) -> None:
    """`pass`."""


@handles(ast.Expr)
def expression(frame: Frame, node: ast.Expr) -> None:
    """A call for its effect, or a docstring."""
    if not isinstance(node.value, ast.Constant):
        frame.evaluate(node.value)


@handles(ast.Assign)
def assign(frame: Frame, node: ast.Assign) -> None:
    """`a = b = value`."""
    value = _evaluate_for(frame, node.targets[0], node.value)
    for target in node.targets:
        assign_to(frame, target, value, node)


def _evaluate_for(frame: Frame, target: ast.expr, node: ast.expr) -> Any:
    """The value that `target` gets; arrays made by it are called as the variable."""
    if isinstance(target, ast.Tuple) and isinstance(node, ast.Tuple) and _pairwise(target, node):
        pairs = zip(target.elts, node.elts, strict=True)
        return tuple([_evaluate_for(frame, *pair) for pair in pairs])
    before = frame.tracer.hint
    frame.tracer.hint = target.id if isinstance(target, ast.Name) else ""
    value = frame.evaluate(node)
    frame.tracer.hint = before
    return value


def _pairwise(target: ast.Tuple, node: ast.Tuple) -> bool:
    starred = any(isinstance(item, ast.Starred) for item in (*target.elts, *node.elts))
    return len(target.elts) == len(node.elts) and not starred


@handles(ast.AnnAssign)
def annotated(frame: Frame, node: ast.AnnAssign) -> None:
    """`a: hl.f32 = value` converts; any other annotation says nothing."""
    if node.value is None:
        return
    value = frame.evaluate(node.value)
    kind = _annotation(frame, node.annotation)
    if isinstance(kind, VectorType):
        value = make_vector(frame.at(node), kind, [value])
    elif kind is not None and _number(value):
        value = Typed(frame.at(node).convert(value, kind))
    assign_to(frame, node.target, value, node)


def _number(value: object) -> bool:
    return isinstance(value, (Typed, WeakNumber)) or operators.number_kind(value) is not None


def _annotation(frame: Frame, node: ast.expr) -> Scalar | VectorType | None:
    """The scalar or vector type that `module.name` or a name stands for."""
    if not isinstance(node, (ast.Attribute, ast.Name)):
        return None
    root = node
    while isinstance(root, ast.Attribute):
        root = root.value
    known = isinstance(root, ast.Name) and root.id in frame.function.__globals__
    found = frame.evaluate(node) if known else None
    return found if isinstance(found, (Scalar, VectorType)) else None


def assign_to(frame: Frame, target: ast.expr, value: Any, node: ast.AST) -> None:
    """Give one target of an assignment its value."""
    if isinstance(target, ast.Name):
        frame.at(node)
        frame.store(target.id, shapes.lasting(frame.tracer, value), node)
    else:
        bind(frame, target, value)


def _name(frame: Frame, target: ast.Name, value: Any) -> None:
    frame.at(target)
    frame.store(target.id, shapes.lasting(frame.tracer, value), target)


def _sequence(frame: Frame, target: ast.Tuple | ast.List, value: Any) -> None:
    """`a, *b, c = value`."""
    items = static_items(frame, value, target)
    stars = [i for i, element in enumerate(target.elts) if isinstance(element, ast.Starred)]
    wanted = len(target.elts)
    if stars and len(items) >= wanted - 1:
        at, count = stars[0], len(items) - wanted + 1
        items[at : at + count] = [tuple(items[at : at + count])]
    if len(items) != wanted:
        frame.fail(
            UnpackError, f"the tuple has {len(items)} values, the target takes {wanted}", target
        )
    for element, item in zip(target.elts, items, strict=True):
        bind(frame, element.value if isinstance(element, ast.Starred) else element, item)


def _subscript(frame: Frame, target: ast.Subscript, value: Any) -> None:
    array = _stored_array(frame, target)
    indices = indexing.array_indices(frame, array, target)
    indexing.write(frame.at(target), array, indices, value)


def _stored_array(frame: Frame, target: ast.Subscript) -> ArrayHandle:
    owner = frame.evaluate(target.value)
    if isinstance(owner, Bundle):
        frame.fail(
            IndexingError,
            f"{describe(owner)} does not change",
            target,
            hint="make a new one: `v = hl.insert(v, i, value)`",
        )
    if not isinstance(owner, ArrayHandle):
        frame.fail(
            IndexingError,
            f"{describe(owner)} cannot be stored into",
            target,
            hint="use an array argument or `hl.private(n, dtype)`",
        )
    return owner


def _attribute(frame: Frame, target: ast.Attribute, value: Any) -> None:
    hint = "use a variable, or store into an array argument"
    if isinstance(frame.evaluate(target.value), Bundle):
        hint = "vectors do not change: make a new one, such as `v = hl.insert(v, 0, value)`"
    frame.fail(
        UnsupportedSyntaxError, "an attribute cannot be assigned in a kernel", target, hint=hint
    )


HANDLE_TARGET.update(
    {
        ast.Name: _name,
        ast.Tuple: _sequence,
        ast.List: _sequence,
        ast.Subscript: _subscript,
        ast.Attribute: _attribute,
    }
)


@handles(ast.AugAssign)
def augmented(frame: Frame, node: ast.AugAssign) -> None:
    """`a += b`; an element's indices are computed once."""
    target, kind = node.target, type(node.op)
    if isinstance(target, ast.Name):
        before = frame.load(target)
        value = frame.evaluate(node.value)
        frame.store(target.id, operators.binary(frame.at(node), kind, before, value), node)
    elif isinstance(target, ast.Subscript):
        array = _stored_array(frame, target)
        indices = [_fixed(frame, i) for i in indexing.array_indices(frame, array, target)]
        before = indexing.read(frame.at(target), array, indices)
        value = frame.evaluate(node.value)
        value = operators.binary(frame.at(node), kind, before, value)
        indexing.write(frame.at(node), array, indices, value)
    else:
        _attribute(frame, target, None)


def _fixed(frame: Frame, index: Any) -> Any:
    """An index converted once, for the load and the store."""
    if is_plain(index) or isinstance(index, indexing.Span):
        return index
    return Typed(frame.tracer.index(index, "an index"))


@handles(ast.Assert)
def assertion(frame: Frame, node: ast.Assert) -> None:
    """`assert condition, message`, as `hl.assert_`."""
    condition = frame.evaluate(node.test)
    message = "" if node.msg is None else frame.evaluate(node.msg)
    if isinstance(message, FormatText) or not is_plain(message):
        frame.fail(
            UnsupportedSyntaxError,
            "the message of `assert` must be a constant",
            node.msg or node,
            hint="print values with `hl.print`",
        )
    check(frame, condition, str(message) or frame.source.text(node.test), node)


def check(frame: Frame, condition: Any, message: str, node: ast.AST) -> None:
    """Fail now when the condition is plain and false, at run time when it is the kernel's."""
    tracer = frame.at(node)
    if is_plain(condition):
        if not operators.compute(tracer, bool, condition):
            tracer.fail(StaticAssertError, f"the check does not hold: {message}")
        return
    tracer.emit(ops.ASSERT, operators.truth(tracer, condition), attrs={"message": message})
