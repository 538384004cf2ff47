"""Functions into linear form: branches, returns, calls inlined."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hetir.emulator.ptx.barrier import BarrierStep
from hetir.emulator.ptx.batch import Batch
from hetir.emulator.ptx.build import Build, Location, Reader, Step
from hetir.emulator.ptx.faults import PtxLinkError, PtxUnknownError, TrapFault
from hetir.emulator.ptx.instructions import step_of
from hetir.emulator.ptx.integers import as_array
from hetir.emulator.ptx.items import Branch, Exit, Item, Mark, Table, predicated
from hetir.emulator.ptx.layout import Instance, Layout
from hetir.emulator.ptx.syntax import (
    Function,
    Instruction,
    LabelMark,
    Name,
    Negated,
    Operand,
    Variable,
    Vector,
)
from hetir.emulator.ptx.types import PRED, U32, U64, PtxType
from hetir.emulator.ptx.warp import WarpStep


def emit_function(layout: Layout, instance: Instance, items: list[Item]) -> None:
    """Append a function's body; `ret` goes to its end."""
    for item in instance.function.body:
        if isinstance(item, LabelMark):
            items.append(Mark(instance.label(item.name)))
        else:
            _emit(layout, instance, item, items)
    items.append(Mark(instance.label("$return")))


def _emit(layout: Layout, instance: Instance, ins: Instruction, items: list[Item]) -> None:
    b = Build(ins, instance)
    guard = _guard(b)
    uniform = ins.opcode in {"bra", "brx", "call", "ret"} and b.flag("uni")
    match ins.opcode:
        case "bra":
            b.count(1)
            items.append(Branch(_target(b, instance), guard, uniform, b))
        case "ret":
            items.append(Branch(instance.label("$return"), guard, uniform, b))
        case "exit":
            _skipping(b, instance, guard, items, [Exit()])
        case "brx":
            _skipping(b, instance, guard, items, [_table(b, instance)])
        case "call":
            body: list[Item] = []
            _call(b, layout, instance, body)
            _skipping(b, instance, guard, items, body)
        case "trap":
            step = _trap(ins, "`trap` was executed")
            items.append(step if guard is None else predicated(step, guard))
        case "nanosleep":
            b.type("u32")
            b.read(0, U32)
        case "pmevent" | "brkpt":
            raise PtxUnknownError(f"the instruction `{ins.opcode}` is not known", ins.place)
        case _:
            step = step_of(b)
            _note(layout, ins)
            if isinstance(step, (WarpStep, BarrierStep)):
                _skipping(b, instance, guard, items, [step])
            else:
                items.append(step if guard is None else predicated(step, guard))
            return
    b.end()


def _note(layout: Layout, ins: Instruction) -> None:
    modifiers = set(ins.modifiers)
    if modifiers & {"approx", "full"}:
        layout.approximate.add(str(ins))
    floats = modifiers & {"f32", "f64", "f16", "f16x2", "bf16", "bf16x2"}
    if ins.opcode in {"add", "sub", "mul"} and floats and not modifiers & {"rn", "rz", "rm", "rp"}:
        layout.contractible.add(str(ins))


def _guard(b: Build) -> Reader | None:
    guard = b.ins.guard
    if guard is None:
        return None
    name = Name(guard.name)
    return b.read(Negated(name) if guard.negated else name, PRED)


def _skipping(
    b: Build, instance: Instance, guard: Reader | None, items: list[Item], body: list[Item]
) -> None:  # fmt: skip
    """A body that is branched around where the guard does not hold."""
    if guard is None:
        items += body
        return
    layout = instance.layout
    layout.instances += 1
    end = f"$skip#{layout.instances}"
    items.append(Branch(end, lambda r: ~guard(r), False, b))
    items += body
    items.append(Mark(end))


def _target(b: Build, instance: Instance) -> str:
    operand = b.operand(0)
    if not isinstance(operand, Name):
        raise b.wrong("a label is needed")
    return instance.label(operand.text)


def _table(b: Build, instance: Instance) -> Table:
    b.need("idx")
    b.count(2)
    table = b.operand(1)
    targets = instance.function.branch_targets.get(table.text) if isinstance(table, Name) else None
    if targets is None:
        raise b.wrong("the second operand is no `.branchtargets`")
    return Table(b.read(0, U32), tuple(instance.label(t) for t in targets), b)


def _trap(ins: Instruction, message: str) -> Step:
    def step(r: Batch) -> None:
        raise TrapFault(message, ins.place, r.first(np.ones(r.count, bool)))

    return step


