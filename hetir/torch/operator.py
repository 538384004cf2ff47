"""An operator as an object, and its errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from hetir.decorator import Kernel
from hetir.diagnostics import CompileError, LaunchError

Tensors = torch.Tensor | tuple[torch.Tensor, ...]
Backward = Callable[..., Any]

# torch's stubs leave this partly unknown
_torch: Any = torch


class OperatorError(CompileError):
    """An operator is declared in a way that it cannot be.

    Cause: a name without a namespace, a parameter whose type a schema has no word for, or rules
    that do not fit the kernel's parameters. Fix: as the message says.
    """

    code = "HET540"


class TensorError(LaunchError):
    """A tensor is not what an operator takes.

    Cause: another element type or rank than the kernel's annotation says, tensors on two devices,
    or a gradient that is asked of an operator without a backward. Fix: as the hint says.
    """

    code = "HET541"


FUNCTIONS: dict[str, Any] = {}
"""What `torch.func` differentiates, by the operator's name."""
transforms_active: Callable[[], bool] = _torch._C._are_functorch_transforms_active


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """A registered operator; calling it calls `torch.ops.<namespace>.<name>`.

    Attributes:
        name: `namespace::name`.
        schema: as torch.library has it.
        kernel: what runs.
        inputs: the names of the kernel's parameters that are inputs; `results` the others.
    """

    name: str
    schema: str
    kernel: Kernel
    inputs: tuple[str, ...]
    results: tuple[str, ...]
    call: Callable[..., Any]

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """One output as a tensor, several as a tuple."""
        if not torch.compiler.is_compiling() and transforms_active() and self.name in FUNCTIONS:
            rest = (named[given] for given in self.inputs[len(arguments) :])
            return FUNCTIONS[self.name].apply(*arguments, *rest)
        return self.call(*arguments, **named)

    def __repr__(self) -> str:
        return f"<hetir operator {self.name}{self.schema}>"


def several(given: Tensors) -> tuple[torch.Tensor, ...]:
    """What an operator returns, or `outputs` gives, as a tuple."""
    return (given,) if isinstance(given, torch.Tensor) else tuple(given)
