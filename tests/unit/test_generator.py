"""The generator of kernels: what occurs in it, that it shrinks, what it writes for people."""

import ast
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, find, settings

import hetir.lang as hl
from hetir import testing
from hetir.ir import ops
from hetir.ir.core import Region, walk
from hetir.ir.types import SCALARS, ArrayType, Scalar
from hetir.ir.verify import verify
from hetir.passes.check_barriers import check_barriers
from hetir.testing.plain_language import MATH
from hetir.testing.prune import lean, optional, without
from hetir.testing.scope import Shape

SEEDS = 2000
ABSENT = {
    "base": "made by `expand_arrays`; before it arrays are values",
    "out_of_bounds": "made by the checks of `debug=True`; generated kernels index in bounds",
    "call": "the evaluator and the backends take kernels after `inline`; sources have helpers",
    "safe_point": "placed by the compiler for checkpoints; tests/unit/test_safe_points.py does",
}
"""Ops that no generated kernel holds, and why."""
KINDS_ABSENT = {
    ("barrier", "scope", "device"): "needs `cooperative=True`, which few devices can run",
}


@cache
def cases():
    return [testing.generate(random.Random(seed).randrange) for seed in range(SEEDS)]


def test_every_op_of_the_table_occurs_with_every_attribute():
    seen, words = set(), set()
    for case in cases():
        for op in walk(case.kernel.body):
            seen.add(op.name)
            words.update((op.name, name, value) for name, value in op.attrs.items())
    assert seen == set(ops.TABLE) - set(ABSENT)
    wanted = {
        (spec.name, name, word)
        for spec in ops.TABLE.values()
        for name, allowed in spec.attrs.items()
        if isinstance(allowed, tuple) and spec.name in seen
        for word in allowed
    }
    wanted |= {("subgroup_scan", "inclusive", value) for value in (False, True)}
    assert wanted - set(words) == set(KINDS_ABSENT)


def test_every_op_occurs_with_every_type_that_it_allows():
    seen = set()
    for case in cases():
        for op in walk(case.kernel.body):
            values = (*op.operands, *op.results)
            seen.update((op.name, v.type) for v in values if isinstance(v.type, Scalar))
    missing = [
        (spec.name, str(kind))
        for spec in ops.TABLE.values()
        if spec.pure and spec.evaluate
        for slot in spec.operands
        if slot in ops.CLASSES
        for kind in SCALARS.values()
        if ops.CLASSES[slot][1](kind) and (spec.name, kind) not in seen
    ]
    assert not missing
    memory = ("load", "store", "shuffle", "print", "if", "for", "loop", "select", "cast")
    assert not [(n, k) for n in memory for k in SCALARS.values() if (n, k) not in seen]
    for name in ("atomic.rmw", "atomic.cas", "atomic.load", "atomic.store"):
        for kind in SCALARS.values():
            assert ((name, kind) in seen) == (kind.is_int or kind.is_float), (name, kind)
    for name in ("subgroup_reduce", "subgroup_scan"):
        assert all((name, k) in seen for k in SCALARS.values() if k.kind != "f8"), name


def test_launches_and_arguments_of_every_shape():
    arrays, launches, ranks, widths = Counter(), Counter(), set(), set()
    for case in cases():
        launches["one item"] += case.workgroup == (1, 1, 1)
        launches["3-D"] += case.workgroup[2] > 1 and case.grid[2] > 1
        launches["odd"] += case.workgroup[0] % 2 and case.workgroup[1] == 3
        launches["apart"] += case.apart
        widths.add(case.kernel.options.subgroup_size)
        for given in case.inputs:
            arrays[given.layout] += given.of is None and not given.writes
            arrays["same memory", given.layout, given.writes] += given.of is not None
            ranks.add(None if given.extents is None else len(given.extents))
    assert min(launches.values()) > 20
    assert launches["apart"] < SEEDS * 0.8
    assert ranks == {None, 0, 1, 2, 3, 4}
    assert widths == {None, 1, 2, 4, 8, 16, 32, 64, 128}
    for layout in ("C", "F", "reversed", "step", "backwards", "broadcast"):
        assert arrays[layout] > 20, layout
    for layout, writes in (("same", 0), ("flipped", 0), ("bits", 0), ("odd", 1), ("same", 1)):
        assert arrays["same memory", layout, bool(writes)] > 10, layout


