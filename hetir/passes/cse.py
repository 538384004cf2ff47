"""Common subexpressions, and loads of what is already known."""

from __future__ import annotations

from collections.abc import Sequence

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value
from hetir.ir.ops import Effect
from hetir.passes.forward import Forward
from hetir.passes.regions import LOOPS, definitions, is_private, source_of

Key = tuple[object, ...]


def cse(kernel: Kernel) -> Kernel:
    """The kernel with each pure op and each load computed once where one dominates another.

    A load may take the value of an earlier load or store of the same element of an array
    when nothing in between may have written it.
    """
    return _Cse(kernel).kernel(kernel)


class _Cse(Forward):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.sources = definitions(kernel.body)
        self.known_values: dict[Key, Value] = {}
        self.versions: dict[object, int] = {}
        self.clock = 0
        self.effects: dict[Operation, frozenset[object]] = {}

    def region(self, region: Region) -> Region:
        """What is computed inside is not known outside."""
        outer = self.known_values
        self.known_values = _Scope(outer)
        result = super().region(region)
        self.known_values = outer
        return result

    def inside(self, op: Operation) -> Operation:
        """A loop's body may follow on itself; after an `if` either arm may have run."""
        written = self.written(op)
        if op.spec in LOOPS:
            self.touch(written)
        result = super().inside(op)
        self.touch(written)
        return result

    def visit(self, op: Operation) -> Sequence[Value] | None:
        if op.spec.pure and op.results:
            return self.once(op, ())
        if op.spec is ops.LOAD:
            return self.once(op, (self.version(op.operands[0]),))
        if op.spec is ops.STORE:
            self.touch(self.written(op))
            array, *_, value = op.operands
            key = self.key(ops.LOAD, op.operands[:-1], op, (self.version(array),))
            self.known_values[key] = value
        elif not op.regions:
            self.touch(self.written(op))
        return None

    def once(self, op: Operation, version: Key) -> Sequence[Value] | None:
        key = self.key(op.spec, op.operands, op, version)
        found = self.known_values.get(key)
        if found is not None:
            return (found,)
        self.known_values[key] = op.result
        return None

    def key(self, spec: ops.Spec, operands: Sequence[Value], op: Operation, version: Key) -> Key:
        values = tuple(map(id, operands))
        if spec.commutative:
            values = tuple(sorted(values))
        attrs = tuple(sorted(op.attrs.items())) if op.attrs else ()
        return (spec, values, attrs, version)

    # -- what may have been written

    def source(self, array: Value) -> object:
        """The alloc that an array is, or its space: what a version is counted for."""
        found = source_of(array, self.sources)
        return found.space if found.space == "global" else found.root

    def version(self, array: Value) -> int:
        own = self.versions.get(self.source(array), 0)
        # nobody else can write a private array, whatever this work-item waits for
        return own if is_private(array) else max(own, self.versions.get(None, 0))

    def touch(self, written: frozenset[object]) -> None:
        if written:
            self.clock += 1
            self.versions.update(dict.fromkeys(written, self.clock))

    def written(self, op: Operation) -> frozenset[object]:
        """The arrays that an op, or anything inside it, may write; None stands for any."""
        if op.regions:
            if op not in self.effects:
                inner = (self.written(o) for r in op.regions for o in r.body)
                self.effects[op] = frozenset[object]().union(*inner)
            return self.effects[op]
        if Effect.WRITE not in op.spec.effect or op.spec is ops.ALLOC:
            return frozenset()
        if op.spec is ops.STORE:
            return frozenset((self.source(op.operands[0]),))
        return frozenset() if op.spec in (ops.PRINT, ops.ASSERT) else frozenset((None,))


class _Scope(dict[Key, Value]):
    """A dictionary on top of the one of the region around."""

    def __init__(self, outer: dict[Key, Value]) -> None:
        super().__init__()
        self.outer = outer

    def get(self, key: Key, default: Value | None = None) -> Value | None:  # type: ignore[override]
        """The value in this scope or in one around it."""
        found = super().get(key)
        return found if found is not None else self.outer.get(key, default)
