"""The reference evaluator: runs hetIR with NumPy, and finds what has no meaning."""

from hetir.emulator.faults import Fault, WorkItem
from hetir.emulator.launch import Report, run

__all__ = ["Fault", "Report", "WorkItem", "run"]
