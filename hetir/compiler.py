"""From a Python function to an artifact: trace, inline, check, simplify, lower, cache."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import index
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from hetir import limits, runtime
from hetir.artifact import Artifact, Layout, Resources
from hetir.backends import host
from hetir.diagnostics import CompileError, Label
from hetir.frontend import Argument, Static, Traced, parse_signature
from hetir.frontend import record as record_function
from hetir.ir.canonical import canonicalise, content_hash
from hetir.ir.core import Attr, Kernel, Module, Operation, Options, walk
from hetir.ir.ops import ALLOC, GLOBAL_ID, NUM_GROUPS
from hetir.ir.text import parse_kernel, print_kernel
from hetir.ir.types import ArrayType
from hetir.lazy import lazy
from hetir.passes.check_barriers import check_barriers
from hetir.passes.inline import inline
from hetir.passes.layout import layout_of
from hetir.passes.reproducible import reproducible
from hetir.records import signed
from hetir.target import Assumptions
from hetir.version import CODE_VERSION

if TYPE_CHECKING:
    from hetir import emulator, residency
    from hetir.backends import ascend, cpu, emitted, ptx, spirv
    from hetir.backends.cpu import stack as cpu_stack
    from hetir.emulator import ascend as shim
    from hetir.emulator import ptx as emulated_ptx
    from hetir.emulator.ascend import device as shim_device
    from hetir.passes import certificate as certificates
    from hetir.passes import expand_arrays as expansion
    from hetir.passes import fences as fence_pass
    from hetir.passes import harness, pressure, sequential
    from hetir.passes import progress as waiting
    from hetir.passes import simplify as simplifier
    from hetir.runtime.drivers import ascend_shim
else:
    # a launch of cached code on one device needs none of these
    emulator, emulated_ptx = lazy("hetir.emulator"), lazy("hetir.emulator.ptx")
    cpu, ptx, spirv = (lazy(f"hetir.backends.{name}") for name in ("cpu", "ptx", "spirv"))
    ascend = lazy("hetir.backends.ascend")
    cpu_stack = lazy("hetir.backends.cpu.stack")
    expansion, harness = lazy("hetir.passes.expand_arrays"), lazy("hetir.passes.harness")
    pressure, simplifier = lazy("hetir.passes.pressure"), lazy("hetir.passes.simplify")
    residency = lazy("hetir.residency")
    certificates, waiting = lazy("hetir.passes.certificate"), lazy("hetir.passes.progress")
    sequential = lazy("hetir.passes.sequential")
    emitted, fence_pass = lazy("hetir.backends.emitted"), lazy("hetir.passes.fences")
    shim, shim_device = lazy("hetir.emulator.ascend"), lazy("hetir.emulator.ascend.device")
    ascend_shim = lazy("hetir.runtime.drivers.ascend_shim")

Dims = tuple[int, int, int]

WEAK_RUNS = 100
"""Seeds that `check(weak=True)` tries."""


class TargetError(CompileError):
    """The target is known but this version of hetir has no backend for it.

    Cause: a name of `hetir targets` without a backend. Fix: compile for `cpu` or `hetir`.
    """

    code = "HET360"


# one module a family of targets: `compile_kernel(kernel, target=, workgroup=, assumptions=)` gives
# an artifact, `fingerprint(target)` is part of the key, and `USES` has the fields of Assumptions
# that the code depends on
_BACKENDS: Mapping[str, Any] = {"cpu": cpu, "ptx": ptx, "spirv": spirv, "ascend": ascend}
# what says the two last without LLVM
_DESCRIBED: Mapping[str, Any] = {**_BACKENDS, "cpu": host}
_NOTHING = Assumptions()


class Source(Protocol):
    """What the compiler needs of a `@hetir.kernel` object."""

    @property
    def name(self) -> str:
        """The kernel's name."""
        ...

    @property
    def function(self) -> Callable[..., object]:
        """The Python function."""
        ...

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters, without what is bound."""
        ...

    @property
    def options(self) -> Options:
        """What the decorator was given."""
        ...

    @property
    def bound(self) -> tuple[object, ...]:
        """The object of a method, or nothing."""
        ...

    def operands(self, arguments: Sequence[Any] | Mapping[str, Any]) -> tuple[Any, ...]:
        """The arguments of a launch in the order of the parameters, as the runtime takes them."""
        ...

    def annotated(self) -> tuple[Argument, ...]:
        """The arguments that the annotations state; an error where one is missing."""
        ...

    def specialise(self, values: Sequence[Any]) -> tuple[Argument, ...]:
        """What the kernel is specialised on when called with these values."""
        ...


def compile(
    kernel: Source,
    signature: str | tuple[Argument, ...] | None = None,
    *,
    target: str = "cpu",
    workgroup: int | tuple[int, ...] | None = None,
    assumptions: Assumptions = _NOTHING,
) -> Artifact:
    """Compile a kernel ahead of time.

    Args:
        kernel: a `@hetir.kernel` function.
        signature: types of the parameters, as in `"f32, f32[:], f32[:, ::1], i64"`; taken
            from the annotations if left out.
        target: a name of `hetir.targets()`: `hetir` gives portable hetIR text, `cpu` object
            code for this machine.
        workgroup: work-items a workgroup that the code may rely on, one to three sizes.
        assumptions: what every launch of the code promises of its arguments; nothing if left
            out, with 64-bit indices. What the target's backend does not use changes nothing.

    Raises:
        CompileError: the kernel is wrong, or asks for more than the target has.
    """
    arguments = signature if isinstance(signature, tuple) else _arguments(kernel, signature)
    items = None if workgroup is None else dims(workgroup)
    module = record(kernel, arguments).module
    traced = prepare(module)
    made = lower(traced, target, items, assumptions)
    # a launch does without the figures, which take LLVM a moment, and without the report
    made = cpu_stack.counted(made) if target.partition(":")[0] == "cpu" else made
    added = sequential.ordered(inline(module))[1] if kernel.options.memory_model == "sc" else ()
    ordered, changes = fence_pass.placed(simplifier.simplify(traced))
    return replace(made, fences=emitted.fences_of(made, ordered, (*added, *changes)))


def _arguments(kernel: Source, signature: str | None) -> tuple[Argument, ...]:
    need_kernel(kernel)
    if signature is None:
        return kernel.annotated()
    return (*map(Static, kernel.bound), *parse_signature(signature))


class NotAKernelError(CompileError):
    """A function that is no kernel stands where one is needed.

    Cause: the decorator is missing, or another one stands above it.
    Fix: write `@hetir.kernel` on the line above `def`, or above the other decorators.
    """

    code = "HET362"


def need_kernel(kernel: object) -> None:
    """Raise NotAKernelError for what `@hetir.kernel` did not make."""
    name = getattr(kernel, "__name__", type(kernel).__name__)
    # functools.wraps copies a kernel's attributes to what stands in its place
    if not hasattr(kernel, "specialise") and hasattr(
        getattr(kernel, "__wrapped__", None), "specialise"
    ):
        raise NotAKernelError(
            f"`{name}` is what a decorator above `@hetir.kernel` made of the kernel",
            hint=f"remove that decorator, or use the kernel itself: `{name}.__wrapped__`",
        )
    if not isinstance(getattr(kernel, "options", None), Options):
        raise NotAKernelError(
            f"`{name}` is not a kernel", hint="write `@hetir.kernel` above its `def`"
        )


class ShapeError(CompileError):
    """A grid or workgroup is not one to three integers.

    Cause: a float, a string, or too many extents. Fix: `(16, 16)`, or an int for one extent.
    """

    code = "HET361"


def dims(sizes: int | Sequence[int]) -> Dims:
    """One to three sizes as three."""
    if type(sizes) is int:  # every launch comes by here
        return sizes, 1, 1
    try:
        several = cast("Sequence[int]", sizes if isinstance(sizes, (tuple, list)) else (sizes,))
        given = tuple(map(index, several))
    except TypeError:
        given = ()
    if not 1 <= len(given) <= 3:
        raise ShapeError(
            f"a grid or workgroup is one to three integers, got `{sizes}`",
            hint="write an int, or a tuple such as (16, 16); `hetir.cdiv(n, 256)` rounds up",
        )
    x, y, z = (*given, 1, 1)[:3]
    return x, y, z


def record(kernel: Source, arguments: tuple[Argument, ...]) -> Traced:
    """Trace a kernel, noting what it captures from outside."""
    return record_function(kernel.function, arguments, options=kernel.options, name=kernel.name)


def prepare(module: Module) -> Kernel:
    """The kernel of a traced module without calls, its barriers checked, its orders complete."""
    inlined = inline(module)
    check_barriers(inlined)
    return sequential.sequential(inlined) if inlined.options.memory_model == "sc" else inlined


def uses(target: str) -> frozenset[str]:
    """The fields of `Assumptions` that a target's code depends on."""
    described = _DESCRIBED.get(target.partition(":")[0])
    return frozenset() if described is None else getattr(described, "USES", frozenset())


