"""Kernels as PyTorch operators: `hetir.torch.op` on torch.library.

An operator takes the kernel's parameters in order, but for the last ones, which are its outputs.
It has implementations for the CPU and for CUDA (on torch's current stream, without waiting), a
shape function for `torch.compile` and `torch.export`, and where they are given a backward, a rule
for `vmap` and one for autocast.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any, cast

import torch

import hetir.lang as hl
from hetir import compiler, decorator, runtime
from hetir.arguments import KernelUseError
from hetir.decorator import Extents, Kernel
from hetir.diagnostics import CompileError, HetirError, LaunchError
from hetir.frontend import STATIC
from hetir.frontend.errors import SignatureError
from hetir.ir.types import ArrayType, Scalar

__all__ = ["OperatorError", "TensorError", "kernel_from", "op"]

Tensors = torch.Tensor | tuple[torch.Tensor, ...]
Backward = Callable[..., Any]

# torch's stubs leave these partly unknown
_rules: Any = torch.library
_torch: Any = torch
_forward: Any = torch.autograd.forward_ad


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


_FUNCTIONS: dict[str, Any] = {}
"""What `torch.func` differentiates, by the operator's name."""
_transforms_active: Callable[[], bool] = _torch._C._are_functorch_transforms_active


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
        if not torch.compiler.is_compiling() and _transforms_active() and self.name in _FUNCTIONS:
            rest = (named[given] for given in self.inputs[len(arguments) :])
            return _FUNCTIONS[self.name].apply(*arguments, *rest)
        return self.call(*arguments, **named)

    def __repr__(self) -> str:
        return f"<hetir operator {self.name}{self.schema}>"


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
    rule = _vmap(made, frozenset(batch), frozenset(mutates))
    if results and not mutates:  # torch has no gradients of operators that write inputs
        _register_backward(made, backward, rule, library)
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


def _several(given: Tensors) -> tuple[torch.Tensor, ...]:
    return (given,) if isinstance(given, torch.Tensor) else tuple(given)


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
        if len(given) + len(_several(made)) != len(kernel.parameters):
            raise OperatorError(
                f"`outputs` of `{name}` gave {len(_several(made))} tensors",
                hint=f"its outputs are {', '.join(kernel.parameters[len(given) :])}",
            )
        values = [_plain(v) for v in (*given, *_several(made))]
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


# ---- gradients ---------------------------------------------------------------------------


def _register_backward(
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
        if _transforms_active():
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
    _FUNCTIONS[made.name] = type(
        made.name, (derivative,), {name: staticmethod(part) for name, part in parts.items()}
    )


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Save what a backward takes."""
    results = _several(output)
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
    by_name = dict(zip(backward.results, _several(found), strict=True))
    return tuple(by_name.get(f"grad_{n}") for n in made.inputs)


# ---- vmap --------------------------------------------------------------------------------


def _vmap(made: Operator, rows: frozenset[str], mutates: frozenset[str]) -> Callable[..., Any]:
    """The rule for vmap; `rows` are inputs whose first axis may hold more rows."""

    def rule(info: Any, places: tuple[int | None, ...], *given: Any) -> tuple[Any, Any]:
        size = info.batch_size
        moved = [
            v if p is None or not isinstance(v, torch.Tensor) else v.movedim(p, 0)
            for v, p in zip(given, places, strict=True)
        ]
        batched = frozenset(n for n, p in zip(made.inputs, places, strict=True) if p is not None)
        if shared := mutates - batched:
            raise TensorError(
                f"`{made.name}` writes `{min(shared)}`, which vmap does not batch",
                hint="batch it, too: each element writes its own",
            )
        if size and batched and batched == rows and not mutates:
            found = _folded(made, batched, size, moved)
        else:
            found = _one_by_one(made, batched, size, moved)
        if not found:
            return None, None
        if len(found) == 1:
            return found[0], 0
        return tuple(found), tuple(0 for _ in found)

    return rule


def _folded(made: Operator, batched: frozenset[str], size: int, moved: Sequence[Any]) -> list[Any]:
    """One call with all rows."""
    folded = [
        v.reshape(size * v.shape[1], *v.shape[2:]) if n in batched else v
        for n, v in zip(made.inputs, moved, strict=True)
    ]
    results: Sequence[Any] = _several(made(*folded))
    return [r.reshape(size, r.shape[0] // size, *r.shape[1:]) for r in results]


def _one_by_one(
    made: Operator, batched: frozenset[str], size: int, moved: Sequence[Any]
) -> list[Any]:
    """A call an element; for none the shapes are those for an element of zeros."""

    def call(pick: Callable[[Any], Any]) -> tuple[Any, ...]:
        values = [pick(v) if n in batched else v for n, v in zip(made.inputs, moved, strict=True)]
        result = made(*values)
        return _several(result) if made.results else ()

    if not size:
        return [r.new_empty((0, *r.shape)) for r in call(lambda v: v.new_zeros(v.shape[1:]))]
    each = [call(lambda v, i=i: v[i]) for i in range(size)]
    return [_torch.stack(one) for one in zip(*each, strict=True)]


# ---- element-wise functions --------------------------------------------------------------


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
