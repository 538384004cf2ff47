"""Finds in an artifact's text what was emitted for each order, fence and barrier."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hetir.artifact import Artifact, Fence
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Value, walk
from hetir.memory.lowering import OPENCL, OPENCL_FENCED, Kind, Row, lookup
from hetir.memory.program import Order, Scope
from hetir.passes.fences import ADDED, Change
from hetir.passes.fences_why import SITES, reasons

_KINDS: Mapping[str, Kind] = {
    "atomic.load": Kind.LOAD,
    "atomic.store": Kind.STORE,
    "atomic.cas": Kind.CAS,
    "fence": Kind.FENCE,
    "barrier": Kind.BARRIER,
}
_NOTHING = "; the target needs no instruction for it"


@dataclass(slots=True)
class Line:
    """A line of the final text that orders memory; `loc` is (line, column) where it is known."""

    number: int
    text: str
    loc: tuple[int, int] | None = None
    taken: bool = False


def fences_of(
    artifact: Artifact, kernel: Kernel, changes: Sequence[Change] = ()
) -> tuple[Fence, ...]:
    """The sites of a kernel as it was compiled, then what `changes` took from it.

    Where the target's text does not say its lines, sites of one instruction are matched in
    program order. Of texts that are not read here (Ascend C, hetIR) no instruction is named.
    """
    emitted = instructions(artifact, kernel)
    nothing = _NOTHING if artifact.target.partition(":")[0] in _READERS else ""
    used = {value for op in walk(kernel.body) for value in op.operands}
    weakened = {(c.op.loc, c.op.spec): c for c in changes if c.left}
    found: list[Fence] = []
    for op, reason in reasons(kernel).items():
        lines = emitted[op]
        change = weakened.get((op.loc, op.spec))
        note = _note(change) if change else ""
        made = _fence(op, kind_of(op, used), reason + note + ("" if lines else nothing))
        text = "; ".join(line.text for line in lines)
        found.append(replace(made, instruction=text, line=lines[0].number if lines else 0))
    removed = (c for c in changes if not c.left or c.left.startswith("relaxed"))
    found += (_fence(c.op, kind_of(c.op, used), f"{_gone(c)}: {c.reason}") for c in removed)
    return tuple(found)


def instructions(artifact: Artifact, kernel: Kernel) -> dict[Operation, list[Line]]:
    """The lines of the text for each fence, barrier and atomic access of the compiled kernel."""
    family = artifact.target.partition(":")[0]
    if family not in _READERS:
        return {op: [] for op in walk(kernel.body) if op.spec in SITES}
    lines = _READERS[family](artifact.text)
    match = _by_place if family == "spirv" else _by_text
    used = {value for op in walk(kernel.body) for value in op.operands}
    return {
        op: match(lines, _row(artifact.target, kind_of(op, used), op, kernel), op)
        for op in walk(kernel.body)
        if op.spec in SITES
    }


def _note(change: Change) -> str:
    if change.rule in ADDED:
        return f'; added for memory_model="sc": {change.reason}'
    return f"; was {_was(change)}: {change.reason}"


def _gone(change: Change) -> str:
    return "made relaxed" if change.left else "removed"


def _was(change: Change) -> str:
    return f"{change.op.attrs['order']} at {change.op.attrs['scope']} scope"


def _fence(op: Operation, kind: Kind, reason: str) -> Fence:
    return Fence(
        kind=str(kind),
        order=str(op.attrs.get("order", "acq_rel")),
        scope=str(op.attrs["scope"]),
        instruction="",
        location=op.loc,
        reason=reason,
    )


def kind_of(op: Operation, used: set[Value]) -> Kind:
    """The table's kind of an op; an update whose old value is in nobody's operands reduces."""
    if op.spec is ops.ATOMIC_RMW:
        return Kind.RMW if op.result in used else Kind.REDUCTION
    return _KINDS[op.name]


def _row(target: str, kind: Kind, op: Operation, kernel: Kernel) -> Row:
    order, scope = Order(str(op.attrs.get("order", "acq_rel"))), Scope(str(op.attrs["scope"]))
    name = target
    if target == OPENCL and any(
        o.spec is ops.FENCE and o.attrs["order"] == "seq_cst" for o in walk(kernel.body)
    ):
        name = OPENCL_FENCED
    elif target.startswith("cpu"):
        name = "cpu:aarch64" if "aarch64" in target else "cpu:x86-64"
    return lookup(name, kind, order, scope)


# ---- reading the text ----------------------------------------------------------------------

_PTX = re.compile(
    r"(?:ld|st|atom|red)\.(?:relaxed|acquire|release|acq_rel)\.|fence\.|membar\.|bar\.(?:warp\.)?sync"
)
_LLVM = re.compile(r"\b(?:load atomic|store atomic|atomicrmw|cmpxchg)\b|^\s*fence ")
_CONSTANT = re.compile(r"\s*(%\d+) = OpConstant %\d+ (\d+)$")
_SCOPES = ("CrossDevice", "Device", "Workgroup", "Subgroup", "Invocation")
_BITS: Mapping[int, str] = {
    0x2: "Acquire", 0x4: "Release", 0x8: "AcquireRelease", 0x10: "SequentiallyConsistent",
    0x40: "UniformMemory", 0x100: "WorkgroupMemory", 0x200: "CrossWorkgroupMemory",
    0x2000: "MakeAvailable", 0x4000: "MakeVisible",
}  # fmt: skip


def _matching(pattern: re.Pattern[str], text: str) -> list[Line]:
    found = enumerate(text.splitlines(), 1)
    return [Line(n, " ".join(line.split())) for n, line in found if pattern.search(line)]


def _spirv(text: str) -> list[Line]:
    """The instructions that order memory, scopes and semantics in words."""
    constants: dict[str, int] = {}
    place: tuple[int, int] | None = None
    found: list[Line] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if named := _CONSTANT.match(line):
            constants[named[1]] = int(named[2])
        elif words[:1] == ["OpLine"]:
            place = int(words[2]), int(words[3])
        elif any(w.startswith(("OpAtomic", "OpMemoryBarrier", "OpControlBarrier")) for w in words):
            found.append(Line(number, _in_words(words, constants), place))
    return found


def _in_words(words: Sequence[str], constants: Mapping[str, int]) -> str:
    at = next(i for i, word in enumerate(words) if word.startswith("Op"))
    opcode, result = words[at], at > 0
    # operands: [type, pointer,] scopes, semantics, the rest
    first = at + 1 + result + opcode.startswith("OpAtomic")
    scopes = 2 if opcode == "OpControlBarrier" else 1
    orders = 2 if opcode.startswith("OpAtomicCompare") else 1
    shown = list(words)
    for i in range(first, first + scopes):
        shown[i] = _SCOPES[constants[words[i]]]
    for i in range(first + scopes, first + scopes + orders):
        bits = constants[words[i]]
        shown[i] = "|".join(word for bit, word in _BITS.items() if bits & bit) or "Relaxed"
    return " ".join(shown)


_READERS: Mapping[str, Callable[[str], list[Line]]] = {
    "ptx": lambda text: _matching(_PTX, text),
    "cpu": lambda text: _matching(_LLVM, text),
    "spirv": _spirv,
}


# ---- which line is whose -------------------------------------------------------------------


def _by_place(lines: Iterable[Line], row: Row, op: Operation) -> list[Line]:
    """The next lines of the op's place, as many as the row has steps.

    Code from the cache may say the places of another edition of the file: then the first free
    lines of the row's instructions are taken.
    """
    wanted = (op.loc.line, op.loc.col + 1) if op.loc else None
    free = [line for line in lines if not line.taken]
    here = [line for line in free if line.loc == wanted]
    if here:
        return _take(here[: len(row.steps)])
    words = [step.text.split()[0].replace("{operation}", "") for step in row.steps]
    patterns = [re.compile(rf"\b{re.escape(word)}") for word in words]
    return _take(_find(free, patterns))


def _by_text(lines: Sequence[Line], row: Row, _: Operation) -> list[Line]:
    """The first free lines that read as the row's steps do, one after another."""
    if row.target.startswith("cpu"):
        patterns = _llvm_patterns(row)
    else:
        patterns = [_ptx_pattern(step.text) for step in row.steps]
        if row.unfenced:
            short = [_ptx_pattern(step.text) for step in row.unfenced]
            if not _find(lines, patterns):
                patterns = short
    return _take(_find(lines, patterns))


