"""The runtime and processes: forks, exits, signals, threads, the environment."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFORMANCE = ROOT / "tests" / "conformance"

PRELUDE = """
import os, signal, sys, threading, time
import numpy as np
from pathlib import Path
from dataclasses import replace
from hetir.artifact import Artifact, Layout, Resources, Slot
from hetir import runtime
def slot(offset, position, dtype, ndim=None, writes=False):
    where = dict(offset=offset, source=(position,))
    return Slot(**where, dtype=dtype, ndim=ndim, reads=True, writes=writes)
SLOTS = (slot(0, 0, "f32"), slot(8, 1, "f32", 1), slot(32, 2, "f32", 1, True))
LAYOUT = Layout(slots=SLOTS, size=64)
HANG = Layout(slots=(slot(0, 0, "u32", 1),), size=32)
def program(name, layout=Layout(slots=(), size=0)):
    return runtime.device("cpu").load(Artifact(kernel=name, target="cpu", entry=name, text="",
        binary=Path(sys.argv[1]).read_bytes(), layout=layout, resources=Resources()))
def check(n=10_000):
    x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    saxpy = program("saxpy", LAYOUT)
    saxpy.run((3.0, x, y), n // 8 + 1, 8)
    saxpy.launch((3.0, x, y), grid=n // 8 + 1, workgroup=8).wait()
    assert (y == 6 * x).all()
"""


@pytest.fixture(scope="session")
def kernels(tmp_path_factory):
    out = tmp_path_factory.mktemp("kernels") / "kernels.o"
    source = CONFORMANCE / "cpu_kernels.c"
    command = ["gcc", "-O1", "-fPIC", f"-I{ROOT / 'native'}", "-c", source, "-o", out]
    subprocess.run(command, check=True)
    return out


def run(kernels, body, **environment):
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + body, kernels],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def succeeds(kernels, body, **environment):
    result = run(kernels, body, **environment)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


@pytest.mark.parametrize("threads", ["1", "7"])
def test_any_number_of_threads(kernels, threads):
    out = succeeds(
        kernels,
        "check(); print(runtime.device('cpu').portrait.units)",
        HETIR_NUM_THREADS=threads,
    )
    assert out == f"{threads}\n"


@pytest.mark.parametrize("threads", ["0", "2x"])
def test_a_senseless_number_of_threads_is_an_error(kernels, threads):
    result = run(kernels, "check()", HETIR_NUM_THREADS=threads)
    assert result.returncode == 1
    assert "HETIR_NUM_THREADS is not a number from 1 to 256" in result.stderr


def test_a_forked_child_launches_and_what_ran_is_lost_there(kernels):
    succeeds(
        kernels,
        """
check()
spinning = program("spin").launch((), grid=64, workgroup=1)
while spinning.event.times() is not None: pass
time.sleep(0.05)
child = os.fork()
if child == 0:
    signal.alarm(30)
    try:
        spinning.wait()
    except runtime.LaunchFailedError as error:
        assert "lost: the process was forked" in str(error)
        check()
        os._exit(0)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
assert not spinning.done
""",
    )


def test_multiprocessing_by_fork_works(kernels):
    succeeds(
        kernels,
        """
import multiprocessing
check()
workers = [multiprocessing.get_context("fork").Process(target=check) for _ in range(2)]
[w.start() for w in workers]; [w.join(30) for w in workers]
assert [w.exitcode for w in workers] == [0, 0]
""",
    )


def test_the_process_ends_while_kernels_run(kernels):
    begun = time.monotonic()
    succeeds(
        kernels,
        """
program("spin").launch((), grid=64, workgroup=1)
queue = runtime.device("cpu").queue()
program("hang", HANG).launch((np.zeros(1, np.uint32),), grid=64, workgroup=1, queue=queue)
""",
    )
    assert time.monotonic() - begun < 20


def test_a_hung_kernel_is_given_up_and_the_device_lives(kernels):
    succeeds(
        kernels,
        """
go = np.zeros(1, np.uint32)
hang = program("hang", HANG)
queues = runtime.device("cpu").queue(), runtime.device("cpu").queue(), None
launches = [hang.launch((go,), grid=8, workgroup=1, queue=queue) for queue in queues]
for launch in launches:
    try:
        launch.wait(timeout=0.05)
    except runtime.LaunchTimeoutError:
        continue
    raise AssertionError
check()
try:
    check.__globals__["program"]("spin").launch((), grid=1, workgroup=1, queue=launches[0].queue)
except runtime.DeviceError as error:
    assert "hangs in this queue" in str(error)
else:
    raise AssertionError
go[0] = 1
""",
    )


@pytest.mark.parametrize("timeout", ["", "timeout=20"])
def test_ctrl_c_ends_a_wait(kernels, timeout):
    """What was interrupted is given up: later launches do not wait for it."""
    command = [sys.executable, "-c", PRELUDE + """
launch = program("spin").launch((), grid=64, workgroup=1)
print("waiting", flush=True)
try:
    launch.wait(TIMEOUT)
except KeyboardInterrupt:
    check()
    print("interrupted")
""".replace("TIMEOUT", timeout), kernels]  # fmt: skip
    environment = {**os.environ, "HETIR_NUM_THREADS": "2"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout.readline() == "waiting\n"
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        try:
            out, _ = child.communicate(timeout=20)
        finally:
            child.kill()
    assert out == "interrupted\n"


def test_import_is_light_and_writes_nothing(kernels, tmp_path):
    heavy = ["llvmlite", "pyopencl", "typer", "rich", "torch", "filelock", "pycparser"]
    out = succeeds(
        kernels,
        f"print([m for m in {heavy} if m in sys.modules])",
        HETIR_CACHE_DIR=str(tmp_path / "cache"),
    )
    assert out == "[]\n"
    assert list(tmp_path.iterdir()) == []


def test_devices_are_listed_with_the_reason_for_the_others(kernels):
    out = succeeds(
        kernels,
        """
print(*(d.name for d in runtime.devices()))
for gap in runtime.absent():
    print(gap.driver, "|", gap.reason, "|", gap.remedy)
""",
    )
    first, *gaps = out.splitlines()
    names = first.split()
    assert names[0] == "cpu"
    here = {name.partition(":")[0] for name in names}
    missing = {line.split(" | ")[0] for line in gaps}
    assert here | missing == {"cpu", "cuda", "opencl", "vulkan", "ascend"}
    assert not here & missing
    assert all(len(line.split(" | ")) == 3 for line in gaps)


def test_the_c_runtime_passes_its_own_tests():
    script = ROOT / "native" / "tests" / "run.sh"
    environment = {**os.environ, "HETIR_TEST_THREADS": "2"}
    result = subprocess.run(
        [script, "none"], capture_output=True, text=True, check=False, timeout=120, env=environment
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("all right") == 2
