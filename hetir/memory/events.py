"""From a program to its possible events: every path of every thread, each event with a guard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hetir.memory.logic import FALSE, TRUE, Logic
from hetir.memory.program import (
    Address,
    Assign,
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
    Location,
    Operation,
    Program,
    Reg,
    Rmw,
    Store,
    evaluate,
)
from hetir.memory.unroll import STUCK, unroll

Values = dict[int, int]
"""What a value may be: each possible integer with the literal that says so."""

Places = dict[str, int]
"""Where an access may go: each possible location with the literal that says so."""

Uses = frozenset[int]
"""The reads that a value or a branch was computed from, as event numbers."""

NOTHING: Uses = frozenset()

_Getter = Callable[[Expr], set[int]]


@dataclass(slots=True, kw_only=True)
class Event:
    """One possible step of one thread; it happens where the literal `happens` holds.

    `places` are the locations by storage, `references` by virtual address. `thread` is -1 for the
    writes of initial values. A read-modify-write is one event that reads and writes.
    """

    number: int
    thread: int
    operation: Operation
    happens: int
    reads: bool = False
    writes: bool = False
    places: Places = field(default_factory=dict[str, int])
    references: Places = field(default_factory=dict[str, int])
    read: Values = field(default_factory=dict[int, int])
    written: Values = field(default_factory=dict[int, int])
    data: Uses = NOTHING
    address: Uses = NOTHING
    control: Uses = NOTHING
    key: Values = field(default_factory=dict[int, int])
    count: Values = field(default_factory=dict[int, int])
    passed: int = TRUE
    occurrence: int = 0

    @property
    def is_fence(self) -> bool:
        """Whether the event is a fence."""
        return isinstance(self.operation, Fence)

    @property
    def is_barrier(self) -> bool:
        """Whether the event is the arrival at a barrier."""
        return isinstance(self.operation, Barrier)

    @property
    def is_initial(self) -> bool:
        """Whether the event wrote an initial value before any thread began."""
        return self.thread < 0


@dataclass(frozen=True, slots=True)
class End:
    """One way in which a thread ends: where `happens` holds, with these registers.

    A thread that is `stuck` at a barrier has not set the registers that are missing.
    """

    happens: int
    registers: dict[str, Values]
    stuck: bool = False

    def value(self, name: str) -> Values:
        """Return what a register holds; nothing where a stuck thread never set it."""
        return self.registers.get(name, {} if self.stuck else {0: TRUE})


@dataclass(frozen=True, slots=True)
class Unfolded:
    """Every event a program may have, and how each thread may end."""

    program: Program
    events: tuple[Event, ...]
    ends: tuple[tuple[End, ...], ...]
    exclusive: frozenset[tuple[int, int]]


def unfold(
    program: Program, logic: Logic, turns: int = 2, guesses: frozenset[int] = frozenset()
) -> Unfolded:
    """Run every thread symbolically; loops are unrolled `turns` times.

    `guesses` are values that reads may return although nothing computes them first, for models
    that do not rule that out.
    """
    bodies = [unroll(thread.body, turns) for thread in program.threads]
    domains = _Domains(program, bodies, guesses)
    events = [_initial(location, number) for number, location in enumerate(storage(program))]
    ends: list[tuple[End, ...]] = []
    exclusive: set[tuple[int, int]] = set()
    for thread, body in enumerate(bodies):
        runner = _Runner(logic, domains, thread, events, exclusive)
        ends.append(runner.run(body))
    return Unfolded(program, tuple(events), tuple(ends), frozenset(exclusive))


def storage(program: Program) -> tuple[Location, ...]:
    """Return the locations that have storage of their own."""
    return tuple(location for location in program.locations if location.alias is None)


def _initial(location: Location, number: int) -> Event:
    text = f"{location.name} = {location.initial}"
    return Event(
        number=number,
        thread=-1,
        operation=Store(
            address=Address(base=location.name), value=Const(location.initial), text=text
        ),
        happens=TRUE,
        writes=True,
        places={location.name: TRUE},
        written={location.initial: TRUE},
    )


class _Domains:
    """The values each location may hold, found by running the threads over sets of values.

    A value that is computed only from itself is found only if it is among the guesses; the number
    of rounds is bounded by the number of writes, the longest chain of reads from writes.
    """

    def __init__(
        self,
        program: Program,
        bodies: list[tuple[Instruction, ...]],
        guesses: frozenset[int],
    ) -> None:
        self.storage_of = {place.name: place.alias or place.name for place in program.locations}
        self.address_of = {place.name: place.address or place.name for place in program.locations}
        self.values: dict[str, set[int]] = {}
        for location in storage(program):
            self.values[location.name] = {location.initial} | guesses
        writers = sum(isinstance(item, Store | Rmw | Cas) for body in bodies for item in body)
        for _ in range(writers + 1):
            before = sum(map(len, self.values.values()))
            for body in bodies:
                self._run(body)
            if before == sum(map(len, self.values.values())):
                break

    def places(self, address: Address, indices: set[int]) -> set[str]:
        """Return the storage that an address may mean."""
        if address.index is None:
            return {self.storage_of[address.base]}
        names = {element(address.base, index) for index in indices}
        return {self.storage_of[name] for name in names if name in self.storage_of}

    def _run(self, body: tuple[Instruction, ...]) -> None:
        straight = not any(isinstance(item, Label | Jump) for item in body)
        registers: dict[str, set[int]] = {}

        def put(name: str | None, values: set[int]) -> None:
            if name is not None:
                registers[name] = values if straight else registers.get(name, {0}) | values

        def get(expr: Expr) -> set[int]:
            return _possible(expr, registers)

        for item in body:
            match item:
                case Assign(register=register, value=value):
                    put(register, get(value))
                case Load(register=register, address=address):
                    put(register, self._read(address, get))
                case Store(address=address, value=value):
                    self._write(address, get, get(value))
                case Rmw(register=register, address=address, op=op, operand=operand):
                    old, operands = self._read(address, get), get(operand)
                    self._write(address, get, {evaluate(op, a, b) for a in old for b in operands})
                    put(register, old)
                case Cas(register=register, address=address, expected=expected, desired=desired):
                    old = self._read(address, get)
                    if old & get(expected):
                        self._write(address, get, get(desired))
                    put(register, old)
                    put(item.success, {0, 1})
                case _:
                    pass

    def _read(self, address: Address, get: _Getter) -> set[int]:
        indices = get(address.index) if address.index is not None else set[int]()
        found: set[int] = set()
        for place in self.places(address, indices):
            found |= self.values[place]
        return found

    def _write(self, address: Address, get: _Getter, values: set[int]) -> None:
        indices = get(address.index) if address.index is not None else set[int]()
        for place in self.places(address, indices):
            self.values[place] |= values


def element(base: str, index: int) -> str:
    """Return the name of an element of an array of locations."""
    return f"{base}[{index}]"


def _possible(expr: Expr, registers: dict[str, set[int]]) -> set[int]:
    match expr:
        case Const(value=value):
            return {value}
        case Reg(name=name):
            return registers.get(name, {0})
        case Binary(op=op, left=left, right=right):
            lefts, rights = _possible(left, registers), _possible(right, registers)
            return {evaluate(op, a, b) for a in lefts for b in rights}


@dataclass(frozen=True, slots=True)
class _Value:
    """A symbolic value and the reads it was computed from."""

    values: Values
    uses: Uses = NOTHING


ZERO = _Value({0: TRUE})

Path = frozenset[tuple[int, bool, Uses]]
"""The branches passed: which jump, whether it was taken, and the reads it depended on."""


@dataclass(slots=True)
class _State:
    """Where one thread is: the guard of being here, its registers, and the branches behind it."""

    guard: int
    registers: dict[str, _Value]
    path: Path

    @property
    def control(self) -> Uses:
        return frozenset(use for _, _, uses in self.path for use in uses)


class _Runner:
    """Runs one thread over all its paths at once."""

    def __init__(
        self,
        logic: Logic,
        domains: _Domains,
        thread: int,
        events: list[Event],
        exclusive: set[tuple[int, int]],
    ) -> None:
        self.logic = logic
        self.domains = domains
        self.thread = thread
        self.events = events
        self.exclusive = exclusive
        self.waiting: dict[str, list[_State]] = {}
        self.stuck: list[_State] = []
        self.branches = 0
        self.arrivals: dict[str, int] = {}

    def run(self, body: tuple[Instruction, ...]) -> tuple[End, ...]:
        state = _State(TRUE, {}, frozenset())
        for item in body:
            match item:
                case Label(name=name):
                    state = self._merge([*self.waiting.pop(name, []), state])
                case Jump(target=target, condition=condition):
                    state = self._jump(state, target, condition)
                case Assign(register=register, value=value):
                    state.registers[register] = self._value(value, state)
                case _ if state.guard != FALSE:
                    state = self._operation(item, state)
                case _:
                    pass
        for unfinished in self.waiting.pop(STUCK, []):
            self.logic.require(-unfinished.guard)
        return tuple(
            End(s.guard, {name: value.values for name, value in s.registers.items()}, stuck)
            for s, stuck in ((state, False), *((s, True) for s in self.stuck))
            if s.guard != FALSE
        )

    def _merge(self, states: list[_State]) -> _State:
        live = [state for state in states if state.guard != FALSE]
        if len(live) < 2:
            return live[0] if live else _State(FALSE, {}, frozenset())
        names = {name for state in live for name in state.registers}
        registers = {name: self._joined(name, live) for name in names}
        polarity: dict[int, set[bool]] = {}
        for state in live:
            for branch, taken, _ in state.path:
                polarity.setdefault(branch, set()).add(taken)
        path = frozenset(
            step for state in live for step in state.path if len(polarity[step[0]]) == 1
        )
        return _State(self.logic.some([state.guard for state in live]), registers, path)

    def _joined(self, name: str, states: list[_State]) -> _Value:
        first = states[0].registers.get(name, ZERO)
        if all(state.registers.get(name, ZERO) == first for state in states[1:]):
            return first
        terms: dict[int, list[int]] = {}
        uses: set[int] = set()
        for state in states:
            value = state.registers.get(name, ZERO)
            uses |= value.uses
            for integer, literal in value.values.items():
                terms.setdefault(integer, []).append(self.logic.both(state.guard, literal))
        values = {integer: self.logic.some(literals) for integer, literals in terms.items()}
        return _Value({i: lit for i, lit in values.items() if lit != FALSE}, frozenset(uses))

    def _jump(self, state: _State, target: str, condition: Expr | None) -> _State:
        waiting = self.waiting.setdefault(target, [])
        if condition is None:
            waiting.append(state)
            return _State(FALSE, {}, frozenset())
        value = self._value(condition, state)
        stays = value.values.get(0, FALSE)
        self.branches += 1
        branch = self.branches
        taken = state.path | {(branch, True, value.uses)}
        passed = state.path | {(branch, False, value.uses)}
        both = self.logic.both
        waiting.append(_State(both(state.guard, -stays), dict(state.registers), taken))
        return _State(both(state.guard, stays), state.registers, passed)

    def _value(self, expr: Expr, state: _State) -> _Value:
        match expr:
            case Const(value=value):
                return _Value({value: TRUE})
            case Reg(name=name):
                return state.registers.get(name, ZERO)
            case Binary(op=op, left=left, right=right):
                a, b = self._value(left, state), self._value(right, state)
                return _Value(self._combined(op, a.values, b.values), a.uses | b.uses)

    def _combined(self, op: str, a: Values, b: Values) -> Values:
        terms: dict[int, list[int]] = {}
        for x, x_literal in a.items():
            for y, y_literal in b.items():
                terms.setdefault(evaluate(op, x, y), []).append(
                    self.logic.both(x_literal, y_literal)
                )
        values = {value: self.logic.some(literals) for value, literals in terms.items()}
        return {value: literal for value, literal in values.items() if literal != FALSE}

    def _operation(self, item: Instruction, state: _State) -> _State:
        match item:
            case Load():
                self._load(item, state)
            case Store():
                value = self._value(item.value, state)
                event = self._event(item, state, item.address)
                event.writes, event.written, event.data = True, value.values, value.uses
            case Rmw():
                self._rmw(item, state)
            case Cas():
                self._cas(item, state)
            case Fence():
                self._event(item, state, None)
            case Barrier():
                return self._barrier(item, state)
            case _:
                raise TypeError(f"not an operation: {item!r}")
        return state

    def _event(self, item: Operation, state: _State, address: Address | None) -> Event:
        event = Event(
            number=len(self.events),
            thread=self.thread,
            operation=item,
            happens=state.guard,
            control=state.control,
        )
        if address is not None:
            self._place(event, address, state)
        self.events.append(event)
        return event

    def _place(self, event: Event, address: Address, state: _State) -> None:
        names = {address.base: TRUE}
        if address.index is not None:
            index = self._value(address.index, state)
            event.address = index.uses
            names = {element(address.base, value): lit for value, lit in index.values.items()}
        for name, literal in names.items():
            if name in self.domains.storage_of:
                event.places[self.domains.storage_of[name]] = literal
                event.references[self.domains.address_of[name]] = literal
            else:
                self.logic.require(-state.guard, -literal)

    def _fresh(self, places: Places) -> Values:
        domain = sorted({value for place in places for value in self.domains.values[place]})
        if len(domain) == 1:
            return {domain[0]: TRUE}
        values = {value: self.logic.variable() for value in domain}
        self.logic.exactly_one(list(values.values()))
        return values

    def _load(self, item: Load, state: _State) -> None:
        event = self._event(item, state, item.address)
        event.reads, event.read = True, self._fresh(event.places)
        state.registers[item.register] = _Value(event.read, frozenset({event.number}))

    def _rmw(self, item: Rmw, state: _State) -> None:
        operand = self._value(item.operand, state)
        event = self._event(item, state, item.address)
        event.reads, event.read = True, self._fresh(event.places)
        event.writes, event.data = True, operand.uses
        event.written = self._combined(item.op, event.read, operand.values)
        if item.register is not None:
            state.registers[item.register] = _Value(event.read, frozenset({event.number}))

    def _cas(self, item: Cas, state: _State) -> None:
        """One event for success, which reads and writes, and one for failure, which reads."""
        expected, desired = self._value(item.expected, state), self._value(item.desired, state)
        stored = self._event(item, state, item.address)
        failed = self._event(_failing(item), state, item.address)
        self.exclusive |= {(stored.number, failed.number), (failed.number, stored.number)}
        read = self._fresh(stored.places)
        equal = self._combined("==", read, expected.values)
        both = self.logic.both
        for event, outcome in ((stored, 1), (failed, 0)):
            event.happens = both(state.guard, equal.get(outcome, FALSE))
            event.reads, event.read, event.data = True, read, expected.uses
        stored.writes, stored.written = True, desired.values
        stored.data |= desired.uses
        uses = frozenset({stored.number, failed.number})
        if item.register is not None:
            state.registers[item.register] = _Value(read, uses)
        if item.success is not None:
            state.registers[item.success] = _Value(equal, uses | expected.uses)

    def _barrier(self, item: Barrier, state: _State) -> _State:
        event = self._event(item, state, None)
        event.occurrence = self.arrivals.get(item.name, 0)
        self.arrivals[item.name] = event.occurrence + 1
        event.key = self._value(item.key, state).values if item.key is not None else {0: TRUE}
        if item.count is None:
            return state
        event.count = self._value(item.count, state).values
        event.passed = self.logic.variable()
        both = self.logic.both
        self.stuck.append(
            _State(both(state.guard, -event.passed), dict(state.registers), state.path)
        )
        return _State(both(state.guard, event.passed), state.registers, state.path)


def _failing(item: Cas) -> Load:
    """The read that a compare-and-swap is when it does not store."""
    order = item.failure_order if item.order is not None else None
    return Load(
        register=item.register or "",
        address=item.address,
        order=order,
        scope=item.scope,
        tags=item.tags,
        text=f"{item.text} (fails)",
        origin=item.origin,
    )