def _find(lines: Sequence[Line], patterns: Sequence[re.Pattern[str]]) -> list[Line]:
    free = [line for line in lines if not line.taken]
    for start in range(len(free) - len(patterns) + 1 if patterns else 0):
        here = free[start : start + len(patterns)]
        if all(p.search(line.text) for p, line in zip(patterns, here, strict=True)):
            return here
    return []


def _take(lines: list[Line]) -> list[Line]:
    for line in lines:
        line.taken = True
    return lines


def _ptx_pattern(text: str) -> re.Pattern[str]:
    escaped = re.escape(text)
    for name, form in (("space", r"\w+"), ("type", r"\w+"), ("operation", r"[\w.]+")):
        escaped = escaped.replace(re.escape(f"{{{name}}}"), form)
    escaped = escaped.replace(re.escape("{mask}"), r"\S+")
    return re.compile(rf"^{escaped}\b")


_LLVM_WORDS: Mapping[Kind, str] = {
    Kind.LOAD: r"load atomic",
    Kind.STORE: r"store atomic",
    Kind.RMW: r"(?:atomicrmw|cmpxchg)",
    Kind.REDUCTION: r"(?:atomicrmw|cmpxchg)",
    Kind.CAS: r"cmpxchg",
}


def _llvm_patterns(row: Row) -> list[re.Pattern[str]]:
    if row.kind is Kind.BARRIER or row.order is None:
        return []
    if row.kind is Kind.FENCE:
        narrow = row.scope in (Scope.SUBGROUP, Scope.WORKGROUP)
        return [] if narrow else [re.compile(rf"^fence {row.order}\b")]
    if all(step.order is None for step in row.steps):
        return []
    return [re.compile(rf"\b{_LLVM_WORDS[row.kind]}\b.*\b{row.order}\b")]
