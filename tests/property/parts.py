"""Parts of the search for disagreements: each draws a case and names the checks that it must pass.

Used by tests/fuzz_long.py for hours and by test_generated_targets.py for seconds. A check raises
AssertionError where bits differ, one of REFUSALS where a target cannot hold the kernel.
"""

from __future__ import annotations

import os
import re
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import hetir
from hetir import emulator, hetbin, runtime, testing
from hetir.backends import cpu
from hetir.checkpoint import StopAt
from hetir.emulator.ascend.device import ORDER_VARIABLE
from hetir.frontend import trace
from hetir.ir import ops
from hetir.ir.binary import decode, encode
from hetir.ir.canonical import canonicalise
from hetir.ir.core import Kernel, Module, Operation, walk
from hetir.ir.text import parse_kernel, print_kernel
from hetir.ir.types import F64, ArrayType
from hetir.ir.verify import verify
from hetir.passes.inline import inline
from hetir.passes.lower_exits import lower_exits
from hetir.passes.regions import LOOPS
from hetir.passes.safe_points import NotCheckpointableError
from hetir.passes.simplify import PASSES, simplify
from hetir.passes.uniformity import uniformity
from hetir.target import UnsupportedError
from hetir.testing.cases import Case, Runner, Said
from hetir.testing.differential import said_by
from hetir.testing.generate import STORAGE, Shape
from hetir.testing.guard import Guarded
from hetir.testing.runners import REFUSALS, OnDevice
from hetir.testing.sources import SourceCase
from tests.property.regroup import regrouped
from tests.unit import ptx_support
from tests.unit.checkpoint_tools import evaluator as checked_evaluator
from tests.unit.checkpoint_tools import hop, placed
from tests.unit.cpu_support import enter

Drawn = Case | SourceCase
Check = Callable[[Any], None]
"""Takes a case, perhaps a smaller one than the check was drawn for."""

REFUSED = (*REFUSALS, NotCheckpointableError)
LANES = (0, 1, 2, 4, 8, 16, 32, 64, None)
CHIPS = tuple(f"ptx:sm_{n}" for n in (75, 80, 86, 89, 90, 100, 120))
SHIMS = ("ascend-shim", "ascend-shim:310p", "ascend-shim:950")


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of search: `draw` gives a case and its checks by name."""

    name: str
    draw: Callable[[int, Random], tuple[Drawn, list[tuple[str, Check]]]]
    here: Callable[[], bool] = lambda: True


def drawn(part: Part, seed: int) -> tuple[Drawn, list[tuple[str, Check]]]:
    """The case of a seed, the same at every call, and its checks."""
    return part.draw(seed, Random(f"{part.name} {seed}"))


# ---- cases -------------------------------------------------------------------------------------


WITHOUT_F64 = tuple(t for t in STORAGE if t != F64)
"""What the Ascend targets have."""


def hetir_case(seed: int, shape: Shape | None = None) -> Case:
    """A generated hetIR kernel."""
    return testing.generate(Random(seed).randrange, shape or Shape())


def source_case(seed: int) -> SourceCase:
    """A generated Python kernel."""
    return testing.generate_source(Random(seed).randrange)


# ---- checks ------------------------------------------------------------------------------------


Left = tuple[list[Any], object]
"""The written arrays after a run, and what was printed and asserted where the runner knows."""


def guarded_run(case: Case, runner: Runner, kernel: Kernel | None = None) -> Left:
    """What a run leaves between red zones, which must stay what they were."""
    arguments = Guarded(case.arguments(), [i.writes for i in case.inputs])
    said = runner(kernel or case.kernel, arguments.arguments, case.grid, case.workgroup)
    stray = arguments.stray()
    assert not stray, "; ".join(stray)
    return case.written(arguments.arguments), said


def right(case: Case) -> Left:
    """What the evaluator leaves."""
    arguments = case.arguments()
    said = testing.evaluator(case.kernel, arguments, case.grid, case.workgroup)
    return case.written(arguments), said


def equal(expected: Left, got: Left) -> None:
    """Fail where bits, printed lines or failed assertions differ."""
    wrong = testing.differences(expected[0], got[0])
    if isinstance(expected[1], Said) and isinstance(got[1], Said):
        wrong += expected[1].in_order().differences(got[1].in_order())
    assert not wrong, "; ".join(wrong)


def agrees(runner: Runner, form: Callable[[Case], Kernel] = lambda case: case.kernel) -> Check:
    """A check that the runner leaves the evaluator's bits for a form of the kernel."""

    def check(case: Case) -> None:
        kernel = form(case)
        verify(kernel)
        equal(right(case), guarded_run(case, runner, kernel))

    return check


