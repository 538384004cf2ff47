"""The Ascend C shim: compiles emitted sources with hetir's own headers and runs them strictly.

Kernels run in a process of their own. Every fault that the documented hardware rules allow to
find is reported with the line of the source; `docs/ascend-shim.md` lists them.
"""

from hetir.emulator.ascend.build import ShimBuildError, check_source, compilers
from hetir.emulator.ascend.report import Fault, Report, ShimFaultError
from hetir.emulator.ascend.run import (
    ORDERS,
    Job,
    Place,
    Shape,
    arch_number,
    launch_block,
    run,
    run_in_place,
)
from hetir.emulator.ascend.sites import Sync, removals, sync_sites

__all__ = [
    "ORDERS",
    "Fault",
    "Job",
    "Place",
    "Report",
    "Shape",
    "ShimBuildError",
    "ShimFaultError",
    "Sync",
    "arch_number",
    "check_source",
    "compilers",
    "launch_block",
    "removals",
    "run",
    "run_in_place",
    "sync_sites",
]
