"""Random programs against Python itself, and functions that nobody wrote as kernels."""

import colorsys
import fractions
import heapq
import linecache
import random
import statistics
import textwrap
import types

import numpy as np
import pytest
from frontend_programs import Programs
from frontend_tools import run

from hetir.diagnostics import HetirError
from hetir.frontend import Static, Weak, trace
from hetir.frontend.errors import UnknownNameError, UnsetVariableError
from hetir.ir.build import IllFormedError
from hetir.ir.types import SCALARS, ArrayType
from hetir.ir.verify import verify

X = np.array([0.5, -1.25, 2.0, 3.5, -0.75, 0.0, 1.0, -4.0])
N = np.array([3, 5, 7])


def define(seed):
    text, name = Programs(random.Random(seed)).text(), f"<program {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope = {}
    exec(compile(text, name, "exec"), scope)
    return scope["kernel"]


@pytest.mark.parametrize("first", range(0, 150, 50))
def test_random_programs_mean_what_python_means(first):
    compared = 0
    for seed in range(first, first + 50):
        kernel, mine, theirs = define(seed), np.zeros(8), np.zeros(8)
        try:
            run(kernel, X.copy(), N.copy(), mine)
        except (UnsetVariableError, UnknownNameError):
            continue  # Python may not come by there; the tests of control flow have these
        with np.errstate(all="ignore"):
            kernel(X.copy(), N.copy(), theirs)
        np.testing.assert_array_equal(mine, theirs, err_msg=f"seed {seed}")
        compared += 1
    assert compared > 20


ARGUMENTS = [
    SCALARS["f32"], SCALARS["i32"], SCALARS["f8e4m3"], ArrayType(SCALARS["f32"], 1),
    ArrayType(SCALARS["i32"], 2), Weak("int"), Weak("float"), Static(3), Static("text"),
    Static(None), Static((1, 2, 3)),
]  # fmt: skip


@pytest.mark.parametrize(
    "module", [textwrap, statistics, heapq, colorsys, fractions], ids=lambda m: m.__name__
)
def test_any_python_function_is_read_or_refused(module):
    found = [v for v in vars(module).values() if isinstance(v, types.FunctionType)]
    for kind in [v for v in vars(module).values() if isinstance(v, type)]:
        found += [v for v in vars(kind).values() if isinstance(v, types.FunctionType)]
    choose = random.Random(0)
    outcomes = set()
    for function in found:
        count = function.__code__.co_argcount
        arguments = tuple(choose.choice(ARGUMENTS) for _ in range(count))
        try:
            verify(trace(function, arguments))
        except IllFormedError:
            raise  # a fault of the frontend, not of the user
        except HetirError as error:
            outcomes.add(error.code)
    assert outcomes
