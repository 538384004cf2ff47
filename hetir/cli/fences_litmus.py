"""The litmus test of a compiled kernel: PTX litmus text, SPIR-V assembly, or hetIR's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest

from hetir.artifact import Artifact
from hetir.backends import emitted
from hetir.ir.core import walk
from hetir.memory import program as mp
from hetir.memory.claim import AllOf, AnyOf, Compare, Condition, FinalLocation
from hetir.memory.program import Binary, Const, Expr, Reg, Scope
from hetir.passes import harness
from hetir.passes.certificate import Certificate
from hetir.passes.harness import HarnessError

Say = Callable[[mp.MemoryOperation], list[str]]

_PLACES = {
    "PTX": {Scope.WORKGROUP: "cta", Scope.DEVICE: "gpu"},
    "HETIR": {Scope.SUBGROUP: "subgroup", Scope.WORKGROUP: "workgroup", Scope.DEVICE: "device"},
}
_WORDS = {"+": "add", "-": "sub", "&": "and", "|": "or", "^": "xor"}


def harness_text(made: Artifact, found: Certificate) -> str:
    """The test of an artifact's final text on the certificate's launch, with all that may be.

    Raises:
        HarnessError: litmus text cannot say what the kernel computes.
    """
    if made.target.startswith("spirv:"):
        return _assembly(made, found)
    launch = found.launch
    program = harness.read(found.kernel, launch.arguments, launch.grid, launch.workgroup).program
    if made.target.startswith("ptx:"):
        return _table("PTX", program, found, _ptx(made, found))
    return _table("HETIR", program, found, lambda item: [_hetir(item)])


# ---- SPIR-V --------------------------------------------------------------------------------


def _assembly(made: Artifact, found: Certificate) -> str:
    launch = found.launch
    head = [
        f"; {found.kernel.name} for {made.target}",
        f"; launch: {launch.grid} workgroups of {launch.workgroup}",
    ]
    names = [p.value.name or f"argument {n}" for n, p in enumerate(found.kernel.params)]
    for name, value in zip(names, launch.arguments, strict=True):
        shown = value.tolist() if hasattr(value, "tolist") else value
        head.append(f"; {name} = {shown}")
    head.append(f"; forbid: ~{_said(found.promised)}")
    return "\n".join(head) + "\n" + made.text


# ---- tables --------------------------------------------------------------------------------


def _table(arch: str, program: mp.Program, found: Certificate, say: Say) -> str:
    shared = {p.name for p in program.locations if p.space is mp.Space.SHARED}
    initial = "; ".join(
        f"{'shared ' if arch == 'HETIR' and p.name in shared else ''}{_name(p.name)}={p.initial}"
        for p in program.locations
    )
    columns = [
        [_header(arch, number, thread), *_cells(thread, say)]
        for number, thread in enumerate(program.threads)
    ]
    widths = [max(map(len, column)) for column in columns]
    rows = [
        " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in zip_longest(*columns, fillvalue="")
    ]
    table = "\n".join(f" {row} ;" for row in rows)
    name = f"{found.kernel.name} for {found.target}"
    return f"{arch} {name}\n{{ {initial}; }}\n{table}\nforall {_said(found.promised)}\n"


def _header(arch: str, number: int, thread: mp.Thread) -> str:
    scopes = _PLACES[arch]
    places = ", ".join(f"{scopes[s]} {n}" for s, n in thread.place.items() if s in scopes)
    return f"P{number}@{places}"


def _cells(thread: mp.Thread, say: Say) -> Iterator[str]:
    for item in thread.body:
        match item:
            case mp.Label(name=name):
                yield f"{name}:"
            case mp.Jump(target=target, condition=condition):
                yield _jump(target, condition)
            case mp.Assign(register=register, value=value):
                yield from _assigned(register, value)
            case mp.Store(value=Binary() as value):
                yield from _assigned("sum", value)
                yield from say(replace(item, value=Reg("sum")))
            case _:
                yield from say(item)


def _assigned(register: str, value: Expr) -> Iterator[str]:
    """A register set to a sum of sums, or to a number or register."""
    if isinstance(value, Binary) and value.op == "+":
        left, right = value.left, value.right
        if isinstance(left, Binary):
            yield from _assigned(register, left)
            left = Reg(register)
        if isinstance(right, Binary) and left != Reg(register):
            yield from _assigned(register, right)
            right = Reg(register)
        yield f"add {register}, {_operand(left)}, {_operand(right)}"
    else:
        yield f"mov {register}, {_operand(value)}"


def _jump(target: str, condition: Expr | None) -> str:
    if condition is None:
        return f"goto {target}"
    wanted = True
    while (
        isinstance(condition, Binary)
        and condition.op in ("==", "!=")
        and condition.right == Const(0)
        and isinstance(condition.left, Binary)
        and condition.left.op in ("==", "!=")
    ):
        wanted ^= condition.op == "=="
        condition = condition.left
    if isinstance(condition, Binary) and condition.op in ("==", "!="):
        word = "beq" if (condition.op == "==") == wanted else "bne"
        return f"{word} {_operand(condition.left)}, {_operand(condition.right)}, {target}"
    return f"{'bne' if wanted else 'beq'} {_operand(condition)}, 0, {target}"


def _operand(value: Expr) -> str:
    match value:
        case Const(value=number):
            return str(number)
        case Reg(name=name):
            return name
        case Binary(op=op):
            raise HarnessError(f"litmus text cannot say `{op}` of what is read inside an operand")


def _place(address: mp.Address) -> str:
    if address.index is not None:
        raise HarnessError(
            f"litmus text cannot say which element of `{address.base}` is meant",
            hint="the element depends on what is read",
        )
    return _name(address.base)


def _name(place: str) -> str:
    return re.sub(r"\W+", "_", place).strip("_")


def _said(condition: Condition) -> str:
    """A condition in litmus text."""
    match condition:
        case Compare(left=left, right=right):
            name = _name(left.name) if isinstance(left, FinalLocation) else left
            return f"{name}={right}"
        case AllOf(parts=parts):
            return "(" + r" /\ ".join(map(_said, parts)) + ")"
        case AnyOf(parts=parts):
            return "(" + r" \/ ".join(map(_said, parts)) + ")"
        case _:
            raise AssertionError("what is promised is a list of outcomes")


# ---- the words of an operation -------------------------------------------------------------


def _ptx(made: Artifact, found: Certificate) -> Say:
    """PTX words: the opcodes are those of the final text at the operation's place."""
    lines = emitted.instructions(made, found.kernel)
    kinds: Mapping[str, str] = {
        **{"atomic.load": "Load", "atomic.store": "Store", "atomic.rmw": "Rmw"},
        **{"atomic.cas": "Cas", "fence": "Fence", "barrier": "Barrier"},
    }
    opcodes = {
        (op.loc, kinds[op.name]): [line.text.split()[0] for line in lines[op]]
        for op in walk(found.kernel.body)
        if op in lines
    }

    def say(item: mp.MemoryOperation) -> list[str]:
        if isinstance(item, mp.Load | mp.Store) and item.order is None:
            words = ["ld.weak" if isinstance(item, mp.Load) else "st.weak"]
        else:
            words = opcodes[item.origin, type(item).__name__]  # type: ignore[index]
        *before, last = (word.rstrip(";") for word in words)
        opcode = re.sub(r"\.(global|shared|[busf]\d+)\b", "", last)
        if isinstance(item, mp.Barrier):
            return [f"{opcode} {item.name}"]
        if isinstance(item, mp.Fence):
            return [*before, opcode]
        return [*before, f"{opcode} {', '.join(_ptx_operands(item, opcode))}"]

    return say