def used(assumptions: Assumptions, target: str) -> Assumptions:
    """The assumptions without what the target's code does not depend on."""
    fields = uses(target)
    return Assumptions(**{name: getattr(assumptions, name) for name in fields})


def fact_mask(target: str, slots: int) -> int:
    """The facts of a launch (see `runtime.Packer`) that a target's code depends on."""
    fields = uses(target)
    wide = runtime.WIDE if "index_bits" in fields else 0
    meets = runtime.MEETS if "disjoint" in fields else 0
    aligned = range(slots) if "aligned" in fields else ()
    return wide | meets | sum(map(runtime.aligned_bit, aligned))


def promised(facts: int, layout: Layout, target: str) -> Assumptions:
    """What the facts of a launch let code for a target rely on."""
    found = Assumptions(
        index_bits=64 if facts & runtime.WIDE else 32,
        disjoint=not facts & runtime.MEETS,
        aligned=tuple(bool(facts & runtime.aligned_bit(i)) for i in range(len(layout.slots))),
    )
    return used(found, target)


def lower(
    kernel: Kernel,
    target: str,
    workgroup: Dims | None = None,
    assumptions: Assumptions = _NOTHING,
) -> Artifact:
    """Compile hetIR for a target, by the disk cache where the target's code is cached."""
    family = target.partition(":")[0]
    check_limits(kernel, target, workgroup)
    if family == "hetir":
        simple = simplifier.simplify(kernel)
        made = describe(kernel, print_kernel(canonicalise(simple)), workgroup)
        guess = pressure.registers(expansion.expand_arrays(simple))
        counted = replace(made.resources, registers=guess, source=pressure.SOURCE)
        return replace(made, resources=counted)
    if family not in _BACKENDS:
        raise TargetError(
            f"`{target}` has no backend in this version", hint='compile for target="cpu" or "hetir"'
        )
    backend, promised = _BACKENDS[family], used(assumptions, target)
    key = cache_key(kernel, _DESCRIBED[family].fingerprint(target), workgroup, promised)
    options = {"assumptions": promised} if uses(target) else {}

    def make() -> bytes:
        simple, _ = fence_pass.placed(simplifier.simplify(kernel))
        made = backend.compile_kernel(simple, target=target, workgroup=workgroup, **options)
        return runtime.encode(replace(finish(made, kernel), key=key))

    made = runtime.decode(runtime.cache().make(key, make))
    return replace(made, loc=kernel.loc)  # the key does not have it


