"""The host side of Ascend C: the launcher's project, and the vendor's compiler where it is."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir import library
from hetir.backends.ascend import build

HERE = Path(__file__).parent / "ascend_host"
WARNINGS = ("-std=c++17", "-Wall", "-Wextra", "-Werror")
needs_gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")


@hetir.kernel
def combine(a, x, flag, count, y):
    i = hl.global_id(0)
    if i < x.shape[0] and flag:
        y[i, 1] = a * x[i] + hl.cast(count, hl.f32)


SIGNATURE = "f32, f32[:], bool, i16, f32[:, :]"


# what the launcher is to hand to the kernel above, as ARCHITECTURE.md's argument block has it
KERNEL = """
#include <cstdint>
#include <cstdio>
typedef uint8_t *GM_ADDR;
template <typename T> static T At(const uint8_t *launch, int offset) {
    return *reinterpret_cast<const T *>(launch + offset);
}
static void hetir_combine(GM_ADDR x, GM_ADDR y, GM_ADDR launch) {
    for (int i = 0; i < 6; ++i) std::printf("%ld ", At<int64_t>(launch, 8 * i));
    const uint8_t *block = launch + 48;
    std::printf("| %d %d %d | ", At<uint64_t>(block, 8) == reinterpret_cast<uint64_t>(x),
                At<uint64_t>(block, 40) == reinterpret_cast<uint64_t>(y), block[32]);
    std::printf("%d %ld | ", At<int16_t>(block, 34), At<int64_t>(block, BLOCK));
    const int64_t n = At<int64_t>(block, 16), step = At<int64_t>(block, 24);
    std::printf("%ld %ld | %ld %ld %ld %ld\\n", n, step, At<int64_t>(block, 48),
                At<int64_t>(block, 56), At<int64_t>(block, 64), At<int64_t>(block, 72));
    for (int64_t i = 0; i < n; ++i) {
        const float product = At<float>(block, 0) * *reinterpret_cast<float *>(x + i * step);
        uint8_t *at = y + i * At<int64_t>(block, 64) + At<int64_t>(block, 72);
        *reinterpret_cast<float *>(at) = product + static_cast<float>(At<int16_t>(block, 34));
    }
}
"""


def compiled(target, **options):
    return hetir.compile(combine, SIGNATURE, target=target, **options)


def run(words, **options):
    return subprocess.run(words, capture_output=True, text=True, check=False, **options)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The launcher with a kernel of ours, the launch syntax taken out, and a make-believe NPU."""
    folder = tmp_path_factory.mktemp("project")
    artifact = compiled("ascend:910b")
    build.write(artifact, folder, combine.parameters)
    start = (folder / "start.asc").read_text()
    assert "hetir_combine<<<blocks, nullptr, stream>>>(" in start
    plain = re.sub(r"<<<.*>>>", "", start).replace('#include "kernel.asc"', "")
    plain = plain.replace("    (void)workgroup;", '    std::printf("blocks %u ", blocks);')
    plain = plain.replace("hetir_combine(\n", "(void)workgroup, (void)stream, hetir_combine(\n")
    size = str(artifact.layout.size)
    (folder / "start.cpp").write_text(KERNEL.replace("BLOCK", size) + plain)
    command = ["g++", *WARNINGS, "-O0", f"-I{HERE}", "start.cpp", "launcher.cpp", HERE / "npu.cpp"]
    done = run([*command, "-o", "program"], cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "program"


@pytest.fixture
def files(tmp_path):
    x = np.linspace(-1, 1, 5, dtype=np.float32)
    x.tofile(tmp_path / "x.bin")
    np.zeros((5, 3), np.float32).tofile(tmp_path / "y.bin")
    return tmp_path, x


WORDS = ("2.5", "x.bin:5", "1", "-7", "y.bin:5,3")


@needs_gxx
def test_the_launcher_packs_the_block_and_writes_back_what_is_written(program, files):
    folder, x = files
    before = (folder / "x.bin").read_bytes()
    done = run([program, "3,2", "64", *WORDS], cwd=folder)
    assert done.returncode == 0, done.stderr
    # 6 groups on 4 cores; grid, workgroup; addresses and flag; count, records; shapes and strides
    assert done.stdout == "blocks 4 3 2 1 64 1 1 | 1 1 1 | -7 0 | 5 4 | 5 3 12 4\n"
    expected = np.zeros((5, 3), np.float32)
    expected[:, 1] = np.float32(2.5) * x - np.float32(7)
    assert (np.fromfile(folder / "y.bin", np.float32).reshape(5, 3) == expected).all()
    assert (folder / "x.bin").read_bytes() == before
    calls = done.stderr.split()
    assert calls[:3] == ["aclInit", "aclrtSetDevice", "aclrtCreateStream"]
    tail = ["aclrtSynchronizeStream", "aclrtFree", "aclrtFree", "copy-out", "aclrtFree"]
    assert calls[-8:-3] == tail
    assert calls[-3:] == ["aclrtDestroyStream", "aclrtResetDevice", "aclFinalize"]


@needs_gxx
def test_an_empty_grid_launches_nothing(program, files):
    folder, _ = files
    done = run([program, "0", "64", *WORDS], cwd=folder)
    assert (done.returncode, done.stdout) == (0, "")
    assert (np.fromfile(folder / "y.bin") == 0).all()


@needs_gxx
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("1",), "give GRID WORKGROUP a x flag count y"),
        (("1,1,1,1", "1", *WORDS), "`1,1,1,1` has more than three sizes"),
        (("x", "1", *WORDS), "`x` is no list of sizes"),
        (("1", "1", "two", *WORDS[1:]), "a is a number, not `two`"),
        (("1", "1", *WORDS[:3], "40000", WORDS[4]), "count does not hold `40000`"),
        (("1", "1", *WORDS[:2], "256", *WORDS[3:]), "flag does not hold `256`"),
        (("1", "1", *WORDS[:4], "y.bin:15"), "y has 2 extents, not `y.bin:15`"),
        (("1", "1", *WORDS[:4], "y.bin:5,2"), "y.bin does not hold 40 bytes for y"),
        (("1", "1", *WORDS[:4], "none.bin:5,3"), "none.bin does not hold 60 bytes for y"),
    ],
)
def test_the_launcher_refuses_what_is_wrong(program, files, words, said):
    done = run([program, *words], cwd=files[0])
    assert done.returncode == 1
    assert f"combine: {said}" in done.stderr


