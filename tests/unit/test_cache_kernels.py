"""Kernels and the cache: what is in the key, what a second process compiles, and once for all."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import hetir
from hetir import compiler, runtime
from hetir.backends import host, ptx
from hetir.frontend import parse_signature
from hetir.runtime.cache import Cache

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, sys
import numpy as np
import hetir, hetir.lang as hl

SCALE = 2.0

@hetir.func
def scaled(x):
    return x * SCALE

@hetir.kernel
def grow(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    if i < x.shape[0]:
        y[i] = scaled(x[i])

if __name__ == "__main__":
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    grow[2, 32](x, y)
    assert (y == 2 * x).all()
    c = hetir.runtime.cache().counters
    print(json.dumps({"made": c.made, "hits": c.hits, "llvm": "llvmlite" in sys.modules}))
"""


def child(path, **environment):
    done = subprocess.run(
        [sys.executable, str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_second_process_compiles_nothing_even_where_nothing_can_be_written(tmp_path):
    program, folder = tmp_path / "program.py", tmp_path / "cache"
    program.write_text(PROGRAM)
    cold = child(program, HETIR_CACHE_DIR=str(folder))
    assert cold == {"made": 1, "hits": 0, "llvm": True}
    assert folder.stat().st_mode & 0o777 == 0o700
    for file in folder.iterdir():
        file.chmod(0o400)
    folder.chmod(0o500)
    assert child(program, HETIR_CACHE_DIR=str(folder)) == {"made": 0, "hits": 1, "llvm": False}


def kernel_of(tmp_path, text):
    """The hetIR of `grow` in a module of this text."""
    names = {"__name__": f"module{time.monotonic_ns()}"}
    path = tmp_path / f"{names['__name__']}.py"
    path.write_text(text)
    exec(compile(text, str(path), "exec"), names)
    return names["grow"]


def key_of(grow, signature="f32[:], f32[:]", target="cpu", workgroup=(32, 1, 1)):
    kernel = compiler.prepare(compiler.record(grow, parse_signature(signature)).module)
    family = target.partition(":")[0]
    return compiler.cache_key(kernel, compiler._DESCRIBED[family].fingerprint(target), workgroup)


PLAIN = PROGRAM.replace(": hl.Array[hl.f32, 1]", "")
OTHER_TEXT = {
    "a constant": ("SCALE = 2.0", "SCALE = 3.0"),
    "a helper": ("return x * SCALE", "return x * SCALE + 1.0"),
    "the body": ("i = hl.global_id(0)", "i = hl.global_id(0) + 1"),
    "subgroups": ("@hetir.kernel", "@hetir.kernel(subgroup_size=16)"),
    "the mathematics": ("@hetir.kernel", '@hetir.kernel(math="native")'),
    "debug": ("@hetir.kernel", "@hetir.kernel(debug=True)"),
    "the memory model": ("@hetir.kernel", '@hetir.kernel(memory_model="sc")'),
    "fences": ("@hetir.kernel", '@hetir.kernel(fences="checked")'),
    "cooperation": ("@hetir.kernel", "@hetir.kernel(cooperative=True)"),
}
SAME_TEXT = {
    "comments": ("    i = hl", "    # the item's place\n    i = hl"),
    "the type of a constant that is converted": ("SCALE = 2.0", "SCALE = 2"),
    "lines": ("SCALE = 2.0", "\n\n\nSCALE = 2.0"),
    "names of variables": ("scaled(x[i])", "scaled(x[i])  # y"),
    "another module constant": ("SCALE = 2.0", "SCALE = 2.0\nUNUSED = 9"),
    "the usual launch": ("@hetir.kernel", "@hetir.kernel(grid=1, workgroup=64)"),
}


def changed(change):
    old, new = change
    assert old in PLAIN
    return PLAIN.replace(old, new)


@pytest.mark.parametrize("name", OTHER_TEXT)
def test_everything_that_shapes_the_code_is_in_the_key(tmp_path, name):
    plain = key_of(kernel_of(tmp_path, PLAIN))
    assert key_of(kernel_of(tmp_path, changed(OTHER_TEXT[name]))) != plain


@pytest.mark.parametrize("name", SAME_TEXT)
def test_what_does_not_shape_the_code_is_not(tmp_path, name):
    plain = key_of(kernel_of(tmp_path, PLAIN))
    assert key_of(kernel_of(tmp_path, changed(SAME_TEXT[name]))) == plain


def test_types_targets_and_sizes_are_in_the_key(tmp_path):
    grow = kernel_of(tmp_path, PLAIN)
    keys = [
        key_of(grow),
        key_of(grow, "f64[:], f64[:]"),
        key_of(grow, "f32[::1], f32[:]"),
        key_of(grow, "f32[:], f32[::1]"),
        key_of(grow, workgroup=None),
        key_of(grow, workgroup=(64, 1, 1)),
        key_of(grow, workgroup=(1, 32, 1)),
        *(key_of(grow, target=t) for t in ("cpu:x86-64", "cpu:haswell")),
        *(key_of(grow, target=t) for t in ("ptx:sm_75", "ptx:sm_90", "ptx:sm_90a")),
        *(key_of(grow, target=t) for t in ("spirv:opencl", "spirv:vulkan")),
    ]
    assert len(set(keys)) == len(keys)


VERSIONS = {
    "hetir's code": (compiler, "CODE_VERSION", "cpu"),
    "the CPU backend": (host, "VERSION", "cpu"),
    "the PTX backend": (ptx, "VERSION", "ptx:sm_90"),
}


@pytest.mark.parametrize("name", VERSIONS)
def test_versions_are_in_the_key(tmp_path, monkeypatch, name):
    module, variable, target = VERSIONS[name]
    grow = kernel_of(tmp_path, PLAIN)
    plain = key_of(grow, target=target)
    monkeypatch.setattr(module, variable, "another version")
    host.fingerprint.cache_clear()
    assert key_of(grow, target=target) != plain
    monkeypatch.undo()
    host.fingerprint.cache_clear()
    assert key_of(grow, target=target) == plain


@pytest.mark.parametrize(
    ("target", "module", "name", "value"),
    [
        ("cpu", host, "_wheel", lambda _: "0.0"),
        ("cpu", host, "_host_cpu", lambda: "another processor"),
        ("ptx:sm_90", ptx, "identity", lambda: "another assembler"),
        ("ptx:sm_90", ptx.metadata, "version", lambda _: "0.0"),
    ],
)
def test_tools_and_processors_are_in_the_key(tmp_path, monkeypatch, target, module, name, value):
    grow = kernel_of(tmp_path, PLAIN)
    plain = key_of(grow, target=target)
    monkeypatch.setattr(module, name, value)
    host.fingerprint.cache_clear()
    assert key_of(grow, target=target) != plain
    monkeypatch.undo()
    host.fingerprint.cache_clear()


CONSTANTS = ("1", "True", "1.0", "0.0", "-0.0", "0", "False", 'float("nan")', 'float("inf")')


def test_constants_that_are_equal_or_hash_alike_are_kept_apart(tmp_path):
    keys = {}
    for text in CONSTANTS:
        source = PLAIN.replace("SCALE = 2.0", f"SCALE = {text}").replace("x * SCALE", "SCALE")
        keys[key_of(kernel_of(tmp_path, source))] = text
        y = np.full(1, 7, np.float32)
        kernel_of(tmp_path, source)[1, 1](np.ones(1, np.float32), y)
        assert y.tobytes() == np.float32(eval(text)).tobytes(), text
    # stored in an f32 array, 1, True and 1.0 are one value, as are 0, False and 0.0
    assert len(keys) == 5


KILLED = """
import os, signal, sys
from pathlib import Path
from hetir.runtime.cache import Cache

class Half:
    def __init__(self, file):
        self.file = file
    def __enter__(self):
        return self
    def __exit__(self, *_):
        pass
    def write(self, data):
        self.file.write(data[: len(data) // 2])
        self.file.flush()
        os.kill(os.getpid(), signal.SIGKILL)

real = Path.open
def opened(self, mode="r", *rest, **more):
    file = real(self, mode, *rest, **more)
    return Half(file) if self.suffix == ".part" else file

Path.open = opened
Cache(Path(sys.argv[1])).make("key", lambda: b"code" * 1000)
"""


def test_a_process_killed_in_the_middle_of_a_write_leaves_no_entry(tmp_path):
    folder = tmp_path / "cache"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, folder],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == -9
    (part,) = folder.glob("*.part")
    assert 1000 < part.stat().st_size < 4000
    cache = Cache(folder)
    assert cache.load("key") is None
    begun = time.monotonic()
    assert cache.make("key", lambda: b"whole") == b"whole"
    assert time.monotonic() - begun < 10
    assert Cache(folder).load("key") == b"whole"
    os.utime(part, (0, 0))
    cache.prune()
    assert not part.exists()


@pytest.fixture
def small_disk(tmp_path):
    where = tmp_path / "disk"
    where.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "tmpfs", where],
        check=False,
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip("no right to mount a small disk")
    yield where
    subprocess.run(["umount", where], check=True)


