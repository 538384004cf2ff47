"""Claims about final states: conditions over registers and locations, with a quantifier."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from hetir.memory.program import evaluate


@dataclass(frozen=True, slots=True)
class FinalRegister:
    """A register of a thread (by number) when the thread has ended."""

    thread: int
    name: str

    def __str__(self) -> str:
        return f"{self.thread}:{self.name}"


@dataclass(frozen=True, slots=True)
class FinalLocation:
    """The last value of a location."""

    name: str

    def __str__(self) -> str:
        return self.name


Observable = FinalRegister | FinalLocation
Term = Observable | int


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of two terms."""

    op: str
    left: Term
    right: Term

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part holds; with no parts, true."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return "(" + r" /\ ".join(map(str, self.parts)) + ")" if self.parts else "true"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Some part holds; with no parts, false."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return "(" + r" \/ ".join(map(str, self.parts)) + ")" if self.parts else "false"


@dataclass(frozen=True, slots=True)
class Negation:
    """The part does not hold."""

    part: Condition

    def __str__(self) -> str:
        return f"~({self.part})"


Condition = Compare | AllOf | AnyOf | Negation


class Quantifier(StrEnum):
    """How a claim speaks of the final states; `FILTER` only narrows which executions count."""

    EXISTS = "exists"
    NEVER = "~exists"
    FORALL = "forall"
    FILTER = "filter"


@dataclass(frozen=True, slots=True)
class Claim:
    """A quantified condition over the final states of a program."""

    quantifier: Quantifier
    condition: Condition

    def __str__(self) -> str:
        return f"{self.quantifier} {self.condition}"


def observables(condition: Condition) -> Iterator[Observable]:
    """Yield every register and location that a condition names."""
    match condition:
        case Compare(left=left, right=right):
            yield from (term for term in (left, right) if not isinstance(term, int))
        case AllOf(parts=parts) | AnyOf(parts=parts):
            for part in parts:
                yield from observables(part)
        case Negation(part=part):
            yield from observables(part)


def constants(condition: Condition) -> frozenset[int]:
    """Return the numbers that a condition names."""
    match condition:
        case Compare(left=left, right=right):
            return frozenset(term for term in (left, right) if isinstance(term, int))
        case AllOf(parts=parts) | AnyOf(parts=parts):
            return frozenset(number for part in parts for number in constants(part))
        case Negation(part=part):
            return constants(part)


def holds(condition: Condition, value_of: Callable[[Observable], int]) -> bool:
    """Whether a condition holds in one final state."""
    match condition:
        case Compare(op=op, left=left, right=right):
            a = left if isinstance(left, int) else value_of(left)
            b = right if isinstance(right, int) else value_of(right)
            return bool(evaluate(op, a, b))
        case AllOf(parts=parts):
            return all(holds(part, value_of) for part in parts)
        case AnyOf(parts=parts):
            return any(holds(part, value_of) for part in parts)
        case Negation(part=part):
            return not holds(part, value_of)


_TOKEN = re.compile(
    r"\s*(/\\|\\/|&&|\|\||[()~]|==|!=|=|[A-Za-z_]\w*\s*:\s*\w+|\d+\s*:\s*\w+|-?\w+)"
)
_EMPTY = re.compile(r"\s*$")


def parse_claim(text: str, location_names: frozenset[str]) -> Claim:
    r"""Read `exists (0:r0=1 /\ x=2)` and its kin; raise ValueError where it makes no sense."""
    stripped = text.strip()
    for quantifier in (Quantifier.NEVER, *Quantifier):
        if stripped.startswith(quantifier.value):
            reader = _Reader(_tokens(stripped[len(quantifier.value) :]), location_names)
            condition = reader.any_of()
            reader.end()
            return Claim(quantifier, condition)
    raise ValueError(f"no exists, ~exists, forall or filter in {stripped[:40]!r}")


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    position = 0
    while not _EMPTY.match(text, position):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"cannot read the condition at {text[position : position + 20]!r}")
        found.append(re.sub(r"\s+", "", match.group(1)))
        position = match.end()
    return found


class _Reader:
    r"""A recursive-descent reader: `\/` binds weaker than `/\`, and `~` strongest."""

    def __init__(self, tokens: list[str], location_names: frozenset[str]) -> None:
        self.tokens = tokens
        self.location_names = location_names
        self.position = 0

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.position += 1
        return token

    def end(self) -> None:
        if self.peek():
            raise ValueError(f"unexpected {self.peek()!r} after the condition")

    def any_of(self) -> Condition:
        parts = [self.all_of()]
        while self.peek() in {"\\/", "||"}:
            self.next()
            parts.append(self.all_of())
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def all_of(self) -> Condition:
        parts = [self.atom()]
        while self.peek() in {"/\\", "&&"}:
            self.next()
            parts.append(self.atom())
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def atom(self) -> Condition:
        if self.peek() == "~":
            self.next()
            return Negation(self.atom())
        if self.peek() == "(":
            self.next()
            inner = self.any_of()
            if self.next() != ")":
                raise ValueError("a parenthesis is not closed")
            return inner
        left = self.term()
        op = {"=": "==", "==": "==", "!=": "!="}.get(self.next())
        if op is None:
            raise ValueError(f"expected a comparison after {left}")
        return Compare(op, left, self.term())

    def term(self) -> Term:
        token = self.next()
        if re.fullmatch(r"-?\d+", token):
            return int(token)
        if ":" in token:
            thread, _, register = token.partition(":")
            return FinalRegister(int(thread.lstrip("P")), register)
        if token in self.location_names:
            return FinalLocation(token)
        raise ValueError(f"`{token}` is neither a number, a register nor a location")