def reform(*steps: Callable[[Kernel], Kernel]) -> Callable[[Case], Kernel]:
    """The kernel after some passes."""

    def form(case: Case) -> Kernel:
        kernel = case.kernel
        for step in steps:
            kernel = step(kernel)
        return kernel

    return form


# ---- evaluator, CPU ----------------------------------------------------------------------------


def draw_cpu(seed: int, random: Random) -> tuple[Drawn, list[tuple[str, Check]]]:
    """The CPU at several widths and levels, as written, with promises and without."""
    checks: list[tuple[str, Check]] = []
    for _ in range(2):
        options: dict[str, Any] = {
            "lanes": random.choice(LANES),
            "optimise": random.choice((0, 0, 3)),
            "simplified": random.random() < 0.8,
            "promised": random.random() < 0.5,
            "fixed": random.random() < 0.9,
        }
        if not options["fixed"]:
            options["lanes"] = 0
        checks.append((named("cpu", options), agrees(OnDevice(device="cpu", **options))))
    order = random.randrange(1 << 20)

    def one_by_one(kernel: Kernel, arguments: list[Any], grid: Any, workgroup: Any) -> None:
        artifact = cpu.compile_kernel(kernel, optimise=0, workgroup=workgroup)
        run = enter(artifact, arguments, grid, workgroup)
        for group in Random(order).sample(range(prod(grid)), prod(grid)):
            run(group, group + 1)

    if random.randrange(3) == 0:
        checks.append(("cpu, workgroups one by one in another order", agrees(one_by_one)))
    return hetir_case(seed), checks


def named(start: str, options: dict[str, Any]) -> str:
    """A name with the options that it has."""
    return " ".join([start, *(f"{key}={value}" for key, value in options.items())])


def draw_evaluator(seed: int, random: Random) -> tuple[Drawn, list[tuple[str, Check]]]:
    """The evaluator with every check, in other orders, by parts of the grid, and weakly."""

    def run(**options: Any) -> Runner:
        def runner(kernel: Kernel, arguments: list[Any], grid: Any, workgroup: Any) -> Said:
            return said_by(emulator.run(kernel, arguments, grid, workgroup, **options))

        return runner

    def in_parts(kernel: Kernel, arguments: list[Any], grid: Any, workgroup: Any) -> Said:
        said = Said()
        for group in Random(random_seed).sample(range(prod(grid)), prod(grid)):
            one = run(groups=[group])(kernel, arguments, grid, workgroup)
            said.lines += one.lines
            said.failed += one.failed
        return said

    random_seed = random.randrange(1 << 20)
    case = hetir_case(seed)
    checks: list[tuple[str, Check]] = [
        ("evaluator with checks", agrees(testing.checked)),
        ("evaluator in another order", agrees(run(seed=random_seed + 1))),
        ("evaluator by workgroups", agrees(in_parts)),
    ]
    if prod(case.grid) * prod(case.workgroup) <= 16:
        checks.append(("evaluator, weak", agrees(run(seed=random_seed, weak=True))))
    return case, checks


# ---- other targets -----------------------------------------------------------------------------


def devices(driver: str) -> list[str]:
    """The devices of a driver that are here."""
    return [d.name for d in runtime.devices(emulated=True) if d.portrait.driver == driver]


def draw_on(driver: str, count: int = 1) -> Callable[[int, Random], Any]:
    """Every device of a driver, each in `count` ways."""

    def draw(seed: int, random: Random) -> tuple[Drawn, list[tuple[str, Check]]]:
        checks: list[tuple[str, Check]] = []
        for device in devices(driver):
            for _ in range(count):
                options = {
                    "simplified": random.random() < 0.8,
                    "fixed": random.random() < 0.6,
                    "owned": random.random() < 0.6,
                }
                runner = OnDevice(device=device, **options)
                run = settled(runner) if driver == "vulkan" else runner
                checks.append((named(device, options), agrees(run)))
        return hetir_case(seed), checks

    return draw


