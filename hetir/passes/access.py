"""Where each memory access lies, as a polynomial in local ids, iterations and uniform values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hetir.ir import ops
from hetir.ir.build import constant
from hetir.ir.core import Kernel, Operation, Value, walk
from hetir.ir.types import I64, U64, ArrayType, Scalar
from hetir.passes.regions import LOOPS, definitions, exits_of, is_private
from hetir.passes.uniformity import Uniformity, uniformity

MAX_TERMS = 24
MAX_DEGREE = 4

ACCESSES = (
    ops.LOAD, ops.STORE, ops.ATOMIC_LOAD, ops.ATOMIC_STORE, ops.ATOMIC_RMW, ops.ATOMIC_CAS,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Atom:
    """One unknown of a polynomial.

    `kind` is `local` (the local id of axis `axis`), `origin` (group_id * group_size of that
    axis), `iteration` (how often the loop `of` has gone round), `stride` (bytes from one
    element of axis `axis` of the array `of` to the next), `uniform` (the value `of`, the same
    for the whole workgroup) or `varying` (the value `of`, about which nothing is known).
    """

    kind: str
    of: Value | Operation | None = None
    axis: int = 0

    @property
    def uniform(self) -> bool:
        """Whether all work-items of a workgroup see one number in one execution."""
        return self.kind not in ("local", "varying")


Term = tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """A polynomial modulo 2**64: each product of atoms with its signed factor, never 0."""

    terms: Mapping[Term, int] = field(default_factory=dict[Term, int])

    def __add__(self, other: Form) -> Form:
        total = dict(self.terms)
        for term, factor in other.terms.items():
            total[term] = total.get(term, 0) + factor
        return _form(total)

    def __mul__(self, other: Form) -> Form:
        total: dict[Term, int] = {}
        for one, a in self.terms.items():
            for two, b in other.terms.items():
                term = tuple(sorted((*one, *two), key=_order))
                total[term] = total.get(term, 0) + a * b
        return _form(total)

    def __neg__(self) -> Form:
        return _form({term: -factor for term, factor in self.terms.items()})

    @property
    def constant(self) -> int | None:
        """The number that this is, or None where it holds atoms."""
        if any(self.terms):
            return None
        return self.terms.get((), 0)

    @property
    def uniform(self) -> bool:
        """Whether no atom differs between work-items."""
        return all(atom.uniform for term in self.terms for atom in term)

    @property
    def small(self) -> bool:
        """Whether the polynomial is worth carrying on."""
        return len(self.terms) <= MAX_TERMS and all(len(t) <= MAX_DEGREE for t in self.terms)

    def atoms(self) -> Iterator[Atom]:
        """Every atom, once for each product it stands in."""
        return (atom for term in self.terms for atom in term)

    def coefficient(self, atom: Atom) -> Form | None:
        """What `atom` is multiplied with; None where its square or more occurs."""
        found: dict[Term, int] = {}
        for term, factor in self.terms.items():
            if atom in term:
                at = term.index(atom)
                rest = (*term[:at], *term[at + 1 :])
                if atom in rest:
                    return None
                found[rest] = factor
        return Form(found)


def _form(terms: Mapping[Term, int]) -> Form:
    wrapped = {t: (f + (1 << 63)) % (1 << 64) - (1 << 63) for t, f in terms.items()}
    return Form({t: f for t, f in wrapped.items() if f})


def _order(atom: Atom) -> tuple[str, int, int]:
    return atom.kind, atom.axis, id(atom.of)


def number_form(value: int) -> Form:
    """A constant."""
    return _form({(): value})


def atom_form(atom: Atom) -> Form:
    """One atom."""
    return Form({(atom,): 1})


LOCAL_X = Atom("local")


@dataclass(frozen=True, slots=True)
class Access:
    """One load, store or atomic.

    `offset` counts bytes from the first element of `root` (a parameter, an alloc, or another
    value whose origin is not known). `kind` says how the address moves with the local id x
    of work-items that agree in y and z: `uniform` (not at all), `contiguous` (one element
    an item), `strided` (by `stride` bytes an item) or `gather`.
    """

    op: Operation
    root: Value
    offset: Form
    kind: str
    stride: Form | None


def accesses(kernel: Kernel, known: Uniformity | None = None) -> dict[Operation, Access]:
    """The access pattern of every load, store and atomic of a kernel, in program order.

    `known` defaults to the uniformity under lockstep, which holds for work-items in one
    iteration of the loops around the access.
    """
    analysis = _Analysis(kernel, known or uniformity(kernel, lockstep=True))
    return {op: analysis.access(op) for op in walk(kernel.body) if op.spec in ACCESSES}


class _Analysis:
    def __init__(self, kernel: Kernel, known: Uniformity) -> None:
        self.defs = definitions(kernel.body)
        self.known = known
        self.forms: dict[Value, Form] = {}

    def access(self, op: Operation) -> Access:
        """Where one access lies."""
        array = op.operands[0]
        if isinstance(array.type, ArrayType):
            element, count = array.type.element, array.type.ndim
            root, offset, strides = self.place(array)
            for index, stride in zip(op.operands[1 : 1 + count], strides, strict=True):
                offset += self.form(index) * stride
        else:
            kind = op.attrs["element"]
            assert isinstance(kind, Scalar)
            element, root = kind, self.base(array)
            offset = self.form(op.operands[1])
        kind, stride = self.classify(root, offset, element.bytes)
        return Access(op, root, offset, kind, stride)

    def classify(self, root: Value, offset: Form, size: int) -> tuple[str, Form | None]:
        stride = offset.coefficient(LOCAL_X)
        opaque = any(a.kind == "varying" for a in offset.atoms())
        if self.known.varying(root) and not is_private(root):
            opaque = True
        if stride is None or opaque or not stride.uniform:
            return "gather", None
        if stride.constant == 0:
            return "uniform", stride
        return ("contiguous" if stride.constant == size else "strided"), stride

    def base(self, reference: Value) -> Value:
        op = self.defs.get(reference)
        return op.operands[0] if op is not None and op.spec is ops.BASE else reference

    def place(self, array: Value) -> tuple[Value, Form, Sequence[Form]]:
        """The root of an array, the offset of its first element, each axis' stride in bytes."""
        op = self.defs.get(array)
        if op is None or op.spec is not ops.VIEW:
            assert isinstance(array.type, ArrayType)
            return array, Form(), [self.stride(array, a) for a in range(array.type.ndim)]
        root, offset, strides = self.place(op.operands[0])
        steps = op.attrs["steps"]
        assert isinstance(steps, tuple)
        rest = iter(op.operands[1:])
        kept: list[Form] = []
        for step, stride in zip(steps, strides, strict=True):
            assert isinstance(step, int)
            offset += self.form(next(rest)) * stride
            if step:
                next(rest)
                kept.append(number_form(step) * stride)
        return root, offset, kept

    def stride(self, array: Value, axis: int) -> Form:
        kind = array.type
        assert isinstance(kind, ArrayType)
        if kind.shape is not None:
            return number_form(math.prod(kind.shape[axis + 1 :]) * kind.element.bytes)
        known = kind.strides[axis] if kind.strides else None
        if known is not None:
            return number_form(known * kind.element.bytes)
        return atom_form(Atom("stride", array, axis))

    def form(self, value: Value) -> Form:
        """An i64 or u64 value as a polynomial."""
        work = [value]
        while work:
            top = work[-1]
            op = None if top in self.forms else self.defs.get(top)
            missing = [v for v in self.parts(op) if v not in self.forms] if op else []
            if missing:
                work += missing
                continue
            work.pop()
            if top not in self.forms:
                found = self.compute(top, op) if op is not None else None
                self.forms[top] = found if found is not None and found.small else self.unknown(top)
        return self.forms[value]

    def parts(self, op: Operation) -> Sequence[Value]:
        """The operands whose polynomials an op's is made of, which come before it."""
        computed = op.spec in _RULES and not op.regions and op.result.type in (I64, U64)
        return [v for v in op.operands if v.type in (I64, U64)] if computed else ()

    def unknown(self, value: Value) -> Form:
        """The value itself as an atom."""
        return atom_form(Atom("varying" if self.known.varying(value) else "uniform", value))

    def compute(self, value: Value, op: Operation) -> Form | None:
        """The polynomial that an op computes, or None where it computes none."""
        if value.type not in (I64, U64):
            return None
        if op.spec in LOOPS:
            return self.of_loop(value, op)
        rule = _RULES.get(op.spec)
        return rule(self, op) if rule else None

    def of_loop(self, value: Value, op: Operation) -> Form | None:
        """A loop's index or carried value."""
        if value in op.results:
            return None
        if op.spec is ops.FOR and value is op.regions[0].args[0]:
            turns = atom_form(Atom("iteration", op))
            return self.form(op.operands[0]) + self.form(op.operands[2]) * turns
        return self.induction(value, op)

    def induction(self, value: Value, op: Operation) -> Form | None:
        """A carried value to which every iteration adds the same invariant amount."""
        (body,) = op.regions
        at = body.args.index(value) - (op.spec is ops.FOR)
        initial = op.operands[at + (3 if op.spec is ops.FOR else 0)]
        inside = definitions(body)
        own = {op, *inside, *inside.values(), *body.args}
        # while the increment is looked at, the carried value stands for itself
        self.forms[value] = self.unknown(value)
        steps: list[Form] = []
        for end in exits_of(body):
            if end.spec is ops.BREAK:
                continue
            step = self.increment(value, inside.get(end.operands[at]))
            if step is None or any(a.of in own for a in step.atoms()):
                return None
            steps.append(step)
        if not steps or any(step != steps[0] for step in steps):
            return None
        return self.form(initial) + steps[0] * atom_form(Atom("iteration", op))

    def increment(self, value: Value, following: Operation | None) -> Form | None:
        """What is added to a carried value to give the next one."""
        if following is None or following.spec not in (ops.ADD, ops.SUB):
            return None
        a, b = following.operands
        if a is value and b is not value:
            return self.form(b) if following.spec is ops.ADD else -self.form(b)
        return self.form(a) if b is value and following.spec is ops.ADD else None


