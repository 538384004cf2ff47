"""Checkpoint files under fire: kills at every point of the commit, flips, cuts, no space."""

from __future__ import annotations

import random
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from hetir import checkpoint
from hetir.checkpoint import CheckpointError, CheckpointVersionError, CorruptCheckpoint, file
from hetir.checkpoint.commit import latest, publish

META = {"format": 1, "what": "a test"}
POINTS = (
    "opened", "written", "flushed", "linked", "kept", "renamed", "synced", "pointed", "done",
)  # fmt: skip
GOLDEN = Path(__file__).parent / "files" / "v1.hetck"


def tensors(seed: int, size: int = 1000) -> dict[str, np.ndarray]:
    data = np.random.default_rng(seed)
    return {
        "buffer.0": data.integers(0, 256, size, dtype=np.uint8),
        "empty": np.empty((0, 3), np.float32),
        "matrix": data.random((5, 7)),
        "one": np.array(7, np.int64),
    }


def save(path: Path, seed: int, size: int = 1000) -> int:
    return publish(path, lambda out: file.write(out, META, tensors(seed, size)))


def seed_of(path: Path, size: int = 1000) -> int:
    """Which of `save`'s files a whole file is."""
    found = file.read(path).tensors["buffer.0"]
    return next(s for s in range(50) if (found == tensors(s, size)["buffer.0"]).all())


@pytest.mark.parametrize("size", [0, 1, 1000, file.PIECE_BYTES, 2 * file.PIECE_BYTES + 3])
def test_what_is_written_is_read_here_and_by_the_library(tmp_path, size):
    path = tmp_path / "a.hetck"
    assert save(path, 1, size) == path.stat().st_size
    found, other = file.read(path), load_file(path)
    assert found.meta == META
    for name, want in tensors(1, size).items():
        for got in (found.tensors[name], other[name]):
            assert got.dtype == want.dtype
            assert got.shape == want.shape
            np.testing.assert_array_equal(got, want)


def test_every_flipped_byte_is_found(tmp_path):
    """A bit in every region, and 500 at random: 100 % found, and the place is named."""
    path = tmp_path / "a.hetck"
    save(path, 2, file.PIECE_BYTES + 9000)
    good = path.read_bytes()
    header = 8 + int.from_bytes(good[:8], "little")
    choose = random.Random(0)
    places = [0, 7, 8, header - 1, header, header + file.PIECE_BYTES, len(good) - 1, len(good) - 5]
    places += [choose.randrange(len(good)) for _ in range(500)]
    for place in places:
        bad = bytearray(good)
        bad[place] ^= 1 << choose.randrange(8)
        path.write_bytes(bad)
        with pytest.raises((CorruptCheckpoint, CheckpointVersionError)) as caught:
            file.read(path)
        error = caught.value
        if isinstance(error, CorruptCheckpoint) and place >= header + 8:
            assert error.offset <= place <= error.offset + file.PIECE_BYTES


def test_every_cut_is_found(tmp_path):
    path = tmp_path / "a.hetck"
    save(path, 3)
    good = path.read_bytes()
    header = 8 + int.from_bytes(good[:8], "little")
    cuts = {*range(0, 40), header - 1, header, header + 1, len(good) - 4, len(good) - 1}
    cuts |= set(range(0, len(good), 37))
    for cut in sorted(cuts):
        path.write_bytes(good[:cut])
        with pytest.raises(CorruptCheckpoint):
            file.read(path)
    path.write_bytes(good + b"\0")
    with pytest.raises(CorruptCheckpoint):
        file.read(path)


def test_a_newer_format_is_refused(tmp_path):
    path = tmp_path / "a.hetck"
    publish(path, lambda out: file.write(out, {"format": 2}, tensors(0)))
    with pytest.raises(CheckpointVersionError, match="format 2"):
        file.read(path)


def test_a_claimed_size_is_not_believed(tmp_path):
    """A header of 2^60 bytes is refused without memory for it."""
    path = tmp_path / "a.hetck"
    path.write_bytes((1 << 60).to_bytes(8, "little") + b"{}")
    with pytest.raises(CorruptCheckpoint):
        file.read(path)


CHILD = textwrap.dedent("""
    import os, signal, sys
    sys.path.insert(0, sys.argv[1])
    from pathlib import Path
    from hetir.checkpoint import commit
    from test_checkpoint_file import save
    def kill(point):
        if point == sys.argv[3]:
            os.kill(os.getpid(), signal.SIGKILL)
    commit._reached = kill
    save(Path(sys.argv[2]), 11)
""")


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_leaves_a_whole_file(tmp_path, point):
    path = tmp_path / "a.hetck"
    save(path, 10)
    command = [sys.executable, "-c", CHILD, str(Path(__file__).parent), str(path), point]
    ended = subprocess.run(command, capture_output=True, check=False, timeout=120)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    assert seed_of(path) == (11 if point in ("renamed", "synced", "pointed", "done") else 10)
    assert seed_of(latest(tmp_path)) in (10, 11)
    save(path, 12)  # and the folder can be used again
    assert seed_of(path) == 12


