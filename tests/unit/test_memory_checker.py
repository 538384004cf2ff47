"""The checker's parts: loops, claims, races, witnesses, the command, and its speed."""

from __future__ import annotations

import json
import time
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest
import typer
from typer.testing import CliRunner

from hetir.cli import litmus as command
from hetir.memory import litmus, witness
from hetir.memory.check import Checker, judge, outcomes
from hetir.memory.claim import (
    AllOf,
    Claim,
    Compare,
    FinalLocation,
    FinalRegister,
    Quantifier,
    holds,
    parse_claim,
)
from hetir.memory.lower import lower, model_of
from hetir.memory.models.ir import IrModel
from hetir.memory.program import (
    Address,
    Binary,
    Cas,
    Const,
    Fence,
    Jump,
    Label,
    Load,
    Location,
    Order,
    Program,
    Reg,
    Scope,
    Store,
    Thread,
)
from hetir.memory.unroll import STUCK, unroll

MESSAGE = """HETIR MP
{ x=0; y=0; }
 P0@workgroup 0 | P1@workgroup 1 ;
 store x, 1 | load.acquire.device r0, y ;
 store.release.device y, 1 | beq r0, 0, L ;
  | load r1, x ;
  | L: ;
exists (1:r0=1 /\\ 1:r1=0)
"""


def test_a_guarded_message_does_not_race_and_has_two_outcomes() -> None:
    test = litmus.parse(MESSAGE)
    with Checker(test.program, test.model) as checker:
        assert not checker.races()
        watched = (FinalRegister(1, "r0"), FinalRegister(1, "r1"))
        assert checker.outcomes(watched) == {(0, 0), (1, 1)}


def test_without_the_release_it_races_and_the_witness_shows_where() -> None:
    test = litmus.parse(MESSAGE.replace("store.release.device", "store.relaxed.device"))
    with Checker(test.program, test.model) as checker:
        race = checker.race()
        assert race is not None
        texts = {race_text(checker, event) for pair in race.edges["race"] for event in pair}
    assert texts == {"store x, 1", "load r1, x"}


def race_text(checker: Checker, number: int) -> str:
    return checker.execution.events[number].operation.text


def test_claims_bind_and_before_or_and_read_registers_and_locations() -> None:
    claim = parse_claim("~exists (P0:r1 = 1 /\\ x != 2 \\/ ~(1:r2 == -1))", frozenset({"x"}))
    assert claim.quantifier is Quantifier.NEVER
    values = {FinalRegister(0, "r1"): 1, FinalLocation("x"): 2, FinalRegister(1, "r2"): -1}
    assert not holds(claim.condition, lambda item: values[item])
    values[FinalLocation("x")] = 3
    assert holds(claim.condition, lambda item: values[item])


def test_loops_unroll_to_forward_jumps() -> None:
    body = (
        Label(name="again"),
        Load(register="r", address=Address(base="x")),
        Jump(target="again", condition=Binary("==", Reg("r"), Const(0))),
        Store(address=Address(base="y"), value=Const(1)),
    )
    flat = unroll(body, 3)
    assert sum(isinstance(item, Load) for item in flat) == 3
    position = {item.name: i for i, item in enumerate(flat) if isinstance(item, Label)}
    jumps = [(i, item.target) for i, item in enumerate(flat) if isinstance(item, Jump)]
    assert all(target == STUCK or position[target] > i for i, target in jumps)
    assert jumps[-1][1] == STUCK


def test_a_waiting_loop_ends_only_when_it_saw_the_flag() -> None:
    waiting = (
        Label(name="again"),
        Load(register="r", address=Address(base="x"), order=Order.ACQUIRE, scope=Scope.DEVICE),
        Jump(target="again", condition=Binary("==", Reg("r"), Const(0))),
    )
    setting = (
        Store(address=Address(base="x"), value=Const(7), order=Order.RELEASE, scope=Scope.DEVICE),
    )
    threads = tuple(
        Thread(name=f"P{i}", place={Scope.WORKGROUP: i}, body=body)
        for i, body in enumerate((waiting, setting))
    )
    program = Program(name="spin", locations=(Location(name="x"),), threads=threads)
    assert outcomes(program, IrModel()) == {(7, 7)}


