"""What LLVM may know about memory: which accesses can never meet."""

from __future__ import annotations

from hetir.ir import ops
from hetir.ir.core import Kernel, Value, walk
from hetir.ir.types import ArrayType, RefType
from hetir.passes.layout import roots_of

_SYNC = (
    *(ops.FENCE, ops.ATOMIC_LOAD, ops.ATOMIC_STORE, ops.ATOMIC_RMW, ops.ATOMIC_CAS),
    ops.BARRIER,
)


class Aliases:
    """Alias scopes: shared memory, the context, and the global arrays.

    Global arrays get a scope each only when the specialisation says that they are disjoint
    and nothing synchronises: with atomics, such promises let LLVM move plain accesses.
    """

    def __init__(self, kernel: Kernel, *, disjoint: bool) -> None:
        apart = disjoint and not any(op.spec in _SYNC for op in walk(kernel.body))
        self._roots = roots_of(kernel)
        arrays = [p.value for p in kernel.params if isinstance(p.value.type, ArrayType)]
        self._scopes: dict[Value, int] = {}
        if apart:
            self._scopes = {value: 3 + index for index, value in enumerate(arrays)}
        self._count = 3 + len(self._scopes)
        self.context = self._tag(0)

    def of(self, reference: Value) -> str:
        """The metadata of a plain access through a reference."""
        kind = reference.type
        assert isinstance(kind, RefType)
        if kind.space == "shared":
            return self._tag(1)
        if kind.space == "private":
            return ""
        found = [self._scopes[r] for r in self._roots.get(reference, ()) if r in self._scopes]
        return self._tag(found[0] if len(found) == 1 else 2) if self._scopes else self._tag(2)

    def _tag(self, scope: int) -> str:
        first = 2 + self._count
        return f", !alias.scope !{first + 2 * scope}, !noalias !{first + 2 * scope + 1}"

    def text(self) -> list[str]:
        """The metadata nodes: a domain, the scopes, then two lists a scope."""
        count = self._count
        lines = ['!1 = distinct !{!1, !"hetir"}']
        lines += [f'!{2 + i} = distinct !{{!{2 + i}, !1, !"memory{i}"}}' for i in range(count)]
        for scope in range(count):
            others = [i for i in range(count) if i != scope and not self._may_meet(i, scope)]
            listed = ", ".join(f"!{2 + i}" for i in others)
            lines.append(f"!{2 + count + 2 * scope} = !{{!{2 + scope}}}")
            lines.append(f"!{2 + count + 2 * scope + 1} = !{{{listed}}}")
        return lines

    @staticmethod
    def _may_meet(one: int, other: int) -> bool:
        """Scope 2 is any global array."""
        return 2 in (one, other) and max(one, other) > 2
