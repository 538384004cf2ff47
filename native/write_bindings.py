"""Writes cffi's precompiled declarations of the C runtime: `write_bindings.py HEADER OUTPUT`."""

import sys
from pathlib import Path

from cffi import FFI


def main(header: str, output: str) -> None:
    """Read the part of the header between the cffi marks and write the module."""
    text = Path(header).read_text()
    declarations = text.split("/* cffi: begin */")[1].split("/* cffi: end */")[0]
    ffi = FFI()
    ffi.set_source("hetir.runtime._native_api", None)
    ffi.cdef(declarations)
    ffi.emit_python_code(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
