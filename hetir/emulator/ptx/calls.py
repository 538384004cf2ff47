"""Functions into linear form: names of an instance, variables' places, calls inlined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from hetir.emulator.ptx.batch import Batch
from hetir.emulator.ptx.build import Build, Place, Reader, Register, Step
from hetir.emulator.ptx.faults import PtxLinkError, PtxUnknownError, TrapFault
from hetir.emulator.ptx.instructions import step_of
from hetir.emulator.ptx.integers import as_array
from hetir.emulator.ptx.items import Branch, Exit, Item, Mark, Table, predicated
from hetir.emulator.ptx.spaces import FUNCTION_WINDOW
from hetir.emulator.ptx.syntax import (
    Function,
    Instruction,
    LabelMark,
    Module,
    Name,
    Negated,
    Operand,
    Symbol,
    Variable,
    Vector,
)
from hetir.emulator.ptx.types import PRED, U32, U64, Lanes, PtxType
from hetir.emulator.ptx.warp import WarpStep
from hetir.emulator.ptx.barrier import BarrierStep

_GUARD_BYTES = 16


class Space:
    """Places of variables in a space, a gap between them, so that none runs into the next."""

    def __init__(self, gap: int) -> None:
        self.gap = gap
        self.next = 0
        self.placed: list[tuple[int, int]] = []

    def place(self, size: int, align: int) -> int:
        """The offset of a new variable."""
        at = -(-self.next // align) * align
        self.placed.append((at, size))
        self.next = at + size + self.gap
        return at

    @property
    def stride(self) -> int:
        """Bytes that a copy of the space takes."""
        return -(-(self.next + 32) // 32) * 32

    def table(self, size: int = 0) -> Lanes:
        """For each byte the number of the variable that has it, 0 for none."""
        table = np.zeros(max(size, self.stride), np.int32)
        for number, (at, length) in enumerate(self.placed, 1):
            table[at : at + length] = number
        return table


class Layout:
    """What all instances of a program share: register slots, spaces, notes on instructions."""

    def __init__(self, module: Module, entry: Function, addresses: Mapping[str, int]) -> None:
        self.module = module
        self.addresses = addresses
        self.register_types: list[PtxType] = []
        self.local = Space(_GUARD_BYTES)
        self.shared = Space(_GUARD_BYTES)
        self.parameters = Space(0)
        self.approximate: set[str] = set()
        self.contractible: set[str] = set()
        self.instances = 0
        self.functions = self.function_addresses(module)
        self.shared_places: dict[tuple[str, str], Place] = {}
        self.static_shared_bytes = 0
        self.entry_places = {p.name: self._parameter(p) for p in entry.parameters}
        self.parameter_bytes = self.parameters.next
        self.dynamic_base = self._place_shared(entry)

    @staticmethod
    def function_addresses(module: Module) -> dict[str, int]:
        """The addresses that pointers to functions hold."""
        return {name: FUNCTION_WINDOW + 16 * (i + 1) for i, name in enumerate(module.functions)}

    def _parameter(self, variable: Variable) -> Place:
        at = self.parameters.place(variable.size, variable.align)
        return Place("param", at, variable.size)

    def _place_shared(self, entry: Function) -> int:
        """Place the shared variables that the entry and what it calls name; dynamic ones last."""
        plain = align = 0
        dynamic: list[tuple[str, str]] = []
        for owner, variable in self._shared_variables(entry):
            key = (owner, variable.name)
            align = max(align, variable.align)
            if variable.count is None:
                dynamic.append(key)
                continue
            plain = -(-plain // variable.align) * variable.align + variable.size
            at = self.shared.place(variable.size, variable.align)
            self.shared_places[key] = Place("shared", at, variable.size)
        self.static_shared_bytes = plain
        base = -(-self.shared.next // max(align, 16)) * max(align, 16)
        for key in dynamic:
            self.shared_places[key] = Place("shared", base, 0)
        return base

    def _shared_variables(self, entry: Function) -> Iterator[tuple[str, Variable]]:
        done: set[str] = set()
        work = [entry.name]
        named: set[str] = set()
        while work:
            function = self.module.functions[work.pop()]
            if function.name in done:
                continue
            done.add(function.name)
            yield from (
                (function.name, v) for v in function.variables.values() if v.space == "shared"
            )
            for item in function.body:
                if isinstance(item, Instruction):
                    named.update(_names(item.operands))
            work += sorted((named | self._address_taken()) & set(self.module.functions))
        for variable in self.module.variables.values():
            if variable.space == "shared" and variable.name in named:
                yield "", variable

    def _address_taken(self) -> set[str]:
        """Functions whose address an initial value has."""
        return {
            value.name
            for variable in self.module.variables.values()
            for value in variable.initial or ()
            if isinstance(value, Symbol) and value.name in self.module.functions
        }

    def register(self, kind: PtxType) -> Register:
        """A new register."""
        self.register_types.append(kind)
        return Register(len(self.register_types) - 1, kind)

    def global_place(self, name: str) -> Place | None:
        """A variable at module scope, or a function's address."""
        variable = self.module.variables.get(name)
        if variable is not None:
            if variable.space == "shared":
                return self.shared_places.get(("", name))
            return Place(variable.space, self.addresses[name], variable.size)
        if name in self.functions:
            return Place("code", self.functions[name], 0)
        return None

    def candidates(self) -> Iterator[tuple[str, int]]:
        """Functions that a pointer may hold, with their addresses."""
        for name, address in self.functions.items():
            if not self.module.functions[name].is_entry:
                yield name, address


