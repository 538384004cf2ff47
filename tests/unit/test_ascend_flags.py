"""Flags of random programs: every execution is ordered, and of each flag one execution has need."""

from __future__ import annotations

import random

import pytest

from hetir.backends.ascend.simd_program import (
    PIPES,
    Access,
    Block,
    Branch,
    Buffer,
    Global,
    Instr,
    Loop,
    Node,
    Sync,
    count_syncs,
    instructions,
)
from hetir.backends.ascend.simd_sync import covered, synchronise
from hetir.backends.ascend.simd_sync_check import Checker, check
from tests.unit.ascend_flag_programs import Machine, executions, program


def sites(whole: Block) -> list[tuple[Instr, Sync]]:
    return [(i, s) for i in instructions(whole) for s in i.syncs]


def ordered(whole: Block, count: int) -> bool:
    return all(Machine().sound(steps) for steps in executions(whole, count))


def judged(seed: int, length: int, count: int) -> int:
    """Place a program's flags and take each away again; how many there were."""
    whole = program(seed, length)
    synchronise(whole)
    assert check(whole) == []
    assert covered(whole)
    assert ordered(whole, count)
    checker = Checker(whole)
    for instr, sync in sites(whole):
        assert checker.needs(sync), (seed, sync)
        at = instr.syncs.index(sync)
        instr.syncs.pop(at)
        assert check(whole), (seed, sync)
        assert not covered(whole), (seed, sync)
        assert not ordered(whole, 10 * count), (seed, sync)
        instr.syncs.insert(at, sync)
    return count_syncs(whole)


def test_random_programs_have_the_flags_that_they_need_and_no_others() -> None:
    assert sum(judged(seed, 10, 100) for seed in range(30)) > 200


@pytest.mark.slow
def test_longer_random_programs() -> None:
    assert sum(judged(seed, 20, 300) for seed in range(100, 200)) > 2000


def shuffled(seed: int) -> Block:
    """A program with a flag less than it needs, and others elsewhere that may make up for it."""
    choose = random.Random(seed)
    whole = program(seed, 8)
    synchronise(whole)
    if found := sites(whole):
        instr, sync = choose.choice(found)
        instr.syncs.remove(sync)
        for _ in range(choose.randrange(12)):
            source, target = choose.choice(PIPES), choose.choice(PIPES[1:])
            more = Sync(source, target, event=choose.randrange(8))
            choose.choice(found)[0].syncs.insert(0, more)
    return whole


def test_the_checker_sees_what_executions_see() -> None:
    """With flags at random: what it lets pass is ordered in every execution, and nothing else."""
    passed = 0
    for seed in range(150):
        whole = shuffled(seed)
        sound = check(whole) == []
        assert covered(whole) == sound, seed
        assert ordered(whole, 300) == sound, seed
        passed += sound and count_syncs(whole) > 0
    assert 5 <= passed <= 50


def test_events_run_out_and_are_waited_for() -> None:
    """Nine flags from the scalar unit that no later flag of the vector unit answers."""
    nodes: list[Node] = []
    for at in range(9):
        buffer = Access(Buffer(f"b{at}", "float", 8, 4, offset=32 * at))
        nodes += [Instr("S", ["set"], writes=(buffer,)), Instr("V", ["use"], reads=(buffer,))]
    whole = Block(nodes)
    synchronise(whole)
    assert check(whole) == []
    found = [(s.source, s.target) for _, s in sites(whole)]
    assert found.count(("S", "V")) == 9
    assert found.count(("V", "S")) == 1
    few = Block(nodes)
    for instr in instructions(few):
        instr.syncs.clear()
    synchronise(few, {("S", "V"): 6})
    events = {s.event for _, s in sites(few) if s.target == "V"}
    assert events == {0, 1}
    assert check(few) == []


def test_what_waits_for_a_rare_branch_waits_only_there() -> None:
    """A loop whose last round's scalars read what vectors write: other rounds need no scalar."""
    part = Access(Buffer("part", "float", 16, 4, offset=0))
    out = Access(Global("y"))
    rare = Block([Instr("S", ["the rest"], reads=(part,), writes=(out,))])
    body: list[Node] = [
        Instr("V", ["compute"], writes=(part,)),
        Instr("MTE3", ["copy out"], reads=(part,), writes=(out,)),
        Branch("some are left", rare, Block()),
    ]
    whole = Block([Loop("for (unknown)", Block(body), apart=True)])
    synchronise(whole)
    assert check(whole) == []
    assert all(Checker(whole).needs(sync) for _, sync in sites(whole))
    inside = [(s.source, s.target) for i in instructions(rare) for s in i.syncs]
    assert sorted(inside) == [("MTE3", "S"), ("S", "V")]
    around = {(s.source, s.target) for _, s in sites(whole)} - {*inside}
    assert around == {("V", "MTE3"), ("MTE3", "V")}
