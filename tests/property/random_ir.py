"""Random well-formed modules for tests of the IR itself: every op, no claim to run."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Function, Kernel, Module, Options, Param, Region, Value
from hetir.ir.ops import CLASSES, TABLE, Spec
from hetir.ir.types import (
    BOOL,
    F32,
    I64,
    SCALARS,
    ArrayType,
    RefType,
    Scalar,
    Type,
    array,
    static_array,
)
from hetir.source import Loc

NAMES = ("", "", "x", "acc", "acc", "acc.1", "5", "a b", "nan", "Größe", "x.", "_", "%", "\ud800")
STRINGS = ("", "plain", "two words", 'quo"te\\', "line\nbreak", "Größe", "\ud800", "true", "f32")
STEPS = ("if", "for", "loop", "call", *(n for n, s in TABLE.items() if not s.terminator))
Exits = Mapping[Spec, tuple[Type, ...]]


def random_module(seed: int, size: int = 40) -> Module:
    """A module of one or two kernels and up to two functions; `size` bounds the ops of each."""
    return _Maker(random.Random(seed), size).module()


class _Maker:
    def __init__(self, rng: random.Random, size: int) -> None:
        self.rng, self.size, self.left = rng, size, 0
        self.functions: list[Function] = []
        self.values: list[Value] = []
        self.stable: list[Value] = []
        self.kernel = False
        self.safe_points = 0

    def module(self) -> Module:
        for index in range(self.rng.randrange(3)):
            self.functions.append(self.function(f"helper{index}"))
        kernels = tuple(self.make_kernel(f"k{i}") for i in range(self.rng.randint(1, 2)))
        return Module(kernels=kernels, functions=tuple(self.functions))

    def function(self, name: str) -> Function:
        params = tuple(self.new(self.any_type()) for _ in range(self.rng.randrange(3)))
        results = tuple(self.scalar() for _ in range(self.rng.randrange(3)))
        self.start(params, kernel=False)
        body = self.region((), {ops.RETURN: results}, 0)
        return Function(name=name, params=params, results=results, body=body, loc=self.loc())

    def make_kernel(self, name: str) -> Kernel:
        kinds = [self.any_type() for _ in range(self.rng.randint(1, 4))]
        params = tuple(
            Param(self.new(kind), (i, *self.rng.choice(((), ("left",), ("a b", "inf")))))
            for i, kind in enumerate(kinds)
        )
        self.start(tuple(p.value for p in params), kernel=True)
        body = self.region((), {ops.RETURN: ()}, 0)
        options = Options(
            subgroup_size=self.rng.choice((None, 1, 32)),
            math=self.rng.choice(("reproducible", "native")),
            debug=self.rng.random() < 0.5,
        )
        return Kernel(name=name, params=params, body=body, options=options, loc=self.loc())

    def start(self, params: tuple[Value, ...], *, kernel: bool) -> None:
        self.left, self.kernel, self.safe_points = self.size, kernel, 0
        self.values, self.stable = list(params), [v for v in params if _is_array(v)]

    # -- pieces

    def loc(self) -> Loc | None:
        if self.rng.random() < 0.3:
            return None
        line = self.rng.randint(1, 9)
        caller = self.loc() if self.rng.random() < 0.3 else None
        end = line + self.rng.randrange(2)
        file = self.rng.choice(("a.py", "sub dir/b.py"))
        return Loc(file, line, self.rng.randrange(9), end, self.rng.randrange(99), caller)

    def new(self, kind: Type) -> Value:
        return Value(kind, self.rng.choice(NAMES))

    def scalar(self, allowed: Callable[[Scalar], bool] = lambda t: True) -> Scalar:
        return self.rng.choice([t for t in SCALARS.values() if allowed(t)])

    def any_type(self) -> Type:
        if self.rng.random() < 0.5:
            return self.scalar()
        ndim = self.rng.randrange(4)
        known = [self.rng.choice((None, 0)) for _ in range(ndim)]
        if ndim and self.rng.random() < 0.5:
            known[-1] = 1
        return array(self.scalar(), ndim, strides=tuple(known), align=self.rng.choice((0, 16)))

    def pick(self, b: Builder, kind: Type) -> Value:
        """A visible value of a type; a constant if there is none."""
        found = [v for v in self.values if v.type == kind]
        if found and (self.rng.random() < 0.8 or not isinstance(kind, Scalar)):
            return self.rng.choice(found)
        assert isinstance(kind, Scalar)
        return self.emit(b, ops.CONST, type=kind, bits=self.rng.getrandbits(kind.bits))[0]

    def emit(self, b: Builder, spec: Spec, *operands: Value, **attrs: object) -> list[Value]:
        op = b.emit(spec, *operands, attrs=attrs, loc=self.loc(), name=self.rng.choice(NAMES))
        self.values += op.results
        return list(op.results)

    def attr(self, allowed: tuple[str, ...] | type, values: int) -> object:
        if isinstance(allowed, tuple):
            return self.rng.choice(allowed)
        if allowed is str:
            return self.rng.choice(STRINGS) + "{}" * values
        if allowed is bool:
            return self.rng.random() < 0.5
        return self.rng.randrange(3) if allowed is int else self.scalar()

    # -- steps

    def region(self, args: tuple[Value, ...], exits: Exits, depth: int) -> Region:
        b, outside = Builder(), len(self.values)
        self.values += args
        leaves = False
        while not leaves and self.left > 0 and self.rng.random() < 0.9:
            self.left -= 1
            leaves = self.step(b, exits, depth)
        legal = [s for s in exits if not (leaves and s is ops.YIELD)]
        if leaves:  # what follows is unreachable: `return`, or one of the exits above it
            ends = {region.terminator.spec for region in b.body[-1].regions}
            legal = [s for s in legal if s in ends or (self.kernel and s is ops.RETURN)]
        self.end(b, self.rng.choice(legal), exits, leaves)
        del self.values[outside:]
        return b.region(*args)

    def end(self, b: Builder, spec: Spec, exits: Exits, leaves: bool) -> None:
        last = [b.body.pop()] if leaves else []  # nothing may stand between the two
        carried = [self.pick(b, kind) for kind in exits[spec]]
        b.body += last
        b.emit(spec, *carried, loc=self.loc())

    def step(self, b: Builder, exits: Exits, depth: int) -> bool:
        """Append one op; whether it is an `if` whose regions both leave."""
        name = self.rng.choice(STEPS)
        if TABLE[name].regions:
            return depth < 4 and self.structured(b, name, exits, depth + 1)
        if name == "call":
            self.call(b)
        elif TABLE[name].rule is None:
            self.plain(b, TABLE[name])
        else:
            self.special(b, TABLE[name])
        return False

    def structured(self, b: Builder, name: str, exits: Exits, depth: int) -> bool:
        carried = [self.scalar() for _ in range(self.rng.randrange(3))]
        results = carried if name == "for" else [self.scalar() for _ in range(2)]
        if name == "if":
            operands = [self.pick(b, BOOL)]
            leave = self.rng.random() < 0.2 and len(exits) > (ops.YIELD in exits)
            kept = {s: t for s, t in exits.items() if s is not ops.YIELD}
            results = [] if leave else results
            inner = kept if leave else {**kept, ops.YIELD: tuple(results)}
            regions = [self.region((), inner, depth) for _ in range(2)]
            leave = all(r.terminator.spec is not ops.YIELD for r in regions)
            results = [] if leave else results
        else:
            counted = [I64] * 3 if name == "for" else []
            operands = [self.pick(b, kind) for kind in (*counted, *carried)]
            args = tuple(map(self.new, ([I64] if counted else []) + carried))
            inner = {
                ops.RETURN: exits[ops.RETURN],
                ops.YIELD: tuple(carried),
                ops.CONTINUE: tuple(carried),
                ops.BREAK: tuple(results),
            }
            regions, leave = [self.region(args, inner, depth)], False
        op = b.emit(TABLE[name], *operands, types=results, regions=tuple(regions), loc=self.loc())
        self.values += op.results
        return leave

    def call(self, b: Builder) -> None:
        usable = [f for f in self.functions if all(self.has(v.type) for v in f.params)]
        if usable:
            f = self.rng.choice(usable)
            operands = [self.pick(b, v.type) for v in f.params]
            op = b.emit(ops.CALL, *operands, attrs={"callee": f.name}, types=f.results)
            self.values += op.results

    def has(self, kind: Type) -> bool:
        return isinstance(kind, Scalar) or any(v.type == kind for v in self.values)

    def plain(self, b: Builder, spec: Spec) -> None:
        """An op whose row says all."""
        bound: dict[str, Scalar] = {}
        for want in spec.operands:
            if want in CLASSES:
                bound.setdefault(want, self.scalar(CLASSES[want][1]))
            else:
                bound[want] = SCALARS[want]
        operands = [self.pick(b, bound[want]) for want in spec.operands]
        attrs = {name: self.attr(allowed, 0) for name, allowed in spec.attrs.items()}
        self.emit(b, spec, *operands, **attrs)

    def special(self, b: Builder, spec: Spec) -> None:
        """An op with a rule of its own."""
        scalars = [v for v in self.values if isinstance(v.type, Scalar)]
        some = self.rng.sample(scalars, min(len(scalars), self.rng.randrange(3)))
        attrs = {name: self.attr(allowed, len(some)) for name, allowed in spec.attrs.items()}
        if spec is ops.CONST:
            kind = self.scalar()
            self.emit(b, spec, type=kind, bits=self.rng.getrandbits(kind.bits))
        elif spec is ops.ALLOC:
            shape = tuple(self.rng.randrange(5) for _ in range(self.rng.randrange(3)))
            space = self.rng.choice(("shared", "private"))
            self.stable += self.emit(b, spec, type=static_array(self.scalar(), shape, space))
        elif spec is ops.BITCAST:
            source = self.scalar()
            to = self.scalar(lambda t: t.bits == source.bits)
            self.emit(b, spec, self.pick(b, source), to=to)
        elif spec is ops.SELECT:
            kind = self.scalar()
            self.emit(b, spec, self.pick(b, BOOL), self.pick(b, kind), self.pick(b, kind))
        elif spec is ops.NATIVE:
            count = 2 if attrs["kind"] == "divide" else 1
            self.emit(b, spec, *(self.pick(b, F32) for _ in range(count + 1)), **attrs)
        elif spec is ops.SAFE_POINT:
            self.safe_points += 1
            self.emit(b, spec, *some, id=f"{attrs['id']}{self.safe_points}")
        elif spec is ops.PRINT:
            self.emit(b, spec, *some, **attrs)
        elif spec in (ops.SUBGROUP_REDUCE, ops.SUBGROUP_SCAN):
            kind = self.scalar(lambda t: t.is_int)
            self.emit(b, spec, self.pick(b, kind), self.pick(b, BOOL), **attrs)
        elif spec.signature == "-> i64":
            self.emit(b, spec, **attrs)
        elif spec.signature == "i64... ->":
            pairs = 2 * self.rng.randrange(3)
            self.emit(b, spec, *(self.pick(b, I64) for _ in range(pairs)), **attrs)
        elif spec.signature.startswith("array"):
            self.on_array(b, spec, attrs)

    def on_array(self, b: Builder, spec: Spec, attrs: dict[str, object]) -> None:
        """An op on an array or reference."""
        kinds = (ArrayType,) if spec in (ops.DIM, ops.STRIDE, ops.VIEW) else (ArrayType, RefType)
        heads = [v for v in self.values if isinstance(v.type, kinds)]
        if spec is ops.BASE:
            heads = [v for v in self.stable if v in self.values]
        if not heads:
            return
        head = self.rng.choice(heads)
        kind = head.type
        if spec is ops.BASE:
            self.emit(b, spec, head)
        elif spec in (ops.DIM, ops.STRIDE):
            if kind.ndim:
                self.emit(b, spec, head, axis=self.rng.randrange(kind.ndim))
        elif spec is ops.VIEW:
            steps = tuple(self.rng.choice((-2, 0, 1)) for _ in range(kind.ndim))
            count = sum(2 if s else 1 for s in steps)
            self.emit(b, spec, head, *(self.pick(b, I64) for _ in range(count)), steps=steps)
        else:
            self.access(b, spec, head, attrs)

    def access(self, b: Builder, spec: Spec, head: Value, attrs: dict[str, object]) -> None:
        kind = head.type
        element = self.scalar() if isinstance(kind, RefType) else kind.element
        atomic = spec not in (ops.LOAD, ops.STORE)
        if atomic and not element.is_int and (not element.is_float or spec is ops.ATOMIC_RMW):
            return
        if isinstance(kind, RefType):
            attrs = {**attrs, "element": element}
        count = 1 if isinstance(kind, RefType) else kind.ndim
        values = {ops.LOAD: 0, ops.ATOMIC_LOAD: 0, ops.ATOMIC_CAS: 2}.get(spec, 1)
        indices = [self.pick(b, I64) for _ in range(count)]
        self.emit(b, spec, head, *indices, *(self.pick(b, element) for _ in range(values)), **attrs)


def _is_array(value: Value) -> bool:
    return isinstance(value.type, ArrayType)
