"""Checks every rule of hetIR and reports every fault with its place.

The types of ordinary ops are checked by `ops.infer`, the rule that the builder uses, so
the two cannot disagree. Nothing about the input is taken for granted: fields of the wrong
Python type are faults like any other.
"""

# annotations are not trusted here: this is where they are checked
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from hetir.diagnostics import HetirError, Label
from hetir.ir import ops
from hetir.ir.build import IllFormedError
from hetir.ir.core import Function, Kernel, Module, Operation, Options, Param, Region, Value
from hetir.ir.fields import (
    MAX_NESTING,
    OPTIONS,
    loc_fault,
    operation_fault,
    show,
    source_fault,
    type_fault,
)
from hetir.ir.ops import RuleError, Spec
from hetir.ir.types import BOOL, I64, ArrayType, RefType, Type

Types = tuple[Type, ...]
Exits = Mapping[Spec, Types]  # the terminators that are legal in a region, with operand types


class ManyFaultsError(IllFormedError):
    """A module breaks several rules of hetIR; `faults` lists them in program order.

    Cause: hetIR made or written by hand. Fix: each fault, as `str()` shows them one by one.
    """

    code = "HET102"

    def __init__(self, faults: Sequence[HetirError]) -> None:
        super().__init__(f"{len(faults)} faults", *faults[0].labels)
        self.faults = tuple(faults)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.faults))


def verify(item: Module | Kernel) -> None:
    """Raise IllFormedError when a module, or a kernel without calls, breaks a rule."""
    found = faults(item)
    if len(found) == 1:
        raise found[0]
    if found:
        raise ManyFaultsError(found)


def faults(item: Module | Kernel) -> tuple[HetirError, ...]:
    """Every broken rule of a module, or of a kernel without calls, in program order."""
    checker = _Checker()
    checker.module(Module(kernels=(item,)) if isinstance(item, Kernel) else item)
    return tuple(checker.found)


