"""Random kernels as Python source: typed variables, nested control flow, helper functions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from hetir.ir.types import F32, I64, ArrayType, Scalar
from hetir.testing.cases import Input, Said, Written
from hetir.testing.expressions import ELEMENTS, UNLIKE
from hetir.testing.generate import TYPES, WIDTH, Choose
from hetir.testing.plain_language import function_of
from hetir.testing.plain_run import run_plain
from hetir.testing.reproduce import SOURCE_HEAD, SOURCE_RUN, script
from hetir.testing.statements import ADDING, Statements


@dataclass(frozen=True, slots=True, repr=False)
class SourceCase(Written):
    """A generated source file; its function `generated` is the kernel."""

    source: str

    def function(self) -> FunctionType:
        """The kernel's Python function; its source can be found as for one in a file."""
        return function_of(self.source, "generated")

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
        arrays, said = self.ran()
        expected = dict(zip(outputs, arrays, strict=True))
        lines = [line for _, _, line in said.lines]
        launch = (self.grid, self.workgroup)
        text = self.source.replace("def generated(", "@hetir.kernel\ndef generated(")
        return script(SOURCE_HEAD, text, SOURCE_RUN, self.arguments(), expected, lines, launch)

    def plain(self) -> list[Any]:
        """The written arrays after Python itself ran the source."""
        return self.ran()[0]

    def ran(self) -> tuple[list[Any], Said]:
        """The same, and what the source said."""
        arguments = self.arguments()
        kinds = [i.kind for i in self.inputs]
        said = run_plain(self.source, "generated", kinds, arguments, self.grid, self.workgroup)
        return self.written(arguments), said


def generate_source(
    choose: Choose, statements: int = 6, depth: int = 3, *, reports: bool = False
) -> SourceCase:
    """A kernel's source with its launch and its arguments.

    With `reports` it prints and asserts; its checks fail for some work-items.
    """
    return _Writer(choose, statements, depth, reports=reports).case()


class _Writer(Statements):
    """The file around the statements."""

    # -- the file

    def case(self) -> SourceCase:
        workgroup = (1 + self.choose(9), 1 + self.choose(2), 1 + (self.choose(6) == 5))
        if self.choose(6) == 5:
            workgroup = (self.pick((1, 32, 40)), 1, 1)
        grid = (1 + self.choose(3), 1 + (self.choose(4) == 3), 1)
        self.items = math.prod(workgroup)
        self.parameters_ = self.parameters(self.items * math.prod(grid))
        helper = self.helper()
        self.ids()
        for _ in range(2 + self.choose(4)):
            kind = self.pick(TYPES)
            name = f"v{len(self.variables)}"
            self.say(f"{name} = {self.expression(kind)}")
            self.variables[name] = kind
        self.helper_call(helper)
        self.meets = self.choose(3) == 2
        for _ in range(self.choose(2) if self.meets else 0):
            self.shared()
        for _ in range(self.choose(3)):
            name = f"w{len(self.vectors)}"
            kind = self.pick(ELEMENTS), 2 + self.choose(WIDTH - 1)
            self.say(f"{name} = {self.vector(*kind)}")
            self.vectors[name] = kind
        self.block(2 + self.choose(self.count))
        for column in range(WIDTH):
            value = self.variable(self.pick(list(self.variables.values())))
            if self.choose(4) == 3:
                value = self.unlike(self.pick(list(UNLIKE)))
            self.say(f"out[row, {column}] = {value}")
        if self.reports:
            # a printed number shows its type
            two = ", ".join(map(self.unlike, (F32, self.pick(list(UNLIKE)))))
            self.say(f'hl.print("meet {{}} {{}}", {two})')
        head = [*helper[0], "", "", f"def generated({', '.join(self.parameters_)}):"]
        text = "\n".join([*head, *self.lines, ""])
        return SourceCase(grid, workgroup, tuple(self.inputs), self.choose(1 << 16), text)

    def ids(self) -> None:
        """The work-item's place in its workgroup, and its row."""
        self.say("rows = hl.local_id(1) + hl.group_size(1) * hl.local_id(2)")
        self.say("place = hl.local_id(0) + hl.group_size(0) * rows")
        self.say("size = hl.group_size(0) * hl.group_size(1) * hl.group_size(2)")
        self.say("row = (hl.group_id(0) + hl.num_groups(0) * hl.group_id(1)) * size + place")
        self.fixed |= {"row": I64, "place": I64}
        if self.choose(2):
            name = self.pick(("lane_id()", "subgroup_id()", "global_id(0)", "global_size(1)"))
            self.say(f"some = hl.{name}")
            self.fixed["some"] = I64
        self.even = [name for name in self.fixed if name.startswith("s") and name[1:].isdigit()]

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
        if self.choose(3) == 2:
            kind = self.pick([t for t in TYPES if t.is_int and t.bits >= 32])
            self.inputs.append(Input(kind, (4,), "C", writes=True, zero=True))
            names.append("sums")
            self.sums["sums"] = self.pick(ADDING)
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
