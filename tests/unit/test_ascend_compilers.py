"""Two compilers read what hetir emits for Ascend: the whole library, and every op and type."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest

from hetir import compiler, library
from hetir.backends.ascend import compile_kernel
from hetir.backends.ascend.targets import resolve
from hetir.diagnostics import HetirError
from hetir.emulator.ascend import arch_number, check_source
from hetir.ir.core import Kernel
from hetir.passes.simplify import simplify
from tests.unit.ascend_shim_support import EACH_COMPILER
from tests.unit.ascend_support import together
from tests.unit.test_ascend_simd import REFUSED, lowered
from tests.unit.test_cpu_ops import GROUPS, check

TARGETS = ("ascend:910b", "ascend:310p", "ascend:950")


class _EnoughError(Exception):
    """The kernel is there, and need not run."""


@functools.cache
def library_sources(target: str) -> tuple[str, ...]:
    """The library's kernels, without those that the target refuses."""
    found: list[str] = []
    refused: set[str] = set()
    for name in library.NAMES:
        for step in library.case(name, size=library.SMALL[name]).steps:
            kernel = simplify(lowered(step)[0])
            try:
                found.append(
                    compile_kernel(
                        kernel, target=target, workgroup=compiler.dims(step.workgroup)
                    ).text
                )
            except HetirError:
                refused.add(name)
    assert refused == REFUSED.get(target, set())
    return tuple(dict.fromkeys(found))


@functools.cache
def op_sources(target: str) -> tuple[str, ...]:
    """A kernel for each group of ops of the same operand types."""
    found: list[str] = []
    refused = resolve(target).unsupported

    def note(kernel: Kernel, *_: Any) -> None:
        found.append(compile_kernel(kernel, target=target, workgroup=(64, 1, 1)).text)
        raise _EnoughError

    for group in GROUPS.values():
        kept = [i for i in group if i.key not in refused and i.spec.name != "assume_uniform"]
        if kept:
            with pytest.raises(_EnoughError):
                check(kept, None, note)  # pyright: ignore[reportArgumentType]
    return tuple(found)


@pytest.mark.parametrize("name", EACH_COMPILER)
@pytest.mark.parametrize("target", TARGETS)
def test_they_warn_of_nothing(target: str, name: str) -> None:
    sources = library_sources(target) + op_sources(target)
    assert len(sources) > 60
    check_source(together(sources), arch=arch_number(target), compiler=name)


STYLE = (
    "{BasedOnStyle: Google, IndentWidth: 4, ColumnLimit: 100, DerivePointerAlignment: false,"
    " PointerAlignment: Right, AlwaysBreakTemplateDeclarations: MultiLine, SortIncludes: false}"
)


def test_clang_format_leaves_the_library_as_it_is() -> None:
    """But for one line in a hundred: it weighs breaks of long expressions in more ways."""
    text = "".join(library_sources("ascend:910b"))
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    tool = shutil.which("clang-format", path=beside)
    assert tool, "pip install '.[test]' brings clang-format"
    done = subprocess.run(
        [tool, f"--style={STYLE}"], input=text, capture_output=True, text=True, check=True
    )
    lines, shaped = text.splitlines(), done.stdout.splitlines()
    kept = sum(
        block.size for block in SequenceMatcher(None, lines, shaped, False).get_matching_blocks()
    )
    assert len(lines) > 10_000
    assert max(map(len, lines)) <= 100
    assert kept > 0.99 * max(len(lines), len(shaped))
