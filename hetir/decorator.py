"""`@hetir.kernel`: a Python function that launches on a device, specialised by its arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from hetir import compiler, limits, records, runtime
from hetir.arguments import KernelUseError, argument_of, kind_of, static_key
from hetir.artifact import Artifact
from hetir.compiler import Dims
from hetir.diagnostics import CompileError
from hetir.frontend import (
    STATIC,
    Argument,
    Static,
    VectorType,
    parameters,
)
from hetir.ir.core import Options
from hetir.ir.types import ArrayType, Scalar
from hetir.lazy import lazy
from hetir.passes.layout import layout_of
from hetir.specialisation import Compiled, Place, Specialisation
from hetir.target import Assumptions

if TYPE_CHECKING:
    from hetir import checkpoint as stopping
else:  # few launches need it
    stopping = lazy("hetir.checkpoint")

Extents = int | tuple[int, ...]

# objects whose methods a kernel remembers as kernels of their own
_MOST_OBJECTS = 32


class OptionError(CompileError):
    """An option of `@hetir.kernel` has a value that it cannot have.

    Cause: a misspelling, or a width that is no power of two. Fix: a value that the message lists.
    """

    code = "HET521"


_CHOICES = {
    "math": ("reproducible", "native"),
    "memory_model": ("drf", "sc"),
    "fences": ("local", "checked"),
}


def kernel(  # noqa: PLR0913 - the options of the contract
    function: Callable[..., None] | None = None,
    /,
    *,
    subgroup_size: int | None = None,
    math: str = "reproducible",
    debug: bool = False,
    memory_model: str = "drf",
    cooperative: bool = False,
    fences: str = "local",
    grid: Extents | Callable[..., Extents] | None = None,
    workgroup: Extents | None = None,
) -> Any:
    """Make a kernel of a Python function: `@hetir.kernel` or `@hetir.kernel(...)`.

    Args:
        function: the kernel's body; every work-item of the grid runs it.
        subgroup_size: pins the logical subgroup width (a power of two, 1 to 128); 32 if not.
        math: `"reproducible"` (the same bits everywhere) or `"native"`.
        debug: check every index while the kernel runs, and `hl.assert_`.
        memory_model: `"drf"` (the kernel states orders and scopes) or `"sc"`.
        cooperative: all workgroups run at once, so that grid barriers are allowed.
        fences: `"local"` (only weakenings with an unbounded proof) or `"checked"`.
        grid: the usual grid, or a function of the arguments that gives it.
        workgroup: the usual workgroup; with both, `kernel(arguments...)` launches.

    Raises:
        OptionError: an option has a value that it cannot have.
    """
    for name, value in (("math", math), ("memory_model", memory_model), ("fences", fences)):
        if value not in _CHOICES[name]:
            raise OptionError(
                f"`{name}` must be {' or '.join(map(repr, _CHOICES[name]))}, got {value!r}"
            )
    width = subgroup_size
    if width is not None and width not in (1, 2, 4, 8, 16, 32, 64, 128):
        raise OptionError(
            f"`subgroup_size` must be a power of two from 1 to 128, got {width!r}",
            hint="most devices have 32; 8, 16 and 64 are emulated where they are missing",
        )
    options = Options(
        subgroup_size=subgroup_size,
        math=math,
        debug=debug,
        memory_model=memory_model,
        cooperative=cooperative,
        fences=fences,
    )

    def make(f: Callable[..., None]) -> Kernel:
        if isinstance(f, Kernel) or not inspect.isroutine(f):
            raise OptionError(
                f"`@hetir.kernel` makes a kernel of a function, got {f!r}",
                hint="put it once, above a `def`",
            )
        if hasattr(f, "__wrapped__"):
            raise OptionError(
                f"`@hetir.kernel` has another decorator between it and the `def` of `{f.__name__}`",
                hint="put `@hetir.kernel` on the line above `def`",
            )
        return Kernel(f, options, grid=grid, workgroup=workgroup)

    return make if function is None else make(function)


class Kernel:
    """A kernel; made by `@hetir.kernel`.

    Another decorator above `@hetir.kernel` gets this object; what it returns in its place is no
    kernel, and `hetir.compile` and `hetir.check` say so.

    `kernel[grid, workgroup](arguments...)` launches on the CPU and waits; `launch` chooses
    the device and does not wait. Specialisations are made when new argument types come.
    """

    def __init__(
        self,
        function: Callable[..., None],
        options: Options,
        *,
        grid: Extents | Callable[..., Extents] | None = None,
        workgroup: Extents | None = None,
        bound: tuple[object, ...] = (),
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.options = options
        self.name: str = getattr(function, "__name__", "kernel")
        self.declared = {p.name: p for p in parameters(function)[len(bound) :]}
        self.parameters = tuple(self.declared)
        self._grid = grid
        self._workgroup = workgroup
        self.bound = bound
        self._kinds = bytes(map(kind_of, self.declared.values()))
        self._specialisations: dict[object, Specialisation] = {}
        self._lock = runtime.ForkSafeLock()
        self._key_of: Callable[..., object] | None = None
        self._signature = inspect.Signature(
            [
                inspect.Parameter(
                    p.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=p.default
                )
                for p in self.declared.values()
            ]
        )
        self._methods: dict[int, Kernel] = {}

    def __repr__(self) -> str:
        return f"<hetir.kernel {self.name}({', '.join(self.parameters)})>"

    def __get__(self, instance: object, owner: type | None = None) -> Kernel:
        """A method as a kernel: the object is a compile-time constant."""
        if instance is None:
            return self
        found = self._methods.pop(id(instance), None)
        if found is None or found.bound[0] is not instance:
            found = Kernel(
                self.function,
                self.options,
                grid=self._grid,
                workgroup=self._workgroup,
                bound=(instance,),
            )
        # each keeps its object alive: the ones that were used last
        self._methods[id(instance)] = found
        if len(self._methods) > _MOST_OBJECTS:
            self._methods.pop(next(iter(self._methods)), None)
        return found

    @property
    def specialisations(self) -> tuple[Specialisation, ...]:
        """What the kernel was traced and compiled for so far; `print` shows each in words."""
        return tuple(self._specialisations.values())

    def __getitem__(self, shape: tuple[Extents, Extents]) -> Callable[..., None]:
        """`kernel[grid, workgroup]`: each an int or a tuple of one to three."""
        if not isinstance(shape, tuple) or len(shape) != 2:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise KernelUseError(
                f"`{self.name}[...]` takes grid and workgroup",
                hint=f"write {self.name}[groups, items](...), or [(gx, gy), (wx, wy)]",
            )
        grid, workgroup = compiler.dims(shape[0]), compiler.dims(shape[1])
        return functools.partial(self._run, grid, workgroup)

    def __call__(self, *arguments: Any, **named: Any) -> None:
        """Launch with the usual shape given to `@hetir.kernel(grid=..., workgroup=...)`."""
        values = self.bind(arguments, named)
        grid, workgroup = self.launch_shape(dict(zip(self.parameters, values, strict=True)))
        self._run(grid, workgroup, *values)

    def launch_shape(
        self,
        arguments: Mapping[str, Any],
        grid: Extents | None = None,
        workgroup: Extents | None = None,
    ) -> tuple[Dims, Dims]:
        """The grid and workgroup of a launch: those given, else the kernel's usual ones."""
        if grid is None:
            grid = self._grid(**arguments) if callable(self._grid) else self._grid
        if workgroup is None:
            workgroup = self._workgroup
        for what, given in (("grid", grid), ("workgroup", workgroup)):
            if given is None:
                raise KernelUseError(
                    f"the launch of `{self.name}` has no {what}",
                    hint=f"write {self.name}[grid, workgroup](...), or state it in "
                    f"@hetir.kernel({what}=...)",
                )
        assert grid is not None
        assert workgroup is not None
        return compiler.dims(grid), compiler.dims(workgroup)

    def launch(
        self,
        arguments: Sequence[Any] | Mapping[str, Any] = (),
        *,
        grid: Extents | Callable[[Dims], Extents],
        workgroup: Extents | Literal["auto"],
        device: Any = "cpu",
        queue: Any = None,
        after: Sequence[Any] = (),
        checkpoint: bool | stopping.StopAt = False,
        scratch: Sequence[str] = (),
    ) -> Any:
        """Start a launch and return it; `.wait()` ends it and brings host arrays up to date.

        Args:
            arguments: one value a parameter, in order, or a mapping by name.
            grid: workgroups, an int or up to three extents; zero runs nothing. Or a function of
                the workgroup (three extents) that gives them.
            workgroup: work-items a workgroup, an int or up to three extents; `"auto"` leaves the
                choice to the occupancy model, without measuring (see docs/tuning.md).
            device: a name of `hetir devices`, or a device.
            queue: launches of one queue run in order; the device's own if left out.
            after: events or launches to wait for first.
            checkpoint: make the launch one that can be stopped, saved and moved (see
                docs/checkpoint.md); a `hetir.StopAt` stops it by itself.
            scratch: names of arrays whose contents a checkpoint need not keep.

        Returns:
            A `runtime.Launch`, or with `checkpoint` a `checkpoint.CheckpointLaunch`.

        Raises:
            CompileError: the kernel is wrong for these arguments.
            LaunchError: the shape or an argument cannot be.
        """
        values = self.operands(arguments)
        size = self._automatic(values, grid, device) if workgroup == "auto" else workgroup
        items = compiler.dims(size)
        groups = compiler.dims(grid(items) if callable(grid) else grid)
        if checkpoint:
            return self._checkpointed(
                values, groups, items, device, [queue, *after], checkpoint, scratch
            )
        if runtime.capturing() is not None:
            return self._record(values, device, groups, items)
        made, values, block = self._ready(values, device, groups, items)
        return made.program.launch(
            values,
            grid=groups,
            workgroup=items,
            queue=queue,
            after=after,
            records=records.request(made.artifact, groups, items),
            block=block,
        )

    def _checkpointed(
        self,
        values: tuple[Any, ...],
        grid: Dims,
        workgroup: Dims,
        device: Any,
        before: Sequence[Any],
        stop: bool | stopping.StopAt,
        scratch: Sequence[str],
    ) -> stopping.CheckpointLaunch:
        """Start a launch that can be stopped, after what is to run before it."""
        for item in before:
            if item is not None:
                item.wait()
        on = runtime.device(device) if isinstance(device, str) else device
        limits.check_launch_shape(on.portrait.limits, grid, workgroup)
        return stopping.start(
            self.specialisation(values).kernel,
            (*("self" for _ in self.bound), *self.parameters),
            (*self.bound, *values),
            grid=grid,
            workgroup=workgroup,
            device=on,
            stop=None if isinstance(stop, bool) else stop,
            scratch=scratch,
        )

    def _run(self, grid: Dims, workgroup: Dims, *arguments: Any, **named: Any) -> None:
        if named or len(arguments) != len(self.parameters):
            arguments = self.bind(arguments, named)
        if runtime.capturing() is not None:
            self._record(tuple(map(runtime.as_operand, arguments)), "cpu", grid, workgroup)
            return
        made, values, block = self._ready(arguments, "cpu", grid, workgroup)
        told = records.request(made.artifact, grid, workgroup)
        made.program.run(values, grid, workgroup, told, block)

    def _record(
        self, values: tuple[Any, ...], device: Any, grid: Dims, workgroup: Dims
    ) -> runtime.Node:
        """Add a launch to the graph that this thread records."""

        def ready(given: tuple[Any, ...]) -> runtime.Ready:
            operands = tuple(map(runtime.as_operand, given))
            made, whole, block = self._ready(operands, device, grid, workgroup)
            told = records.request(made.artifact, grid, workgroup)
            return runtime.Ready(made.program, whole, block, told)

        node = runtime.Node(
            kernel=self.name,
            names=self.parameters,
            values=values,
            grid=grid,
            workgroup=workgroup,
            ready=ready,
        )
        graph = runtime.capturing()
        assert graph is not None
        graph.nodes.append(node)
        return node

    def operands(self, arguments: Sequence[Any] | Mapping[str, Any]) -> tuple[Any, ...]:
        """The arguments of a launch in the order of the parameters, as the runtime takes them."""
        if isinstance(arguments, Mapping):
            return tuple(map(runtime.as_operand, self.bind((), arguments)))
        if not isinstance(arguments, tuple | list):
            raise KernelUseError(
                f"the arguments of `{self.name}` must be a tuple, a list or a mapping, got "
                f"a `{type(arguments).__name__}`",
                hint="write `(x,)` for one argument",
            )
        whole = len(arguments) == len(self.parameters)
        values = arguments if whole else self.bind(arguments, {})
        return tuple(map(runtime.as_operand, values))

    def bind(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Positional and named arguments in the order of the parameters."""
        try:
            bound = self._signature.bind(*arguments, **named)
        except TypeError as error:
            raise KernelUseError(
                f"`{self.name}`: {error}", hint=f"its parameters are {', '.join(self.parameters)}"
            ) from None
        bound.apply_defaults()
        return tuple(bound.arguments[name] for name in self.parameters)

    def hir(self, signature: str | None = None) -> str:
        """Canonical hetIR text for a signature; `hetir.parse` reads it back."""
        return compiler.compile(self, signature, target="hetir").text

    def annotated(self) -> tuple[Argument, ...]:
        """The arguments that the annotations state.

        Raises:
            KernelUseError: a parameter has no annotation of a type.
        """
        found = self.declared.values()
        typed = Scalar | ArrayType | VectorType
        missing = [p.name for p in found if not isinstance(p.annotation, typed)]
        if missing:
            raise KernelUseError(
                f"`{self.name}` has no type for {', '.join(f'`{n}`' for n in missing)}",
                hint='give a signature such as "f32, f32[:]", or annotate the parameters',
            )
        return (*map(Static, self.bound), *(p.annotation for p in found))  # pyright: ignore[reportReturnType]

    def declared_array(self, name: str) -> ArrayType | None:
        """The array type that a parameter is annotated with."""
        found = self.declared[name].annotation
        return found if isinstance(found, ArrayType) else None

    def is_scalar(self, name: str) -> bool:
        """Whether a parameter is annotated with a scalar type or as a compile-time constant."""
        found = self.declared[name].annotation
        return isinstance(found, Scalar) or found is STATIC

    def specialise(self, values: Sequence[Any]) -> tuple[Argument, ...]:
        """What the kernel is specialised on when called with these values."""
        pairs = zip(self.declared.values(), values, strict=True)
        return (*map(Static, self.bound), *(argument_of(p, v) for p, v in pairs))

    def program(
        self, values: tuple[Any, ...], device: Any, workgroup: Dims, grid: Dims = (1, 1, 1)
    ) -> tuple[Artifact, runtime.Program]:
        """The kernel compiled for a launch with these values, and loaded on a device."""
        made, _, _ = self._ready(values, device, grid, workgroup)
        return made.artifact, made.program

    def specialisation(self, values: tuple[Any, ...]) -> Specialisation:
        """The kernel traced for values like these, once."""
        return self._specialisation(values)[0]

    def _specialisation(self, values: tuple[Any, ...]) -> tuple[Specialisation, tuple[Any, ...]]:
        """The specialisation, and the values as the runtime takes them."""
        key_of = self._key_of
        if key_of is None:
            key_of = self._key_of = runtime.launcher().key
        key = key_of(values, self._kinds, static_key)
        if key is None:
            values = tuple(map(runtime.as_operand, values))
            key = key_of(values, self._kinds, static_key)
            if key is None:  # refused, and by whoever knows why
                return self._specialise(values), values
        found = self._specialisations.get(key)
        if found is None or (found.traced.captures and found.traced.stale):
            with self._lock:
                found = self._specialisations.get(key)
                if found is None or found.traced.stale:
                    found = self._specialise(values)
                    self._specialisations[key] = found
        return found, values

    def _ready(
        self, values: tuple[Any, ...], device: Any, grid: Dims, workgroup: Dims
    ) -> tuple[Compiled, tuple[Any, ...], bytes]:
        """What a launch needs: the code for it, all values, and the block that they make."""
        found, values = self._specialisation(values)
        name = device if isinstance(device, str) else runtime.device(device).name
        place = found.places.get(name)
        if place is None:
            place = self._place(found, device, name)
        if self.bound:
            values = (*self.bound, *values)
        block, facts = place.packer.pack(values, grid, workgroup)
        key = workgroup, facts & place.mask
        made = place.compiled.get(key)
        if made is None:
            with self._lock:
                made = place.compiled.get(key)
                if made is None:
                    made = self._compile(found, device, workgroup, facts)
                    place.compiled[key] = made
        return made, values, block

    def _place(self, found: Specialisation, device: Any, name: str) -> Place:
        on = runtime.device(device) if isinstance(device, str) else device
        names = (*("self" for _ in self.bound), *self.parameters)
        mask = compiler.fact_mask(on.target, len(found.layout.slots))
        made = Place(runtime.Packer(found.layout, on, names), mask)
        return found.places.setdefault(name, made)

    def _automatic(
        self, values: tuple[Any, ...], grid: Extents | Callable[[Dims], Extents], device: Any
    ) -> Dims:
        """The workgroup that the occupancy model prefers on a device."""
        kernel = self.specialisation(values).kernel
        on = runtime.device(device) if isinstance(device, str) else device
        if callable(grid):
            # with one work-item a workgroup the grid is the work-items
            extents = compiler.dims(grid((1, 1, 1)))
        elif compiler.covers(kernel):
            raise KernelUseError(
                f"the grid of `{self.name}` depends on the workgroup, which is left open",
                hint="give it as a function: `grid=lambda w: hetir.cdiv(n, w[0])`",
            )
        else:
            extents = None
        return compiler.suggest(kernel, on.portrait.limits, extents, on.portrait.units)

    def _specialise(self, values: tuple[Any, ...]) -> Specialisation:
        arguments = self.specialise(values)
        traced = compiler.record(self, arguments)
        kernel = compiler.prepare(traced.module)
        return Specialisation(arguments, traced, kernel, layout_of(kernel))

    def _compile(self, found: Specialisation, device: Any, workgroup: Dims, facts: int) -> Compiled:
        on = runtime.device(device) if isinstance(device, str) else device
        assumptions = Assumptions()
        compiler.check_progress(found.kernel, on.name, on.portrait.progress)
        if on.target == "hetir":
            artifact = compiler.for_evaluator(found.kernel)
        else:
            limits.check_workgroup(on.portrait.limits, workgroup)
            assumptions = compiler.promised(facts, found.layout, on.target)
            artifact = compiler.lower(found.kernel, on.target, workgroup, assumptions)
        program = on.load(artifact, names=(*("self" for _ in self.bound), *self.parameters))
        return Compiled(on.name, workgroup, assumptions, artifact, program)
