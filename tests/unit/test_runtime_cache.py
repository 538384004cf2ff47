"""The cache survives whatever happens to its folder, and compiles once for all who ask."""

import os
import random
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hetir.runtime.cache import Cache

CHILD = """
import sys, time
from pathlib import Path
from hetir.runtime.cache import Cache
folder, log, go = map(Path, sys.argv[1:])
while not go.exists():
    time.sleep(0.001)
def make():
    with log.open("a") as file:
        file.write("made\\n")
    time.sleep(0.05)
    return b"code" * 1000
assert Cache(folder).make("key", make) == b"code" * 1000
"""
KILLED = """
import sys, time
from pathlib import Path
from hetir.runtime.cache import Cache
def make():
    print("making", flush=True)
    time.sleep(60)
Cache(Path(sys.argv[1])).make("key", make)
"""


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


def entry_of(cache):
    (entry,) = cache.entries()
    return entry.path


def test_what_is_stored_is_loaded(cache):
    assert cache.load("a") is None
    assert cache.store("a", b"1")
    assert cache.store("b", b"")
    assert (cache.load("a"), cache.load("b"), cache.load("c")) == (b"1", b"", None)
    assert cache.make("a", lambda: b"other") == b"1"
    assert cache.counters.hits == 3
    assert cache.counters.made == 0
    assert sorted(e.key for e in cache.entries()) == ["a", "b"]


def test_nothing_is_written_before_something_is_stored(cache):
    cache.load("a")
    cache.entries()
    cache.prune()
    cache.clear()
    assert not cache.folder.exists()


def test_every_damage_is_found(cache):
    data = bytes(range(200))
    cache.store("key", data)
    path = entry_of(cache)
    good = path.read_bytes()
    cases = [good[:n] for n in range(0, len(good), 7)] + [good + b"x", b""]
    rng = random.Random(1)
    for bit in rng.sample(range(8 * len(good)), 300):
        flipped = bytearray(good)
        flipped[bit // 8] ^= 1 << bit % 8
        cases.append(bytes(flipped))
    for count, case in enumerate(cases, 1):
        path.write_bytes(case)
        assert cache.load("key") is None, case
        assert cache.counters.damaged == count
        assert not path.exists()
    assert cache.make("key", lambda: data) == data
    assert path.read_bytes() == good


def test_an_entry_under_anothers_name_is_not_taken(cache):
    cache.store("a", b"1")
    path = entry_of(cache)
    cache.store("b", b"2")
    other = next(e.path for e in cache.entries() if e.key == "b")
    other.write_bytes(path.read_bytes())
    assert cache.load("b") is None


def test_the_least_recently_used_go_first(cache):
    for number in range(10):
        cache.store(str(number), bytes(1000))
        os.utime(cache._path(str(number)), (number, number))
    assert cache.load("0") is not None
    size = cache.entries()[0].size
    assert cache.prune(3 * size) == 7
    assert sorted(e.key for e in cache.entries()) == ["0", "8", "9"]
    assert cache.clear() == 3
    assert cache.entries() == []


def test_leftovers_of_killed_writers_are_removed_when_old(cache):
    cache.store("a", b"1")
    old, new = cache.folder / "old.part", cache.folder / "new.part"
    old.touch()
    new.touch()
    os.utime(old, (time.time() - 10_000,) * 2)
    cache.prune()
    assert not old.exists()
    assert new.exists()


@pytest.mark.parametrize("where", ["/proc/hetir-cache", "/dev/null/cache"])
def test_a_folder_that_cannot_be_made_costs_nothing_but_speed(where):
    cache = Cache(Path(where))
    assert cache.make("key", lambda: b"1") == b"1"
    assert cache.make("key", lambda: b"2") == b"2"
    assert not cache.store("key", b"1")
    assert cache.refusal
    assert cache.entries() == []


def test_a_disk_that_is_full_costs_nothing_but_speed(tmp_path):
    """A limit on the size of files stands for the disk: the write fails in the middle."""
    cache = Cache(tmp_path / "cache")
    cache.store("small", b"1")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    try:
        assert cache.make("key", lambda: bytes(1 << 20)) == bytes(1 << 20)
        assert not cache.store("key", bytes(1 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert cache.counters.failures == 2
    assert [e.key for e in cache.entries()] == ["small"]
    assert list(cache.folder.glob("*.part")) == []


def test_folders_of_others_are_refused(tmp_path):
    writable = tmp_path / "writable"
    writable.mkdir()
    Cache(writable).store("key", b"evil")
    writable.chmod(0o770)
    cache = Cache(writable)
    assert cache.load("key") is None
    assert cache.make("key", lambda: b"good") == b"good"
    assert "others may write" in cache.refusal
    if os.geteuid() == 0:
        foreign = tmp_path / "foreign"
        foreign.mkdir(mode=0o700)
        os.chown(foreign, 12345, 12345)
        cache = Cache(foreign)
        assert not cache.store("key", b"1")
        assert "belongs to another user (number 12345)" in cache.refusal


def test_the_folder_is_ours_alone(cache):
    cache.store("key", b"1")
    assert cache.folder.stat().st_mode & 0o777 == 0o700


def test_threads_make_an_entry_once(cache):
    made, start = [], threading.Barrier(8)

    def ask():
        start.wait()
        cache.make("key", lambda: (time.sleep(0.05), made.append(1), b"1")[2])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]


def test_an_error_while_making_reaches_all_and_blocks_none(cache):
    def broken():
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            cache.make("key", broken)
    assert cache.make("key", lambda: b"1") == b"1"


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_cold_processes_make_an_entry_once(tmp_path, rounds):
    for number in range(rounds):
        folder, log, go = (tmp_path / f"{name}{number}" for name in ("cache", "log", "go"))
        command = [sys.executable, "-c", CHILD, folder, log, go]
        children = [subprocess.Popen(command) for _ in range(8)]
        go.touch()
        assert [child.wait(60) for child in children] == [0] * 8
        assert log.read_text() == "made\n"
        assert Cache(folder).load("key") == b"code" * 1000


def test_a_process_killed_while_it_makes_blocks_nobody(tmp_path):
    folder = tmp_path / "cache"
    command = [sys.executable, "-c", KILLED, folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"making\n"
        child.kill()
    begun = time.monotonic()
    assert Cache(folder).make("key", lambda: b"1") == b"1"
    assert time.monotonic() - begun < 10
