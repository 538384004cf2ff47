"""Random kernels as Python source: typed variables, nested control flow, helper functions."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import hetir.lang as hl
from hetir.ir.types import BOOL, I64, ArrayType, Scalar
from hetir.testing.cases import Input, Written
from hetir.testing.generate import TYPES, WIDTH, Choose, T
from hetir.testing.plain import run_plain
from hetir.testing.reproduce import SOURCE_HEAD, SOURCE_RUN, script

_NUMBERS = itertools.count()
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
_ELEMENTS = tuple(t for t in TYPES if t != BOOL)
_COMPARE = ("<", "<=", ">", ">=", "==", "!=")


@dataclass(frozen=True, slots=True, repr=False)
class SourceCase(Written):
    """A generated source file; its function `generated` is the kernel."""

    source: str

    def function(self) -> FunctionType:
        """The kernel's Python function; its source can be found as for one in a file."""
        file = f"<generated {next(_NUMBERS)}>"
        linecache.cache[file] = len(self.source), None, self.source.splitlines(True), file
        namespace: dict[str, Any] = {"hl": hl}
        exec(compile(self.source, file, "exec"), namespace)  # our own generated text
        return namespace["generated"]

    def types(self) -> tuple[Scalar | ArrayType, ...]:
        """What the kernel is specialised on."""
        return tuple(
            i.kind if i.extents is None else ArrayType(i.kind, len(i.extents)) for i in self.inputs
        )

    def __repr__(self) -> str:
        """The script, for whoever reads a failure."""
        return self.script()

    def script(self) -> str:
        """A Python script that needs hetir and NumPy only, and fails where results differ.

        It expects what Python itself computes (see `plain`).
        """
        outputs = [n for n, given in enumerate(self.inputs) if given.writes]
        expected = dict(zip(outputs, self.plain(), strict=True))
        launch = (self.grid, self.workgroup)
        text = self.source.replace("def generated(", "@hetir.kernel\ndef generated(")
        return script(SOURCE_HEAD, text, SOURCE_RUN, self.arguments(), expected, (), launch)

    def plain(self) -> list[Any]:
        """The written arrays after Python itself ran the source."""
        arguments = self.arguments()
        kinds = [i.kind for i in self.inputs]
        run_plain(self.source, "generated", kinds, arguments, self.grid, self.workgroup)
        return self.written(arguments)


def generate_source(choose: Choose, statements: int = 6, depth: int = 3) -> SourceCase:
    """A kernel's source with its launch and its arguments."""
    return _Writer(choose, statements, depth).case()


