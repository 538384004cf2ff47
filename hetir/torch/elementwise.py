"""Operators of element-wise functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch

import hetir.lang as hl
from hetir import decorator
from hetir.decorator import Kernel
from hetir.torch.operator import Backward, Operator, OperatorError, TensorError
from hetir.torch.registration import op

# torch's stubs leave this partly unknown
_torch: Any = torch


def kernel_from(
    function: Callable[..., Any],
    name: str,
    *,
    backward: Operator | Backward | None = None,
    workgroup: int = 256,
) -> Callable[..., torch.Tensor]:
    """A function on tensors, of an element-wise one of one to four numbers in a kernel's words.

    Inputs are broadcast against each other and promoted as torch does; the result has that type.

    Args:
        function: for example `lambda` is refused: a `def f(a, b): return hl.exp(a) * b`.
        name: `namespace::name`.
        backward: as for `op`.
        workgroup: work-items a workgroup.
    """
    count = len(inspect.signature(function).parameters)
    if not 1 <= count <= len(_ELEMENTWISE):
        raise OperatorError(f"`{name}` takes 1 to {len(_ELEMENTWISE)} numbers, got {count}")
    kernel = _ELEMENTWISE[count - 1](function)
    allocate = _LIKE[count - 1]
    inner = op(
        f"{name}_flat",
        kernel,
        outputs=allocate,
        grid=lambda *given: -(-given[0].numel() // workgroup),
        workgroup=workgroup,
        backward=backward,
        batch=kernel.parameters[:count],
    )

    def call(*given: torch.Tensor) -> torch.Tensor:
        kind = _promoted(name, given)
        wide: Sequence[torch.Tensor] = _torch.broadcast_tensors(*(v.to(kind) for v in given))
        return inner(*(v.reshape(-1) for v in wide)).reshape(wide[0].shape)

    return call


def _promoted(name: str, given: Sequence[Any]) -> torch.dtype:
    """The type that torch promotes tensors to: those without axes count less."""
    for value in given:
        if not isinstance(value, torch.Tensor):
            raise TensorError(
                f"`{name}` takes tensors, got {value!r}", hint="write `torch.tensor(...)` around it"
            )
    groups = [[v for v in given if v.ndim], [v for v in given if not v.ndim]]
    merged: list[Any] = [
        _torch.empty((1,) * (not place), dtype=reduce(torch.promote_types, [v.dtype for v in some]))
        for place, some in enumerate(groups)
        if some
    ]
    return torch.result_type(merged[0], merged[-1])


# `outputs` of functions of one to four numbers: the arguments say how many


def _like_one(a: Any) -> torch.Tensor:
    return _torch.empty_like(a)


def _like_two(a: Any, b: Any) -> torch.Tensor:
    return _torch.empty_like(a)


def _like_three(a: Any, b: Any, c: Any) -> torch.Tensor:
    return _torch.empty_like(a)


def _like_four(a: Any, b: Any, c: Any, d: Any) -> torch.Tensor:
    return _torch.empty_like(a)


def _one(f: Callable[..., Any]) -> Kernel:
    @decorator.kernel
    def elementwise(a: Any, y: Any) -> None:
        i = hl.global_id(0)
        if i < y.shape[0]:
            y[i] = f(a[i])

    return elementwise


def _two(f: Callable[..., Any]) -> Kernel:
    @decorator.kernel
    def elementwise(a: Any, b: Any, y: Any) -> None:
        i = hl.global_id(0)
        if i < y.shape[0]:
            y[i] = f(a[i], b[i])

    return elementwise


def _three(f: Callable[..., Any]) -> Kernel:
    @decorator.kernel
    def elementwise(a: Any, b: Any, c: Any, y: Any) -> None:
        i = hl.global_id(0)
        if i < y.shape[0]:
            y[i] = f(a[i], b[i], c[i])

    return elementwise


def _four(f: Callable[..., Any]) -> Kernel:
    @decorator.kernel
    def elementwise(a: Any, b: Any, c: Any, d: Any, y: Any) -> None:
        i = hl.global_id(0)
        if i < y.shape[0]:
            y[i] = f(a[i], b[i], c[i], d[i])

    return elementwise


_ELEMENTWISE = (_one, _two, _three, _four)
_LIKE = (_like_one, _like_two, _like_three, _like_four)
