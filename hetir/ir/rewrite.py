"""Rebuilding: copy regions with values replaced, for passes that map kernels to kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hetir.ir.core import Kernel, Operation, Region, Value

Env = dict[Value, Value]


def substitute(env: Env, value: Value) -> Value:
    """What `value` became, or itself."""
    return env.get(value, value)


def map_region(
    region: Region, env: Env, visit: Callable[[Operation, Env], list[Operation]]
) -> Region:
    """Rebuild a region: `visit` turns each op (operands and regions still old) into ops.

    `visit` records in `env` what the old results became. Block arguments are kept.
    """
    body: list[Operation] = []
    for op in region.body:
        body.extend(visit(op, env))
    return Region(region.args, tuple(body))


def rebuild(
    op: Operation, env: Env, visit: Callable[[Operation, Env], list[Operation]]
) -> Operation:
    """The same op with operands replaced and inner regions mapped; results are kept."""
    operands = tuple(env.get(v, v) for v in op.operands)
    regions = tuple(map_region(r, env, visit) for r in op.regions)
    if operands == op.operands and all(a is b for a, b in zip(regions, op.regions, strict=True)):
        return op
    return replace(op, operands=operands, regions=regions)


def map_kernel(kernel: Kernel, visit: Callable[[Operation, Env], list[Operation]]) -> Kernel:
    """Rebuild a kernel's body with `visit` (see `map_region`)."""
    return replace(kernel, body=map_region(kernel.body, {}, visit))


def clone(region: Region, env: Env) -> Region:
    """A copy in which every value defined inside is new; `env` gains the mapping."""
    args = tuple(_fresh(v, env) for v in region.args)
    body: list[Operation] = []
    for op in region.body:
        operands = tuple(env.get(v, v) for v in op.operands)
        regions = tuple(clone(r, env) for r in op.regions)
        results = tuple(_fresh(v, env) for v in op.results)
        body.append(replace(op, operands=operands, regions=regions, results=results))
    return Region(args, tuple(body))


def _fresh(value: Value, env: Env) -> Value:
    env[value] = new = Value(value.type, value.name)
    return new
