"""Whether a kernel's orders are safe and none too strong, on a small launch, by the checker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, walk
from hetir.ir.types import ArrayType, Scalar
from hetir.memory import witness
from hetir.memory.check import Checker
from hetir.memory.claim import (
    AllOf,
    AnyOf,
    Claim,
    Compare,
    Condition,
    FinalLocation,
    FinalRegister,
    Negation,
    Quantifier,
)
from hetir.memory.lower import RefusedError, lower, model_of
from hetir.memory.lowering import OPENCL, VULKAN, target_of
from hetir.memory.mapping import RACES_ARE_ERRORS
from hetir.memory.models.base import Model
from hetir.memory.models.ir import IrModel
from hetir.memory.program import Program
from hetir.passes import harness
from hetir.passes.fences import ATOMICS, Change, applied, placed
from hetir.passes.harness import Harness, HarnessError

Triple = tuple[int, int, int]

_LANES = ("lane_id", "subgroup_id", "subgroup_size")
_WEAKER: dict[str, tuple[str, ...]] = {
    "relaxed": (),
    "acquire": ("relaxed",),
    "release": ("relaxed",),
    "acq_rel": ("acquire", "release"),
    "seq_cst": ("acq_rel",),
}
_ONE_WAY = {ops.ATOMIC_LOAD: "acquire", ops.ATOMIC_STORE: "release"}


class CertificateError(HarnessError):
    """A kernel's orders cannot be judged: it races, or may fail, as it is written.

    Cause: an order or scope is missing, so that nothing is promised that a weaker one could
    break. Fix: `hetir check FILE.py:KERNEL --weak` names the access and what it needs.
    """

    code = "HET377"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The bounds: arguments as `harness.read` takes them, workgroups and work-items."""

    arguments: tuple[Any, ...]
    grid: Triple
    workgroup: Triple

    @property
    def bounds(self) -> str:
        """The bounds for people."""
        groups = self.grid[0] * self.grid[1] * self.grid[2]
        items = self.workgroup[0] * self.workgroup[1] * self.workgroup[2]
        return f"{groups} workgroups of {items}, loops unrolled twice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """An execution that must not be: what ends wrong, and the events as text."""

    outcome: str
    picture: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Weakening:
    """One weaker form of a site (`left` is its order and scope, empty if removed).

    `broken` is how hetIR's own model breaks without the rest; `on_target` how the target's
    does. Both are None where the checker finds that nothing breaks.
    """

    left: str
    broken: Broken | None
    on_target: Broken | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteProof:
    """A site and every one-step weakening of it."""

    op: Operation
    weaker: tuple[Weakening, ...]

    @property
    def minimal(self) -> bool:
        """Whether each weaker form breaks something."""
        return all(w.broken or w.on_target for w in self.weaker)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What the checker says of a `kernel` as it is compiled, within the bounds of a `launch`.

    `promised` says all of how hetIR lets its arrays end. `unsafe` is an execution on the target
    that hetIR forbids; None says that it is safe. `model` names the target's model, or hetIR's
    where the target has none that covers its compiler.
    """

    kernel: Kernel
    launch: Launch
    target: str
    model: str
    promised: Condition
    unsafe: Broken | None
    sites: tuple[SiteProof, ...]

    @property
    def minimal(self) -> bool:
        """Whether every weaker form of every site breaks something."""
        return all(site.minimal for site in self.sites)


class Judge:
    """Says of changed kernels whether they do what the given one never does."""

    def __init__(self, kernel: Kernel, launch: Launch, target: str) -> None:
        self.launch = launch
        self.target = table_target(target)
        found = self.read(kernel)
        with Checker(found.program, IrModel()) as checker:
            race = checker.race()
            if race is not None:
                raise CertificateError(
                    f"`{kernel.name}` races, so that no order of it is safe:\n"
                    + witness.text(found.program, race)
                )
            written = {str(item) for item in checker.observables()}
            self.observed = [FinalLocation(n) for n in found.outputs if n in written]
            outcomes = checker.outcomes(self.observed)
            if failing := _failures(found):
                claim = Claim(Quantifier.EXISTS, failing)
                if checker.judge(claim).holds:
                    raise CertificateError(f"an assertion of `{kernel.name}` may fail")
        self.outcomes = outcomes
        self.promised = AnyOf(tuple(map(self._state, sorted(outcomes, key=str))))

    def _state(self, values: Sequence[int | None]) -> Condition:
        pairs = zip(self.observed, values, strict=True)
        return AllOf(tuple(Compare("==", o, v) for o, v in pairs if v is not None))

    def read(self, kernel: Kernel) -> Harness:
        """The kernel on the small launch; each work-item is a subgroup of its own."""
        if not any(op.name in _LANES for op in walk(kernel.body)):
            kernel = replace(kernel, options=replace(kernel.options, subgroup_size=1))
        return harness.read(kernel, self.launch.arguments, self.launch.grid, self.launch.workgroup)

    def breaks(self, kernel: Kernel) -> Broken | None:
        """How a kernel breaks the promise by hetIR's model."""
        found = self.read(kernel)
        return self._breaks(found, found.program, IrModel(), races=True)

    def breaks_on_target(self, kernel: Kernel) -> Broken | None:
        """How its lowered form breaks the promise by the target's model, if that has one."""
        if self.target is None:
            return None
        found = self.read(kernel)
        try:
            lowered = lower(found.program, self.target)
        except RefusedError:
            return None
        races = self.target in RACES_ARE_ERRORS
        return self._breaks(found, lowered, model_of(self.target), races=races)

    def _breaks(
        self, found: Harness, program: Program, model: Model, *, races: bool
    ) -> Broken | None:
        wrong: Condition = Negation(self.promised)
        if failing := _failures(found):
            wrong = AnyOf((wrong, failing))
        with Checker(program, model) as checker:
            shown = checker.judge(Claim(Quantifier.EXISTS, wrong)).witness
            if shown is not None:
                final = checker.final(self.observed)
                pairs = zip(self.observed, final, strict=True)
                words = ", ".join(f"{place} = {value}" for place, value in pairs)
                return Broken(outcome=words, picture=witness.text(program, shown))
            raced = checker.race() if races else None
        if raced is None:
            return None
        return Broken(outcome="a data race", picture=witness.text(program, raced))


