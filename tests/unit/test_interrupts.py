"""Ctrl-C ends a synchronous launch on the CPU whose workgroups the calling thread runs."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CHILD = """
import sys
import numpy as np
import hetir
import hetir.lang as hl

@hetir.kernel
def spin(go, y):
    i = hl.global_id(0)
    while go[0] == 0:
        y[i] += 1

groups, before = map(int, sys.argv[1:])
go, y = np.ones(1, np.int32), np.zeros(32 * groups, np.float32)
for _ in range(before):
    spin[groups, 32](go, y)
print("waiting", flush=True)
try:
    spin[groups, 32](np.zeros(1, np.int32), y)
except KeyboardInterrupt:
    print("interrupted")
spin[groups, 32](go, y)
# and Python's own handler is back
try:
    import signal
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("again")
"""


# alone, in a job of one thread, and beside workers that must be given up; once a kernel is known
# to be quick it is begun in another way
@pytest.mark.parametrize(("threads", "groups", "before"), [(2, 1, 0), (1, 3, 20), (2, 64, 0)])
def test_ctrl_c_ends_a_launch_that_never_ends(tmp_path, threads, groups, before):
    file = tmp_path / "child.py"
    file.write_text(CHILD)
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "HETIR_NUM_THREADS": str(threads), "PYTHONPATH": root}
    command = [sys.executable, str(file), str(groups), str(before)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout.readline() == "waiting\n"
        time.sleep(1)
        child.send_signal(signal.SIGINT)
        try:
            out, _ = child.communicate(timeout=30)
        finally:
            child.kill()
    assert out == "interrupted\nagain\n"
    assert child.returncode == 0
