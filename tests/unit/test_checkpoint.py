"""Launches that stop, are saved and go on: the conditions of docs/checkpoint.md, one by one."""

from __future__ import annotations

import enum
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import hetir
import hetir.lang as hl
from hetir import checkpoint, compiler, runtime
from hetir.checkpoint import CheckpointError, CheckpointTimeout, StopAt
from hetir.emulator import ascend as shim
from hetir.ir import ops
from hetir.ir.core import walk
from hetir.limits import WorkgroupSizeError
from hetir.passes.resumable import Resumable

HOST_DEVICES = ("cpu", "emulator", "ptx-emulator")


@hetir.kernel
def rotate(x: hl.Array[hl.f32, 2], y: hl.Array[hl.f32, 2], times: hl.i32):
    """Rows go round through shared memory; what is added depends on the round."""
    lane, row = hl.local_id(0), hl.group_id(0)
    ring = hl.shared(32, hl.f32)
    value = x[row, lane]
    for turn in range(times):
        ring[lane] = value
        hl.barrier()
        value = ring[(lane + 1) % 32] + turn
        hl.barrier()
    y[row, lane] = value


def rotated(x: np.ndarray, times: int) -> np.ndarray:
    for turn in range(times):
        x = np.roll(x, -1, axis=1) + np.float32(turn)
    return x


def rows(count: int = 8) -> np.ndarray:
    return np.random.default_rng(1).integers(-99, 99, (count, 32)).astype(np.float32)


def stopped(path: Path, *, device="cpu", at=40, times=12) -> np.ndarray:
    """A launch of `rotate` that was stopped half way; gives its input."""
    x = rows()
    launch = rotate.launch(
        (x, np.zeros_like(x), times), grid=8, workgroup=32, device=device,
        checkpoint=StopAt(safe_points=at, path=path),
    )  # fmt: skip
    launch.wait()
    assert launch.done
    return x


@pytest.mark.parametrize("second", HOST_DEVICES)
@pytest.mark.parametrize("first", HOST_DEVICES)
def test_a_launch_goes_on_elsewhere(tmp_path, first, second):
    x = stopped(tmp_path / "job.hetck", device=first)
    found = checkpoint.load(tmp_path / "job.hetck")
    assert (found.status > 0).any(), "some workgroups stop on the way"
    run = hetir.resume(tmp_path / "job.hetck", device=second)
    run.wait()
    np.testing.assert_array_equal(run.arguments["y"], rotated(x, 12))
    np.testing.assert_array_equal(run.arguments["x"], x)
    assert run.arguments["times"] == 12


def test_a_launch_may_be_stopped_again_and_again(tmp_path):
    """Condition 2: nothing runs twice, whatever the stops."""
    path = tmp_path / "job.hetck"
    x = stopped(path, at=7)
    stops = 1
    while True:
        run = hetir.resume(path, HOST_DEVICES[stops % 3], stop=StopAt(safe_points=31, path=path))
        run.wait()
        if (epoch := checkpoint.load(path).epoch) == stops:
            break
        stops = epoch
    assert stops >= 5
    np.testing.assert_array_equal(run.arguments["y"], rotated(x, 12))


@hetir.kernel
def counts(total: hl.Array[hl.i32, 1], each: hl.Array[hl.i32, 1]):
    i = hl.global_id(0)
    each[i] += 1
    hl.barrier()
    hl.atomic_add(total, 0, 1)
    hl.barrier()
    each[i] += 10


def test_no_workgroup_runs_twice_in_part(tmp_path):
    """Condition 2, where running anything twice would show in a sum."""
    total, each = np.zeros(1, np.int32), np.zeros(256, np.int32)
    path = tmp_path / "job.hetck"
    run = counts.launch((total, each), grid=16, workgroup=16, checkpoint=StopAt(
        safe_points=5, path=path))  # fmt: skip
    run.wait()
    for _ in range(100):
        if not path.exists():
            break
        run = hetir.resume(path, stop=StopAt(safe_points=5, path=tmp_path / "next.hetck"))
        run.wait()
        path.unlink()
        if (tmp_path / "next.hetck").exists():
            (tmp_path / "next.hetck").rename(path)
    assert run.arguments["total"][0] == 256
    assert (run.arguments["each"] == 11).all()