@pytest.mark.slow
def test_200_kills_at_random_times(tmp_path):
    path = tmp_path / "a.hetck"
    save(path, 10)
    loop = CHILD.replace("save(Path(sys.argv[2]), 11)", "\nwhile True: save(Path(sys.argv[2]), 11)")
    choose = random.Random(1)
    for _ in range(200):
        child = subprocess.Popen(
            [sys.executable, "-c", loop, str(Path(__file__).parent), str(path), "never"]
        )
        try:
            child.wait(0.4 + choose.random())
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        assert seed_of(path) in (10, 11)
        assert seed_of(latest(tmp_path)) in (10, 11)


def test_no_space_and_write_errors_leave_the_old_file(tmp_path):
    """A limit on the file size makes the system refuse the write."""
    path = tmp_path / "a.hetck"
    save(path, 20)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(CheckpointError, match="cannot write"):
            save(path, 21, 1 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    assert seed_of(path) == 20
    assert not list(tmp_path.glob("*.part"))
    assert not list(tmp_path.glob(".*.part"))


def test_writes_that_never_reached_the_disk(tmp_path):
    """What a lost page leaves, zeros, is found, and the file before it taken."""
    path = tmp_path / "a.hetck"
    save(path, 30, 9000)
    save(path, 31, 9000)
    data = bytearray(path.read_bytes())
    data[4096:8192] = bytes(4096)
    path.write_bytes(data)
    with pytest.warns(UserWarning, match="passed over"):
        found = latest(tmp_path)
    assert seed_of(found, 9000) == 30


def test_two_generations_and_no_more(tmp_path):
    path = tmp_path / "a.hetck"
    for seed in (1, 2, 3):
        save(path, seed)
    assert seed_of(path) == 3
    assert seed_of(tmp_path / "a.hetck.previous") == 2
    shown = {p.name for p in tmp_path.iterdir() if not p.name.startswith(".")}
    assert shown == {"a.hetck", "a.hetck.previous", "LATEST"}


def test_a_folder_without_a_checkpoint(tmp_path):
    with pytest.raises(CheckpointError, match="has no checkpoint"):
        latest(tmp_path)
    (tmp_path / "LATEST").write_text("../outside.hetck")
    with pytest.raises(CheckpointError, match="has no checkpoint"):
        latest(tmp_path)


def test_two_writers_take_turns(tmp_path):
    path = tmp_path / "a.hetck"
    threads = [
        threading.Thread(target=lambda s=seed: [save(path, s) for _ in range(10)])
        for seed in (40, 41)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seed_of(path) in (40, 41)
    assert seed_of(tmp_path / "a.hetck.previous") in (40, 41)


@pytest.mark.slow
def test_descriptors_over_1000_checkpoints(tmp_path):
    path = tmp_path / "a.hetck"
    save(path, 1)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(1000):
        save(path, 1)
        file.read(path)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_descriptors_and_memory_stay_flat(tmp_path):
    path = tmp_path / "a.hetck"
    for _ in range(20):
        save(path, 1, 200_000)
        file.read(path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(100):
        save(path, 1, 200_000)
        file.read(path)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used < 20_000


def test_mutated_files_never_crash(tmp_path):
    """Random edits of the header, its checksum made right again: refused, never a crash."""
    path = tmp_path / "b.hetck"
    shutil.copy(GOLDEN, path)
    good = path.read_bytes()
    length = int.from_bytes(good[:8], "little")
    text = good[8 : 8 + length]
    choose = random.Random(3)
    refused = 0
    for _ in range(300):
        changed = bytearray(text)
        for _ in range(choose.randrange(1, 4)):
            place = choose.randrange(length)
            changed[place] = choose.choice(b'0123456789-"[]{},:xX')
        path.write_bytes(resealed(good, bytes(changed)))
        try:
            checkpoint.load(path)
        except (CheckpointError, CorruptCheckpoint):
            refused += 1
    assert refused > 200


def resealed(good: bytes, text: bytes) -> bytes:
    """The file with another header of the same length and checksums that fit it."""
    from crc32c import crc32c

    table = np.frombuffer(good[-12:], np.uint32).copy()
    table[1] = crc32c(good[:8] + text)
    table[2] = crc32c(table[:2].tobytes())
    return good[:8] + text + good[8 + len(text) : -12] + table.tobytes()


def test_the_golden_file_of_version_1_loads_for_ever():
    """Written by the first version: half of a product of integers; the other half is run here."""
    found = checkpoint.load(GOLDEN)
    assert (found.status > 0).any()
    assert (found.status == 0).any()
    run = checkpoint.resume(GOLDEN)
    run.wait()
    a, b = run.arguments["a"], run.arguments["b"]
    np.testing.assert_array_equal(run.arguments["c"], a @ b)
