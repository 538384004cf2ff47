"""Compiles the runner and kernels with the host's C++ compilers, once for each content."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

_HERE = Path(__file__).parent
_INCLUDE, _RUNTIME = _HERE / "include", _HERE / "runtime"
_COMMON = ("-std=c++17", "-O1", "-Wall", "-Werror", "-ffp-contract=off")
_CLANGS = ("clang++", *(f"clang++-{version}" for version in range(22, 13, -1)))
_SECONDS = 300
_MOST_LIBRARIES = 2000


class ShimBuildError(Exception):
    """A compiler refused a kernel or the runner, or there is none; the text is what it said."""


@lru_cache(maxsize=1)
def compilers() -> dict[str, str]:
    """The C++ compilers that are here: `g++` and `clang++`, each with its path."""
    found = {"g++": shutil.which("g++")}
    found["clang++"] = next(filter(None, map(shutil.which, _CLANGS)), None)
    return {name: path for name, path in found.items() if path}


def compiler_of(name: str | None) -> str:
    """The path of a compiler, or of the first that is here. Raises ShimBuildError."""
    here = compilers()
    if not here:
        raise ShimBuildError("no C++ compiler is here: install g++")
    if name is None:
        return next(iter(here.values()))
    if name not in here:
        raise ShimBuildError(f"`{name}` is not here: only {', '.join(here)}")
    return here[name]


def cache_folder() -> Path:
    """Where compiled code is kept: under HETIR_CACHE_DIR, or under the platform's folder."""
    asked = os.environ.get("HETIR_CACHE_DIR")
    if asked:
        return Path(asked) / "ascend-shim"
    from platformdirs import user_cache_path

    return user_cache_path("hetir") / "ascend-shim"


