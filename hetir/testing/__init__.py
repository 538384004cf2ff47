"""Random kernels and runs that must agree, for hetir's tests and for users'.

This package needs hypothesis; nothing else in hetir does.
"""

from hetir.testing.cases import Case, Input, Runner
from hetir.testing.check import arrays, check_kernel
from hetir.testing.differential import (
    RUNNERS,
    checked,
    differences,
    evaluator,
    on_cpu,
    on_simplified,
    run_differential,
)
from hetir.testing.generate import Shape, generate
from hetir.testing.interpret import interpret
from hetir.testing.litmus import Litmus, concurrent_programs
from hetir.testing.sources import SourceCase, generate_source
from hetir.testing.strategies import kernels, sources

__all__ = [
    "RUNNERS",
    "Case",
    "Input",
    "Litmus",
    "Runner",
    "Shape",
    "SourceCase",
    "arrays",
    "check_kernel",
    "checked",
    "concurrent_programs",
    "differences",
    "evaluator",
    "generate",
    "generate_source",
    "interpret",
    "kernels",
    "on_cpu",
    "on_simplified",
    "run_differential",
    "sources",
]