def test_arguments_that_share_memory_do_so_in_every_run():
    kinds = Counter()
    for case in cases()[:400]:
        one, two = case.arguments(), case.arguments()
        assert not testing.differences(one, two)
        for given, array in zip(case.inputs, one, strict=True):
            if given.of is None:
                continue
            other = one[given.of]
            kinds[given.layout] += 1
            assert (array.shape, array.itemsize) == (other.shape, other.itemsize)
            low, step = (a.__array_interface__["data"][0] for a in (other, array))
            first = {"odd": other.strides[0] // 2 if other.ndim else 0}.get(given.layout, 0)
            if given.layout == "flipped":
                last = sum((n - 1) * s for n, s in zip(other.shape, other.strides, strict=True))
                first = last
            assert step - low == first, given
    assert len(kinds) == 4


def test_a_shape_says_what_kernels_hold():
    few = tuple(SCALARS[name] for name in ("i32", "f32"))
    shape = Shape(
        shared=False, atomics=False, subgroups=False, records=False, overlaps=False, types=few
    )
    for seed in range(100):
        case = testing.generate(random.Random(seed).randrange, shape)
        assert case.apart or any(i.layout == "broadcast" for i in case.inputs)
        for op in walk(case.kernel.body):
            assert not op.name.startswith(("atomic", "fence", "subgroup_re", "subgroup_scan"))
            assert op.name not in ("shuffle", "vote", "ballot", "barrier", "print", "assert")
        kinds = {i.kind.name for i in case.inputs}
        assert kinds <= {"i32", "f32", "u64"}


def test_both_arms_may_leave_and_loops_reach_the_ends_of_i64():
    both, far = 0, 0
    for case in cases():
        for op in walk(case.kernel.body):
            ends = [r.terminator.spec for r in op.regions]
            both += op.spec is ops.IF and ops.YIELD not in ends
            if op.spec is ops.CONST and op.results[0].type == SCALARS["i64"]:
                far += int(op.attrs["bits"]) in ((1 << 63) - 2, (1 << 63) + 1)
    assert both > 10
    assert far > 5


def test_views_without_axes_and_of_every_memory():
    seen = set()
    for case in cases():
        for op in walk(case.kernel.body):
            if op.spec is ops.VIEW:
                kind = op.result.type
                assert isinstance(kind, ArrayType)
                seen |= {kind.space, kind.ndim, *op.attrs["steps"]}
    assert seen >= {"global", "shared", "private", 0, 1, 2, -1, -2}


# ---- failing kernels: small ones, and scripts ----------------------------------------------


@pytest.mark.parametrize("part", [0.2, 1.0])
def test_kernels_without_some_ops_are_clean(part):
    """Whatever goes, the rest has no race, no bad index, no uninitialised read, and ends."""
    sizes = []
    for seed in range(40):
        stream = random.Random(seed)
        case = testing.generate(stream.randrange)
        gone = {op for op in optional(case.kernel) if stream.random() < part}
        less = lean(replace(case, kernel=without(case.kernel, gone)))
        verify(less.kernel)
        check_barriers(less.kernel)
        less.run(testing.checked)
        sizes.append(sum(1 for _ in walk(less.kernel.body)))
    if part == 1:
        assert sorted(sizes)[35] <= 2, "a `return`, and perhaps one op more"


SWAPPED = {"shl", "shr", "lt", "le", "gt", "ge", "rem", "floordiv"}


def swapped(region):
    """The region with the operands of some ops in the wrong order."""
    body = []
    for op in region.body:
        operands = op.operands[::-1] if op.name in SWAPPED else op.operands
        regions = tuple(map(swapped, op.regions))
        body.append(replace(op, operands=operands, regions=regions))
    return Region(region.args, tuple(body))


def test_a_planted_fault_shrinks_to_a_few_ops():
    def broken(kernel, arguments, grid, workgroup):
        wrong = replace(kernel, body=swapped(kernel.body))
        return testing.evaluator(wrong, arguments, grid, workgroup)

    def fails(case):
        if not any(op.name in SWAPPED for op in walk(case.kernel.body)):
            return False
        runners = {"evaluator": testing.evaluator, "broken": broken}
        try:
            testing.run_differential(case, runners=runners)
        except AssertionError:
            return True
        return False

    quick = settings(
        max_examples=100,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    case = find(testing.kernels(), fails, settings=quick, random=random.Random(0))
    plain = (o for o in walk(case.kernel.body) if not o.spec.terminator)
    names = [op.name for op in plain if op.spec is not ops.CONST]
    assert SWAPPED & set(names)
    assert len(names) <= 8, case
    assert len(case.inputs) <= 3


def child(text, folder):
    """Run a script that knows hetir and NumPy."""
    path = Path(folder) / "reproducer.py"
    path.write_text(text)
    root = Path(testing.__file__).parents[2]
    blocked = "import sys; sys.modules['hypothesis'] = None; import runpy; "
    command = [sys.executable, "-c", f"{blocked}runpy.run_path({str(path)!r})"]
    env = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


def test_scripts_reproduce_a_case_with_hetir_and_numpy_only(tmp_path):
    """One that prints and checks, and whose arguments lie in each other's memory."""
    for case in cases():
        names = {op.name for op in walk(case.kernel.body)}
        kinds = {i.kind.name for i in case.inputs}
        if {"print", "assert"} <= names and not case.apart and {"f8e5m2", "bool"} & kinds:
            break
    done = child(case.script(), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("as expected\n")
    assert "line " in case.script()


def test_a_script_fails_where_results_differ(tmp_path):
    case = next(c for c in cases() if any(op.name == "sub" for op in walk(c.kernel.body)))
    text = case.script()
    assert text == repr(case)
    before, after = text.split("EXPECTED = {", 1)
    changed = after.replace("np.array([", "1 + np.array([")
    done = child(f"{before}EXPECTED = {{{changed}", tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "DIFFERENT" in done.stdout


def test_sources_hold_every_statement():
    """All that the frontend takes, and every library function that the plain reading knows."""
    kinds, calls = Counter(), Counter()
    for seed in range(400):
        case = testing.generate_source(random.Random(seed).randrange, reports=True)
        for node in ast.walk(ast.parse(case.source)):
            kinds[type(node).__name__] += 1
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "hl":
                calls[node.attr] += 1
    statements = {
        *("Assign", "AnnAssign", "AugAssign", "Assert", "Expr", "For", "If", "Pass", "Return"),
        *("While", "Break", "Continue", "FunctionDef"),
    }
    assert statements <= set(kinds)
    assert {"NamedExpr", "JoinedStr", "IfExp", "BoolOp", "Slice", "Tuple"} <= set(kinds)
    atomics = {n for n in vars(hl) if n.startswith("atomic_")}
    exchanges = {n for n in vars(hl) if n.startswith(("shuffle", "subgroup_"))} - {
        *("subgroup_size", "subgroups"),  # unpinned; a module
        "subgroup_barrier",  # the generator of hetIR has it
    }
    found = atomics | exchanges | {"any_", "all_", "ballot", "barrier", "shared", "private"}
    assert found - set(calls) == set()
    assert {"print", "assert_", "fence", "vector", "workgroup_reduce", *MATH} <= set(calls)


def test_scripts_of_sources_reproduce_them(tmp_path):
    seeds = (testing.generate_source(random.Random(n).randrange, reports=True) for n in range(99))
    case = next(c for c in seeds if "hl.print" in c.source and "hl.barrier" in c.source)
    assert "@hetir.kernel" in repr(case)
    done = child(repr(case), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("as expected\n")