def _call(b: Build, layout: Layout, instance: Instance, items: list[Item]) -> None:
    returns, operands = _list(b.ins.operands)
    if not operands or not isinstance(operands[0], Name):
        raise b.wrong("a function is needed")
    callee = operands[0]
    arguments, operands = _list(operands[1:])
    if callee.text in layout.module.functions:
        function = layout.module.functions[callee.text]
        _inline(b, layout, instance, function, returns, arguments, items)
    else:
        _indirect(b, layout, instance, callee, (returns, arguments), operands, items)


def _list(operands: tuple[Operand, ...]) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """The items of a leading `(...)`, and the operands after it."""
    if operands and isinstance(operands[0], Vector):
        return operands[0].items, operands[1:]
    return (), operands


def _indirect(
    b: Build, layout: Layout, instance: Instance, pointer: Name,
    passed: tuple[tuple[Operand, ...], tuple[Operand, ...]], rest: tuple[Operand, ...],
    items: list[Item],
) -> None:  # fmt: skip
    """A call through a pointer: each function of fitting sizes is tried in turn."""
    read = b.read(pointer, U64)
    last = rest[0] if rest else None
    name = last.text if isinstance(last, Name) else ""
    prototype = instance.function.prototypes.get(name)
    listed = instance.function.call_targets.get(name)
    if prototype is None and listed is None:
        raise b.wrong("a `.callprototype` or `.calltargets` is needed")
    layout.instances += 1
    end = f"$called#{layout.instances}"
    for function_name, address in layout.candidates():
        function = layout.module.functions[function_name]
        sizes = (
            tuple(v.size for v in function.returns),
            tuple(v.size for v in function.parameters),
        )
        fits = function_name in listed if listed is not None else (
            prototype is not None and sizes == (prototype.returns, prototype.parameters)
        )  # fmt: skip
        if not fits or not function.defined or function_name in instance.callers:
            continue
        other = f"$other#{layout.instances}#{function_name}"
        items.append(Branch(other, _differs(read, address), False, b))
        _inline(b, layout, instance, function, *passed, items)
        items.append(Branch(end, None, False, b))
        items.append(Mark(other))
    items.append(_trap(b.ins, "a call through a pointer that holds no function of this prototype"))
    items.append(Mark(end))


def _differs(read: Reader, address: int) -> Reader:
    wanted = np.uint64(address)
    return lambda r: np.broadcast_to(as_array(read(r)) != wanted, r.count)


def _inline(
    b: Build, layout: Layout, caller: Instance, function: Function,
    returns: tuple[Operand, ...], arguments: tuple[Operand, ...], items: list[Item],
) -> None:  # fmt: skip
    if function.name in caller.callers:
        raise PtxLinkError(
            f"`{function.name}` calls itself, which the emulator does not execute", b.ins.place
        )
    if not function.defined:
        raise PtxLinkError(f"the function `{function.name}` is not defined", b.ins.place)
    callee = Instance(layout, function, caller.callers)
    for formal, actual in _pairs(b, function.parameters, arguments):
        if formal.space == "reg":
            callee.names[formal.name] = layout.register(formal.type)
            items.append(_move(b, callee, Name(formal.name), caller, actual, formal.type))
        else:
            callee.names[formal.name] = _alias(b, caller, formal, actual)
    for formal, actual in _pairs(b, function.returns, returns):
        if formal.space == "reg":
            callee.names[formal.name] = layout.register(formal.type)
        else:
            callee.names[formal.name] = _alias(b, caller, formal, actual)
    emit_function(layout, callee, items)
    for formal, actual in _pairs(b, function.returns, returns):
        if formal.space == "reg":
            items.append(_move(b, caller, actual, callee, Name(formal.name), formal.type))


def _pairs(
    b: Build, formals: tuple[Variable, ...], actuals: tuple[Operand, ...]
) -> Iterator[tuple[Variable, Operand]]:  # fmt: skip
    if len(formals) != len(actuals):
        raise b.wrong(f"{len(formals)} values are passed or returned, got {len(actuals)}")
    return zip(formals, actuals, strict=True)


def _alias(b: Build, caller: Instance, formal: Variable, actual: Operand) -> Location:
    """A parameter is the caller's variable itself."""
    found = caller.find(actual.text) if isinstance(actual, Name) else None
    if not isinstance(found, Location) or found.space != "local":
        raise b.wrong(f"a .param variable is needed for `{formal.name}`")
    if found.size != formal.size:
        raise b.wrong(f"`{formal.name}` has {formal.size} bytes, got {found.size}")
    return found


def _move(
    b: Build, to: Instance, target: Operand, source: Instance, value: Operand, kind: PtxType
) -> Step:  # fmt: skip
    read = Build(b.ins, source).read(value, kind)
    write = Build(b.ins, to).write(target, kind)
    return lambda r: write(r, np.copy(read(r)))
