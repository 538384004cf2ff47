"""Devices in processes: sixteen threads, the end of the process, a fork, one device to another."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir.runtime import devices

ROOT = Path(__file__).parents[2]
NAMES = [d.name for d in devices(emulated=True) if not d.name.startswith("ascend")]
BODY = """
import os, signal, sys
import numpy as np
sys.path.insert(0, {folder!r})
from worker import grow
device = {name!r}
def check():
    x = np.arange(64, dtype=np.int32)
    grow.launch((x,), grid=2, workgroup=32, device=device).wait()
    assert (x == 2 * np.arange(64)).all()
check()
"""
ENDS = """
for _ in range(5):
    grow.launch((np.zeros(64, np.int32),), grid=2, workgroup=32, device=device)
print("ends")
"""
FORKS = """
child = os.fork()
if child == 0:
    signal.alarm(60)
    try:
        check()
        said = "works"
    except Exception as error:
        said = f"refused: {error}"
    os.write(1, said.encode())
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
check()
"""
WORKER = """
import hetir, hetir.lang as hl
@hetir.kernel
def grow(x: hl.Array[hl.i32, 1]):
    i = hl.global_id(0)
    if i < x.shape[0]:
        x[i] *= 2
"""


@hetir.kernel
def grow(x: hl.Array[hl.i32, 1], by: hl.i32):
    i = hl.global_id(0)
    if i < x.shape[0]:
        x[i] += by


def child(tmp_path, name, text):
    (tmp_path / "worker.py").write_text(WORKER)
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BODY.format(folder=str(tmp_path), name=name) + text],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("name", NAMES)
def test_sixteen_threads_launch_a_kernel_that_nobody_compiled(name):
    """Who comes first compiles for all; the others wait, and everybody's result is right."""

    @hetir.kernel
    def fresh(x: hl.Array[hl.i32, 1], by: hl.i32):
        i = hl.global_id(0)
        if i < x.shape[0]:
            x[i] += by

    start, wrong = threading.Barrier(16), []

    def work(number):
        x = np.zeros(64, np.int32)
        start.wait()
        for _ in range(3):
            fresh.launch((x, number), grid=2, workgroup=32, device=name).wait()
        if not (x == 3 * number).all():
            wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a deadlock"
    assert wrong == []
    (only,) = fresh.specialisations
    assert len(only.compiled) <= 2  # NumPy may give arrays of both alignments


@pytest.mark.parametrize("name", NAMES)
def test_the_process_ends_with_launches_in_flight(tmp_path, name):
    done = child(tmp_path, name, ENDS)
    assert (done.returncode, done.stdout) == (0, "ends\n"), done.stderr


HOST = [name for name in NAMES if name in ("cpu", "emulator", "ptx-emulator")]


@pytest.mark.parametrize("name", HOST)
def test_a_forked_child_goes_on(tmp_path, name):
    done = child(tmp_path, name, FORKS)
    assert (done.returncode, done.stdout) == (0, "works"), done.stderr


@pytest.mark.parametrize("name", [n for n in NAMES if n not in HOST])
def test_a_forked_child_of_a_vendors_library_works_or_says_why_not(tmp_path, name):
    done = child(tmp_path, name, FORKS)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "works" or "fork" in done.stdout


@pytest.mark.parametrize("other", NAMES)
@pytest.mark.parametrize("name", NAMES)
def test_arrays_go_from_device_to_device(name, other):
    x = hetir.array(np.arange(64, dtype=np.int32), device=name)
    grow.launch((x, 1), grid=2, workgroup=32, device=name)
    there = x[1:].to(other)
    assert there.device.name == other
    assert (there is not x) or name == other
    grow.launch((there, 10), grid=2, workgroup=32, device=other)
    back = there.to(name)
    grow.launch((back, 100), grid=2, workgroup=32, device=name).wait()
    assert back.numpy().tolist() == [n + 111 for n in range(1, 64)]
    if name != other:
        assert x.numpy().tolist() == [n + 1 for n in range(64)]
