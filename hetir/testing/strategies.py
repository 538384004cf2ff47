"""Hypothesis strategies over the generators; a failing example shrinks to a few ops."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from hypothesis import strategies as st

from hetir.testing.cases import Case
from hetir.testing.generate import Shape, generate
from hetir.testing.sources import SourceCase, generate_source

_integers = cache(st.integers)


def _choices(draw: Callable[[st.SearchStrategy[int]], int]) -> Callable[[int], int]:
    def choose(count: int) -> int:
        return draw(_integers(0, count - 1)) if count > 1 else 0

    return choose


@st.composite
def kernels(draw: st.DrawFn, shape: Shape | None = None) -> Case:
    """Kernels as hetIR, each with a launch and arguments (see `hetir.testing.generate`)."""
    return generate(_choices(draw), shape or Shape())


@st.composite
def sources(draw: st.DrawFn, statements: int = 6, depth: int = 3) -> SourceCase:
    """Kernels as Python source, each with a launch and arguments."""
    return generate_source(_choices(draw), statements, depth)