def test_the_status_is_published_last_and_released():
    """Condition 3, in the code: after a barrier, with release, and nothing but a return behind."""
    job = checkpoint.safe_points(rotate, (rows(), rows(), 1))
    kernel = Resumable().run(job)
    stores = [op for op in walk(kernel.body) if op.spec is ops.ATOMIC_STORE]
    assert len(stores) == 1 + len(job.points)
    assert all(op.attrs == {"order": "release", "scope": "device"} for op in stores)
    for arm in (r for op in walk(kernel.body) for r in op.regions):
        names = [op.name for op in arm.body]
        if "return" in names and "barrier" in names:
            after = names[names.index("barrier") + 1 :]
            assert "store" not in after, after


def test_the_file_names_no_address(tmp_path):
    """Condition 5: arrays are a buffer and an offset."""
    x = stopped(tmp_path / "job.hetck")
    data = (tmp_path / "job.hetck").read_bytes()
    address = x.__array_interface__["data"][0]
    assert address.to_bytes(8, "little") not in data
    assert str(address).encode() not in data
    length = int.from_bytes(data[:8], "little")
    meta = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["hetir"])
    assert meta["arguments"]["x"]["buffer"] in (0, 1)
    assert meta["arguments"]["x"]["offset"] == 0


def test_the_file_is_a_safetensors_file(tmp_path):
    """The library of that format reads it, and finds the input's bytes."""
    x = stopped(tmp_path / "job.hetck")
    tensors = load_file(tmp_path / "job.hetck")
    assert any(
        name.startswith("buffer.") and data.tobytes() == x.tobytes()
        for name, data in tensors.items()
    )
    groups = np.concatenate([v for n, v in tensors.items() if n.endswith(".groups")])
    assert len(set(groups.tolist())) == groups.size > 0


@hetir.kernel(subgroup_size=16)
def folds(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1]):
    i = hl.global_id(0)
    value = x[i]
    for turn in range(6):
        value = hl.shuffle_xor(value, 1 << (turn % 4)) + turn
        hl.barrier()
    y[i] = value


@pytest.mark.parametrize("second", HOST_DEVICES)
def test_the_subgroup_keeps_its_width(tmp_path, second):
    """Condition 6: lanes are those that the kernel was started with."""
    x = np.arange(128, dtype=np.int32) ** 2
    path = tmp_path / "job.hetck"
    launch = folds.launch((x, np.zeros_like(x)), grid=2, workgroup=64,
                          checkpoint=StopAt(safe_points=9, path=path))  # fmt: skip
    launch.wait()
    want = x.copy()
    lanes = np.arange(128)
    for turn in range(6):
        want = want[lanes ^ (1 << (turn % 4))] + turn
    run = hetir.resume(path, second)
    run.wait()
    np.testing.assert_array_equal(run.arguments["y"], want)


@hetir.kernel
def guarded(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1], n: hl.i64):
    i = hl.global_id(0)
    if i >= n:
        return
    total = hl.f32(0)
    for j in range(n):
        total += x[i] * j
    y[i] = total


def test_work_items_that_returned_stay_returned(tmp_path):
    """Condition 8: behind a divergent return there is no safe point but the workgroup's start."""
    x = np.arange(100, dtype=np.float32) % 7
    y = np.full(128, -1, np.float32)
    path = tmp_path / "job.hetck"
    guarded.launch((x, y, 100), grid=8, workgroup=16,
                   checkpoint=StopAt(safe_points=3, path=path)).wait()  # fmt: skip
    found = checkpoint.load(path)
    assert not found.job.plan.points
    run = hetir.resume(path)
    run.wait()
    np.testing.assert_array_equal(run.arguments["y"][:100], x * np.float32(4950))
    assert (run.arguments["y"][100:] == -1).all()


