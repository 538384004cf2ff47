"""Small concurrent programs run many times on a device, against what the memory model allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from random import Random
from typing import Any

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st

from hetir import emulator, runtime
from hetir.artifact import Artifact
from hetir.ir.core import Kernel
from hetir.ir.text import parse_kernel
from hetir.memory.check import Outcome
from hetir.memory.claim import FinalRegister
from hetir.memory.mapping import Promise, promise
from hetir.memory.program import (
    Address,
    Barrier,
    Const,
    Fence,
    Instruction,
    Load,
    Location,
    Order,
    Program,
    Scope,
    Space,
    Store,
    Thread,
)
from hetir.memory.random_programs import SHAPES, Generator
from hetir.passes.fences import placed
from hetir.passes.simplify import simplify
from hetir.testing import litmus_text

_Array = np.ndarray[Any, Any]
_Dims = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How instances of a program are spread over a launch.

    Args:
        rounds: how many instances each work-item takes part in, one after another.
        copies: how many instances of the program's workgroups run at a time.
        slots: how many instances share a workgroup.
        merged: write the threads' operations in turns, another way in each launch, for devices
            that run work-items in step or one after another.
        patience: for devices of which some workgroups run at the same time: `copies` workgroups
            of one work-item each take the next thread of an instance again and again, and look
            this often whether its other threads have come. The program's threads must each
            have a workgroup of their own.
    """

    rounds: int = 1
    copies: int = 1
    slots: int = 1
    merged: bool = False
    patience: int = 0

    @property
    def instances(self) -> int:
        """Runs of the program in one launch."""
        return self.rounds * self.copies * self.slots

    def form(self, seed: int) -> litmus_text.Form:
        """How the kernel of a launch is written."""
        merge = seed if self.merged else None
        return litmus_text.Form(slots=self.slots, merge=merge, tickets=self.patience > 0)


@dataclass(slots=True)
class Tally:
    """How often each outcome was seen, beside what the model allows."""

    litmus: Litmus
    seen: Counter[Outcome]

    @property
    def forbidden(self) -> dict[Outcome, int]:
        """The outcomes that the model forbids, with how often they were seen."""
        allowed = self.litmus.promise.outcomes
        return {outcome: n for outcome, n in self.seen.items() if outcome not in allowed}

    @property
    def runs(self) -> int:
        """How often the program ran."""
        return self.seen.total()

    def check(self) -> None:
        """Raise AssertionError for a forbidden outcome, with the program."""
        if self.forbidden:
            names = ", ".join(map(str, self.litmus.promise.observed))
            found = "\n".join(f"  {outcome}: {n}" for outcome, n in self.forbidden.items())
            raise AssertionError(
                f"the memory model forbids, of ({names}), in {self.runs} runs:\n{found}\n"
                f"of the program\n{self.litmus}"
            )


@dataclass(frozen=True, kw_only=True)
class Litmus:
    """A program without races, and the final values that the model allows of it."""

    promise: Promise

    @property
    def program(self) -> Program:
        """The program."""
        return self.promise.program

    @property
    def name(self) -> str:
        """The name of its shape, or `random`."""
        return self.program.name

    def __str__(self) -> str:
        """Each thread in a line, its place and its instructions."""
        return "\n".join(
            f"{thread.name} {' '.join(f'{s}={n}' for s, n in thread.place.items())}: "
            + "; ".join(getattr(item, "text", "") or str(item) for item in thread.body)
            for thread in self.program.threads
        )

    def kernel(self, form: litmus_text.Form) -> Kernel:
        """The kernel that runs instances of the program; see `litmus_text.text`."""
        return parse_kernel(litmus_text.text(self.program, self.promise.observed, form))

    def run(
        self, runner: Runner, launch: Launch | None = None, *, launches: int = 1, seed: int = 0
    ) -> Tally:
        """Run every instance of some launches, their places shuffled as the seed says."""
        how, seen = launch or Launch(), Counter[Outcome]()
        kernel = self.kernel(how.form(seed))
        for turn in range(launches):
            if turn and how.merged:
                kernel = self.kernel(how.form(seed + turn))
            setup = _Setup(self, how, np.random.default_rng([seed, turn]))
            runner(kernel, setup.arguments, setup.grid, setup.workgroup, seed + turn)
            seen += setup.outcomes()
        return Tally(self, seen)

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The threads of each of the program's workgroups, those of one subgroup together."""
        found: dict[int, list[int]] = {}
        for number, thread in enumerate(self.program.threads):
            found.setdefault(thread.place.get(Scope.WORKGROUP, 0), []).append(number)
        place = [thread.place.get(Scope.SUBGROUP, 0) for thread in self.program.threads]
        return tuple(tuple(sorted(g, key=lambda n: place[n])) for g in found.values())


