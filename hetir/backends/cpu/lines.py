"""Arithmetic on values that grow by a fixed step from lane to lane."""

from __future__ import annotations

from collections.abc import Sequence

from hetir.backends.cpu.vectors import Rep, Span, Vectors, signed
from hetir.backends.llvm.code import scalar_type
from hetir.ir import ops
from hetir.ir.core import Operation
from hetir.ir.types import I64, Scalar

_SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_SPANS = ("lt", "le", "gt", "ge")
_PREDICATE = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}


class Lines(Vectors):
    """Keeps lines and scalars what they are, where the op allows it."""

    def _trivial(self, op: Operation, reps: Sequence[Rep]) -> Rep | None:
        """A sum with zero or a product with it, which ids of flat workgroups are full of."""
        if op.spec not in (ops.ADD, ops.MUL) or op.result.type != I64:
            return None
        zero = [r.name == "0" for r in reps]
        if not any(zero):
            return None
        return Rep("same", "0") if op.spec is ops.MUL else reps[zero[0]]

    def _on_lines(self, op: Operation, reps: Sequence[Rep]) -> Rep | None:  # noqa: PLR0911
        """i64 arithmetic that keeps the form of a line, or None."""
        if any(r.kind == "pattern" for r in reps):
            return self._on_patterns(op, reps)
        if not any(r.kind == "line" for r in reps):
            return None
        match op.name:
            case "add" if _all(reps, "same", "line") and any(r.name == "0" for r in reps):
                return self._with_zero(reps)
            case "and" | "shr" if (reps[0].kind, reps[1].kind) == ("line", "same"):
                return self._low_or_high(op.name, reps[0], reps[1].name)
            case "add" | "sub" if _all(reps, "same", "line"):
                sign = 1 if op.name == "add" else -1
                name = self.code.add(f"{op.name} i64 {reps[0].name}, {reps[1].name}")
                self._note_sum(name, reps, sign)
                return _line(name, reps[0].step + sign * reps[1].step)
            case "mul" if _all(reps, "same", "line"):
                line, factor = reps if reps[0].kind == "line" else reversed(reps)
                if factor.kind == "line" or factor.name.startswith("%"):
                    return None
                name = self.code.add(f"mul i64 {line.name}, {factor.name}")
                return _line(name, line.step * signed(int(factor.name)))
            case "select" if reps[0].kind == "same" and reps[1].step == reps[2].step:
                if not _all(reps[1:], "same", "line"):
                    return None
                a, b = reps[1].name, reps[2].name
                name = self.code.add(f"select i1 {reps[0].name}, i64 {a}, i64 {b}")
                return _line(name, reps[1].step)
            case "cast" if op.operands[0].type == I64:
                return self._cast_line(op, reps[0])
            case "lt" | "le" | "gt" | "ge" | "eq" | "ne":
                return self._compare_line(op, reps)
            case _:
                return None

    def _on_patterns(self, op: Operation, reps: Sequence[Rep]) -> Rep | None:
        """i64 arithmetic that keeps constant distances between lanes, or None."""
        if not _all(reps, "same", "line", "pattern"):
            return None
        match op.name:
            case "add" | "sub":
                sign = 1 if op.name == "add" else -1
                a, b = (self.offsets(r) for r in reps)
                offsets = tuple(x + sign * y for x, y in zip(a, b, strict=True))
                return self._pattern(self._sum_of(op.name, reps), offsets)
            case "mul" if any(r.kind == "same" and not r.name.startswith("%") for r in reps):
                rep, factor = reps if reps[1].kind == "same" else reversed(reps)
                by = signed(int(factor.name))
                zero = rep.name == "0"
                name = "0" if zero else self.code.add(f"mul i64 {rep.name}, {factor.name}")
                return self._pattern(name, tuple(by * offset for offset in rep.offsets))
            case "cast" if op.result.type == I64:
                return reps[0]
            case _:
                return None

    def _sum_of(self, name: str, reps: Sequence[Rep]) -> str:
        a, b = (r.name for r in reps)
        if b == "0":
            return a
        return b if a == "0" and name == "add" else self.code.add(f"{name} i64 {a}, {b}")

    def offsets(self, rep: Rep) -> tuple[int, ...]:
        """How far each lane lies from `rep.name`."""
        return rep.offsets or tuple(rep.step * lane for lane in range(self.width))

    def _pattern(self, name: str, offsets: tuple[int, ...]) -> Rep:
        """A number and what each lane has more, in its simplest form."""
        step = offsets[1] - offsets[0]
        if offsets == tuple(step * lane for lane in range(self.width)):
            return _line(name, step)
        return Rep("pattern", name, offsets=offsets)

    def _note_sum(self, name: str, reps: Sequence[Rep], sign: int) -> None:
        """Note what is known of a sum or difference: another number and a constant."""
        a, b = (r.name for r in reps)
        if not a.startswith("%") and sign > 0:
            a, b = b, a
        if a.startswith("%") and not b.startswith("%"):
            base, before = self.sums.get(a, (a, 0))
            self.sums[name] = base, before + sign * signed(int(b))

    def _note_multiple(self, op: Operation, reps: Sequence[Rep], made: Rep) -> None:
        """Note a first lane that is a multiple of the width, as those are that it is made of."""
        if op.name not in ("add", "sub", "mul") or made.kind not in ("same", "line"):
            return
        known = [self.multiple(r.name) for r in reps]
        if all(known) or (op.name == "mul" and any(known)):
            self.multiples.add(made.name)

    def _with_zero(self, reps: Sequence[Rep]) -> Rep | None:
        """The sum of a line and a line or scalar, one of which starts at zero."""
        a, b = reps
        return _line(b.name if a.name == "0" else a.name, a.step + b.step)

    def _low_or_high(self, name: str, line: Rep, by: str) -> Rep | None:
        """The low bits of an index that counts up by one from a multiple of the width, or the rest.

        Of few bits the lanes have a repeating pattern; of many, one line.
        """
        number = int(by) if by.isdecimal() else -1
        if number < 0 or (name == "shr" and number > 62):
            return None
        period = number + 1 if name == "and" else 1 << number
        if line.step != 1 or line.name not in self.multiples or period & (period - 1):
            return None
        code, whole = self.code, period % self.width == 0
        if not whole and (self.width % period or period == 1):
            return None
        if name == "shr":
            first = code.add(f"ashr i64 {line.name}, {number}")
            if whole:
                return Rep("same", first)
            steps = ", ".join(f"i64 {lane // period}" for lane in range(self.width))
            wide = self.splat("i64", first)
            return Rep("lanes", code.add(f"add {self.of('i64')} {wide}, <{steps}>"))
        if not whole:
            pattern = ", ".join(f"i64 {lane % period}" for lane in range(self.width))
            return Rep("lanes", f"<{pattern}>")
        first = code.add(f"and i64 {line.name}, {number}")
        self.multiples.add(first)
        return Rep("line", first, 1)

    def _cast_line(self, op: Operation, rep: Rep) -> Rep | None:
        kind = op.result.type
        assert isinstance(kind, Scalar)
        if not kind.is_int:
            return None
        if kind.bits == 64:
            return rep if kind == I64 else Rep("lanes", self.spread(rep, I64))
        narrow = scalar_type(kind)
        first = self.splat(narrow, self.code.add(f"trunc i64 {rep.name} to {narrow}"))
        return Rep(
            "lanes", self.code.add(f"add {self.of(narrow)} {first}, {self._wrapped(rep, kind)}")
        )

    def _wrapped(self, rep: Rep, kind: Scalar) -> str:
        """The steps of a line, wrapped to a narrow integer."""
        size, text = 1 << kind.bits, scalar_type(kind)
        return f"<{', '.join(f'{text} {lane * rep.step % size}' for lane in range(self.width))}>"

    def _compare_line(self, op: Operation, reps: Sequence[Rep]) -> Rep | None:
        """A line against a scalar, exactly and in 32 bits: lane * step against the distance."""
        if not _all(reps, "same", "line"):
            return None
        pairs = zip(reps, op.operands, strict=True)
        if any(r.kind == "line" and v not in self.host.exact for r, v in pairs):
            return None  # it may wrap on the way
        name = op.name
        line, limit = reps
        if line.kind == "same":
            line, limit, name = limit, line, _SWAPPED[name]
        step = line.step - limit.step
        code = self.code
        if abs(step) * self.width >= 1 << 30:
            return None
        small = self.host.small.issuperset(op.operands)
        distance = self.distance(limit.name, line.name, small=small)
        if step == 0:
            return Rep("same", code.add(f"icmp {_PREDICATE[name]} i64 0, {distance}"))
        mask, near = self.against(name, distance, step)
        if step == 1 and name in _SPANS:
            more = distance
            if name in ("le", "gt"):
                more = code.add(f"add nsw i64 {distance if small else near}, 1")
            below = name in ("lt", "le")
            self.spans[mask] = Span("0", more) if below else Span(more, str(self.width))
        return Rep("lanes", mask)

    def distance(self, limit: str, first: str, *, small: bool) -> str:
        """How far a limit lies from a number, at most what fits; `small` numbers' always does."""
        if small:
            return self.code.add(f"sub nsw i64 {limit}, {first}")
        return self.code.intrinsic("ssub.sat", "i64", ("i64", limit), ("i64", first))

    def against(self, name: str, distance: str, step: int, lanes: int = 0) -> tuple[str, str]:
        """Compares 0, step, 2 * step, ... with a distance: the mask, and the distance, cut.

        There are as many lanes as the vector has, unless `lanes` says it.
        """
        code, lanes = self.code, lanes or self.width
        low, high = sorted((0, step * (lanes - 1)))
        near = code.intrinsic("smin", "i64", ("i64", distance), ("i64", str(high + 1)))
        near = code.intrinsic("smax", "i64", ("i64", near), ("i64", str(low - 1)))
        wide = self.splat("i32", code.add(f"trunc i64 {near} to i32"), lanes)
        row = self.row("i32", step, lanes)
        return code.add(f"icmp {_PREDICATE[name]} <{lanes} x i32> {row}, {wide}"), near


def _all(reps: Sequence[Rep], *kinds: str) -> bool:
    return all(r.kind in kinds for r in reps)


def _line(name: str, step: int) -> Rep:
    return Rep("line", name, step) if step else Rep("same", name)
