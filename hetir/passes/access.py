"""Where each memory access lies, as a polynomial in local ids, iterations and uniform values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hetir.ir import ops
from hetir.ir.build import constant
from hetir.ir.core import Kernel, Operation, Value
from hetir.ir.types import I64, U64, ArrayType, Scalar
from hetir.passes.regions import LOOPS, definitions, exits_of, is_private
from hetir.passes.uniformity import Uniformity

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
    element of axis `axis` of the array `of` to the next) or `value` (the value `of`, about which
    nothing is known).
    """

    kind: str
    of: Value | Operation | None = None
    axis: int = 0

    def varies(self, known: Uniformity) -> bool:
        """Whether work-items of that scope may see unlike numbers in one execution."""
        return self.kind == "local" or (self.kind == "value" and self.of in known.values)


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
                term = tuple(sorted((*one, *two), key=_order)) if one and two else one or two
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

    def split(self) -> tuple[frozenset[tuple[Term, int]], int]:
        """What depends on atoms, and the number that is added to it."""
        return frozenset(t for t in self.terms.items() if t[0]), self.terms.get((), 0)

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
    half = 1 << 63
    return Form({t: n for t, f in terms.items() if (n := (f + half) % (2 * half) - half)})


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
    """One load, store or atomic of `size` bytes.

    `offset` counts bytes from the first element of `root` (a parameter, an alloc, or another
    value whose origin is not known).
    """

    op: Operation
    root: Value
    offset: Form
    size: int

    def stride(self, known: Uniformity) -> Form | None:
        """By how many bytes the address moves with the local id x, or None where it is no line.

        `known` is under lockstep, which holds for work-items in one iteration of the loops
        around the access; what it says is for work-items that agree in y and z.
        """
        if known.varying(self.root) and not is_private(self.root):
            return None
        if any(a.kind == "value" and a.varies(known) for a in self.offset.atoms()):
            return None
        stride = self.offset.coefficient(LOCAL_X)
        return None if stride is None or any(a.varies(known) for a in stride.atoms()) else stride

    def kind(self, known: Uniformity) -> str:
        """The same in a word: `uniform`, `contiguous` (an element an item), `strided`, `gather`."""
        stride = self.stride(known)
        if stride is None:
            return "gather"
        step = stride.constant
        return "uniform" if step == 0 else "contiguous" if step == self.size else "strided"


