"""Expressions of generated Python sources, typed as the kernel language types them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hetir.ir.types import BOOL, F32, I64, Scalar
from hetir.testing.cases import Input
from hetir.testing.generate import TYPES, Choose, T
from hetir.testing.plain import common

_INTEGER_CALLS = (
    "hl.popcount({0})",
    "hl.clz({0})",
    "hl.div({0}, {1})",
    "hl.rem({0}, {1})",
    "hl.mul_hi({0}, {1})",
)
_FLOAT_CALLS = (
    "hl.sqrt({0})",
    "hl.floor({0})",
    "hl.rint({0})",
    "hl.fma({0}, {1}, {0})",
    "hl.rem({0}, {1})",
)
ELEMENTS = tuple(t for t in TYPES if t != BOOL)
COMPARE = ("<", "<=", ">", ">=", "==", "!=")
UNLIKE = {
    kind: pairs
    for kind in ELEMENTS
    if (pairs := [p for p in itertools.permutations(ELEMENTS, 2) if common(*p) == kind not in p])
}
"""By the type in which they meet: pairs of other types, as f16 and bf16 do in f32."""
_WEAK = {"int": ("1", "2", "5"), "uint": ("1", "2", "5"), "float": ("0.5", "2.0", "3")}


class Expressions:
    """Choices, and expressions over what is in scope."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self.lines: list[str] = []
        self.indent: int = 1
        self.variables: dict[str, Scalar] = {}
        self.vectors: dict[str, tuple[Scalar, int]] = {}
        self.fixed: dict[str, Scalar] = {}  # loop indices and ids: read only
        self.even: list[str] = []  # those of them that are the same in the whole workgroup
        self.inputs: list[Input] = []
        self.readable: list[tuple[str, Input]] = []
        self.tiles: dict[str, tuple[Scalar, int]] = {}  # shared and private arrays
        self.names = itertools.count()

    def pick(self, options: Sequence[T]) -> T:
        """One of several, the first the simplest."""
        return options[self.choose(len(options))]

    def say(self, line: str) -> None:
        """Write a line."""
        self.lines.append("    " * self.indent + line)

    def hl(self, kind: Scalar) -> str:
        """A type's name."""
        return f"hl.{'bool_' if kind == BOOL else kind.name}"

    def literal(self, kind: Scalar) -> str:
        """A number, by itself."""
        if kind == BOOL:
            return self.pick(("True", "False"))
        if kind.is_float:
            return self.pick(("0.0", "1.0", "0.5", "3.0", "100.0", "-2.5"))
        top = (1 << (kind.bits - kind.signed)) - 1
        return self.pick(("0", "1", "2", "3", "7", str(kind.bits - 1), str(top)))

    def variable(self, kind: Scalar) -> str:
        """A variable, a literal, or another type's variable converted."""
        names = [n for n, k in (*self.fixed.items(), *self.variables.items()) if k == kind]
        others = [*self.fixed, *self.variables]
        which = self.choose(4)
        vectors = [n for n, v in self.vectors.items() if v[0] == kind]
        if vectors and which == 3:
            return self.element(self.pick(vectors))
        if names and which < 3:
            return self.pick(names[::-1])
        if others and which < 3:
            return f"{self.hl(kind)}({self.pick(others[::-1])})"
        return f"{self.hl(kind)}({self.literal(kind)})"

    def element(self, name: str) -> str:
        """A number out of a vector variable."""
        form = self.choose(4)
        if form == 0:
            return f"{name}.{self.pick('xyzw'[: self.vectors[name][1]])}"
        if form == 1:
            return f"hl.dot({name}, {name})"
        if form == 2:
            return f"sum({name})"
        index = self.pick([n for n, k in self.fixed.items() if k == I64])
        return f"{name}[{index} % {self.vectors[name][1]}]"

    def vector(self, kind: Scalar, length: int, depth: int = 1) -> str:
        """A vector: a variable, made of numbers, or computed."""
        same = [n for n, v in self.vectors.items() if v == (kind, length)]
        form = self.choose(8) if depth else self.choose(2)
        if form == 0 and same:
            return self.pick(same)
        if form < 2:
            count = self.pick((1, length))
            items = ", ".join(self.expression(kind, 1) for _ in range(count))
            return f"hl.vector({self.hl(kind)}, {length})({items})"
        a, b = (self.vector(kind, length, depth - 1) for _ in range(2))
        if form == 2:
            return self.pick((f"(-{a})", f"{a}[::-1]", f"hl.min({a}, {b})", f"hl.abs({a})"))
        if form == 3:
            return f"({a} if {self.condition()} else {b})"
        if form == 4:
            return f"hl.where({a} < {b}, {a}, {self.variable(kind)})"
        if form == 5:
            index = self.pick([n for n, k in self.fixed.items() if k == I64])
            return f"hl.insert({a}, {index} % {length}, {self.variable(kind)})"
        other = self.pick((b, b, self.variable(kind)))
        return f"({a} {self.pick(('+', '-', '*', '//', '%'))} {other})"

    def expression(self, kind: Scalar, depth: int = 2) -> str:
        """Anything of a type."""
        if depth == 0 or self.choose(4) == 0:
            return self.variable(kind)
        a, b = (self.expression(kind, depth - 1) for _ in range(2))
        form = self.choose(4)
        if form == 1:
            cond = self.condition(depth - 1)
            return self.pick((f"({a} if {cond} else {b})", f"hl.where({cond}, {a}, {b})"))
        loads = [n for n in self.readable if n[1].kind == kind]
        tiles = [n for n, (t, _) in self.tiles.items() if t == kind]
        if form == 2 and tiles and self.choose(2):
            name = self.pick(tiles)
            return f"{name}[{self.variable(I64)} % {self.tiles[name][1]}]"
        if form == 2 and loads:
            return self.load(*self.pick(loads))
        if kind == BOOL:
            return self.condition(depth)
        operators = (
            "+",
            "-",
            "*",
            "//",
            "%",
            *(() if kind.is_float else ("&", "|", "^", "<<", ">>")),
        )
        calls = _FLOAT_CALLS if kind.is_float else _INTEGER_CALLS
        if form == 3:
            common = ("hl.min({0}, {1})", "hl.max({0}, {1})", "hl.abs({0})", "(-{0})")
            return self.pick((*common, *calls)).format(a, b)
        if kind.is_float:
            operators = (*operators, "/")
        operator, other = self.pick(operators), self.choose(7)
        if other == 4 and operator in ("+", "-", "*", "//", "%", "/"):
            b = self.pick(_WEAK[kind.kind])
        elif other == 5 and operator not in ("<<", ">>"):
            b = self.variable(self.narrower(kind))
        elif other == 6 and operator != "/" and kind in UNLIKE:
            return self.unlike(kind)
        if kind == F32 and operator == "/" and self.choose(3) == 2:
            a, b = self.variable(I64), self.variable(I64)
        return f"({a} {operator} {b})"

    def unlike(self, kind: Scalar) -> str:
        """Two numbers that meet in `kind`, which is the type of neither."""
        a, b = (self.variable(t) for t in self.pick(UNLIKE[kind]))
        more = "{0} / {1}" if kind.is_float else "{0} ^ {1}"
        forms = (more, "{0} + {1}", "{0} * {1}", "{0} - {1}", "{0} % {1}", "hl.max({0}, {1})")
        return f"({self.pick(forms).format(a, b)})"

    def narrower(self, kind: Scalar) -> Scalar:
        """A type that beside `kind` gives `kind`."""
        return self.pick([t for t in TYPES if common(kind, t) == kind and t != BOOL])

    def condition(self, depth: int = 1) -> str:
        """A bool."""
        form = self.choose(5) if depth > 0 else 0
        if form == 3 and self.vectors and self.choose(3) == 0:
            name = self.pick(list(self.vectors))
            return f"{self.pick(('any', 'all'))}({name} > {self.variable(self.vectors[name][0])})"
        if form == 1:
            one, two = self.condition(depth - 1), self.condition(depth - 1)
            return f"({one} {self.pick(('and', 'or'))} {two})"
        if form == 2:
            return f"(not {self.condition(depth - 1)})"
        if form == 3:
            return self.variable(BOOL)
        kind = self.pick([t for t in TYPES if t != BOOL])
        a, b = self.expression(kind, 1), self.expression(kind, 1)
        if form == 4:
            c = self.variable(kind)
            return f"({a} {self.pick(COMPARE[:4])} {b} {self.pick(COMPARE[:4])} {c})"
        return f"({a} {self.pick(COMPARE)} {b})"

    def load(self, name: str, array: Input) -> str:
        """An element of an array, in bounds."""
        indices = [
            f"{self.variable(I64)} % {name}.shape[{axis}]"
            for axis in range(len(array.extents or ()))
        ]
        return f"{name}[{', '.join(indices)}]"

    def bound(self) -> str:
        """A small number, from 0."""
        return self.pick((str(self.choose(5)), f"{self.variable(I64)} % 5"))