def _axis(op: Operation) -> int:
    axis = op.attrs["axis"]
    assert isinstance(axis, int)
    return axis


def _global_id(_: _Analysis, op: Operation) -> Form:
    axis = _axis(op)
    return atom_form(Atom("origin", axis=axis)) + atom_form(Atom("local", axis=axis))


def _shl(analysis: _Analysis, op: Operation) -> Form | None:
    count = analysis.form(op.operands[1]).constant
    if count is None:
        return None
    return analysis.form(op.operands[0]) * number_form(1 << count % 64)


def _cast(analysis: _Analysis, op: Operation) -> Form | None:
    return analysis.form(op.operands[0]) if op.operands[0].type in (I64, U64) else None


def _stride(analysis: _Analysis, op: Operation) -> Form | None:
    array = op.operands[0]
    return None if array in analysis.defs else analysis.stride(array, _axis(op))


_RULES: Mapping[ops.Spec, Callable[[_Analysis, Operation], Form | None]] = {
    ops.CONST: lambda _, op: number_form(int(constant(op) or 0)),
    ops.LOCAL_ID: lambda _, op: atom_form(Atom("local", axis=_axis(op))),
    ops.GLOBAL_ID: _global_id,
    ops.ADD: lambda a, op: a.form(op.operands[0]) + a.form(op.operands[1]),
    ops.SUB: lambda a, op: a.form(op.operands[0]) + -a.form(op.operands[1]),
    ops.NEG: lambda a, op: -a.form(op.operands[0]),
    ops.MUL: lambda a, op: a.form(op.operands[0]) * a.form(op.operands[1]),
    ops.SHL: _shl,
    ops.CAST: _cast,
    ops.STRIDE: _stride,
}
