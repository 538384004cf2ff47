"""Which loops lose lanes on the way, and which ops let lanes leave the code after them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hetir.ir import ops
from hetir.ir.core import Operation, Region
from hetir.ir.ops import Spec
from hetir.passes.regions import LOOPS
from hetir.passes.uniformity import Uniformity

_LEAVING = (ops.BREAK, ops.RETURN)


@dataclass(frozen=True, slots=True)
class Divergence:
    """Answers for the ops of one kernel.

    `uneven` holds loops out of which lanes jump in unlike iterations, `leaky` the structured ops
    after which some of the lanes that came may be gone, `jumping` those out of which control
    may jump at all. `around` says, for each loop entered, whether lanes had parted before it:
    a `return` concerns them all. Bounds of loops may be alike in a vector where they are not in
    the workgroup, as `i // 16`: whoever emits them sees it.
    """

    known: Uniformity
    around: list[bool] = field(default_factory=lambda: [False])
    uneven: set[Operation] = field(default_factory=set[Operation])
    leaky: set[Operation] = field(default_factory=set[Operation])
    jumping: set[Operation] = field(default_factory=set[Operation])

    def region(self, body: Iterable[Operation], split: bool = False) -> dict[Spec, bool]:
        """The exits of a region, each with whether lanes part on the way to it."""
        exits: dict[Spec, bool] = {}
        for op in body:
            if op.spec is ops.IF:
                left = self._branch(op, split)
            elif op.spec in LOOPS:
                left = self._loop(op, split)
            elif op.spec.terminator:
                parted = split or (op.spec is ops.RETURN and self.around[-1])
                left = {} if op.spec is ops.YIELD else {op.spec: parted}
            else:
                continue
            for spec, parted in left.items():
                exits[spec] = exits.get(spec, False) or parted
                split = split or parted
        return exits

    def _branch(self, op: Operation, split: bool) -> dict[Spec, bool]:
        inner = split or self.known.varying(op.operands[0])
        exits: dict[Spec, bool] = {}
        for arm in op.regions:
            for spec, parted in self.region(arm.body, inner).items():
                exits[spec] = exits.get(spec, False) or parted
        self._note(op, exits)
        return exits

    def _loop(self, op: Operation, split: bool) -> dict[Spec, bool]:
        bounds = op.spec is ops.FOR and any(map(self.known.varying, op.operands[:3]))
        self.around.append(self.around[-1] or split)
        exits = self.region(op.regions[0].body, bounds)
        self.around.pop()
        if any(exits.get(spec, False) for spec in _LEAVING):
            self.uneven.add(op)
        if ops.RETURN not in exits:
            return {}
        left = {ops.RETURN: split or exits[ops.RETURN] or op in self.uneven}
        self._note(op, left)
        return left

    def _note(self, op: Operation, exits: dict[Spec, bool]) -> None:
        if exits:
            self.jumping.add(op)
        if any(exits.values()):
            self.leaky.add(op)


def divergence(body: Region, known: Uniformity) -> Divergence:
    """Analyse a kernel's body; `known` is its uniformity in lockstep."""
    found = Divergence(known)
    found.region(body.body)
    return found
