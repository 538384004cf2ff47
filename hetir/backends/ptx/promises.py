"""What a launch promises of arrays, as metadata by which LLVM merges and moves their accesses."""

from __future__ import annotations

from hetir.backends.ptx.memory import synchronises
from hetir.ir.core import Kernel, Value
from hetir.ir.types import ArrayType
from hetir.passes.layout import accessed
from hetir.target import Assumptions

# nodes far from those of the line information
_FIRST = 1 << 20
_ALIGNMENT, _DOMAIN = _FIRST, _FIRST + 1
_MOST_ARRAYS = 24


class Promises:
    """The tags of one kernel's accesses.

    What the kernel cannot write, and nobody else may while it runs, is read through the texture
    path; disjoint arrays never stand in each other's way. Kernels that synchronise read
    everything as it is at that moment.
    """

    def __init__(self, kernel: Kernel, assumptions: Assumptions) -> None:
        self.index_bits = assumptions.index_bits
        arrays = [p.value for p in kernel.params if isinstance(p.value.type, ArrayType)]
        _, writes = accessed(kernel)
        apart = assumptions.disjoint
        reads = apart and not synchronises(kernel)
        self._constant = frozenset(arrays) - writes if reads else frozenset[Value]()
        self._scopes: dict[Value, int] = {}
        if apart and 1 < len(arrays) <= _MOST_ARRAYS:
            self._scopes = {array: _FIRST + 2 + 3 * n for n, array in enumerate(arrays)}
        known = zip(kernel.params, assumptions.aligned, strict=False)
        self._aligned = frozenset(p.value for p, aligned in known if aligned)

    def of_access(self, root: Value | None) -> str:
        """What a load or store of an array parameter ends with."""
        if root is None:
            return ""
        found = ", !invariant.load !0" if root in self._constant else ""
        if root in self._scopes:
            number = self._scopes[root]
            found += f", !alias.scope !{number + 1}, !noalias !{number + 2}"
        return found

    def of_base(self, array: Value) -> str:
        """What the load of an array's address ends with."""
        return f", !align !{_ALIGNMENT}" if array in self._aligned else ""

    def stride_aligned(self, array: Value, axis: int) -> bool:
        """Whether a byte stride is a multiple of 16; that of a last axis may be contiguous."""
        kind = array.type
        return array in self._aligned and isinstance(kind, ArrayType) and axis != kind.ndim - 1

    def text(self) -> list[str]:
        """The metadata."""
        found = [f"!{_ALIGNMENT} = !{{i64 16}}"] if self._aligned else []
        if self._scopes:
            found.append(f"!{_DOMAIN} = distinct !{{!{_DOMAIN}}}")
        for number in self._scopes.values():
            others = ", ".join(f"!{n}" for n in self._scopes.values() if n != number)
            found += [
                f"!{number} = distinct !{{!{number}, !{_DOMAIN}}}",
                f"!{number + 1} = !{{!{number}}}",
                f"!{number + 2} = !{{{others}}}",
            ]
        return found
