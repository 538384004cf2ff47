"""The frozen canonicalisation of hetIR, and the content hash that is taken of it.

Canonical form, version 1:

- pure ops whose results nothing uses are gone, and so are those that only they used;
- the operands of a commutative op stand in the order of their definitions;
- nothing has a location, and in the text values have no names but numbers, in the order of
  their definitions;
- in a module for hashing, kernels are called `k0`, `k1`... in their order and functions `f0`,
  `f1`... in the order of their first calls; functions that nothing calls are gone.

All else stays as it was written, the order of ops above all: programs that differ in more than
this may get unlike ids.

It is frozen because checkpoint files store its text, and safe points are identified by hashes of
positions in it: what an old file says must mean the same to every later hetir. So nothing here
may come to depend on what the op table says of an op that exists (`COMMUTATIVE` and `PURE` are
lists of their own for that reason), and a change of this file, or of how the text form spells
anything, needs a new `CANONICAL_VERSION`. Ops that came later stay as they were written. What the
numbers mean, op for op, has a version of its own.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from hetir.ir.build import IllFormedError
from hetir.ir.core import Function, Kernel, Module, Operation, Param, Region, Value, walk
from hetir.ir.ops import CALL
from hetir.ir.text import print_module

CANONICAL_VERSION = 1

# fmt: off
COMMUTATIVE = frozenset((
    "add", "mul", "min", "max", "min_number", "max_number", "mul_hi", "and", "or", "xor", "eq",
    "ne",
))
PURE = COMMUTATIVE | frozenset((
    "const", "local_id", "group_id", "group_size", "num_groups", "global_id", "lane_id",
    "subgroup_id", "subgroup_size", "sub", "div", "rem", "floordiv", "mod", "neg", "abs", "fma",
    "sqrt", "floor", "ceil", "trunc", "rint", "not", "shl", "shr", "popcount", "clz", "lt", "le",
    "gt", "ge", "select", "cast", "bitcast", "dim", "stride", "base", "view",
))
# fmt: on


def canonicalise(kernel: Kernel) -> Kernel:
    """The canonical form of a kernel. Idempotent; the meaning stays, name and options too."""
    params, body = _Canon().unit([p.value for p in kernel.params], kernel.body)
    sources = [p.source for p in kernel.params]
    renamed = tuple(map(Param, params, sources))
    return replace(kernel, params=renamed, body=body, loc=None)


def content_hash(item: Module | Kernel) -> str:
    """A SHA-256 in hex: independent of names and locations, dependent on all that means something.

    It is the hash of `canonical_text`. A kernel's own name does not count either: whoever keys
    on an entry point adds its name.
    """
    return hashlib.sha256(canonical_text(item).encode("utf-8", "surrogatepass")).hexdigest()


def canonical_text(item: Module | Kernel) -> str:
    """The text that identifies a well-formed module or kernel: canonical, without names."""
    module = Module(kernels=(item,)) if isinstance(item, Kernel) else item
    order = _called(module)
    kernels = (
        replace(canonicalise(kernel), name=f"k{index}")
        for index, kernel in enumerate(module.kernels)
    )
    functions = (_function(module, name, order) for name in order)
    text = print_module(
        Module(
            kernels=tuple(replace(k, body=_renamed(k.body, order)) for k in kernels),
            functions=tuple(functions),
        ),
        locations=False,
        names=False,
    )
    return f"// canonical {CANONICAL_VERSION}\n{text}"


def _called(module: Module) -> dict[str, str]:
    """New names of the functions that kernels call, directly or not, in order of first call."""
    functions = {f.name: f for f in module.functions}
    order: dict[str, str] = {}
    waiting = [kernel.body for kernel in reversed(module.kernels)]
    while waiting:
        found: list[Region] = []
        for op in walk(waiting.pop()):
            name = str(op.attrs["callee"]) if op.spec is CALL else ""
            if name in functions and name not in order:
                order[name] = f"f{len(order)}"
                found.append(functions[name].body)
        waiting += reversed(found)
    return order


def _function(module: Module, name: str, order: dict[str, str]) -> Function:
    function = next(f for f in module.functions if f.name == name)
    params, body = _Canon().unit(list(function.params), function.body)
    body = _renamed(body, order)
    return replace(function, name=order[name], params=tuple(params), body=body, loc=None)


def _renamed(region: Region, order: dict[str, str]) -> Region:
    """The region with its calls renamed."""
    body: list[Operation] = []
    for op in region.body:
        attrs = op.attrs
        if op.spec is CALL:
            callee = str(attrs["callee"])
            if callee not in order:
                raise IllFormedError(f"`call` of `{callee}`, which is not a function of the module")
            attrs = {"callee": order[callee]}
        regions = tuple([_renamed(inner, order) for inner in op.regions])
        body.append(replace(op, regions=regions, attrs=attrs))
    return Region(region.args, tuple(body))


class _Canon:
    """Rebuilds one kernel or function: first the uses are counted, then the ops copied."""

    def __init__(self) -> None:
        self.used: set[Value] = set()
        self.new: dict[Value, Value] = {}
        self.number: dict[Value, int] = {}

    def unit(self, params: list[Value], body: Region) -> tuple[list[Value], Region]:
        """New parameters and body."""
        self.uses(body)
        fresh = [self.define(value) for value in params]
        return fresh, self.copy(body)

    def uses(self, region: Region) -> None:
        """Note which values are used by ops that stay, from the last op to the first."""
        for op in reversed(region.body):
            if self.stays(op):
                self.used.update(op.operands)
                for inner in op.regions:
                    self.uses(inner)

    def stays(self, op: Operation) -> bool:
        """Whether an op must be kept, once all ops after it have been looked at."""
        return op.name not in PURE or not self.used.isdisjoint(op.results)

    def define(self, value: Value) -> Value:
        """The new value, numbered in order of definition; its name helps readers only."""
        self.number[value] = len(self.number)
        self.new[value] = new = Value(value.type, value.name)
        return new

    def copy(self, region: Region) -> Region:
        """The region with the ops that stay."""
        args = tuple(map(self.define, region.args))
        return Region(args, tuple([self.operation(op) for op in region.body if self.stays(op)]))

    def operation(self, op: Operation) -> Operation:
        """One op, its operands sorted where their order does not matter."""
        operands = op.operands
        if op.name in COMMUTATIVE:
            operands = tuple(sorted(operands, key=self.number.__getitem__))
        regions = tuple(map(self.copy, op.regions))
        results = tuple(map(self.define, op.results))
        return Operation(op.spec, tuple(self.new[v] for v in operands), results, op.attrs, regions)
