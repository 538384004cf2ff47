"""The arguments of a launch for a host that runs without one: checked, and one value a slot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hetir.artifact import Layout
from hetir.runtime.arrays import Array
from hetir.runtime.drivers.emulator import unpack
from hetir.runtime.pack import Packer
from hetir.runtime.registry import device


def host_slots(layout: Layout, values: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """A NumPy array or scalar for each slot; the values are refused as a launch refuses them.

    Raises ArgumentError.
    """
    here = [_on_host(value) for value in values]
    packer = Packer(layout, device("emulator"), names)
    block = packer.block(here)
    arrays = iter([array for _, array in packer.operands(here)])
    return [unpack(s, block) if s.ndim is None else next(arrays) for s in layout.slots]


def _on_host(value: Any) -> Any:
    if isinstance(value, Array):
        return value.numpy()
    return _of_tuple(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType]


def _of_tuple(value: tuple[Any, ...]) -> Any:
    items = [_on_host(item) for item in value]
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
