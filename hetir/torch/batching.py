"""The rule of an operator for `vmap`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from hetir.torch.operator import Operator, TensorError, several

# torch's stubs leave this partly unknown
_torch: Any = torch


def vmap_rule(made: Operator, rows: frozenset[str], mutates: frozenset[str]) -> Callable[..., Any]:
    """The rule for vmap; `rows` are inputs whose first axis may hold more rows."""

    def rule(info: Any, places: tuple[int | None, ...], *given: Any) -> tuple[Any, Any]:
        size = info.batch_size
        moved = [
            v if p is None or not isinstance(v, torch.Tensor) else v.movedim(p, 0)
            for v, p in zip(given, places, strict=True)
        ]
        batched = frozenset(n for n, p in zip(made.inputs, places, strict=True) if p is not None)
        if shared := mutates - batched:
            raise TensorError(
                f"`{made.name}` writes `{min(shared)}`, which vmap does not batch",
                hint="batch it, too: each element writes its own",
            )
        if size and batched and batched == rows and not mutates:
            found = _folded(made, batched, size, moved)
        else:
            found = _one_by_one(made, batched, size, moved)
        if not found:
            return None, None
        if len(found) == 1:
            return found[0], 0
        return tuple(found), tuple(0 for _ in found)

    return rule


def _folded(made: Operator, batched: frozenset[str], size: int, moved: Sequence[Any]) -> list[Any]:
    """One call with all rows."""
    folded = [
        v.reshape(size * v.shape[1], *v.shape[2:]) if n in batched else v
        for n, v in zip(made.inputs, moved, strict=True)
    ]
    results: Sequence[Any] = several(made(*folded))
    return [r.reshape(size, r.shape[0] // size, *r.shape[1:]) for r in results]


def _one_by_one(
    made: Operator, batched: frozenset[str], size: int, moved: Sequence[Any]
) -> list[Any]:
    """A call an element; for none the shapes are those for an element of zeros."""

    def call(pick: Callable[[Any], Any]) -> tuple[Any, ...]:
        values = [pick(v) if n in batched else v for n, v in zip(made.inputs, moved, strict=True)]
        result = made(*values)
        return several(result) if made.results else ()

    if not size:
        return [r.new_empty((0, *r.shape)) for r in call(lambda v: v.new_zeros(v.shape[1:]))]
    each = [call(lambda v, i=i: v[i]) for i in range(size)]
    return [_torch.stack(one) for one in zip(*each, strict=True)]
