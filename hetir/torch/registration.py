"""Makes an operator of a kernel and registers it with torch.library."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from hetir import compiler, runtime
from hetir.arguments import KernelUseError
from hetir.decorator import Extents, Kernel
from hetir.diagnostics import HetirError
from hetir.frontend import STATIC
from hetir.frontend.errors import SignatureError
from hetir.ir.types import ArrayType, Scalar
from hetir.torch.batching import vmap_rule
from hetir.torch.gradients import register_backward
from hetir.torch.operator import (
    Backward,
    Operator,
    OperatorError,
    TensorError,
    Tensors,
    several,
)

# torch's stubs leave this partly unknown
_rules: Any = torch.library


def op(  # noqa: PLR0913 - the parts of an operator
    name: str,
    kernel: Kernel,
    *,
    outputs: Callable[..., Tensors] | None = None,
    grid: Callable[..., Extents],
    workgroup: Extents,
    mutates: Collection[str] = (),
    backward: Operator | Backward | None = None,
    batch: Collection[str] = (),
    autocast: torch.dtype | None = None,
) -> Operator:
    """Make an operator of a kernel, for eager mode, `torch.compile` and `torch.export`.

    Args:
        name: `namespace::name`; it becomes `torch.ops.namespace.name`.
        kernel: its parameters are the operator's inputs in order, then its outputs. Parameters
            without an annotation are tensors; numbers need one.
        outputs: takes the inputs and gives the tensors to allocate, one or a tuple; none if left
            out. It must take as many arguments as there are inputs, and may only look at shapes.
        grid: takes the inputs and gives the workgroups.
        workgroup: work-items a workgroup.
        mutates: names of inputs that the kernel writes.
        backward: another operator, whose parameters are named after those of this kernel
            (`x` an input or output, `grad_y` the gradient of output `y`) and whose outputs are
            `grad_x` for inputs; or a function of `(inputs, outputs, grads)`, three tuples, that
            gives a gradient or None for each input.
        batch: names of inputs whose first axis only groups independent rows, as it does for the
            outputs; `vmap` then folds its dimension into that axis. Without it, or where another
            input is batched, `vmap` calls the operator once an element.
        autocast: under autocast floating-point inputs are cast to this.

    Raises:
        OperatorError: the declaration is wrong.
    """
    inputs, results = _split(name, kernel, outputs)
    for given in (*mutates, *batch):
        if given not in inputs:
            raise OperatorError(f"`{given}` is no input of `{name}`", hint=f"it has {list(inputs)}")
    if mutates and backward is not None:
        raise OperatorError(
            f"`{name}` writes an input, and torch has no gradients of such operators",
            hint="return what is written as an output instead",
        )
    schema = _schema(kernel, inputs, results, frozenset(mutates))
    allocate = outputs or _nothing
    namespace, _, word = name.partition("::")
    library = _library(namespace)
    try:
        library.define(word + schema, tags=(torch.Tag.pt2_compliant_tag,))
    except RuntimeError as error:
        raise OperatorError(f"`{name}` cannot be defined: {error}") from None
    shape = _Shape(grid, compiler.dims(workgroup))
    written = [place for place, given in enumerate(inputs) if given in mutates]
    for place, start in (("CPU", _on_cpu(kernel, shape)), ("CUDA", _on_cuda(kernel, shape))):
        library.impl(word, _runner(name, kernel, allocate, shape, start, written), place)
    _rules.register_fake(name, _shapes(name, kernel, allocate, written), lib=library)
    made = Operator(
        name, schema, kernel, inputs, results, getattr(getattr(torch.ops, namespace), word)
    )
    rule = vmap_rule(made, frozenset(batch), frozenset(mutates))
    if results and not mutates:  # torch has no gradients of operators that write inputs
        register_backward(made, backward, rule, library)
    _rules.register_vmap(name, rule, lib=library)
    if autocast is not None:
        for kind in ("cpu", "cuda"):
            _rules.register_autocast(name, kind, autocast, lib=library)
    return made


def _check_written(
    name: str, kernel: Kernel, written: Sequence[int], given: Sequence[torch.Tensor]
) -> None:
    """Refuse to write what needs a gradient: the gradient would be silently wrong."""
    for place in written:
        if given[place].requires_grad and torch.is_grad_enabled():
            raise TensorError(
                f"`{name}` writes `{kernel.parameters[place]}`, which needs a gradient",
                hint="write to a copy, or under `torch.no_grad()`",
            )


def _shapes(
    name: str, kernel: Kernel, allocate: Callable[..., Tensors], written: Sequence[int]
) -> Callable[..., Any]:
    """The function that gives what the operator would return, for fake tensors."""

    def run(*given: Any) -> Any:
        _check_written(name, kernel, written, given)
        return _returned(allocate(*given))

    return run


@cache
def _library(namespace: str) -> Any:
    """The fragment that holds the operators of a namespace, kept for ever."""
    return _rules.Library(namespace, "FRAGMENT")


def _nothing(*_: Any) -> tuple[torch.Tensor, ...]:
    return ()


# ---- the declaration ---------------------------------------------------------------------


def _split(
    name: str, kernel: Kernel, outputs: Callable[..., Tensors] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The kernel's parameters that are inputs, and those that are outputs."""
    if not isinstance(kernel, Kernel):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise OperatorError(
            f"`{name}` needs a kernel, got {kernel!r}", hint="write `@hetir.kernel` above its `def`"
        )
    parts = name.split("::")
    if len(parts) != 2 or not all(part.isidentifier() for part in parts):
        raise OperatorError(f"`{name}` is no operator's name", hint='write "mylib::softmax"')
    if outputs is None:
        return kernel.parameters, ()
    takes = inspect.signature(outputs).parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.KEYWORD_ONLY) for p in takes):
        raise OperatorError(
            f"`outputs` of `{name}` must name its arguments: they say which are inputs",
            hint="write `outputs=lambda x, weight: torch.empty_like(x)`",
        )
    count = len(takes)
    if count >= len(kernel.parameters):
        raise OperatorError(
            f"`outputs` of `{name}` takes {count} inputs, which leaves no parameter of "
            f"`{kernel.name}` for an output",
            hint=f"its parameters are {', '.join(kernel.parameters)}: inputs first, then outputs",
        )
    return kernel.parameters[:count], kernel.parameters[count:]


