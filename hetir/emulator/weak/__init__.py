"""The weak-memory mode: work-items one step at a time, reads that may see older values."""

from hetir.emulator.weak.memory import MixedElementsError
from hetir.emulator.weak.schedule import TooLargeError, execute

__all__ = ["MixedElementsError", "TooLargeError", "execute"]