def _ptx_operands(item: mp.Load | mp.Store | mp.Rmw | mp.Cas, opcode: str) -> Iterator[str]:
    if isinstance(item, mp.Load):
        yield from (item.register, _place(item.address))
    elif isinstance(item, mp.Store):
        yield from (_place(item.address), _operand(item.value))
    else:
        if not opcode.startswith("red."):
            yield item.register or "unused"
        yield _place(item.address)
        if isinstance(item, mp.Rmw):
            yield _operand(item.operand)
        else:
            yield from (_operand(item.expected), _operand(item.desired))


def _hetir(item: mp.MemoryOperation) -> str:
    how = f".{item.order}.{item.scope}" if item.order is not None else ""
    match item:
        case mp.Load():
            return f"load{how} {item.register}, {_place(item.address)}"
        case mp.Store():
            return f"store{how} {_place(item.address)}, {_operand(item.value)}"
        case mp.Rmw():
            word = f"atomic_{_WORDS.get(item.op, item.op)}{how}"
            place = _place(item.address)
            return f"{word} {item.register or '_'}, {place}, {_operand(item.operand)}"
        case mp.Cas():
            values = f"{_operand(item.expected)}, {_operand(item.desired)}"
            return f"cas{how} {item.register or 'unused'}, {_place(item.address)}, {values}"
        case mp.Fence():
            return f"fence{how}"
        case _:
            return f"barrier.{item.execution}"
