"""The C runtime: found beside the package, opened when first needed."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from hetir.runtime.errors import DeviceError

VERSION = 1
_LIBRARY = "libhetir_runtime.so"
_EXTENSION = "_launch.abi3.so"
_BINDINGS = "_native_api.py"


class Native(NamedTuple):
    """The library's functions and cffi's tool box for them."""

    lib: Any
    ffi: Any


@cache
def native() -> Native:
    """Open the library, once a process."""
    folder = _folder()
    module = _load(folder / _BINDINGS)
    lib = module.ffi.dlopen(str(folder / _LIBRARY))
    if lib.hetir_runtime_version() != VERSION:
        raise DeviceError(
            f"the C runtime in {folder} is of another version", hint="run `pip install .` again"
        )
    if lib.hetir_threads() < 1:
        raise DeviceError("HETIR_NUM_THREADS is not a number from 1 to 256", hint="unset it")
    return Native(lib, module.ffi)


@cache
def extension() -> ModuleType:
    """The Python extension in C, loaded once a process."""
    try:
        return _load(_folder() / _EXTENSION)
    except ImportError as error:
        raise DeviceError(f"{error}", hint="use hetir in the main interpreter, or run "
                          "`pip install .` again") from error  # fmt: skip


@cache
def _folder() -> Path:
    """Where the built files lie: beside this file, or in the installed package.

    The second is for tests that are run from a source tree in which nothing was built.
    """
    beside = Path(__file__).parent
    if (beside / _LIBRARY).exists():
        return beside
    from importlib import metadata  # here, because it is slow to import and seldom needed

    try:
        found = Path(str(metadata.distribution("hetir").locate_file("hetir/runtime")))
    except metadata.PackageNotFoundError:
        found = beside
    if not (found / _LIBRARY).exists():
        raise DeviceError("the C runtime of hetir is not built", hint="run `pip install .`")
    return found


def _load(path: Path) -> ModuleType:
    name = path.name.partition(".")[0]
    spec = importlib.util.spec_from_file_location(f"hetir.runtime.{name}", path)
    if spec is None or spec.loader is None:
        raise DeviceError(f"{path} cannot be read", hint="run `pip install .` again")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
