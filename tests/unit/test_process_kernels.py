"""Kernels in other processes and interpreters: fork while a thread compiles, spawn, refusal."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULE = """
import numpy as np
import hetir, hetir.lang as hl

@hetir.kernel
def triple(x: hl.Array[hl.i64, 1]):
    i = hl.global_id(0)
    if i < x.shape[0]:
        x[i] *= 3

def work(n):
    x = np.arange(n)
    triple[hetir.cdiv(n, 64), 64](x)
    y = np.arange(n)
    triple.launch((y,), grid=hetir.cdiv(n, 64), workgroup=64).wait()
    assert (x == y).all()
    return int(x.sum())
"""
RIGHT = """
import multiprocessing, sys
from worker import work
if __name__ == "__main__":
    assert work(10) == 135
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(2) as pool:
        assert pool.map(work, [100, 200, 300]) == [3 * n * (n - 1) // 2 for n in (100, 200, 300)]
    assert work(10) == 135
    print("right")
"""
LOCKED = """
import os, threading, time
import numpy as np
from hetir import compiler
import worker

inside, go = threading.Event(), threading.Event()
prepare = compiler.prepare
def slow(module):
    inside.set()
    go.wait(30)
    return prepare(module)
compiler.prepare = slow
thread = threading.Thread(target=worker.work, args=(10,))
thread.start()
inside.wait()
child = os.fork()
if child == 0:  # the other thread held the kernel's lock
    compiler.prepare = prepare
    os._exit(0 if worker.work(10) == 135 else 1)
_, status = os.waitpid(child, 0)
go.set()
thread.join()
assert status == 0, status
assert worker.work(10) == 135
print("right")
"""
FLYING = """
import os
import numpy as np
import hetir
import worker
x = hetir.array(np.arange(1 << 20))
for _ in range(20):
    worker.triple.launch((x,), grid=1 << 14, workgroup=64)
child = os.fork()
if child == 0:  # what flew is the parent's
    x = np.arange(10)
    worker.triple[1, 64](x)
    y = hetir.array(np.arange(10))
    worker.triple.launch((y,), grid=1, workgroup=64).wait()
    os._exit(0 if (x == y.numpy()).all() else 1)
_, status = os.waitpid(child, 0)
assert status == 0, status
with np.errstate(over="ignore"):
    assert (x.numpy() == np.arange(1 << 20) * 3**20).all()
print("right")
"""
INTERPRETER = """
import {module} as interpreters
import sys
inner = interpreters.create()
code = '''
import sys
sys.path[:0] = {path!r}
try:
    import worker
    worker.work(3)
except Exception as error:
    print(type(error).__name__, error)
'''
{run}
print("the process lives")
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "worker.py").write_text(MODULE)
    return tmp_path


def output(folder, text, *arguments):
    (folder / "main.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(folder / "main.py"), *arguments],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{folder}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "method", ["spawn", "fork", pytest.param("forkserver", marks=pytest.mark.slow)]
)
def test_multiprocessing(folder, method):
    assert output(folder, RIGHT, method) == "right\n"


@pytest.mark.parametrize("text", [LOCKED, FLYING], ids=["compiling", "launching"])
def test_a_fork_in_the_middle(folder, text):
    assert output(folder, text) == "right\n"


def test_sub_interpreters_are_refused(folder):
    """Their kernels are, as NumPy's own extension may be before them."""
    modern = sys.version_info >= (3, 13)
    module = "_interpreters" if modern else "_xxsubinterpreters"
    run = "interpreters.exec(inner, code)" if modern else "interpreters.run_string(inner, code)"
    said = output(folder, INTERPRETER.format(module=module, path=[str(ROOT), str(folder)], run=run))
    assert said.endswith("the process lives\n")
    assert "main interpreter" in said or "subinterpreter" in said
