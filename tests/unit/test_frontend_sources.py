"""Where a kernel's source comes from, and that every op knows its place."""

import functools
import importlib
import linecache
import subprocess
import sys

import numpy as np
import pytest
from frontend_tools import run, traced

import hetir.lang as hl
from hetir.frontend import Weak, trace
from hetir.frontend.errors import SignatureError, SourceError, UnsupportedSyntaxError
from hetir.ir.core import walk
from hetir.ir.types import SCALARS, ArrayType

F32_1 = ArrayType(SCALARS["f32"], 1)

PROGRAM = """
import numpy as np
import hetir.lang as hl
from hetir.frontend import trace
from hetir.ir.types import F32, ArrayType
def kernel(x):
    é = x[0]; x[1] = é * 2
module = trace(kernel, (ArrayType(F32, 1),))
print(module.kernels[0].body.body[-2].loc, module.kernels[0].body.body[-2].loc.source())
"""


def python(*arguments, stdin=None):
    return subprocess.run(
        [sys.executable, *arguments], input=stdin, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("flags", [("-c",), ("-Bc",), ("-W", "ignore", "-X", "utf8", "-c")])
def test_a_string_on_the_command_line(flags):
    done = python(*flags, PROGRAM)
    assert done.stdout == "<string>:7:15     é = x[0]; x[1] = é * 2\n", done.stderr


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="newer prompts keep their source")
def test_the_prompt_says_what_to_do():
    done = python("-", stdin=PROGRAM)
    assert "error[HET200]: the source of `kernel` is not available" in done.stderr
    assert "help: put it into a file or a notebook, or use the prompt of Python 3.13" in done.stderr


def test_notebook_cells():
    for version in (1, 2):
        text = f"def cell(x):\n    x[0] = {version}\n"
        name = f"<ipython-input-{version}-abc>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        scope = {}
        exec(compile(text, name, "exec"), scope)
        x = np.zeros(1)
        run(scope["cell"], x)
        assert x[0] == version


def test_text_without_source_is_refused():
    scope = {}
    exec(compile("def kernel(x):\n    x[0] = 1\n", "<nowhere>", "exec"), scope)
    with pytest.raises(SourceError, match="the source of `kernel` is not available"):
        trace(scope["kernel"], (F32_1,))


def test_lambdas_are_refused_with_the_reason():
    with pytest.raises(SourceError, match="a lambda cannot be compiled"):
        trace(lambda x: x[0], (F32_1,))


def test_what_is_no_function_is_refused():
    class Callable:
        def __call__(self, x):
            pass

    for thing in (print, Callable(), Callable, 3, functools.partial(run)):
        with pytest.raises(SignatureError, match="a kernel is a Python function"):
            trace(thing, (F32_1,))


def test_coroutines_and_generators_are_refused():
    async def coroutine(x):
        x[0] = 1

    def generator(x):
        yield x[0]

    for kernel in (coroutine, generator):
        with pytest.raises(UnsupportedSyntaxError):
            trace(kernel, (F32_1,))


def test_a_file_that_changed_after_its_import(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "changing_kernels.py"
    file.write_text("def kernel(x):\n    x[0] = 1\n")
    module = importlib.import_module("changing_kernels")
    file.write_text("\n\nSOMETHING = 'else'\n")
    with pytest.raises(SourceError, match="changed after it was imported"):
        trace(module.kernel, (F32_1,))


def identity(function):
    return function


@identity
@functools.lru_cache(maxsize=None) if False else identity
def decorated(
    x,
    n: hl.static = 4,
):
    """A docstring.

    Over several lines.
    """
    x[0] = n


def test_decorators_docstrings_and_defaults():
    x = np.zeros(1)
    run(decorated, x)
    assert x[0] == 4
    assert traced(decorated, x).kernels[0].loc.source().startswith("def decorated(")


class Outer:
    class Inner:
        def kernel(self, x):
            if x[0] > 0:
                # the columns of indented source are the file's
                x[0] = x[0] + 1


def test_places_are_the_files_own():
    def kernel(x):
        ä = "ü"; x[0] = x[1] * 2  # fmt: skip  # noqa: E702, F841

    ops = list(walk(traced(kernel, np.zeros(2)).kernels[0].body))
    load = [op for op in ops if op.name == "load"][-1]
    line = load.loc.source()
    assert line[load.loc.col : load.loc.end_col] == "x[1]"
    body = traced(Outer.Inner().kernel, np.zeros(1)).kernels[0].body
    adds = [op for op in walk(body) if op.name == "add"]
    assert adds[0].loc.source()[adds[0].loc.col : adds[0].loc.end_col] == "x[0] + 1"


def test_every_op_has_a_place():
    def helper(v):
        return v * 2 if v > 0 else v

    def kernel(x, n):
        acc = 0
        for i in range(n):
            if x[i] > 1 and i < 3:
                continue
            acc += helper(x[i])
        x[0] = acc

    module = traced(kernel, np.zeros(4), 3)
    bodies = [*module.kernels, *module.functions]
    places = [op.loc for b in bodies for op in walk(b.body)]
    assert len(places) > 20
    assert all(loc is not None and loc.file == __file__ and loc.source() for loc in places)


def test_same_input_same_text():
    from hetir.ir.text import print_module

    def kernel(x, n, a):
        for i in range(n):
            if x[i] > a:
                x[i] = a * n

    arguments = (F32_1, Weak("int"), Weak("float"))
    assert print_module(trace(kernel, arguments)) == print_module(trace(kernel, arguments))


def test_10000_ops_in_linear_time():
    import time

    def seconds(count):
        lines = ["def kernel(x, y):\n", "    v = x[0]\n"]
        lines += [f"    v = v * x[1] + {i}.5\n" for i in range(count)]
        name = f"<{count} statements>"
        linecache.cache[name] = (1, None, [*lines, "    y[0] = v\n"], name)
        scope = {}
        exec(compile("".join(linecache.getlines(name)), name, "exec"), scope)
        trace(scope["kernel"], (F32_1, F32_1))
        times = []
        for _ in range(3):
            start = time.process_time()
            trace(scope["kernel"], (F32_1, F32_1))
            times.append(time.process_time() - start)
        return min(times)

    # quadratic would be 10 times as much an op
    assert seconds(2500) / 2500 < 4 * seconds(250) / 250
