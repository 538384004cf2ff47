"""Litmus text in OpenCL C: functions `P0@wg 0, dev 0 (global atomic_int* x) { ... }`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hetir.memory.litmus.table import LitmusError, Sections, header
from hetir.memory.program import (
    Address,
    Assign,
    Barrier,
    Binary,
    Cas,
    Const,
    Expr,
    Fence,
    Instruction,
    Jump,
    Label,
    Load,
    Location,
    Operation,
    Order,
    Program,
    Reg,
    Rmw,
    Scope,
    Space,
    Store,
    Thread,
)

SCOPES = {
    "memory_scope_work_item": Scope.WORK_ITEM,
    "memory_scope_sub_group": Scope.SUBGROUP,
    "memory_scope_work_group": Scope.WORKGROUP,
    "memory_scope_device": Scope.DEVICE,
    "memory_scope_all_svm_devices": Scope.SYSTEM,
}
ORDERS = {f"memory_order_{order}": order for order in Order}
PLACES = {"wg": Scope.WORKGROUP, "dev": Scope.DEVICE, "sg": Scope.SUBGROUP}
FLAGS = {"CLK_GLOBAL_MEM_FENCE": "global", "CLK_LOCAL_MEM_FENCE": "local"}
FETCH = {"add": "+", "sub": "-", "or": "|", "and": "&", "xor": "^", "min": "min", "max": "max"}

_TOKEN = re.compile(r"\s*(==|!=|&&|\|\||\w+|[^\s\w])")
_FUNCTION = re.compile(r"(P\d+\s*@[^({]*?)\s*\(([^)]*)\)\s*\{")
_ADDRESS_OF_PARAMETER = 0x1000


def program(sections: Sections) -> Program:
    """Read an OpenCL litmus program."""
    values, sizes = _initial(sections.initial)
    spaces: dict[str, Space] = {}
    threads: list[Thread] = []
    for number, match in enumerate(_FUNCTION.finditer(sections.code)):
        parameters = _parameters(match.group(2))
        spaces |= parameters
        body = sections.code[match.end() : _closing(sections.code, match.end())]
        reader = _Body(tokens=_TOKEN.findall(body), pointers=frozenset(parameters))
        try:
            reader.block_items()
        except LitmusError as error:
            places = [found.start(1) for found in _TOKEN.finditer(body)] or [0]
            place = places[max(0, min(reader.position, len(places)) - 1)]
            at = sections.code_at + match.end() + place
            raise LitmusError(error.message, hint=error.hint, at=at) from None
        threads.append(_thread(number, match.group(1), parameters, reader))
    names = [*values, *(name for name in spaces if name not in values)]
    locations = [
        Location(name=name, initial=values.get(name, 0), space=spaces.get(name, Space.GLOBAL))
        for name in names
    ]
    for name, size in sizes.items():
        space = spaces.get(name, Space.GLOBAL)
        locations += [
            Location(name=f"{name}[{i}]", space=space, alias=name if i == 0 else None)
            for i in range(size)
        ]
    return Program(name=sections.name, locations=tuple(locations), threads=tuple(threads))


def _thread(number: int, head: str, parameters: dict[str, Space], reader: _Body) -> Thread:
    place = {PLACES[name]: value for name, value in header(head.strip(), number).items()}
    # a pointer is a register too, whose value is an address: never 0
    pointers = [
        Assign(register=name, value=Const(_ADDRESS_OF_PARAMETER + i))
        for i, name in enumerate(parameters)
    ]
    return Thread(name=f"P{number}", place=place, body=(*pointers, *reader.body))


def _initial(block: str) -> tuple[dict[str, int], dict[str, int]]:
    values: dict[str, int] = {}
    sizes: dict[str, int] = {}
    flat = re.sub(r"\{[^}]*\}?", "", block)
    for part in flat.split(";"):
        text = part.strip()
        if match := re.fullmatch(r"\[(\w+)\]\s*=\s*(-?\d+)", text):
            values[match[1]] = int(match[2])
        elif match := re.fullmatch(r"\w+\s+(\w+)\[(\d+)\]\s*=?", text):
            values[match[1]], sizes[match[1]] = 0, int(match[2])
        elif text:
            raise LitmusError(f"cannot read the initial value `{text}`")
    return values, sizes


def _parameters(text: str) -> dict[str, Space]:
    found: dict[str, Space] = {}
    for part in text.split(","):
        words = part.replace("*", " ").split()
        if not words:
            continue
        found[words[-1]] = Space.SHARED if "local" in words else Space.GLOBAL
    return found


def _closing(code: str, start: int) -> int:
    depth = 1
    for position in range(start, len(code)):
        depth += {"{": 1, "}": -1}.get(code[position], 0)
        if depth == 0:
            return position
    raise LitmusError("a brace is not closed")


@dataclass(slots=True, kw_only=True)
class _Body:
    """Reads the statements of one function into instructions."""

    tokens: list[str]
    pointers: frozenset[str]
    position: int = 0
    fresh: int = 0
    body: list[Instruction] = field(default_factory=list[Instruction])

    def peek(self, ahead: int = 0) -> str:
        place = self.position + ahead
        return self.tokens[place] if place < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.position += 1
        return token

    def expect(self, *wanted: str) -> None:
        for token in wanted:
            found = self.next()
            if found != token:
                raise LitmusError(f"expected `{token}`, got `{found}`")

    def temporary(self) -> str:
        self.fresh += 1
        return f"#{self.fresh}"

    def block_items(self) -> None:
        while self.peek() not in {"", "}"}:
            self.statement()

    def statement(self) -> None:
        if self.peek() == "if":
            self.conditional()
        elif self.peek() == ";":
            self.next()
        elif self.peek(1) == ":" or self.peek() == "barrier":
            self.barrier()
        elif self.peek() == "*":
            self.next()
            place = self.next()
            self.expect("=")
            value = self.expression()
            self.expect(";")
            self.body.append(
                Store(address=Address(base=place), value=value, text=f"*{place} = ...")
            )
        elif self.peek() == "int":
            self.next()
            self.assignment()
        elif self.peek(1) == "=":
            self.assignment()
        else:
            self.expression()
            self.expect(";")

    def assignment(self) -> None:
        name = self.next()
        if self.peek() == "=":
            self.next()
            self.body.append(Assign(register=name, value=self.expression()))
        self.expect(";")

    def conditional(self) -> None:
        self.expect("if", "(")
        condition = self.expression()
        self.expect(")")
        otherwise, end = self.temporary(), self.temporary()
        false = Binary("==", condition, Const(0))
        self.body.append(Jump(target=otherwise, condition=false))
        self.braces()
        self.body.append(Jump(target=end))
        self.body.append(Label(name=otherwise))
        if self.peek() == "else":
            self.next()
            self.braces()
        self.body.append(Label(name=end))

    def braces(self) -> None:
        self.expect("{")
        self.block_items()
        self.expect("}")

    def barrier(self) -> None:
        name = "barrier"
        if self.peek(1) == ":":
            name = self.next()
            self.next()
        self.expect("barrier", "(")
        tags = self.flags()
        self.expect(")", ";")
        self.body.append(
            Barrier(
                name=name,
                order=Order.ACQ_REL,
                scope=Scope.WORKGROUP,
                tags=tags,
                text=f"{name}: barrier({'|'.join(sorted(tags))})",
            )
        )

    def flags(self) -> frozenset[str]:
        found: set[str] = set()
        while self.peek() in FLAGS:
            found.add(FLAGS[self.next()])
            if self.peek() == "|":
                self.next()
        return frozenset(found)

    def expression(self) -> Expr:
        left = self.sum()
        if self.peek() in {"==", "!="}:
            op = self.next()
            return Binary(op, left, self.sum())
        return left

    def sum(self) -> Expr:
        left = self.unary()
        while self.peek() in {"+", "-"}:
            op = self.next()
            left = Binary(op, left, self.unary())
        return left

    def unary(self) -> Expr:
        token = self.next()
        if token == "-":
            return Const(-int(self.next()))
        if token.isdigit():
            return Const(int(token))
        if token == "*":
            return self.load(self.next())
        if token == "(":
            inner = self.expression()
            self.expect(")")
            return inner
        if self.peek() == "(":
            return self.call(token)
        return Reg(token)

    def load(self, place: str) -> Expr:
        register = self.temporary()
        self.body.append(Load(register=register, address=Address(base=place), text=f"*{place}"))
        return Reg(register)

    def call(self, name: str) -> Expr:
        self.expect("(")
        if name == "atomic_work_item_fence":
            return self.fence()
        place = self.next()
        index: Expr | None = None
        if self.peek() == "+":
            self.next()
            index = self.unary()
        address = Address(base=place, index=index)
        arguments: list[str | Expr] = []
        while self.peek() == ",":
            self.next()
            known = self.peek() in ORDERS or self.peek() in SCOPES or self.peek() in self.pointers
            arguments.append(self.next() if known else self.expression())
        self.expect(")")
        return self.atomic(name, address, arguments)

    def fence(self) -> Expr:
        tags = self.flags()
        self.expect(",")
        order = ORDERS[self.next()]
        self.expect(",")
        scope = SCOPES[self.next()]
        self.expect(")")
        text = f"fence({'|'.join(sorted(tags))}, {order}, {scope})"
        self.body.append(Fence(order=order, scope=scope, tags=tags, text=text))
        return Const(0)

    def atomic(self, name: str, address: Address, arguments: list[str | Expr]) -> Expr:
        orders = [ORDERS[item] for item in arguments if isinstance(item, str) and item in ORDERS]
        scopes = [SCOPES[item] for item in arguments if isinstance(item, str) and item in SCOPES]
        others = [item for item in arguments if item not in ORDERS and item not in SCOPES]
        order = orders[0] if orders else Order.SEQ_CST
        scope = scopes[0] if scopes else Scope.DEVICE
        operation = name.removeprefix("atomic_").removesuffix("_explicit")
        text = f"{operation}({address.base}, {order}, {scope})"
        common = Operation(order=order, scope=scope, text=text)
        if operation == "compare_exchange_strong":
            failure = orders[1] if len(orders) > 1 else order
            return self.compare_exchange(address, others, common, failure)
        if operation == "store":
            self.body.append(
                Store(address=address, value=_value(others), order=order, scope=scope, text=text)
            )
            return Const(0)
        register = self.temporary()
        if operation == "load":
            item: Instruction = Load(
                register=register, address=address, order=order, scope=scope, text=text
            )
        else:
            op = operation.removeprefix("fetch_")
            item = Rmw(
                register=register,
                address=address,
                op=FETCH.get(op, op),
                operand=_value(others),
                order=order,
                scope=scope,
                text=text,
            )
        self.body.append(item)
        return Reg(register)

    def compare_exchange(
        self, address: Address, arguments: list[str | Expr], common: Operation, failure: Order
    ) -> Expr:
        """`expected` is a pointer: it is read before and, on failure, written after."""
        expected, desired = arguments
        if not isinstance(expected, str) or isinstance(desired, str):
            raise LitmusError("compare_exchange takes a pointer and a value")
        old, success, end = self.temporary(), self.temporary(), self.temporary()
        wanted = self.load(expected)
        self.body += [
            Cas(
                register=old,
                address=address,
                expected=wanted,
                desired=desired,
                failure_order=failure,
                success=success,
                order=common.order,
                scope=common.scope,
                text=common.text,
            ),
            Jump(target=end, condition=Reg(success)),
            Store(
                address=Address(base=expected), value=Reg(old), text=f"*{expected} = {address.base}"
            ),
            Label(name=end),
        ]
        return Reg(success)


def _value(arguments: list[str | Expr]) -> Expr:
    if len(arguments) != 1 or isinstance(arguments[0], str):
        raise LitmusError("an atomic operation takes one value")
    return arguments[0]
