"""The pass that weakens orders: what it may remove, what it must keep, and who proves it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir.compiler import prepare, record
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, walk
from hetir.ir.text import parse_kernel
from hetir.memory.check import Checker, Outcome
from hetir.memory.claim import FinalLocation
from hetir.memory.models.ir import IrModel
from hetir.passes import harness
from hetir.passes.fences import Change, applied, weaken
from hetir.passes.fences_check import proves
from hetir.testing import synchronising

HEAD = "hetir 1\n\nkernel k(%x: array<i32[4], global> from 0) {\n"
SETUP = """  %i: i64 = const 0
  %one: i32 = const 1
  %me: i64 = local_id axis=0
  %s: array<i32[4], shared> = alloc
"""


def kernel_of(body: str) -> Kernel:
    return parse_kernel(f"{HEAD}{SETUP}{body}\n  return\n}}\n")


def left_of(body: str) -> list[str]:
    """The orders, fences and barriers that stay, in words."""
    kept, _ = weaken(kernel_of(body))
    found = (op for op in walk(kept.body) if "scope" in op.attrs)
    return [" ".join((op.name, *(str(op.attrs[a]) for a in _named(op)))) for op in found]


def _named(op: Operation) -> tuple[str, ...]:
    return ("order", "scope") if "order" in op.attrs else ("scope",)


FENCE = "  fence order={} scope={}\n"
LOAD = "  %v{0}: i32 = atomic.load %{1}, %i order={2} scope={3}\n"
STORE = "  atomic.store %{0}, %i, %one order={1} scope={2}\n"
PLAIN = "  store %x, %me, %one\n"
READ = "  %p: i32 = load %x, %me\n"
BARRIER = "  barrier scope=workgroup\n"
SIGNAL = STORE.format("x", "relaxed", "device")
RELEASED = STORE.format("x", "release", "device")


@pytest.mark.parametrize(
    ("body", "left"),
    [
        # a fence beside a stronger one goes, on either side of it
        (
            PLAIN + FENCE.format("acq_rel", "device") + FENCE.format("release", "device") + SIGNAL,
            ["fence release device", "atomic.store relaxed device"],
        ),
        (
            PLAIN + FENCE.format("release", "device") + FENCE.format("seq_cst", "device") + SIGNAL,
            ["fence seq_cst device", "atomic.store relaxed device"],
        ),
        # a wider scope covers, a narrower one does not
        (
            PLAIN + FENCE.format("release", "workgroup") + FENCE.format("release", "device")
            + SIGNAL,
            ["fence release device", "atomic.store relaxed device"],
        ),
        # the barrier orders the workgroup
        (
            PLAIN + FENCE.format("acq_rel", "workgroup") + BARRIER + READ,
            ["barrier workgroup"],
        ),
        (
            PLAIN + BARRIER + FENCE.format("seq_cst", "workgroup") + READ,
            ["barrier workgroup"],
        ),
        # a device fence before the barrier is redundant if the elected one releases
        (
            PLAIN + FENCE.format("release", "device") + BARRIER + RELEASED,
            ["barrier workgroup", "atomic.store release device"],
        ),
        (
            LOAD.format(1, "s", "acquire", "workgroup") + BARRIER + READ,
            ["atomic.load relaxed workgroup", "barrier workgroup"],
        ),
        # two barriers in a row, barriers that nothing stands before or after
        (PLAIN + BARRIER + BARRIER + READ, ["barrier workgroup"]),
        (BARRIER + PLAIN + BARRIER, []),
        # shared memory is one workgroup's
        (PLAIN + STORE.format("s", "release", "device"), ["atomic.store release workgroup"]),
        # an acquire that nothing follows
        (LOAD.format(1, "x", "acquire", "device"), ["atomic.load relaxed device"]),
    ],
)  # fmt: skip
def test_what_is_redundant_goes(body: str, left: list[str]) -> None:
    assert left_of(body) == left


@pytest.mark.parametrize(
    "body",
    [
        PLAIN + FENCE.format("release", "device") + SIGNAL,
        # the elected work-item's store does not release
        PLAIN + FENCE.format("release", "device") + BARRIER + SIGNAL,
        # the release is narrower than the fence
        PLAIN + FENCE.format("release", "device") + STORE.format("x", "release", "workgroup"),
        # an access stands between
        PLAIN + FENCE.format("seq_cst", "device") + SIGNAL + FENCE.format("seq_cst", "device")
        + LOAD.format(1, "x", "relaxed", "device") + READ,
        PLAIN + BARRIER + READ + BARRIER + PLAIN,
        PLAIN + FENCE.format("release", "workgroup") + STORE.format("s", "relaxed", "workgroup")
        + LOAD.format(1, "s", "relaxed", "workgroup")
        + FENCE.format("acquire", "workgroup") + READ,
        # a barrier between two fences: the second hands on what others wrote before it
        LOAD.format(1, "x", "relaxed", "device") + FENCE.format("seq_cst", "device") + BARRIER
        + FENCE.format("seq_cst", "device") + SIGNAL,
        # system scope stays whatever stands beside it
        PLAIN + FENCE.format("release", "system") + FENCE.format("release", "system") + RELEASED,
        PLAIN + STORE.format("s", "release", "system"),
        LOAD.format(1, "x", "acquire", "device") + READ,
        LOAD.format(1, "x", "seq_cst", "device"),
        # the wait before the barrier is at device scope
        LOAD.format(1, "x", "acquire", "device") + BARRIER + READ,
    ],
)  # fmt: skip
def test_what_is_needed_stays(body: str) -> None:
    before = kernel_of(body)
    kept, changes = weaken(before)
    assert not changes
    assert kept is before


BRANCH = """  %c: bool = eq %v1, %one
  if %c {{
  {}  yield
  }} else {{
  {}  yield
  }}
