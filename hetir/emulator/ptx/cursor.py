"""A position in the tokens, and the parts of PTX that stand everywhere: operands, literals."""

from __future__ import annotations

import struct

from hetir.emulator.ptx.faults import Place, PtxSyntaxError
from hetir.emulator.ptx.lexer import Token
from hetir.emulator.ptx.syntax import Address, Name, Negated, Number, Operand, Pair, Real, Vector
from hetir.source import Loc

_COMPONENTS = (".x", ".y", ".z", ".w")


class Cursor:
    """Reads tokens from left to right."""

    def __init__(self, found: list[Token], name: str) -> None:
        self.tokens = found
        self.name = name
        self.at = 0
        self.user: Loc | None = None

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.at]

    def place(self, token: Token | None = None) -> Place:
        """Where a token stands."""
        t = token or self.token
        return Place(Loc(self.name, t.line, t.col, t.line, t.col + max(1, len(t.text))), self.user)

    def fail(self, wanted: str) -> PtxSyntaxError:
        """The error for a token that cannot stand here."""
        got = self.token.text or "the end of the text"
        return PtxSyntaxError(f"expected {wanted}, got `{got}`", self.place())

    def step(self) -> Token:
        """Take the next token."""
        token = self.tokens[self.at]
        self.at += 1
        return token

    def sees(self, text: str) -> bool:
        """Whether the next token is this."""
        return self.token.text == text

    def take(self, text: str) -> bool:
        """Take the next token if it is this."""
        if self.token.text == text:
            self.at += 1
            return True
        return False

    def need(self, text: str) -> Token:
        """Take the next token, which must be this."""
        if self.token.text != text:
            raise self.fail(f"`{text}`")
        return self.step()

    def kind(self, kind: str, wanted: str) -> Token:
        """Take the next token, which must be of this kind."""
        if self.token.kind != kind:
            raise self.fail(wanted)
        return self.step()

    def integer(self) -> int:
        """A literal integer, with its sign."""
        negative = self.take("-")
        value = int(self.kind("int", "an integer").text.rstrip("U"), 0)
        return -value if negative else value

    def integers(self) -> tuple[int, ...]:
        """Literal integers between commas."""
        found = [self.integer()]
        while self.take(","):
            found.append(self.integer())
        return tuple(found)

    def real(self) -> Real:
        """A floating-point literal."""
        negative = self.take("-")
        text = self.kind("real", "a floating-point number").text
        prefix, digits = text[:2].lower(), text[2:]
        if prefix not in {"0f", "0d"}:
            return Real(-float(text) if negative else float(text), 0, 0)
        bits = 32 if prefix == "0f" else 64
        raw = int(digits, 16) ^ (int(negative) << bits - 1)
        data = raw.to_bytes(bits // 8, "little")
        return Real(float(struct.unpack("<f" if bits == 32 else "<d", data)[0]), bits, raw)

    def _name(self) -> Name:
        text = self.kind("name", "a name").text
        follows = self.token
        if text.startswith("%") and follows.text in _COMPONENTS:
            text += self.step().text
        offset = 0
        if self.token.text in {"+", "-"} and self.tokens[self.at + 1].kind == "int":
            sign = 1 if self.step().text == "+" else -1
            offset = sign * self.integer()
        return Name(text, offset)

    def operand(self) -> Operand:
        """One operand, with `a|b` for two destinations."""
        first = self._simple()
        if self.take("|"):
            return Pair(first, self._simple())
        return first

    def _simple(self) -> Operand:
        token = self.token
        match token.text:
            case "{" | "(":
                self.step()
                return Vector(self._list("}" if token.text == "{" else ")"))
            case "[":
                self.step()
                return self._address()
            case "!":
                self.step()
                return Negated(self._name())
            case _:
                pass
        if token.kind == "name":
            return self._name()
        after = self.tokens[self.at + 1] if token.text == "-" else token
        if after.kind == "real":
            return self.real()
        return Number(self.integer())

    def _list(self, close: str) -> tuple[Operand, ...]:
        items: list[Operand] = []
        while not self.take(close):
            items.append(self.operand())
            if not self.sees(close):
                self.need(",")
        return tuple(items)

    def _address(self) -> Address:
        base = self._name() if self.token.kind == "name" else Number(self.integer())
        offset = self.integer() if self.take("+") else 0
        self.need("]")
        if isinstance(base, Name):
            return Address(Name(base.text), base.offset + offset)
        return Address(base, offset)