Runner = Callable[[Kernel, list[Any], _Dims, _Dims, int], None]
"""Runs a kernel on arguments, a grid, a workgroup and a seed."""


class _Setup:
    """The arguments of one launch: who does what, and where everything lies."""

    def __init__(self, litmus: Litmus, how: Launch, random: np.random.Generator) -> None:
        program, observed, count = litmus.program, litmus.promise.observed, how.instances
        self.litmus, rounds = litmus, how.rounds
        names = litmus_text.global_places(program)
        initial = {p.name: p.initial for p in program.locations}
        self.rows = {name: n for n, name in enumerate(names)}
        cells = max(1, len(names)) * count
        # dense, so that neighbours share cache lines, or apart
        self.memory = np.zeros(cells * int(random.choice((1, 4, 16))), np.int32)
        self.where = random.permutation(self.memory.size)[:cells].reshape(-1, count)
        for name, row in self.rows.items():
            self.memory[self.where[row]] = initial[name]
        self.out = np.zeros((max(1, len(observed)), count), np.int32)
        if how.patience:
            self.grid, self.workgroup = (how.copies, 1, 1), (1, 1, 1)
            role = stream = slot = np.zeros(1, np.int64)
            rounds *= len(program.threads)
        else:
            role, stream, slot = self._static(how, random)
            self.grid, self.workgroup = (role.shape[0], 1, 1), (role[0].size, 1, 1)
        self.arguments: list[Any] = [
            *(self.memory, self.out.reshape(-1), np.zeros(count + 1, np.int32)),
            *(np.ascontiguousarray(a, np.int64).reshape(-1) for a in (self.where, role, stream)),
            np.ascontiguousarray(slot, np.int64).reshape(-1),
            *map(np.int64, (rounds, count, how.copies * how.slots, how.patience)),
        ]

    def _static(self, how: Launch, random: np.random.Generator) -> tuple[_Array, _Array, _Array]:
        """Each work-item's thread, instance and slot, by workgroup, the workgroups shuffled."""
        groups = self.litmus.groups
        # threads of one subgroup are neighbours, and a power of two never straddles two of them;
        # that those of two may share one orders more, so that it shows nothing new
        pitch = 1 << (max(map(len, groups)) - 1).bit_length()
        role = np.full((len(groups) * how.copies, how.slots, pitch), -1, np.int64)
        stream = np.zeros(role.shape, np.int64)
        slot = np.broadcast_to(np.arange(how.slots)[:, None], role.shape)
        for at, place in enumerate(random.permutation(len(role))):
            copy, number = divmod(int(place), len(groups))
            role[at, :, : len(groups[number])] = groups[number]
            stream[at] = copy * how.slots + slot[at]
        return role, stream, slot

    def outcomes(self) -> Counter[Outcome]:
        """The outcome of each instance."""
        columns = [
            self.memory[self.where[self.rows[item.name]]]
            if not isinstance(item, FinalRegister) and item.name in self.rows
            else self.out[row]
            for row, item in enumerate(self.litmus.promise.observed)
        ]
        found = np.stack(columns, axis=1) if columns else np.zeros((self.out.shape[1], 0), int)
        values, counts = np.unique(found, axis=0, return_counts=True)
        pairs = zip(values.tolist(), counts.tolist(), strict=True)
        return Counter({tuple(outcome): n for outcome, n in pairs})


# ---- runners -------------------------------------------------------------------------------


def weakly(kernel: Kernel, arguments: list[Any], grid: _Dims, workgroup: _Dims, seed: int) -> None:
    """Run on the evaluator with weak memory; AssertionError for a race or another fault."""
    report = emulator.run(kernel, arguments, grid, workgroup, weak=True, seed=seed)
    if report.faults:
        raise AssertionError(str(report))


def on_device(device: runtime.Device) -> Runner:
    """A runner that compiles for a device and launches there."""
    loaded: dict[Kernel, runtime.Program] = {}

    def run(kernel: Kernel, arguments: list[Any], grid: _Dims, workgroup: _Dims, seed: int) -> None:
        del seed
        if kernel not in loaded:
            loaded.clear()
            artifact = compiled(kernel, device.target, workgroup)
            loaded[kernel] = device.load(artifact, [f"argument {n}" for n in range(len(arguments))])
        loaded[kernel].launch(arguments, grid=grid, workgroup=workgroup).wait()

    return run


