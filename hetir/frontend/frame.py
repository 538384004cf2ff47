"""One function being read: its variables, its place, and the tables of what handles a node."""

from __future__ import annotations

import ast
import builtins
import difflib
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from hetir.diagnostics import CompileError, Label
from hetir.frontend.captures import Captures, library
from hetir.frontend.errors import (
    NestingError,
    UnknownNameError,
    UnsetVariableError,
    UnsupportedSyntaxError,
)
from hetir.frontend.refusals import REFUSED
from hetir.frontend.shapes import Shape
from hetir.frontend.sources import FunctionSource, source_of
from hetir.frontend.tracer import Block, Tracer
from hetir.frontend.values import Poison, Unset
from hetir.ir.core import Value
from hetir.source import Loc


@dataclass(slots=True, eq=False)
class LoopScope:
    """The innermost loop while its body is read, with what its exits carried."""

    names: tuple[str, ...]
    shapes: tuple[Shape, ...]
    arguments: tuple[Value, ...]
    break_names: tuple[str, ...]
    break_shapes: tuple[Shape, ...] | None
    continued: list[Exit] = field(default_factory=list["Exit"])
    broken: list[Exit] = field(default_factory=list["Exit"])
    # of a loop over constants: the block it is read in, or what says that a step broke it
    unrolled: Block | None = None
    flag: str | None = None


@dataclass(slots=True, eq=False)
class Exit:
    """The variables at a `break`, `continue` or body's end, and what the op was given."""

    values: tuple[object, ...]
    places: tuple[Loc | None, ...]
    emitted: tuple[Shape, ...]


@dataclass(slots=True, eq=False)
class ReturnScope:
    """How a function's returns are emitted: None for a kernel's."""

    shape: Shape | None = None
    values: list[tuple[object, Loc]] = field(default_factory=list[tuple[object, Loc]])
    emitted: list[Shape] = field(default_factory=list[Shape])
    guessed: bool = False  # an unreachable return was emitted before the result was known


@dataclass(eq=False)
class Frame:
    """The state of one function while it is read."""

    tracer: Tracer
    function: Any
    source: FunctionSource
    captures: Captures
    session: Any
    env: dict[str, Any] = field(default_factory=dict[str, Any])
    where: dict[str, Loc] = field(default_factory=dict[str, Loc])
    loops: list[LoopScope] = field(default_factory=list[LoopScope])
    returns: ReturnScope | None = None
    # what a loop carried when it was read before: its entry and its fixpoint
    loop_shapes: dict[ast.AST, tuple[list[Shape], list[Shape]]] = field(
        default_factory=dict[ast.AST, tuple[list[Shape], list[Shape]]]
    )

    def __post_init__(self) -> None:
        code = self.function.__code__
        # hetir's own functions do not change under a kernel
        self.library = library(self.function)
        self.locals = {*code.co_varnames, *code.co_cellvars}
        cells = self.function.__closure__ or ()
        self.cells = dict(zip(code.co_freevars, cells, strict=True))

    # ---- places and errors -----------------------------------------------------------------

    def at(self, node: ast.AST) -> Tracer:
        """Make `node` the current place, for ops and errors."""
        self.tracer.loc = self.source.loc(node)
        return self.tracer

    def fail(self, error: type[CompileError], message: str, node: ast.AST, **more: Any) -> NoReturn:
        """Raise a user's error at `node`."""
        self.tracer.fail(error, message, loc=self.source.loc(node), **more)

    # ---- reading -----------------------------------------------------------------------------

    def evaluate(self, node: ast.expr) -> Any:
        """The value of an expression."""
        handler = HANDLERS.get(type(node))
        if handler is None:
            self.refuse(node)
        return handler(self, node)

    def execute(self, body: Iterable[ast.stmt]) -> None:
        """Read statements until one leaves."""
        for statement in body:
            handler = HANDLERS.get(type(statement))
            if handler is None:
                self.refuse(statement)
            handler(self, statement)
            if self.tracer.block.ended:
                return

    def refuse(self, node: ast.AST) -> NoReturn:
        """Say that kernels do not have this construct, and what to write instead."""
        what, hint = REFUSED[type(node)]
        self.fail(UnsupportedSyntaxError, f"{what} has no meaning in a kernel", node, hint=hint)

    # ---- variables -----------------------------------------------------------------------------

    def load(self, node: ast.Name) -> Any:
        """The value of a name: local, captured, global or builtin."""
        name = node.id
        value = self.env.get(name, _ABSENT)
        if value is _ABSENT:
            return self._load_captured(name, node)
        if isinstance(value, Unset):
            self.unset(node, value.loc)
        if isinstance(value, Poison):
            raise value.error
        return value

    def unset(self, node: ast.Name, loc: Loc | None = None) -> NoReturn:
        """Raise the error for a variable without a value."""
        place = loc and self.tracer.called(loc)
        also = (Label(place, "it is set only here"),) if place else ()
        self.fail(
            UnsetVariableError,
            f"`{node.id}` may have no value here",
            node,
            label="read here",
            also=also,
            hint=f"give `{node.id}` a value before the branch or loop that assigns it",
        )

    def _load_captured(self, name: str, node: ast.Name) -> Any:
        if name in self.locals:
            self.unset(node)
        if self.library and name in self.function.__globals__:
            return self.function.__globals__[name]
        if (cell := self.cells.get(name)) is not None:
            try:
                return self.captures.cell(name, cell)
            except ValueError:
                self.fail(UnknownNameError, f"`{name}` is not defined yet", node)
        scope = self.function.__globals__
        if name in scope:
            return self.captures.item(scope, name)
        if hasattr(builtins, name):
            return getattr(builtins, name)
        known = (*self.env, *scope)
        return self.fail(
            UnknownNameError, f"`{name}` is not defined", node, hint=did_you_mean(name, known)
        )

    def store(self, name: str, value: Any, node: ast.AST) -> None:
        """Give a local variable a value."""
        self.env[name] = value
        self.where[name] = self.source.loc(node)

    # ---- blocks ----------------------------------------------------------------------------

    def enter(self) -> Block:
        """Begin an inner region; `leave` ends it."""
        block = self.tracer.block = Block(self.tracer.block)
        if block.depth > _DEEPEST:
            self.tracer.fail(
                NestingError,
                f"branches and loops nest more than {_DEEPEST} deep",
                hint="move the inner ones into a helper function",
            )
        return block

    def leave(self) -> None:
        """Go back to the enclosing region."""
        parent = self.tracer.block.parent
        assert parent is not None
        self.tracer.block = parent


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint for a misspelt name."""
    near = difflib.get_close_matches(name, known, 1)
    return f"write `{near[0]}`" if near else None


_ABSENT: Any = object()
# below what the verifier allows, so that inlined helpers still fit
_DEEPEST = 100

Handler = Callable[[Frame, Any], Any]
HANDLERS: dict[type[ast.AST], Handler] = {}


def handles(*kinds: type[ast.AST]) -> Callable[[Handler], Handler]:
    """Register the reader of one or more kinds of tree nodes."""

    def register(handler: Handler) -> Handler:
        for kind in kinds:
            HANDLERS[kind] = handler
        return handler

    return register


def open_frame(
    tracer: Tracer, function: types.FunctionType, captures: Captures, session: Any
) -> Frame:
    """A frame for a Python function."""
    return Frame(tracer, function, source_of(function), captures, session)
