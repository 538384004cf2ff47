"""The lowering table against what the vendors document, and against NVIDIA's assembler."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from hetir.backends.ptx.assembler import find
from hetir.memory.lower import RefusedError, lower, one_scope
from hetir.memory.lowering import (
    AARCH64,
    ASCEND_SIMD,
    ASCEND_SIMT,
    IR_SCOPES,
    OPENCL,
    OPENCL_FENCED,
    PTX_SM_75,
    PTX_SM_90,
    TABLE,
    TARGETS,
    VULKAN,
    X86,
    Kind,
    Part,
    lookup,
    target_of,
)
from hetir.memory.program import (
    Address,
    Cas,
    Const,
    Fence,
    Load,
    Location,
    Order,
    Program,
    Rmw,
    Scope,
    Store,
    Thread,
)


def texts(target: str, kind: Kind, order: Order | None, scope: Scope) -> list[str]:
    return [step.text for step in lookup(target, kind, order, scope).steps]


def test_every_operation_of_every_target_has_one_answer() -> None:
    for target in TARGETS:
        for kind in Kind:
            orders = [Order.ACQ_REL] if kind is Kind.BARRIER else list(Order)
            if kind in {Kind.LOAD, Kind.STORE}:
                orders.append(None)
            scopes = IR_SCOPES[:3] if kind is Kind.BARRIER else IR_SCOPES
            for order in orders:
                for scope in scopes:
                    row = TABLE[target, kind, order, scope]
                    accesses = [s for s in row.steps if s.part is Part.ACCESS]
                    assert not (row.refused and row.steps)
                    if kind not in {Kind.FENCE, Kind.BARRIER} and not row.refused:
                        assert len(accesses) == 1, row


@pytest.mark.parametrize("target", TARGETS)
def test_no_target_has_a_releasing_load_or_an_acquiring_store(target: str) -> None:
    assert lookup(target, Kind.LOAD, Order.RELEASE, Scope.DEVICE).refused
    assert lookup(target, Kind.LOAD, Order.ACQ_REL, Scope.DEVICE).refused
    assert lookup(target, Kind.STORE, Order.ACQUIRE, Scope.DEVICE).refused


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        # "PTX Writer's Guide to Interoperability", chapter "Atomics ABI" (CUDA 13)
        (Kind.LOAD, ["fence.sc.gpu", "ld.acquire.gpu.{space}.{type}"]),
        (Kind.STORE, ["fence.sc.gpu", "st.relaxed.gpu.{space}.{type}"]),
        (Kind.RMW, ["fence.sc.gpu", "atom.acquire.gpu.{space}.{operation}.{type}"]),
        (Kind.FENCE, ["fence.sc.gpu"]),
    ],
)
def test_ptx_seq_cst_is_nvidias_published_mapping(kind: Kind, expected: list[str]) -> None:
    assert texts(PTX_SM_75, kind, Order.SEQ_CST, Scope.DEVICE) == expected


def test_ptx_fences_of_one_direction_need_sm_90() -> None:
    # PTX ISA 8.6: fence.acquire and fence.release "require sm_90 or higher"
    assert texts("ptx:sm_89", Kind.FENCE, Order.ACQUIRE, Scope.DEVICE) == ["fence.acq_rel.gpu"]
    assert texts("ptx:sm_100a", Kind.FENCE, Order.ACQUIRE, Scope.DEVICE) == ["fence.acquire.gpu"]


def test_ptx_reductions_are_red_only_without_a_later_acquire_fence() -> None:
    row = lookup(PTX_SM_75, Kind.REDUCTION, Order.RELEASE, Scope.DEVICE)
    assert [step.text.split(".")[0] for step in row.steps] == ["atom"]
    assert [step.text.split(".")[0] for step in row.unfenced] == ["red"]
    assert not lookup(PTX_SM_75, Kind.REDUCTION, Order.ACQUIRE, Scope.DEVICE).unfenced


def test_vulkan_never_says_sequentially_consistent() -> None:
    # the appendix: "SequentiallyConsistent memory semantics is not supported"
    rows = [row for key, row in TABLE.items() if key[0] == VULKAN]
    assert not any("SequentiallyConsistent" in step.text for row in rows for step in row.steps)


def test_vulkan_flags_follow_the_valid_usage() -> None:
    for key, row in TABLE.items():
        for step in row.steps if key[0] == VULKAN else ():
            available, visible = "MakeAvailable" in step.text, "MakeVisible" in step.text
            released = bool(re.search(r"\b(Release|AcquireRelease)\b", step.text))
            acquired = bool(re.search(r"\b(Acquire|AcquireRelease)\b", step.text))
            assert available == released
            assert visible == acquired
            assert ("UniformMemory" in step.text) == (released or acquired)


def test_vulkan_refuses_system_scope() -> None:
    for kind in (Kind.LOAD, Kind.STORE, Kind.RMW, Kind.CAS, Kind.FENCE):
        assert "device" in lookup(VULKAN, kind, Order.RELAXED, Scope.SYSTEM).refused
    assert not lookup(VULKAN, Kind.LOAD, None, Scope.SYSTEM).refused


def test_x86_pays_only_for_strong_stores_and_fences() -> None:
    assert texts(X86, Kind.STORE, Order.RELEASE, Scope.DEVICE) == ["mov"]
    assert texts(X86, Kind.STORE, Order.SEQ_CST, Scope.DEVICE) == ["xchg"]
    assert texts(X86, Kind.LOAD, Order.SEQ_CST, Scope.DEVICE) == ["mov"]
    assert texts(X86, Kind.FENCE, Order.ACQ_REL, Scope.DEVICE) == []
    assert texts(X86, Kind.FENCE, Order.SEQ_CST, Scope.DEVICE) == ["mfence"]


def test_aarch64_uses_rcpc_loads_and_lse() -> None:
    assert texts(AARCH64, Kind.LOAD, Order.ACQUIRE, Scope.DEVICE) == ["ldapr"]
    assert texts(AARCH64, Kind.LOAD, Order.SEQ_CST, Scope.DEVICE) == ["ldar"]
    assert texts(AARCH64, Kind.STORE, Order.RELEASE, Scope.DEVICE) == ["stlr"]
    assert texts(AARCH64, Kind.RMW, Order.ACQ_REL, Scope.DEVICE) == ["ld{operation}al"]
    assert texts(AARCH64, Kind.CAS, Order.ACQUIRE, Scope.DEVICE) == ["casa"]


@pytest.mark.parametrize("target", [X86, AARCH64])
@pytest.mark.parametrize("scope", [Scope.SUBGROUP, Scope.WORKGROUP])
def test_cpus_pay_nothing_inside_a_workgroup(target: str, scope: Scope) -> None:
    assert texts(target, Kind.FENCE, Order.SEQ_CST, scope) == []
    assert texts(target, Kind.BARRIER, Order.ACQ_REL, scope) == []
    assert texts(target, Kind.STORE, Order.SEQ_CST, scope) == ["plain access"]


def test_ascend_refuses_updates_whose_old_value_is_used() -> None:
    assert "old value" in lookup(ASCEND_SIMD, Kind.RMW, Order.RELAXED, Scope.DEVICE).refused
    assert "old value" in lookup("ascend:310p", Kind.CAS, Order.ACQ_REL, Scope.DEVICE).refused
    assert not lookup(ASCEND_SIMD, Kind.REDUCTION, Order.RELAXED, Scope.DEVICE).refused
    assert not lookup(ASCEND_SIMT, Kind.RMW, Order.RELAXED, Scope.DEVICE).refused


def test_ascend_release_drains_cleans_and_waits_before_the_signal() -> None:
    steps = texts(ASCEND_SIMD, Kind.STORE, Order.RELEASE, Scope.DEVICE)
    words = ("PipeBarrier", "DataCacheCleanAndInvalid", "DataSyncBarrier", "scalar access")
    positions = [next(i for i, text in enumerate(steps) if word in text) for word in words]
    assert positions == sorted(positions)


def test_targets_are_found_by_the_names_that_compile_takes() -> None:
    assert target_of("ptx:sm_75") == PTX_SM_75
    assert target_of("ptx:sm_90a") == PTX_SM_90
    assert target_of("ptx:sm_121") == PTX_SM_90
    assert target_of("ascend:310p") == ASCEND_SIMD
    with pytest.raises(KeyError):
        target_of("fpga")


X = Address(base="x")


def program(*bodies: tuple[Load | Store | Rmw | Cas | Fence, ...]) -> Program:
    threads = tuple(
        Thread(name=f"P{i}", place={Scope.WORKGROUP: i}, body=body) for i, body in enumerate(bodies)
    )
    return Program(name="test", locations=(Location(name="x"),), threads=threads)


def test_opencl_scopes_are_made_one() -> None:
    mixed = program(
        (Store(address=X, value=Const(1), order=Order.RELEASE, scope=Scope.WORKGROUP),),
        (Load(register="r", address=X, order=Order.ACQUIRE, scope=Scope.DEVICE),),
    )
    scopes = {item.scope for thread in one_scope(mixed).threads for item in thread.body}
    assert scopes == {Scope.DEVICE}


def test_opencl_fences_change_how_seq_cst_accesses_are_lowered() -> None:
    load = Load(register="r", address=X, order=Order.SEQ_CST, scope=Scope.DEVICE)
    fence = Fence(order=Order.SEQ_CST, scope=Scope.DEVICE)
    alone = lower(program((load,)), OPENCL).threads[0].body
    beside = lower(program((load,), (fence,)), OPENCL).threads[0].body
    assert [item.order for item in alone] == [Order.SEQ_CST]
    assert [item.order for item in beside] == [Order.ACQ_REL, Order.ACQUIRE]
    assert lookup(OPENCL, Kind.FENCE, Order.SEQ_CST, Scope.DEVICE).refused
    assert not lookup(OPENCL_FENCED, Kind.FENCE, Order.SEQ_CST, Scope.DEVICE).refused


def test_a_refused_operation_says_why() -> None:
    update = Rmw(
        register="r", address=X, op="+", operand=Const(1), order=Order.RELAXED, scope=Scope.SYSTEM
    )
    with pytest.raises(RefusedError, match="no scope wider than the device"):
        lower(program((update,)), VULKAN)


PTXAS = find("ptxas")  # of the test extra


def ptx_line(text: str) -> str:
    opcode = text.format(space="global", type="u32", operation="add", mask="-1")
    head = opcode.split(".")[0]
    if ".cas." in opcode:
        opcode = opcode.replace(".u32", ".b32")
        return f"{opcode} %r1, [%rd1], %r2, %r3;"
    operands = {
        "ld": " %r1, [%rd1]",
        "st": " [%rd1], %r1",
        "atom": " %r1, [%rd1], %r2",
        "red": " [%rd1], %r2",
    }
    return f"{opcode}{operands.get(head, '')};"


@pytest.mark.parametrize(("target", "arch"), [(PTX_SM_75, "sm_75"), (PTX_SM_90, "sm_90")])
def test_nvidias_assembler_takes_every_instruction(target: str, arch: str, tmp_path: Path) -> None:
    steps = [s for key, r in TABLE.items() if key[0] == target for s in (*r.steps, *r.unfenced)]
    lines = sorted({ptx_line(step.text) for step in steps})
    source = tmp_path / "all.ptx"
    head = f".version 8.6\n.target {arch}\n.address_size 64\n"
    body = "\n".join(lines)
    source.write_text(
        f"{head}.visible .entry k(.param .u64 p) {{\n.reg .b32 %r<4>;\n.reg .b64 %rd<2>;\n"
        f"ld.param.u64 %rd1, [p];\nmov.u32 %r1, 0;\nmov.u32 %r2, 1;\nmov.u32 %r3, 2;\n"
        f"{body}\nst.global.u32 [%rd1], %r1;\nret;\n}}\n",
        encoding="utf-8",
    )
    command = [str(PTXAS), f"-arch={arch}", str(source), "-o", str(tmp_path / "all.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(lines) > 30