@hetir.kernel(math="native")
def roots(x: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    hl.barrier()
    x[i] = hl.rsqrt(x[i])


def test_native_mathematics_needs_leave(tmp_path):
    """Condition 9."""
    path = tmp_path / "job.hetck"
    roots.launch((np.full(64, 4, np.float32),), grid=4, workgroup=16,
                 checkpoint=StopAt(safe_points=2, path=path)).wait()  # fmt: skip
    with pytest.raises(CheckpointError, match="native mathematics"):
        hetir.resume(path)
    run = hetir.resume(path, allow_native=True)
    run.wait()
    np.testing.assert_allclose(run.arguments["x"], 0.5, rtol=1e-6)


def test_a_device_that_cannot_hold_the_kernel_refuses_and_the_launch_goes_on():
    """Condition 10: named before anything stops."""
    x = np.ones((1, 32), np.float32)

    @hetir.kernel
    def large(x: hl.Array[hl.f32, 2]):
        hl.barrier()
        x[0, hl.local_id(0) % 32] = 2.0

    run = large.launch((x,), grid=1, workgroup=2048, checkpoint=True)
    with pytest.raises(WorkgroupSizeError, match="2048"):
        run.migrate("ptx-emulator")
    run.wait()
    assert (x == 2).all()


@pytest.mark.filterwarnings("ignore:.*ends loops after:RuntimeWarning")
@pytest.mark.parametrize(
    "device",
    [pytest.param(d.name, id=d.name.partition(":")[0]) for d in hetir.devices()] + ["ptx-emulator"],
)
def test_a_kernel_that_leaves_no_shared_memory_is_stopped(tmp_path, device):
    """Its work-items tell each other through global memory."""
    size = hetir.device(device).portrait.limits.shared_bytes_optin // 4

    @hetir.kernel
    def full(x: hl.Array[hl.i32, 2], times: hl.i32):
        lane, row = hl.local_id(0), hl.group_id(0)
        ring = hl.shared(size, hl.i32)
        value = x[row, lane]
        for turn in range(times):
            ring[size - 1 - lane] = value
            hl.barrier()
            value = ring[size - 1 - (lane + 1) % 32] + turn
            hl.barrier()
        x[row, lane] = value

    x, path = rows(3).astype(np.int32), tmp_path / "full.hetck"
    full.launch(
        (x.copy(), 5), grid=3, workgroup=32, device=device,
        checkpoint=StopAt(safe_points=8, path=path),
    ).wait()  # fmt: skip
    run = hetir.resume(path, device=device)
    run.wait()
    np.testing.assert_array_equal(run.arguments["x"], rotated(x.astype(np.float32), 5))


def test_a_changed_kernel_is_refused(tmp_path):
    """Condition 11."""
    stopped(tmp_path / "job.hetck")

    @hetir.kernel
    def changed(x: hl.Array[hl.f32, 2], y: hl.Array[hl.f32, 2], times: hl.i32):
        hl.barrier()
        y[hl.group_id(0), hl.local_id(0)] = x[hl.group_id(0), hl.local_id(0)] * times

    hetir.resume(tmp_path / "job.hetck", kernel=rotate).wait()
    with pytest.raises(CheckpointError, match="has changed since"):
        hetir.resume(tmp_path / "job.hetck", kernel=changed)


@hetir.kernel
def tells(x: hl.Array[hl.i32, 1]):
    group = hl.group_id(0)
    if hl.local_id(0) == 0:
        hl.print("before {}", group)
    hl.barrier()
    if hl.local_id(0) == 0:
        hl.print("after {}", group)
    x[hl.global_id(0)] = 1


def test_lines_are_printed_once(tmp_path, capsys):
    """Condition 12."""
    path = tmp_path / "job.hetck"
    tells.launch((np.zeros(64, np.int32),), grid=8, workgroup=8,
                 checkpoint=StopAt(safe_points=6, path=path)).wait()  # fmt: skip
    hetir.resume(path).wait()
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == sorted(f"{w} {g}" for g in range(8) for w in ("before", "after"))


def test_printed_lines_name_their_work_items_where_that_is_asked(capsys):
    """As those of any launch."""
    hetir.print_items()
    try:
        tells.launch((np.zeros(8, np.int32),), grid=1, workgroup=8, checkpoint=True).wait()
    finally:
        hetir.print_items(False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "workgroup (0, 0, 0), item (0, 0, 0): before 0"


@hetir.kernel
def slow(x: hl.Array[hl.u32, 1], rounds: hl.i64):
    i = hl.global_id(0)
    value = x[i]
    if value != 0:  # divergent: no safe point inside
        for _ in range(rounds):
            value = value * 1664525 + 1013904223
    x[i] = value


def scrambled(x: np.ndarray, rounds: int) -> np.ndarray:
    """By doubling the affine map."""
    a, c, ra, rc = 1664525, 1013904223, 1, 0
    while rounds:
        if rounds & 1:
            ra, rc = ra * a % 2**32, (rc * a + c) % 2**32
        a, c = a * a % 2**32, (c * a + c) % 2**32
        rounds >>= 1
    return ((x.astype(np.uint64) * ra + rc) % 2**32).astype(np.uint32)


def test_a_request_that_takes_too_long_leaves_the_launch_running(tmp_path):
    """Condition 13."""
    x = np.arange(1, 65, dtype=np.uint32)
    want = scrambled(x, 4_000_000_000)
    run = slow.launch((x, 4_000_000_000), grid=4, workgroup=16, checkpoint=True)
    time.sleep(0.2)  # a workgroup that has not begun would stop at once
    with pytest.raises(CheckpointTimeout, match="still running"):
        run.checkpoint(tmp_path / "job.hetck", timeout=0.01)
    assert not (tmp_path / "job.hetck").exists()
    run.wait()
    np.testing.assert_array_equal(x, want)


def test_a_file_that_cannot_be_written_leaves_the_launch_running(tmp_path):
    """Condition 13: on any error the launch goes on."""
    x = rows(64)
    y = np.zeros_like(x)
    run = rotate.launch((x, y, 2000), grid=64, workgroup=32, checkpoint=True)
    with pytest.raises(CheckpointError, match="cannot write"):
        run.checkpoint(tmp_path / "no" / "such" / "folder" / "job.hetck")
    run.wait()
    np.testing.assert_array_equal(y, rotated(x, 2000))


@hetir.kernel
def shifts(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1], tmp: hl.Array[hl.i32, 1]):
    i = hl.global_id(0)
    tmp[i] = 7
    hl.barrier()
    y[i] = x[i] + 1


def test_arrays_that_overlap_overlap_again(tmp_path):
    """Condition 14: one buffer, and scratch is not saved."""
    memory = np.arange(200, dtype=np.int32)
    x, y, tmp = memory[:64], memory[64:0:-1], np.arange(4096, dtype=np.int32)
    path = tmp_path / "job.hetck"
    shifts.launch((x, y, tmp), grid=4, workgroup=16, scratch=["tmp"],
                  checkpoint=StopAt(safe_points=3, path=path)).wait()  # fmt: skip
    buffers = [t for n, t in load_file(path).items() if n.startswith("buffer.")]
    assert [b.nbytes for b in buffers] == [65 * 4]
    run = hetir.resume(path)
    assert np.shares_memory(run.arguments["x"], run.arguments["y"])
    assert run.arguments["tmp"].shape == (4096,)


@pytest.mark.parametrize("device", HOST_DEVICES)
def test_a_running_launch_is_stopped_by_hand(tmp_path, device):
    """Wherever it is by then: saved, and resumed to the right result."""
    times = 200_000 if device == "cpu" else 300
    x = rows(4)
    run = rotate.launch((x, np.zeros_like(x), times), grid=4, workgroup=32, device=device,
                        checkpoint=True)  # fmt: skip
    time.sleep(0.02)
    run.checkpoint(tmp_path / "job.hetck", timeout=120)
    assert run.done
    left = hetir.resume(tmp_path / "job.hetck")
    left.wait()
    np.testing.assert_array_equal(left.arguments["y"], rotated(x, times))


def test_migration_through_memory():
    x = rows()
    y = np.zeros_like(x)
    run = rotate.launch((x, y, 100), grid=8, workgroup=32, device="ptx-emulator", checkpoint=True)
    run.migrate("cpu", timeout=120)
    run.wait()
    assert run.device.name in ("cpu", "ptx-emulator")
    np.testing.assert_array_equal(y, rotated(x, 100))


def test_a_launch_that_ends_first_writes_no_file(tmp_path):
    x = stopped(tmp_path / "job.hetck", at=10_000)
    assert not (tmp_path / "job.hetck").exists()
    assert x.size


def test_empty_grids_and_single_items(tmp_path):
    x = rows(1)
    y = np.zeros_like(x)
    run = rotate.launch((x, y, 3), grid=0, workgroup=32, checkpoint=True)
    run.wait()
    assert (y == 0).all()
    run.checkpoint(tmp_path / "job.hetck")
    hetir.resume(tmp_path / "job.hetck").wait()
    counts.launch((np.zeros(1, np.int32), each := np.zeros(1, np.int32)), grid=1, workgroup=1,
                  checkpoint=StopAt(safe_points=1, path=tmp_path / "one.hetck")).wait()  # fmt: skip
    run = hetir.resume(tmp_path / "one.hetck")
    run.wait()
    assert run.arguments["each"][0] == 11
    assert each[0] == 1


def test_a_finished_launch_can_be_saved(tmp_path):
    x = rows()
    run = rotate.launch((x, np.zeros_like(x), 3), grid=8, workgroup=32, checkpoint=True)
    run.wait()
    run.checkpoint(tmp_path / "job.hetck")
    done = hetir.resume(tmp_path / "job.hetck")
    done.wait()
    np.testing.assert_array_equal(done.arguments["y"], rotated(x, 3))


def test_a_killed_process_is_resumed_by_another(tmp_path):
    """SIGKILL in the middle; the last file goes on in this process."""
    script = textwrap.dedent("""
        import sys, numpy as np
        sys.path.insert(0, sys.argv[2])
        from test_checkpoint import rotate, rows
        from hetir import checkpoint
        import hetir
        path, x = sys.argv[1], rows()
        run = rotate.launch((x, np.zeros_like(x), 60), grid=8, workgroup=32,
                            checkpoint=hetir.StopAt(safe_points=50, path=path))
        run.wait()
        while True:
            print("saved", flush=True)
            run = hetir.resume(path, stop=hetir.StopAt(safe_points=50, path=path))
            run.wait()
    """)
    path = tmp_path / "job.hetck"
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(path), str(Path(__file__).parent)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    for _ in range(3):
        assert child.stdout.readline() == "saved\n"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    run = hetir.resume(checkpoint.latest(tmp_path), "emulator")
    run.wait()
    np.testing.assert_array_equal(run.arguments["y"], rotated(rows(), 60))


def test_bad_requests_are_refused():
    x = rows()
    with pytest.raises(CheckpointError, match="no parameter `tmp`"):
        rotate.launch((x, x.copy(), 1), grid=8, workgroup=32, checkpoint=True, scratch=["tmp"])
    with pytest.raises(CheckpointError, match="too many"):
        rotate.launch((x, x.copy(), 1), grid=1 << 29, workgroup=32, checkpoint=True)
    with pytest.raises(CheckpointError, match="cannot read"):
        hetir.resume("no-such-file.hetck")


@pytest.mark.skipif(not shim.compilers(), reason="no C++ compiler is here")
@pytest.mark.parametrize("first", ["ascend-shim", "cpu"])
def test_devices_that_cannot_poll_stop_between_parts(tmp_path, first):
    """910B has no atomic load to ask with: it runs a launch in parts, and resumes any state."""
    path = tmp_path / "job.hetck"
    x = stopped(path, device=first, at=5 if first == "ascend-shim" else 40, times=3)
    found = checkpoint.load(path)
    assert (found.status == 0).any()
    assert (found.status > 0).any() == (first == "cpu")
    run = hetir.resume(path, "ascend-shim")
    run.wait()
    np.testing.assert_array_equal(run.arguments["y"], rotated(x, 3))


@pytest.mark.skipif(not shim.compilers(), reason="no C++ compiler is here")
def test_a_launch_in_parts_is_stopped_by_hand(tmp_path):
    x = rows(40)
    run = rotate.launch((x, np.zeros_like(x), 3), grid=40, workgroup=32,
                        device="ascend-shim:310p", checkpoint=True)  # fmt: skip
    run.checkpoint(tmp_path / "job.hetck")
    left = hetir.resume(tmp_path / "job.hetck", "ascend-shim:310p")
    left.wait()
    np.testing.assert_array_equal(left.arguments["y"], rotated(x, 3))


@pytest.mark.parametrize(
    "target", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]
)
def test_the_code_assembles_for_every_nvidia_generation(target):
    """Both forms; NVIDIA's assembler says what they take."""
    plan = checkpoint.safe_points(rotate, (rows(), rows(), 1))
    for resume in (False, True):
        kernel = Resumable(resume=resume).run(plan)
        made = compiler.lower(kernel, f"ptx:{target}", (32, 1, 1))
        assert made.binary is not None
        assert made.binary.startswith(b"\x7fELF")
        assert made.resources.spill_bytes == 0


