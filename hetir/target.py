"""What a target can do, as data: limits, features, rules, and what it refuses and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Literal

from hetir.diagnostics import CompileError, Label
from hetir.ir import ops
from hetir.ir.core import Attr, Operation
from hetir.ir.ops import CLASSES, NATIVE_KINDS, REDUCE_KINDS, RMW_KINDS, RuleError, Spec, infer
from hetir.ir.types import BOOL, F32, I64, SCALARS, RefType, Type

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """What a launch promises of its arguments beyond their types; part of the specialisation key.

    Values and extents never are. The default promises nothing and is always right.

    Args:
        index_bits: 32 where every extent, byte stride and byte offset of every array, and every
            global id and size of the launch, fits a signed 32-bit integer, and the grid has at
            most 65,535 workgroups in y and in z (so that no device runs it in pieces); else 64.
        disjoint: no array argument overlaps another one that the kernel writes, or itself.
        aligned: one bool a kernel parameter (`Kernel.params`): an array whose address, and whose
            every byte stride but that of a contiguous last axis, is a multiple of 16.
    """

    index_bits: Literal[32, 64] = 64
    disjoint: bool = False
    aligned: tuple[bool, ...] = ()


class UnsupportedError(CompileError):
    """The target cannot do what the kernel asks.

    Cause: as the message says. Fix: compile for another target, or write the line in other terms.
    """

    code = "HET350"


ORDERS_APART = "orders outside of loops"
"""The feature of a target whose expansions should hold no ordered atomics in loops."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Target:
    """One target. The keys of `rules` are the ops that its backend emits directly.

    Every legal (op, types) has a rule, an expansion (`hetir.passes.legalize`), or stands in
    `unsupported` with the sentence that the user reads. `fingerprint` says everything about
    the target that shapes code.
    """

    name: str
    fingerprint: str
    rules: Mapping[Key, object]
    features: frozenset[str] = frozenset()
    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    unsupported: Mapping[Key, str] = field(default_factory=dict[Key, str])

    def covers(self, op: Operation) -> bool:
        """Whether the backend emits this op directly."""
        return key_of(op) in self.rules

    def refuse(self, op: Operation) -> UnsupportedError:
        """The error for an op that this target cannot do."""
        sentence = self.unsupported.get(key_of(op), f"`{op.name}` is not available")
        labels = (Label(op.loc, ""),) if op.loc else ()
        return UnsupportedError(f"{sentence} on target `{self.name}`", *labels)


# the attributes, and the operand where it is not the first scalar, that a key names
_KEY_ATTRS: Mapping[str, tuple[str, ...]] = {
    "const": ("type",),
    **dict.fromkeys(("cast", "bitcast"), ("to",)),
    **dict.fromkeys(("load", "store", "atomic.load", "atomic.store", "atomic.cas"), ("element",)),
    "atomic.rmw": ("kind", "element"),
    **dict.fromkeys(("subgroup_reduce", "subgroup_scan"), ("kind",)),
    "barrier": ("scope",),
    "native": ("kind",),
}
_KEY_OPERAND: Mapping[str, int] = {
    "select": 1,
    **dict.fromkeys(("subgroup_reduce", "subgroup_scan"), 0),
}


def key_of(op: Operation) -> Key:
    """The op's name, then the types (and kinds) that decide how it is done."""
    return key(op.spec, [v.type for v in op.operands], op.attrs)


def key(spec: Spec, operands: Sequence[Type], attrs: Mapping[str, Attr]) -> Key:
    """`key_of` for an op that is not built."""
    shown = [attrs[name] for name in _KEY_ATTRS.get(spec.name, ())]
    place = _KEY_OPERAND.get(spec.name)
    if place is None and spec.operands and spec.operands[0] in CLASSES:
        place = 0
    if place is not None:
        kind = operands[place]
        typed = "ref" if isinstance(kind, RefType) else str(kind)
        shown = [typed, *shown] if "to" in spec.attrs else [*shown, typed]
    return (spec.name, *map(str, shown))


@dataclass(frozen=True, slots=True)
class Instance:
    """One op at one choice of types, as it stands after array expansion."""

    spec: Spec
    operands: tuple[Type, ...]
    attrs: Mapping[str, Attr]

    @property
    def key(self) -> Key:
        """What a target's table is asked for."""
        return key(self.spec, self.operands, self.attrs)


def instances() -> Iterator[Instance]:
    """Every op with every legal choice of types; structure and kernel-wide ops once."""
    for spec in ops.TABLE.values():
        chosen = False
        for operands, attrs in _choices(spec):
            chosen = True
            try:
                infer(spec, operands, attrs)
            except RuleError:
                continue
            yield Instance(spec, operands, attrs)
        if not chosen:
            yield Instance(spec, (), _first(spec))


def _choices(spec: Spec) -> Iterator[tuple[tuple[Type, ...], Mapping[str, Attr]]]:
    scalars = tuple(SCALARS.values())
    match spec.name:
        case "const":
            yield from (((), {"type": t, "bits": 0}) for t in scalars)
        case "cast" | "bitcast":
            yield from (((a,), {"to": b}) for a, b in product(scalars, scalars))
        case "select":
            yield from (((BOOL, t, t), {}) for t in scalars)
        case "load" | "store" | "atomic.load" | "atomic.store" | "atomic.cas" | "atomic.rmw":
            yield from _accesses(spec.name)
        case "subgroup_reduce" | "subgroup_scan":
            for kind, t in product(REDUCE_KINDS, scalars):
                yield (t, BOOL), _known(spec, kind)
        case "native":
            for kind in NATIVE_KINDS:
                yield (F32,) * (3 if kind == "divide" else 2), {"kind": kind}
        case "barrier":
            yield from (((), {"scope": s}) for s in ("subgroup", "workgroup", "device"))
        case _ if spec.operands and spec.operands[0] in CLASSES:
            for t in scalars:
                chosen = (t if o in CLASSES else SCALARS[o] for o in spec.operands)
                yield tuple(chosen), _first(spec)
        case _:
            return


def _known(spec: Spec, kind: str) -> Mapping[str, Attr]:
    return {"kind": kind} | ({"inclusive": True} if "inclusive" in spec.attrs else {})


def _first(spec: Spec) -> Mapping[str, Attr]:
    """The first legal value of each attribute that is an enumeration."""
    return {n: legal[0] for n, legal in spec.attrs.items() if isinstance(legal, tuple)}


def _accesses(name: str) -> Iterator[tuple[tuple[Type, ...], Mapping[str, Attr]]]:
    count = {"load": 0, "atomic.load": 0, "atomic.cas": 2}.get(name, 1)
    kinds = RMW_KINDS if name == "atomic.rmw" else ("",)
    for element, kind in product(SCALARS.values(), kinds):
        attrs: dict[str, Attr] = {"element": element}
        if name.startswith("atomic"):
            attrs |= {"order": "relaxed", "scope": "device"}
        if kind:
            attrs["kind"] = kind
        yield (RefType("global"), I64, *(element,) * count), attrs
