"""Every kind of syntax-tree node is handled, or refused with what to write instead."""

# ruff: noqa: PLW0120, SIM105, T201 - the kernels are wrong on purpose

import ast
import contextlib

import numpy as np
import pytest
from frontend_tools import traced

from hetir.diagnostics import HetirError
from hetir.frontend.errors import UnsupportedSyntaxError
from hetir.frontend.expressions import HANDLE_TARGET
from hetir.frontend.frame import HANDLERS
from hetir.frontend.operators import PLAIN
from hetir.frontend.refusals import REFUSED

# read by the handler of the node that they are part of, or by none (modules, types)
PARTS = {
    "FormattedValue", "Slice", "Starred", "comprehension", "arguments", "arg", "keyword", "alias",
    "withitem", "match_case", "ExceptHandler", "Module", "Interactive", "Expression",
    "FunctionType", "TypeIgnore", "Load", "Store", "Del", "And", "Or", "AugLoad", "AugStore",
    "Param", "Suite", "Index", "ExtSlice",
}  # fmt: skip
OLD = {"Num", "Str", "Bytes", "NameConstant", "Ellipsis"}


def leaves(kind):
    below = kind.__subclasses__()
    return [leaf for sub in below for leaf in leaves(sub)] if below else [kind]


def test_every_node_is_handled_or_refused_and_never_both():
    missing = []
    for kind in leaves(ast.AST):
        if kind.__module__ not in ("ast", "_ast") or kind.__name__ in OLD:
            continue
        abstract = kind.__name__ in ("slice", "pattern", "type_param", "type_ignore")
        pattern = issubclass(kind, (ast.pattern, getattr(ast, "type_param", ast.pattern)))
        known = kind in HANDLERS or kind in REFUSED or kind in PLAIN or kind.__name__ in PARTS
        if not (known or abstract or pattern):
            missing.append(kind.__name__)
    assert missing == []
    assert not set(HANDLERS) & set(REFUSED)
    assert all(what and hint for what, hint in REFUSED.values())
    assert set(HANDLE_TARGET) == {ast.Name, ast.Tuple, ast.List, ast.Subscript, ast.Attribute}


def nested_function(x):
    def inner():
        return 1

    x[0] = inner()


def async_function(x):
    async def inner():
        return 1


def class_definition(x):
    class Inner:
        pass


def a_lambda(x):
    f = lambda v: v  # noqa: E731
    x[0] = f(x[0])


def deletion(x):
    v = x[0]
    del v


def with_statement(x):
    with open(x):  # noqa: PTH123
        x[0] = 1


def match_statement(x):
    match x[0]:
        case 1:
            x[0] = 2


def raising(x):
    raise ValueError


def trying(x):
    try:
        x[0] = 1
    except ValueError:
        pass


def trying_groups(x):
    try:
        x[0] = 1
    except* ValueError:
        pass


def importing(x):
    import math

    x[0] = math.pi


def importing_from(x):
    from math import pi

    x[0] = pi


def global_statement(x):
    global SOMETHING  # noqa: PLW0603
    SOMETHING = x[0]


SOMETHING = 1


def dictionary(x):
    d = {1: x[0]}
    x[1] = d[1]


def a_set(x):
    x[1] = len({1, 2})


def set_comprehension(x):
    x[0] = len({i for i in (1, 2)})  # noqa: C416


def dict_comprehension(x):
    x[0] = len({i: i for i in (1, 2)})


def yielding(x):
    yield x[0]


def yielding_from(x):
    yield from x


def complex_number(x):
    x[0] = 1j


def loop_else(x):
    for i in range(3):
        x[i] = 1
    else:
        x[0] = 2


def while_else(x):
    while x[0] > 0:
        x[0] -= 1
    else:
        x[0] = 2


def attribute_assignment(x):
    x.shape = 3


def keyword_expansion(x):
    x[0] = max(x[0], **{})


def tuple_target_of_range(x):
    for i, j in range(3):
        x[i] = j


def comprehension_over_kernel_values(x):
    x[0] = sum(v for v in (1, 2) if x[v] > 0)


def format_in_fstring(x):
    print(f"{x[0]:.3f}")


def star_expression_in_index(x):
    x[0] = x[*(0,)]


REFUSALS = [
    nested_function, async_function, class_definition, a_lambda, deletion, with_statement,
    match_statement, raising, trying, trying_groups, importing, importing_from, global_statement,
    dictionary, a_set, set_comprehension, dict_comprehension, yielding, yielding_from,
    complex_number, loop_else, while_else, attribute_assignment, tuple_target_of_range,
    comprehension_over_kernel_values, format_in_fstring,
]  # fmt: skip


@pytest.mark.parametrize("kernel", REFUSALS, ids=lambda k: k.__name__)
def test_refused_at_the_construct(kernel):
    with pytest.raises(UnsupportedSyntaxError) as caught:
        traced(kernel, np.ones(3))
    (label,) = caught.value.labels
    assert label.loc.source()[label.loc.col : label.loc.col + 1].strip()
    assert caught.value.hint or kernel is tuple_target_of_range


def test_nonlocal_is_refused():
    count = 0

    def kernel(x):
        nonlocal count
        count = 1

    with pytest.raises(UnsupportedSyntaxError, match="`nonlocal`"):
        traced(kernel, np.ones(1))
    assert count == 0


@pytest.mark.parametrize("kernel", [keyword_expansion, star_expression_in_index])
def test_odd_corners_end_in_hetir_errors_or_work(kernel):
    with contextlib.suppress(HetirError):
        traced(kernel, np.ones(3))
