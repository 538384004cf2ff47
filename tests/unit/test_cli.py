"""The command line: what it prints, what it writes, and its exit status."""

import json
import sys

import numpy as np
import pytest

from hetir.cli import main as cli

KERNELS = """
import hetir, hetir.lang as hl

@hetir.kernel
def scale(x: hl.Array[hl.f32, 1], factor: hl.f32, y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i] * factor

@hetir.kernel(grid=lambda x, y: hetir.cdiv(x.shape[0], 64), workgroup=64)
def twice(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i] + x[i]

@hetir.kernel
def past_the_end(y: hl.Array[hl.f32, 1]):
    y[hl.global_id(0)] = 1

@hetir.kernel
def ill_typed(x: hl.Array[hl.i64, 1], y: hl.Array[hl.u64, 1]):
    y[0] = x[0] + y[0]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(KERNELS)
    (tmp_path / "notes.txt").write_text("no kernels")
    (tmp_path / "broken.py").write_text("if True:\n    1 / 0\n")
    (tmp_path / "syntax.py").write_text("def (")
    (tmp_path / "empty.py").write_text("")
    np.save(tmp_path / "x.npy", np.arange(100, dtype=np.float32))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def hetir_command(capsys, monkeypatch):
    """Runs a command; gives exit status, output and errors."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["hetir", *words])
        status = 0
        try:
            cli.main()
        except SystemExit as end:
            status = end.code or 0
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def test_run_writes_the_result(hetir_command, folder):
    words = ("x=x.npy", "factor=3", "--grid", "2", "--workgroup", "64", "--out", "y=y.npy")
    status, out, _ = hetir_command("run", "mine.py:scale", *words)
    assert status == 0
    assert "scale on cpu" in out
    assert (np.load("y.npy") == 3 * np.arange(100, dtype=np.float32)).all()


@pytest.mark.parametrize("device", ["cpu", "emulator"])
def test_run_takes_the_usual_launch_of_the_kernel(hetir_command, folder, device):
    words = ("x=x.npy", "--out", "y=y.npy", "--device", device)
    assert hetir_command("run", "mine.py:twice", *words)[0] == 0
    assert (np.load("y.npy") == 2 * np.arange(100, dtype=np.float32)).all()


def test_run_takes_the_librarys_kernels_from_any_folder(hetir_command, folder):
    x = np.random.default_rng(0).random((5, 33), np.float32)
    np.save("m.npy", x)
    status, _, err = hetir_command(
        "run", "kernels/softmax.py:softmax", "x=m.npy", "--out", "y=s.npy"
    )
    assert (status, err) == (0, "")
    e = np.exp(x.astype(np.float64))
    assert np.allclose(np.load("s.npy"), e / e.sum(1, keepdims=True), atol=1e-6)


