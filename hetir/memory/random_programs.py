"""Random small concurrent programs: half of them shaped like known litmus tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from hetir.memory.program import (
    Address,
    Barrier,
    Binary,
    Cas,
    Const,
    Fence,
    Instruction,
    Jump,
    Label,
    Load,
    Location,
    Order,
    Program,
    Reg,
    Rmw,
    Scope,
    Space,
    Store,
    Thread,
)

SHAPES: dict[str, tuple[tuple[str, ...], ...]] = {
    "MP": (("Wx1", "Wy1"), ("Ry", "Rx")),
    "SB": (("Wx1", "Ry"), ("Wy1", "Rx")),
    "LB": (("Rx", "Wy1"), ("Ry", "Wx1")),
    "R": (("Wx1", "Wy1"), ("Wy2", "Rx")),
    "S": (("Wx2", "Wy1"), ("Ry", "Wx1")),
    "2+2W": (("Wx1", "Wy2"), ("Wy1", "Wx2")),
    "IRIW": (("Wx1",), ("Wy1",), ("Rx", "Ry"), ("Ry", "Rx")),
    "WRC": (("Wx1",), ("Rx", "Wy1"), ("Ry", "Rx")),
    "ISA2": (("Wx1", "Wy1"), ("Ry", "Wz1"), ("Rz", "Rx")),
    "RWC": (("Wx1",), ("Rx", "Ry"), ("Wy1", "Rx")),
    "WWC": (("Wx2",), ("Rx", "Wy1"), ("Ry", "Wx1")),
    "Z6": (("Wx1", "Wy1"), ("Wy2", "Wz1"), ("Rz", "Rx")),
    "CoRR": (("Wx1",), ("Wx2",), ("Rx", "Rx"), ("Rx", "Rx")),
    "3SB": (("Wx1", "Ry"), ("Wy1", "Rz"), ("Wz1", "Rx")),
}
"""Litmus shapes: each thread's accesses as R or W, a location, and the value written."""

_READ_ORDERS = (Order.RELAXED, Order.ACQUIRE, Order.SEQ_CST)
_WRITE_ORDERS = (Order.RELAXED, Order.RELEASE, Order.SEQ_CST)
_FENCES = (Order.ACQUIRE, Order.RELEASE, Order.ACQ_REL, Order.SEQ_CST, Order.SEQ_CST)
_SCOPES = (Scope.SUBGROUP, Scope.WORKGROUP, Scope.DEVICE, Scope.SYSTEM)


