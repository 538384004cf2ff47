"""Loops: `for` over ranges and constants, `while`, `break`, `continue`."""

from __future__ import annotations
