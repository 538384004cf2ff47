"""Generated kernels: every pass, the evaluator and the CPU must agree on every bit.

HETIR_GENERATED says how many kernels the large test runs (CI: 2000).
"""

import os
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from hetir import testing
from hetir.frontend import trace
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Function, Module, Param, Region, Value, walk
from hetir.ir.rewrite import clone
from hetir.ir.text import print_kernel
from hetir.ir.types import F32, I64, Scalar, array
from hetir.ir.verify import verify
from hetir.passes.access import ACCESSES, Addresses
from hetir.passes.check_barriers import check_barriers
from hetir.passes.inline import inline
from hetir.passes.lower_exits import lower_exits
from hetir.passes.simplify import PASSES, simplify
from hetir.passes.uniformity import uniformity

COUNT = int(os.environ.get("HETIR_GENERATED", "100"))
FRESH = random.SystemRandom().randrange(1 << 40)
QUICK = settings(
    max_examples=25,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


def cases(count, first=0):
    """Cases from fixed seeds, then a tenth from seeds that differ in every run."""
    for number in range(count):
        seed = first + number if number < count - count // 10 else FRESH + number
        yield seed, testing.generate(random.Random(seed).randrange)


def agree(seed, case, expected, kernel, runner=testing.evaluator):
    verify(kernel)
    wrong = testing.differences(expected, case.run(runner, kernel))
    assert not wrong, f"seed {seed}\n{print_kernel(case.kernel)}\n{print_kernel(kernel)}\n{wrong}"


def test_evaluator_and_cpu_agree():
    level_0 = {
        "evaluator": testing.evaluator,
        "evaluator, simplified": testing.on_simplified(testing.evaluator),
        "cpu, as written": testing.on_cpu(optimise=0, simplified=False),
    }
    level_3 = {"evaluator": testing.evaluator, "cpu": testing.on_cpu()}
    for seed, case in cases(COUNT, 1000):
        try:
            testing.run_differential(case, runners=level_3 if seed % 8 == 0 else level_0)
        except Exception as error:
            error.add_note(f"seed {seed}\n{case}")
            raise


def test_generated_kernels_are_clean():
    """No race, no uninitialised read, no index out of bounds; barriers stand in uniform flow."""
    for seed, case in cases(40, 2000):
        verify(case.kernel)
        check_barriers(case.kernel)
        try:
            case.run(testing.checked)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


def test_generator_covers_the_table():
    """Every pure op, every scalar type, every structured op, barriers and atomics occur."""
    names, types = set(), set()
    for seed in range(400):
        case = testing.generate(random.Random(seed).randrange)
        for op in walk(case.kernel.body):
            names.add(op.name)
            types.update(v.type for v in op.results if isinstance(v.type, Scalar))
    assert len(types) == 15
    wanted = {s.name for s in ops.TABLE.values() if s.pure and s.evaluate} - {"native"}
    structure = {"if", "for", "loop", "break", "continue", "return", "view", "barrier"}
    assert names >= wanted | structure | {"atomic.rmw", "alloc", "load", "store"}


@QUICK
@given(testing.kernels())
def test_simplified_kernels_agree(case):
    """The same as below, by hypothesis: a failure shrinks to a few ops."""
    simplified = {"simplified": testing.on_simplified(testing.evaluator)}
    testing.run_differential(case, runners={"evaluator": testing.evaluator, **simplified})


@pytest.mark.parametrize("one", PASSES, ids=lambda p: p.__name__)
def test_each_pass_alone(one):
    for seed, case in cases(25, 3000):
        after = one(case.kernel)
        if after is not case.kernel:
            agree(seed, case, case.run(testing.evaluator), after)


def test_passes_in_any_order():
    for seed, case in cases(25, 4000):
        order = list(PASSES)
        random.Random(seed).shuffle(order)
        expected, kernel = case.run(testing.evaluator), case.kernel
        for one in order:
            before, kernel = kernel, one(kernel)
            if kernel is not before:
                agree(seed, case, expected, kernel)


def test_simplified_kernels_are_simple():
    """What `simplify` gives is a fixed point, and the interpreter agrees on it too."""
    for seed, case in cases(15, 5000):
        kernel = simplify(case.kernel)
        assert all(one(kernel) is kernel for one in PASSES)
        agree(seed, case, case.run(testing.evaluator), kernel, testing.interpret)


def test_lowered_exits_agree():
    for seed, case in cases(60, 6000):
        kernel = lower_exits(case.kernel)
        agree(seed, case, case.run(testing.evaluator), kernel)
        assert list(kernel.body.body)[-1].spec is ops.RETURN
        for op in walk(kernel.body):
            ends = [r.terminator.spec for r in op.regions]
            if op.spec is ops.IF and ops.BREAK in ends:
                assert [len(r.body) for r in op.regions] == [1, 1]
                assert ends == [ops.BREAK, ops.YIELD]
            else:
                assert set(ends) <= {ops.YIELD}
        assert print_kernel(lower_exits(kernel)) == print_kernel(kernel)


def test_inlined_functions_agree():
    """The body moved into a function whose many returns have values."""
    tested = 0
    for seed, case in cases(300, 7000):
        if any(op.spec is ops.BARRIER for op in walk(case.kernel.body)):
            continue
        if case.workgroup[1:] != (1, 1) or case.grid[1:] != (1, 1):
            continue
        module = outlined(case.kernel)
        runs = []
        for kernel in (module.kernels[0], inline(module)):
            items = case.workgroup[0] * case.grid[0]
            arguments = [*case.arguments(), np.zeros(items, np.float32)]
            verify(module)
            testing.interpret(
                kernel, arguments, case.grid, case.workgroup, functions=module.functions
            )
            runs.append([*case.written(arguments[:-1]), arguments[-1]])
        assert runs[0][-1].any()
        assert not testing.differences(*runs), f"seed {seed}"
        tested += 1
    assert tested > 3


def outlined(kernel):
    """A module whose kernel calls a function with the body, each return with its own values."""
    numbers = iter(range(1, 1000))

    def with_values(region):
        body = []
        for op in region.body:
            if op.spec is ops.RETURN:
                builder, number = Builder(), next(numbers)
                values = builder.const(F32, number), builder.const(I64, 3 * number)
                body = [*builder.body, *body, replace(op, operands=values)]
            else:
                body.append(replace(op, regions=tuple(map(with_values, op.regions))))
        return Region(region.args, tuple(body))

    params = tuple(Value(p.value.type) for p in kernel.params)
    copy = clone(kernel.body, dict(zip((p.value for p in kernel.params), params, strict=True)))
    function = Function(name="f", params=params, results=(F32, I64), body=with_values(copy))
    builder, out = Builder(), Value(array(F32, 1))
    arguments = [p.value for p in kernel.params]
    call = builder.emit(ops.CALL, *arguments, attrs={"callee": "f"}, types=(F32, I64))
    both = builder.value(ops.ADD, call.results[0], builder.value(ops.CAST, call.results[1], to=F32))
    builder.emit(ops.STORE, out, builder.value(ops.GLOBAL_ID, axis=0), both)
    builder.emit(ops.RETURN)
    param = Param(out, (len(arguments),))
    caller = replace(kernel, params=(*kernel.params, param), body=builder.region())
    return Module(kernels=(caller,), functions=(function,))


def linear(item):
    return item.local[0] + item.size[0] * (item.local[1] + item.size[1] * item.local[2])


def some(case, scope, item):
    """The work-items that must agree with this one, as a key and a count."""
    size, grid = int(np.prod(case.workgroup)), int(np.prod(case.grid))
    width = case.kernel.options.width
    if scope == "device":
        return 0, size * grid
    if scope == "workgroup":
        return item.group, size
    return (item.group, linear(item) // width), min(width, size - linear(item) // width * width)


@pytest.mark.parametrize("scope", ["subgroup", "workgroup", "device"])
@pytest.mark.parametrize("lockstep", [False, True])
def test_uniform_values_are_uniform(scope, lockstep):
    for seed, case in cases(6, 8000):
        found = uniformity(case.kernel, scope=scope, lockstep=lockstep)
        try:
            watch_uniform(case, found, scope)
        except AssertionError as error:
            error.add_note(f"seed {seed}\n{case}")
            raise


def watch_uniform(case, found, scope):
    """One work-item after another runs; what was called uniform must not differ."""
    seen, arrived = {}, {}

    def watch(op, item, operands, results):
        group, size = some(case, scope, item)
        at = op, tuple(item.path), group
        if not found.divergent(op):
            arrived.setdefault((at, size), set()).add((item.group, item.local))
        pairs = [*zip(op.operands, operands, strict=True)]
        pairs += zip(op.results, results, strict=False)
        for value, lane in pairs:
            if isinstance(value.type, Scalar) and not found.varying(value):
                same = seen.setdefault((at, value), lane.tobytes()) == lane.tobytes()
                assert same or lane[0] != lane[0], f"{value} at {op.name} is not uniform"

    testing.interpret(case.kernel, case.arguments(), case.grid, case.workgroup, watch)
    for (at, size), items in arrived.items():
        assert len(items) == size, f"`{at[0].name}` is in divergent flow"


def test_access_patterns_hold():
    kinds = set()
    for seed, case in cases(20, 9000):
        kernel = simplify(case.kernel) if seed % 2 else case.kernel
        try:
            kinds |= watch_accesses(case, kernel)
        except AssertionError as error:
            error.add_note(f"seed {seed}\n{case}")
            raise
    assert kinds == {"uniform", "contiguous", "strided", "gather"}


def watch_accesses(case, kernel):
    """The addresses that work-items of one row use move as the analysis says."""
    addresses, known, used = Addresses(kernel), uniformity(kernel, lockstep=True), {}

    def watch(op, item, operands, _):
        if op.spec in ACCESSES and op.operands[0].type.space != "private":
            view, *rest = operands
            offsets = [int(i[0]) * s for i, s in zip(rest, view.strides, strict=False)]
            address = view.__array_interface__["data"][0] + sum(offsets)
            row = op, tuple(item.path), item.group, item.local[1:]
            used.setdefault(row, []).append((item.local[0], address))

    testing.interpret(kernel, case.arguments(), case.grid, case.workgroup, watch)
    kinds = set()
    for (op, *_), items in used.items():
        access, size = addresses.of(op), op.operands[0].type.element.bytes
        kind = access.kind(known)
        kinds.add(kind)
        if kind == "gather" or len(items) < 2:
            continue
        (x, first), (y, second) = items[:2]
        step = {"uniform": 0, "contiguous": size}.get(kind, access.stride(known).constant)
        if step is None:
            step = (second - first) // (y - x)
        wrong = [i for i in items if i[1] - first != step * (i[0] - x)]
        assert not wrong, f"{op.name} is not {kind}"
    return kinds


def test_python_and_traced_sources_agree():
    """Python itself runs the source; the traced, inlined and simplified kernels must agree."""
    for number in range(25):
        seed = 10_000 + number if number < 12 else FRESH + number
        case = testing.generate_source(random.Random(seed).randrange, reports=True)
        module = trace(case.function(), case.types())
        verify(module)
        kernel = inline(module)
        expected, said = case.ran()
        for form in (kernel, simplify(kernel), lower_exits(kernel)):
            verify(form)
            arguments = case.arguments()
            found = testing.evaluator(form, arguments, case.grid, case.workgroup)
            wrong = testing.differences(expected, case.written(arguments))
            wrong += said.differences(found)
            assert not wrong, f"seed {seed}\n{case.source}\n{wrong}"


@settings(QUICK, max_examples=10)
@given(testing.sources(reports=True))
def test_drawn_sources_agree(case):
    kernel = inline(trace(case.function(), case.types()))
    arguments = case.arguments()
    found = testing.evaluator(kernel, arguments, case.grid, case.workgroup)
    expected, said = case.ran()
    assert not testing.differences(expected, case.written(arguments)) + said.differences(found)


@pytest.mark.parametrize("name", ["sub", "shr", "lt", "div"])
def test_wrong_ops_are_caught(name):
    """The comparison can fail: a runner that swaps the operands of one op is found soon."""

    def wrong(region):
        body = []
        for op in region.body:
            operands = op.operands[::-1] if op.name == name else op.operands
            regions = tuple(map(wrong, op.regions))
            body.append(replace(op, operands=operands, regions=regions))
        return Region(region.args, tuple(body))

    def broken(kernel, arguments, grid, workgroup):
        testing.interpret(replace(kernel, body=wrong(kernel.body)), arguments, grid, workgroup)

    runners = {"evaluator": testing.evaluator, "broken": broken}
    for seed in range(1000):
        case = testing.generate(random.Random(seed).randrange)
        if any(op.name == name for op in walk(case.kernel.body)):
            try:
                testing.run_differential(case, runners=runners)
            except (AssertionError, IndexError):
                assert seed < 200
                return
    pytest.fail("never caught")
