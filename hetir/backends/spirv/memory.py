"""Loads, stores, atomics, fences and barriers, as the lowering table says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hetir.backends.spirv.code import Code
from hetir.backends.spirv.flavour import Flavour, Place
from hetir.backends.spirv.options import FLOAT_ADDS, float_add
from hetir.backends.spirv.rules import ALL, FLOATS, INTS, NARROW
from hetir.diagnostics import Label
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Value, walk
from hetir.ir.types import BOOL, SCALARS, RefType, Scalar
from hetir.memory.lowering import OPENCL, OPENCL_FENCED, VULKAN, Kind, Part, Row, Step, lookup
from hetir.memory.program import Order, Scope
from hetir.passes.expansions.atomics import AFTER, BEFORE
from hetir.target import Key, UnsupportedError, key_of

_KINDS: Mapping[str, Kind] = {
    "atomic.load": Kind.LOAD,
    "atomic.store": Kind.STORE,
    "atomic.rmw": Kind.RMW,
    "atomic.cas": Kind.CAS,
    "fence": Kind.FENCE,
    "barrier": Kind.BARRIER,
}
_ATOMICS = (ops.ATOMIC_LOAD, ops.ATOMIC_STORE, ops.ATOMIC_RMW, ops.ATOMIC_CAS)
_OPCODES: Mapping[str, str] = {
    "add": "IAdd",
    "sub": "ISub",
    "and": "And",
    "or": "Or",
    "xor": "Xor",
    "exchange": "Exchange",
}
_COMBINED: Mapping[str, str] = {
    "add": "OpIAdd",
    "sub": "OpISub",
    "and": "OpBitwiseAnd",
    "or": "OpBitwiseOr",
    "xor": "OpBitwiseXor",
}
_FLOAT_ADDS = frozenset(map(float_add, FLOAT_ADDS.values()))
_WIDTHS = (Scope.WORKGROUP, Scope.DEVICE, Scope.SYSTEM)


def covered() -> frozenset[Key]:
    """The accesses that are emitted here."""
    plain = {(name, kind) for name in ("load", "store") for kind in ALL}
    words = (*INTS, *FLOATS, *NARROW)
    atomic = {(f"atomic.{n}", kind) for n in ("load", "store", "cas") for kind in words}
    kinds = ("add", "sub", "min", "max", "and", "or", "xor", "exchange")
    rmw = {("atomic.rmw", kind, element) for kind in kinds for element in INTS}
    return frozenset(plain | atomic | rmw | {("atomic.rmw", "exchange", k) for k in words})


def element_of(op: Operation) -> Scalar:
    """The element type of an access."""
    element = op.attrs["element"]
    assert isinstance(element, Scalar)
    return element


def in_parts_of_words(kernel: Kernel) -> frozenset[Value]:
    """The shared and private arrays with atomics on elements of less than 32 bits."""
    bases = {op.result: op.operands[0] for op in walk(kernel.body) if op.spec is ops.BASE}
    atomics = (op for op in walk(kernel.body) if op.spec in _ATOMICS)
    return frozenset(
        bases[op.operands[0]]
        for op in atomics
        if element_of(op).bytes < 4 and op.operands[0] in bases
    )


def _space(op: Operation) -> str:
    kind = op.operands[0].type
    assert isinstance(kind, RefType)
    return kind.space


def _scope(op: Operation) -> Scope:
    """The scope an op asks for: a subgroup is logical and may be no subgroup of the device's."""
    return max(Scope(str(op.attrs["scope"])), Scope.WORKGROUP, key=list(Scope).index)