@needs_gxx
@pytest.mark.parametrize("call", ["aclInit", "aclrtMalloc", "aclrtSynchronizeStream"])
def test_a_failing_call_is_named_with_the_librarys_text(program, files, call):
    done = run([program, "1", "64", *WORDS], cwd=files[0], env={"FAIL": call})
    assert done.returncode == 1
    assert f"combine: {call} failed with 507000: EE9999: the fake says why" in done.stderr


@needs_gxx
@pytest.mark.parametrize(
    ("name", "target"),
    [("softmax", "910b"), ("softmax", "950"), ("saxpy", "310p"), ("histogram", "910c")],
)
def test_the_launcher_compiles_for_every_chip(tmp_path, name, target):
    case = library.case(name, size=library.SMALL[name])
    step = case.steps[0]
    artifact = hetir.compile(
        step.kernel, step.kernel.specialise(step.arguments), target=f"ascend:{target}"
    )
    build.write(artifact, tmp_path, step.kernel.parameters)
    assert (tmp_path / "kernel.asc").read_text() == artifact.text
    done = run(["g++", *WARNINGS, "-fsyntax-only", f"-I{HERE}", "launcher.cpp"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_launch_of_threads_names_their_types():
    made = build.sources(compiled("ascend:950"), combine.parameters)
    assert "hetir_combine<<<blocks, items, 0, stream>>>(" in made["start.asc"]
    assert "reinterpret_cast<float *>(arrays[1])" in made["start.asc"]
    assert "reinterpret_cast<__gm__ uint8_t *>(launch)" in made["start.asc"]
    assert "kMostBlocks = 65535" in made["kernel.h"]
    flags = "--npu-arch=${CMAKE_ASC_ARCHITECTURES};--enable-simt"
    assert flags in made["CMakeLists.txt"]
    assert '"dav-3510"' in made["CMakeLists.txt"]


# a CANN that is not there: the language ASC is C++ by a compiler that the test names
PACKAGE = {
    "ASCConfig.cmake": "list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})\n",
    "CMakeDetermineASCCompiler.cmake": "set(CMAKE_ASC_COMPILER ${FAKE})\n"
    "set(CMAKE_ASC_COMPILER_ENV_VAR ASC)\n"
    "configure_file(${CMAKE_CURRENT_LIST_DIR}/Compiler.in "
    "${CMAKE_PLATFORM_INFO_DIR}/CMakeASCCompiler.cmake @ONLY)\n",
    "Compiler.in": 'set(CMAKE_ASC_COMPILER "@CMAKE_ASC_COMPILER@")\n'
    "set(CMAKE_ASC_SOURCE_FILE_EXTENSIONS asc)\nset(CMAKE_ASC_OUTPUT_EXTENSION .o)\n"
    "set(CMAKE_ASC_COMPILER_ENV_VAR ASC)\n",
    "CMakeTestASCCompiler.cmake": "set(CMAKE_ASC_COMPILER_WORKS 1)\n",
    "CMakeASCInformation.cmake": "set(CMAKE_ASC_COMPILE_OBJECT "
    '"<CMAKE_ASC_COMPILER> <FLAGS> -c <SOURCE> -o <OBJECT>")\n'
    'set(CMAKE_ASC_LINK_EXECUTABLE "<CMAKE_ASC_COMPILER> <OBJECTS> -o <TARGET>")\n',
}
TOOL = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done
printf '\\177ELFmade' > "$out"
"""


@pytest.fixture
def bisheng(tmp_path, monkeypatch):
    """A compiler on PATH that notes how it is called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return put(folder / "bisheng", TOOL, monkeypatch)


def put(place, text, monkeypatch):
    place.write_text(text)
    place.chmod(0o755)
    monkeypatch.setenv("PATH", str(place.parent), prepend=":")
    return place


@needs_gxx
@pytest.mark.parametrize(("target", "more"), [("910b", ""), ("950", " --enable-simt")])
def test_cmake_builds_the_project_where_there_is_a_package(tmp_path, bisheng, target, more):
    build.write(compiled(f"ascend:{target}"), tmp_path / "project", combine.parameters)
    (tmp_path / "asc").mkdir()
    for name, text in PACKAGE.items():
        (tmp_path / "asc" / name).write_text(text)
    (bisheng.parent / "calls").unlink()
    package = (f"-DASC_DIR={tmp_path / 'asc'}", f"-DFAKE={bisheng}")
    command = ["cmake", "-S", "project", "-B", "build", "-G", "Unix Makefiles", *package]
    words = [*command, f"-DCMAKE_CXX_FLAGS=-I{HERE}"]
    done = run(words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = run(["cmake", "--build", "build"], cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    first, link = (bisheng.parent / "calls").read_text().splitlines()
    arch = {"910b": "dav-2201", "950": "dav-3510"}[target]
    assert f"--npu-arch={arch}{more}" in first
    assert "start.asc" in first
    assert "launcher.cpp" in link


@pytest.mark.parametrize(
    ("target", "given"),
    [
        ("910b", "--npu-arch=dav-2201"),
        ("310p", "--npu-arch=dav-2002"),
        ("950", "--npu-arch=dav-3510 --enable-simt"),
    ],
)
def test_bisheng_on_the_path_makes_the_object_of_the_artifact(bisheng, tmp_path, target, given):
    artifact = compiled(f"ascend:{target}", workgroup=(64, 2))
    words = (bisheng.parent / "calls").read_text().split()
    assert (words[0], words[2]) == ("-c", "-o")
    assert " ".join(words[4:]) == given
    assert artifact.binary == b"\x7fELFmade"
    build.write(artifact, tmp_path / "project", combine.parameters)
    assert (tmp_path / "project" / "kernel.o").read_bytes() == artifact.binary


def test_another_compiler_is_another_key_and_none_is_none(bisheng, monkeypatch):
    from hetir.backends import ascend

    with_one = ascend.fingerprint("ascend:910b")
    bisheng.write_text(TOOL + "# longer\n")
    assert ascend.fingerprint("ascend:910b") != with_one
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv(build.VARIABLE, raising=False)
    assert build.identity() == ""
    assert build.compiled("", "ascend:910b") is None


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ('echo "$2:3: error: no such thing" >&2; exit 1', "kernel.asc:3: error: no such thing"),
        ("exit 0", "it wrote no object"),
    ],
)
def test_what_bisheng_refuses_is_an_error_with_its_text(bisheng, script, said):
    bisheng.write_text(f"#!/bin/sh\n{script}\n")
    with pytest.raises(build.BishengError) as caught:
        build.compiled("source", "ascend:910b")
    assert caught.value.code == "HET391"
    assert said in str(caught.value)
    assert "for `ascend:910b`" in str(caught.value)


def test_a_named_compiler_that_is_not_there_is_an_error(monkeypatch):
    monkeypatch.setenv(build.VARIABLE, "/there/is/no/bisheng")
    with pytest.raises(build.BishengError, match="does not run"):
        build.compiled("source", "ascend:910b")
