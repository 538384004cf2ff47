"""Inlining: a module's kernel with every call replaced by the body of the function."""

from __future__ import annotations

from dataclasses import replace

from hetir.diagnostics import CompileError, Label
from hetir.ir import ops
from hetir.ir.core import Kernel, Module, Operation, Region, Value
from hetir.ir.rewrite import Env
from hetir.passes.exits import Placeholders, Straightener, first_return, returns_to_breaks
from hetir.passes.regions import replace_operands, returns
from hetir.source import Loc


class RecursiveCallError(CompileError):
    """A function calls itself, directly or through others.

    Cause: devices have no stack for calls. Fix: write the recursion as a loop.
    """

    code = "HET300"


def inline(module: Module, name: str | None = None) -> Kernel:
    """The module's kernel (the only one, or the one called `name`) without calls.

    Early returns of the functions become structure: an `if` with one arm that returns takes
    the rest of the function into the other arm, and a loop that returns breaks with a flag
    and the values. Each inlined op's location says where the function was called from.
    """
    found = [k for k in module.kernels if name is None or k.name == name]
    if len(found) != 1:
        raise ValueError(f"the module has {len(found)} kernels of the wanted name, not one")
    return _Inliner(module).kernel(found[0])


class _Inliner:
    def __init__(self, module: Module) -> None:
        self.functions = {f.name: f for f in module.functions}
        self.done: dict[str, Region] = {}
        self.active: list[str] = []

    def kernel(self, kernel: Kernel) -> Kernel:
        env: Env = {}
        return replace(kernel, body=self.region(kernel.body, env))

    def region(self, region: Region, env: Env) -> Region:
        body: list[Operation] = []
        for op in region.body:
            operands = tuple(env.get(v, v) for v in op.operands)
            if op.spec is ops.CALL:
                body += self.call(op, operands, env)
            else:
                regions = tuple(self.region(r, env) for r in op.regions)
                body.append(replace(op, operands=operands, regions=regions))
        return Region(region.args, tuple(body))

    def call(self, op: Operation, arguments: tuple[Value, ...], env: Env) -> list[Operation]:
        """The body of the callee, its parameters replaced; `env` gains the call's results."""
        callee = op.attrs["callee"]
        assert isinstance(callee, str)
        bound: Env = dict(zip(self.functions[callee].params, arguments, strict=True))
        copy = _Copy(bound, op.loc).region(self.function(callee, op))
        env.update(zip(op.results, copy.terminator.operands, strict=True))
        return list(copy.body[:-1])

    def function(self, name: str, call: Operation) -> Region:
        """The body of a function without calls, ending in its only exit."""
        if name in self.active:
            raise RecursiveCallError(
                f"`{name}` calls itself",
                *((Label(call.loc, "this call comes back to the function"),) if call.loc else ()),
                hint="write the recursion as a loop",
            )
        if name not in self.done:
            self.active.append(name)
            self.done[name] = _one_exit(self.region(self.functions[name].body, {}))
            self.active.pop()
        return self.done[name]


def _one_exit(body: Region) -> Region:
    """The body with its results in the operands of its last op, its only `return`."""
    if not any(map(returns, body.body)):
        return body
    body = returns_to_breaks(body, Placeholders(body))
    env: Env = {}

    def outcome(_: Operation, values: tuple[Value, ...], __: list[Operation]) -> tuple[Value, ...]:
        return values

    def inner(op: Operation) -> list[Operation]:
        return [replace_operands(op, env)]

    samples = first_return(body).operands
    placeholders = Placeholders(body)
    straight = Straightener(samples, outcome, inner, env, placeholders).run(body.body)
    return Region(body.args, straight)


class _Copy:
    """A copy of a function's body for one call: new values, locations with their caller."""

    def __init__(self, env: Env, caller: Loc | None) -> None:
        self.env = env
        self.caller = caller
        self.locs: dict[int, Loc] = {}  # by identity: hashing a chain of callers is slow

    def region(self, region: Region) -> Region:
        args = tuple(map(self.fresh, region.args))
        return Region(args, tuple(map(self.op, region.body)))

    def op(self, op: Operation) -> Operation:
        operands = tuple(self.env.get(v, v) for v in op.operands)
        regions = tuple(map(self.region, op.regions))
        results = tuple(map(self.fresh, op.results))
        loc = op.loc and self.called(op.loc)
        return Operation(op.spec, operands, results, op.attrs, regions, loc)

    def fresh(self, value: Value) -> Value:
        self.env[value] = new = Value(value.type, value.name)
        return new

    def called(self, loc: Loc) -> Loc:
        """The location with the call at the end of its chain of callers."""
        if self.caller is None:
            return loc
        found = self.locs.get(id(loc))
        if found is None:
            caller = self.caller if loc.caller is None else self.called(loc.caller)
            found = Loc(loc.file, loc.line, loc.col, loc.end_line, loc.end_col, caller)
            self.locs[id(loc)] = found
        return found