def test_constants_after_the_last_array(tmp_path):
    """Hidden arrays follow what the code reads, not what the call passes."""

    @hetir.kernel
    def step(x: hl.Array[hl.i32, 1], times: hl.static, how: hl.static, level: hl.static):
        i = hl.global_id(0)
        for _ in range(times):
            hl.barrier()
            x[i] += level if how == "up" else -level

    x, path = np.zeros(8, np.int32), tmp_path / "job.hetck"
    one = enum.IntEnum("Level", ["ONE"]).ONE
    step.launch((x, 5, "up", one), grid=2, workgroup=4, checkpoint=StopAt(
        safe_points=3, path=path)).wait()  # fmt: skip
    for device in HOST_DEVICES:
        run = hetir.resume(path, device, kernel=step)
        run.wait()
        assert (run.arguments["x"] == 5).all()
        assert run.arguments["how"] == "up"


def test_a_stopped_launch_stays_stopped(tmp_path, monkeypatch):
    """Saving it again writes the same; it neither moves on nor runs behind the file's back."""
    path, again = tmp_path / "job.hetck", tmp_path / "again.hetck"
    y = np.zeros_like(rows())
    run = rotate.launch((rows(), y, 12), grid=8, workgroup=32, checkpoint=StopAt(
        safe_points=40, path=path))  # fmt: skip
    run.wait()
    before = y.copy()
    with pytest.raises(CheckpointError, match="this launch is over"):
        run.migrate("emulator")
    with pytest.raises(CheckpointError, match="no folder"):
        run.checkpoint(tmp_path / "nowhere" / "job.hetck")
    run.save(again)
    run.wait()
    np.testing.assert_array_equal(y, before)
    assert checkpoint.load(again).epoch == checkpoint.load(path).epoch == 1
    resumed = hetir.resume(again)
    resumed.wait()
    np.testing.assert_array_equal(resumed.arguments["y"], rotated(rows(), 12))


