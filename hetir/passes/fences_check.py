"""Proves single steps of `passes.fences` anew, on the graph of control flow instead of regions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from hetir.ir.core import Kernel, Operation, Region, walk
from hetir.ir.ops import Effect
from hetir.ir.types import Scalar

_SCOPES = ("subgroup", "workgroup", "device", "system")
_ATOMIC = "atomic."
_PARTS = {
    "relaxed": frozenset[str](),
    "acquire": frozenset({"acquire"}),
    "release": frozenset({"release"}),
    "acq_rel": frozenset({"acquire", "release"}),
    "seq_cst": frozenset({"acquire", "release", "total"}),
}


def proves(before: Kernel, after: Kernel) -> bool:
    """Whether `after` is `before` with one op weakened or removed, and never does more.

    What it shows holds for every launch: each execution of `after` has a place among those of
    `before` by the axioms of docs/memory-model.md.
    """
    known = set(walk(before.body))
    added = [op for op in walk(after.body) if op.name == "fence" and op not in known]
    if len(added) == 1 and _moved(before, after, added[0]):
        return True
    found = list(_differences(before.body, after.body))
    if len(found) != 1 or found[0] is None:
        return False
    old, new = found[0]
    graph = _Graph(before)
    if old.name == "barrier":
        return new is None and _barrier(graph, old)
    scope = str(old.attrs["scope"])
    if scope == "system":
        return False
    if old.name == "fence":
        return _fence(graph, old, new)
    if not old.name.startswith(_ATOMIC) or new is None:
        return False
    if new.attrs["order"] == old.attrs["order"]:
        narrowed = scope == "device" and new.attrs["scope"] == "workgroup"
        return narrowed and _space(old) == "shared" and old.attrs["order"] != "seq_cst"
    return new.attrs["scope"] == scope and _access(graph, old, new)


def _moved(before: Kernel, after: Kernel, fence: Operation) -> bool:
    """Whether an access gives its acquiring to a fence that stands before all it is for."""
    found = list(_differences(before.body, _without(after.body, fence)))
    old, new = found[0] if len(found) == 1 and found[0] is not None else (fence, None)
    if new is None:
        return False
    had, has = (_PARTS[str(op.attrs["order"])] for op in (old, new))
    scope = str(old.attrs["scope"])
    weaker = had - has == frozenset({"acquire"}) and has <= had and "total" not in had
    if not weaker or scope == "system" or new.attrs["scope"] != scope or old.name == "fence":
        return False
    if fence.attrs["order"] != "acquire" or fence.attrs["scope"] != scope:
        return False
    between = _Graph(after).reachable(new, forwards=True, until=fence)
    return not any(_shares(op) or op.name in ("fence", "barrier") for op in between)


def _without(region: Region, gone: Operation) -> Region:
    """A region without one op; regions that do not hold it stay themselves."""
    if all(op is not gone for op in walk(region)):
        return region
    kept = (op for op in region.body if op is not gone)
    inner = (
        replace(op, regions=tuple(_without(r, gone) for r in op.regions)) if op.regions else op
        for op in kept
    )
    return Region(region.args, tuple(inner))


_Difference = tuple[Operation, Operation | None] | None


def _differences(before: Region, after: Region) -> Iterator[_Difference]:
    """Each op that differs, with what became of it; None for what is no step at all."""
    if before is after:
        return
    kept = set(after.body)
    rest = iter(after.body)
    for op in before.body:
        if op in kept:
            if next(rest, None) is not op:
                yield None
        elif op.name in ("fence", "barrier") and len(before.body) > len(after.body):
            yield op, None
        else:
            other = next(rest, None)
            if other is None or op.spec is not other.spec:
                yield None
            elif op.regions:
                for one, two in zip(op.regions, other.regions, strict=True):
                    yield from _differences(one, two)
            else:
                yield (op, other) if _weaker(op, other) else None
    if next(rest, None) is not None:
        yield None


def _weaker(op: Operation, other: Operation) -> bool:
    """Whether two ops differ in nothing but order and scope."""
    if "order" not in op.attrs or op.operands != other.operands:
        return False
    kept = {name: value for name, value in op.attrs.items() if name not in ("order", "scope")}
    same = all(other.attrs[name] == value for name, value in kept.items())
    return same and op.results == other.results and op.loc == other.loc


# ---- proofs --------------------------------------------------------------------------------


def _fence(graph: _Graph, old: Operation, new: Operation | None) -> bool:
    scope = str(old.attrs["scope"])
    lost = _PARTS[str(old.attrs["order"])]
    if new is not None:
        if new.attrs["scope"] != scope:
            return False
        lost = lost - _PARTS[str(new.attrs["order"])]
    if not lost:
        return False

    def covers(op: Operation) -> bool:
        if op.name == "fence":
            return lost <= _PARTS[str(op.attrs["order"])] and _wide(op, scope)
        return False

    def meets(op: Operation) -> bool:
        return op.name == "barrier" and scope != "device" and _wide(op, scope)

    def between(op: Operation) -> bool:
        return _shares(op) or op.name == "barrier"

    ways = (True, False)
    if new is None and any(graph.always(old, covers, between, way) for way in ways):
        return True
    if new is None and any(graph.always(old, meets, _shares, way) for way in ways):
        return True
    if "total" in lost:
        return False
    return all(_by_themselves(graph, old, part, scope) for part in lost)


def _by_themselves(graph: _Graph, fence: Operation, part: str, scope: str) -> bool:
    """Whether every atomic that the fence would make acquire or release does so itself."""
    skipped = "atomic.store" if part == "acquire" else "atomic.load"
    return all(
        part in _PARTS[str(op.attrs["order"])] and _wide(op, scope)
        for op in graph.reachable(fence, forwards=part == "release")
        if op.name.startswith(_ATOMIC) and op.name != skipped and _space(op) != "private"
    )


def _barrier(graph: _Graph, old: Operation) -> bool:
    scope = str(old.attrs["scope"])
    if scope == "device":
        return False
    sides = [graph.reachable(old, forwards=way) for way in (True, False)]
    if any(not any(map(_shares, side)) for side in sides):
        return True

    def again(op: Operation) -> bool:
        return op.name == "barrier" and op is not old and _wide(op, scope)

    def bad(op: Operation) -> bool:
        return _shares(op) or op.name == "fence" or op is old

    return any(graph.always(old, again, bad, way) for way in (True, False))


def _access(graph: _Graph, old: Operation, new: Operation) -> bool:
    """An access that acquires no more."""
    had, has = (_PARTS[str(op.attrs["order"])] for op in (old, new))
    if had - has != frozenset({"acquire"}) or has - had or "total" in had:
        return False
    if not any(map(_shares, graph.reachable(old, forwards=True))):
        return True
    scope = str(old.attrs["scope"])

    def meets(op: Operation) -> bool:
        return op.name == "barrier" and _wide(op, scope)

    def bad(op: Operation) -> bool:
        return _shares(op) or op.name == "fence"

    return scope != "device" and graph.always(old, meets, bad, True)


def _wide(op: Operation, scope: str) -> bool:
    return _SCOPES.index(str(op.attrs["scope"])) >= _SCOPES.index(scope)


def _space(op: Operation) -> str:
    kind = op.operands[0].type
    return "global" if isinstance(kind, Scalar) else kind.space


def _shares(op: Operation) -> bool:
    """Whether an op does anything that is not the work-item's own, fences and barriers apart."""
    if op.regions or op.spec.terminator or op.name in ("fence", "barrier", "alloc"):
        return False
    if op.spec.effect is Effect.PURE:
        return False
    accesses = op.name in ("load", "store") or op.name.startswith(_ATOMIC)
    return not (accesses and _space(op) == "private")


