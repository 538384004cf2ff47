"""Control flow: every kernel here is run by Python itself too, which is the reference."""

# ruff: noqa: B007, PLW2901, RET505, RET507, RUF021, SIM113 - the kernels show Python as users write it

import inspect
import sys

import numpy as np
import pytest
from frontend_tools import run, same_as_python, traced

import hetir.lang as hl
from hetir.frontend import Static
from hetir.frontend.errors import NestingError
from hetir.ir import ops
from hetir.ir.core import walk

X = np.array([3.0, -1.0, 4.0, 1.5, -5.0, 9.0, 2.5, 6.0], np.float64)
Y = np.zeros(8, np.float64)


def if_elif_else(x, y):
    for i in range(8):
        if x[i] < 0:
            y[i] = -1
        elif x[i] > 5:
            y[i] = 1
        else:
            y[i] = 0.5


def while_with_exits(x, y):
    i = 0
    total = 0.0
    while i < 8:
        v = x[i]
        i += 1
        if v < 0:
            continue
        if v > 8:
            break
        total += v
    y[0] = total
    y[1] = i


def endless_with_break(x, y):
    k = 0
    while True:
        k += 2
        if x[k] > 2:
            break
    y[0] = k


def countdown(x, y):
    for i in range(7, -1, -2):
        y[i] = x[i] * i
    y[0] = i


def run_time_bounds(x, y):
    start = int(x[0])
    stop = int(x[7])
    step = int(x[2])
    for i in range(stop, start - 9, -step):
        y[(i + 16) % 8] += i
        last = i * 2.0
        y[1] = last
    y[7] = i


def nested_loops(x, y):
    for i in range(8):
        count = 0
        for j in range(8):
            if x[j] == 4:
                continue
            if j > i:
                break
            k = 0
            while k < j:
                if x[k] < 0:
                    k += 2
                    continue
                k += 1
            count += k
        y[i] = count


def early_return(x, y):
    for i in range(8):
        if x[i] > 5:
            y[i] = 7
            return
        y[i] = 1
    y[0] = 100


def return_in_while(x, y):
    i = 0
    while True:
        if x[i] < -4:
            y[0] = i
            return
        i += 1


def both_sides_leave(x, y):
    for i in range(8):
        if x[i] > 0:
            y[i] = 1
            continue
        elif x[i] < -4:
            y[i] = 2
            break
        else:
            y[i] = 3
            continue
        y[i] = 99


def both_sides_return(x, y):
    if x[0] > 1:
        y[0] = 1
        return
    else:
        y[0] = 2
        return


def mixed_exits(x, y):
    total = 0.0
    for i in range(8):
        if x[i] > 0:
            if x[i] > 8:
                return
            else:
                total += 1
                continue
        else:
            y[i] = total
            if x[i] < -4:
                break
        total += 10
    y[0] = total


def short_circuit(x, y):
    for i in range(9):
        if i < 8 and x[i] > 2 or i == 8:
            y[i % 8] += 1
        if not (i < 8 and x[i] > 0):
            y[i % 8] += 10


def chained(x, y):
    for i in range(8):
        y[i] = 1.0 if 0 < x[i] <= 4 < 5 else 2.0
        if -1 <= x[i] < 3 != 4:
            y[i] += 4


def conditional_expression(x, y):
    for i in range(8):
        y[i] = x[i] if x[i] > 0 else (-x[i] if x[i] < -2 else 0)


def guarded_load(x, y):
    for i in range(10):
        y[i % 8] += x[i] if i < 8 else 0.25


def swap_and_fibonacci(x, y):
    a, b = x[0], x[1]
    for _ in range(10):
        a, b = b, a + b
    (y[0], y[1]), y[2] = (a, b), a - b
    a, b = b, a
    y[3] = a


def augmented(x, y):
    for i in range(8):
        v = x[i]
        v += 1
        v -= 0.5
        v *= 2
        v /= 4
        y[i] += v
        y[i] -= 1
        y[i] *= -1


def last_value(x, y):
    i = 5
    for i in range(3):
        i += 10
    y[0] = i
    for j in range(4):
        y[j] += j
    y[1] = j