def test_a_wait_that_ends_early_leaves_the_launch_running(tmp_path):
    """After a time-out and after Ctrl-C it can be saved, and goes on when waited for."""
    x, y = rows(64), np.zeros((64, 32), np.float32)
    run = rotate.launch((x, y, 400_000), grid=64, workgroup=32, checkpoint=True)
    with pytest.raises(runtime.LaunchTimeoutError):
        run.wait(timeout=0)
    run.save(tmp_path / "job.hetck")
    script = textwrap.dedent("""
        import signal, sys, numpy as np, hetir
        from tests.unit.test_checkpoint import rotate, rows
        x, y = rows(64), np.zeros((64, 32), np.float32)
        run = rotate.launch((x, y, 400_000), grid=64, workgroup=32, checkpoint=True)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        try:
            run.wait()
        except KeyboardInterrupt:
            print("interrupted")
        run.save(sys.argv[1])
        run.wait()
        np.save(sys.argv[2], y)
    """)
    kept, result = tmp_path / "kept.hetck", tmp_path / "y.npy"
    done = subprocess.run([sys.executable, "-c", script, kept, result], capture_output=True,
                          text=True, check=True, timeout=100)  # fmt: skip
    run.wait()
    assert done.stdout == "interrupted\n"
    np.testing.assert_array_equal(np.load(result), y)
    assert y.any()
    assert kept.exists()


def test_only_files_are_replaced(tmp_path):
    """A path may be anything: a folder, a pipe, a device."""
    stopped(tmp_path / "job.hetck")
    run = hetir.resume(tmp_path / "job.hetck")
    run.wait()
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", "", "/proc/job.hetck"):
        with pytest.raises(CheckpointError, match="cannot write"):
            run.checkpoint(path)
    assert (tmp_path / "pipe").is_fifo()
