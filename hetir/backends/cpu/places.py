"""Values that may lie where others do: what an iteration makes for the next one, in its place."""

from __future__ import annotations

from collections.abc import Sequence

from hetir.backends.cpu.program import Control, Exchange, Exit, Leaf, Node, every
from hetir.ir import ops
from hetir.ir.core import Operation, Region, Value, walk
from hetir.passes.regions import LOOPS


def settle(nodes: Sequence[Node]) -> dict[Value, Value]:
    """The values that take the place of what a loop carries, which nobody needs any more.

    The leaves that moved them there no longer do.
    """
    found: dict[Value, Value] = {}
    for node in every(nodes):
        if isinstance(node, Control) and node.op.spec in LOOPS:
            found |= _of_loop(node.regions[0])
    return found


def _of_loop(nodes: list[Node]) -> dict[Value, Value]:
    """The same for the body of one loop."""
    if len(nodes) < 2 or not isinstance(nodes[-1], Exit) or not isinstance(nodes[-2], Leaf):
        return {}
    last = nodes[-2]
    ends = {op.spec for op in walk(Region((), tuple(last.ops)))}
    if last.ops[-1].spec is not ops.YIELD or ops.CONTINUE in ends:
        return {}
    found: dict[Value, Value] = {}
    for value, place in zip(last.ops[-1].operands, last.moved, strict=True):
        made = next((i for i, n in enumerate(nodes) if _makes(n, value)), None)
        if made is None or value in found:
            continue
        if not any(place in _reads(later) for later in every(nodes[made + 1 :])):
            found[value] = place
    if _spare(last, found):
        del nodes[-2]
    return found


def _spare(leaf: Leaf, found: dict[Value, Value]) -> bool:
    """Take out of a leaf the moves of what is there already; whether nothing is left."""
    pairs = zip(leaf.ops[-1].operands, leaf.moved, strict=True)
    moves = [(value, place) for value, place in pairs if found.get(value) is not place]
    leaf.ops[-1] = Operation(ops.YIELD, tuple(value for value, _ in moves))
    leaf.moved = tuple(place for _, place in moves)
    if len(leaf.ops) == 1:
        leaf.inputs = [value for value in leaf.inputs if value in leaf.ops[-1].operands]
    return len(leaf.ops) == 1 and not moves


def _makes(node: Node, value: Value) -> bool:
    return isinstance(node, Leaf) and value in node.outputs


def _reads(node: Node) -> tuple[Value, ...]:
    match node:
        case Leaf():
            return tuple(node.inputs)
        case Exchange(op=op) | Control(op=op):
            return (*op.operands, *op.results)
        case _:
            return ()