def _digest(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
        digest.update(b"\0")
    return digest.hexdigest()[:32]


@lru_cache(maxsize=4)
def _content(compiler: str) -> str:
    """A hash of the headers, the runner's sources and the compiler's version."""
    version = subprocess.run([compiler, "--version"], capture_output=True, check=False).stdout
    sources = sorted(path for path in _HERE.rglob("*") if path.suffix in {".h", ".cpp"})
    return _digest(version, *(path.name.encode() + path.read_bytes() for path in sources))


def _make(target: Path, command: list[str]) -> Path:
    """Run a compiler whose output is `target`, complete or not there at all."""
    if target.exists():
        return target
    from filelock import FileLock

    target.parent.mkdir(parents=True, exist_ok=True)
    stripe = _digest(target.name)[0]  # few lock files, and few that wait for each other
    with FileLock(target.parent / f".lock-{stripe}"):
        if not target.exists():
            _compile(target, command)
            _prune(target.parent)
    return target


def _prune(folder: Path) -> None:
    """Remove the older half of the libraries once there are many."""
    files = [path for path in folder.glob("*.so") if path.exists()]
    if len(files) <= _MOST_LIBRARIES:
        return
    for path in sorted(files, key=_age)[: len(files) // 2]:
        path.unlink(missing_ok=True)


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another process removed it
        return 0.0


def _compile(target: Path, command: list[str]) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, suffix=target.suffix)
    os.close(handle)
    try:
        done = subprocess.run(
            [*command, "-o", name], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        if done.returncode != 0:
            raise ShimBuildError(done.stderr or done.stdout)
        Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)


def runner() -> Path:
    """The program that runs compiled kernels."""
    compiler = compiler_of(None)
    target = cache_folder() / f"runner-{_content(compiler)}"
    sources = [str(path) for path in sorted(_RUNTIME.glob("*.cpp"))]
    flags = [*_COMMON, "-Wextra", "-D__NPU_ARCH__=0", f"-I{_INCLUDE}", "-rdynamic"]
    return _make(target, [compiler, *flags, *sources, "-ldl"])


def _options(compiler: str, arch: int, late_types: bool) -> list[str]:
    options = [*_COMMON, "-fPIC", f"-D__NPU_ARCH__={arch}"]
    options += ["-DHETIR_SHIM_LATE_TYPES"] if late_types else []
    options += _watched(compiler) if arch == 3510 else []
    return options


def _headers(compiler: str, arch: int, late_types: bool) -> list[str]:
    """The options that give the shim's headers, precompiled."""
    options = _options(compiler, arch, late_types)
    clang = "clang" in Path(compiler).name
    # what its headers hold is in the key: clang need not look when they were written
    whenever = ["-Xclang", "-fno-pch-timestamp"] if clang else []
    # a precompiled header names the folder that its headers lie in
    key = _digest(_content(compiler), compiler, str(_INCLUDE), *options, *whenever)
    folder = cache_folder() / f"headers-{key}"
    first = _INCLUDE / ("kernel_operator.h" if arch != 3510 else "simt_api/asc_simt.h")
    copy = folder / first.name
    if not copy.exists():
        folder.mkdir(parents=True, exist_ok=True)
        scratch = folder / f".{os.getpid()}"
        scratch.write_text(f'#include "{first}"\n', encoding="utf-8")
        scratch.replace(copy)
    compiled = folder / (first.name + (".pch" if clang else ".gch"))
    making = [compiler, *options, *whenever, f"-I{_INCLUDE}", "-x", "c++-header", str(copy)]
    _make(compiled, making)
    use = ["-include-pch", str(compiled)] if clang else ["-include", str(copy)]
    return [*options, f"-I{_INCLUDE}", *use]


def library(
    source: str, *, arch: int, compiler: str | None = None, late_types: bool = False
) -> Path:
    """The shared library of a kernel's source, compiled with the shim's headers.

    `arch` is 2201, 2002 or 3510. With `late_types` an element type that an operation does not
    take is a fault when it runs, not an error of the compiler.

    Raises:
        ShimBuildError: what the compiler said, with the lines of `source`.
    """
    path = compiler_of(compiler)
    text = with_storage(source) if arch == 3510 else source
    key = _digest(_content(path), path, *_options(path, arch, late_types), text)
    target = cache_folder() / "kernels" / f"{key}.so"
    if target.exists():
        return target
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cpp"
        file.write_text(text, encoding="utf-8")
        options = _headers(path, arch, late_types)
        if arch != 3510:
            return _make(target, [path, *options, "-shared", str(file)])
        instrumented = Path(folder) / "kernel.o"
        _make(instrumented, [path, *options, "-c", str(file)])
        return _make(target, [path, "-shared", str(instrumented)])


def check_source(source: str, *, arch: int, compiler: str | None = None) -> None:
    """Have a compiler read a source, warnings being errors: no code is made.

    Raises:
        ShimBuildError: what the compiler said.
    """
    path = compiler_of(compiler)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cpp"
        file.write_text(with_storage(source) if arch == 3510 else source, encoding="utf-8")
        command = [path, *_headers(path, arch, False), "-Wextra", "-fsyntax-only", str(file)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    if done.returncode != 0:
        raise ShimBuildError(done.stderr or done.stdout)


def _watched(compiler: str) -> list[str]:
    """Options that make every access to memory a call, as for a race detector, with lines."""
    distinguish = (
        ["-mllvm", "-tsan-distinguish-volatile"]
        if "clang" in Path(compiler).name
        else ["--param", "tsan-distinguish-volatile=1"]
    )
    return ["-fsanitize=thread", "-fno-threadsafe-statics", "-g1", *distinguish]


_KERNEL = re.compile(r"__global__\b[^;{(]*(?:\([^()]*\)[^;{(]*)??\bvoid\s+(\w+)\s*\(")
_ARRAY = re.compile(r"__ubuf__(?=\s+[\w:<>, ]+?\s+\w+\s*(?:\[[^\]]*\]\s*)+;)")


def with_storage(source: str) -> str:
    """SIMT source whose `__ubuf__` arrays lie in a section for each kernel, lines unchanged.

    The vendor's compiler knows `__ubuf__` as a storage; for C++ it must become one. Kernels also
    get C linkage, so that they are found by name.
    """
    kernels = [(match.start(), match[1]) for match in _KERNEL.finditer(source)]
    pieces: list[str] = []
    used: set[str] = set()
    at = 0
    for match in _ARRAY.finditer(source):
        owner = [name for start, name in kernels if start < match.start()]
        section = f"hetir_ubuf_{owner[-1]}" if owner else "hetir_ubuf"
        used.update(owner[-1:])
        storage = f'static __attribute__((section("{section}"), used, aligned(32)))'
        pieces += [source[at : match.start()], storage]
        at = match.end()
    text = "".join([*pieces, source[at:]])
    text = re.sub(r"(?<!\" )\b__global__\b", 'extern "C" __global__', text)
    ends = [
        f'extern "C" char __start_hetir_ubuf_{name}[], __stop_hetir_ubuf_{name}[];'
        f'extern "C" {{ char *hetir_ends_{name}[] = {{__start_hetir_ubuf_{name}, '
        f"__stop_hetir_ubuf_{name}}}; }}"
        for name in sorted(used)
    ]
    return "\n".join([text, *ends, ""])


def line_of(built: Path, offset: int) -> int:
    """The line of the source that an instruction of a library came from; 0 when not known."""
    tool = shutil.which("addr2line")
    if tool is None or offset <= 0:
        return 0
    command = [tool, "-e", str(built), hex(offset - 1)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    line = said.strip().rpartition(":")[2].split(" ")[0]
    return int(line) if line.isdigit() else 0