def settled(runner: Runner) -> Runner:
    """The runner, without what Mesa 22.3 gets wrong: see docs/spirv.md."""

    def run(kernel: Kernel, arguments: list[Any], grid: Any, workgroup: Any) -> object:
        known = uniformity(kernel)
        for loop in walk(kernel.body):
            inside = [op for r in loop.regions for op in walk(r)] if loop.spec in LOOPS else []
            for op in inside:
                if op.attrs.get("order", "relaxed") != "relaxed" and known.divergent(op):
                    raise UnsupportedError("an order in a loop with unlike rounds")
        return runner(kernel, arguments, grid, workgroup)

    return run


def draw_ptx(seed: int, random: Random) -> tuple[Drawn, list[tuple[str, Check]]]:
    """Two chips, each with other promises, on the PTX emulator."""
    checks: list[tuple[str, Check]] = []
    for target in random.sample(CHIPS, 2):
        options = {
            "target": target,
            "simplified": random.random() < 0.8,
            "fixed": random.random() < 0.6,
            "promised": random.random() < 0.6,
            "owned": random.random() < 0.5,
            "optimise": random.choice((0, 3, 3)),
        }
        runner = OnDevice(device="ptx-emulator", **options)
        checks.append((named("ptx-emulator", options), agrees(runner)))
    if random.randrange(3) == 0:
        target = random.choice(CHIPS)

        def watched(kernel: Kernel, arguments: list[Any], grid: Any, workgroup: Any) -> None:
            # an atomic on a part of a word meets plain accesses to the rest of it
            races = {"races": not any(map(on_parts_of_words, walk(kernel.body)))}
            ptx_support.run(kernel, arguments, grid, workgroup, target=target, checks=races)

        checks.append((f"ptx text for {target}, watched for races", agrees(watched)))
    return hetir_case(seed), checks


def on_parts_of_words(op: Operation) -> bool:
    """Whether an op is an atomic on less than 32 bits."""
    kind = op.operands[0].type if op.name.startswith("atomic.") else None
    return isinstance(kind, ArrayType) and kind.element.bits < 32


def draw_ascend(device: str) -> Callable[[int, Random], Any]:
    """One chip of the Ascend shim, in a hostile order of its pipes."""

    def draw(seed: int, random: Random) -> tuple[Drawn, list[tuple[str, Check]]]:
        order = random.choice(("newest", "oldest", "eager", f"random:{random.randrange(99)}"))
        options = {
            "simplified": random.random() < 0.8,
            "promised": random.random() < 0.7,
        }
        runner = OnDevice(device=device, **options)

        def run(kernel: Kernel, arguments: list[Any], grid: Any, workgroup: Any) -> None:
            os.environ[ORDER_VARIABLE] = order
            runner(kernel, arguments, grid, workgroup)

        shape = Shape(types=WITHOUT_F64, records=False, atomics=seed % 4 == 0)
        case = hetir_case(seed, shape)
        return case, [(named(device, {**options, "order": order}), agrees(run))]

    return draw


# ---- forms -------------------------------------------------------------------------------------


def through_text(kernel: Kernel) -> Kernel:
    """Printed and parsed; the text must be a fixed point."""
    text = print_kernel(kernel)
    again = parse_kernel(text)
    assert print_kernel(again) == text, "what was printed and parsed prints as other text"
    return again


def through_binary(kernel: Kernel) -> Kernel:
    """Encoded and decoded; the text must stay, and the bytes be a fixed point."""
    data = encode(Module(kernels=(kernel,), functions=()))
    (again,) = decode(data).kernels
    assert print_kernel(again) == print_kernel(kernel), "the binary form changes the text"
    assert encode(Module(kernels=(again,), functions=())) == data, "the bytes are no fixed point"
    return again


def draw_forms(seed: int, random: Random) -> tuple[Drawn, list[tuple[str, Check]]]:
    """Round trips, passes in any order and subset, other groups of the same work-items."""
    some = random.sample(PASSES, random.randint(1, len(PASSES)))
    order = random.choices(PASSES, k=random.randint(2, 12))
    on = OnDevice(device="cpu", optimise=0, lanes=random.choice(LANES), simplified=False)
    names = {
        "text": reform(through_text),
        "binary": reform(through_binary),
        "canonical": reform(canonicalise),
        "simplified, binary, text": reform(simplify, through_binary, through_text),
        f"passes {[p.__name__ for p in some]}": reform(*some),
        f"passes {[p.__name__ for p in order]}": reform(*order),
        "exits lowered": reform(lower_exits),
        "exits lowered, simplified": reform(simplify, lower_exits, simplify),
    }
    checks = [(name, agrees(testing.evaluator, form)) for name, form in names.items()]
    checks.append((f"cpu after {[p.__name__ for p in order]}", agrees(on, reform(*order))))
    items = random.choice((1, 2, 3, 5, 8, 16, 24, 33, 64))
    for name, runner in (("evaluator", testing.evaluator), ("cpu", on)):
        checks.append((f"{name} in workgroups of {items}", other_groups(runner, items)))
    return hetir_case(seed), checks