# ---- the graph -----------------------------------------------------------------------------

_END = -1


@dataclass(slots=True)
class _Graph:
    """A node an op that holds no region, and which may run right after which."""

    kernel: Kernel
    nodes: list[Operation] = field(default_factory=list[Operation])
    after: dict[int, set[int]] = field(default_factory=dict[int, "set[int]"])
    number: dict[Operation, int] = field(default_factory=dict[Operation, int])

    def __post_init__(self) -> None:
        for op in walk(self.kernel.body):
            self.number[op] = len(self.nodes)
            self.nodes.append(op)
        self._region(self.kernel.body, _END, None)

    def _region(self, region: Region, following: int, loop: tuple[int, int] | None) -> None:
        """Link a region's ops; `following` comes after a `yield`, `loop` is (again, leave)."""
        numbers = [self.number[op] for op in region.body]
        for op, here, then in zip(region.body, numbers, [*numbers[1:], following], strict=True):
            match op.name:
                case "yield":
                    self._link(here, following)
                case "return":
                    self._link(here, _END)
                case "break" if loop is not None:
                    self._link(here, loop[1])
                case "continue" if loop is not None:
                    self._link(here, loop[0])
                case "if":
                    for arm in op.regions:
                        self._link(here, self.number[arm.body[0]])
                        self._region(arm, then, loop)
                case "for" | "loop":
                    (body,) = op.regions
                    self._link(here, self.number[body.body[0]])
                    if op.name == "for":
                        self._link(here, then)
                    self._region(body, here, (here, then))
                case _:
                    self._link(here, then)

    def _link(self, one: int, two: int) -> None:
        self.after.setdefault(one, set()).add(two)

    def _next(self, node: int, forwards: bool) -> Iterable[int]:
        if forwards:
            return self.after.get(node, ())
        earlier = [one for one, many in self.after.items() if node in many]
        return earlier if node else [*earlier, _END]

    def reachable(
        self, op: Operation, *, forwards: bool, until: Operation | None = None
    ) -> list[Operation]:
        """Every op that may run after (or before) this one, on ways that end at `until`."""
        seen: set[int] = set()
        pending = list(self._next(self.number[op], forwards))
        while pending:
            node = pending.pop()
            if node in seen or node == _END or self.nodes[node] is until:
                continue
            seen.add(node)
            pending += self._next(node, forwards)
        return [self.nodes[node] for node in seen]

    def always(
        self,
        op: Operation,
        good: Callable[[Operation], bool],
        bad: Callable[[Operation], bool],
        forwards: bool,
    ) -> bool:
        """Whether each way on (or back) meets a `good` op before a `bad` one and before an end."""
        seen: set[int] = set()
        pending = list(self._next(self.number[op], forwards))
        while pending:
            node = pending.pop()
            if node == _END:
                return False
            if node in seen:
                continue
            seen.add(node)
            other = self.nodes[node]
            if other is op or bad(other):
                return False
            if not good(other):
                pending += self._next(node, forwards)
        return bool(seen)
