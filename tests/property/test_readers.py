"""Files that somebody damaged or wrote with intent are refused; nothing on disk is evaluated."""

import ast
import json
import os
from pathlib import Path

import numpy as np
import pytest
from reader_fuzz import Reader, attack

import hetir
import hetir.lang as hl
from hetir import runtime
from hetir.checkpoint import StopAt, load
from hetir.checkpoint import file as checkpoint_file
from hetir.compiler import lower, prepare, record
from hetir.diagnostics import HetirError
from hetir.frontend import parse_signature
from hetir.ir import binary, text
from hetir.ir.core import Module
from hetir.runtime.cache import Cache

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "unit" / "files" / "v1.hetck"
COUNT = int(os.environ.get("HETIR_MUTATED", "1500"))


@pytest.fixture(scope="module")
def modules():
    sources = [
        "f32, f32[:], f32[:]",
        "i64[:, ::1], f16[:]",
    ]

    @hetir.kernel
    def one(a, x, y):
        i = hl.global_id(0)
        for k in range(4):
            if x[i] > a:
                y[i] += x[i + k]

    @hetir.kernel(debug=True)
    def two(x, y):
        part = hl.shared((64,), hl.i64)
        part[hl.local_id(0)] = x[0, hl.global_id(0)]
        hl.barrier()
        hl.print("{} {}", part[0], y[0])

    return [
        prepare(record(kernel, parse_signature(signature)).module)
        for kernel, signature in zip((one, two), sources, strict=True)
    ]


def reader_of_ir(modules, tmp_path):
    files = tuple(binary.encode(Module(functions=(), kernels=(kernel,))) for kernel in modules)
    return Reader(binary.decode, (HetirError,), files)


def reader_of_text(modules, tmp_path):
    files = tuple(text.print_kernel(kernel).encode() for kernel in modules)
    return Reader(lambda data: hetir.parse(data.decode(errors="replace")), (HetirError,), files)


def reader_of_artifacts(modules, tmp_path):
    files = tuple(runtime.encode(lower(kernel, "cpu", (8, 1, 1))) for kernel in modules)
    return Reader(runtime.decode, (ValueError,), files)


def reader_of_cache_entries(modules, tmp_path):
    store = Cache(tmp_path / "cache")
    whole = b"code" * 300
    assert store.store("key", whole)
    (entry,) = store.entries()

    def read(data):
        entry.path.write_bytes(data)
        found = store.load("key")
        assert found in (None, whole)
        if found is None:
            raise ValueError("refused")

    return Reader(read, (ValueError,), (entry.path.read_bytes(),))


@hetir.kernel
def counted(x: hl.Array[hl.i32, 1]):
    hl.barrier()
    x[hl.global_id(0)] += 1


def reader_of_checkpoints(modules, tmp_path):
    path, small = tmp_path / "job.hetck", tmp_path / "small.hetck"
    stop = StopAt(safe_points=1, path=small)
    x = np.zeros(4, np.int32)
    counted.launch((x,), grid=2, workgroup=2, device="emulator", checkpoint=stop).wait()

    def read(data):
        path.write_bytes(data)
        load(path)

    def repair(data):
        """The same tensors under metadata that were changed, with checksums that are right."""
        contents = checkpoint_file.read(GOLDEN if len(data) > 5000 else small)
        meta = changed_text(dict(contents.meta), data)
        with path.open("wb") as out:
            checkpoint_file.write(out, meta, contents.tensors)
        return path.read_bytes()

    files = (GOLDEN.read_bytes(), *[small.read_bytes()] * 4)  # the first takes five times as long
    return Reader(read, (HetirError,), files, repair)


def changed_text(meta, data):
    """One number or text somewhere in the metadata, replaced by what the data say."""
    places = []

    def visit(value):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in pairs:
            if isinstance(item, dict | list):
                visit(item)
            else:
                places.append((value, key))

    made = json.loads(json.dumps(meta))
    visit(made)
    seed = int.from_bytes(data[-8:], "little")
    holder, key = places[seed % len(places)]
    holder[key] = (-1, 1 << 62, "", None, [], {}, 1.5, "f32", True, 7)[seed // 997 % 10]
    return made


READERS = {
    "hetIR": reader_of_ir,
    "hetIR text": reader_of_text,
    "artifacts": reader_of_artifacts,
    "cache entries": reader_of_cache_entries,
    "checkpoints": reader_of_checkpoints,
}


SLOW = {"hetIR text": 3, "checkpoints": 4}  # these read more for each file


@pytest.mark.parametrize("name", READERS)
def test_mutated_files_are_refused_or_read(modules, tmp_path, name):
    count = COUNT // SLOW.get(name, 1)
    found = attack(READERS[name](modules, tmp_path), count)
    assert found["refused"] > count // 10


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_million_mutated_files(modules, tmp_path, name):
    attack(READERS[name](modules, tmp_path), 1_000_000, seed=1)


# what reads Python: annotations of the kernel's own source, and our own generated text
EVALUATES = {"frontend/parameters.py", "testing/plain_language.py", "testing/plain_run.py"}
BANNED = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}


def test_nothing_on_disk_is_unpickled_or_evaluated():
    for path in sorted((ROOT / "hetir").rglob("*.py")):
        name = path.relative_to(ROOT / "hetir").as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                modules = [getattr(node, "module", "") or "", *(a.name for a in node.names)]
                assert not BANNED & {m.split(".")[0] for m in modules}, f"{name}:{node.lineno}"
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called in ("eval", "exec"):
                    assert name in EVALUATES, f"{name}:{node.lineno}"
                if called.endswith("np.load"):
                    given = {k.arg: ast.unparse(k.value) for k in node.keywords}
                    assert given.get("allow_pickle") == "False", f"{name}:{node.lineno}"