def finish(artifact: Artifact, kernel: Kernel) -> Artifact:
    """Add what depends on the kernel alone."""
    verdict = reproducible(kernel)
    place = f" ({verdict.loc})" if verdict.loc else ""
    return replace(
        artifact,
        reproducible=verdict.holds,
        irreproducible_reason=verdict.reason and verdict.reason + place,
    )


def for_evaluator(kernel: Kernel) -> Artifact:
    """An artifact of the kernel as it was written: what the evaluator says of it is about that."""
    return describe(kernel, print_kernel(kernel), None)


def for_launch(
    kernel: Kernel, layout: Layout, target: str, workgroup: Dims, facts: int
) -> Artifact:
    """The code for launches of some facts (see `runtime.Packer`) on a device's target."""
    if target == "hetir":
        return for_evaluator(kernel)
    return lower(kernel, target, workgroup, promised(facts, layout, target))


def describe(kernel: Kernel, text: str, workgroup: Dims | None) -> Artifact:
    """An artifact that holds hetIR text and no code."""
    made = Artifact(
        kernel=kernel.name,
        target="hetir",
        entry=kernel.name,
        text=text,
        binary=None,
        layout=layout_of(kernel),
        resources=Resources(shared_bytes=shared_bytes(kernel)),
        workgroup=workgroup,
        subgroup_size=kernel.options.width,
        key=cache_key(kernel, "hetir", workgroup),
        loc=kernel.loc,
    )
    return finish(made, kernel)