class _Writer:
    def __init__(self, choose: Choose, statements: int, depth: int) -> None:
        self.choose = choose
        self.count = statements
        self.deepest = depth
        self.lines: list[str] = []
        self.indent = 1
        self.variables: dict[str, Scalar] = {}
        self.vectors: dict[str, tuple[Scalar, int]] = {}
        self.fixed: dict[str, Scalar] = {}  # loop indices and ids: read only
        self.inputs: list[Input] = []
        self.readable: list[tuple[str, Input]] = []
        self.names = itertools.count()
        self.inner = 0  # how many loops stand around the statement

    def pick(self, options: Sequence[T]) -> T:
        return options[self.choose(len(options))]

    def say(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    # -- the file

    def case(self) -> SourceCase:
        workgroup = (1 + self.choose(9), 1 + self.choose(2), 1)
        grid = (1 + self.choose(3), 1, 1)
        items = workgroup[0] * workgroup[1] * grid[0]
        parameters = self.parameters(items)
        helper = self.helper()
        self.say("row = hl.group_id(0) * hl.group_size(0) + hl.local_id(0)")
        self.say("row = row * hl.group_size(1) + hl.local_id(1)")
        self.fixed["row"] = I64
        for _ in range(2 + self.choose(4)):
            kind = self.pick(TYPES)
            name = f"v{len(self.variables)}"
            self.say(f"{name} = {self.expression(kind)}")
            self.variables[name] = kind
        self.helper_call(helper)
        for _ in range(self.choose(3)):
            name = f"w{len(self.vectors)}"
            kind = self.pick(_ELEMENTS), 2 + self.choose(WIDTH - 1)
            self.say(f"{name} = {self.vector(*kind)}")
            self.vectors[name] = kind
        self.block(2 + self.choose(self.count))
        for column in range(WIDTH):
            self.say(
                f"out[row, {column}] = {self.variable(self.pick(list(self.variables.values())))}"
            )
        head = [*helper[0], "", "", f"def generated({', '.join(parameters)}):"]
        text = "\n".join([*head, *self.lines, ""])
        return SourceCase(grid, workgroup, tuple(self.inputs), self.choose(1 << 16), text)

    def parameters(self, items: int) -> list[str]:
        kind = self.pick(TYPES)
        self.inputs.append(Input(kind, (items, WIDTH), self.pick(("C", "F", "step")), writes=True))
        names = ["out"]
        for number in range(1 + self.choose(2)):
            extents = tuple(1 + self.choose(5) for _ in range(1 + self.choose(2)))
            layout = self.pick(("C", "reversed", "step", "broadcast"))
            made = Input(self.pick(TYPES), extents, layout, writes=False)
            self.inputs.append(made)
            names.append(f"x{number}")
            self.readable.append((names[-1], made))
        for number in range(self.choose(3)):
            kind = self.pick(TYPES)
            self.inputs.append(Input(kind, None, "C", writes=False))
            names.append(f"s{number}")
            self.fixed[names[-1]] = kind
        return names

    def helper(self) -> tuple[list[str], Scalar, tuple[Scalar, Scalar]]:
        """A function with early returns, also out of a loop."""
        one, two, result = (self.pick(TYPES) for _ in range(3))
        outer = self.lines, self.fixed, self.readable
        self.lines, self.fixed, self.readable = [], {"a": one, "b": two}, []
        self.say(f"if {self.condition()}:")
        self.say(f"    return {self.expression(result)}")
        self.say(f"for i in range({self.bound()}):")
        self.fixed["i"] = I64
        self.say(f"    if {self.condition()}:")
        self.say(f"        return {self.expression(result)}")
        del self.fixed["i"]
        self.say(f"return {self.expression(result)}")
        body, (self.lines, self.fixed, self.readable) = self.lines, outer
        return ["def helper(a, b):", *body], result, (one, two)

    def helper_call(self, helper: tuple[list[str], Scalar, tuple[Scalar, Scalar]]) -> None:
        _, kind, (one, two) = helper
        name = f"v{len(self.variables)}"
        self.say(f"{name} = helper({self.expression(one)}, {self.expression(two)})")
        self.variables[name] = kind

    # -- expressions

    def hl(self, kind: Scalar) -> str:
        return f"hl.{'bool_' if kind == BOOL else kind.name}"

    def literal(self, kind: Scalar) -> str:
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
        if depth == 0 or self.choose(4) == 0:
            return self.variable(kind)
        a, b = (self.expression(kind, depth - 1) for _ in range(2))
        form = self.choose(4)
        if form == 1:
            cond = self.condition(depth - 1)
            return self.pick((f"({a} if {cond} else {b})", f"hl.where({cond}, {a}, {b})"))
        loads = [n for n in self.readable if n[1].kind == kind]
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
        return f"({a} {self.pick(operators)} {b})"

    def condition(self, depth: int = 1) -> str:
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
            return f"({a} {self.pick(_COMPARE[:4])} {b} {self.pick(_COMPARE[:4])} {c})"
        return f"({a} {self.pick(_COMPARE)} {b})"

    def load(self, name: str, array: Input) -> str:
        indices = [
            f"{self.variable(I64)} % {name}.shape[{axis}]"
            for axis in range(len(array.extents or ()))
        ]
        return f"{name}[{', '.join(indices)}]"

    def bound(self) -> str:
        return self.pick((str(self.choose(5)), f"{self.variable(I64)} % 5"))

    # -- statements

    def block(self, count: int) -> None:
        for _ in range(count):
            self.statement()

    def statement(self) -> None:
        plain: list[Callable[[], None]] = [
            self.assign,
            self.assign,
            self.augment,
            self.store,
            self.swap,
        ]
        if self.vectors:
            plain += [self.assign_vector, self.store_vector]
        if self.indent <= self.deepest:
            plain += [self.branch, self.for_, self.while_, self.branch, self.static_for]
        self.pick(plain)()

    def assign(self) -> None:
        name = self.pick(list(self.variables))
        self.say(f"{name} = {self.expression(self.variables[name])}")

    def augment(self) -> None:
        name = self.pick(list(self.variables))
        kind = self.variables[name]
        if kind == BOOL:
            self.assign()
            return
        operators = (
            "+=",
            "-=",
            "*=",
            "//=",
            "%=",
            *(() if kind.is_float else ("&=", "^=", "<<=", ">>=")),
        )
        self.say(f"{name} {self.pick(operators)} {self.expression(kind, 1)}")

    def assign_vector(self) -> None:
        name = self.pick(list(self.vectors))
        self.say(f"{name} {self.pick(('=', '+=', '-='))} {self.vector(*self.vectors[name])}")

    def store_vector(self) -> None:
        name = self.pick(list(self.vectors))
        column = self.choose(WIDTH - self.vectors[name][1] + 1)
        self.say(f"hl.store_vector(out, (row, {column}), {name})")

    def swap(self) -> None:
        name = self.pick(list(self.variables))
        kind = self.variables[name]
        other = self.pick([n for n, k in self.variables.items() if k == kind])
        self.say(f"{name}, {other} = {other}, {self.expression(kind, 1)}")

    def store(self) -> None:
        column = self.pick((str(self.choose(WIDTH)), f"{self.variable(I64)} % {WIDTH}"))
        self.say(f"out[row, {column}] = {self.expression(self.pick(TYPES), 1)}")

    def nested(self, count: int, *, may_leave: bool = True) -> None:
        self.indent += 1
        self.block(count)
        if may_leave and self.choose(4) == 3:
            exits = ["return"] if self.inner == 0 else ["break", "continue", "break", "return"]
            self.say(self.pick(exits))
        self.indent -= 1

    def branch(self) -> None:
        self.say(f"if {self.condition()}:")
        self.nested(1 + self.choose(2))
        if self.choose(3) == 2:
            self.say(f"elif {self.condition()}:")
            self.nested(1 + self.choose(2))
        if self.choose(2):
            self.say("else:")
            self.nested(1 + self.choose(2))

    def for_(self) -> None:
        index = f"i{next(self.names)}"
        step = self.pick(("", "", f", {self.pick(('2', '-1', '-2'))}"))
        start = self.pick(("", f"{self.bound()}, ")) or ("0, " if step else "")
        self.say(f"for {index} in range({start}{self.bound()}{step}):")
        self.fixed[index] = I64
        self.inner += 1
        self.nested(1 + self.choose(3), may_leave=False)
        self.inner -= 1
        del self.fixed[index]

    def while_(self) -> None:
        counter = f"n{next(self.names)}"
        self.say(f"{counter} = hl.i64(0)")
        extra = self.pick(("", f" and {self.condition()}"))
        self.say(f"while {counter} < {self.bound()}{extra}:")
        self.indent += 1
        self.say(f"{counter} += 1")
        self.indent -= 1
        self.inner += 1
        self.nested(1 + self.choose(3), may_leave=False)
        self.inner -= 1

    def static_for(self) -> None:
        index = f"k{next(self.names)}"
        self.say(f"for {index} in hl.static_range({self.choose(3)}):")
        outer, self.inner = self.inner, 0
        self.indent += 1
        name = self.pick(list(self.variables))
        kind = self.variables[name]
        self.say(f"{name} = {self.expression(kind, 1)}")
        self.block(self.choose(2))
        self.indent -= 1
        self.inner = outer
