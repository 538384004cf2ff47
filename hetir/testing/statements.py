"""Statements of generated Python sources: all that kernels may hold, without races.

Those at which work-items meet stand in uniform flow; in a kernel with such, work-items leave a
loop or the kernel together.
"""

from __future__ import annotations

from collections.abc import Callable

from hetir.ir.types import BOOL, F32, F64, I64, U64
from hetir.testing.expressions import COMPARE, Expressions
from hetir.testing.generate import TYPES, WIDTH, Choose
from hetir.testing.plain_language import MATH

ADDING = ("add", "sub", "max", "min", "xor", "and_", "or_")


class Statements(Expressions):
    """Every statement."""

    def __init__(self, choose: Choose, statements: int, depth: int, *, reports: bool) -> None:
        super().__init__(choose)
        self.reports = reports
        self.count = statements
        self.deepest = depth
        self.inner = 0  # how many loops stand around the statement
        self.uniform = True  # whether the whole workgroup is here
        self.loop_uniform = True  # and was where the innermost loop began
        self.meets = False
        self.items = 1  # of a workgroup
        self.parameters_: list[str] = []
        self.sums: dict[str, str] = {}  # arrays that all update, and how
        self.messages = 0

    def block(self, count: int) -> None:
        """Some statements."""
        for _ in range(count):
            self.statement()

    def statement(self) -> None:
        """Any statement that may stand here."""
        plain: list[Callable[[], None]] = [
            self.assign,
            self.assign,
            self.augment,
            self.store,
            self.swap,
            self.other,
            self.other,
        ]
        if self.meets and self.uniform:
            plain += [self.meet, self.meet]
        if self.vectors:
            plain += [self.assign_vector, self.store_vector]
        if self.indent <= self.deepest:
            plain += [self.branch, self.for_, self.while_, self.branch, self.static_for]
        before = len(self.lines)
        self.pick(plain)()
        if len(self.lines) == before:
            self.say("pass")

    def assign(self) -> None:
        """A new value."""
        name = self.pick(list(self.variables))
        self.say(f"{name} = {self.expression(self.variables[name])}")

    def augment(self) -> None:
        """`+=` and its like."""
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
        """A new vector."""
        name = self.pick(list(self.vectors))
        self.say(f"{name} {self.pick(('=', '+=', '-='))} {self.vector(*self.vectors[name])}")

    def store_vector(self) -> None:
        """A vector into the own row."""
        name = self.pick(list(self.vectors))
        column = self.choose(WIDTH - self.vectors[name][1] + 1)
        self.say(f"hl.store_vector(out, (row, {column}), {name})")

    def swap(self) -> None:
        """Two at once."""
        name = self.pick(list(self.variables))
        kind = self.variables[name]
        other = self.pick([n for n, k in self.variables.items() if k == kind])
        self.say(f"{name}, {other} = {other}, {self.expression(kind, 1)}")

    def store(self) -> None:
        """A number into the own row."""
        column = self.pick((str(self.choose(WIDTH)), f"{self.variable(I64)} % {WIDTH}"))
        self.say(f"out[row, {column}] = {self.expression(self.pick(TYPES), 1)}")

    def nested(self, count: int, *, may_leave: bool = True) -> None:
        """An indented block, that perhaps leaves at its end."""
        self.indent += 1
        self.block(count)
        if may_leave and self.choose(4) == 3:
            exits = ["return"] if self.uniform or not self.meets else []
            if self.inner and (self.uniform or not self.meets or not self.loop_uniform):
                exits = ["break", "continue", "break", *exits]
            self.say(self.pick(exits) if exits else "pass")
        self.indent -= 1

    def branch(self) -> None:
        """`if`, `elif`, `else`."""
        outer = self.uniform
        even = self.even_condition() if self.meets and self.choose(3) == 0 else ""
        self.say(f"if {even or self.condition()}:")
        self.uniform = outer and bool(even)
        self.nested(1 + self.choose(2))
        if self.choose(3) == 2:
            self.uniform = False
            self.say(f"elif {self.condition()}:")
            self.nested(1 + self.choose(2))
        if self.choose(2):
            self.say("else:")
            self.nested(1 + self.choose(2))
        self.uniform = outer

    def even_number(self) -> str:
        """A number that is the same in the whole workgroup."""
        return self.pick(["2", *(f"hl.i64({name})" for name in self.even)])

    def even_condition(self) -> str:
        """A condition that is the same in the whole workgroup."""
        return f"{self.even_number()} % 3 {self.pick(COMPARE)} {self.choose(3)}"

    def looped(self, count: int, *, uniform: bool) -> None:
        """The body of a loop."""
        outer = self.uniform, self.loop_uniform
        self.uniform = self.loop_uniform = self.uniform and uniform
        self.inner += 1
        self.nested(count, may_leave=False)
        self.inner -= 1
        self.uniform, self.loop_uniform = outer

    def for_(self) -> None:
        """A loop over a range."""
        index = f"i{next(self.names)}"
        step = self.pick(("", "", f", {self.pick(('2', '-1', '-2'))}"))
        even = self.meets and self.choose(2) == 0
        bound = (lambda: f"{self.even_number()} % 4") if even else self.bound
        start = self.pick(("", f"{bound()}, ")) or ("0, " if step else "")
        self.say(f"for {index} in range({start}{bound()}{step}):")
        self.fixed[index] = I64
        self.even += [index] if even else []
        self.looped(1 + self.choose(3), uniform=even)
        self.even = [n for n in self.even if n != index]
        del self.fixed[index]

    def while_(self) -> None:
        """A loop that counts, so that it ends."""
        counter = f"n{next(self.names)}"
        self.say(f"{counter} = hl.i64(0)")
        forever = self.choose(3) == 2
        extra = self.pick(("", f" and {self.condition()}"))
        self.say("while True:" if forever else f"while {counter} < {self.bound()}{extra}:")
        self.indent += 1
        if forever:
            self.say(f"if {counter} >= {self.bound()}:")
            self.say("    break")
        self.say(f"{counter} += 1")
        self.indent -= 1
        self.looped(1 + self.choose(3), uniform=False)

    def static_for(self) -> None:
        """An unrolled loop."""
        index = f"k{next(self.names)}"
        steps = self.pick((f"hl.static_range({self.choose(3)})", "(1, 2)"))
        self.say(f"for {index} in {steps}:")
        outer, self.inner = self.inner, 0
        self.indent += 1
        name = self.pick(list(self.variables))
        kind = self.variables[name]
        self.say(f"{name} = {self.expression(kind, 1)}")
        self.block(self.choose(2))
        self.indent -= 1
        self.inner = outer

    # -- what is not plain computing

    def other(self) -> None:
        """A report, an atomic, a private array, a sub-array, a function of mathematics."""
        makes = [self.own_atomic, self.twice, self.typed, self.fence]
        makes += [self.report] if self.reports else []
        makes += [self.add_up, self.add_up] if self.sums else []
        makes += [self.mathematics] if self.choose(2) else []
        makes += [self.part, self.private] if self.indent == 1 else []
        self.pick(makes)()

    def report(self) -> None:
        """A printed line or a check."""
        self.messages += 1
        value, number = self.variable(self.pick(TYPES)), self.messages
        check = f"check {number}"
        self.say(
            self.pick(
                (
                    f'hl.print("line {number} {{}}", {value})',
                    f'hl.print(f"line {number}: {{{value}}}")',
                    f'assert {self.condition()}, "{check}"',
                    f'hl.assert_({self.condition()}, "{check}")',
                )
            )
        )

    def twice(self) -> None:
        """One value for two variables."""
        one = self.pick(list(self.variables))
        kind = self.variables[one]
        two = self.pick([n for n, k in self.variables.items() if k == kind])
        form = self.pick((f"{one} = {two} = {{}}", f"{one} = ({two} := {{}})"))
        self.say(form.format(self.expression(kind, 1)))

    def typed(self) -> None:
        """An annotation converts."""
        name = self.pick(list(self.variables))
        value = self.expression(self.pick(TYPES), 1)
        self.say(f"{name}: {self.hl(self.variables[name])} = {value}")

    def part(self) -> None:
        """A sub-array that is not empty, to read from."""
        name, given = self.pick(self.readable)
        if not given.extents:
            return
        first = f"{self.variable(I64)} % {name}.shape[0]"
        span = self.pick((f"{first}:", "::-1", "::2", f"{first}::-1", f":{first} + 1"))
        new = f"p{next(self.names)}"
        self.say(f"{new} = {name}[{', '.join([span, *':' * (len(given.extents) - 1)])}]")
        self.readable.append((new, given))

    def private(self) -> None:
        """An array of the work-item's own."""
        kind, count, name = self.pick(TYPES), 1 + self.choose(3), f"m{next(self.names)}"
        self.say(f"{name} = hl.private({count}, {self.hl(kind)})")
        for index in range(count):
            self.say(f"{name}[{index}] = {self.variable(kind)}")
        self.tiles[name] = kind, count

    def mathematics(self) -> None:
        """A function of one float."""
        name, kind = self.pick(list(self.variables)), self.pick((F32, F32, F64))
        call = f"hl.{self.pick(MATH)}({self.variable(kind)})"
        same = self.variables[name] == kind
        self.say(f"{name} = {call if same else f'{self.hl(self.variables[name])}({call})'}")

    def own_atomic(self) -> None:
        """An atomic at the work-item's own place."""
        kind = self.inputs[0].kind
        if kind == BOOL:
            return
        where = f"out, (row, {self.choose(WIDTH)})"
        value, order = self.variable(kind), f'order="{self.pick(("relaxed", "seq_cst"))}"'
        bitwise = ("xor", "and_", "or_") if kind.is_int else ()
        update = f"hl.atomic_{self.pick(('exchange', 'add', 'sub', 'min', 'max', *bitwise))}"
        calls = (
            f"{update}({where}, {value}, {order})",
            f"hl.atomic_compare_exchange({where}, {self.variable(kind)}, {value}, {order})",
            f"hl.atomic_load({where}, {order})",
        )
        names = [n for n, k in self.variables.items() if k == kind]
        target = f"{self.pick(names)} = " if names else ""
        self.say(
            target + self.pick(calls)
            if self.choose(4)
            else f"hl.atomic_store({where}, {value}, {order})"
        )

    def fence(self) -> None:
        """A fence, which orders nothing that matters here."""
        self.say(f'hl.fence("{self.pick(("acq_rel", "seq_cst", "acquire", "release"))}")')

    def add_up(self) -> None:
        """All work-items update any element in one way, and nobody reads it."""
        name = self.pick(list(self.sums))
        kind = next(i.kind for n, i in zip(self.parameters_, self.inputs, strict=True) if n == name)
        how = self.sums[name]
        self.say(f"hl.atomic_{how}({name}, {self.variable(I64)} % 4, {self.variable(kind)})")

    # -- where work-items meet

    def meet(self) -> None:
        """An exchange through shared memory, or between lanes."""
        makes = [self.lanes, self.exchange, self.lanes, self.whole]
        if not any(name.startswith("t") for name in self.tiles):
            makes = [self.lanes, self.lanes, self.whole]
        self.pick(makes)()

    def shared(self) -> None:
        """A shared array, with something in it."""
        name, kind = f"t{next(self.names)}", self.pick(TYPES)
        self.say(f"{name} = hl.shared({self.items}, {self.hl(kind)})")
        self.fill(name, self.variable(kind))
        self.tiles[name] = kind, self.items

    def exchange(self) -> None:
        """Each work-item writes its own place, between two barriers."""
        name = self.pick([n for n in self.tiles if n.startswith("t")])
        kind = self.tiles[name][0]
        value = f"b{next(self.names)}"  # what it may read of the tile, it reads before
        self.say(f"{value} = {self.expression(kind, 1)}")
        self.fill(name, value)

    def fill(self, name: str, value: str) -> None:
        """Write the own place."""
        self.say("hl.barrier()")
        self.say(f"{name}[place] = {value}")
        self.say("hl.barrier()")

    def lanes(self) -> None:
        """A subgroup operation."""
        where = self.pick(("", "", f", where={self.condition()}"))
        name = self.pick(list(self.variables))
        kind = self.variables[name]
        value, lane = self.variable(kind), f"{self.variable(I64)} % 32"
        kinds = ("and", "or", "xor") if kind == BOOL else ("add", "mul", "min", "max")
        if kind.is_int:
            kinds += ("and", "or", "xor")
        op = self.pick(kinds)
        calls = [
            f'hl.subgroup_reduce({value}, "{op}"{where})',
            f'hl.subgroup_scan({value}, "{op}", {self.pick(("True", "False"))}{where})',
            f"hl.shuffle({value}, {lane}{where})",
            f"hl.shuffle_xor({value}, {lane}{where})",
            f"hl.shuffle_up({value}, {lane}{where})",
            f"hl.shuffle_down({value}, {lane}{where})",
        ]
        vote = f"hl.{self.pick(('any_', 'all_'))}({self.condition()}{where})"
        ballot = f"hl.ballot({self.condition()}{where})"
        calls.append(vote if kind == BOOL else f"{self.hl(kind)}({vote})")
        calls.append(ballot if kind == U64 else f"{self.hl(kind)}({ballot})")
        self.say(f"{name} = {self.pick(calls)}")

    def whole(self) -> None:
        """A reduction over the workgroup."""
        names = [n for n, k in self.variables.items() if k != BOOL]
        if names:
            name = self.pick(names)
            op = self.pick(("add", "mul", "min", "max"))
            self.say(f'{name} = hl.workgroup_reduce({self.variable(self.variables[name])}, "{op}")')