def _names(operands: tuple[Operand, ...]) -> Iterator[str]:
    for operand in operands:
        match operand:
            case Name(text):
                yield text
            case Vector(items):
                yield from _names(items)
            case _:
                base = getattr(operand, "base", None)
                if isinstance(base, Name):
                    yield base.text


class Instance:
    """One inlined copy of a function: what its names stand for."""

    def __init__(self, layout: Layout, function: Function, callers: tuple[str, ...] = ()) -> None:
        self.layout = layout
        self.function = function
        self.callers = (*callers, function.name)
        self.is_entry = function.is_entry
        self.serial = layout.instances
        layout.instances += 1
        self.names: dict[str, Register | Place] = {}
        if function.is_entry:
            self.names.update(layout.entry_places)

    def label(self, name: str) -> str:
        """A label's name that is unique in the program."""
        return f"{name}#{self.serial}"

    def find(self, name: str) -> Register | Place | None:
        """The meaning of a name."""
        found = self.names.get(name)
        if found is not None:
            return found
        found = self._make(name)
        if found is not None:
            self.names[name] = found
        return found

    def _make(self, name: str) -> Register | Place | None:
        kind = self.function.registers.get(name)
        if kind is not None:
            return self.layout.register(kind)
        variable = self.function.variables.get(name)
        if variable is None:
            return self.layout.global_place(name)
        return self.variable(variable)

    def variable(self, variable: Variable) -> Place:
        """A place for a variable of the function's body, or for a parameter of a call."""
        match variable.space:
            case "shared":
                return self.layout.shared_places[self.function.name, variable.name]
            case "local" | "param":
                at = self.layout.local.place(variable.size, variable.align)
                return Place("local", at, variable.size)
            case _:
                raise PtxUnknownError(
                    f"a .{variable.space} variable in a function is not executed", variable.place
                )


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
    operands = list(b.ins.operands)
    returns = operands.pop(0).items if isinstance(operands[0], Vector) else ()
    callee = operands.pop(0)
    arguments: tuple[Operand, ...] = ()
    if operands and isinstance(operands[0], Vector):
        arguments = operands.pop(0).items
    if not isinstance(callee, Name):
        raise b.wrong("a function is needed")
    if callee.text in layout.module.functions:
        function = layout.module.functions[callee.text]
        _inline(b, layout, instance, function, returns, arguments, items)
    else:
        _indirect(b, layout, instance, callee, (returns, arguments), operands, items)


def _indirect(
    b: Build, layout: Layout, instance: Instance, pointer: Name,
    passed: tuple[tuple[Operand, ...], tuple[Operand, ...]], rest: list[Operand],
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
        sizes = (tuple(v.size for v in function.returns), tuple(v.size for v in function.parameters))
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


def _alias(b: Build, caller: Instance, formal: Variable, actual: Operand) -> Place:
    """A parameter is the caller's variable itself."""
    found = caller.find(actual.text) if isinstance(actual, Name) else None
    if not isinstance(found, Place) or found.space != "local":
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

