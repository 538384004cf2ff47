"""Litmus text: reading the formats of PTX, Vulkan, OpenCL and hetIR."""

from __future__ import annotations

from hetir.memory.litmus.reader import Litmus, parse, read

__all__ = ["Litmus", "parse", "read"]
