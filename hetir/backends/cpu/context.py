"""The context of a lane vector: what its work-items keep from one leaf to the next."""

from __future__ import annotations

from hetir.backends.cpu.frame import size_of
from hetir.backends.cpu.vectors import Rep, Vectors
from hetir.backends.llvm.code import memory_type
from hetir.backends.llvm.rules import truth
from hetir.ir.core import Value
from hetir.ir.types import BOOL, Type


class Context(Vectors):
    """Reads and writes the lanes' entries of context arrays."""

    def load_context(self, value: Value) -> Rep:
        """The lanes' entries of a context array."""
        code, host = self.code, self.host
        alike = not host.known.varying(value)
        if alike and not host.schedule.masked:
            return Rep("same", host.load(value, self.linear))
        raw = self._read_row(value)
        with self.wide():
            loaded = Rep("lanes", truth(code, raw) if value.type == BOOL else raw)
        # the first item may have returned before the value was made
        return Rep("same", self.scalar(loaded, value.type)) if alike else loaded

    def save_context(self, value: Value, rep: Rep, kind: Type, *, always: bool) -> None:
        """Write the lanes' entries; only those that are on unless `always`."""
        code = self.code
        name = self.spread(rep, kind)
        if kind == BOOL:
            name = code.add(f"zext {self.of('i1')} {name} to {self.of('i8')}")
        if not always and self.mask is not None:
            vector = self.of(memory_type(kind))
            old = self._read_row(value)
            name = code.add(f"select {self.of('i1')} {self.mask}, {vector} {name}, {vector} {old}")
        self._write_row(value, name)

    def _read_row(self, value: Value) -> str:
        """The lanes' entries of a context array, by pieces as other leaves write them."""
        code, host = self.code, self.host
        kind, where = host.place(value, self.linear)
        part, tags = self._piece, f"align {size_of(value)}{host.aliases.context}"
        pieces: list[str] = []
        for first in range(0, self.width, part):
            at = code.add(f"getelementptr {kind}, ptr {where}, i64 {first}") if first else where
            pieces.append(code.add(f"load <{part} x {kind}>, ptr {at}, {tags}"))
        return self.join(pieces, kind)

    def _write_row(self, value: Value, name: str) -> None:
        """Write the lanes' entries of a context array, by pieces as other leaves read them."""
        code, host, part = self.code, self.host, self._piece
        kind, where = host.place(value, self.linear)
        tags = f"align {size_of(value)}{host.aliases.context}"
        if part == self.width:
            code.put(f"store {self.of(kind)} {name}, ptr {where}, {tags}")
            return
        for first in range(0, self.width, part):
            at = code.add(f"getelementptr {kind}, ptr {where}, i64 {first}")
            some = self.part(name, kind, first // part, part)
            code.put(f"store <{part} x {kind}> {some}, ptr {at}, {tags}")

    @property
    def _piece(self) -> int:
        """The widest vector that every leaf's accesses to the context are made of.

        LLVM forwards what one leaf stores to the next one's loads where they are alike.
        """
        return min(self.width, self.host.narrowest)
