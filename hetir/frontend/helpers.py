"""Helper functions: read once for each kind of arguments, and called."""

from __future__ import annotations

import ast
from typing import Any

from hetir.frontend.errors import CallError
from hetir.frontend.frame import Frame


def call_helper(
    frame: Frame, node: ast.Call, callee: Any, arguments: list[Any], named: dict[str, Any]
) -> Any:
    """Call a Python function."""
    return frame.tracer.fail(CallError, "helpers follow")