class Memory:
    """Emits the accesses of one kernel."""

    def __init__(self, flavour: Flavour, kernel: Kernel) -> None:
        self._flavour = flavour
        self._code: Code = flavour.code
        self._target = flavour.dialect.name
        self._scopes: dict[str, Scope] = {}
        if self._target == OPENCL:
            self._unify(kernel)

    def _unify(self, kernel: Kernel) -> None:
        """One scope for all that may communicate, as OpenCL's rows ask.

        Relaxed accesses to one space communicate among themselves; with a stronger order or a
        fence, everything may.
        """
        atomics = [op for op in walk(kernel.body) if op.spec in _ATOMICS]
        fences = [op for op in walk(kernel.body) if op.spec is ops.FENCE]
        if any(op.attrs["order"] == "seq_cst" for op in fences):
            self._target = OPENCL_FENCED
        ordered = bool(fences) or any(op.attrs["order"] != "relaxed" for op in atomics)
        for op in (*atomics, *fences):
            space = "" if ordered else _space(op)
            scope = Scope.WORKGROUP if space == "shared" else _scope(op)
            known = self._scopes.get(space, Scope.WORKGROUP)
            self._scopes[space] = max(known, scope, key=_WIDTHS.index)

    def _width(self, op: Operation) -> Scope:
        if "" in self._scopes:
            return self._scopes[""]
        own = _scope(op)
        return self._scopes.get(_space(op), own) if op.spec in _ATOMICS else own

    # ---- plain ---------------------------------------------------------------------------

    def _place(self, op: Operation, args: Sequence[int], element: Scalar) -> Place:
        return self._flavour.place(_space(op), args[0], args[1], element)

    def load(self, op: Operation, args: Sequence[int]) -> int:
        """A plain load."""
        element = element_of(op)
        place = self._place(op, args, element)
        return self._cooked(element, place, self._read(place, element))

    def _read(self, place: Place, element: Scalar) -> int:
        """What lies at a place, in the element's own width."""
        code = self._code
        value = code.add("OpLoad", place.kind, place.pointer, *place.access)
        return (
            code.add("OpUConvert", code.int(8 * element.bytes), value) if place.widened else value
        )

    def _write(self, place: Place, value: int) -> None:
        """Put an integer of the element's own width at a place."""
        code = self._code
        if place.widened:
            value = code.add("OpUConvert", place.kind, value)
        code.put("OpStore", place.pointer, value, *place.access)

    def store(self, op: Operation, args: Sequence[int]) -> None:
        """A plain store."""
        element = element_of(op)
        place = self._place(op, args, element)
        self._write(place, self._lying(element, place, args[2]))

    def _cooked(self, element: Scalar, place: Place, value: int) -> int:
        """The value that lies at a place."""
        code = self._code
        if element == BOOL:
            return code.add("OpINotEqual", code.bool(), value, code.number(8, 0))
        if place.typed or element.name not in FLOATS:
            return value
        return code.add("OpBitcast", code.scalar(element), value)

    def _lying(self, element: Scalar, place: Place, value: int) -> int:
        """A value as it lies at a place."""
        code = self._code
        if element == BOOL:
            return code.add("OpSelect", code.int(8), value, code.number(8, 1), code.number(8, 0))
        if place.typed or element.name not in FLOATS:
            return value
        return code.add("OpBitcast", place.kind, value)

    # ---- atomics -------------------------------------------------------------------------

    def atomic(self, op: Operation, args: Sequence[int]) -> int | None:
        """An atomic; plain on private arrays; of less than 32 bits through the word around it."""
        element = element_of(op)
        word = SCALARS[f"u{element.bits}"]
        raw = [self._raw(element, v) for v in args[2:]]
        if _space(op) == "private":
            found = self._alone(op, args, raw, element)
        elif element.bits < 32:
            found = self._in_word(op, args, raw, element)
        else:
            row = self._row(_KINDS[op.name], op)
            if key_of(op) in _FLOAT_ADDS:
                pointer = self._place(op, args, element).pointer
                self._code.module.require(f"AtomicFloat{element.bits}AddEXT")
                return self._steps(row, op, pointer, args[2:], element)
            pointer = self._place(op, args, word).pointer
            if element.bits == 64:
                self._code.module.require("Int64Atomics")
            found = self._steps(row, op, pointer, raw, element)
        if found is None or element.name not in FLOATS:
            return found
        return self._code.add("OpBitcast", self._code.scalar(element), found)

    def _raw(self, element: Scalar, value: int) -> int:
        code = self._code
        if element.name not in FLOATS:
            return value
        bits = code.add("OpBitcast", code.int(element.bits), value)
        return bits if code.hides is None else code.unknown(bits, element.bits, 0)

    def _row(self, kind: Kind, op: Operation) -> Row:
        """The table's row; UnsupportedError where it refuses."""
        row = lookup(self._target, kind, Order(str(op.attrs["order"])), self._width(op))
        if row.refused:
            labels = (Label(op.loc, ""),) if op.loc else ()
            raise UnsupportedError(
                f"`{op.name}` at {op.attrs['scope']} scope is not available on target "
                f"`{self._flavour.dialect.name}`: {row.refused}",
                *labels,
            )
        return row

    def _steps(
        self, row: Row, op: Operation, pointer: int, raw: Sequence[int], element: Scalar
    ) -> int | None:
        """A row's steps; the access among them gives the result."""
        found: int | None = None
        for step in row.steps:
            if step.part is Part.ACCESS:
                found = self._access(step, op, pointer, raw, element)
            else:
                self._around(step)
        return found

    def _around(self, step: Step) -> None:
        """A fence, a barrier or an update of the hidden word."""
        code = self._code
        opcode, *scopes, semantics = step.text.split()
        where = (*map(code.scope, scopes), code.semantics(semantics))
        if step.part is Part.HIDDEN_UPDATE:
            word = SCALARS["u32"]
            hidden = self._flavour.place("global", self._flavour.hidden, code.number(64, 0), word)
            code.add(opcode, code.int(32), hidden.pointer, *where, code.number(32, 0))
        else:
            code.put(opcode, *where)

    def _access(
        self, step: Step, op: Operation, pointer: int, raw: Sequence[int], element: Scalar
    ) -> int | None:
        code = self._code
        adds = key_of(op) in _FLOAT_ADDS
        wide = code.scalar(element) if adds else code.int(element.bits)
        opcode, scope, semantics = step.text.split()
        where = (code.scope(scope), code.semantics(semantics))
        match op.name:
            case "atomic.load":
                return code.add(opcode, wide, pointer, *where)
            case "atomic.store":
                code.put(opcode, pointer, *where, *raw)
                return None
            case "atomic.rmw":
                name = "FAddEXT" if adds else _rmw(str(op.attrs["kind"]), element)
                return code.add(f"OpAtomic{name}", wide, pointer, *where, *raw)
            case _:
                failing = code.semantics(_on_failure(semantics))
                expected, desired = raw
                return code.add(opcode, wide, pointer, *where, failing, desired, expected)

    def _alone(
        self, op: Operation, args: Sequence[int], raw: Sequence[int], element: Scalar
    ) -> int | None:
        """An atomic on memory of the work-item's own."""
        place = self._place(op, args, SCALARS[f"u{element.bits}"])
        old = self._read(place, element)
        if op.spec is ops.ATOMIC_LOAD:
            return old
        self._write(place, self._new(op, element, old, raw))
        return None if op.spec is ops.ATOMIC_STORE else old

    def _new(self, op: Operation, element: Scalar, old: int, raw: Sequence[int]) -> int:
        """What an atomic writes where it found `old`."""
        code, wide, kind = self._code, self._code.int(element.bits), str(op.attrs.get("kind"))
        if op.spec is ops.ATOMIC_CAS:
            same = code.add("OpIEqual", code.bool(), old, raw[0])
            return code.add("OpSelect", wide, same, raw[1], old)
        if kind in _COMBINED:
            return code.add(_COMBINED[kind], wide, old, raw[0])
        if kind not in ("min", "max"):
            return raw[0]
        way = "LessThan" if kind == "min" else "GreaterThan"
        sign = "S" if element.signed else "U"
        first = code.add(f"Op{sign}{way}", code.bool(), old, raw[0])
        return code.add("OpSelect", wide, first, old, raw[0])

    def _in_word(
        self, op: Operation, args: Sequence[int], raw: Sequence[int], element: Scalar
    ) -> int | None:
        """Compare-and-swap of the word around the element until nobody came between.

        Vulkan's orders are fences outside the loop: for Mesa 22.3 one inside is a barrier, which
        work-items that are done with the loop do not reach.
        """
        code, word, bits = self._code, self._code.int(32), element.bits
        pointer, shift = self._flavour.word(_space(op), args[0], args[1])
        relaxed = (code.scope(_spelled(self._width(op))), code.semantics("Relaxed"))
        if op.spec is ops.ATOMIC_LOAD:
            row = self._row(Kind.LOAD, op)
            whole = self._steps(row, op, pointer, (), SCALARS["u32"])
            assert whole is not None
            return self._part(whole, shift, bits)
        apart = self._target == VULKAN
        if apart:
            self._fence(op, BEFORE)
        first = code.add("OpAtomicLoad", word, pointer, *relaxed)
        ones = code.number(32, (1 << bits) - 1)
        mask = code.add("OpNot", word, code.add("OpShiftLeftLogical", word, ones, shift))
        entry, head, body, latch, done = code.block, *(code.label() for _ in range(4))
        seen = code.module.fresh()
        code.jump(head)
        code.start(head)
        phi = code.reserve()
        code.put("OpLoopMerge", done, latch, "None")
        code.jump(body)
        code.start(body)
        old = self._part(seen, shift, bits)
        new = code.add("OpUConvert", word, self._new(op, element, old, raw))
        moved = code.add("OpShiftLeftLogical", word, new, shift)
        kept = code.add("OpBitwiseAnd", word, seen, mask)
        merged = code.add("OpBitwiseOr", word, kept, moved)
        attrs = {**op.attrs, "order": "relaxed"} if apart else op.attrs
        swap = Operation(ops.ATOMIC_CAS, op.operands, (), attrs)
        row = self._row(Kind.CAS, swap)
        found = self._steps(row, swap, pointer, (seen, merged), SCALARS["u32"])
        assert found is not None
        same = code.add("OpIEqual", code.bool(), found, seen)
        code.end("OpBranchConditional", same, done, latch)
        code.start(latch)
        code.jump(head)
        code.fill(phi, [code.module.encode("OpPhi", word, seen, first, entry, found, latch)])
        code.start(done)
        if apart:
            self._fence(op, AFTER)
        return None if op.spec is ops.ATOMIC_STORE else old

    def _fence(self, op: Operation, orders: Mapping[str, str]) -> None:
        """The fence before or after a relaxed atomic that makes it one of the op's order."""
        order = orders.get(str(op.attrs["order"]))
        if order is not None:
            self.fence(Operation(ops.FENCE, (), (), {**op.attrs, "order": order}))

    def _part(self, whole: int, shift: int, bits: int) -> int:
        code = self._code
        moved = code.add("OpShiftRightLogical", code.int(32), whole, shift)
        return code.add("OpUConvert", code.int(bits), moved)

    # ---- order ---------------------------------------------------------------------------

    def fence(self, op: Operation) -> None:
        """A fence."""
        for step in self._row(Kind.FENCE, op).steps:
            self._around(step)

    def barrier(self) -> None:
        """A barrier of the workgroup, which orders all spaces there."""
        target = self._flavour.dialect.name
        for step in lookup(target, Kind.BARRIER, Order.ACQ_REL, Scope.WORKGROUP).steps:
            self._around(step)


def _rmw(kind: str, element: Scalar) -> str:
    sign = "S" if element.signed else "U"
    return _OPCODES.get(kind) or f"{sign}{kind.capitalize()}"


def _on_failure(semantics: str) -> str:
    """What a compare-and-swap orders when it fails: it writes nothing, so it does not release."""
    order, *rest = semantics.split("|")
    weaker = {"Release": "Relaxed", "AcquireRelease": "Acquire"}.get(order, order)
    if weaker == "Relaxed":
        return weaker
    return "|".join((weaker, *(word for word in rest if word != "MakeAvailable")))


def _spelled(scope: Scope) -> str:
    return {Scope.SYSTEM: "CrossDevice"}.get(scope, scope.capitalize())
