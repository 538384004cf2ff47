"""Every mapping on random programs, and wrong mappings that the same programs catch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import pytest

from hetir.memory import lower as lowering_pass
from hetir.memory.lower import RefusedError
from hetir.memory.lowering import (
    AARCH64,
    OPENCL,
    OPENCL_FENCED,
    PTX_SM_75,
    PTX_SM_90,
    TABLE,
    VULKAN,
    X86,
    Kind,
    Part,
    Row,
    Step,
    lookup,
)
from hetir.memory.mapping import Promise, Violation, check_mapping, promise
from hetir.memory.program import Order, Program, Scope
from hetir.memory.random_programs import SHAPES, Generator
from hetir.testing import litmus

TARGETS = (PTX_SM_75, PTX_SM_90, OPENCL, VULKAN, X86, AARCH64)
PROGRAMS, CHUNK = 1000, 250
LONG_RUN = 10_000
LAST_LONG_RUN = Path(__file__).with_name("mapping_fuzz_last.json")


def generator(target: str, seed: int) -> Generator:
    """Vulkan has no system scope; a CPU runs a workgroup in one thread, so each gets its own."""
    widest = Scope.DEVICE if target == VULKAN else Scope.SYSTEM
    return Generator(Random(seed), apart=target.startswith("cpu:"), widest=widest)


def promises(target: str, seed: int) -> Iterator[Promise]:
    """Yield random programs that do not race, with what hetIR promises of them, for ever."""
    programs = generator(target, seed)
    while True:
        promised = promise(programs.program())
        if promised is not None:
            yield promised


@cache
def chunk(drawn_like: str, seed: int) -> tuple[Promise, ...]:
    source = promises(drawn_like, seed)
    return tuple(next(source) for _ in range(CHUNK))


def drawn_like(target: str) -> str:
    """Targets whose programs are drawn alike share them."""
    return {PTX_SM_90: PTX_SM_75, OPENCL: PTX_SM_75, AARCH64: X86}.get(target, target)


def show(violation: Violation) -> str:
    threads = [
        f"{thread.name} {dict(thread.place)}: " + "; ".join(_text(item) for item in thread.body)
        for thread in violation.lowered.threads
    ]
    return "\n".join([*threads, str(violation.condition) if violation.outcome else "a race"])


def _text(item: object) -> str:
    return getattr(item, "text", "") or str(item)


@pytest.mark.parametrize("seed", range(PROGRAMS // CHUNK))
@pytest.mark.parametrize("target", TARGETS)
def test_lowered_programs_do_only_what_hetir_allows(target: str, seed: int) -> None:
    outcomes = shaped = 0
    for promised in chunk(drawn_like(target), seed):
        violation = check_mapping(promised, target)
        assert violation is None, show(violation)
        outcomes += len(promised.outcomes)
        shaped += promised.program.name in SHAPES
    assert outcomes > 5 * CHUNK
    assert shaped > CHUNK // 4


@pytest.mark.parametrize("target", TARGETS)
def test_fenced_shapes_do_only_what_hetir_allows(target: str) -> None:
    """Every shape of relaxed accesses with each kind of fence between them."""
    for fence in (Order.ACQUIRE, Order.RELEASE, Order.ACQ_REL, Order.SEQ_CST):
        for name in SHAPES:
            violation = check_mapping(litmus.shaped(name, fence=fence).promise, target)
            assert violation is None, show(violation)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_ten_thousand_programs(target: str) -> None:
    source = promises(target, 1_000_003)
    violations = 0
    for _ in range(LONG_RUN):
        violations += check_mapping(next(source), target) is not None
    recorded = json.loads(LAST_LONG_RUN.read_text(encoding="utf-8"))
    recorded[target] = {"programs": LONG_RUN, "violations": violations}
    LAST_LONG_RUN.write_text(
        json.dumps(recorded, indent=2, sort_keys=True) + "\n", encoding="utf-8"
    )
    assert violations == 0


def test_the_last_long_run_found_nothing() -> None:
    recorded = json.loads(LAST_LONG_RUN.read_text(encoding="utf-8"))
    nothing = {"programs": LONG_RUN, "violations": 0}
    assert recorded == dict.fromkeys(TARGETS, nothing)


# Wrong mappings: each changes rows of the table, and random programs must show that it is wrong.

Change = Callable[[Row], Row]


def weaker(
    new: Order | None, *, kinds: tuple[Kind, ...], orders: tuple[Order, ...], part: Part
) -> Change:
    """Give the steps of some rows another order (and no tags that carry the old one)."""

    def change(row: Row) -> Row:
        if row.kind not in kinds or row.order not in orders:
            return row
        steps = tuple(
            replace(step, order=new, scope=step.scope if new else None)
            if step.part is part
            else step
            for step in row.steps
        )
        return replace(row, steps=steps)

    return change


def without(part: Part, *, kinds: tuple[Kind, ...], orders: tuple[Order, ...]) -> Change:
    """Leave out the steps of one part."""

    def change(row: Row) -> Row:
        if row.kind not in kinds or row.order not in orders:
            return row
        return replace(row, steps=tuple(step for step in row.steps if step.part is not part))

    return change


def retagged(change_tags: Callable[[frozenset[str]], frozenset[str]]) -> Change:
    """Change the tags of every step."""

    def change(row: Row) -> Row:
        steps = tuple(replace(step, tags=change_tags(step.tags)) for step in row.steps)
        return replace(row, steps=steps)

    return change


def narrowed(row: Row) -> Row:
    """Take device scope down to the workgroup."""
    steps = tuple(
        replace(step, scope=Scope.WORKGROUP) if step.scope is Scope.DEVICE else step
        for step in row.steps
    )
    return replace(row, steps=steps)


def as_reduction(row: Row) -> Row:
    """Make a reduction a `red`, whatever its order."""
    if row.kind is not Kind.REDUCTION:
        return row
    steps = tuple(
        replace(step, tags=step.tags | {"red"}) if step.part is Part.ACCESS else step
        for step in row.steps
    )
    return replace(row, steps=steps)


def no_release_after_update(row: Row) -> Row:
    """End a seq_cst fence with the hidden update."""
    if row.kind is not Kind.FENCE or row.order is not Order.SEQ_CST:
        return row
    return replace(row, steps=row.steps[:-1])


def native_strong_fence(row: Row) -> Row:
    """Take OpenCL's own seq_cst fence for hetIR's."""
    if row.target != OPENCL_FENCED or row.order is not Order.SEQ_CST:
        return row
    if row.kind is Kind.FENCE:
        tags = frozenset({"global", "local"})
        step = Step(part=Part.FENCE, text="fence", order=Order.SEQ_CST, scope=row.scope, tags=tags)
        return replace(row, steps=(step,), refused="")
    return TABLE[OPENCL, row.kind, row.order, row.scope]


STRONG = (Order.SEQ_CST,)
ALL_ORDERS = tuple(Order)
ACQUIRING = (Order.ACQUIRE, Order.ACQ_REL, Order.SEQ_CST)
RELEASING = (Order.RELEASE, Order.ACQ_REL, Order.SEQ_CST)
UPDATES = (Kind.RMW, Kind.REDUCTION, Kind.CAS)
FENCE = (Kind.FENCE,)

WRONG: dict[str, tuple[str, Change]] = {
    "ptx: seq_cst fence as acq_rel": (
        PTX_SM_90,
        weaker(Order.ACQ_REL, kinds=FENCE, orders=STRONG, part=Part.FENCE),
    ),
    "ptx: no fence.sc before a seq_cst load": (
        PTX_SM_90,
        without(Part.FENCE, kinds=(Kind.LOAD,), orders=STRONG),
    ),
    "ptx: no fence.sc before a seq_cst store": (
        PTX_SM_90,
        without(Part.FENCE, kinds=(Kind.STORE,), orders=STRONG),
    ),
    "ptx: no fence.sc before a seq_cst update": (
        PTX_SM_90,
        without(Part.FENCE, kinds=UPDATES, orders=STRONG),
    ),
    "ptx: a seq_cst load that does not acquire": (
        PTX_SM_90,
        weaker(Order.RELAXED, kinds=(Kind.LOAD,), orders=STRONG, part=Part.ACCESS),
    ),
    "ptx: order dropped on updates, as LLVM does": (
        PTX_SM_75,
        weaker(Order.RELAXED, kinds=UPDATES, orders=ALL_ORDERS, part=Part.ACCESS),
    ),
    "ptx: block scope for the device's": (PTX_SM_75, narrowed),
    "ptx: red as acquire": (PTX_SM_75, as_reduction),
    "ptx: red before an acquire fence": (
        PTX_SM_75,
        lambda row: replace(row, steps=row.unfenced or row.steps),
    ),
    "ptx: acquire loads relaxed": (
        PTX_SM_75,
        weaker(Order.RELAXED, kinds=(Kind.LOAD,), orders=ACQUIRING, part=Part.ACCESS),
    ),
    "ptx: release stores relaxed": (
        PTX_SM_75,
        weaker(Order.RELAXED, kinds=(Kind.STORE,), orders=RELEASING, part=Part.ACCESS),
    ),
    "ptx: relaxed accesses weak": (
        PTX_SM_75,
        weaker(None, kinds=(Kind.LOAD, Kind.STORE), orders=(Order.RELAXED,), part=Part.ACCESS),
    ),
    "ptx: fence.acquire and fence.release that emit nothing below sm_90": (
        PTX_SM_75,
        without(Part.FENCE, kinds=FENCE, orders=(Order.ACQUIRE, Order.RELEASE)),
    ),
    "ptx: a release fence that only acquires": (
        PTX_SM_90,
        weaker(Order.ACQUIRE, kinds=FENCE, orders=(Order.RELEASE, Order.ACQ_REL), part=Part.FENCE),
    ),
    "ptx: no barrier": (
        PTX_SM_75,
        without(Part.BARRIER, kinds=(Kind.BARRIER,), orders=ALL_ORDERS),
    ),
    "vulkan: no MakeVisible": (VULKAN, retagged(lambda tags: tags - {"semvis"})),
    "vulkan: no MakeAvailable": (VULKAN, retagged(lambda tags: tags - {"semav"})),
    "vulkan: only WorkgroupMemory": (VULKAN, retagged(lambda tags: tags - {"semsc0"})),
    "vulkan: only UniformMemory": (VULKAN, retagged(lambda tags: tags - {"semsc1"})),
    "vulkan: private plain accesses": (VULKAN, retagged(lambda tags: tags - {"nonprivate"})),
    "vulkan: no hidden update": (
        VULKAN,
        without(Part.HIDDEN_UPDATE, kinds=tuple(Kind), orders=STRONG),
    ),
    "vulkan: a relaxed hidden update": (
        VULKAN,
        weaker(Order.RELAXED, kinds=tuple(Kind), orders=STRONG, part=Part.HIDDEN_UPDATE),
    ),
    "vulkan: no release barrier after the hidden update": (VULKAN, no_release_after_update),
    "vulkan: workgroup scope for the device's": (VULKAN, narrowed),
    "opencl: fences that order only global memory": (
        OPENCL,
        retagged(lambda tags: tags - {"local"}),
    ),
    "opencl: fences that order only local memory": (
        OPENCL,
        retagged(lambda tags: tags - {"global"}),
    ),
    "opencl: seq_cst accesses acq_rel": (
        OPENCL,
        lambda row: (
            replace(row, steps=tuple(replace(step, order=Order.ACQ_REL) for step in row.steps))
            if row.order is Order.SEQ_CST and row.target == OPENCL
            else row
        ),
    ),
    "opencl: its own seq_cst fences": (OPENCL, native_strong_fence),
    "x86: seq_cst stores as mov": (
        X86,
        retagged(lambda tags: tags - {"exchange"}),
    ),
    "x86: no mfence": (X86, without(Part.FENCE, kinds=FENCE, orders=STRONG)),
    "aarch64: ldapr for seq_cst loads": (
        AARCH64,
        lambda row: (
            replace(row, steps=(replace(row.steps[0], tags=frozenset({"Q"})),))
            if row.kind is Kind.LOAD and row.order is Order.SEQ_CST and row.steps[0].tags
            else row
        ),
    ),
    "aarch64: str for a release store": (AARCH64, retagged(lambda tags: tags - {"L"})),
    "aarch64: ldr for an acquire load": (AARCH64, retagged(lambda tags: tags - {"A", "Q"})),
    "aarch64: dmb ishst for a release fence": (
        AARCH64,
        lambda row: (
            replace(row, steps=tuple(replace(s, tags=frozenset({"dmb.st"})) for s in row.steps))
            if row.kind is Kind.FENCE and row.order in {Order.RELEASE, Order.ACQ_REL}
            else row
        ),
    ),
    "aarch64: no acquire fence": (
        AARCH64,
        without(Part.FENCE, kinds=FENCE, orders=(Order.ACQUIRE,)),
    ),
}

TRIES = 4000


def caught_after(target: str, change: Change) -> int | None:
    """Return how many programs it takes to see that a mapping is wrong."""

    def wrong(name: str, kind: Kind, order: Order | None, scope: Scope) -> Row:
        return change(lookup(name, kind, order, scope))

    for number in range(TRIES):
        seed, place = divmod(number, CHUNK)
        try:
            if check_mapping(chunk(drawn_like(target), seed)[place], target, wrong) is not None:
                return number + 1
        except RefusedError:
            continue
    return None


@pytest.mark.parametrize("name", WRONG)
def test_wrong_mappings_are_caught(name: str) -> None:
    target, change = WRONG[name]
    assert caught_after(target, change) is not None


def test_different_scopes_on_the_two_sides_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def unchanged(program: Program) -> Program:
        return program

    monkeypatch.setattr(lowering_pass, "one_scope", unchanged)
    assert caught_after(OPENCL, lambda row: row) is not None