class Addresses:
    """Where the accesses of one kernel lie; a polynomial is made once, when it is asked for.

    Without `products`, what an op makes of two unknowns by multiplying them is one itself.
    """

    def __init__(self, kernel: Kernel, *, products: bool = True) -> None:
        self.definitions = definitions(kernel.body)
        self.products = products
        self._forms: dict[Value, Form] = {}

    def of(self, op: Operation) -> Access:
        """Where a load, store or atomic lies."""
        array = op.operands[0]
        if isinstance(array.type, ArrayType):
            element, count = array.type.element, array.type.ndim
            root, offset, strides = self._place(array)
            for index, stride in zip(op.operands[1 : 1 + count], strides, strict=True):
                offset += self.form(index) * stride
        else:
            kind = op.attrs["element"]
            assert isinstance(kind, Scalar)
            element, root = kind, self._base(array)
            offset = self.form(op.operands[1])
        return Access(op, root, offset, element.bytes)

    def _base(self, reference: Value) -> Value:
        op = self.definitions.get(reference)
        return op.operands[0] if op is not None and op.spec is ops.BASE else reference

    def _place(self, array: Value) -> tuple[Value, Form, Sequence[Form]]:
        """The root of an array, the offset of its first element, each axis' stride in bytes."""
        op = self.definitions.get(array)
        if op is None or op.spec is not ops.VIEW:
            assert isinstance(array.type, ArrayType)
            return array, Form(), [self.stride(array, a) for a in range(array.type.ndim)]
        root, offset, strides = self._place(op.operands[0])
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
        """The bytes from one element to the next along an axis of an array that is no view."""
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
        work = [] if value in self._forms else [value]
        while work:
            top = work[-1]
            op = None if top in self._forms else self.definitions.get(top)
            missing = [v for v in self._parts(op) if v not in self._forms] if op else []
            if missing:
                work += missing
                continue
            work.pop()
            if top not in self._forms:
                found = self._compute(top, op) if op is not None else None
                if found is None or not found.small:
                    found = atom_form(Atom("value", top))
                self._forms[top] = found
        return self._forms[value]

    def _parts(self, op: Operation) -> Sequence[Value]:
        """The operands whose polynomials an op's is made of, which come before it."""
        computed = op.spec in _RULES and not op.regions and op.result.type in (I64, U64)
        return [v for v in op.operands if v.type in (I64, U64)] if computed else ()

    def _compute(self, value: Value, op: Operation) -> Form | None:
        """The polynomial that an op computes, or None where it computes none."""
        if value.type not in (I64, U64):
            return None
        if op.spec in LOOPS:
            return self._of_loop(value, op)
        rule = _RULES.get(op.spec)
        return rule(self, op) if rule else None

    def _of_loop(self, value: Value, op: Operation) -> Form | None:
        """A loop's index or carried value."""
        if value in op.results:
            return None
        if op.spec is ops.FOR and value is op.regions[0].args[0]:
            turns = atom_form(Atom("iteration", op))
            return self.form(op.operands[0]) + self.form(op.operands[2]) * turns
        return self._induction(value, op)

    def _induction(self, value: Value, op: Operation) -> Form | None:
        """A carried value to which every iteration adds the same invariant amount."""
        (body,) = op.regions
        at = body.args.index(value) - (op.spec is ops.FOR)
        initial = op.operands[at + (3 if op.spec is ops.FOR else 0)]
        # while the increment is looked at, the carried value stands for itself
        self._forms[value] = atom_form(Atom("value", value))
        nexts = [end.operands[at] for end in exits_of(body) if end.spec is not ops.BREAK]
        steps = [self._increment(value, self.definitions.get(following)) for following in nexts]
        step = steps[0] if steps else None
        if step is None or any(other != step for other in steps):
            return None
        parts = {atom.of for atom in step.atoms() if atom.of is not None}
        inside = definitions(body) if parts else {}
        if not parts.isdisjoint((op, *inside, *inside.values(), *body.args)):
            return None
        return self.form(initial) + step * atom_form(Atom("iteration", op))

    def _increment(self, value: Value, following: Operation | None) -> Form | None:
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


def _global_id(_: Addresses, op: Operation) -> Form:
    axis = _axis(op)
    return atom_form(Atom("origin", axis=axis)) + atom_form(Atom("local", axis=axis))


def _mul(analysis: Addresses, op: Operation) -> Form | None:
    a, b = map(analysis.form, op.operands)
    return a * b if analysis.products or a.constant is not None or b.constant is not None else None


def _shl(analysis: Addresses, op: Operation) -> Form | None:
    count = analysis.form(op.operands[1]).constant
    if count is None:
        return None
    return analysis.form(op.operands[0]) * number_form(1 << count % 64)


def _cast(analysis: Addresses, op: Operation) -> Form | None:
    return analysis.form(op.operands[0]) if op.operands[0].type in (I64, U64) else None


def _stride(analysis: Addresses, op: Operation) -> Form | None:
    array = op.operands[0]
    return None if array in analysis.definitions else analysis.stride(array, _axis(op))


_RULES: Mapping[ops.Spec, Callable[[Addresses, Operation], Form | None]] = {
    ops.CONST: lambda _, op: number_form(int(constant(op) or 0)),
    ops.LOCAL_ID: lambda _, op: atom_form(Atom("local", axis=_axis(op))),
    ops.GLOBAL_ID: _global_id,
    ops.ADD: lambda a, op: a.form(op.operands[0]) + a.form(op.operands[1]),
    ops.SUB: lambda a, op: a.form(op.operands[0]) + -a.form(op.operands[1]),
    ops.NEG: lambda a, op: -a.form(op.operands[0]),
    ops.MUL: _mul,
    ops.SHL: _shl,
    ops.CAST: _cast,
    ops.STRIDE: _stride,
}
