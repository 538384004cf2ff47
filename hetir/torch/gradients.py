"""Gradients of operators: for autograd, and for what `torch.func` transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch

from hetir.torch.operator import (
    FUNCTIONS,
    Backward,
    Operator,
    OperatorError,
    TensorError,
    several,
    transforms_active,
)

# torch's stubs leave these partly unknown
_torch: Any = torch
_forward: Any = torch.autograd.forward_ad


def register_backward(
    made: Operator, backward: Operator | Backward | None, rule: Callable[..., Any], library: Any
) -> None:
    """Say how gradients are made: for `torch.func`, and where torch dispatches to autograd."""
    if isinstance(backward, Operator):
        _check_backward(made, backward)
    derivative = _derivative(made, backward)

    def below(*inputs: Any) -> Any:
        with _torch._C._AutoDispatchBelowAutograd():
            return made.call(*inputs)

    def forward(ctx: Any, *inputs: Any) -> Any:
        output = below(*inputs)
        _keep(ctx, inputs, output)
        return output

    def autograd(*inputs: Any) -> Any:
        if transforms_active():
            raise TensorError(
                f"`torch.ops` knows no derivative of `{made.name}` for torch.func",
                hint="call the operator that `hetir.torch.op` gave you instead",
            )
        tensors = [v for v in inputs if isinstance(v, torch.Tensor)]
        needed = torch.is_grad_enabled() and any(v.requires_grad for v in tensors)
        if needed or any(_forward.unpack_dual(v).tangent is not None for v in tensors):
            return function.apply(*inputs)
        return below(*inputs)

    # torch binds arguments anew in each call of a function that sets its context up by itself
    function: Any = type(f"{made.name} below", (derivative,), {"forward": staticmethod(forward)})
    library.impl(made.name.partition("::")[2], autograd, "Autograd")
    # a level of transforms after another: the call goes on with those that are left
    parts = {"forward": made, "setup_context": _keep, "vmap": rule}
    FUNCTIONS[made.name] = type(
        made.name, (derivative,), {name: staticmethod(part) for name, part in parts.items()}
    )


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Save what a backward takes."""
    results = several(output)
    tensors = [v for v in (*inputs, *results) if isinstance(v, torch.Tensor)]
    ctx.save_for_backward(*tensors)
    ctx.numbers = [None if isinstance(v, torch.Tensor) else v for v in inputs]
    ctx.set_materialize_grads(True)


def _derivative(
    made: Operator, backward: Operator | Backward | None
) -> type[torch.autograd.Function]:
    """What an autograd function of the operator has but for its `forward`."""

    class Derivative(torch.autograd.Function):
        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
            saved = iter(ctx.saved_tensors)
            inputs = tuple(next(saved) if v is None else v for v in ctx.numbers)
            outputs = tuple(saved)
            if isinstance(backward, Operator):
                return _by_operator(made, backward, inputs, outputs, grads)
            if backward is None:
                raise TensorError(
                    f"`{made.name}` has no backward", hint="give one: `op(..., backward=...)`"
                )
            found = backward(inputs, outputs, grads)
            if isinstance(found, tuple | list):
                return tuple(cast("Sequence[Any]", found))
            return (found,)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            raise TensorError(
                f"`{made.name}` has no forward-mode derivative",
                hint="use reverse mode: `torch.func.vjp`, `grad` or `jacrev`",
            )

    return Derivative


def _check_backward(made: Operator, backward: Operator) -> None:
    """Refuse parameters that no value has the name of."""
    known = {*made.inputs, *made.results, *(f"grad_{n}" for n in made.results)}
    for given in backward.inputs:
        if given not in known:
            raise OperatorError(
                f"`{given}` of the backward `{backward.name}` names nothing of `{made.name}`",
                hint=f"it may take {', '.join(sorted(known))}",
            )
    for given in backward.results:
        if given.removeprefix("grad_") not in made.inputs or not given.startswith("grad_"):
            raise OperatorError(
                f"`{given}` of the backward `{backward.name}` is no gradient of an input",
                hint=f"call it {', '.join(f'grad_{n}' for n in made.inputs)}",
            )


def _by_operator(
    made: Operator,
    backward: Operator,
    inputs: tuple[Any, ...],
    outputs: tuple[torch.Tensor, ...],
    grads: tuple[torch.Tensor, ...],
) -> tuple[Any, ...]:
    values = dict(zip((*made.inputs, *made.results), (*inputs, *outputs), strict=True))
    values |= {f"grad_{n}": g for n, g in zip(made.results, grads, strict=True)}
    found = backward(*(values[n] for n in backward.inputs))
    by_name = dict(zip(backward.results, several(found), strict=True))
    return tuple(by_name.get(f"grad_{n}") for n in made.inputs)
