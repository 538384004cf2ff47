"""nvJitLink: NVIDIA's assembler as a library, in this process and without a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import cffi

VARIABLE = "HETIR_NVJITLINK"
_NAMES = ("libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so")
_PACKAGES = ("nvidia-nvjitlink", "nvidia-nvjitlink-cu12")
# nvJitLink.h: the functions that carry the version from which they have their form, and an input
_FUNCTIONS = """
int __nvJitLinkCreate_{v}(void **handle, uint32_t count, const char **options);
int __nvJitLinkDestroy_{v}(void **handle);
int __nvJitLinkAddData_{v}(void *handle, int type, const void *data, size_t size, const char *name);
int __nvJitLinkComplete_{v}(void *handle);
int __nvJitLinkGetLinkedCubinSize_{v}(void *handle, size_t *size);
int __nvJitLinkGetLinkedCubin_{v}(void *handle, void *cubin);
int __nvJitLinkGetErrorLogSize_{v}(void *handle, size_t *size);
int __nvJitLinkGetErrorLog_{v}(void *handle, char *log);
int __nvJitLinkGetInfoLogSize_{v}(void *handle, size_t *size);
int __nvJitLinkGetInfoLog_{v}(void *handle, char *log);
int nvJitLinkVersion(unsigned *major, unsigned *minor);
"""
_PTX = 2
# the release that first has a capability: an unknown one ends the process, in nvJitLinkCreate
_FIRST_RELEASE = {
    **dict.fromkeys(("sm_100", "sm_100a", "sm_120", "sm_120a"), (12, 8)),
    **dict.fromkeys(("sm_100f", "sm_103", "sm_103a", "sm_103f"), (12, 9)),
    **dict.fromkeys(("sm_120f", "sm_121", "sm_121a", "sm_121f"), (12, 9)),
    **dict.fromkeys(("sm_88", "sm_110", "sm_110a", "sm_110f"), (13, 0)),
}
_VERSIONS = ("13_0", "12_4", "12_0")


@cache
def find() -> Path | None:
    """The library by its variable, in the CUDA toolkit, or in NVIDIA's wheels."""
    return next((place for place in _places() if place.exists()), None)


def is_named() -> bool:
    """Whether the user names the library."""
    return bool(os.environ.get(VARIABLE))


def _places() -> Iterator[Path]:
    if given := os.environ.get(VARIABLE):
        yield Path(given)
        return
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(name):
            yield from (Path(home) / "lib64" / library for library in _NAMES)
    for package in _PACKAGES:
        try:
            files = metadata.files(package) or []
        except metadata.PackageNotFoundError:
            continue
        yield from (Path(str(f.locate())) for f in files if f.name in _NAMES)


class _Library:
    """The functions of one library, whatever version their names carry."""

    def __init__(self, path: Path) -> None:
        self.ffi: Any = None
        for self.version in _VERSIONS:
            self.ffi = cffi.FFI()
            self.raw: Any = self.ffi.dlopen(str(path))
            self.ffi.cdef(_FUNCTIONS.format(v=self.version))
            if hasattr(self.raw, f"__nvJitLinkCreate_{self.version}"):
                return
        raise OSError(f"{path} has none of the functions of nvJitLink")

    def call(self, name: str, *arguments: Any) -> int:
        """The code that a function returns; 0 is success."""
        return getattr(self.raw, f"__nvJitLink{name}_{self.version}")(*arguments)

    def log(self, name: str, handle: Any) -> str:
        """One of the two logs."""
        size = self.ffi.new("size_t *")
        self.call(f"Get{name}Size", handle, size)
        text = self.ffi.new("char[]", size[0] + 1)
        self.call(f"Get{name}", handle, text)
        return self.ffi.string(text).decode(errors="replace")


@cache
def _open(path: Path) -> _Library:
    return _Library(path)


@cache
def version() -> str:
    """Such as `nvJitLink 13.5`; empty where it is not here."""
    path = find()
    if path is None:
        return ""
    return "nvJitLink {}.{}".format(*release(path))


@cache
def release(path: Path) -> tuple[int, int]:
    """The CUDA release of a library."""
    library = _open(path)
    major, minor = library.ffi.new("unsigned *"), library.ffi.new("unsigned *")
    library.raw.nvJitLinkVersion(major, minor)
    return major[0], minor[0]


def link(text: str, arch: str, options: Sequence[str]) -> tuple[bytes | None, str]:
    """The cubin of PTX text, or None, and what the library says: as ptxas with -v, or errors.

    Raises OSError where the library does not load.
    """
    path = find()
    assert path is not None
    if release(path) < _FIRST_RELEASE.get(arch, (12, 0)):
        return None, f"error: it is older than `{arch}`"
    library = _open(path)
    options = (f"-arch={arch}", "-verbose", *options)
    ffi, handle = library.ffi, library.ffi.new("void **")
    given = [ffi.new("char[]", option.encode()) for option in options]
    if library.call("Create", handle, len(given), ffi.new("const char *[]", given)):
        return None, f"error: nvJitLink takes none of {' '.join(options)}"
    try:
        data = text.encode() + b"\0"
        failed = library.call("AddData", handle[0], _PTX, data, len(data), b"kernel.ptx")
        failed = failed or library.call("Complete", handle[0])
        log = library.log("ErrorLog", handle[0]) + library.log("InfoLog", handle[0])
        if failed:
            return None, log
        size = ffi.new("size_t *")
        library.call("GetLinkedCubinSize", handle[0], size)
        cubin = ffi.new("char[]", size[0])
        library.call("GetLinkedCubin", handle[0], cubin)
        return bytes(ffi.buffer(cubin)), log
    finally:
        library.call("Destroy", handle)
