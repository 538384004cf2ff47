"""What a program does not need: it is taken out before flags are placed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from hetir.backends.ascend.simd_program import Block, Branch, Instr, Loop, Node, blocks_of

_DEFINES = re.compile(r"(?:const )?[\w:]+ (\w+)(?: = .*)?;$")
_ASSIGNS = re.compile(r"(\w+) = .*;$")
_WORD = re.compile(r"[A-Za-z_]\w*")

_KNOWN = re.compile(r"(\d+) < (\d+)")


def inline_known_branches(block: Block) -> None:
    """Put what a branch of a known condition does in its place."""
    nodes: list[Node] = []
    for node in block.nodes:
        for inner in blocks_of(node):
            inline_known_branches(inner)
        known = _KNOWN.fullmatch(node.cond) if isinstance(node, Branch) else None
        if isinstance(node, Branch) and known:
            nodes += (node.then if int(known[1]) < int(known[2]) else node.other).nodes
        else:
            nodes.append(node)
    block.nodes = nodes


def drop_dead_scalars(program: Block) -> None:
    """Remove the definitions and assignments of variables that no other line mentions."""
    while True:
        uses = Counter(w for text in _texts(program) for w in _WORD.findall(text))
        own: Counter[str] = Counter()
        for instr in _scalars(program):
            name = _target(instr)
            if name is not None:
                own[name] += _WORD.findall(instr.lines[0]).count(name)
        dead = {name for name, count in own.items() if uses[name] == count}
        if not dead:
            return
        _remove(program, dead)


def _target(instr: Instr) -> str | None:
    """The variable that an instruction defines or assigns, and does nothing else."""
    if instr.pipe != "S" or len(instr.lines) != 1 or instr.writes or instr.leaves:
        return None
    found = _DEFINES.fullmatch(instr.lines[0]) or _ASSIGNS.fullmatch(instr.lines[0])
    return found[1] if found else None


def _scalars(block: Block) -> Iterator[Instr]:
    for node in block.nodes:
        if isinstance(node, Instr):
            yield node
        for inner in blocks_of(node):
            yield from _scalars(inner)


def _texts(block: Block) -> Iterator[str]:
    for node in block.nodes:
        match node:
            case Instr():
                yield from node.lines
            case Loop():
                yield node.head
            case Branch():
                yield node.cond
            case _:
                pass
        for inner in blocks_of(node):
            yield from _texts(inner)


def _remove(block: Block, dead: set[str]) -> None:
    for node in block.nodes:
        for inner in blocks_of(node):
            _remove(inner, dead)
    block.nodes = [n for n in block.nodes if not (isinstance(n, Instr) and _target(n) in dead)]