class _Checker:
    """Walks a module once and collects faults."""

    def __init__(self) -> None:
        self.found: list[HetirError] = []
        self.functions: dict[str, Function] = {}
        self.calls: dict[str, list[tuple[str, Operation]]] = {}
        self.owner = "module"
        self.path: list[int] = []  # the position of the current op in each region around it
        self.visible: dict[Value, None] = {}  # in order of definition
        self.defined: set[Value] = set()
        self.stable: set[Value] = set()  # parameters and allocs, which `base` may address
        self.safe_points: set[str] = set()
        self.seen: set[Operation] = set()  # an operation stands in one place
        self.types: dict[int, str | None] = {}
        self.locs: set[int] = set()

    def fault(self, message: str, at: object = None, text: str = "") -> None:
        """Record a fault at a location, or else at its position in the kernel."""
        loc = getattr(at, "loc", None)
        if loc is not None and not loc_fault(loc):
            self.found.append(IllFormedError(message, Label(loc, text)))
            return
        name = f" (`{at.name}`)" if isinstance(at, Operation) and at.name in ops.TABLE else ""
        place = f"op {'.'.join(map(str, self.path))}{name} of " if self.path else ""
        self.found.append(IllFormedError(f"{message}, at {place}`{self.owner}`"))

    # -- modules, kernels and functions

    def module(self, module: object) -> None:
        """Check all of a module."""
        if not isinstance(module, Module):
            self.fault(f"`{show(module)}` is neither a module nor a kernel")
            return
        for group, kind in ((module.kernels, Kernel), (module.functions, Function)):
            if type(group) is not tuple or not all(isinstance(x, kind) for x in group):
                self.fault(f"the {kind.__name__.lower()}s of a module must be a tuple of them")
                return
        units = [x for x in (*module.functions, *module.kernels) if self.unit_name(x)]
        self.functions = {x.name: x for x in units if isinstance(x, Function)}
        for unit in units:
            self.unit(unit)
        self.recursion()

    def unit_name(self, unit: Kernel | Function) -> bool:
        """Check a name: a string, and no other's."""
        if not isinstance(unit.name, str) or not unit.name:
            self.fault(f"`{show(unit.name)}` is not the name of a kernel or function", unit)
            return False
        if unit.name in self.calls:
            self.fault(f"two kernels or functions are called `{unit.name}`", unit)
            return False
        self.calls[unit.name] = []
        return True

    def unit(self, unit: Kernel | Function) -> None:
        """Check a kernel or function."""
        self.owner, self.path, self.visible = unit.name, [], {}
        self.defined, self.stable, self.safe_points = set(), set(), set()
        if problem := loc_fault(unit.loc):
            self.fault(problem)
        results: Types | None = ()
        if isinstance(unit, Kernel):
            self.options(unit)
            params = self.params(unit)
        else:
            params, results = self.signature(unit)
        for value in params:
            self.define(value, unit)
        self.stable.update(self.visible)
        if results is not None:
            self.region(unit, unit.body, {ops.RETURN: results}, ())

    def options(self, kernel: Kernel) -> None:
        """Check a kernel's options."""
        if not isinstance(kernel.options, Options):
            self.fault(f"`{show(kernel.options)}` cannot be the options of a kernel", kernel)
            return
        for name, legal in OPTIONS.items():
            value = getattr(kernel.options, name)
            if not any(type(value) is type(one) and value == one for one in legal):
                self.fault(f"the option `{name}` cannot be `{show(value)}`", kernel)

    def params(self, kernel: Kernel) -> list[object]:
        """Check a kernel's parameters, and give their values."""
        if type(kernel.params) is not tuple:
            self.fault("the parameters of a kernel must be a tuple", kernel)
            return []
        values: list[object] = []
        taken: set[object] = set()
        for param in kernel.params:
            if not isinstance(param, Param):
                self.fault(f"`{show(param)}` is not a parameter", kernel)
                continue
            values.append(param.value)
            if problem := source_fault(param.source):
                self.fault(problem, kernel)
            elif isinstance(param.value, Value) and not self.type_problem(param.value.type):
                self.param_type(param, kernel, taken)
        return values

    def param_type(self, param: Param, kernel: Kernel, taken: set[object]) -> None:
        """Check that a launch can give this parameter its value."""
        kind = param.value.type
        if isinstance(kind, RefType) or (
            isinstance(kind, ArrayType)
            and (kind.space not in ("global", "constant") or kind.shape is not None)
        ):
            self.fault(f"a parameter of a kernel cannot be `{kind}`", kernel)
        if (param.source, kind) in taken:
            self.fault(f"two parameters of type `{kind}` have one source", kernel)
        taken.add((param.source, kind))

    def signature(self, function: Function) -> tuple[tuple[object, ...], Types | None]:
        """Check a function's signature: its parameters and, where usable, its results."""
        params, results = function.params, function.results
        if type(params) is not tuple:
            self.fault("the parameters of a function must be a tuple", function)
            params = ()
        if type(results) is not tuple:
            self.fault("the results of a function must be a tuple of types", function)
            return params, None
        problems = [problem for kind in results if (problem := self.type_problem(kind))]
        for problem in problems:
            self.fault(problem, function)
        return params, None if problems else results

    def recursion(self) -> None:
        """Report every call that closes a cycle of functions."""
        done: set[str] = set()
        for root in self.functions:
            chain = {} if root in done else {root: iter(self.calls[root])}
            while chain:
                self.owner, self.path = next(reversed(chain)), []
                callee, op = next(chain[self.owner], ("", None))
                if op is None:
                    done.add(chain.popitem()[0])
                elif callee in chain:
                    self.fault(f"recursion: `{self.owner}` calls `{callee}`", op, "called again")
                elif callee in self.functions and callee not in done:
                    chain[callee] = iter(self.calls[callee])

    # -- values

    def type_problem(self, kind: object) -> str | None:
        """`type_fault`, remembered by identity."""
        key = id(kind)
        if key not in self.types:
            self.types[key] = type_fault(kind)
        return self.types[key]

    def define(self, value: object, at: object) -> None:
        """A parameter, block argument or result comes into being."""
        if not isinstance(value, Value):
            self.fault(f"`{show(value)}` is not a value", at)
            return
        if not isinstance(value.name, str):
            self.fault(f"`{show(value.name)}` is not the name of a value", at)
        if problem := self.type_problem(value.type):
            self.fault(problem, at)
        if value in self.defined:
            self.fault(f"`{_named(value)}` is defined twice", at)
        self.defined.add(value)
        self.visible[value] = None

    def operand_types(self, op: Operation) -> Types | None:
        """Check that operands are visible; their types, or None when one is unusable."""
        for value in op.operands:
            if value not in self.visible:
                where = "before its definition, or nothing defines it"
                if value in self.defined:
                    where = "outside the region that defines it"
                self.fault(f"`{_named(value)}` is used {where}", op)
        types = tuple(value.type for value in op.operands)
        return None if any(map(self.type_problem, types)) else types

    # -- regions and operations

    def region(self, owner: object, region: object, exits: Exits, args: Types) -> None:
        """Check a region with arguments of types `args`."""
        if not isinstance(region, Region) or not (type(region.args) is type(region.body) is tuple):
            self.fault(f"`{show(region)}` is not a region", owner)
            return
        if len(self.path) >= MAX_NESTING:
            self.fault(f"regions are nested deeper than {MAX_NESTING}", owner)
            return
        outside = len(self.visible)
        for value in region.args:
            self.define(value, owner)
        got = tuple(map(_type_of, region.args))
        if got != args:
            self.fault(f"the arguments of the region must be {_types(args)}", owner, _types(got))
        self.operations(owner, region, exits)
        while len(self.visible) > outside:
            self.visible.popitem()

    def operations(self, owner: object, region: Region, exits: Exits) -> None:
        """Check the operations of a region, of which the last alone is a terminator."""
        last = len(region.body) - 1
        for index, op in enumerate(region.body):
            self.path.append(index)
            if problem := operation_fault(op):
                self.fault(problem, op)
                for value in _results(op):
                    self.define(value, op)
            elif op in self.seen:
                self.fault(f"one `{op.name}` stands in two places", op)
            else:
                self.seen.add(op)
                self.operation(op, exits)
                if op.spec.terminator and index < last:
                    self.fault(f"`{op.name}` must be the last op of its region", op)
                if op.spec is ops.IF and len(op.regions) == 2:
                    self.leaving_if(op, region.body[index + 1 :][:2])
            self.path.pop()
        if last < 0 or not _is_terminator(region.body[last]):
            self.fault("a region must end in a terminator", owner)

    def operation(self, op: Operation, exits: Exits) -> None:
        """Check one operation, its regions and its results."""
        if id(op.loc) not in self.locs:
            self.locs.add(id(op.loc))
            if problem := loc_fault(op.loc):
                self.fault(problem, op)
        types = self.operand_types(op)
        if len(op.regions) != op.spec.regions:
            self.fault(f"`{op.name}` takes {op.spec.regions} regions, got {len(op.regions)}", op)
        results = tuple(value.type for value in op.results)
        if not any(map(self.type_problem, results)):
            if types is not None:
                self.typing(op, types, results, exits)
            self.inner(op, types, results, exits)
        for value in op.results:
            self.define(value, op)
        if op.spec is ops.ALLOC:
            self.stable.update(op.results)

    def typing(self, op: Operation, types: Types, results: Types, exits: Exits) -> None:
        """Check an operation by its row, and by what the row cannot say."""
        try:
            if op.spec in _STRUCTURED:
                ops.check_attrs(op.spec, op.attrs)
                want = self.structured(op, types, results)
            else:
                want = ops.infer(op.spec, types, op.attrs)
        except RuleError as error:
            self.fault(str(error), op)
            return
        if want != results:
            self.fault(f"`{op.name}` gives {_types(want)}, not {_types(results)}", op)
        if op.spec.terminator:
            self.exit(op, types, exits)
        self.memory(op, types)

    def structured(self, op: Operation, types: Types, results: Types) -> Types:
        """The result types that a structured op or call must have, or RuleError."""
        if op.spec is ops.IF:
            if types != (BOOL,):
                raise RuleError(f"`if` takes one `bool`, got {_types(types)}")
            return results
        if op.spec is ops.FOR:
            if types[:3] != (I64, I64, I64):
                raise RuleError(f"`for` takes start, stop and step as `i64`, got {_types(types)}")
            return types[3:]
        if op.spec is ops.LOOP:
            return results
        callee = str(op.attrs["callee"])
        self.calls[self.owner].append((callee, op))
        function = self.functions.get(callee)
        if function is None:
            raise RuleError(f"`call` of `{callee}`, which is not a function of the module")
        if not type(function.params) is type(function.results) is tuple:
            return results  # reported where the function is
        want = tuple(map(_type_of, function.params))
        if want != types:
            raise RuleError(f"`{callee}` takes {_types(want)}, got {_types(types)}")
        return function.results

    def inner(self, op: Operation, types: Types | None, results: Types, exits: Exits) -> None:
        """Check the regions of a structured op."""
        if op.spec is ops.IF:
            exits, args = {**exits, ops.YIELD: results}, ()
        elif op.spec in (ops.FOR, ops.LOOP):
            counted = op.spec is ops.FOR
            carried = results if types is None else types[3:] if counted else types
            args = (I64, *carried) if counted else carried
            exits = {
                ops.RETURN: exits[ops.RETURN],
                ops.YIELD: carried,
                ops.CONTINUE: carried,
                ops.BREAK: results,
            }
        else:
            args = ()
        for region in op.regions:
            self.region(op, region, exits, args)

    def exit(self, op: Operation, types: Types, exits: Exits) -> None:
        """Check that a terminator may stand here, with these operands."""
        if op.spec not in exits:
            where = "loop" if op.spec in (ops.BREAK, ops.CONTINUE) else "loop or `if`"
            self.fault(f"`{op.name}` outside of a {where}", op)
        elif exits[op.spec] != types:
            want = _types(exits[op.spec])
            self.fault(f"`{op.name}` must carry {want} here, got {_types(types)}", op)

    def memory(self, op: Operation, types: Types) -> None:
        """Check the rules about arrays and references that depend on where a value is from."""
        if "element" in op.attrs and not (types and isinstance(types[0], RefType)):
            self.fault(f"`element` belongs to an access through a reference, not `{op.name}`", op)
        if op.spec is ops.BASE and op.operands[0] not in self.stable:
            self.fault("`base` takes a parameter or the result of `alloc`", op)
        carries = (ops.YIELD, ops.BREAK, ops.CONTINUE, ops.FOR, ops.LOOP, ops.SAFE_POINT)
        for kind in types if op.spec in carries else ():
            if not ops.movable(kind):
                self.fault(f"`{op.name}` cannot carry `{kind}`: it names storage", op)
        if op.spec is ops.SAFE_POINT and (name := str(op.attrs["id"])):
            if name in self.safe_points:
                self.fault(f"two safe points are called `{name}`", op)
            self.safe_points.add(name)

    def leaving_if(self, op: Operation, following: tuple[Operation, ...]) -> None:
        """Check that nothing but a terminator follows an `if` of which no region yields."""
        ends = [r.body[-1] for r in op.regions if type(r.body) is tuple and r.body]
        if len(ends) < 2 or not all(map(_is_terminator, ends)):
            return
        specs = {end.spec for end in ends}
        if ops.YIELD in specs:
            return
        if op.results:
            self.fault("an `if` whose regions both leave has no results", op)
        if len(following) != 1:
            self.fault("only a terminator can follow an `if` whose regions both leave", op)
        elif _is_terminator(following[0]) and following[0].spec not in {*specs, ops.RETURN}:
            name = following[0].name
            self.fault(f"`{name}` cannot follow an `if` whose regions both leave", op)


_STRUCTURED = (ops.IF, ops.FOR, ops.LOOP, ops.CALL)


def _is_terminator(op: object) -> bool:
    return isinstance(op, Operation) and isinstance(op.spec, Spec) and op.spec.terminator


def _results(op: object) -> tuple[Value, ...]:
    """What an unreadable operation seems to define, so that its users are not faulted too."""
    results: object = op.results if isinstance(op, Operation) else ()
    items = cast("tuple[object, ...]", results) if type(results) is tuple else ()
    return tuple(v for v in items if isinstance(v, Value))


def _named(value: Value) -> str:
    name = value.name
    return f"%{name}" if name and isinstance(name, str) else "a value without name"


def _types(types: Sequence[object]) -> str:
    return ", ".join(f"`{show(k) if type_fault(k) else k}`" for k in types) or "nothing"


def _type_of(value: object) -> object:
    return value.type if isinstance(value, Value) else None
