"""A small concurrent program as hetIR: one kernel that runs many instances of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from hetir.memory.claim import FinalRegister, Observable
from hetir.memory.program import (
    Address,
    Barrier,
    Binary,
    Cas,
    Const,
    Expr,
    Fence,
    Instruction,
    Jump,
    Label,
    Load,
    Operation,
    Program,
    Reg,
    Rmw,
    Space,
    Store,
)

_I32 = ("memory", "out", "met")
_I64 = ("where", "role", "stream", "slot")
_SCALARS = ("rounds", "instances", "streams", "patience")
_COMPARE = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_COMPUTE = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor"}
_UPDATE = {"+": "add", "-": "sub", "&": "and", "|": "or", "^": "xor"}

_Registers = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How instances of a program are written down; each form is another kernel.

    Args:
        slots: how many instances share a workgroup, and its shared memory.
        merge: the seed by which the threads' operations are written in turns, so that devices
            that run work-items in step, or one branch after another, interleave them; None
            writes one thread after the other.
        tickets: each work-item asks what to do next, for devices whose work-items run at the
            same time, but not all of them; else who does what is given.
    """

    slots: int = 1
    merge: int | None = None
    tickets: bool = False


def text(program: Program, observed: Sequence[Observable], form: Form) -> str:
    """The kernel of a program, which runs `instances` of it in `rounds` of each work-item.

    Global location `n` of instance `i` is the element `where[n * instances + i]` of `memory`;
    what `observed[n]` reads goes to `out[n * instances + i]`, but the last values of global
    locations stay in `memory`.

    Without tickets a work-item does what thread `role` does, in instance `round * streams +
    stream`: `role` (-1 for none), `stream` and `slot` have an element a work-item. With them,
    it takes its thread and instance from a counter, the last element of `met`, in each round,
    and looks up to `patience` times at `met[instance]` whether all threads have come.

    Raises:
        ValueError: a program with computed addresses, backward jumps, or barriers that not all
            threads reach.
    """
    return _Writer(program, observed, form).kernel()


def global_places(program: Program) -> tuple[str, ...]:
    """The locations in global memory, in the order of `where`."""
    return tuple(p.name for p in program.locations if p.space is Space.GLOBAL)


