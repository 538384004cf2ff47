"""Which variables a branch or a loop assigns, and which are read later: once a function."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace


class _Names(dict[ast.AST, frozenset[str]]):
    """Names by tree node."""


@dataclass(slots=True)
class Flow:
    """`after`: read after a compound statement; `head`: read at or after a loop's head.

    `assigned`: names that a compound statement may assign. Keys are tree nodes. A dry run
    records nothing but `exposed`.
    """

    after: _Names = field(default_factory=_Names)
    head: _Names = field(default_factory=_Names)
    assigned: _Names = field(default_factory=_Names)
    exposed: _Names = field(default_factory=_Names)
    dry: bool = False


@dataclass(frozen=True, slots=True)
class _Exits:
    """What is live where `break` and `continue` of the innermost loop go."""

    breaks: frozenset[str] = frozenset()
    continues: frozenset[str] = frozenset()


def analyse(function: ast.FunctionDef) -> Flow:
    """Backward liveness over a function's statements."""
    flow = Flow()
    _statements(function.body, set(), _Exits(), flow)
    return flow


def _statements(body: list[ast.stmt], live: set[str], exits: _Exits, flow: Flow) -> set[str]:
    """What is live before `body`, given what is live after it; `live` is used up."""
    for statement in reversed(body):
        live = _statement(statement, live, exits, flow)
    return live


def _statement(node: ast.stmt, live: set[str], exits: _Exits, flow: Flow) -> set[str]:
    match node:
        case ast.If():
            if not flow.dry:
                flow.after[node] = frozenset(live)
                flow.assigned[node] = _stored(node)
            before = _statements(node.body, set(live), exits, flow)
            before |= _statements(node.orelse, live, exits, flow)
            return _expression(node.test, before)
        case ast.While() | ast.For():
            return _loop(node, live, exits, flow)
        case ast.Return():
            return _expression(node.value, set())
        case ast.Break():
            return set(exits.breaks)
        case ast.Continue():
            return set(exits.continues)
        case ast.AugAssign():
            return _expression(node.value, _loads(node.target, _unstore(node.target, live)))
        case ast.Assign() | ast.AnnAssign():
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if node.value is not None:
                    _unstore(target, live)
            for target in targets:
                _expression(target, live)
            return _expression(node.value, live)
        case _:
            return _expression(node, live)


def _loop(node: ast.While | ast.For, live: set[str], exits: _Exits, flow: Flow) -> set[str]:
    after = frozenset(live)
    head = after | _statements(node.orelse, live, exits, flow) | _exposed(node, flow)
    if not flow.dry:
        flow.after[node], flow.head[node] = after, head
        flow.assigned[node] = _stored(node)
        _statements(node.body, set(head), _Exits(after, head), flow)
    return _expression(node.iter, set(head)) if isinstance(node, ast.For) else set(head)


def _exposed(node: ast.While | ast.For, flow: Flow) -> frozenset[str]:
    """What one run of a loop's condition and body reads before it assigns it.

    Liveness only adds and takes away names, so that this and what is live after the loop are
    all that is live at its head: no iteration, and one visit a loop however deeply it nests.
    """
    if node not in flow.exposed:
        found = _statements(node.body, set(), _Exits(), replace(flow, dry=True))
        if isinstance(node, ast.While):
            found = _expression(node.test, found)
        else:
            found = _unstore(node.target, found)
        flow.exposed[node] = frozenset(found)
    return flow.exposed[node]


def _expression(node: ast.AST | None, live: set[str]) -> set[str]:
    """Add what an expression reads; a name assigned inside it is taken as read before."""
    if node is not None:
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                live.add(part.id)
    return live


def _loads(target: ast.expr, live: set[str]) -> set[str]:
    """What an augmented assignment's target reads: the name itself, or what addresses it."""
    if isinstance(target, ast.Name):
        live.add(target.id)
        return live
    return _expression(target, live)


def _unstore(target: ast.expr, live: set[str]) -> set[str]:
    live -= _stored(target)
    return live


def _stored(target: ast.AST) -> frozenset[str]:
    return frozenset(
        part.id
        for part in ast.walk(target)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    )
