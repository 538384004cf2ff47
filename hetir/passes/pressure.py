"""How many 32-bit registers a work-item needs: liveness, and what a scheduler adds to it."""

from __future__ import annotations

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value, walk
from hetir.ir.types import RefType, Scalar
from hetir.passes.ranges import SIGNED, UNSIGNED, Bounds, inside, ranges
from hetir.passes.regions import LOOPS

MOST = 255
"""The last register that an instruction of any target names."""

# what no register holds for long: immediates, and what is read from the launch's arguments
_FREE = frozenset({"const", "dim", "stride", "base", "alloc", "group_size", "num_groups"})
_AHEAD, _LOADED_AHEAD = 5, 3
SOURCE = "hetir's estimate"

_Live = frozenset[Value]


def registers(kernel: Kernel) -> int:
    """The registers that an optimising assembler is likely to give a legalised kernel.

    An estimate: the words that are live at once, 5 more for what a scheduler computes ahead, and
    3 where a loop reads global memory, for what it loads ahead. A loop that the assembler writes
    out several times may take twice as many.
    """
    loads = any(op.spec in LOOPS and _reads_global(op) for op in walk(kernel.body))
    return min(live_words(kernel) + _AHEAD + _LOADED_AHEAD * loads, MOST)


def live_words(kernel: Kernel) -> int:
    """The most 32-bit words that are live at one point of a kernel whose arrays are expanded.

    Values of 64 bits count two, or one where they fit 32 at launches with 32-bit indices; bools
    are predicates and count none, nor do constants and what is read from the arguments.
    """
    walker = _Liveness(kernel)
    walker.region(kernel.body, frozenset(), (frozenset(), frozenset()))
    return walker.peak


def _reads_global(loop: Operation) -> bool:
    return any(op.spec is ops.LOAD and _space(op) == "global" for op in walk(loop.regions[0]))


def _space(op: Operation) -> str:
    kind = op.operands[0].type
    return kind.space if isinstance(kind, RefType) else ""


class _Liveness:
    """One walk against program order; `peak` is the most words seen."""

    def __init__(self, kernel: Kernel) -> None:
        self.peak = 0
        self._ranges = ranges(kernel, Bounds(index_bits=32))
        self._free = {v for op in walk(kernel.body) if op.name in _FREE for v in op.results}
        self._free.update(param.value for param in kernel.params)

    def region(self, region: Region, out: _Live, exits: tuple[_Live, _Live]) -> _Live:
        """What is live before a region; `exits` is what is live after a break and a continue."""
        live = out
        for op in reversed(region.body):
            after = live
            live = self._before(op, live, exits)
            self._note((live | after).union(op.results) if not op.regions else live, op)
        return live

    def _before(self, op: Operation, live: _Live, exits: tuple[_Live, _Live]) -> _Live:
        live = live.difference(op.results)
        if op.spec is ops.IF:
            arms = (self.region(arm, live, exits) for arm in op.regions)
            return frozenset(op.operands).union(*arms)
        if op.spec in LOOPS:
            return self._loop(op, live)
        if op.spec is ops.BREAK:
            live = exits[0]
        elif op.spec is ops.CONTINUE:
            live = exits[1]
        elif op.spec is ops.RETURN:
            live = frozenset()
        return live.union(op.operands)

    def _loop(self, op: Operation, after: _Live) -> _Live:
        """What comes from outside stays live in every iteration, as do a range's bounds."""
        (body,) = op.regions
        through = after | _captured(body)
        kept = through
        if op.spec is ops.FOR:
            through = through.union(op.operands[1:3])
            kept = through.union(body.args[:1])
        inside = self.region(body, kept, (after, kept))
        self._note(inside.union(body.args), op)
        return through.union(op.operands)

    def _note(self, live: _Live, op: Operation) -> None:
        words = sum(map(self._words, live))
        if op.operands and (space := _space(op)):
            # the address of an access is made just before it
            words += 2 if space == "global" else 1
        self.peak = max(self.peak, words)

    def _words(self, value: Value) -> int:
        kind = value.type
        if not isinstance(kind, Scalar) or kind.kind == "bool" or value in self._free:
            return 0
        found = self._ranges.get(value)
        fits = kind.bits <= 32 or inside(found, SIGNED) or inside(found, UNSIGNED)
        return 1 if fits else 2


def _captured(body: Region) -> _Live:
    """The values from outside that a loop's body uses."""
    used: set[Value] = set()
    defined: set[Value] = set(body.args)
    for op in walk(body):
        used.update(op.operands)
        defined.update(op.results)
        for inner in op.regions:
            defined.update(inner.args)
    return frozenset(used - defined)