def other_groups(runner: Runner, items: int) -> Check:
    """A check in workgroups of another size, of a kernel that allows them."""

    def check(case: Case) -> None:
        if any(op.spec.name in NEEDS_ITS_GROUP or shares(op) for op in walk(case.kernel.body)):
            return
        other = regrouped(case, items)
        verify(other.kernel)
        (wanted, told), (got, said) = right(case), guarded_run(other, runner)
        assert isinstance(told, Said)
        assert isinstance(said, Said)
        equal((wanted, Said(failed=told.failed)), (got, Said(failed=said.failed)))

    return check


NEEDS_ITS_GROUP = frozenset(
    name
    for name, spec in ops.TABLE.items()
    if "subgroup" in name or name in ("lane_id", "assume_uniform") or ops.Effect.SYNC in spec.effect
)


def shares(op: Any) -> bool:
    """Whether an op makes shared memory."""
    return op.spec is ops.ALLOC and op.attrs["type"].space == "shared"


# ---- checkpoints -------------------------------------------------------------------------------


def draw_checkpoint(seed: int, random: Random) -> tuple[Drawn, list[tuple[str, Check]]]:
    """Stopped at safe points again and again, each time going on on another runner."""
    pool: dict[str, tuple[Runner, bool]] = {
        "evaluator": (checked_evaluator, True),
        "cpu": (OnDevice(device="cpu", optimise=0), False),
        "cpu lanes=0": (OnDevice(device="cpu", optimise=0, lanes=0), False),
        "cpu lanes=8": (OnDevice(device="cpu", optimise=0, lanes=8), False),
        "ptx-emulator": (OnDevice(device="ptx-emulator"), True),
        "ascend-shim:950": (OnDevice(device="ascend-shim:950"), True),
    }
    weights = [4, 4, 2, 2, 3, 0.3]
    names = random.choices(list(pool), weights, k=random.randint(1, 3))
    limit, capacity = random.choice((1, 2, 3, 5, 9)), random.choice((1, 2, 4))

    def check(case: Case) -> None:
        found = placed(case.kernel)
        arguments = case.arguments()
        runners = [pool[name] for name in names]
        hop(found, arguments, case.grid, case.workgroup, runners, limit=limit, capacity=capacity)
        wrong = testing.differences(case.run(testing.evaluator), case.written(arguments))
        assert not wrong, "; ".join(wrong)

    case = hetir_case(seed, Shape(statements=8, records=False))
    return case, [(f"checkpoints on {names}, limit={limit}, capacity={capacity}", check)]


# ---- Python sources, by way of everything a user meets -----------------------------------------


def draw_source(seed: int, random: Random) -> tuple[Drawn, list[tuple[str, Check]]]:
    """A Python kernel."""
    case = source_case(seed)
    return case, source_checks(random, build=random.randrange(5) == 0)


