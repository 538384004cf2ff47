"""Straight-line kernels of a few ops used again and again, so that rewrites meet their patterns.

A kernel has two to four types and three to six ops. Operands are often the value just made, the
same value twice, or a constant at the edge of its type, and every value is stored: what one
identity or one lowering rule gets wrong shows in the element of one op.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from hetir.ir import ops
from hetir.ir.build import Builder, bits_of
from hetir.ir.core import Kernel, Options, Param, Value
from hetir.ir.ops import CLASSES, Spec
from hetir.ir.types import BOOL, I64, SCALARS, Scalar, array
from hetir.testing import Case, Input

ITEMS = 24
OPS = 28
_SLOTS = {ops.SELECT: ("bool", "S", "S")}
PURE = tuple(
    s for s in ops.TABLE.values() if s.pure and s.evaluate and s.operands and s is not ops.NATIVE
)
# what rewrites go by: these come more often
_FAMILIES = (
    *(("add", "sub", "neg"),) * 4, ("mul", "neg", "add"), ("and", "or", "xor", "not"),
    ("shl", "shr", "and"), ("div", "rem", "floordiv", "mod", "neg", "shr"),
    ("lt", "le", "gt", "ge", "eq", "ne", "not"), *(("cast",),) * 4, ("cast", "bitcast"),
    ("cast", "neg", "abs"), ("bitcast", "neg", "abs", "cast"), ("select", "not", "lt"),
    ("min", "max", "abs"), ("mul_hi", "neg", "shr"), ("popcount", "clz", "ctz", "not"),
    ("floor", "ceil", "trunc", "rint", "mul"), ("min_number", "max_number", "neg"),
)  # fmt: skip


_FLOATS = (
    *(
        0.0,
        -0.0,
        -0.0,
        -0.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -3.5,
        1e-42,
        2.0**31,
        -(2.0**63),
        2.0**64,
        300.5,
        65519.0,
    ),
    *(float("nan"), float("inf"), float("-inf"), float("nan")),
)


@dataclass(frozen=True, slots=True, repr=False)
class Edges(Case):
    """A case of whose numbers a half lie at the edges of their types."""

    def arguments(self) -> list[Any]:
        """Fresh arguments, the same at every call."""
        made = Case.arguments(self)
        random = Random(self.seed)
        for lanes, given in zip(made, self.inputs, strict=True):
            if given.writes or given.kind == BOOL:
                continue
            for at in range(0, len(lanes), 2):
                lanes[at] = _edge(given.kind, random)
        return made


def _edge(kind: Scalar, random: Random) -> Any:
    """A number at an edge of its type."""
    if not kind.is_int:
        with np.errstate(all="ignore"):
            return np.array(random.choice(_FLOATS)).astype(np.float32).astype(kind.numpy)
    info = np.iinfo(kind.numpy)
    around = random.choice((info.min, info.max, 0, 1 << random.randrange(kind.bits - 1)))
    return min(max(around + random.randrange(-1, 2), info.min), info.max)


def expression(
    seed: int,
    types: Sequence[Scalar] = tuple(SCALARS.values()),
    *,
    wide: bool = False,
    family: Sequence[str] = (),
) -> Case:
    """The case of a seed, of some types (and bool), mostly of the ops of a family.

    A wide one has more ops, of a family or of all.
    """
    return _Writer(seed, types, wide, family).case()


def _slots(spec: Spec) -> tuple[str, ...]:
    return _SLOTS.get(spec, spec.operands)


class _Writer:
    def __init__(
        self, seed: int, types: Sequence[Scalar], wide: bool, family: Sequence[str]
    ) -> None:
        random = Random(f"expression {seed}")
        self.random, self.size = random, 2 * OPS if wide else OPS
        if wide:
            family = ["cast", "bitcast", *(family or (s.name for s in random.sample(PURE, 12)))]
        family = family or _FAMILIES[seed % len(_FAMILIES)]
        self.types = list(dict.fromkeys([*self.related(list(types), "cast" in family), BOOL]))
        self.specs = self.chosen(family)
        self.builder = Builder()
        self.pool: dict[Scalar, list[Value]] = {t: [] for t in self.types}
        self.made: dict[Scalar, list[Value]] = {t: [] for t in self.types}
        self.parts: dict[Value, tuple[Value, ...]] = {}

    def related(self, types: list[Scalar], casts: bool) -> list[Scalar]:
        """A few types, often with one of the same width: of the other sign, or the integer."""
        few = self.random.choices(types, k=2)
        if casts:  # both signs of a width, which are easily mixed up on the way to a wider type
            signed = self.random.choice([t for t in types if t.kind == "int"])
            few += [t for t in types if t.bits == signed.bits]
        twins = [t for t in types if t.bits == few[0].bits and t not in few]
        more = twins if twins and self.random.random() < 0.6 else types
        return [*few, self.random.choice(more)]

    def chosen(self, family: Sequence[str]) -> list[Spec]:
        """The ops: those of a family three times as often as two others."""
        names = [*(*family,) * 3, *(self.random.choice(PURE).name for _ in range(2))]
        specs = (ops.TABLE[name] for name in names)
        found = [s for s in specs if all(map(self.kinds, _slots(s)))]
        return found or [ops.SELECT]

    def kinds(self, slot: str) -> list[Scalar]:
        """The types that a slot of a signature may have."""
        if slot not in CLASSES:
            return [SCALARS[slot]] if SCALARS.get(slot) in self.types else []
        return [t for t in self.types if CLASSES[slot][1](t)]

    def case(self) -> Case:
        """Loads, ops, stores."""
        loaded = [(t, Value(array(t, 1))) for t in self.types for _ in range(2)]
        place = self.builder.value(ops.GLOBAL_ID, axis=0)
        for kind, param in loaded:
            self.pool[kind].append(self.builder.value(ops.LOAD, param, place))
        for _ in range(self.size):
            self.step()
        outs = [(t, Value(array(t, 2))) for t in self.types if self.made[t]]
        for kind, out in outs:
            for row, value in enumerate(self.made[kind]):
                self.builder.emit(ops.STORE, out, self.builder.const(I64, row), place, value)
        self.builder.emit(ops.RETURN)
        params = [p for _, p in (*loaded, *outs)]
        inputs = [Input(t, (ITEMS,), "C", writes=False) for t, _ in loaded]
        inputs += [Input(t, (len(self.made[t]), ITEMS), "C", writes=True) for t, _ in outs]
        kernel = Kernel(
            name="expression",
            params=tuple(Param(p, (i,)) for i, p in enumerate(params)),
            body=self.builder.region(),
            options=Options(),
        )
        data = self.random.randrange(99)
        return Edges((2, 1, 1), (ITEMS // 2, 1, 1), tuple(inputs), data, kernel)

    def step(self) -> None:
        """One op on what there is."""
        spec = self.random.choice(self.specs)
        bound: dict[str, Scalar] = {}
        operands: list[Value] = []
        for slot in _slots(spec):
            kind = bound.setdefault(slot, self.random.choice(self.kinds(slot)))
            same = [v for v in operands if v.type == kind]
            # an operand again, or what the other operand was made of: `(a + b) - b`
            inside = [v for o in operands for v in self.parts.get(o, ()) if v.type == kind]
            draw = self.random.random()
            if same and draw < 0.12:
                operands.append(self.random.choice(same))
            elif inside and draw < 0.4:
                operands.append(self.random.choice(inside))
            else:
                operands.append(self.operand(kind))
        attrs: dict[str, Scalar] = {}
        if "to" in spec.attrs:
            first = operands[0].type
            assert isinstance(first, Scalar)
            fits = [t for t in self.types if spec is ops.CAST or t.bits == first.bits]
            attrs["to"] = self.random.choice(fits)
        result = self.builder.emit(spec, *operands, attrs=attrs).result
        assert isinstance(result.type, Scalar)
        self.parts[result] = tuple(operands)
        self.pool[result.type].append(result)
        self.made[result.type].append(result)

    def operand(self, kind: Scalar) -> Value:
        """A constant, what was made lately, or anything."""
        draw = self.random.random()
        if draw < 0.25:
            return self.constant(kind)
        pool = self.pool[kind]
        return pool[-1 - min(int(self.random.expovariate(0.5)), len(pool) - 1)]

    def constant(self, kind: Scalar) -> Value:
        """Neutral elements, the edges of the type, powers of two, and not a number."""
        ones = (1 << kind.bits) - 1
        if kind.is_int:
            shift = 1 << self.random.randrange(kind.bits)
            edges = (0, 1, ones, kind.bits, kind.bits // 2, shift, ones >> 1, ones ^ ones >> 1)
            bits = self.random.choice(edges)
        elif kind == BOOL:
            bits = self.random.randrange(2)
        else:
            edges = (*(0.0, -0.0) * 4, 1.0, -1.0, 2.0, 0.5, float("inf"), float("nan"))
            number = self.random.choice(edges)
            finite = kind.kind == "f8" and abs(number) == float("inf")
            bits = bits_of(kind, 3.0 if finite else number)
        return self.builder.emit(ops.CONST, attrs={"type": kind, "bits": bits & ones}).result
