"""The lowering table against the assembly of x86-64 and AArch64, operation by operation."""

from __future__ import annotations

import re

import pytest

from hetir.backends.cpu import compile_kernel, disassemble
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Value
from hetir.ir.types import I32, I64, array, static_array
from hetir.memory.lowering import AARCH64, X86, Kind, lookup
from hetir.memory.program import Order, Scope
from tests.unit.cpu_support import kernel_of

NAMES = {X86: "cpu:x86-64-v3", AARCH64: "cpu:aarch64:neoverse-n1"}  # LSE and RCpc
SYNCHRONISING = {
    X86: re.compile(r"\b(lock|xchg[bwlq]|[msl]fence)\b"),
    AARCH64: re.compile(
        r"\b(ldar|ldapr|ldaxr|ldxr|stlr|stxr|stlxr|dmb|dsb|swp\w*|cas\w*|ldadd\w*|stadd\w*)\b"
    ),
}
ORDERS = {
    Kind.LOAD: ops.LOAD_ORDERS,
    Kind.STORE: ops.STORE_ORDERS,
    Kind.RMW: ops.ORDERS,
    Kind.CAS: ops.ORDERS,
    Kind.FENCE: ops.ORDERS[1:],
}


def one_operation(kind: Kind, order: str, scope: str, *, shared: bool = False) -> Kernel:
    """A kernel whose only synchronising operation is the one asked for."""
    attrs = {"order": order, "scope": scope}

    def build(b: Builder, x: Value) -> None:
        at, other, one = b.const(I64, 0), b.const(I64, 1), b.const(I32, 1)
        word = b.value(ops.ALLOC, type=static_array(I32, (1,), "shared")) if shared else x
        if shared:
            b.emit(ops.STORE, word, at, b.value(ops.LOAD, x, at))
        if kind is Kind.FENCE:
            b.emit(ops.STORE, x, at, one)
            b.emit(ops.FENCE, attrs=attrs)
            b.emit(ops.STORE, x, other, one)
            return
        if kind is Kind.STORE:
            b.emit(ops.ATOMIC_STORE, word, at, one, attrs=attrs)
            return
        if kind is Kind.LOAD:
            old = b.emit(ops.ATOMIC_LOAD, word, at, attrs=attrs).result
        elif kind is Kind.RMW:
            old = b.emit(ops.ATOMIC_RMW, word, at, one, attrs={**attrs, "kind": "add"}).result
        else:
            old = b.emit(ops.ATOMIC_CAS, word, at, b.const(I32, 5), one, attrs=attrs).result
        b.emit(ops.STORE, x, other, old)

    return kernel_of(build, [array(I32, 1)])


def synchronising(target: str, kernel: Kernel) -> list[str]:
    """The synchronising instructions of a kernel's assembly, with what says more of them."""
    artifact = compile_kernel(kernel, target=NAMES[target], optimise=1, workgroup=(1, 1, 1))
    found = SYNCHRONISING[target]
    lines = [line.strip() for line in disassemble(artifact).splitlines()]
    return [" ".join(line.split()) for line in lines if found.search(line.partition("//")[0])]


def matches(target: str, text: str, line: str) -> bool:
    """Whether an instruction is the table's."""
    if text == "mfence":  # or any locked instruction, which is as full a barrier
        return line == "mfence" or line.startswith("lock or")
    if target == AARCH64:
        return line.startswith(text.replace("{operation}", "add"))
    words = {"lock {operation}": "lock xadd", "lock cmpxchg": "lock cmpxchg", "xchg": "xchg"}
    return line.startswith(words[text])


CASES = [
    (target, kind, order, scope)
    for target in NAMES
    for kind, orders in ORDERS.items()
    for order in orders
    for scope in ("workgroup", "device")
]


@pytest.mark.parametrize(("target", "kind", "order", "scope"), CASES)
def test_the_assembly_is_the_tables(target: str, kind: Kind, order: str, scope: str) -> None:
    row = lookup(target, kind, Order(order), Scope(scope))
    expected = [s.text for s in row.steps if s.text not in ("plain access", "mov", "ldr", "str")]
    lines = synchronising(target, one_operation(kind, order, scope))
    if not expected:
        assert not lines
        return
    (text,) = expected
    assert lines
    assert all(matches(target, text, line) for line in lines), (text, lines)
    if target == AARCH64 and kind is not Kind.FENCE:  # the mnemonic itself: ldadd is no ldadda
        assert {line.split()[0] for line in lines} == {text.replace("{operation}", "add")}


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("kind", [k for k in ORDERS if k is not Kind.FENCE])
def test_shared_memory_needs_no_order(target: str, kind: Kind) -> None:
    assert not synchronising(target, one_operation(kind, "seq_cst", "device", shared=True))


@pytest.mark.parametrize(
    ("target", "kind", "order", "instruction"),
    [
        (X86, Kind.STORE, "release", ""),
        (X86, Kind.STORE, "seq_cst", "xchg"),
        (X86, Kind.LOAD, "seq_cst", ""),
        (X86, Kind.RMW, "relaxed", "lock xadd"),
        (X86, Kind.FENCE, "acq_rel", ""),
        (AARCH64, Kind.LOAD, "acquire", "ldapr"),
        (AARCH64, Kind.LOAD, "seq_cst", "ldar "),
        (AARCH64, Kind.STORE, "release", "stlr"),
        (AARCH64, Kind.RMW, "acq_rel", "ldaddal"),
        (AARCH64, Kind.CAS, "acquire", "casa "),
        (AARCH64, Kind.FENCE, "acquire", "dmb ishld"),
        (AARCH64, Kind.FENCE, "release", "dmb ish"),
    ],
)
def test_known_instructions(target: str, kind: Kind, order: str, instruction: str) -> None:
    """From the manuals, whatever the table says."""
    lines = synchronising(target, one_operation(kind, order, "device"))
    if not instruction:
        assert not lines
    else:
        assert lines
        assert all(line.startswith(instruction) for line in lines)
