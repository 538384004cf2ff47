"""Running a Python function as a kernel on the evaluator, for the tests of the frontend."""

import copy

import numpy as np

from hetir import emulator
from hetir.frontend import Static, Weak, trace
from hetir.frontend import Tuple as TupleArgument
from hetir.ir.core import Options
from hetir.ir.types import SCALARS, ArrayType
from hetir.ir.verify import verify
from hetir.passes.inline import inline

BY_DTYPE = {kind.numpy: kind for kind in SCALARS.values()}


def argument_of(value):
    """The frontend's description of a launch argument."""
    if isinstance(value, (Static, ArrayType)):
        return value
    if isinstance(value, np.ndarray):
        return ArrayType(BY_DTYPE[value.dtype], value.ndim)
    if isinstance(value, tuple):
        return TupleArgument(type(value), tuple(argument_of(item) for item in value))
    if isinstance(value, np.generic):
        return BY_DTYPE[value.dtype]
    return Weak(type(value).__name__)


def traced(function, *arguments, **options):
    """The verified module."""
    described = tuple(argument_of(a) for a in arguments)
    module = trace(function, described, options=Options(**options))
    verify(module)
    return module


def run(function, *arguments, grid=1, workgroup=1, checks=True, **options):
    """Run on the evaluator, in place; fail on any fault; give the report."""
    kernel = inline(traced(function, *arguments, **options))
    verify(kernel)
    values = [_value(arguments, p.source, p.value.type) for p in kernel.params]
    triple = [(n,) if isinstance(n, int) else n for n in (grid, workgroup)]
    report = emulator.run(kernel, values, *triple, checks=checks)
    assert not report.faults, str(report)
    return report


def _value(arguments, source, kind):
    position, *path = source
    value = arguments[position]
    for field in path:
        value = value[int(field)] if field.isdecimal() else getattr(value, field)
    return value if isinstance(value, np.ndarray) else kind.numpy.type(value)


def same_as_python(function, *arguments):
    """Run as one work-item and as ordinary Python, and compare all arrays."""
    mine, theirs = copy.deepcopy(arguments), copy.deepcopy(arguments)
    with np.errstate(all="ignore"):
        function(*theirs)
    run(function, *mine)
    for got, wanted in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(got, wanted)