_WORDS = {"bool": "bool", "int": "int", "uint": "int", "float": "float"}


def _schema(
    kernel: Kernel, inputs: Sequence[str], results: Sequence[str], mutates: frozenset[str]
) -> str:
    """`(Tensor x, float eps) -> Tensor`."""
    arguments: list[str] = []
    for place, given in enumerate(inputs):
        declared = kernel.declared[given].annotation
        if declared is STATIC:
            arguments.append(f"int {given}")
        elif isinstance(declared, Scalar):
            arguments.append(f"{_WORDS.get(declared.kind, 'float')} {given}")
        elif declared is None or isinstance(declared, ArrayType):
            mark = f"(a{place}!)" if given in mutates else ""
            arguments.append(f"Tensor{mark} {given}")
        else:
            raise OperatorError(
                f"`{given}` of `{kernel.name}` has a type that a schema has no word for",
                hint="pass tensors and numbers",
            )
    many = ", ".join("Tensor" for _ in results)
    return f"({', '.join(arguments)}) -> {many if len(results) == 1 else f'({many})'}"


# ---- running -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Shape:
    grid: Callable[..., Extents]
    workgroup: tuple[int, int, int]


def _returned(given: Tensors) -> Any:
    """What the operator returns of what `outputs` made."""
    if isinstance(given, torch.Tensor):
        return given
    return given[0] if len(given) == 1 else (tuple(given) or None)


def _plain(value: Any) -> Any:
    """An argument as a launch takes it, without its gradient."""
    if isinstance(value, torch.Tensor) and value.requires_grad:
        return value.detach()
    return value


def _runner(
    name: str,
    kernel: Kernel,
    allocate: Callable[..., Tensors],
    shape: _Shape,
    start: Callable[[list[Any], tuple[int, int, int]], None],
    written: Sequence[int],
) -> Callable[..., Any]:
    """An implementation: allocates, and starts the kernel where there is something to do.

    `written` are the places of inputs that the kernel writes.
    """

    def run(*given: Any) -> Any:
        _check_written(name, kernel, written, given)
        made = allocate(*given)
        if len(given) + len(several(made)) != len(kernel.parameters):
            raise OperatorError(
                f"`outputs` of `{name}` gave {len(several(made))} tensors",
                hint=f"its outputs are {', '.join(kernel.parameters[len(given) :])}",
            )
        values = [_plain(v) for v in (*given, *several(made))]
        grid = compiler.dims(shape.grid(*given))
        if 0 not in grid:
            try:
                start(values, grid)
            except (SignatureError, KernelUseError, runtime.ArgumentError) as error:
                raise _unlike(name, error, values) from None
            for place in written:
                torch.autograd.graph.increment_version(given[place])
        return _returned(made)

    return run


def _unlike(name: str, error: HetirError, values: Sequence[Any]) -> TensorError:
    """The error of a tensor that the kernel does not take, in torch's words."""
    devices = {str(v.device) for v in values if isinstance(v, torch.Tensor)}
    if len(devices) > 1:
        shown = " and ".join(sorted(devices))
        return TensorError(f"`{name}`: tensors lie on {shown}", hint="move them: `x.to(device)`")
    return TensorError(
        f"`{name}`: {error.message}", *error.labels, hint="convert it, as `x.to(torch.float32)` or "
        "`x.reshape(...)` does",
    )  # fmt: skip


# what tensor.numpy() shows as it is; other types take the launch's own way
_NUMPY = frozenset({
    torch.float32, torch.float64, torch.float16, torch.bool, torch.uint8,
    torch.int8, torch.int16, torch.int32, torch.int64,
})  # fmt: skip


def _on_cpu(kernel: Kernel, shape: _Shape) -> Callable[[list[Any], tuple[int, int, int]], None]:
    bound: dict[tuple[int, int, int], Callable[..., None]] = {}

    def start(values: list[Any], grid: tuple[int, int, int]) -> None:
        launch = bound.get(grid)
        if launch is None:
            if len(bound) > 1000:
                bound.clear()
            launch = bound[grid] = kernel[grid, shape.workgroup]
        launch(*[_host(value) for value in values])

    return start


def _host(value: Any) -> Any:
    """A tensor as a NumPy array, the quick way where there is one."""
    if isinstance(value, torch.Tensor) and value.dtype in _NUMPY and type(value) in _KINDS:
        try:
            return value.numpy()
        except (RuntimeError, TypeError):
            return value
    return value


_KINDS = (torch.Tensor, torch.nn.Parameter)


def _on_cuda(kernel: Kernel, shape: _Shape) -> Callable[[list[Any], tuple[int, int, int]], None]:
    """On torch's current stream; nothing waits."""

    def start(values: list[Any], grid: tuple[int, int, int]) -> None:
        place = next(v.device for v in values if isinstance(v, torch.Tensor))
        device = runtime.device(f"cuda:{place.index or 0}")
        queue = device.borrow(torch.cuda.current_stream(place).cuda_stream)
        kernel.launch(values, grid=grid, workgroup=shape.workgroup, device=device, queue=queue)

    return start
