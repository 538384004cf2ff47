"""Statements of generated kernels that only compute: pure ops, ids, subgroup exchanges, reports."""

from __future__ import annotations

from functools import lru_cache

from hetir.ir import ops
from hetir.ir.core import Value
from hetir.ir.types import BOOL, F32, I64, SCALARS, U64, Scalar
from hetir.testing.scope import Scope

_SPECIAL = (ops.SELECT, ops.NATIVE)
PURE = tuple(
    s for s in ops.TABLE.values() if s.pure and s.evaluate and s.operands and s not in _SPECIAL
)
IDS = (
    *(ops.LOCAL_ID, ops.GROUP_ID, ops.GROUP_SIZE, ops.NUM_GROUPS, ops.GLOBAL_ID),
    *(ops.LANE_ID, ops.SUBGROUP_ID, ops.SUBGROUP_SIZE),
)
_BITWISE = ("and", "or", "xor")


@lru_cache
def _choices(types: tuple[Scalar, ...]) -> list[tuple[ops.Spec, dict[str, list[Scalar]]]]:
    """The pure ops that some types allow, and what each letter of their signatures may be."""
    found: list[tuple[ops.Spec, dict[str, list[Scalar]]]] = []
    for spec in PURE:
        letters = dict.fromkeys(s for s in spec.operands if s in ops.CLASSES)
        allowed = {s: [t for t in types if ops.CLASSES[s][1](t)] for s in letters}
        if all(allowed.values()):
            found.append((spec, allowed))
    return found


class Computing(Scope):
    """Statements without memory."""

    def compute(self) -> None:
        """Any pure op of the table."""
        spec, allowed = self.pick(_choices(self.storage))
        bound = {letter: self.pick(kinds) for letter, kinds in allowed.items()}
        operands = [self.value(bound.get(slot) or SCALARS[slot]) for slot in spec.operands]
        values = [v.value for v in operands]
        if "to" in spec.attrs:
            result = self.op(spec, *values, to=self.target(spec, *bound.values()))
        else:
            result = self.op(spec, *values)
        self.add(result, uniform=all(v.uniform for v in operands))

    def target(self, spec: ops.Spec, source: Scalar) -> Scalar:
        """What a cast or bitcast gives."""
        if spec is not ops.BITCAST:
            return self.pick(self.storage)
        return self.pick([t for t in self.storage if t.bits == source.bits])

    def select(self) -> None:
        """A select of numbers."""
        kind = self.pick(self.storage)
        cond, one, two = self.value(BOOL), self.value(kind), self.value(kind)
        result = self.op(ops.SELECT, cond.value, one.value, two.value)
        self.add(result, uniform=cond.uniform and one.uniform and two.uniform)

    def native(self) -> None:
        """A device's own function, which in a reproducible kernel is its last operand."""
        if F32 not in self.types:
            return
        kind = self.pick(ops.NATIVE_KINDS)
        operands = [self.value(F32) for _ in range(3 if kind == "divide" else 2)]
        result = self.op(ops.NATIVE, *(v.value for v in operands), kind=kind)
        self.add(result, uniform=all(v.uniform for v in operands))

    def identity(self) -> None:
        """An id or size."""
        spec = self.pick(IDS)
        axis = {"axis": self.choose(3)} if spec.attrs else {}
        self.add(self.op(spec, **axis), uniform=spec.varying == "never")

    def promise(self) -> None:
        """A value that is uniform though no analysis sees it."""
        varying, fact = self.value(I64).value, self.value(I64, uniform=True).value
        nothing = self.op(ops.SUB, varying, varying)
        result = self.op(ops.ASSUME_UNIFORM, self.op(ops.OR, nothing, fact))
        self.add(result, uniform=True)

    # -- between the lanes of a subgroup

    def exchanged(self) -> None:
        """A subgroup op."""
        make = self.pick((self.reduced, self.shuffled, self.reduced, self.voted, self.balloted))
        self.add(make(), uniform=False)

    def takes(self) -> Value:
        """Which lanes take part: all of them, most often."""
        if self.choose(3) < 2:
            return self.b.const(BOOL, 1)
        return self.condition().value

    def reduced(self) -> Value:
        """A reduction or scan."""
        kind = self.pick(ops.REDUCE_KINDS)
        allowed = ops.CLASSES["B" if kind in _BITWISE else "N"][1]
        fit = [t for t in self.types if allowed(t)] or [U64]
        value, where = self.value(self.pick(fit)).value, self.takes()
        if self.choose(2):
            inclusive = bool(self.choose(2))
            return self.op(ops.SUBGROUP_SCAN, value, where, kind=kind, inclusive=inclusive)
        return self.op(ops.SUBGROUP_REDUCE, value, where, kind=kind)

    def shuffled(self) -> Value:
        """Another lane's value; the lane exists in a full subgroup, a distance may lead out."""
        mode = self.pick(("index", "xor", "up", "down"))
        which = self.value(I64).value
        if mode in ("index", "xor"):
            which = self.op(ops.MOD, which, self.op(ops.SUBGROUP_SIZE))
        elif self.choose(3):
            which = self.op(ops.MOD, which, self.number(1 + self.choose(self.width)))
        value = self.value(self.pick(self.storage)).value
        return self.op(ops.SHUFFLE, value, which, self.takes(), mode=mode)

    def voted(self) -> Value:
        """Any or all."""
        mode = self.pick(("any", "all"))
        return self.op(ops.VOTE, self.condition().value, self.takes(), mode=mode)

    def balloted(self) -> Value:
        """The lanes that hold true."""
        return self.op(ops.BALLOT, self.condition().value, self.takes())

    # -- reports

    def report(self) -> None:
        """A printed line or a check, that fails for some work-items."""
        self.messages += 1
        if self.choose(2):
            message = f"check {self.messages}"
            self.act(ops.ASSERT, self.condition().value, message=message)
            return
        values = [self.value(self.pick(self.storage)).value for _ in self.some(1, 3)]
        text = " ".join([f"line {self.messages}", *("{}" for _ in values)])
        self.act(ops.PRINT, *values, format=text + self.pick(("", " {{}}")))