"""
ARRIVE = "  %v1: i32 = atomic.rmw %x, %i, %one kind=add order=acq_rel scope={}\n"


def test_only_the_branch_that_needs_it_acquires() -> None:
    moved = PLAIN + ARRIVE.format("device") + BRANCH.format(READ, "")
    kept, changes = weaken(kernel_of(moved))
    assert [c.rule for c in changes] == ["branch"]
    names = [op.name for op in walk(kept.body) if op.name in ("if", "fence", "load")]
    assert names == ["if", "fence", "load"]
    assert left_of(moved) == ["atomic.rmw release device", "fence acquire device"]


@pytest.mark.parametrize(
    "body",
    [
        PLAIN + ARRIVE.format("device") + BRANCH.format(READ, PLAIN),  # both branches
        PLAIN + ARRIVE.format("device") + BRANCH.format(READ, "") + PLAIN,  # and after them
        PLAIN + ARRIVE.format("device") + PLAIN + BRANCH.format(READ, ""),  # and before
        PLAIN + ARRIVE.format("system") + BRANCH.format(READ, ""),
        "  %d: i64 = const 1\n  for %i, %d, %d (%j: i64) {\n" + PLAIN
        + ARRIVE.format("device") + BRANCH.format(READ, "") + "  yield\n  }\n",  # the next turn
    ],
)  # fmt: skip
def test_what_several_places_need_is_acquired_at_once(body: str) -> None:
    assert not weaken(kernel_of(body))[1]


def test_the_proofs_refuse_a_fence_that_comes_too_late() -> None:
    body = PLAIN + ARRIVE.format("device") + BRANCH.format(READ + "  fence order=acquire "
        "scope=device\n", "")  # fmt: skip
    early = kernel_of(body)
    (update,) = (op for op in walk(early.body) if op.name == "atomic.rmw")
    (branch,) = (op for op in walk(early.body) if op.name == "if")
    late = Change(op=update, left="release device", rule="branch", into=branch.regions[1])
    right = Change(op=update, left="release device", rule="branch", into=branch.regions[0])
    assert not proves(early, applied(early, late))
    assert proves(early, applied(early, right))


def test_a_release_in_a_loop_counts_writes_of_the_next_turn() -> None:
    body = (
        "  %n: i64 = const 3\n  %d: i64 = const 1\n  for %i, %n, %d (%j: i64) {\n"
        + SIGNAL + PLAIN + FENCE.format("release", "device") + RELEASED + "  yield\n  }"
    )  # fmt: skip
    assert "fence release device" in left_of(body)
    assert "fence release device" not in left_of(body.replace(SIGNAL, RELEASED))


def test_the_reason_names_the_line_that_makes_it_redundant() -> None:
    body = PLAIN + FENCE.format("release", "device") + BARRIER + RELEASED
    placed = body.replace(RELEASED, f"{RELEASED.rstrip()} @9:4-8\n")
    text = f"{HEAD}{SETUP}{placed}  return\n}}\n"
    _, changes = weaken(parse_kernel(text.replace("hetir 1\n", 'hetir 1\nfile 0 = "a.py"\n')))
    assert [c.rule for c in changes] == ["released"]
    assert changes[0].reason == "every atomic write after it releases by itself as far (line 9)"


# ---- against the memory model --------------------------------------------------------------


def outcomes(kernel: Kernel) -> frozenset[Outcome]:
    """How the arrays may end, by the axioms."""
    arrays = [np.zeros(n, np.int32) for n in synchronising.SHAPES.values()]
    small = harness.read(
        kernel, arrays, (synchronising.GRID, 1, 1), (synchronising.WORKGROUP, 1, 1)
    )
    with Checker(small.program, IrModel()) as checker:
        assert not checker.races()
        return checker.outcomes([FinalLocation(name) for name in small.outputs])


def weakenings(kernel: Kernel) -> Iterator[Change]:
    """Every removal and every weaker order and scope, right or wrong."""
    for op in walk(kernel.body):
        if op.spec in (ops.FENCE, ops.BARRIER):
            yield Change(op=op, left="", rule="covered")
        order, scope = op.attrs.get("order"), op.attrs.get("scope")
        if order in ("acquire", "release", "acq_rel") and op.spec is not ops.FENCE:
            yield Change(op=op, left=f"relaxed {scope}", rule="covered")
        if order == "acq_rel":
            yield Change(op=op, left=f"acquire {scope}", rule="covered")
            yield Change(op=op, left=f"release {scope}", rule="covered")
        if scope == "device" and order and op.spec is not ops.FENCE:
            yield Change(op=op, left=f"{order} workgroup", rule="covered")


def test_nothing_that_the_pass_does_adds_an_outcome() -> None:
    rules = Counter[str]()
    for seed in range(60):
        kernel = parse_kernel(synchronising.text(seed))
        kept, changes = weaken(kernel)
        rules.update(change.rule for change in changes)
        if any(change.rule != "first" for change in changes):
            assert outcomes(kept) <= outcomes(kernel), seed
    assert set(rules) >= {"covered", "barrier", "released", "acquired", "twice", "last", "own"}


@pytest.mark.slow
def test_nothing_that_the_pass_does_adds_an_outcome_in_a_thousand() -> None:
    for seed in range(60, 1060):
        kernel = parse_kernel(synchronising.text(seed))
        assert outcomes(weaken(kernel)[0]) <= outcomes(kernel), seed


def test_the_proofs_refuse_every_step_that_adds_an_outcome() -> None:
    verdicts = Counter[tuple[bool, bool]]()
    for seed in range(20):
        kernel = parse_kernel(synchronising.text(seed))
        allowed = outcomes(kernel)
        for step in weakenings(kernel):
            weaker = applied(kernel, step)
            try:
                safe = outcomes(weaker) <= allowed
            except AssertionError:
                safe = False  # it races
            proved = proves(kernel, weaker)
            verdicts[proved, safe] += 1
            assert safe or not proved, (seed, step)
    assert verdicts[False, False] >= 10
    assert verdicts[True, True] >= 10


def test_the_proofs_refuse_other_changes() -> None:
    kernel = kernel_of(PLAIN + FENCE.format("release", "device") + BARRIER + RELEASED)
    fence, barrier = (op for op in walk(kernel.body) if op.name in ("fence", "barrier"))
    both = applied(
        applied(kernel, Change(op=fence, left="", rule="covered")),
        Change(op=barrier, left="", rule="twice"),
    )
    stronger = applied(kernel, Change(op=fence, left="acq_rel device", rule="covered"))
    assert not proves(kernel, kernel)
    assert not proves(kernel, both)
    assert not proves(kernel, stronger)
    assert proves(kernel, applied(kernel, Change(op=fence, left="", rule="covered")))


# ---- what an artifact says -----------------------------------------------------------------


@hetir.kernel
def message(data: hl.Array[hl.i32, 1], flag: hl.Array[hl.i32, 1], out: hl.Array[hl.i32, 1]):
    if hl.group_id(0) == 0:
        data[hl.local_id(0)] = 42
        hl.fence("release", "device")
        hl.barrier()
        if hl.local_id(0) == 0:
            hl.atomic_store(flag, 0, 1, order="release")
    else:
        while hl.atomic_load(flag, 0, order="acquire") == 0:
            pass
        out[hl.local_id(0)] = data[hl.local_id(0)]


EMITTED = {
    "ptx:sm_90": ("bar.sync 0;", "st.release.gpu.global.b32 ", "ld.acquire.gpu.global.b32 "),
    "ptx:sm_75": ("bar.sync 0;", "st.release.gpu.global.b32 ", "ld.acquire.gpu.global.b32 "),
    "spirv:opencl": (
        "OpControlBarrier Workgroup Workgroup AcquireRelease|WorkgroupMemory|CrossWorkgroupMemory",
        "OpAtomicStore ",
        "OpAtomicLoad ",
    ),
    "spirv:vulkan": (
        "OpControlBarrier Workgroup Workgroup AcquireRelease|UniformMemory|WorkgroupMemory|"
        "MakeAvailable|MakeVisible",
        "OpAtomicStore ",
        "OpAtomicLoad ",
    ),
    "cpu": ("", "store atomic i32 1, ", "load atomic i32, "),
}


@pytest.mark.parametrize("target", EMITTED)
def test_an_artifact_names_its_instructions(target: str) -> None:
    made = hetir.compile(message, target=target)
    barrier, store, load, removed = made.fences
    for fence, words in zip((barrier, store, load), EMITTED[target], strict=True):
        assert words in fence.instruction
        assert bool(fence.line) == bool(words)
    assert "Release" in store.instruction or " release" in store.instruction.replace(".", " ")
    assert "Device" in store.instruction or "spirv" not in target
    lines = made.text.splitlines()
    for fence in (store, load):
        assert fence.instruction.split()[0] in lines[fence.line - 1]
    assert (removed.kind, removed.order, removed.instruction) == ("fence", "release", "")
    assert removed.reason.startswith("removed: every atomic write after it releases by itself")
    here = message.__wrapped__.__code__.co_firstlineno
    places = [fence.location.line - here for fence in made.fences if fence.location]
    assert places == [5, 7, 9, 4]


def test_ascend_names_sites_and_reasons_but_no_instruction() -> None:
    @hetir.kernel
    def turned(x: hl.Array[hl.f32, 1]):
        tile = hl.shared(64, hl.f32)
        tile[hl.local_id(0)] = x[hl.global_id(0)]
        hl.barrier()
        x[hl.global_id(0)] = tile[63 - hl.local_id(0)]

    (barrier,) = hetir.compile(turned, target="ascend:910b", workgroup=64).fences
    assert (barrier.kind, barrier.instruction) == ("barrier", "")
    assert "happen before" in barrier.reason
    assert "needs no instruction" not in barrier.reason


def test_the_evaluator_still_runs_what_was_written() -> None:
    module = record(message, message.annotated()).module
    names = [op.name for op in walk(prepare(module).body)]
    assert names.count("fence") == 1
