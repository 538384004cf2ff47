"""Two workgroups that hand a message over, with fences of all kinds: no proof is wrong.

Every removal and weakening of every fence and atomic is tried; what `proves` lets pass must leave
no outcome that the memory model did not have before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import numpy as np

from hetir.ir import ops
from hetir.ir.core import Kernel, walk
from hetir.ir.text import parse_kernel
from hetir.memory.check import Checker
from hetir.memory.claim import FinalLocation
from hetir.memory.models.ir import IrModel
from hetir.passes import harness
from hetir.passes.fences import Change, applied, weaken
from hetir.passes.fences_check import proves
from tests.property.cells import SHARE, seeds

HEAD = """hetir 1

kernel message(
  %x: array<i32[?], global> from 0, %y: array<i32[?], global> from 1,
  %out: array<i32[?], global> from 2
) {
  %zero: i64 = const 0
  %second: i64 = const 1
  %one: i32 = const 1
  %group: i64 = group_id axis=0
  %first: bool = eq %group, %zero
  if %first {
"""
FENCES = ("acquire", "release", "acq_rel")


def message(seed: int) -> Kernel:
    """A kernel of two accesses in each of two workgroups, and fences between, before and behind."""
    random = Random(f"message {seed}")
    names = iter(range(99))
    crossed = random.random() < 0.3  # each side writes, then reads what the other one writes

    def fences(most: int) -> str:
        scopes = ("device", "device", "workgroup")
        return "".join(
            f"    fence order={random.choice(FENCES)} scope={random.choice(scopes)}\n"
            for _ in range(random.randrange(most + 1))
        )

    def store(name: str) -> str:
        order = random.choice(("relaxed", "relaxed", "release"))
        return f"    atomic.store %{name}, %zero, %one order={order} scope=device\n"

    def load(name: str, into: str) -> str:
        order = random.choice(("relaxed", "relaxed", "acquire"))
        value = f"%v{next(names)}"
        return (
            f"    {value}: i32 = atomic.load %{name}, %zero order={order} scope=device\n"
            f"    store %out, {into}, {value}\n"
        )

    one = [store("x"), load("y", "%zero") if crossed else store("y")]
    two = [store("y"), load("x", "%second")] if crossed else [
        load("y", "%zero"), load("x", "%second")
    ]  # fmt: skip
    parts = [fences(1) + a + fences(2) + b + fences(1) for a, b in (one, two)]
    text = HEAD + parts[0] + "    yield\n  } else {\n" + parts[1] + "    yield\n  }\n  return\n}\n"
    return parse_kernel(text)


def outcomes(kernel: Kernel) -> frozenset[object] | None:
    """How the arrays may end, by the axioms; None where the kernel races."""
    arrays = [np.zeros(n, np.int32) for n in (1, 1, 2)]
    small = harness.read(kernel, arrays, (2, 1, 1), (1, 1, 1))
    with Checker(small.program, IrModel()) as checker:
        if checker.races():
            return None
        return checker.outcomes([FinalLocation(name) for name in small.outputs])


def weakenings(kernel: Kernel) -> Iterator[Change]:
    """Every removal and every weaker order and scope, right or wrong."""
    for op in walk(kernel.body):
        order, scope = op.attrs.get("order"), op.attrs.get("scope")
        if op.spec is ops.FENCE:
            yield Change(op=op, left="", rule="covered")
            if order == "acq_rel":
                yield Change(op=op, left=f"acquire {scope}", rule="covered")
                yield Change(op=op, left=f"release {scope}", rule="covered")
        elif order in ("acquire", "release"):
            yield Change(op=op, left=f"relaxed {scope}", rule="covered")
        elif order and scope == "device":
            yield Change(op=op, left=f"{order} workgroup", rule="covered")


def test_what_is_proved_adds_no_outcome():
    verdicts = Counter[tuple[bool, bool]]()
    for seed in seeds(0, 80):
        kernel = message(seed)
        allowed = outcomes(kernel)
        assert allowed is not None
        for step in weakenings(kernel):
            weaker = applied(kernel, step)
            proved = proves(kernel, weaker)
            if not proved and verdicts[False, False] > 20:
                continue  # only what is let pass can be wrong
            found = outcomes(weaker)
            safe = found is not None and found <= allowed
            verdicts[proved, safe] += 1
            assert safe or not proved, f"seed {seed}: {step}"
        kept = outcomes(weaken(kernel)[0])
        assert kept is not None
        assert kept <= allowed, f"seed {seed}"
    assert verdicts[True, True] > 20 * SHARE
    assert verdicts[False, False] > 10 * SHARE
