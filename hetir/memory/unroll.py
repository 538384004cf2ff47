"""Loops to forward jumps: every backward jump is unrolled a fixed number of times."""

from __future__ import annotations

from dataclasses import replace

from hetir.memory.program import Instruction, Jump, Label

STUCK = "#stuck"
"""The label of executions that would need another turn of a loop: they are not counted."""


def unroll(body: tuple[Instruction, ...], turns: int) -> tuple[Instruction, ...]:
    """Return `body` with jumps that only go forward; innermost loops are unrolled first."""
    code = list(body)
    while True:
        loop = _innermost_loop(code)
        if loop is None:
            return tuple(code)
        head, back = loop
        code[head : back + 1] = _copies(code[head : back + 1], turns)


def _innermost_loop(code: list[Instruction]) -> tuple[int, int] | None:
    """Return the positions of the label and the backward jump of the shortest loop."""
    labels = {item.name: place for place, item in enumerate(code) if isinstance(item, Label)}
    loops = [
        (labels[item.target], place)
        for place, item in enumerate(code)
        if isinstance(item, Jump) and labels.get(item.target, place) < place
    ]
    return min(loops, key=lambda loop: loop[1] - loop[0], default=None)


def _copies(region: list[Instruction], turns: int) -> list[Instruction]:
    head, back = region[0], region[-1]
    assert isinstance(head, Label)
    assert isinstance(back, Jump)
    inner = {item.name for item in region if isinstance(item, Label)}
    code: list[Instruction] = []
    for turn in range(turns):
        code += [_renamed(item, inner, turn, turns, head.name) for item in region[:-1]]
        again = f"{head.name}#{turn + 1}" if turn + 1 < turns else STUCK
        code.append(replace(back, target=again))
    return code


def _renamed(item: Instruction, inner: set[str], turn: int, turns: int, head: str) -> Instruction:
    if isinstance(item, Label):
        return Label(name=f"{item.name}#{turn}")
    if isinstance(item, Jump) and item.target in inner:
        if item.target != head:
            return replace(item, target=f"{item.target}#{turn}")
        return replace(item, target=f"{head}#{turn + 1}" if turn + 1 < turns else STUCK)
    return item