def test_a_compare_and_swap_stores_for_one_of_two() -> None:
    def take(register: str, value: int) -> Cas:
        return Cas(
            register=register,
            address=Address(base="x"),
            expected=Const(0),
            desired=Const(value),
            order=Order.ACQ_REL,
            scope=Scope.DEVICE,
        )

    threads = tuple(
        Thread(name=f"P{i}", place={Scope.WORKGROUP: i}, body=(take("r", i + 1),)) for i in range(2)
    )
    program = Program(name="cas", locations=(Location(name="x"),), threads=threads)
    assert outcomes(program, IrModel()) == {(0, 1, 1), (2, 0, 2)}


def test_pictures_name_every_event_and_edge() -> None:
    test = litmus.parse(MESSAGE.replace("1:r1=0", "1:r1=1"))
    verdict = judge(test.program, test.model, test.claim)
    assert verdict.witness is not None
    text = witness.text(test.program, verdict.witness)
    assert "store.release.device y, 1" in text
    assert "synchronises with" in text
    picture = ElementTree.fromstring(witness.svg(test.program, verdict.witness))
    shown = {node.text for node in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert {"sw", "rf", "load r1, x  [= 1]"} <= shown
    graph = witness.dot(test.program, verdict.witness)
    assert graph.startswith("digraph")
    assert graph.count("->") >= 3


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer()
    command.register(made)

    @made.callback()
    def _nothing() -> None:
        pass

    return made


def test_the_command_says_why_and_draws(app: typer.Typer, tmp_path: Path) -> None:
    file = tmp_path / "mp.litmus"
    file.write_text(MESSAGE, encoding="utf-8")
    picture = tmp_path / "mp.svg"
    result = CliRunner().invoke(app, ["litmus", str(file), "--svg", str(picture), "--outcomes"])
    assert result.exit_code == 0
    assert "does not hold" in result.stdout
    assert "forbidden by coherence" in result.stdout
    assert "2 final states" in result.stdout
    assert picture.read_text(encoding="utf-8").startswith("<svg")


def test_the_command_answers_programs_in_json(app: typer.Typer, tmp_path: Path) -> None:
    file = tmp_path / "mp.litmus"
    file.write_text(MESSAGE, encoding="utf-8")
    answer = json.loads(CliRunner().invoke(app, ["litmus", str(file), "--json"]).stdout)
    assert answer["allowed"] is False
    assert answer["race"] is False
    assert {state["1:r1"] for state in answer["outcomes"]} == {0, 1}


def busy_program(seed: int) -> Program:
    """Four work-items of six accesses each, of every order, over three locations."""
    random = Random(seed)
    threads: list[Thread] = []
    for number in range(4):
        body: list[Load | Store] = []
        for position in range(6):
            place = Address(base=random.choice("xyz"))
            if random.random() < 0.5:
                order = random.choice((Order.RELAXED, Order.ACQUIRE, Order.SEQ_CST))
                register = f"r{position}"
                body.append(Load(register=register, address=place, order=order, scope=Scope.DEVICE))
            else:
                order = random.choice((Order.RELAXED, Order.RELEASE, Order.SEQ_CST))
                value = Const(random.randint(1, 3))
                body.append(Store(address=place, value=value, order=order, scope=Scope.DEVICE))
        threads.append(Thread(name=f"P{number}", place={Scope.WORKGROUP: number}, body=tuple(body)))
    places = tuple(Location(name=name) for name in "xyz")
    return Program(name="busy", locations=places, threads=tuple(threads))


@pytest.mark.parametrize("target", ["hetir", "ptx:sm_90", "spirv:opencl", "spirv:vulkan"])
def test_four_work_items_of_six_accesses_take_seconds(target: str) -> None:
    random = Random(1)
    started = time.perf_counter()
    program = busy_program(3)
    lowered = program if target == "hetir" else lower(program, target)
    model = IrModel() if target == "hetir" else model_of(target)
    answers: set[bool] = set()
    with Checker(lowered, model) as checker:
        registers = [item for item in checker.observables() if isinstance(item, FinalRegister)]
        for _ in range(20):
            state = AllOf(
                tuple(
                    Compare("==", item, random.choice(sorted(checker.values(item))))
                    for item in registers
                    if not item.name.startswith("#")
                )
            )
            answers.add(checker.judge(Claim(Quantifier.EXISTS, state)).holds)
        some = len(checker.outcomes(registers, limit=50))
    assert some == 50
    assert False in answers
    assert time.perf_counter() - started < 10


def two_threads(*bodies: tuple[Load | Store | Fence, ...]) -> Program:
    threads = tuple(
        Thread(name=f"P{i}", place={Scope.WORKGROUP: i}, body=body) for i, body in enumerate(bodies)
    )
    places = (Location(name="x"), Location(name="y"))
    return Program(name="two", locations=places, threads=threads)


def write(place: str, order: Order) -> Store:
    return Store(address=Address(base=place), value=Const(1), order=order, scope=Scope.DEVICE)


def look(place: str, order: Order, register: str = "r") -> Load:
    return Load(register=register, address=Address(base=place), order=order, scope=Scope.DEVICE)


RELAXED, SEQ_CST = Order.RELAXED, Order.SEQ_CST
STRONG_FENCE = Fence(order=SEQ_CST, scope=Scope.DEVICE)
BUFFERING = {
    order: two_threads(
        (write("x", order[0]), look("y", order[1])), (write("y", order[0]), look("x", order[1]))
    )
    for order in (
        (RELAXED, RELAXED),
        (Order.RELEASE, Order.ACQUIRE),
        (SEQ_CST, SEQ_CST),
    )
}
BOTH_MISSED = AllOf(tuple(Compare("==", FinalRegister(i, "r"), 0) for i in range(2)))


def allows(program: Program, target: str, condition: AllOf) -> bool:
    claim = Claim(Quantifier.EXISTS, condition)
    return judge(lower(program, target), model_of(target), claim).holds


@pytest.mark.parametrize("target", ["cpu:x86-64", "cpu:aarch64"])
def test_cpus_forbid_store_buffering_only_with_seq_cst(target: str) -> None:
    # x86-TSO's store buffer, and Arm's LDAPR after STLR (RCpc) against LDAR
    answers = [allows(program, target, BOTH_MISSED) for program in BUFFERING.values()]
    assert answers == [True, True, False]


@pytest.mark.parametrize("target", ["cpu:x86-64", "cpu:aarch64"])
def test_a_full_fence_forbids_store_buffering(target: str) -> None:
    program = two_threads(
        (write("x", RELAXED), STRONG_FENCE, look("y", RELAXED)),
        (write("y", RELAXED), STRONG_FENCE, look("x", RELAXED)),
    )
    assert not allows(program, target, BOTH_MISSED)


@pytest.mark.parametrize(("target", "reordered"), [("cpu:x86-64", False), ("cpu:aarch64", True)])
def test_only_arm_reorders_relaxed_messages(target: str, reordered: bool) -> None:
    program = two_threads(
        (write("x", RELAXED), write("y", RELAXED)),
        (look("y", RELAXED), look("x", RELAXED, "s")),
    )
    seen = AllOf((Compare("==", FinalRegister(1, "r"), 1), Compare("==", FinalRegister(1, "s"), 0)))
    assert allows(program, target, seen) is reordered
    ordered = two_threads(
        (write("x", RELAXED), write("y", Order.RELEASE)),
        (look("y", Order.ACQUIRE), look("x", RELAXED, "s")),
    )
    assert not allows(ordered, target, seen)