MISTAKES = {
    "no file": (("run", "absent.py:k"), 1, "there is no file absent.py"),
    "no kernel": (("run", "mine.py:k"), 1, "has no kernel `k`"),
    "several": (("run", "mine.py"), 1, "name one: mine.py:scale"),
    "missing": (
        ("run", "mine.py:scale", "x=x.npy", "--grid", "1"),
        1,
        "needs a value for `factor`, `y`",
    ),
    "unknown": (("run", "mine.py:scale", "z=3"), 1, "has no parameter `z`"),
    "not a pair": (("run", "mine.py:scale", "x.npy"), 1, "is not NAME=VALUE"),
    "bad value": (("run", "mine.py:scale", "factor=three"), 1, "`three` is not a value"),
    "bad type": (("run", "mine.py:scale", "y=f99[3]"), 1, "there is no type `f99`"),
    "no npy": (("run", "mine.py:scale", "x=none.npy"), 1, "cannot read none.npy"),
    "no grid": (
        ("run", "mine.py:scale", "x=x.npy", "factor=1", "y=f32[100]"),
        1,
        "the launch of `scale` has no grid",
    ),
    "bad grid": (
        ("run", "mine.py:twice", "x=x.npy", "y=f32[100]", "--grid", "many"),
        1,
        "--grid `many` is not one to three sizes",
    ),
    "no device": (
        ("run", "mine.py:twice", "x=x.npy", "y=f32[100]", "--device", "tpu"),
        1,
        "there is no device `tpu`",
    ),
    "absent device": (
        ("run", "mine.py:twice", "x=x.npy", "y=f32[100]", "--device", "cuda:0"),
        1,
        "there is no device `cuda:0`",
    ),
    "compile error": (("inspect", "mine.py:ill_typed"), 1, "y[0] = x[0] + y[0]"),
    "no stage": (("inspect", "mine.py:scale", "--stage", "wasm"), 1, "there is no stage `wasm`"),
    "no target": (("build", "mine.py:scale", "--target", "ptx:sm_1", "-o", "o"), 1, "ptx:sm_1"),
    "no demo": (("demo", "fft99"), 1, "the library has no kernel `fft99`"),
    "no python": (("run", "notes.txt"), 1, "notes.txt is no Python file"),
    "raises": (("run", "broken.py"), 1, "2 |     1 / 0"),
    "no syntax": (("run", "syntax.py"), 1, "syntax.py does not load: SyntaxError"),
    "empty": (("run", "empty.py"), 1, "put `@hetir.kernel` above a function"),
    "twice": (("run", "mine.py:scale", "x=x.npy", "x=x.npy"), 1, "`x` is given twice"),
    "no memory": (("run", "mine.py:scale", "x=f32[1000000000000000]"), 1, "no memory for `f32["),
    "no folder": (("run", "mine.py:twice", "x=x.npy", "--out", "y=no/y.npy"), 1, "mkdir -p no"),
    "check without a number": (
        ("check", "mine.py:scale", "x=x.npy", "--grid", "1", "--workgroup", "1"),
        1,
        "needs a value for `factor`",
    ),
    "usage": (("run",), 2, "Missing argument"),
    "option": (("demo", "--fast"), 2, "No such option"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_name_the_fix(hetir_command, folder, name):
    words, status, text = MISTAKES[name]
    got, out, err = hetir_command(*words)
    assert got == status
    assert text in err.replace("\n", " ") or text in err
    assert "Traceback" not in out + err


def test_check_finds_the_line(hetir_command, folder):
    words = ("y=f32[5]", "--grid", "1", "--workgroup", "8")
    status, _, err = hetir_command("check", "mine.py:past_the_end", *words)
    assert status == 1
    assert "y[hl.global_id(0)] = 1" in err
    assert "past_the_end: 1 fault" in err
    status, out, _ = hetir_command("check", "mine.py:past_the_end", "y=f32[8]", *words[1:])
    assert status == 0
    assert "no faults" in out


@pytest.mark.parametrize(
    ("stage", "text"), [("hir", "kernel scale("), ("llvm", "define"), ("asm", "scale:")]
)
def test_inspect_prints_a_stage(hetir_command, folder, stage, text):
    status, out, _ = hetir_command("inspect", "mine.py:scale", "--stage", stage)
    assert status == 0
    assert text in out


def test_inspect_takes_a_signature(hetir_command, folder):
    words = ("--signature", "f32[::1], f32, f32[::1]")
    status, out, _ = hetir_command("inspect", "mine.py:scale", *words)
    assert status == 0
    assert "array<f32[?:1], global>" in out


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v3", "cpu:aarch64", "hetir"])
def test_build_writes_a_file(hetir_command, folder, target):
    status, out, _ = hetir_command("build", "mine.py:scale", "--target", target, "-o", "k.out")
    assert status == 0
    assert "scale for " in out
    assert "entry `" in out
    start = (folder / "k.out").read_bytes()[:4]
    assert start == (b"kern" if target == "hetir" else b"\x7fELF")


def test_build_writes_a_project_for_ascend(hetir_command, folder, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin")
    words = ("build", "mine.py:scale", "--target", "ascend:910b")
    status, out, _ = hetir_command(*words, "-o", "npu")
    assert status == 0
    assert "kernel.asc, start.asc, kernel.h, launcher.cpp, CMakeLists.txt" in out
    assert '#include "kernel_operator.h"' in (folder / "npu" / "kernel.asc").read_text()
    assert "\"factor\", 'f', 4, -1" in (folder / "npu" / "kernel.h").read_text()
    assert hetir_command(*words, "-o", "k.asc")[0] == 0
    assert (folder / "k.asc").read_bytes() == (folder / "npu" / "kernel.asc").read_bytes()
    status, _, err = hetir_command(*words, "-o", "k.o")
    assert status == 1
    assert "needs Huawei's compiler" in err


def test_devices_as_json(hetir_command):
    status, out, _ = hetir_command("devices", "--json")
    listed = json.loads(out)
    assert status == 0
    assert listed["devices"][0]["name"] == "cpu"
    assert {gap["driver"] for gap in listed["absent"]} >= {"cuda", "ascend"}
    assert all(gap["reason"] and gap["remedy"] for gap in listed["absent"])


def test_cache_lists_prunes_and_clears(hetir_command, folder, monkeypatch, tmp_path):
    assert hetir_command("run", "mine.py:twice", "x=x.npy", "--out", "y=y.npy")[0] == 0
    status, out, _ = hetir_command("cache", "list", "--json")
    assert status == 0
    assert json.loads(out)["entries"]
    assert hetir_command("cache", "prune", "--size", "1G")[1].startswith("removed 0")
    assert hetir_command("cache", "prune", "--size", "lots")[0] == 1
    assert hetir_command("cache", "clear")[0] == 0
    assert json.loads(hetir_command("cache", "list", "--json")[1])["entries"] == []


def test_demo_is_right(hetir_command):
    status, out, _ = hetir_command("demo", "--small", "--json")
    rows = json.loads(out)
    assert status == 0
    assert len(rows) >= 9
    assert all(row["right"] and row["error"] <= row["tolerance"] for row in rows)


def test_demo_takes_the_users_array(hetir_command, folder):
    status, out, _ = hetir_command("demo", "vector_add", "--data", "x.npy")
    assert status == 0
    assert "your 100" in out


def test_version(hetir_command):
    assert hetir_command("--version")[1].startswith("hetir 0.")


def test_run_takes_vectors(hetir_command, folder):
    (folder / "vectors.py").write_text(
        "import hetir, hetir.lang as hl\n\n@hetir.kernel(grid=1, workgroup=1)\n"
        "def double(v: hl.vector(hl.f32, 3), y: hl.Array[hl.f32, 1]):\n"
        "    hl.store_vector(y, 0, v * 2)\n"
    )
    words = ("v=1,2.5,-3", "y=f32[3]", "--out", "y=y.npy")
    assert hetir_command("run", "vectors.py:double", *words)[0] == 0
    assert np.load("y.npy").tolist() == [2, 5, -6]
    status, _, err = hetir_command("run", "vectors.py:double", "v=1,2", "y=f32[3]")
    assert status == 1
    assert "`v` is the vector `f32x3`, got 2 values" in err


def test_build_run_and_inspect_a_hetbin(hetir_command, folder):
    targets = ("--target", "cpu:x86-64", "--target", "spirv:opencl")
    words = ("build", "mine.py:scale", *targets, "--deps", "app.d")
    status, out, _ = hetir_command(*words, "-o", "app.hetbin")
    assert status == 0
    assert "2 specialisations of 1 kernels, 5 payloads for cpu:x86-64, spirv:opencl" in out
    rule = (folder / "app.d").read_text()
    assert rule.startswith(f"{folder / 'app.hetbin'}:")
    assert str(folder / "mine.py") in rule
    (folder / "mine.py").unlink()
    words = ("x=x.npy", "factor=3", "--grid", "2", "--workgroup", "64", "--out", "y=y.npy")
    assert hetir_command("run", "app.hetbin:scale", *words)[0] == 0
    assert (np.load("y.npy") == 3 * np.arange(100, dtype=np.float32)).all()
    status, out, _ = hetir_command("inspect", "app.hetbin")
    assert status == 0
    for part in ("scale(x: f32[::1], factor: f32, y: f32[::1])  mine.py:5:1",
                 "argument block 64 bytes", "24 factor: f32", "cpu:x86-64: entry",
                 "spirv:opencl: entry", "any workgroup", "shared memory 0 bytes"):  # fmt: skip
        assert part in out


HETBIN_MISTAKES = {
    "no kernel": (
        ("run", "app.hetbin:nope", "--grid", "1", "--workgroup", "1"),
        "has no kernel `nope`",
    ),
    "no grid": (("run", "app.hetbin", "x=x.npy", "--out", "y=y.npy", "factor=1"), "has no grid"),
    "no file": (("run", "absent.hetbin"), "absent.hetbin cannot be read"),
    "no hetbin": (
        ("inspect", "mine.hetbin"),
        "mine.hetbin is damaged at byte 0: this is no hetbin",
    ),
    "two targets": (
        ("build", "mine.py:scale", "--target", "cpu", "--target", "hetir", "-o", "o"),
        "--target is given 2 times",
    ),
    "this machine": (
        ("build", "mine.py:scale", "--target", "cpu", "-o", "o.hetbin"),
        "`cpu` is not portable",
    ),
    "whose signature": (
        ("build", "mine.py", "--signature", "f32", "-o", "o.hetbin"),
        "does not say which kernel it is for",
    ),
    "ill typed": (("build", "mine.py:ill_typed", "-o", "o.hetbin"), "mine.py:22"),
}


@pytest.mark.parametrize("name", HETBIN_MISTAKES)
def test_mistakes_with_hetbins(hetir_command, folder, name):
    words, message = HETBIN_MISTAKES[name]
    (folder / "mine.hetbin").write_text("not one")
    if "app.hetbin" in words[1]:
        assert hetir_command("build", "mine.py:scale", "-o", "app.hetbin")[0] == 0
    status, _, errors = hetir_command(*words)
    assert status == 1
    assert message in errors
