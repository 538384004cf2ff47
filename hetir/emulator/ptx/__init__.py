"""Runs PTX text with NumPy: every thread a lane, every fault named.

module = parse(text)
Machine(module).launch("saxpy", grid=4, block=256, params=[n, 2.0, x, y])
"""

from hetir.emulator.ptx.faults import Fault, PtxError, RaceFault
from hetir.emulator.ptx.launch import Machine, Report, run_ptx
from hetir.emulator.ptx.memory import Memory
from hetir.emulator.ptx.parser import parse
from hetir.emulator.ptx.syntax import Module

__all__ = [
    "Fault",
    "Machine",
    "Memory",
    "Module",
    "PtxError",
    "RaceFault",
    "Report",
    "parse",
    "run_ptx",
]