def compiled(kernel: Kernel, target: str, workgroup: _Dims) -> Artifact:
    """The kernel compiled as a launch does it, but not kept in the cache."""
    simple, _ = placed(simplify(kernel))
    backend = import_module(f"hetir.backends.{target.partition(':')[0]}")
    return backend.compile_kernel(simple, target=target, workgroup=workgroup)


# ---- programs ------------------------------------------------------------------------------


def shaped(
    name: str,
    *,
    load: Order = Order.RELAXED,
    store: Order = Order.RELAXED,
    fence: Order | None = None,
    scope: Scope = Scope.DEVICE,
    groups: Sequence[int] | None = None,
) -> Litmus:
    """A program of one of the known shapes (`hetir.memory.random_programs.SHAPES`).

    Args:
        name: such as `SB`, `MP`, `LB`, `IRIW`, `2+2W`, `WRC`, `ISA2`.
        load: the order of its loads.
        store: the order of its stores.
        fence: the order of a fence between a thread's accesses.
        scope: of all of them.
        groups: the workgroup of each thread; one each if left out.
    """
    threads: list[Thread] = []
    for number, accesses in enumerate(SHAPES[name]):
        body: list[Instruction] = []
        for at, access in enumerate(accesses):
            if at and fence is not None:
                body.append(Fence(order=fence, scope=scope, text=f"fence.{fence}.{scope}"))
            body.append(_access(access, f"r{at}", load, store, scope))
        place = {Scope.WORKGROUP: groups[number] if groups else number, Scope.SUBGROUP: number}
        threads.append(Thread(name=f"P{number}", place=place, body=tuple(body)))
    names = sorted({access[1] for thread in SHAPES[name] for access in thread})
    locations = tuple(Location(name=place) for place in names)
    found = promise(Program(name=name, locations=locations, threads=tuple(threads)))
    if found is None:
        raise ValueError(f"{name} with {load}, {store} at {scope} scope races")
    return Litmus(promise=found)


def _access(access: str, register: str, load: Order, store: Order, scope: Scope) -> Instruction:
    place = Address(base=access[1])
    if access[0] == "R":
        text = f"load.{load}.{scope} {register}, {access[1]}"
        return Load(register=register, address=place, order=load, scope=scope, text=text)
    text = f"store.{store}.{scope} {access[1]}, {access[2]}"
    value = Const(int(access[2]))
    return Store(address=place, value=value, order=store, scope=scope, text=text)


def judged(program: Program) -> Litmus | None:
    """The program with what the model allows; None if it races, or is none for a launch."""
    together = replace(program, threads=tuple(map(_on_one_device, program.threads)))
    found = promise(together) if _can_be_written(together) else None
    return None if found is None else Litmus(promise=found)


def stream(seed: int, *, widest: Scope = Scope.SYSTEM, apart: bool = False) -> Iterator[Litmus]:
    """Random programs without races, for ever; the same for the same seed.

    Args:
        seed: chooses them.
        widest: the widest scope to use; Vulkan has no `system`.
        apart: every work-item in a workgroup of its own.
    """
    source = Generator(Random(seed), apart=apart, widest=widest)
    while True:
        found = judged(source.program())
        if found is not None:
            yield found


@st.composite
def concurrent_programs(draw: st.DrawFn, widest: Scope = Scope.SYSTEM) -> Litmus:
    """Small concurrent programs without races, with what the memory model allows of them."""
    random = draw(st.randoms(use_true_random=False))
    found = judged(Generator(random, widest=widest).program())
    if found is None:
        reject()
    return found


def _on_one_device(thread: Thread) -> Thread:
    place = {scope: n for scope, n in thread.place.items() if scope is not Scope.DEVICE}
    return replace(thread, place=place)


def _can_be_written(program: Program) -> bool:
    """Whether barriers and shared memory are those of one workgroup of all threads."""
    together = len({t.place.get(Scope.WORKGROUP, 0) for t in program.threads}) == 1
    meets = [any(isinstance(i, Barrier) for i in t.body) for t in program.threads]
    shared = any(p.space is Space.SHARED for p in program.locations)
    return all(meets) == any(meets) and (together or not (any(meets) or shared))