@dataclass(slots=True)
class _Writer:
    program: Program
    observed: Sequence[Observable]
    form: Form
    lines: list[str] = field(default_factory=list[str])
    names: int = 0
    random: Random | None = None

    def kernel(self) -> str:
        if self.form.merge is not None:
            self.random = Random(self.form.merge)
        types = dict.fromkeys(_I32, "array<i32[?:1], global>")
        types |= dict.fromkeys(_I64, "array<i64[?:1], global>") | dict.fromkeys(_SCALARS, "i64")
        given = [f"%{name}: {types[name]} from {n}" for n, name in enumerate(types)]
        self._body()
        body = "\n".join(self.lines)
        return f"hetir 1\n\nkernel litmus({', '.join(given)}) {{\n{body}\n}}\n"

    def put(self, line: str) -> None:
        self.lines.append(line)

    def value(self, type_: str, what: str) -> str:
        """A fresh name for the result of an op."""
        self.names += 1
        self.put(f"%v{self.names}: {type_} = {what}")
        return f"%v{self.names}"

    # ---- the frame ---------------------------------------------------------------------------

    def _body(self) -> None:
        for name, type_, value in (
            *(("zero", "i64", 0), ("one", "i64", 1)),
            *(("none", "i32", 0), ("some", "i32", 1), ("all", "i32", len(self.program.threads))),
        ):
            self.put(f"%{name}: {type_} = const {value}")
        if self._shared():
            self.put(
                f"%shared: array<i32[{len(self._shared()) * self.form.slots}], shared> = alloc"
            )
        if not self.form.tickets:
            self.put("%item: i64 = global_id axis=0")
            for name in _I64[1:]:
                self.put(f"%my_{name}: i64 = load %{name}, %item")
        self.put("for %zero, %rounds, %one (%round: i64) {")
        self._round()
        self.put("yield")
        self.put("}")
        self.put("return")

    def _shared(self) -> list[str]:
        return [p.name for p in self.program.locations if p.space is Space.SHARED]

    def _round(self) -> None:
        if self.form.tickets:
            self._ticket()
        else:
            self.put("%before: i64 = mul %round, %streams")
            self.put("%instance: i64 = add %before, %my_stream")
        for number in range(len(self.program.threads)):
            own = self.value("i64", f"const {number}")
            self.put(f"%is{number}: bool = eq %my_role, {own}")
        places: dict[str, tuple[str, str]] = {}
        for number, name in enumerate(global_places(self.program)):
            at = self.value("i64", f"load %where, {self._row(number)}")
            places[name] = "%memory", at
        for number, name in enumerate(self._shared()):
            first = self.value("i64", f"const {number * self.form.slots}")
            places[name] = "%shared", self.value("i64", f"add {first}, %my_slot")
        if self._shared():
            self._initial(places)
        if self.form.tickets:
            self._meet()
        self._threads(places)
        if self._shared():
            self._last(places)

    def _row(self, number: int) -> str:
        """The index of this instance in a row of `where` or `out`."""
        count = self.value("i64", f"const {number}")
        start = self.value("i64", f"mul {count}, %instances")
        return self.value("i64", f"add {start}, %instance")

    def _initial(self, places: Mapping[str, tuple[str, str]]) -> None:
        self.put("if %is0 {")
        for place in self.program.locations:
            if place.space is Space.SHARED:
                array, at = places[place.name]
                initial = self.value("i32", f"const {place.initial}")
                self.put(f"store {array}, {at}, {initial}")
        self._otherwise()
        self.put("barrier scope=workgroup")

    def _last(self, places: Mapping[str, tuple[str, str]]) -> None:
        self.put("barrier scope=workgroup")
        self.put("if %is0 {")
        for number, item in enumerate(self.observed):
            if not isinstance(item, FinalRegister) and places[item.name][0] == "%shared":
                found = self.value("i32", f"load %shared, {places[item.name][1]}")
                self.put(f"store %out, {self._row(number)}, {found}")
        self._otherwise()

    def _otherwise(self) -> None:
        self.put("yield")
        self.put("} else {")
        self.put("yield")
        self.put("}")

    def _ticket(self) -> None:
        """Whoever runs takes the next thread of the earliest instance that has one left."""
        order = "order=relaxed scope=device"
        self.put(f"%drawn: i32 = atomic.rmw %met, %instances, %some kind=add {order}")
        self.put("%ticket: i64 = cast %drawn")
        count = self.value("i64", f"const {len(self.program.threads)}")
        self.put(f"%my_role: i64 = rem %ticket, {count}")
        self.put(f"%instance: i64 = div %ticket, {count}")

    def _meet(self) -> None:
        """Wait for the instance's other threads, but not for ever: they may not run at all."""
        order = "order=relaxed scope=device"
        self.put(f"%came: i32 = atomic.rmw %met, %instance, %some kind=add {order}")
        self.put("for %zero, %patience, %one (%look: i64) {")
        self.put(f"%seen: i32 = atomic.load %met, %instance {order}")
        self.put("%there: bool = ge %seen, %all")
        self.put("if %there {")
        self.put("break")
        self.put("} else {")
        self.put("yield")
        self.put("}")
        self.put("yield")
        self.put("}")

    # ---- the program -------------------------------------------------------------------------

    def _threads(self, places: Mapping[str, tuple[str, str]]) -> None:
        bodies = [_between_barriers(thread.body) for thread in self.program.threads]
        if len({len(parts) for parts in bodies}) > 1:
            raise ValueError("a barrier that not all threads reach")
        known: list[_Registers] = [{} for _ in bodies]
        for turn in range(len(bodies[0])):
            if turn:
                self.put("barrier scope=workgroup")
            last = turn == len(bodies[0]) - 1
            pieces = [self._pieces(parts[turn]) for parts in bodies]
            for number in self._turns([len(p) for p in pieces]):
                piece = pieces[number].pop(0)
                ends = last and not pieces[number]
                self._part(number, piece, known[number], places, ends)

    def _pieces(self, body: Sequence[Instruction]) -> list[Sequence[Instruction]]:
        """What of a thread stands together."""
        jump = next((n for n, item in enumerate(body) if isinstance(item, Jump)), len(body))
        if self.random is None or jump < 2:
            return [body]
        return [*([item] for item in body[: jump - 1]), body[jump - 1 :]]

    def _turns(self, counts: Sequence[int]) -> list[int]:
        """Which thread's next piece comes when."""
        turns = [number for number, count in enumerate(counts) for _ in range(count)]
        if self.random is not None:
            self.random.shuffle(turns)
        return turns

    def _part(
        self,
        number: int,
        body: Sequence[Instruction],
        known: _Registers,
        places: Mapping[str, tuple[str, str]],
        last: bool,
    ) -> None:
        """What one thread does up to its next barrier; later parts see the registers."""
        start = len(self.lines)
        inner = dict(known)
        self._run(number, body, inner, places)
        if last:
            self._keep(number, inner)
        carried = [] if last else [name for name in inner if name not in known]
        fresh: _Registers = {}
        for name in carried:
            self.names += 1
            fresh[name] = f"%v{self.names}"
        results = ", ".join(f"{name}: i32" for name in fresh.values())
        self.lines.insert(start, f"{results}{' = ' * bool(fresh)}if %is{number} {{")
        self.put(" ".join(["yield", ", ".join(inner[name] for name in carried)]))
        self.put("} else {")
        self.put(" ".join(["yield", ", ".join("%none" for _ in carried)]))
        self.put("}")
        known.update(fresh)

    def _run(
        self,
        number: int,
        body: Sequence[Instruction],
        known: _Registers,
        places: Mapping[str, tuple[str, str]],
    ) -> None:
        at = 0
        while at < len(body):
            item = body[at]
            at += 1
            if isinstance(item, Jump):
                end = next(
                    (n for n in range(at, len(body)) if body[n] == Label(name=item.target)), None
                )
                if end is None:
                    raise ValueError(f"a jump to `{item.target}`, which does not follow it")
                self.put(f"if {self._condition(item, known)} {{")
                self.put("yield")
                self.put("} else {")
                inner = dict(known)
                self._run(number, body[at:end], inner, places)
                self._keep(number, {n: v for n, v in inner.items() if n not in known})
                self.put("yield")
                self.put("}")
                at = end
            elif isinstance(item, Fence):
                self.put(f"fence order={item.order} scope={item.scope}")
            elif isinstance(item, Load | Store | Rmw | Cas):
                self._access(item, known, places)
            else:
                assert isinstance(item, Label), item

    def _keep(self, number: int, known: _Registers) -> None:
        """Store what registers ended with."""
        for row, item in enumerate(self.observed):
            if isinstance(item, FinalRegister) and item.thread == number and item.name in known:
                self.put(f"store %out, {self._row(row)}, {known[item.name]}")

    def _condition(self, jump: Jump, known: _Registers) -> str:
        condition = jump.condition or Const(1)
        if isinstance(condition, Binary) and condition.op in _COMPARE:
            left, right = (self._expr(e, known) for e in (condition.left, condition.right))
            return self.value("bool", f"{_COMPARE[condition.op]} {left}, {right}")
        return self.value("bool", f"ne {self._expr(condition, known)}, %none")

    def _expr(self, expr: Expr, known: _Registers) -> str:
        match expr:
            case Const(value=value):
                return self.value("i32", f"const {value}")
            case Reg(name=name):
                return known.get(name, "%none")
            case Binary(op=op, left=left, right=right):
                given = f"{self._expr(left, known)}, {self._expr(right, known)}"
                return self.value("i32", f"{_COMPUTE[op]} {given}")

    def _access(
        self,
        item: Load | Store | Rmw | Cas,
        known: _Registers,
        places: Mapping[str, tuple[str, str]],
    ) -> None:
        where = ", ".join(places[_base(item.address)])
        how = _how(item)
        register = None if isinstance(item, Store) else item.register
        match item:
            case Load():
                found = self.value("i32", f"{'atomic.' * bool(how)}load {where}{how}")
            case Store(value=value):
                given = self._expr(value, known)
                self.put(f"{'atomic.' * bool(how)}store {where}, {given}{how}")
                return
            case Rmw(op=op, operand=operand):
                kind = "exchange" if op == "exchange" else _UPDATE[op]
                given = self._expr(operand, known)
                found = self.value("i32", f"atomic.rmw {where}, {given} kind={kind}{how}")
            case Cas(expected=expected, desired=desired):
                given = f"{self._expr(expected, known)}, {self._expr(desired, known)}"
                found = self.value("i32", f"atomic.cas {where}, {given}{how}")
        if register is not None:
            known[register] = found


def _how(item: Operation) -> str:
    return "" if item.order is None else f" order={item.order} scope={item.scope}"


def _base(address: Address) -> str:
    if address.index is not None:
        raise ValueError(f"a computed address, {address}")
    return address.base


def _between_barriers(body: Sequence[Instruction]) -> list[list[Instruction]]:
    """A thread's body cut at its barriers, none of which may be jumped over."""
    parts: list[list[Instruction]] = [[]]
    for item in body:
        if isinstance(item, Barrier):
            if any(isinstance(i, Jump) for part in parts for i in part):
                raise ValueError("a barrier behind a jump")
            parts.append([])
        else:
            parts[-1].append(item)
    return parts
