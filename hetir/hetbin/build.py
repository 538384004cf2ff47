"""Makes the contents of a hetbin: kernels specialised, and compiled for several targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from hetir import compiler, runtime
from hetir.artifact import Artifact
from hetir.compiler import Dims, Source
from hetir.diagnostics import CompileError
from hetir.frontend import Argument, Static, Tuple, VectorType, Weak, parse_signature
from hetir.hetbin.errors import HetbinError
from hetir.hetbin.model import STATIC, Parameter, Payload, Point, Specialisation, axes_of
from hetir.hetbin.portable import portable
from hetir.ir import ops
from hetir.ir.binary import encode as encode_module
from hetir.ir.canonical import canonicalise
from hetir.ir.core import Kernel, Module, walk
from hetir.ir.types import ArrayType, Scalar
from hetir.passes.layout import layout_of
from hetir.passes.safe_points import NotCheckpointableError, place
from hetir.passes.simplify import simplify
from hetir.target import Assumptions

CPUS = ("cpu:x86-64", "cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:aarch64")
"""The CPU targets that a loader can tell from a machine."""

Tell = Callable[[str], object]


def specialise(
    kernel: Source,
    signature: str | tuple[Argument, ...] | None,
    targets: Sequence[str],
    workgroups: Sequence[Dims | None],
    folder: Path,
    tell: Tell = lambda _: None,
) -> list[Specialisation]:
    """A kernel for one signature, compiled for each target.

    Without a signature the annotations decide, once for contiguous arrays and once for any.

    Args:
        kernel: a `@hetir.kernel` function.
        signature: types of the parameters, as `hetir.compile` takes them.
        targets: names of `hetir targets`.
        workgroups: the sizes to compile for; None is code for any.
        folder: file names in the hetbin are relative to it.
        tell: gets a line for each compilation that begins.

    Raises:
        CompileError: the kernel is wrong, or asks for more than a target has.
        HetbinError: a target is not portable.
    """
    check_targets(targets)
    if signature is not None:
        given = signature
        if isinstance(given, str):
            given = (*map(Static, kernel.bound), *parse_signature(given))
        return [_made(kernel, given, targets, workgroups, folder, tell)]
    anyhow = kernel.annotated()
    contiguous = tuple(map(_contiguous, anyhow))
    found = [_made(kernel, contiguous, targets, workgroups, folder, tell)]
    if contiguous != anyhow:
        found.append(_made(kernel, anyhow, targets, (None,), folder, tell, plain=True))
    return found


def check_targets(targets: Sequence[str]) -> None:
    """Refuse a target that means one machine, or stands twice."""
    for number, target in enumerate(targets):
        family = target.partition(":")[0]
        if family == "cpu" and target not in CPUS:
            raise HetbinError(
                f"`{target}` is not portable: no loader can tell whether a machine has it",
                hint=f"write one of {', '.join(CPUS)}",
            )
        if family == "hetir":
            raise HetbinError("every hetbin has its hetIR", hint="leave `--target hetir` out")
        if target in targets[:number]:
            raise HetbinError(f"target `{target}` is given twice", hint="leave one out")


def _contiguous(argument: Argument) -> Argument:
    if not isinstance(argument, ArrayType) or argument.strides or not argument.ndim:
        return argument
    return replace(argument, strides=(*(None,) * (argument.ndim - 1), 1))


def _made(
    kernel: Source,
    arguments: tuple[Argument, ...],
    targets: Sequence[str],
    workgroups: Sequence[Dims | None],
    folder: Path,
    tell: Tell,
    *,
    plain: bool = False,
) -> Specialisation:
    traced = compiler.prepare(compiler.record(kernel, arguments).module)
    names = (*("self" for _ in kernel.bound), *kernel.parameters)
    shown = [Parameter(name=n, type=_shown(a)) for n, a in zip(names, arguments, strict=True)]
    carried = portable(traced, folder)
    described = compiler.describe(carried, "", None)
    payloads: list[Payload] = []
    for target in targets:
        for size in workgroups:
            tell(f"{kernel.name}({', '.join(p.type for p in shown)}) for {target}"
                 + (f", workgroup {'x'.join(map(str, size))}" if size else ""))  # fmt: skip
            for promised in _promises(carried, target, plain=plain):
                artifact = _lower(traced, carried, target, size, promised)
                assert _places(artifact) == _places(described), "a backend has its own block"
                payloads.append(Payload(artifact=_bare(artifact), assumptions=promised))
    return Specialisation(
        name=kernel.name,
        parameters=tuple(shown),
        layout=described.layout,
        axes=axes_of(carried),
        module=encode_module(Module(kernels=(carried,))),
        payloads=tuple(payloads),
        subgroup_size=carried.options.width,
        cooperative=carried.options.cooperative,
        reproducible=described.reproducible,
        irreproducible_reason=described.irreproducible_reason,
        loc=carried.loc,
        points=tuple(_points(carried)),
    )


def _places(artifact: Artifact) -> tuple[object, ...]:
    """The argument block, without what its arrays are used for: a backend may know better."""
    layout = artifact.layout
    return layout.size, [(s.offset, s.source, s.dtype, s.ndim) for s in layout.slots]


def _promises(kernel: Kernel, target: str, *, plain: bool) -> list[Assumptions]:
    """The best that launches can promise, where the target's code is better for it, and nothing."""
    layout = layout_of(kernel)
    most = compiler.fact_mask(target, len(layout.slots)) & ~(runtime.WIDE | runtime.MEETS)
    arrays = [runtime.aligned_bit(n) for n, s in enumerate(layout.slots) if s.ndim is not None]
    best = compiler.promised(most & sum(arrays), layout, target)
    nothing = Assumptions()
    return [nothing] if plain or best == nothing else [best, nothing]


