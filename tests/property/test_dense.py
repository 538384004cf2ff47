"""Many small kernels of few kinds of statements, for what large ones have seldom."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from hetir import testing
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Options, Param, Value
from hetir.ir.types import F32, I32, I64, Scalar, array, static_array
from hetir.ir.verify import verify
from hetir.passes.access import ACCESSES, Addresses
from hetir.passes.check_barriers import check_barriers
from hetir.passes.expand_arrays import expand_arrays
from hetir.passes.lower_exits import lower_exits
from hetir.passes.narrow_indices import narrow_indices
from hetir.passes.ranges import Bounds, ranges
from hetir.passes.simplify import PASSES
from hetir.passes.uniformity import uniformity
from hetir.testing.cases import Input
from hetir.testing.runners import OnDevice
from tests.property.cells import SHARE, cells, need, seeds
from tests.property.test_generated import watch_uniform
from tests.unit import ptx_support
from tests.unit.checkpoint_tools import evaluator as checked
from tests.unit.checkpoint_tools import hop, placed

MOST = (2**31 - 1, 65535, 65535)


def note(error, seed, case):
    error.add_note(f"seed {seed}\n{case}")
    raise error


def agrees(seed, case, expected, kernel, runner=testing.evaluator):
    verify(kernel)
    wrong = testing.differences(expected, case.run(runner, kernel))
    assert not wrong, f"seed {seed}\n{case}\n{wrong}"


def test_they_are_clean():
    for seed in seeds(0, 40):
        case = cells(seed)
        verify(case.kernel)
        check_barriers(case.kernel)
        case.run(testing.checked)


def test_no_pass_changes_a_bit():
    changed = Counter[str]()
    for seed in seeds(0, 100):
        case = cells(seed)
        expected = case.run(testing.evaluator)
        for one in PASSES:
            kernel = one(case.kernel)
            if kernel is not case.kernel:
                changed[one.__name__] += 1
                agrees(seed, case, expected, kernel)
    assert len(changed) >= len(PASSES) - 2, changed


def test_lowered_exits_agree():
    for seed in seeds(1000, 80):
        case = cells(seed)
        agrees(seed, case, case.run(testing.evaluator), lower_exits(case.kernel))


@pytest.mark.parametrize("scope", ["subgroup", "workgroup", "device"])
@pytest.mark.parametrize("lockstep", [False, True])
def test_uniform_values_are_uniform(scope, lockstep):
    for seed in seeds(2000, 48):
        case = cells(seed, 6, 5)
        try:
            watch_uniform(case, uniformity(case.kernel, scope=scope, lockstep=lockstep), scope)
        except AssertionError as error:
            note(error, seed, case)


def bounds(seed: int, case: testing.Case) -> Bounds:
    """What the launch of a case allows to assume, more or less of it."""
    fixed = case.workgroup if seed % 3 else None
    return Bounds(index_bits=32 if seed % 5 else 64, workgroup=fixed, max_groups=MOST)


def test_every_value_of_a_run_lies_in_its_range():
    seen = 0
    for seed in seeds(3000, 80):
        case = cells(seed, 6, 5)
        found = ranges(case.kernel, bounds(seed, case))

        def watch(op, _, operands, results, found=found, seed=seed, case=case):
            nonlocal seen
            pairs = zip((*op.operands, *op.results), (*operands, *results), strict=False)
            for value, got in pairs:
                if value in found and isinstance(value.type, Scalar):
                    low, high = found[value]
                    seen += 1
                    assert low <= int(np.asarray(got).ravel()[0]) <= high, f"seed {seed}\n{case}"

        testing.interpret(case.kernel, case.arguments(), case.grid, case.workgroup, watch)
    assert seen > 1000 * SHARE


def test_narrowed_kernels_agree():
    for seed in seeds(4000, 80):
        case = cells(seed)
        kernel = narrow_indices(expand_arrays(case.kernel), bounds(seed, case))
        agrees(seed, case, case.run(testing.evaluator), kernel)


def test_stops_change_no_bit():
    """At every so manieth safe point, going on on an unlike executor."""
    stops = 0
    on = OnDevice(device="cpu", optimise=0, lanes=0, simplified=False)
    for seed in seeds(5000, 60):
        case, random = cells(seed, 8, 5, more=False), Random(seed)
        arguments, found = case.arguments(), placed(case.kernel)
        if not found.slots:
            continue
        others = [(on, False)] if seed % 10 == 0 else [(testing.evaluator, False)]
        hops = hop(
            found, arguments, case.grid, case.workgroup, [(checked, True), *others],
            limit=random.choice((1, 2, 3)), capacity=random.choice((1, 3)),
        )  # fmt: skip
        stops += hops.midway
        wrong = testing.differences(case.run(testing.evaluator), case.written(arguments))
        assert not wrong, f"seed {seed}\n{case}\n{wrong}"
    assert stops > 30 * SHARE


RUNNERS: dict[str, tuple[OnDevice, int, int]] = {
    "cpu": (OnDevice(device="cpu", optimise=0, lanes=0, simplified=False), 15, 9),
    "cpu by 4": (OnDevice(device="cpu", optimise=0, lanes=4, simplified=False), 20, 9),
    "cpu by 8": (OnDevice(device="cpu", optimise=0, lanes=8, simplified=False), 15, 9),
    "ptx": (OnDevice(device="ptx-emulator", simplified=False), 12, 9),
    "opencl": (OnDevice(device="opencl:0", simplified=False), 10, 9),
    "vulkan": (OnDevice(device="vulkan:0", simplified=False), 10, 9),
    "910b": (OnDevice(device="ascend-shim", simplified=False), 6, 3),
    "950": (OnDevice(device="ascend-shim:950", simplified=False), 5, 7),
}
"""How each target runs, how many kernels, and how large they are."""


@pytest.mark.filterwarnings("ignore:.*ends loops:RuntimeWarning")
@pytest.mark.parametrize("name", RUNNERS)
def test_backends_agree(name):
    on, count, size = RUNNERS[name]
    need(on.device)
    for seed in seeds(6000, count):
        case = cells(seed, size)
        expected = case.run(testing.evaluator)
        agrees(seed, case, expected, case.kernel, on)
        if name == "ptx":
            agrees(seed, case, expected, case.kernel, watched)


def watched(kernel, arguments, grid, workgroup):
    """PTX whose accesses no barrier orders are races, in whatever order the warps ran."""
    checks = {"races": True}
    ptx_support.run(kernel, arguments, grid, workgroup, fixed=True, checks=checks)


# ---- branches and loops of 32 bits -------------------------------------------------------------


def branches(seed):
    """Nested ifs of 32-bit numbers, with stores; a loop that hands three numbers round."""
    random = Random(f"branches {seed}")
    x, y, out = Value(array(I32, 1)), Value(array(F32, 1)), Value(array(I32, 2))
    entry = Builder()
    place = entry.value(ops.GLOBAL_ID, axis=0)

    def some(b, numbers, floats, depth, count):
        """Statements; gives what they know at their end."""
        for _ in range(count):
            a, c = numbers[-1], random.choice(numbers)
            draw = random.random()
            if draw < 0.4 and depth < 2:
                numbers = [*numbers, choice(b, numbers, floats, depth)]
            elif draw < 0.7:
                numbers = [*numbers, b.value(random.choice((ops.ADD, ops.SUB, ops.XOR)), a, c)]
            else:
                b.emit(ops.STORE, out, b.const(I64, random.randrange(3)), place, a)
        return numbers

    def choice(b, numbers, floats, depth):
        """An `if` with a result; what differs between lanes says which way."""
        kinds, compare = random.choice((numbers, floats)), random.choice((ops.LT, ops.GE, ops.NE))
        cond = b.value(compare, *random.choices(kinds, k=2))
        arms = []
        for _ in range(2):
            arm = Builder()
            arm.emit(ops.YIELD, some(arm, numbers, floats, depth + 1, 2)[-1])
            arms.append(arm.region())
        return b.emit(ops.IF, cond, types=(I32,), regions=tuple(arms)).result

    def turning(numbers):
        """A loop of a few turns that changes one of three numbers and hands all on."""
        stop = entry.value(ops.MOD, place, entry.const(I64, random.choice((3, 4))))
        starts = random.choices(numbers, k=3)
        body, index, carried = Builder(), Value(I64, "i"), [Value(I32, "c") for _ in range(3)]
        new = body.value(random.choice((ops.ADD, ops.SUB)), *carried[:2])
        body.emit(ops.YIELD, carried[1], *random.sample([carried[0], new], 2))
        bounds = (entry.const(I64, 0), stop, entry.const(I64, 1))
        loop = body.region(index, *carried)
        op = entry.emit(ops.FOR, *bounds, *starts, types=(I32,) * 3, regions=(loop,))
        for row, result in enumerate(op.results):
            entry.emit(ops.STORE, out, entry.const(I64, 4 + row), place, result)
        return op.results[-1]

    loaded = [entry.value(ops.LOAD, x, place), entry.const(I32, random.randrange(-9, 9))]
    floats = [entry.value(ops.LOAD, y, place), entry.const(F32, 0.5)]
    loaded.append(turning(loaded))
    result = some(entry, [*loaded, choice(entry, loaded, floats, 0)], floats, 0, 3)[-1]
    entry.emit(ops.STORE, out, entry.const(I64, 3), place, result)
    entry.emit(ops.RETURN)
    params = tuple(Param(v, (i,)) for i, v in enumerate((x, y, out)))
    kernel = Kernel(name="branches", params=params, body=entry.region(), options=Options())
    inputs = (
        Input(I32, (48,), "C", writes=False),
        Input(F32, (48,), "C", writes=False),
        Input(I32, (7, 48), "C", writes=True),
    )
    return testing.Case((2, 1, 1), (24, 1, 1), inputs, seed, kernel)


@pytest.mark.parametrize("device", ["ascend-shim", "ascend-shim:950"])
def test_branches_and_loops_agree(device):
    on = OnDevice(device=device, simplified=False)
    need(on.device)
    for seed in seeds(7000, 2):
        case = branches(seed)
        agrees(seed, case, case.run(testing.evaluator), case.kernel, on)


# ---- where accesses lie ------------------------------------------------------------------------


def indexed(seed):
    """Loads of views of a two-dimensional array at sums of products, in loops that step."""
    random, b = Random(f"indexed {seed}"), Builder()
    x, y = Value(array(I64, 2)), Value(array(I64, 1))
    place, row = b.value(ops.LOCAL_ID, axis=0), b.value(ops.GLOBAL_ID, axis=0)
    private = b.value(
        ops.ALLOC, type=static_array(I64, (4, 10), random.choice(("private", "shared")))
    )

    def number(value):
        return b.const(I64, value)

    def index(extent, *others):
        """In bounds: a number from either end, or a small sum."""
        of = random.choice((place, *others, number(random.randrange(3))))
        by = random.choice((1, 1, 2))
        moved = b.value(ops.MUL, of, number(by)) if by > 1 else of
        if random.random() < 0.5:
            return b.value(ops.SUB, number(extent - 1), moved)
        return b.value(ops.ADD, moved, number(random.randrange(3)))

    def touch(*others):
        """A load of the array, of a view of it, or a store and a load of the private one."""
        if random.random() < 0.3:
            at = [number(random.randrange(4)), index(10)]
            b.emit(ops.STORE, private, *at, row)
            return b.value(ops.LOAD, private, *at)
        where = x
        if random.random() < 0.7:
            step = random.choice((1, 2, -1))
            start = number(24 if step < 0 else 0)
            rows = b.value(ops.ADD, place, number(1))
            where = b.value(ops.VIEW, x, rows, start, number(25 // abs(step) - 1), steps=(0, step))
            return b.value(ops.LOAD, where, index(11, *others))
        return b.value(ops.LOAD, where, index(10), index(25, *others))

    total = touch()
    for _ in range(3):
        i, carried, moving = Value(I64, "i"), Value(I64, "c"), Value(I64, "m")
        outer, b = b, Builder()
        got = b.value(ops.XOR, carried, touch(i, moving))
        spec = random.choice((ops.ADD, ops.SUB))
        by = number(1 if spec is ops.ADD else -1)
        following = b.value(spec, moving, by)
        b.emit(ops.YIELD, got, following)
        region, b = b.region(i, carried, moving), outer
        start = b.const(I64, random.randrange(2))
        op = b.emit(
            ops.FOR, b.const(I64, 0), b.const(I64, 3), b.const(I64, 1), total, start,
            types=(I64, I64), regions=(region,),
        )  # fmt: skip
        total = op.results[0]
    b.emit(ops.STORE, y, row, total)
    b.emit(ops.RETURN)
    params = tuple(Param(v, (n,)) for n, v in enumerate((x, y)))
    kernel = Kernel(name="indexed", params=params, body=b.region(), options=Options())
    layout = random.choice(("C", "reversed", "F"))
    inputs = (Input(I64, (10, 25), layout, writes=False), Input(I64, (4,), "C", writes=True))
    return testing.Case((1, 1, 1), (4, 1, 1), inputs, seed, kernel)


def test_accesses_lie_where_they_say():
    """Every offset that holds nothing unknown, worked out for each work-item and iteration."""
    checked = Counter[str]()
    for seed in seeds(0, 60):
        case = indexed(seed)
        verify(case.kernel)
        case.run(testing.evaluator)
        addresses, known = Addresses(case.kernel), uniformity(case.kernel, lockstep=True)
        loops, arguments = around(case.kernel.body), case.arguments()
        bound = dict(zip((p.value for p in case.kernel.params), arguments, strict=True))
        starts = {}

        def watch(op, item, operands, results, addresses=addresses, known=known, loops=loops,
                  bound=bound, starts=starts, seed=seed, case=case):  # fmt: skip
            if op.spec is ops.ALLOC:
                starts[op.result] = results[0]
            if op.spec not in ACCESSES:
                return
            access = addresses.of(op)
            view, *rest = operands
            steps = zip(rest, view.strides, strict=False)
            address = view.__array_interface__["data"][0] + sum(int(i[0]) * s for i, s in steps)
            root = bound.get(access.root, starts.get(access.root))
            offset = worked_out(access.offset, item, loops[op], bound)
            if root is not None and offset is not None:
                checked[access.kind(known)] += 1
                first = root.__array_interface__["data"][0]
                assert address == first + offset, f"seed {seed}, {op.name}\n{case}"

        testing.interpret(case.kernel, arguments, case.grid, case.workgroup, watch)
    assert min(checked[kind] for kind in ("contiguous", "strided", "uniform")) > 20 * SHARE


def around(region, loops=()):
    """The loops around each op, the outermost first."""
    found = {}
    for op in region.body:
        found[op] = loops
        for inner in op.regions:
            found |= around(inner, (*loops, op) if op.spec in (ops.FOR, ops.LOOP) else loops)
    return found


def worked_out(form, item, loops, bound):
    """A polynomial's number for a work-item, or None where it holds what only a run knows."""
    numbers = []
    for term, factor in form.terms.items():
        numbers.append(factor)
        for atom in term:
            match atom.kind:
                case "local":
                    numbers[-1] *= item.local[atom.axis]
                case "origin":
                    numbers[-1] *= item.group[atom.axis] * item.size[atom.axis]
                case "iteration" if atom.of in loops:
                    numbers[-1] *= item.path[loops.index(atom.of)]
                case "stride" if atom.of in bound:
                    numbers[-1] *= bound[atom.of].strides[atom.axis]
                case _:
                    return None
    return sum(numbers)