def _failures(found: Harness) -> Condition | None:
    """That some assertion fails; None where there is none."""
    parts = [Compare("==", FinalRegister(t, name), 1) for t, name, _ in found.assertions]
    return AnyOf(tuple(parts)) if parts else None


def table_target(target: str) -> str | None:
    """The table's name of a target whose model is that of all that runs below hetIR."""
    if target.startswith("ptx:"):
        return target_of(target)
    return target if target in (OPENCL, VULKAN) else None


def certify(kernel: Kernel, launch: Launch, target: str) -> Certificate:
    """Judge the orders that a simplified kernel is compiled with, and each weaker one.

    Raises:
        HarnessError: the kernel is more than the checker can judge.
        CertificateError: it races or an assertion may fail as it is.
    """
    judge = Judge(kernel, launch, target)
    kernel, _ = placed(kernel)
    proofs: list[SiteProof] = []
    for op in walk(kernel.body):
        weaker = tuple(_weakening(judge, kernel, op, left) for left in one_step(op))
        if weaker:
            proofs.append(SiteProof(op=op, weaker=weaker))
    model = judge.target and model_of(judge.target).name
    return Certificate(
        kernel=kernel,
        launch=launch,
        target=target,
        model=model or "hetir",
        promised=judge.promised,
        unsafe=judge.breaks(kernel) or judge.breaks_on_target(kernel),
        sites=tuple(proofs),
    )


def certify_guessed(kernel: Kernel, grid: Triple, workgroup: Triple, target: str) -> Certificate:
    """The same on the first launch of `launches` that the checker can read."""
    failed: HarnessError | None = None
    for launch in launches(kernel, grid, workgroup):
        try:
            return certify(kernel, launch, target)
        except HarnessError as error:
            failed = failed or error
    assert failed is not None
    raise failed


def launches(
    kernel: Kernel, grid: Triple = (2, 1, 1), workgroup: Triple = (2, 1, 1)
) -> Iterator[Launch]:
    """Guesses: every extent and integer 4, 8 or 16, arrays of zeros."""
    for extent in (4, 8, 16):
        arguments = tuple(_argument(param.value.type, extent) for param in kernel.params)
        yield Launch(arguments=arguments, grid=grid, workgroup=workgroup)


def _argument(kind: object, extent: int) -> object:
    if isinstance(kind, ArrayType):
        shape = kind.shape or (extent,) * kind.ndim
        return np.zeros(shape, kind.element.numpy)
    assert isinstance(kind, Scalar)
    return kind.numpy.type(1 if kind.kind in ("bool", "float") else extent)


def _weakening(judge: Judge, kernel: Kernel, op: Operation, left: str) -> Weakening:
    weaker = applied(kernel, Change(op=op, left=left, rule="checked"))
    return Weakening(
        left=left, broken=judge.breaks(weaker), on_target=judge.breaks_on_target(weaker)
    )


def one_step(op: Operation) -> Iterator[str]:
    """The weaker forms of a site, one step down in order or scope; empty text is removal.

    Nothing is weaker than relaxed, and system scope stays.
    """
    if op.spec is ops.BARRIER:
        if op.attrs["scope"] != "device":
            yield ""
        return
    if op.spec is not ops.FENCE and op.spec not in ATOMICS:
        return
    order, scope = str(op.attrs["order"]), str(op.attrs["scope"])
    if op.spec is ops.FENCE:
        fences = {"acquire": ("",), "release": ("",)}
        weaker = fences.get(order, _WEAKER[order])
    else:
        weaker = _WEAKER[order]
        if order == "seq_cst":
            weaker = (_ONE_WAY.get(op.spec, "acq_rel"),)
    yield from (w and f"{w} {scope}" for w in weaker)
    narrower = {"device": "workgroup", "workgroup": "subgroup"}.get(scope)
    if narrower:
        yield f"{order} {narrower}"
