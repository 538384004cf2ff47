"""The operational machine against the axioms: what it does is allowed, and weak outcomes show."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from hetir.memory.check import Checker, Outcome
from hetir.memory.claim import (
    AllOf,
    Compare,
    Condition,
    FinalLocation,
    FinalRegister,
    Observable,
)
from hetir.memory.litmus import Litmus, parse
from hetir.memory.machine import Machine, Step
from hetir.memory.models.ir import IrModel
from hetir.memory.program import (
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
    Program,
    Reg,
    Rmw,
    Store,
    evaluate,
    share,
)
from hetir.memory.random_programs import SHAPES, Generator

PROGRAMS, RUNS = 300, 40


class Simulation:
    """One run of a program on the machine, work-items interleaved at random."""

    def __init__(self, program: Program, random: Random) -> None:
        threads = program.threads
        self.program, self.random = program, random
        self.machine = Machine(
            len(threads), lambda scope, a, b: share(scope, threads[a], threads[b]), random
        )
        self.initial = {place.name: place.initial for place in program.locations}
        self.registers: list[dict[str, int | Step]] = [{} for _ in threads]

    def run(self) -> None:
        threads = {n: self._thread(n) for n in range(len(self.program.threads))}
        at_barrier: list[int] = []
        meeting = sum(any(isinstance(i, Barrier) for i in t.body) for t in self.program.threads)
        while threads:
            number = self.random.choice([n for n in threads if n not in at_barrier])
            try:
                if next(threads[number]):
                    at_barrier.append(number)
            except StopIteration:
                del threads[number]
                self.machine.end(number)
            if len(at_barrier) == meeting > 0:
                self.machine.meet(at_barrier)
                at_barrier.clear()

    def final(self, item: Observable) -> int:
        if isinstance(item, FinalRegister):
            return self._force(self.registers[item.thread].get(item.name, 0))
        return self._place(item.name).writes[-1].value

    def _place(self, name: str):
        return self.machine.place(name, lambda: self.initial[name])

    def _force(self, value: int | Step) -> int:
        return self.machine.finish(value) if isinstance(value, Step) else value

    def _value(self, expr: Expr, registers: dict[str, int | Step]) -> int:
        match expr:
            case Const(value=value):
                return value
            case Reg(name=name):
                return self._force(registers.get(name, 0))
            case Binary(op=op, left=left, right=right):
                return evaluate(op, self._value(left, registers), self._value(right, registers))

    def _thread(self, number: int) -> Iterator[bool]:
        body, registers = self.program.threads[number].body, self.registers[number]
        at = 0
        while at < len(body):
            item = body[at]
            at += 1
            match item:
                case Jump(target=target, condition=condition):
                    if condition is None or self._value(condition, registers):
                        at = body.index(Label(name=target))
                case Label():
                    pass
                case Assign(register=register, value=value):
                    registers[register] = self._value(value, registers)
                case Barrier():
                    yield True
                case Fence(order=order, scope=scope):
                    assert order is not None
                    assert scope is not None
                    self.machine.fence(number, order, scope)
                    yield False
                case _:
                    self._access(number, item, registers)
                    yield False

    def _access(self, number: int, item: Instruction, registers: dict[str, int | Step]) -> None:
        assert isinstance(item, Load | Store | Rmw | Cas)
        change, reads = None, True
        match item:
            case Store(value=value):
                new = self._value(value, registers)
                change, reads = (lambda _: new), False
            case Rmw(op=op, operand=operand):
                given = self._value(operand, registers)
                change = lambda old: evaluate(op, old, given)  # noqa: E731
            case Cas(expected=expected, desired=desired):
                want, put = self._value(expected, registers), self._value(desired, registers)
                change = lambda old: put if old == want else None  # noqa: E731
            case _:
                pass
        place = self._place(item.address.base)
        step = self.machine.begin(
            number, item.order, item.scope, place, change=change, reads=reads, origin=item
        )
        waits = item.order == "relaxed" and reads and self.random.random() < 0.5
        if not waits:
            self.machine.finish(step)
        register = None if isinstance(item, Store) else item.register
        if register is not None:
            registers[register] = step


def simulate(
    program: Program, observed: tuple[Observable, ...], runs: int, seed: int = 0
) -> tuple[set[Outcome], int]:
    """The outcomes of many runs, and how many of the runs raced."""
    found: set[Outcome] = set()
    races = 0
    for run in range(runs):
        one = Simulation(program, Random(f"{seed}:{run}"))
        one.run()
        found.add(tuple(one.final(item) for item in observed))
        races += bool(one.machine.races)
    return found, races


WEAK = {
    "MP": "(1:r0=1 /\\ 1:r1=0)",
    "SB": "(0:r0=0 /\\ 1:r0=0)",
    "LB": "(0:r0=1 /\\ 1:r0=1)",
    "R": "(x=1 /\\ y=2 /\\ 1:r0=0)",
    "S": "(x=2 /\\ 1:r0=1)",
    "2+2W": "(x=1 /\\ y=1)",
    "IRIW": "(2:r0=1 /\\ 2:r1=0 /\\ 3:r0=1 /\\ 3:r1=0)",
    "WRC": "(1:r0=1 /\\ 2:r0=1 /\\ 2:r1=0)",
    "ISA2": "(1:r0=1 /\\ 2:r0=1 /\\ 2:r1=0)",
}
"""The outcome of each shape that no interleaving gives."""


def shape(name: str, read: str, write: str) -> Litmus:
    """A litmus shape with one order for all reads and one for all writes."""
    threads = [_column(list(t), read, write) for t in SHAPES[name]]
    height = max(map(len, threads))
    rows = [" | ".join(t[at] if at < len(t) else "" for t in threads) for at in range(height)]
    head = " | ".join(f"P{n}@workgroup {n}" for n in range(len(threads)))
    text = f"HETIR {name}\n{{ x=0; y=0; z=0; }}\n {head} ;\n"
    return parse(text + "".join(f" {row} ;\n" for row in rows) + f"exists {WEAK[name]}\n")


def _column(accesses: list[str], read: str, write: str) -> list[str]:
    reads, lines = 0, []
    for access in accesses:
        if access[0] == "R":
            lines.append(f"load.{read}.device r{reads}, {access[1]}")
            reads += 1
        else:
            lines.append(f"store.{write}.device {access[1]}, {access[2]}")
    return lines


def shown(test: Litmus, runs: int) -> bool:
    """Whether some run ends as the test's condition says."""
    parts = list(comparisons(test.claim.condition))
    wanted = tuple(c.right for c in parts)
    observed = [c.left for c in parts if isinstance(c.left, FinalRegister | FinalLocation)]
    found, raced = simulate(test.program, tuple(observed), runs)
    assert not raced
    return wanted in found