def _lower(
    traced: Kernel, carried: Kernel, target: str, workgroup: Dims | None, promised: Assumptions
) -> Artifact:
    """Compile the portable form; an error is about the lines of the source."""
    try:
        return compiler.lower(carried, target, workgroup, promised)
    except CompileError:
        compiler.lower(traced, target, workgroup, promised)
        raise


def _bare(artifact: Artifact) -> Artifact:
    """The artifact without text that only shows what its binary holds."""
    family = artifact.target.partition(":")[0]
    return replace(artifact, text="") if family in ("cpu", "spirv") else artifact


def _shown(argument: Argument) -> str:
    """A type as a signature spells it."""
    match argument:
        case ArrayType():
            axes = (":1" if stride == 1 else "" for stride in argument.strides or ())
            spelt = [f":{axis}" for axis in axes] or [":"] * argument.ndim
            return f"{argument.element}[{', '.join(spelt)}]"
        case Scalar() | VectorType():
            return str(argument)
        case Weak():
            return argument.kind
        case Static(value) if _is_plain(value):
            return f"{STATIC}{value!r}"
        case Tuple() if not any(isinstance(field, Static) for field in argument.fields):
            return f"{argument.cls.__name__}({', '.join(map(_shown, argument.fields))})"
        case _:
            raise HetbinError(
                f"a hetbin cannot hold the constant `{argument}`",
                hint="numbers, strings and tuples of them are constants that can be told again",
            )


def _is_plain(value: object) -> bool:
    """Whether equal values have one spelling, by which a launch knows the constant again."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))  # pyright: ignore[reportUnknownArgumentType]
    return value is None or isinstance(value, bool | int | float | str)


def _points(kernel: Kernel) -> Iterator[Point]:
    """Where the kernel orders memory, and where it can be stopped."""
    for op in walk(kernel.body):
        order, scope = op.attrs.get("order"), op.attrs.get("scope")
        if op.spec is ops.BARRIER:
            yield Point(kind="barrier", text=f"{op.name} {scope}", loc=op.loc)
        elif order is not None and (op.spec is ops.FENCE or order != "relaxed"):
            yield Point(kind="fence", text=f"{op.name} {order} {scope}", loc=op.loc)
    try:
        stops = place(canonicalise(simplify(kernel)))
    except NotCheckpointableError:
        return
    for op in walk(stops.body):
        if op.spec is ops.SAFE_POINT:
            yield Point(kind="safe point", text=str(op.attrs["id"]), loc=None)