def source_checks(random: Random, *, build: bool) -> list[tuple[str, Check]]:
    """Python itself, then launches, a hetbin, and a checkpoint that goes on elsewhere."""
    others = [d for name in ("opencl", "vulkan", "ptx-emulator") for d in devices(name)]
    device = random.choice(("emulator", "cpu", *others))
    first, second = (
        random.choice(("cpu", "emulator", "ptx-emulator")),
        random.choice(("cpu", "emulator", "ptx-emulator")),
    )
    stop, sizes = random.choice((1, 2, 5, 20)), random.choice((None, (1, 1, 1)))
    targets = random.choice((("cpu:x86-64-v3",), ("cpu:x86-64", "ptx:sm_80"), ("spirv:opencl",)))

    def traced(case: SourceCase) -> None:
        module = trace(case.function(), case.types())
        verify(module)
        kernel = inline(module)
        for form in (kernel, simplify(kernel)):
            arguments = case.arguments()
            report = emulator.run(form, arguments, case.grid, case.workgroup, checks=True)
            assert not report.faults, str(report)
            same(case, arguments)

    def launched(case: SourceCase) -> None:
        kernel = hetir.kernel(case.function())
        arguments = Guarded(case.arguments(), [i.writes for i in case.inputs])
        kernel.launch(
            arguments.arguments, grid=case.grid, workgroup=case.workgroup, device=device
        ).wait()
        same(case, arguments.arguments)
        assert not arguments.stray(), "; ".join(arguments.stray())

    def resumed(case: SourceCase) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "job.hetck"
            kernel = hetir.kernel(case.function())
            arguments = case.arguments()
            launch = kernel.launch(
                arguments, grid=case.grid, workgroup=case.workgroup, device=first,
                checkpoint=StopAt(safe_points=stop, path=path),
            )  # fmt: skip
            launch.wait()
            if path.exists():
                run = hetir.resume(path, device=second)
                run.wait()
                arguments = list(run.arguments.values())
            same(case, arguments)

    def built(case: SourceCase) -> None:
        kernel = hetir.kernel(case.function())
        with tempfile.TemporaryDirectory() as folder:
            made = hetbin.specialise(
                kernel, case.types(), targets, (sizes and case.workgroup,), Path(folder)
            )
            path = Path(folder) / "built.hetbin"
            path.write_bytes(hetbin.encode(made))
            assert hetbin.encode(hetbin.decode(path.read_bytes())) == path.read_bytes()
            arguments = case.arguments()
            loaded = hetbin.load(path)["generated"]
            launch = loaded.launch(
                arguments, grid=case.grid, workgroup=case.workgroup, device=second
            )
            launch.wait()
            same(case, arguments)

    checks: list[tuple[str, Check]] = [
        ("traced, on the evaluator", traced),
        (f"launched on {device}", launched),
        (f"stopped on {first} after {stop}, resumed on {second}", resumed),
    ]
    if build:
        checks.append((f"built for {targets}, launched on {second}", built))
    return checks


def same(case: SourceCase, arguments: Sequence[Any]) -> None:
    """What a run left is what Python leaves."""
    wrong = testing.differences(case.plain(), case.written(arguments))
    assert not wrong, "; ".join(wrong)


def draw_planted(seed: int, random: Random) -> tuple[Drawn, list[tuple[str, Check]]]:
    """Checks that fail in every way, for the test of the search."""
    del random

    def check(case: Case) -> None:
        if seed == 1:
            equal(right(case), ([np.zeros_like(a) for a in right(case)[0]], None))
        if seed == 3:
            os.kill(os.getpid(), signal.SIGSEGV)
        if seed == 4:
            time.sleep(3600)
        if seed == 6:
            raise ValueError("planted")

    return hetir_case(seed), [("planted", check)]


PARTS = {
    part.name: part
    for part in (
        Part("cpu", draw_cpu),
        Part("evaluator", draw_evaluator),
        Part("forms", draw_forms),
        Part("checkpoint", draw_checkpoint),
        Part("source", draw_source),
        Part("ptx", draw_ptx),
        Part("opencl", draw_on("opencl"), lambda: bool(devices("opencl"))),
        Part("vulkan", draw_on("vulkan"), lambda: bool(devices("vulkan"))),
        *(
            Part(
                name.replace("ascend-shim", "ascend").replace("ascend:", "ascend-"),
                draw_ascend(name),
                lambda: bool(devices("ascend-shim")),
            )
            for name in SHIMS
        ),
    )
}

if os.environ.get("HETIR_FUZZ_PLANTED"):
    PARTS["planted"] = Part("planted", draw_planted)


def smaller(case: Case, check: Check, failure: BaseException, late: Callable[[], bool]) -> Case:
    """The case made small while the check fails as it did, until it is `late`.

    The evaluator must find no fault in what is left.
    """
    from hetir.testing.reduce import reduce

    kind = signature(failure)

    def fails(candidate: Case) -> bool:
        if late():
            return False
        candidate.run(testing.checked)
        try:
            check(candidate)
        except REFUSED:
            return False
        except Exception as error:  # noqa: BLE001 - whatever it was at first
            return signature(error) == kind
        return False

    return reduce(case, fails)


def signature(error: BaseException) -> str:
    """What kind of failure an error is: its type and the first words, numbers left out."""
    if isinstance(error, AssertionError) and "array" in str(error)[:6]:
        return "bits differ"
    text = re.sub(r"0x[0-9a-f]+|/\S+|\d+", "#", str(error).partition("\n")[0])
    return f"{type(error).__name__}: {text[:80]}"