def comparisons(condition: Condition) -> Iterator[Compare]:
    """The comparisons of a conjunction."""
    if isinstance(condition, AllOf):
        for part in condition.parts:
            yield from comparisons(part)
    else:
        assert isinstance(condition, Compare)
        yield condition


@pytest.mark.parametrize("name", WEAK)
def test_weak_outcomes_show_with_relaxed_orders(name: str) -> None:
    assert shown(shape(name, "relaxed", "relaxed"), 1500)


@pytest.mark.parametrize("name", WEAK)
def test_seq_cst_hides_them(name: str) -> None:
    assert not shown(shape(name, "seq_cst", "seq_cst"), 300)


@pytest.mark.parametrize("name", ["MP", "LB", "S", "WRC", "ISA2"])
def test_release_and_acquire_hide_what_is_handed_over(name: str) -> None:
    assert not shown(shape(name, "acquire", "release"), 300)


@pytest.mark.parametrize("name", ["SB", "R", "2+2W", "IRIW"])
def test_release_and_acquire_do_not_hide_the_rest(name: str) -> None:
    assert shown(shape(name, "acquire", "release"), 1500)


def test_random_programs_stay_within_the_axioms() -> None:
    generator = Generator(Random(5))
    judged = racing = caught = possible = seen = 0
    for number in range(PROGRAMS):
        program = generator.program()
        with Checker(program, IrModel()) as checker:
            observed = checker.observables()
            allowed, races = checker.outcomes(observed), checker.races()
        found, raced = simulate(program, observed, RUNS, number)
        if races:
            racing += 1
            caught += raced > 0
            continue
        assert raced == 0, program
        assert found <= allowed, (program, found - allowed)
        judged += 1
        possible += len(allowed)
        seen += len(found)
    assert judged > PROGRAMS // 3
    assert seen > 0.6 * possible
    assert caught > 0.9 * racing