def test_a_full_disk_costs_speed_and_nothing_else(small_disk):
    cache = Cache(small_disk / "cache")
    assert cache.make("small", lambda: b"1" * 100) == b"1" * 100
    assert cache.make("large", lambda: b"2" * 100_000) == b"2" * 100_000
    assert cache.counters.failures >= 1
    assert [entry.key for entry in cache.entries()] == ["small"]
    assert list(cache.folder.glob("*.part")) == []


def test_sixteen_threads_compile_a_key_once(tmp_path, monkeypatch):
    cache = Cache(tmp_path / "cache")
    monkeypatch.setattr(runtime, "cache", lambda: cache)
    grow = kernel_of(tmp_path, PLAIN)
    start, wrong = threading.Barrier(16), []

    def launch(number):
        x, y = np.full(64, number, np.float32), np.zeros(64, np.float32)
        start.wait()
        for _ in range(20):
            grow[2, 32](x, y)
            grow.launch((x, y), grid=2, workgroup=32).wait()
        if not (y == 2 * number).all():
            wrong.append(number)

    threads = [threading.Thread(target=launch, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a deadlock"
    assert wrong == []
    (only,) = grow.specialisations
    assert len(only.compiled) == cache.counters.made
    assert hetir.device("cpu").name == only.compiled[0].device
