"""CPU targets: objects for other processors, what they link with, refusals, determinism."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from hetir.backends.cpu import UnknownCpuError, compile_kernel, emit_ir
from hetir.backends.cpu.targets import resolve
from hetir.backends.llvm.code import Code
from hetir.backends.llvm.machine import InvalidCodeError, parse
from hetir.backends.llvm.rules import RULES
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Operation, Value
from hetir.ir.types import SCALARS, array
from hetir.passes.legalize import legal_ops
from hetir.target import Assumptions, Instance, key_of
from tests.unit.cpu_support import kernel_of
from tests.unit.test_cpu_ops import GROUPS, result_of

LINKED = {"memcpy", "memmove", "memset", "fma", "fmaf"}
MACHINES = {"x86_64": 62, "aarch64": 183}


def undefined(binary: bytes) -> set[str]:
    """The names that an ELF object needs from elsewhere."""
    sections_at, count = (
        *struct.unpack_from("<Q", binary, 40),
        *struct.unpack_from("<H", binary, 60),
    )
    headers = [
        struct.unpack_from("<IIQQQQIIQQ", binary, sections_at + 64 * i) for i in range(count)
    ]
    names: set[str] = set()
    for header in (h for h in headers if h[1] == 2):
        strings = headers[header[6]][4]
        for at in range(header[4], header[4] + header[5], 24):
            name, _, _, section = struct.unpack_from("<IBBH", binary, at)
            if section == 0 and name:
                text = binary[strings + name : binary.index(b"\0", strings + name)]
                names.add(text.decode())
    return names


def all_ops(group: list[Instance]) -> Kernel:
    sources = [SCALARS[str(t)] for t in group[0].operands]

    def build(b: Builder, *arrays: Value) -> None:
        at = b.value(ops.GLOBAL_ID, axis=0)
        args = [b.value(ops.LOAD, a, at) for a in arrays[: len(sources)]]
        for instance, out in zip(group, arrays[len(sources) :], strict=True):
            b.emit(ops.STORE, out, at, b.emit(instance.spec, *args, attrs=instance.attrs).result)

    return kernel_of(build, [array(t, 1) for t in (*sources, *map(result_of, group))])


@pytest.mark.parametrize("target", ["cpu:x86-64", "cpu:x86-64-v3", "cpu:aarch64:neoverse-n1"])
def test_objects_need_nothing_but_memory_and_fma(target: str) -> None:
    machine = resolve(target)[1].triple.partition("-")[0]
    for key in [k for k in GROUPS if "f" in k or k in ("i64,i64", "u8,u8")]:
        artifact = compile_kernel(all_ops(GROUPS[key]), target=target, optimise=1)
        assert artifact.binary is not None
        assert artifact.binary[:6] == b"\x7fELF\x02\x01"
        assert struct.unpack_from("<H", artifact.binary, 18)[0] == MACHINES[machine]
        assert undefined(artifact.binary) <= LINKED, key


def test_fused_multiply_add_is_the_only_library_call() -> None:
    group = [i for i in GROUPS["f64,f64,f64"] if i.spec is ops.FMA]
    without, with_it = (
        compile_kernel(all_ops(group), target=t).binary for t in ("cpu:x86-64", "cpu:haswell")
    )
    assert without is not None
    assert with_it is not None
    assert undefined(without) == {"fma"}
    assert undefined(with_it) == set()


@pytest.mark.parametrize(
    "name",
    ["cpu:pentium9", "cpu:x86_64:neoverse-n1", "cpu:sparc-linux", "gpu", "cpu:aarch64:znver4"],
)
def test_unknown_processors_are_refused(name: str) -> None:
    with pytest.raises(UnknownCpuError, match=r"pentium9|neoverse-n1|sparc|gpu|znver4"):
        resolve(name)


def test_same_input_same_bytes() -> None:
    one, two = (compile_kernel(all_ops(GROUPS["f16,f16"])) for _ in range(2))
    assert one.binary == two.binary
    assert one.text == two.text
    assert one.key == two.key


def test_key_tells_targets_levels_and_promises_apart() -> None:
    kernel = all_ops(GROUPS["i32,i32"])
    variants: list[dict[str, Any]] = [
        {},
        {"target": "cpu:x86-64"},
        {"target": "cpu:x86-64-v3"},
        {"optimise": 0},
        {"assumptions": Assumptions(disjoint=True)},
        {"workgroup": (4, 1, 1)},
    ]
    assert len({compile_kernel(kernel, **v).key for v in variants}) == len(variants)


def test_wrong_code_is_an_error_and_not_the_end_of_the_process() -> None:
    with pytest.raises(InvalidCodeError, match="HET351"):
        parse("define void @f() { ret i32 0 }")


def test_nothing_is_contracted_or_fast() -> None:
    """a*b + c stays two roundings on a machine with fma."""
    group = GROUPS["f32,f32"]
    text = emit_ir(all_ops(group), target="cpu:x86-64-v3")
    for flag in ("fast", "contract", "reassoc", "nnan", "nsz", "arcp", "afn", "ninf"):
        assert f" {flag} " not in text


@pytest.mark.parametrize("target", ["cpu:x86-64-v3", "cpu:x86-64"])
@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_rules_hold_for_vectors_of_lanes(lanes: int, target: str) -> None:
    """Every rule of a pure op, and every expansion without control flow, at `<S x T>`."""
    description = resolve(target)[0]
    seen = 0
    for group in GROUPS.values():
        code = Code()
        code.lanes = lanes
        results = [_emit(code, i, description) for i in group]
        params = {f"%p{n}": t for n, t in enumerate(group[0].operands)}
        listed = ", ".join(f"{code.type(t)} {name}" for name, t in params.items())
        listed += "".join(f", ptr %o{n}" for n in range(len(group)))
        for n, (name, instance) in enumerate(zip(results, group, strict=True)):
            if name:
                code.put(f"store {code.type(result_of(instance))} {name}, ptr %o{n}")
                seen += 1
        lines = "\n".join((*code.lines, "  ret void", "}", *code.declarations.values()))
        parse(f"define void @f({listed}) {{\n{lines}\n")
    assert seen > 590


def _emit(code: Code, instance: Instance, target: Any) -> str:
    """One op on the parameters; empty when its expansion has control flow."""
    values = [Value(t) for t in instance.operands]
    whole = Operation(instance.spec, tuple(values), (Value(result_of(instance)),), instance.attrs)
    names = {v: f"%p{n}" for n, v in enumerate(values)}
    body, result = legal_ops(whole, target)
    if any(op.regions for op in body):
        return ""
    for op in body:
        names[op.result] = RULES[key_of(op)](code, op, [names[v] for v in op.operands])
    return names[result]