def empty_loop_keeps(x, y):
    i = 7
    for i in range(int(x[0]), 0):
        y[0] = 99
    y[1] = i


def assigned_in_both(x, y):
    if x[0] > 0:
        a = x[1]
        b = 2
    else:
        a = x[2]
        b = 3
    y[0] = a * b


def unused_after(x, y):
    if x[0] > 0:
        t = 1
        y[0] = t
    else:
        t = x[1] > 0
        y[0] = 5 if t else 6
    for i in range(4):
        t = x[i]
        y[i] += t


def loop_carried_tuple(x, y):
    best = (x[0], 0)
    for i in range(1, 8):
        if x[i] > best[0]:
            best = (x[i], i)
    y[0], y[1] = best


def walrus(x, y):
    i = 0
    while (v := x[i]) != 9:
        y[i] = v
        i += 1
    y[7] = (w := v + 1) * w


def switch(x, y):
    for i in range(8):
        k = i % 5
        if k == 0:
            r = 10
        elif k == 1:
            r = x[i]
        elif k == 2:
            continue
        elif k == 3:
            r = -1
        else:
            r = 0
        y[i] = r


def always_breaks(x, y):
    for i in range(8):
        y[i] = x[i]
        break
    while x[0] > 0:
        y[1] = 5
        break


def builtins(x, y):
    for i in range(8):
        y[i] = abs(x[i]) + int(x[i]) + round(x[i]) + bool(x[i]) + float(i)
    y[0] = min(x[0], x[1], 2)
    y[1] = max(x[0], 2.25)
    y[2] = len(x) + sum((x[0], x[1], 1))
    q, r = divmod(int(x[4]), 3)
    y[3] = q * 10 + r
    y[4] = x[2] ** 3 + pow(x[2], 2)


def unrolled(x, y):
    total = 0
    for a, b in ((0, 1), (2, 3)):
        total += x[a] * x[b]
        if a == 2:
            break
    for i, v in enumerate((x[0], x[1], x[2])):
        y[i] = v + i
    for v in [x[5], x[6]]:
        total += v
    y[4] = sum(x[i] for i in (1, 2, 3) if i != 2)
    y[5] = total
    first, *rest = (x[0], x[1], x[2])
    y[6] = first + rest[1]


def unrolled_with_exits(x, y):
    total = 0
    last = -1
    for v in (0, 1, 2, 3, 4, 5):
        if x[v] < -2:
            break
        if x[v] < 0:
            total += 100
            continue
        total += x[v]
        last = v
    y[0] = total
    y[1] = last
    for a in (1, 2):
        for b in (3, 4, 5):
            if x[b] > 8:
                continue
            if x[a] > x[b]:
                break
            y[a + b] += x[a] * b
        else_count = a
    y[2] = else_count
    for v in (3, 4):
        if x[v] < 0:
            y[7] = v
            return
        if v == 3:
            continue
    y[6] = 12


def always_leaves_unrolled(x, y):
    for v in (1, 2, 3):
        if x[v] > 0:
            y[0] = v
            break
        continue
    for v in (0, 1):
        if x[v] > 100:
            return
        else:
            return
    y[5] = 9


def plain_conditions(x, y):
    flag = True
    if flag:
        y[0] = x[0]
    else:
        y[0] = undefined_name  # noqa: F821
    while not flag:
        y[0] = 99
    y[1] = 1 if flag and not False else 2
    y[2] = x[0] if flag or x[100] > 0 else 3


def constants_in_loop(x, y):
    tile = 4
    for i in range(8):
        half = tile // 2
        y[i] = half + (i << 1) + (i ^ 3) + (i & 6 | 1) + (~i) + (-i) + (+i) + (i >> 1)


def many_breaks(x, y):
    kind = 0
    value = x[0]
    while True:
        if x[0] > 100:
            kind = 1
            value = 1
            break
        if x[1] < 0:
            kind = 2
            value = x[2]
            break
        if x[2] < 0:
            break
    y[0] = kind
    y[1] = value


