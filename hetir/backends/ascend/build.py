"""The host side of a kernel in Ascend C: what builds and launches it on a machine with CANN."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hetir.artifact import Artifact, Slot
from hetir.backends.ascend import simt
from hetir.diagnostics import CompileError

VARIABLE = "HETIR_BISHENG"
"""The environment variable that names Huawei's compiler where it is not on PATH."""

_ARCHITECTURES = {
    "ascend:910b": "dav-2201",
    "ascend:910c": "dav-2201",
    "ascend:310p": "dav-2002",
    "ascend:950": "dav-3510",
}
_LAUNCHER = Path(__file__).with_name("launcher.cpp")
_MOST_BLOCKS = 65535  # of SIMT code in one launch
_TIMEOUT_SECONDS = 600.0
_KINDS = {"f32": "f", "f64": "f", "i8": "i", "i16": "i", "i32": "i", "i64": "i"}


class BishengError(CompileError):
    """Huawei's compiler refuses the source that hetir wrote, or does not run.

    Cause: a version of CANN that differs from the documents, or an installation that is broken.
    Fix: report the message; take `bisheng` off PATH (or unset HETIR_BISHENG) to go on without it.
    """

    code = "HET391"


# ---- the compiler


def architecture(target: str) -> str:
    """What `--npu-arch` is for a target."""
    return _ARCHITECTURES[target]


def options(target: str) -> list[str]:
    """The options of bisheng for a target."""
    return [f"--npu-arch={architecture(target)}", *(["--enable-simt"] * (target == simt.NAME))]


def find() -> Path | None:
    """Huawei's compiler: the one that HETIR_BISHENG names, or `bisheng` on PATH."""
    named = os.environ.get(VARIABLE)
    found = named or shutil.which("bisheng")
    return Path(found) if found else None


def identity() -> str:
    """What tells one compiler from another, without starting it; empty where there is none."""
    place = find()
    if place is None:
        return ""
    try:
        state = place.resolve().stat()
    except OSError:
        return str(place)
    return f"{place.resolve()}:{state.st_size}:{state.st_mtime_ns}"


