"""The checks of `checks=True`, called by the machine before each access takes effect."""

from __future__ import annotations

from typing import Any

import numpy as np


class Checker:
    """Watches one run."""

    def __init__(self, run: Any, buffers: Any) -> None:
        self.run = run

    def pure(self, op: Any, frame: Any, lanes: Any, value: Any) -> None: ...
    def uniform(self, op: Any, frame: Any, value: Any) -> None: ...
    def fence(self, op: Any, frame: Any) -> None: ...
    def barrier(self, op: Any, frame: Any) -> None: ...
    def access(self, op: Any, frame: Any, place: Any, dtype: Any, kind: str) -> None: ...
    def atomic(self, op: Any, frame: Any, place: Any, dtype: Any, order: Any) -> None: ...
