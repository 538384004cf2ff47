"""Accesses at constant distances from lane to lane: whole vectors of memory, and a shuffle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hetir.backends.cpu.vectors import signed
from hetir.backends.llvm.code import Code

_MOST = 4  # vectors that one access may span


@dataclass(frozen=True, slots=True)
class Window:
    """A piece of memory from `low` bytes on, `count` elements long; lane l has its `order[l]`th.

    Only what lanes have is touched.
    """

    low: int
    order: tuple[int, ...]
    count: int

    def mask(self) -> str | None:
        """The elements that lanes have; None says all."""
        taken = set(self.order)
        if len(taken) == self.count:
            return None
        return f"<{', '.join(f'i1 {int(n in taken)}' for n in range(self.count))}>"


def window(offsets: Sequence[int], size: int) -> Window | None:
    """The window of lanes that access `size` bytes at these offsets, if it is a small one."""
    places = [signed(offset) for offset in offsets]
    low, width = min(places), len(places)
    if any((place - low) % size for place in places):
        return None
    order = tuple((place - low) // size for place in places)
    vectors = max(order) // width + 1
    return Window(low, order, vectors * width) if vectors <= _MOST else None


def load(code: Code, at: Window, kind: str, where: str, align: int, tags: str) -> str:
    """The lanes' elements, `where` the window is."""
    vector, mask = f"<{at.count} x {kind}>", at.mask()
    if mask is None:
        raw = code.add(f"load {vector}, ptr {where}, align {align}{tags}")
    else:
        raw = masked_load(code, at.count, kind, mask, where, align, tags)
    order = ", ".join(f"i32 {n}" for n in at.order)
    lanes = f"<{len(at.order)} x i32>"
    return code.add(f"shufflevector {vector} {raw}, {vector} poison, {lanes} <{order}>")


def store(code: Code, at: Window, kind: str, name: str, where: str, align: int, tags: str) -> None:
    """Write the lanes' elements, `where` the window is; of lanes that write one, the last."""
    vector, mask = f"<{at.count} x {kind}>", at.mask()
    lanes = f"<{len(at.order)} x {kind}>"
    source = {place: lane for lane, place in enumerate(at.order)}
    order = ", ".join(f"i32 {source.get(n, 'poison')}" for n in range(at.count))
    order_type = f"<{at.count} x i32>"
    wide = code.add(f"shufflevector {lanes} {name}, {lanes} poison, {order_type} <{order}>")
    if mask is None:
        code.put(f"store {vector} {wide}, ptr {where}, align {align}{tags}")
        return
    masked_store(code, at.count, kind, mask, wide, where, align, tags)


def masked_load(
    code: Code, count: int, kind: str, mask: str, where: str, align: int, tags: str
) -> str:
    """Load `count` neighbours of which `mask` says which are touched."""
    vector, flags, name = f"<{count} x {kind}>", f"<{count} x i1>", _name("load", count, kind)
    code.declarations[name] = f"declare {vector} @{name}(ptr, {flags}, {vector})"
    operands = f"ptr align {align} {where}, {flags} {mask}, {vector} poison"
    return code.add(f"call {vector} @{name}({operands}){tags}")


def masked_store(
    code: Code, count: int, kind: str, mask: str, value: str, where: str, align: int, tags: str
) -> None:
    """Store those of `count` neighbours that `mask` names."""
    vector, flags, name = f"<{count} x {kind}>", f"<{count} x i1>", _name("store", count, kind)
    code.declarations[name] = f"declare void @{name}({vector}, ptr, {flags})"
    code.put(
        f"call void @{name}({vector} {value}, ptr align {align} {where}, {flags} {mask}){tags}"
    )


def _name(what: str, count: int, kind: str) -> str:
    short = {"float": "f32", "double": "f64"}.get(kind, kind)
    return f"llvm.masked.{what}.v{count}{short}.p0"
