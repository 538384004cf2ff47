"""How `print` shows values; every device writes lines the same way."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

_FIELD = re.compile(r"\{\{|\}\}|\{\}")


def fill(template: str, values: Sequence[Any]) -> str:
    """The template with each `{}` replaced by a value; `{{` and `}}` are braces."""
    rest = iter(values)

    def one(match: re.Match[str]) -> str:
        found = match.group()
        return show(next(rest)) if found == "{}" else found[0]

    return _FIELD.sub(one, template)


def show(value: Any) -> str:
    """A value as Python writes it: floats by the shortest digits that give them back."""
    if isinstance(value, (np.float64, np.integer, np.bool_)):
        return str(value.item())
    return str(value)
