"""Small concurrent programs: what the checker judges, whatever they were read from."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Order(StrEnum):
    """The order of an atomic access or a fence; a plain access has none."""

    RELAXED = "relaxed"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"
    SEQ_CST = "seq_cst"

    @property
    def acquires(self) -> bool:
        """Whether a read or fence of this order acquires."""
        return self in {Order.ACQUIRE, Order.ACQ_REL, Order.SEQ_CST}

    @property
    def releases(self) -> bool:
        """Whether a write or fence of this order releases."""
        return self in {Order.RELEASE, Order.ACQ_REL, Order.SEQ_CST}


class Scope(StrEnum):
    """The work-items an operation is ordered for, from the narrowest to the widest.

    `CLUSTER` is PTX's, `QUEUE_FAMILY` Vulkan's, `WORK_ITEM` OpenCL's; hetIR has the other four.
    """

    WORK_ITEM = "work_item"
    SUBGROUP = "subgroup"
    WORKGROUP = "workgroup"
    CLUSTER = "cluster"
    QUEUE_FAMILY = "queue_family"
    DEVICE = "device"
    SYSTEM = "system"


SCOPES = tuple(Scope)


class Space(StrEnum):
    """Where a location lies."""

    GLOBAL = "global"
    SHARED = "shared"


@dataclass(frozen=True, slots=True)
class Const:
    """A literal integer."""

    value: int


@dataclass(frozen=True, slots=True)
class Reg:
    """The present value of one of the thread's registers; 0 before the first assignment."""

    name: str


@dataclass(frozen=True, slots=True)
class Binary:
    """An operation of `OPERATIONS` on two values."""

    op: str
    left: Expr
    right: Expr


Expr = Const | Reg | Binary


OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << max(0, b),
    ">>": lambda a, b: a >> max(0, b),
    "min": min,
    "max": max,
    "exchange": lambda _, b: b,
}
"""What an expression or a read-modify-write computes of two values."""


def evaluate(op: str, a: int, b: int) -> int:
    """Return the value of a binary operation; comparisons give 0 or 1."""
    return OPERATIONS[op](a, b)


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A named memory location of one word.

    `alias` names the location whose storage this one shares; `address` names the location whose
    virtual address it has (a surface over `x` is another location at the address of `x`).
    """

    name: str
    initial: int = 0
    space: Space = Space.GLOBAL
    alias: str | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A location, or an element of an array of locations where `index` is given."""

    base: str
    index: Expr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What every operation on memory has in common.

    `order` None is a plain access. `tags` carry what only one target's model knows (Vulkan's
    availability and storage-class semantics, PTX's proxies). `text` is shown in witnesses;
    `origin` is whatever the caller wants to find again, such as a Python line.
    """

    order: Order | None = None
    scope: Scope | None = None
    tags: frozenset[str] = frozenset()
    text: str = ""
    origin: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Load(Operation):
    """Read a location into a register."""

    register: str
    address: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Store(Operation):
    """Write a value to a location."""

    address: Address
    value: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Rmw(Operation):
    """Replace a location's value by `op(old, operand)` in one step; the register gets the old.

    A register of None is a reduction: nothing reads the old value.
    """

    register: str | None
    address: Address
    op: str
    operand: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Cas(Operation):
    """Store `desired` where the old value equals `expected`; the register gets the old value.

    `success` names a register for the 0 or 1 of whether it stored. A failing one is a read of
    `failure_order`.
    """

    register: str | None
    address: Address
    expected: Expr
    desired: Expr
    failure_order: Order = Order.RELAXED
    success: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence(Operation):
    """Order the thread's accesses around it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier(Operation):
    """Wait for the other work-items of `execution` scope at the barrier of the same name.

    With `count`, any that many arrivals pass together and what is left over waits for ever.
    `order` and `scope` are those of the memory it orders; `key` tells barriers of one name apart.
    """

    name: str
    key: Expr | None = None
    count: Expr | None = None
    execution: Scope = Scope.WORKGROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """Set a register."""

    register: str
    value: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A place that jumps name."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """Go to a label, if the condition (where there is one) is not 0."""

    target: str
    condition: Expr | None = None


Instruction = Load | Store | Rmw | Cas | Fence | Barrier | Assign | Label | Jump
MemoryOperation = Load | Store | Rmw | Cas | Fence | Barrier


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """One work-item: its place in the tree of scopes and what it runs.

    `place` numbers the instance of each scope it is in. A scope that is not numbered is shared by
    all, except the subgroup, which is then the work-item's own.
    """

    name: str
    place: Mapping[Scope, int] = field(default_factory=dict[Scope, int])
    body: tuple[Instruction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Threads over locations.

    `synchronized` lists pairs of threads of which the first ends before the second starts, as
    the host arranges it (Vulkan's system-synchronizes-with).
    """

    name: str
    locations: tuple[Location, ...]
    threads: tuple[Thread, ...]
    synchronized: tuple[tuple[int, int], ...] = ()


def share(scope: Scope, a: Thread, b: Thread) -> bool:
    """Whether two threads are in one instance of `scope`."""
    if a is b:
        return True
    if scope is Scope.WORK_ITEM:
        return False
    wider = SCOPES[SCOPES.index(scope) :]
    if scope is Scope.SUBGROUP and not (scope in a.place and scope in b.place):
        return False
    return all(a.place.get(level, 0) == b.place.get(level, 0) for level in wider)