def compiled(text: str, target: str) -> bytes | None:
    """The object that bisheng makes of a source, None where it is not here. Raises BishengError."""
    place = find()
    if place is None:
        return None
    with tempfile.TemporaryDirectory(prefix="hetir-") as folder:
        source, out = Path(folder) / "kernel.asc", Path(folder) / "kernel.o"
        source.write_text(text, encoding="utf-8")
        command = [str(place), "-c", str(source), "-o", str(out), *options(target)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BishengError(
                f"`{place}` does not run: {error}", hint=f"repair CANN, or correct {VARIABLE}"
            ) from None
        if done.returncode or not out.exists():
            said = (done.stderr or done.stdout).replace(str(source), "kernel.asc").strip()
            raise BishengError(
                f"`{place}` refuses the source for `{target}`: {said or 'it wrote no object'}",
                hint="report it, and compile without bisheng on PATH meanwhile",
            )
        return out.read_bytes()


# ---- what a project needs


def sources(artifact: Artifact, parameters: Sequence[str]) -> dict[str, str]:
    """The files of a project by name: the kernel, its start, a launcher and a CMakeLists.txt."""
    return {
        "kernel.asc": artifact.text,
        "start.asc": _start(artifact),
        "kernel.h": _header(artifact, parameters),
        "launcher.cpp": _LAUNCHER.read_text(encoding="utf-8"),
        "CMakeLists.txt": _cmake(artifact),
    }


def write(artifact: Artifact, folder: Path, parameters: Sequence[str]) -> list[Path]:
    """Write the project into a folder, with the compiler's object where there is one."""
    folder.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    for name, text in sources(artifact, parameters).items():
        made.append(folder / name)
        made[-1].write_text(text, encoding="utf-8")
    if artifact.binary is not None:
        made.append(folder / "kernel.o")
        made[-1].write_bytes(artifact.binary)
    return made


def _start(artifact: Artifact) -> str:
    """The launch in the compiler's own syntax, in one translation unit with the kernel."""
    match = re.search(rf"void\s+{artifact.entry}\(([^)]*)\)", artifact.text)
    assert match is not None, "the source has the entry that the artifact names"
    types = [re.sub(r"\w+$", "", word.strip()).strip() for word in match[1].split(",")]
    given = [
        f"reinterpret_cast<{kind}>({f'arrays[{i}]' if i < len(types) - 1 else 'launch'})"
        for i, kind in enumerate(types)
    ]
    is_simt = artifact.target == simt.NAME
    sizes = (",\n" + " " * 21).join(f"static_cast<uint32_t>(workgroup[{i}])" for i in range(3))
    body = f"    const dim3 items({sizes});\n" if is_simt else "    (void)workgroup;\n"
    body += "" if len(types) > 1 else "    (void)arrays;\n"
    shape = "blocks, items, 0, stream" if is_simt else "blocks, nullptr, stream"
    call = f"    {artifact.entry}<<<{shape}>>>(\n        "
    return (
        f"// Starts {artifact.entry} on a stream.\n"
        '#include "kernel.asc"\n\n'
        "// `arrays` and `launch` are addresses in the NPU's memory.\n"
        'extern "C" void hetir_start(uint32_t blocks, const int64_t *workgroup, void *stream,\n'
        "                            uint8_t *const *arrays, uint8_t *launch) {\n"
        f"{body}{call}{(',' + chr(10) + '        ').join(given)});\n}}\n"
    )


def _header(artifact: Artifact, parameters: Sequence[str]) -> str:
    size = artifact.workgroup or (0, 0, 0)
    is_simt = artifact.target == simt.NAME
    # the chip of arch 2002 counts whole cores, the others their vector cores
    whole = architecture(artifact.target) == "dav-2002"
    cores = "ACL_DEV_ATTR_AICORE_CORE_NUM" if whole else "ACL_DEV_ATTR_VECTOR_CORE_NUM"
    rows = [f"    {_row(slot, parameters)},\n" for slot in artifact.layout.slots]
    return (
        f"// How {artifact.kernel} is launched on {artifact.target}.\n"
        "#pragma once\n\n#include <acl/acl.h>\n\n#include <cstddef>\n#include <cstdint>\n\n"
        'extern "C" void hetir_start(uint32_t blocks, const int64_t *workgroup, void *stream,\n'
        "                            uint8_t *const *arrays, uint8_t *launch);\n\n"
        "namespace kernel {\n\n"
        "// An argument: `kind` is f (f32, f64), i (signed) or u (the others, by their bits),\n"
        "// `item` the bytes of an element, `axes` those of an array or -1 for a scalar, `offset`\n"
        "// its place in the argument block.\n"
        "struct Slot {\n    const char *name;\n    char kind;\n    size_t item;\n    int axes;\n"
        "    size_t offset;\n    bool writes;\n};\n\n"
        f'constexpr const char *kName = "{artifact.kernel}";\n'
        f"constexpr int64_t kWorkgroup[3] = {{{size[0]}, {size[1]}, {size[2]}}};"
        f"{'  // any' * (artifact.workgroup is None)}\n"
        f"constexpr size_t kBlockBytes = {artifact.layout.size};\n"
        f"constexpr int64_t kMostBlocks = {_MOST_BLOCKS if is_simt else 0};"
        f"{'' if is_simt else '  // as many as cores'}\n"
        f"constexpr aclrtDevAttr kCores = {cores};\n"
        f"constexpr Slot kSlots[] = {{\n{''.join(rows)}"
        '    {"", 0, 0, 0, 0, false},  // the end\n};\n\n'
        "}  // namespace kernel\n"
    )


def _row(slot: Slot, parameters: Sequence[str]) -> str:
    first, *fields = slot.source
    name = ".".join([parameters[int(first)], *map(str, fields)])
    axes = -1 if slot.ndim is None else slot.ndim
    item = 1 if slot.dtype == "bool" else int(re.sub(r"\D", "", slot.dtype)) // 8
    kind = _KINDS.get(slot.dtype, "u")
    writes = "true" if slot.writes else "false"
    return f"{{\"{name}\", '{kind}', {item}, {axes}, {slot.offset}, {writes}}}"


def _cmake(artifact: Artifact) -> str:
    _, *more = options(artifact.target)
    name, flags = artifact.entry, ";".join(["--npu-arch=${CMAKE_ASC_ARCHITECTURES}", *more])
    return (
        "# Needs CANN, its environment set (ASCEND_HOME_PATH):  cmake -B build && cmake --build "
        "build\n"
        "cmake_minimum_required(VERSION 3.16)\n\n"
        f'set(CMAKE_ASC_ARCHITECTURES "{architecture(artifact.target)}" CACHE STRING '
        '"NPU architecture")\n'
        "find_package(ASC REQUIRED)\n"
        f"project({name} LANGUAGES ASC CXX)\n\n"
        "set(CMAKE_CXX_STANDARD 17)\n"
        "set(CMAKE_CXX_STANDARD_REQUIRED ON)\n\n"
        f"add_executable({name} start.asc launcher.cpp)\n"
        f"set_target_properties({name} PROPERTIES LINKER_LANGUAGE ASC)\n"
        f"target_include_directories({name} PRIVATE $ENV{{ASCEND_HOME_PATH}}/include)\n"
        f'target_compile_options({name} PRIVATE "$<$<COMPILE_LANGUAGE:ASC>:{flags}>")\n'
    )