def cache_key(
    kernel: Kernel,
    fingerprint: str,
    workgroup: Dims | None,
    assumptions: Assumptions = _NOTHING,
) -> str:
    """A hash of everything that shapes the code."""
    hashes = content_hash(kernel), locations_hash(kernel)
    promises = assumptions.index_bits, assumptions.disjoint, assumptions.aligned
    parts = (*hashes, fingerprint, workgroup, promises, CODE_VERSION)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def locations_hash(kernel: Kernel) -> str:
    """Of what records name: their places and arrays, in kernels that write records."""
    places = [(op.name, str(op.loc)) for op in walk(kernel.body) if op.name in ("print", "assert")]
    if kernel.options.debug:
        places = [(op.name, f"{op.loc} {_names(op)}") for op in walk(kernel.body)]
    return hashlib.sha256(repr(places).encode()).hexdigest()


def _names(op: Operation) -> list[str]:
    return [value.name for value in (*op.operands, *op.results)]


def shared_bytes(kernel: Kernel, alignment: int = 16) -> int:
    """Bytes of shared memory, each array aligned."""
    total = 0
    for op in walk(kernel.body):
        if _is_alloc(op, "shared"):
            total = -(-total // alignment) * alignment + array_bytes(op.attrs["type"])
    return total


def _is_alloc(op: Operation, space: str) -> bool:
    kind = op.attrs.get("type")
    return op.spec is ALLOC and isinstance(kind, ArrayType) and kind.space == space


def array_bytes(kind: Attr) -> int:
    """Bytes of a static array."""
    assert isinstance(kind, ArrayType)
    count = kind.element.bytes
    for extent in kind.shape or ():
        count *= extent
    return count


def check_limits(kernel: Kernel, target: str, workgroup: Dims | None) -> None:
    """Refuse what the target cannot hold, with both numbers, at the line that asks last."""
    allowed = limits.limits_of(target)
    private = [op for op in walk(kernel.body) if _is_alloc(op, "private")]
    if private:
        last = private[-1].loc
        labels = (Label(last, "the last private array"),) if last else ()
        asked = sum(array_bytes(op.attrs["type"]) for op in private)
        limits.check_private(allowed, asked, *labels)
    allocs = [op for op in walk(kernel.body) if _is_alloc(op, "shared")]
    if allocs:
        last = allocs[-1].loc
        labels = (Label(last, "the last shared array"),) if last else ()
        limits.check_shared(allowed, shared_bytes(kernel, allowed.shared_alignment), *labels)
    labels = (Label(kernel.loc, ""),) if kernel.loc else ()
    if workgroup is not None:
        limits.check_workgroup(allowed, workgroup, *labels)


def check_progress(kernel: Kernel, device: str, progress: str) -> None:
    """Refuse a wait for another work-item that a device does not promise to end."""
    waiting.check_progress(kernel, device, progress)


def covers(kernel: Kernel) -> bool:
    """Whether the grid must fit the workgroup: a global id, and no loop over the grid's size."""
    used = {op.spec for op in walk(kernel.body)}
    return GLOBAL_ID in used and NUM_GROUPS not in used


def suggest(
    kernel: Kernel, allowed: limits.Limits, extents: Dims | None, units: int | None
) -> Dims:
    """The workgroup to launch a kernel with over so many work-items, by the model alone.

    Without `extents` the grid is fixed, and only what is resident counts.
    """
    words = pressure.registers(expansion.expand_arrays(simplifier.simplify(kernel)))
    over = extents or (1 << 30,)
    while len(over) > 1 and over[-1] == 1:
        over = over[:-1]
    return dims(
        residency.suggest_workgroup(
            allowed,
            over,
            registers=words,
            shared_bytes=shared_bytes(kernel, allowed.shared_alignment),
            units=units,
        )
    )


def evaluate(
    artifact: Artifact,
    values: Sequence[Any],
    grid: Dims,
    workgroup: Dims,
    records: np.ndarray[Any, Any] | None,
    stop: Callable[[], bool],
) -> None:
    """Run an artifact of hetIR text on the evaluator: the device `emulator`.

    Raises the first fault that the evaluator's checks find.
    """
    _ = records, stop
    report = emulator.run(parsed(artifact.text), values, grid, workgroup, checks=True)
    for line, (group, item) in zip(report.output, report.writers, strict=True):
        print(signed(line, group, item, grid, workgroup))  # noqa: T201 (what hl.print is for)
    if report.faults:
        raise report.faults[0]


@lru_cache(maxsize=256)
def parsed(text: str) -> Kernel:
    """The kernel that hetIR text holds."""
    return parse_kernel(text)


def check(
    kernel: Source,
    arguments: Sequence[Any] | Mapping[str, Any],
    grid: int | tuple[int, ...],
    workgroup: int | tuple[int, ...],
    *,
    seed: int = 0,
    weak: bool = False,
    runs: int | None = None,
) -> emulator.Report:
    """Run a kernel on the evaluator with every check on.

    Args:
        kernel: a `@hetir.kernel` function.
        arguments: as for a launch; arrays are not changed.
        grid: workgroups, one to three extents.
        workgroup: work-items a workgroup, one to three extents.
        seed: shuffles the order of workgroups and atomics, so that order dependence shows.
        weak: interleave single steps of all work-items, and let each read return any value
            that the memory model allows, so that a missing order shows as a race or a failed
            assertion. Slow, and for at most 256 work-items: use small grids.
        runs: how many seeds to try, from `seed` on, until one finds a fault: 1, or 100 if weak.

    Returns:
        A Report: `faults` (out of bounds, uninitialised reads, races, divergent barriers,
        index overflow, misuse of subgroup operations; each prints as an error with its
        line), and `output`, the lines that the kernel printed.
    """
    need_kernel(kernel)
    limits.check_launch_shape(limits.limits_of("hetir"), dims(grid), dims(workgroup))
    traced, given = _given(kernel, arguments)
    arrays: list[Any] = [value for value in given if isinstance(value, np.ndarray)]
    contents: set[bytes] = set()
    report = emulator.Report()
    for now in range(seed, seed + max(1, runs or (WEAK_RUNS if weak else 1))):
        fresh = iter(runtime.snapshot(arrays))
        copies = [next(fresh) if isinstance(value, np.ndarray) else value for value in given]
        report = emulator.run(
            traced, copies, dims(grid), dims(workgroup), checks=not weak, seed=now, weak=weak
        )
        contents.add(b"".join(np.ascontiguousarray(c).tobytes() for c in copies))
        report = replace(report, seed=now, results=len(contents))
        if report.faults:
            break
    return report


def litmus(
    kernel: Source,
    arguments: Sequence[Any] | Mapping[str, Any],
    grid: int | tuple[int, ...],
    workgroup: int | tuple[int, ...],
) -> harness.Harness:
    """A small kernel and launch as a program that `hetir.memory.check` judges.

    Raises:
        HarnessError: there are too many work-items or accesses, or ops that it cannot judge.
    """
    need_kernel(kernel)
    limits.check_launch_shape(limits.limits_of("hetir"), dims(grid), dims(workgroup))
    traced, given = _given(kernel, arguments)
    return harness.read(traced, given, dims(grid), dims(workgroup))


def certificate(
    kernel: Source,
    target: str,
    arguments: Sequence[Any] | Mapping[str, Any] | None = None,
    grid: int | tuple[int, ...] = 2,
    workgroup: int | tuple[int, ...] = 2,
) -> certificates.Certificate:
    """Judge every order of a kernel, as compiled for a target, on a small launch by the checker.

    Without arguments, arrays of zeros and small sizes are tried until the checker can read them.

    Raises:
        HarnessError: the kernel or the launch is more than the checker can judge.
        CertificateError: the kernel races, or an assertion may fail, as it is written.
    """
    need_kernel(kernel)
    if arguments is None:
        traced = prepare(record(kernel, _arguments(kernel, None)).module)
        simple = simplifier.simplify(traced)
        return certificates.certify_guessed(simple, dims(grid), dims(workgroup), target)
    traced, given = _given(kernel, arguments)
    launch = certificates.Launch(arguments=tuple(given), grid=dims(grid), workgroup=dims(workgroup))
    return certificates.certify(simplifier.simplify(traced), launch, target)


def _given(
    kernel: Source, arguments: Sequence[Any] | Mapping[str, Any]
) -> tuple[Kernel, list[Any]]:
    """The traced kernel and, for each slot of its layout, a NumPy array or scalar."""
    values = kernel.operands(arguments)
    traced = prepare(record(kernel, kernel.specialise(values)).module)
    names = ("self",) * len(kernel.bound) + kernel.parameters
    return traced, runtime.host_slots(layout_of(traced), (*kernel.bound, *values), names)


def prepare_ptx(text: str, entry: str) -> runtime.Execute:
    """PTX text as the device `ptx-emulator` runs it."""
    machine = emulated_ptx.Machine(emulated_ptx.parse(text))
    machine.program(entry)

    def execute(
        grid: Dims,
        workgroup: Dims,
        params: bytes,
        memories: Sequence[np.ndarray[Any, Any]],
        shared_bytes: int,
        cooperative: bool,
    ) -> None:
        memory = emulated_ptx.Memory()
        for number, array in enumerate(memories):
            memory.add(array, f"allocation {number}", address=int(array.ctypes.data))
        checks = {"uninitialised": True, "cooperative": cooperative}
        machine.launch(entry, grid, workgroup, params, shared_bytes, memory, **checks)

    return execute


def prepare_ascend(text: str, entry: str, target: str) -> ascend_shim.Execute:
    """Ascend C as the devices `ascend-shim` run it."""
    try:
        execute = shim_device.prepare(text, entry, target)
    except shim.ShimBuildError as error:
        raise runtime.DriverError("c++", 1, str(error)) from None

    def run(*given: Any) -> None:
        try:
            execute(*given)
        except shim.ShimFaultError as error:
            raise runtime.DriverError("ascend-shim", 1, str(error)) from None

    return run


def shim_devices() -> Sequence[runtime.Driver]:
    """The chips of the Ascend C shim. Raises DriverAbsentError without a C++ compiler."""
    if not shim.compilers():
        raise runtime.DriverAbsentError("no C++ compiler is here", "install g++ or clang++")
    return ascend_shim.devices(prepare_ascend)


runtime.register("emulator", lambda: [runtime.EmulatorDriver(evaluate)])
runtime.register("ptx-emulator", lambda: [runtime.PtxEmulatorDriver(prepare_ptx)])
runtime.register("ascend-shim", shim_devices)