@dataclass(slots=True)
class Generator:
    """Draws programs; the same seed draws the same ones.

    `apart` puts every work-item into a workgroup of its own, for targets that run a workgroup in
    one thread. `widest` is the widest scope to use.
    """

    random: Random
    apart: bool = False
    widest: Scope = Scope.SYSTEM
    registers: int = 0

    def program(self) -> Program:
        """Draw a program; it may race."""
        self.registers = 0
        if self.random.random() < 0.5:
            name = self.random.choice(list(SHAPES))
            accesses = [list(thread) for thread in SHAPES[name]]
        else:
            name = "random"
            accesses = self._accesses()
        return self._assemble(name, accesses)

    def _accesses(self) -> list[list[str]]:
        random = self.random
        count = random.choice((2, 2, 2, 3))
        places = "xy" if random.random() < 0.7 else "xyz"
        longest = 3 if count == 2 else 2
        threads: list[list[str]] = []
        for _ in range(count):
            thread: list[str] = []
            for _ in range(random.randint(1, longest)):
                place = random.choice(places)
                write = f"W{place}{random.randint(1, 2)}"
                thread.append(random.choice((f"R{place}", write)))
            threads.append(thread)
        return threads

    def _assemble(self, name: str, accesses: list[list[str]]) -> Program:
        random = self.random
        places = self._places(len(accesses))
        names = sorted({access[1] for thread in accesses for access in thread})
        plain = self._plain_place(accesses)
        together = len({place[Scope.WORKGROUP] for place in places}) == 1
        shared = together and random.random() < 0.3
        barrier = together and not self.apart and random.random() < 0.15
        least = {name: self._least_scope(_users(name, accesses, places)) for name in names}
        threads: list[Thread] = []
        for number, own in enumerate(accesses):
            body = self._body(own, plain, least)
            if barrier:
                body.insert(_outside(body, random), _barrier())
            threads.append(Thread(name=f"P{number}", place=places[number], body=tuple(body)))
        if self._contended(accesses) and random.random() < 0.4:
            threads.append(self._observer(accesses, plain, places))
        spaces = {place: random.choice(list(Space)) if shared else Space.GLOBAL for place in names}
        locations = tuple(Location(name=place, space=spaces[place]) for place in names)
        return Program(name=name, locations=locations, threads=tuple(threads))

    def _places(self, count: int) -> list[dict[Scope, int]]:
        random = self.random
        layout = "apart" if self.apart else random.choice(("apart", "apart", "mixed", "together"))
        devices = self.widest is Scope.SYSTEM and random.random() < 0.1
        places: list[dict[Scope, int]] = []
        for number in range(count):
            group = {"apart": number, "together": 0, "mixed": random.randint(0, 1)}[layout]
            subgroup = random.randint(0, 1) if random.random() < 0.5 else number
            place = {Scope.SUBGROUP: subgroup, Scope.WORKGROUP: group}
            place[Scope.DEVICE] = random.randint(0, 1) if devices else 0
            places.append(place)
        return places

    def _least_scope(self, places: Sequence[dict[Scope, int]]) -> Scope:
        if len({place[Scope.DEVICE] for place in places}) > 1:
            return Scope.SYSTEM
        if len({place[Scope.WORKGROUP] for place in places}) > 1:
            return Scope.DEVICE
        if len({place[Scope.SUBGROUP] for place in places}) > 1:
            return Scope.WORKGROUP
        return Scope.SUBGROUP

    def _scope(self, least: Scope) -> Scope:
        """Mostly the least scope that all threads share, now and then a wider or narrower one."""
        allowed = _SCOPES[: _SCOPES.index(self.widest) + 1]
        wide = [scope for scope in allowed if _SCOPES.index(scope) >= _SCOPES.index(least)]
        draw = self.random.random()
        if draw < 0.7 or not wide:
            return least
        return self.random.choice(wide) if draw < 0.97 else self.random.choice(allowed)

    def _plain_place(self, accesses: list[list[str]]) -> str:
        """Choose a location whose accesses are not atomic: one that is written by one thread."""
        if self.random.random() < 0.5:
            return ""
        writers: dict[str, int] = {}
        for thread in accesses:
            for place in {access[1] for access in thread if access[0] == "W"}:
                writers[place] = writers.get(place, 0) + 1
        single = [place for place, count in sorted(writers.items()) if count == 1]
        return self.random.choice(single) if single else ""

    def _contended(self, accesses: list[list[str]]) -> bool:
        writes = [access[1] for thread in accesses for access in thread if access[0] == "W"]
        return len(accesses) < 3 and len(set(writes)) < len(writes)

    def _body(
        self, accesses: list[str], plain: str, least: Mapping[str, Scope]
    ) -> list[Instruction]:
        random = self.random
        body: list[Instruction] = []
        end: str | None = None
        last_read: str | None = None
        for position, access in enumerate(accesses):
            if position and random.random() < 0.3:
                body.append(self._fence(least[random.choice(accesses)[1]]))
            if access[1] == plain and last_read is not None and end is None:
                # a plain access is meant to be reached only after the flag was seen
                end = "end"
                body.append(Jump(target=end, condition=Binary("==", Reg(last_read), Const(0))))
            register = f"r{self._fresh()}"
            scope = least[access[1]]
            body.append(self._access(access, register, access[1] == plain, scope, last_read))
            if access[0] == "R":
                last_read = register
        if end is not None:
            body.append(Label(name=end))
        return body

    def _fresh(self) -> int:
        self.registers += 1
        return self.registers

    def _fence(self, least: Scope) -> Fence:
        order = self.random.choice(_FENCES)
        scope = self._scope(least)
        return Fence(order=order, scope=scope, text=f"fence.{order}.{scope}")

    def _access(
        self, access: str, register: str, plain: bool, least: Scope, last_read: str | None
    ) -> Instruction:
        random = self.random
        place, scope = Address(base=access[1]), self._scope(least)
        if access[0] == "R":
            if plain:
                return Load(register=register, address=place, text=f"load {access[1]}")
            if random.random() < 0.15:
                return self._update(register, access[1], 0, scope)
            order = random.choice(_READ_ORDERS)
            text = f"load.{order}.{scope} {access[1]}"
            return Load(register=register, address=place, order=order, scope=scope, text=text)
        value = int(access[2])
        if plain:
            text = f"store {access[1]}, {value}"
            return Store(address=place, value=Const(value), text=text)
        if random.random() < 0.2:
            return self._update(register, access[1], value, scope)
        order = random.choice(_WRITE_ORDERS)
        text = f"store.{order}.{scope} {access[1]}, {value}"
        depends = last_read is not None and random.random() < 0.15
        written = Reg(last_read) if depends and last_read is not None else Const(value)
        return Store(address=place, value=written, order=order, scope=scope, text=text)

    def _update(self, register: str, place: str, value: int, scope: Scope) -> Instruction:
        random = self.random
        order = random.choice(list(Order))
        address = Address(base=place)
        if value and random.random() < 0.3:
            return Cas(
                register=register,
                address=address,
                expected=Const(0),
                desired=Const(value),
                failure_order=_failure(order),
                order=order,
                scope=scope,
                text=f"cas.{order}.{scope} {place}, 0, {value}",
            )
        op = random.choice(("exchange", "+")) if value else "+"
        unused = value > 0 and op == "+" and random.random() < 0.5
        return Rmw(
            register=None if unused else register,
            address=address,
            op=op,
            operand=Const(value),
            order=order,
            scope=scope,
            text=f"atomic {op}.{order}.{scope} {place}, {value}",
        )

    def _observer(
        self, accesses: list[list[str]], plain: str, places: list[dict[Scope, int]]
    ) -> Thread:
        """Read a location that is written twice, two times, so that the order of stores shows."""
        writes = [access[1] for thread in accesses for access in thread if access[0] == "W"]
        twice = sorted({place for place in writes if writes.count(place) > 1 and place != plain})
        place = dict(places[0])
        place[Scope.WORKGROUP] = max(p[Scope.WORKGROUP] for p in places) + (1 if self.apart else 0)
        wide = self._least_scope([*places, place])
        body = [
            Load(
                register=f"o{turn}",
                address=Address(base=self.random.choice(twice)) if twice else Address(base="x"),
                order=Order.RELAXED,
                scope=wide,
                text="observe",
            )
            for turn in range(2)
        ]
        return Thread(name=f"P{len(accesses)}", place=place, body=tuple(body if twice else ()))


def _users(
    name: str, accesses: list[list[str]], places: Sequence[dict[Scope, int]]
) -> list[dict[Scope, int]]:
    """Return the places of the threads that access a location."""
    pairs = zip(accesses, places, strict=True)
    return [place for thread, place in pairs if any(access[1] == name for access in thread)]


def _failure(order: Order) -> Order:
    if order is Order.SEQ_CST:
        return order
    return Order.ACQUIRE if order.acquires else Order.RELAXED


def _barrier() -> Barrier:
    return Barrier(
        name="barrier",
        execution=Scope.WORKGROUP,
        order=Order.ACQ_REL,
        scope=Scope.WORKGROUP,
        text="barrier",
    )


def _outside(body: list[Instruction], random: Random) -> int:
    """Return a place before any jump, so that every work-item reaches the barrier."""
    jumps = [place for place, item in enumerate(body) if isinstance(item, Jump)]
    return random.randint(0, jumps[0] if jumps else len(body))
