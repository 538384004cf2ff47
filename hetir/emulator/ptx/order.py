"""The order in which blocks of code get their turn, so that diverged lanes meet again early.

Lanes at the earliest block run first. With a weak topological order (Bourdoncle 1993) a loop's
blocks stand together and before what follows the loop: those who left it wait for the others.
"""

from __future__ import annotations

from collections.abc import Sequence


def weak_topological_order(successors: Sequence[Sequence[int]]) -> list[int]:
    """The reachable blocks, from block 0 on."""
    out: list[int] = []
    _visit(successors, _reachable(successors), 0, out)
    return out


def _reachable(successors: Sequence[Sequence[int]]) -> set[int]:
    seen, stack = {0}, [0]
    while stack:
        for to in successors[stack.pop()]:
            if to not in seen:
                seen.add(to)
                stack.append(to)
    return seen


def _visit(
    successors: Sequence[Sequence[int]], nodes: set[int], entry: int, out: list[int]
) -> None:  # fmt: skip
    for component in _components(successors, nodes, entry):
        if len(component) == 1:
            out += component
            continue
        members = set(component)
        head = _head(successors, nodes, members, entry)
        out.append(head)
        rest = members - {head}
        first = next((n for n in successors[head] if n in rest), min(rest))
        _visit(successors, rest, first, out)


def _head(
    successors: Sequence[Sequence[int]], nodes: set[int], members: set[int], entry: int
) -> int:  # fmt: skip
    """The block through which a loop is entered; the first in the text of several."""
    if entry in members:
        return entry
    entered = {t for n in nodes - members for t in successors[n] if t in members}
    return min(entered or members)


def _components(
    successors: Sequence[Sequence[int]], nodes: set[int], entry: int
) -> list[list[int]]:  # fmt: skip
    """Strongly connected components in topological order (Tarjan, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in (entry, *sorted(nodes)):
        if root in index:
            continue
        work = [(root, iter(successors[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            to = next((t for t in rest if t in nodes and (t not in index or t in on_stack)), None)
            if to is not None and to not in index:
                index[to] = low[to] = len(index)
                stack.append(to)
                on_stack.add(to)
                work.append((to, iter(successors[to])))
                continue
            if to is not None:
                low[node] = min(low[node], index[to])
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == index[node]:
                cut = stack.index(node)
                found.append(stack[cut:])
                on_stack -= set(stack[cut:])
                del stack[cut:]
    found.reverse()
    return found
