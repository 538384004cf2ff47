"""What makes a Python function part of the kernel language."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from hetir.diagnostics import OutsideKernelError
from hetir.frontend.tracer import Tracer, active

P = ParamSpec("P")
R = TypeVar("R")


def primitive(function: Callable[P, R]) -> Callable[P, R]:
    """A function that the frontend calls with kernel values, and that emits ops itself."""
    name = function.__name__

    @functools.wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        if active() is None:
            raise OutsideKernelError(name)
        return function(*arguments, **named)

    call.__dict__["__hetir_primitive__"] = function
    return call


def current() -> Tracer:
    """The tracer that a primitive emits into."""
    tracer = active()
    assert tracer is not None
    return tracer


class Func:
    """A helper function written in the kernel language; see `func`."""

    def __init__(self, function: Callable[..., Any], *, library: bool = False) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._library = library

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Run it as ordinary Python, which the functions of `hl` refuse."""
        if self._library:
            raise OutsideKernelError(self.function.__name__)
        return self.function(*arguments, **named)


class Elementary(Func):
    """A function of floats in the kernel language, written for `f32` and `f64`.

    Arguments become their common type; integers become `f32`, and `f16` and `bf16` are
    computed through `f32` and rounded once.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, library=True)


def func(function: Callable[..., Any]) -> Func:
    """Mark a helper of kernels. Plain Python functions work as helpers too."""
    return Func(function)


def elementary(function: Callable[P, R]) -> Callable[P, R]:
    """A mathematical function of `hl`, written in the kernel language; see `Elementary`."""
    return Elementary(function)  # pyright: ignore[reportReturnType]


def library(function: Callable[P, R]) -> Callable[P, R]:
    """A function of `hl` that is itself written in the kernel language and read like a helper."""
    return Func(function, library=True)  # pyright: ignore[reportReturnType]
