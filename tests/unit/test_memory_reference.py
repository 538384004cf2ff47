"""The SAT checker against an enumeration that shares nothing with it.

The reference lists every reads-from and coherence choice of small straight-line programs and
evaluates the axioms over plain sets of pairs, with a read-modify-write as two events, as the
papers have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product
from random import Random

import pytest

from hetir.memory.check import Checker
from hetir.memory.lower import lower
from hetir.memory.models.ir import IrModel
from hetir.memory.models.ptx import PtxModel
from hetir.memory.models.x86 import X86Model
from hetir.memory.program import (
    Const,
    Fence,
    Load,
    Order,
    Program,
    Rmw,
    Scope,
    Store,
    evaluate,
    share,
)
from hetir.memory.random_programs import Generator

Pairs = set[tuple[int, int]]

IR_PROGRAMS, TARGET_PROGRAMS = 60, 40


@dataclass(slots=True)
class Step:
    number: int
    thread: int
    kind: str
    item: Load | Store | Rmw | Fence | None
    place: str = ""
    half: int = -1


@dataclass(slots=True)
class Candidate:
    program: Program
    steps: list[Step]
    rf: Pairs
    co: Pairs
    values: dict[int, int]

    def of(self, kinds: str) -> set[int]:
        return {step.number for step in self.steps if step.kind in kinds}

    @property
    def po(self) -> Pairs:
        return {
            (a.number, b.number)
            for a in self.steps
            for b in self.steps
            if a.thread == b.thread >= 0 and a.number < b.number
        }

    @property
    def fr(self) -> Pairs:
        return {(r, w2) for w, r in self.rf for w1, w2 in self.co if w == w1}

    def order(self, number: int) -> Order | None:
        item = self.steps[number].item
        return item.order if item is not None else None

    def includes(self, a: int, b: int) -> bool:
        first, second = self.steps[a], self.steps[b]
        if first.item is None or second.item is None:
            return False
        threads = self.program.threads
        one, other = threads[first.thread], threads[second.thread]
        scopes = (first.item.scope, second.item.scope)
        return all(scope is not None and share(scope, one, other) for scope in scopes)

    def outcome(self, names: list[str]) -> tuple[int, ...]:
        found: dict[str, int] = {}
        for step in self.steps:
            if step.kind == "R" and isinstance(step.item, Load | Rmw) and step.item.register:
                found[f"{step.thread}:{step.item.register}"] = self.values[step.number]
            if step.kind == "W" and not any(a == step.number for a, _ in self.co):
                found[step.place] = self.values[step.number]
        return tuple(found[name] for name in names)


def then(*relations: Pairs) -> Pairs:
    found = relations[0]
    for relation in relations[1:]:
        following: dict[int, list[int]] = {}
        for b, c in relation:
            following.setdefault(b, []).append(c)
        found = {(a, c) for a, b in found for c in following.get(b, ())}
    return found


def plus(relation: Pairs) -> Pairs:
    closed = set(relation)
    while True:
        more = then(closed, closed) - closed
        if not more:
            return closed
        closed |= more


def acyclic(relation: Pairs) -> bool:
    return all(a != b for a, b in plus(relation))


def on(members: set[int]) -> Pairs:
    return {(a, a) for a in members}


def candidates(program: Program) -> Iterator[Candidate]:
    """List every candidate: who reads from whom, and the order of writes to each place."""
    steps = [Step(i, -1, "W", None, place.name) for i, place in enumerate(program.locations)]
    for thread, body in enumerate(thread.body for thread in program.threads):
        for item in body:
            assert isinstance(item, Load | Store | Rmw | Fence)
            kinds = {Load: "R", Store: "W", Rmw: "RW", Fence: "F"}[type(item)]
            place = "" if isinstance(item, Fence) else item.address.base
            for kind in kinds:
                steps.append(Step(len(steps), thread, kind, item, place))
            if len(kinds) == 2:
                steps[-1].half, steps[-2].half = len(steps) - 2, len(steps) - 1
    reads = [step for step in steps if step.kind == "R"]
    writes = [step for step in steps if step.kind == "W"]
    sources = [
        [w.number for w in writes if w.place == r.place and w.number != r.half] for r in reads
    ]
    orders = [
        [
            (initial.number, *rest)
            for rest in permutations(
                w.number for w in writes if w.place == initial.place and w is not initial
            )
        ]
        for initial in steps[: len(program.locations)]
    ]
    for choice in product(*sources):
        rf = {(w, r.number) for w, r in zip(choice, reads, strict=True)}
        values = computed(program, steps, rf)
        if values is None:
            continue
        for sequences in product(*orders):
            co = {
                (a, b)
                for sequence in sequences
                for i, a in enumerate(sequence)
                for b in sequence[i + 1 :]
            }
            yield Candidate(program, steps, rf, co, values)


def computed(program: Program, steps: list[Step], rf: Pairs) -> dict[int, int] | None:
    values: dict[int, int] = {}
    waiting = list(steps)
    while waiting:
        later: list[Step] = []
        for step in waiting:
            if step.kind == "F":
                continue
            if step.thread < 0:
                values[step.number] = program.locations[step.number].initial
            elif step.kind == "R":
                source = next(w for w, r in rf if r == step.number)
                if source not in values:
                    later.append(step)
                    continue
                values[step.number] = values[source]
            elif isinstance(step.item, Rmw):
                assert isinstance(step.item.operand, Const)
                if step.half not in values:
                    later.append(step)
                    continue
                values[step.number] = evaluate(
                    step.item.op, values[step.half], step.item.operand.value
                )
            else:
                assert isinstance(step.item, Store)
                assert isinstance(step.item.value, Const)
                values[step.number] = step.item.value.value
        if len(later) == len(waiting):
            return None
        waiting = later
    return values


def rc11(c: Candidate) -> tuple[bool, bool]:
    """Return whether a candidate is consistent in scoped RC11, and whether it races."""
    po, rf, co, fr = c.po, c.rf, c.co, c.fr
    reads, writes, fences = c.of("R"), c.of("W"), c.of("F")
    place = {s.number: s.place for s in c.steps}
    atomic = {n for n in reads | writes if c.order(n) is not None}
    rmw = {(s.number, s.half) for s in c.steps if s.kind == "R" and s.half >= 0}
    incl = {(a, b) for a in place for b in place if c.includes(a, b)}
    everything = on(set(place))
    strong_rf = {(a, b) for a, b in rf if a in atomic and b in atomic and (a, b) in incl}
    sequence = everything | plus(then(strong_rf, rmw))
    releases = {n for n in (writes & atomic) | fences if (o := c.order(n)) and o.releases}
    acquires = {n for n in (reads & atomic) | fences if (o := c.order(n)) and o.acquires}
    sw = (
        then(
            on(releases),
            everything | then(on(fences), po),
            on(writes & atomic),
            sequence,
            strong_rf,
            on(reads & atomic),
            everything | then(po, on(fences)),
            on(acquires),
        )
        & incl
    )
    initial = {(a.number, b.number) for a in c.steps for b in c.steps if a.thread < 0 <= b.thread}
    hb = plus(po | sw | initial)
    eco = plus(rf | co | fr)
    sc = {n for n in place if c.order(n) is Order.SEQ_CST}
    sc_fences = sc & fences
    elsewhere = {(a, b) for a, b in po if not (place[a] and place[a] == place[b])}
    scb = (
        po
        | then(elsewhere, hb, elsewhere)
        | {(a, b) for a, b in hb if place[a] and place[a] == place[b]}
        | co
        | fr
    )
    around = everything | hb
    base = then(
        on(sc - fences) | then(on(sc_fences), around),
        scb,
        on(sc - fences) | then(around, on(sc_fences)),
    )
    strong = then(on(sc_fences), hb | then(hb, eco, hb), on(sc_fences))
    consistent = (
        all(a != b for a, b in hb)
        and all(a != b for a, b in then(hb, everything | eco))
        and not (rmw & then(fr, co))
        and acyclic((base | strong) & incl)
        and acyclic(rf | rmw)
    )
    races = any(
        place[a] == place[b] != ""
        and (a in writes or b in writes)
        and c.steps[a].thread != c.steps[b].thread
        and min(c.steps[a].thread, c.steps[b].thread) >= 0
        and not (a in atomic and b in atomic and (a, b) in incl)
        and (a, b) not in hb
        and (b, a) not in hb
        for a in place
        for b in place
    )
    return consistent, races


def tso(c: Candidate) -> bool:
    """Whether a candidate is consistent in x86-TSO."""
    po, place = c.po, {s.number: s.place for s in c.steps}
    communication = c.rf | c.co | c.fr
    here = {(a, b) for a, b in po if place[a] and place[a] == place[b]}
    rmw = {(s.number, s.half) for s in c.steps if s.kind == "R" and s.half >= 0}
    locked = {n for pair in rmw for n in pair}
    full = {s.number for s in c.steps if s.kind == "F" and s.item and s.item.tags}
    kept = {
        (a, b)
        for a, b in po
        if not (c.steps[a].kind == "W" and c.steps[b].kind == "R") or a in locked or b in locked
    }
    external = {(a, b) for a, b in c.rf if c.steps[a].thread != c.steps[b].thread}
    order = kept | then(po, on(full), po) | external | c.co | c.fr
    return acyclic(here | communication) and not (rmw & then(c.fr, c.co)) and acyclic(order)


def ptx(c: Candidate) -> bool:
    """Whether a candidate, with fences in some SC order, is consistent in PTX.

    Coherence is given as a total order here, so programs must have only strong accesses.
    """
    sc = [n for n in c.of("F") if c.order(n) is Order.SEQ_CST]
    return any(
        _ptx_with(c, {(a, b) for i, a in enumerate(order) for b in order[i + 1 :]})
        for order in permutations(sc)
    )


def _ptx_with(c: Candidate, total: Pairs) -> bool:
    po, rf, co, fr = c.po, c.rf, c.co, c.fr
    place = {s.number: s.place for s in c.steps}
    reads, writes, fences = c.of("R"), c.of("W"), c.of("F")
    everything = on(set(place))
    rmw = {(s.number, s.half) for s in c.steps if s.kind == "R" and s.half >= 0}
    strong = {
        (a, b)
        for a in place
        for b in place
        if c.steps[a].thread == c.steps[b].thread >= 0 or c.includes(a, b)
    }
    seen = rf & strong
    observed = plus(then(seen, rmw)) | everything
    observed = then(observed, seen)
    sync_order = total & strong
    here = {(a, b) for a, b in po if place[a] and place[a] == place[b]}
    releases = {n for n in writes | fences if (o := c.order(n)) and o.releases}
    acquires = {n for n in reads | fences if (o := c.order(n)) and o.acquires}
    reduced = {s.number for s in c.steps if isinstance(s.item, Rmw) and s.item.register is None}
    release = then(on(releases & writes), everything | here, on(writes)) | then(
        on(releases & fences), po, on(writes)
    )
    acquire = then(on(reads - reduced), everything | here, on(acquires & reads)) | then(
        on(reads - reduced), po, on(acquires & fences)
    )
    sw = then(release, observed, acquire) & strong
    base = plus(po | sw | sync_order)
    same = {(a, b) for a, b in base if place[a] and place[a] == place[b]}
    initial = {
        (a.number, b.number)
        for a in c.steps
        for b in c.steps
        if a.thread < 0 <= b.thread and a.place == b.place
    }
    cause = same | then(observed, same) | initial
    causal = {(a, b) for a, b in cause if a in writes and b in writes}
    fenced = {
        (a, b) for a, b in base & strong if a in total_members(total) and b in total_members(total)
    }
    return (
        causal <= co
        and fenced <= sync_order
        and not (rmw & then(fr & strong, co & strong))
        and acyclic(here | (strong & (rf | co | fr)) | rmw)
        and all(a != b for a, b in then(rf | fr, cause))
        and acyclic(rf | rmw)
    )


def total_members(total: Pairs) -> set[int]:
    return {n for pair in total for n in pair}


def straight_programs(seed: int, count: int, *, strong: bool) -> Iterator[Program]:
    """Draw programs of accesses and fences only, of constant values and small enough to list."""
    generator = Generator(Random(seed), widest=Scope.SYSTEM)
    while count:
        program = generator.program()
        items = [item for thread in program.threads for item in thread.body]
        simple = all(
            isinstance(item, Load | Rmw | Fence)
            or (isinstance(item, Store) and isinstance(item.value, Const))
            for item in items
        )
        atomic = all(
            item.order is not None for item in items if isinstance(item, Load | Store | Rmw)
        )
        updates = sum(isinstance(item, Rmw) for item in items)
        if simple and len(items) <= 7 and updates <= 2 and (atomic or not strong):
            count -= 1
            yield program


def test_hetir_model_agrees_with_enumeration() -> None:
    compared = racing = 0
    for program in straight_programs(11, IR_PROGRAMS, strong=False):
        with Checker(program, IrModel()) as checker:
            observed = checker.observables()
            found = checker.outcomes(observed)
            raced = checker.races()
        names = [str(item) for item in observed]
        expected: set[tuple[int, ...]] = set()
        expected_race = False
        for candidate in candidates(program):
            consistent, races = rc11(candidate)
            if consistent:
                expected.add(candidate.outcome(names))
                expected_race |= races
        assert found == expected, program
        assert raced == expected_race, program
        compared += len(expected)
        racing += expected_race
    assert compared > 200
    assert 0 < racing < IR_PROGRAMS


@pytest.mark.parametrize(
    ("target", "model", "reference"),
    [("ptx:sm_75", PtxModel(), ptx), ("cpu:x86-64", X86Model(), tso)],
)
def test_target_models_agree_with_enumeration(target, model, reference) -> None:
    compared = 0
    for program in straight_programs(12, TARGET_PROGRAMS, strong=True):
        lowered = lower(program, target)
        if len([item for thread in lowered.threads for item in thread.body]) > 9:
            continue
        if target.startswith("ptx") and _scopes_exclude(lowered):
            continue
        with Checker(lowered, model) as checker:
            observed = checker.observables()
            found = checker.outcomes(observed)
        names = [str(item) for item in observed]
        expected = {c.outcome(names) for c in candidates(lowered) if reference(c)}
        assert found == expected, lowered
        compared += len(expected)
    assert compared > 100


def _scopes_exclude(program: Program) -> bool:
    """Whether some pair of accesses is not morally strong, so that PTX's coherence is partial."""
    items = [
        (thread, item)
        for thread in program.threads
        for item in thread.body
        if isinstance(item, Load | Store | Rmw)
    ]
    return any(
        item.scope is not None
        and other.scope is not None
        and not (share(item.scope, a, b) and share(other.scope, a, b))
        for a, item in items
        for b, other in items
    )
