"""From a table of threads to a program: what the PTX, Vulkan and hetIR dialects share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hetir.memory.litmus.table import (
    Initial,
    LitmusError,
    Sections,
    columns,
    control,
    header,
    initial_values,
    operand,
    operands,
)
from hetir.memory.program import (
    Assign,
    Binary,
    Cas,
    Const,
    Instruction,
    Load,
    Location,
    Program,
    Rmw,
    Scope,
    Space,
    Store,
    Thread,
)

ReadCell = Callable[[str], Instruction]


def assemble(
    sections: Sections,
    scopes: Mapping[str, Scope],
    read_cell: ReadCell,
    synchronized: tuple[tuple[int, int], ...] = (),
) -> Program:
    """Build the program of a table; locations that are only used are declared with 0."""
    entries = initial_values(sections.initial)
    threads = tuple(
        _thread(number, column, entries, scopes, read_cell)
        for number, column in enumerate(columns(sections.code))
    )
    return Program(
        name=sections.name,
        locations=locations(entries, (item for thread in threads for item in thread.body)),
        threads=threads,
        synchronized=synchronized,
    )


def _thread(
    number: int,
    column: list[str],
    entries: list[Initial],
    scopes: Mapping[str, Scope],
    read_cell: ReadCell,
) -> Thread:
    places = header(column[0], number)
    unknown = set(places) - set(scopes)
    if unknown:
        raise LitmusError(f"unknown scope `{unknown.pop()}` of thread {number}")
    setup = [
        Assign(register=entry.name, value=Const(entry.value))
        for entry in entries
        if entry.thread == number
    ]
    cells = [_cell(text, read_cell) for text in column[1:] if text]
    place = {scopes[name]: value for name, value in places.items()}
    return Thread(name=f"P{number}", place=place, body=(*setup, *cells))


def _cell(text: str, read_cell: ReadCell) -> Instruction:
    item = control(text)
    if item is not None:
        return item
    if text.startswith("add "):
        target, left, right = operands(text.removeprefix("add "))
        return Assign(register=target, value=Binary("+", operand(left), operand(right)))
    return read_cell(text)


def locations(entries: Iterable[Initial], body: Iterable[Instruction]) -> tuple[Location, ...]:
    """Return the declared locations and those that are used without being declared."""
    declared: dict[str, Location] = {}
    for entry in entries:
        if entry.thread is not None:
            continue
        if entry.alias is None:
            space = Space.SHARED if entry.proxy == "shared" else Space.GLOBAL
            declared[entry.name] = Location(name=entry.name, initial=entry.value, space=space)
            continue
        base = declared[entry.alias]
        # a generic alias is a virtual address of its own; any other method goes through its base's
        own = entry.proxy == "generic"
        declared[entry.name] = Location(
            name=entry.name,
            alias=base.alias or base.name,
            address=entry.name if own else base.address or base.name,
        )
    for item in body:
        if isinstance(item, Load | Store | Rmw | Cas) and item.address.base not in declared:
            declared[item.address.base] = Location(name=item.address.base)
    return tuple(declared.values())
