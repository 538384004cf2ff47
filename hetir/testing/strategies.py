"""Hypothesis strategies over the generators; a failing example shrinks to a few ops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random

from hypothesis import strategies as st

from hetir.testing.cases import Case
from hetir.testing.generate import Shape, generate
from hetir.testing.prune import lean, optional, without
from hetir.testing.sources import SourceCase, generate_source

_integers = cache(st.integers)


def _choices(draw: Callable[[st.SearchStrategy[int]], int]) -> Callable[[int], int]:
    def choose(count: int) -> int:
        return draw(_integers(0, count - 1)) if count > 1 else 0

    return choose


@st.composite
def kernels(draw: st.DrawFn, shape: Shape | None = None) -> Case:
    """Kernels as hetIR, each with a launch and arguments (see `hetir.testing.generate`).

    The launch is drawn; the rest comes from a seed, so that it stays the same while ops are taken
    away from it, which is how a failing kernel gets small.
    """
    seed = draw(_integers(0, (1 << 12) - 1))
    case = generate(Random(seed).randrange, shape, launch=_choices(draw))
    gone = {op for op in optional(case.kernel) if _goes(draw)}
    if gone:
        case = replace(case, kernel=without(case.kernel, gone))
    return lean(case) if _goes(draw) else case


def _goes(draw: st.DrawFn) -> bool:
    """Whether an optional part is left out: seldom, but it is the simpler choice."""
    return draw(_integers(0, 31)) == 0


@st.composite
def sources(
    draw: st.DrawFn, statements: int = 6, depth: int = 3, *, reports: bool = False
) -> SourceCase:
    """Kernels as Python source, each with a launch and arguments (see `generate_source`)."""
    return generate_source(_choices(draw), statements, depth, reports=reports)