KERNELS = [
    if_elif_else, while_with_exits, endless_with_break, countdown, run_time_bounds, nested_loops,
    early_return, return_in_while, both_sides_leave, both_sides_return, mixed_exits,
    short_circuit, chained, conditional_expression, guarded_load, swap_and_fibonacci, augmented,
    last_value, empty_loop_keeps, assigned_in_both, unused_after, loop_carried_tuple, walrus,
    switch, always_breaks, builtins, unrolled, unrolled_with_exits,
    always_leaves_unrolled, plain_conditions, constants_in_loop, many_breaks,
]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_like_python(kernel):
    same_as_python(kernel, X, Y)


@pytest.mark.parametrize(("start", "stop", "step"), [
    (0, 8, 1), (0, 8, 3), (7, -1, -1), (7, 0, -3), (5, 5, 1), (5, 2, 1), (2, 5, -1), (-3, 4, 2),
])  # fmt: skip
def test_range_like_python(start, stop, step):
    def kernel(y, start, stop, step):
        count = 0
        for i in range(start, stop, step):
            y[count] = i
            count += 1

    same_as_python(kernel, np.zeros(8, np.int64), start, stop, step)


def test_loop_over_huge_range_does_not_overflow():
    def kernel(y, start, step):
        count = 0
        for i in range(start, 2**63 - 1, step):
            y[count] = i
            count += 1

    y = np.zeros(4, np.int64)
    run(kernel, y, 2**63 - 10, 4)
    np.testing.assert_array_equal(y, [2**63 - 10, 2**63 - 6, 2**63 - 2, 0])


def test_static_range_gives_plain_numbers():
    def kernel(y, n: hl.static):
        for i in hl.static_range(n):
            if i == 2:
                continue
            y[i] = hl.shared((i + 1,), hl.f32).shape[0]

    y = np.zeros(4, np.int32)
    module = traced(kernel, y, Static(4))
    assert not [op for op in walk(module.kernels[0].body) if op.spec in (ops.FOR, ops.LOOP)]
    run(kernel, y, Static(4))
    np.testing.assert_array_equal(y, [1, 2, 0, 4])


def test_pure_sides_become_selects_and_loads_stay_guarded():
    def kernel(x, y):
        i = hl.global_id(0)
        y[i] = 1.0 if x[i] > 0 else 2.0
        y[i] = x[i] if i < 4 else 0

    body = traced(kernel, X, Y).kernels[0].body
    names = [op.name for op in walk(body)]
    assert names.count("select") == 1
    assert names.count("if") == 1


def test_dead_code_after_exits_is_not_built():
    def kernel(y):
        y[0] = 1
        return
        y[0] = nothing_like_this  # noqa: F821

    y = np.zeros(1)
    run(kernel, y)
    assert y[0] == 1


def test_500_branches_in_a_chain_of_elifs_and_a_sum_of_2000_terms():
    lines = ["def kernel(x, y):", "    k = int(x[0])", "    if k == 0:", "        y[0] = 0"]
    for i in range(1, 60):
        lines += [f"    elif k == {i}:", f"        y[0] = {i}"]
    lines.append("    y[1] = " + " + ".join(["x[1]"] * 2000))
    kernel = define("\n".join(lines))
    y = np.zeros(2)
    run(kernel, np.array([37.0, 0.5]), y)
    np.testing.assert_array_equal(y, [37, 1000])


def define(text):
    import linecache

    name = f"<test {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope = {"hl": hl}
    exec(compile(text, name, "exec"), scope)
    return scope["kernel"]


def test_a_step_of_zero_is_reported_in_debug_and_runs_nothing():
    def kernel(y, step):
        for i in range(0, 10, step):
            y[i] = 1

    y = np.zeros(1)
    run(kernel, y, 0)
    assert y[0] == 0
    with pytest.raises(AssertionError, match="the step of `range` is 0"):
        run(kernel, y, 0, debug=True)


def test_an_expression_deeper_than_python_can_read():
    kernel = define("def kernel(x):\n    x[0] = " + "-" * 80 + "x[0]\n")
    limit = sys.getrecursionlimit()
    depth = len(inspect.stack())
    sys.setrecursionlimit(depth + 120)
    try:
        with pytest.raises(NestingError, match="recursion limit"):
            traced(kernel, np.zeros(1))
    finally:
        sys.setrecursionlimit(limit)
