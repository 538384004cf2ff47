"""Occupancy on AMD, Intel, Ascend and CPU against the vendors' documents; advice and tails.

NVIDIA is compared with NVIDIA's header in test_occupancy_nvidia.py.
"""

from __future__ import annotations

import doctest
import re
from itertools import pairwise
from pathlib import Path

import pytest
from llvmlite import binding

from hetir.limits import ClusterSizeError, limits_of
from hetir.residency import OccupancyInputError, occupancy, suggest_workgroup

# AMD ------------------------------------------------------------------------------------------

# ROCm Compute Profiler documentation, Occupancy limiters example (MI250, 104 compute units):
# what a run of each kernel was measured to hold of 3328 waves
PROFILED = (
    ("vgprbound", {"workgroup_size": 256, "registers": 124, "accumulation_registers": 4}, 0.4992),
    ("ldsbound", {"workgroup_size": 256, "registers": 96, "shared_bytes": 65536}, 0.1249),
    ("sgprbound", {"workgroup_size": 1024, "registers": 64, "scalar_registers": 76}, 0.9891),
)


@pytest.mark.parametrize(("name", "uses", "measured"), PROFILED, ids=[p[0] for p in PROFILED])
def test_amd_profiled_kernels(name: str, uses: dict[str, int], measured: float) -> None:
    found = occupancy("amd:gfx90a", **{"shared_bytes": 0, **uses})
    assert found.tail(1).units * found.max_subgroups_per_unit == 3328
    assert found.fraction == pytest.approx(measured, abs=0.02)
    assert name != "vgprbound" or found.limiter == "registers"
    assert name != "ldsbound" or found.limiter == "shared_memory"


# LLVM review D138443, output of AMDGPU.TestVGPRLimitsPerOccupancy: most VGPRs by waves per SIMD
GFX90A = {8: 64, 7: 72, 6: 80, 5: 96, 4: 128, 3: 168, 2: 256, 1: 512}
# LLVM review D65010, GCNSubtarget::getOccupancyWithNumVGPRs as it was for gfx9
GFX906 = {10: 24, 9: 28, 8: 32, 7: 36, 6: 40, 5: 48, 4: 64, 3: 84, 2: 128, 1: 256}


@pytest.mark.parametrize(("device", "table"), [("gfx90a", GFX90A), ("gfx906", GFX906)])
def test_amd_waves_by_vector_registers(device: str, table: dict[int, int]) -> None:
    def waves(registers: int) -> float:
        return occupancy(f"amd:{device}", 64, registers, 0).subgroups_per_unit / 4

    for (more, registers), (fewer, _) in pairwise(table.items()):
        assert waves(registers) == more
        assert waves(registers + 1) == fewer
    assert waves(max(table.values())) == 1
    assert waves(max(table.values()) + 1) == 0


def test_amd_example_of_llvm_calc_occupancy() -> None:
    # llvm.org, llvm-calc-occupancy: -mcpu=gfx90a --wg-size=512 --vgprs=50 --sgprs=30
    # gives 8 waves per EU and 32 per CU
    found = occupancy("gfx90a", 512, 50, 0, scalar_registers=30)
    assert (found.subgroups_per_unit, found.fraction) == (32, 1.0)


def _llvm_waves(cpu: str, registers: int, shared: int, size: int, features: str = "") -> int:
    """Waves per SIMD that LLVM's AMDGPU backend, which AMD maintains, notes for a kernel."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    use = f'call void asm sideeffect "", "~{{v{registers - 1}}}"()'
    touch = "store volatile i8 0, ptr addrspace(3) @s" if shared else ""
    module = binding.parse_assembly(f"""
        target triple = "amdgcn-amd-amdhsa"
        @s = internal addrspace(3) global [{max(shared, 1)} x i8] poison, align 4
        define amdgpu_kernel void @k() #0 {{
            {use}
            {touch}
            ret void
        }}
        attributes #0 = {{ "amdgpu-flat-work-group-size"="{size},{size}" }}
    """)
    target = binding.Target.from_triple("amdgcn-amd-amdhsa")
    machine = target.create_target_machine(cpu=cpu, features=features, opt=2)
    machine.set_asm_verbosity(True)
    found = re.search(r"; Occupancy: (\d+)", machine.emit_assembly(module))
    assert found
    return int(found[1])


WAVES = [("gfx906", 64), ("gfx90a", 64), ("gfx942", 64)] + [
    (device, width) for device in ("gfx1030", "gfx1100") for width in (32, 64)
]


@pytest.mark.parametrize(("device", "width"), WAVES)
def test_amd_equals_llvm(device: str, width: int) -> None:
    limits = limits_of(device)
    both = len(limits.subgroup_sizes) > 1
    features = "+wavefrontsize64,-wavefrontsize32" if both and width == 64 else ""

    def ours(registers: int, shared: int, size: int) -> float:
        found = occupancy(limits, size, registers, shared, subgroup_size=width)
        return found.subgroups_per_unit / 4

    for registers in (1, 24, 25, 32, 36, 48, 61, 64, 65, 72, 84, 96, 97, 120, 128, 129, 192, 256):
        theirs = _llvm_waves(device, registers, 0, width, features)
        assert ours(registers, 0, width) == theirs, registers
    for shared in (1024, 4096, 8192, 16384, 32768, 65536):
        for size in (64, 256, 1024):
            theirs = _llvm_waves(device, 1, shared, size, features)
            assert -(-ours(1, shared, size) // 1) == theirs, (shared, size)


# an instruction of a feature: the devices that have it, how LLVM calls it, and what it becomes
_MFMA = "<32 x float> @llvm.amdgcn.mfma.f32.32x32x1f32(float, float, <32 x float>, i32, i32, i32)"
_MFMA_BF16 = (
    "<32 x float> @llvm.amdgcn.mfma.f32.32x32x4bf16.1k(<4 x i16>, <4 x i16>, <32 x float>, "
    "i32, i32, i32)"
)
_WMMA = (
    "<8 x float> @llvm.amdgcn.wmma.f32.16x16x16.f16.v8f32.v16f16(<16 x half>, <16 x half>, "
    "<8 x float>)"
)
_DOT_BF16 = "float @llvm.amdgcn.fdot2.f32.bf16(<2 x bfloat>, <2 x bfloat>, float, i1)"
FEATURES = (
    ("matrix", ("gfx90a", "gfx942"), _MFMA, "v_mfma_f32_32x32x1"),
    ("matrix", ("gfx1100",), _WMMA, "v_wmma_f32_16x16x16_f16"),
    ("bf16", ("gfx90a", "gfx942"), _MFMA_BF16, "v_mfma_f32_32x32x4"),
    ("bf16", ("gfx1100",), _DOT_BF16, "v_dot2_f32_bf16"),
    ("f8", ("gfx942",), "float @llvm.amdgcn.cvt.f32.fp8(i32, i32)", "v_cvt_f32_fp8"),
)


def _assembly(cpu: str, body: str, declaration: str = "") -> str:
    """What LLVM's AMDGPU backend makes of a kernel of one pointer."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    module = binding.parse_assembly(f"""
        target triple = "amdgcn-amd-amdhsa"
        {declaration}
        define amdgpu_kernel void @k(ptr addrspace(1) %p) {{
            {body}
            ret void
        }}
        !0 = !{{}}
    """)
    target = binding.Target.from_triple("amdgcn-amd-amdhsa")
    return target.create_target_machine(cpu=cpu, opt=2).emit_assembly(module)


@pytest.mark.parametrize(("feature", "devices", "call", "instruction"), FEATURES)
def test_amd_features_are_instructions_of_llvm(
    feature: str, devices: tuple[str, ...], call: str, instruction: str
) -> None:
    head, _, types = call.removesuffix(")").partition("(")
    loads, given = [], []
    for number, kind in enumerate(re.findall(r"<[^>]*>|\w+", types)):
        if kind in ("i1", "i32") and number:  # flags, which must be constants
            given.append(f"{kind} 0")
            continue
        loads.append(f"%a{number} = load {kind}, ptr addrspace(1) %p")
        given.append(f"{kind} %a{number}")
    result = head.partition(" @")[0]
    body = "\n".join(loads) + f"\n%r = call {head}({', '.join(given)})"
    body += f"\nstore {result} %r, ptr addrspace(1) %p"
    for device in devices:
        assert feature in limits_of(device).features
        assert instruction in _assembly(device, body, f"declare {call}")
    having = {name for f, names, _, _ in FEATURES if f == feature for name in names}
    assert having == {n for n, _ in WAVES if feature in limits_of(n).features}


@pytest.mark.parametrize("device", sorted({name for name, _ in WAVES}))
def test_amd_f64_atomics_and_accumulation_registers_are_llvms(device: str) -> None:
    add = 'atomicrmw fadd ptr addrspace(1) %p, double 1.0 syncscope("agent") monotonic'
    found = _assembly(device, f"%r = {add}, !amdgpu.no.fine.grained.memory !0")
    known = limits_of(device)
    assert ("global_atomic_add_f64" in found) == ("atomic_f64_add" in known.features)
    # the file that both kinds of registers share is divided by an offset
    assert ("accum_offset" in found) == known.unit.unified_accumulation


def test_amd_barriers_limit_small_workgroups_of_several_subgroups() -> None:
    # AMDGPUBaseInfo: 16 barriers a compute unit, and none for a workgroup of one wave
    found = occupancy("gfx90a", 65, 8, 0)
    assert (found.limiter, found.groups_per_unit) == ("subgroups", 16)
    assert occupancy("gfx906", 128, 8, 0).limiter == "barriers"
    assert occupancy("gfx90a", 64, 8, 0).groups_per_unit == 32


# Intel ----------------------------------------------------------------------------------------

# Intel, Thread Mapping and GPU Occupancy, table Xe-core utilization for Data Center GPU Max,
# subgroups of 32 (its 89.5 percent for 896 is twice a rounded 44.75; 28 of 64 threads are 43.75)
XE_HPC = (
    (128, 16, 1.0),
    (256, 8, 1.0),
    (384, 5, 0.9375),
    (512, 4, 1.0),
    (640, 3, 0.9375),
    (768, 2, 0.75),
    (896, 2, 0.875),
    (1024, 2, 1.0),
    (1152, 0, 0.0),
)


@pytest.mark.parametrize(("size", "groups", "fraction"), XE_HPC)
def test_intel_workgroup_table(size: int, groups: int, fraction: float) -> None:
    found = occupancy("intel:xe-hpc", size, 128, 0, subgroup_size=32)
    assert (found.groups_per_unit, found.fraction) == (groups, fraction)


# the same document, vec_add on Max 1100 (56 Xe-cores): workgroups of 1024, occupancy of the GPU
MAX_1100 = ((1, 0.009), (8, 0.071), (16, 0.143), (56, 0.5), (104, 0.928), (112, 1.0))


@pytest.mark.parametrize(("groups", "share"), MAX_1100)
def test_intel_device_occupancy(groups: int, share: float) -> None:
    found = occupancy("intel:xe-hpc", 1024, 128, 0, subgroup_size=32)
    assert found.tail(groups, units=56).efficiency == pytest.approx(share, abs=0.001)


def test_intel_large_registers_halve_the_threads() -> None:
    # Intel GPU Occupancy Calculator: large GRF mode halves Max_Threads_Per_Sub_Slice
    found = occupancy("intel:xe-hpc", 256, 256, 0, subgroup_size=32)
    assert (found.groups_per_unit, found.fraction, found.limiter) == (4, 0.5, "registers")
    assert occupancy("intel:xe-hpg", 256, 256, 0).groups_per_unit == 0


@pytest.mark.parametrize(
    ("kib", "groups"),
    # SLM_Size_Per_Sub_Slice 128 over the step that TG_SLM_Sizes rounds to
    [(1, 8), (16, 8), (17, 5), (25, 4), (33, 2), (48, 2), (49, 2), (65, 1), (97, 1), (128, 1)],
)
def test_intel_shared_memory_steps(kib: int, groups: int) -> None:
    assert occupancy("intel:xe-hpc", 256, 128, kib * 1024).groups_per_unit == groups
    assert occupancy("intel:xe2", 256, 128, kib * 1024).groups_per_unit == groups


def test_intel_xe_hpg_takes_half_of_its_memory_a_group() -> None:
    assert occupancy("intel:xe-hpg", 128, 64, 65536, subgroup_size=8).groups_per_unit == 2
    assert occupancy("intel:xe-hpg", 128, 64, 65537).limiter == "shared_memory"


# Ascend and CPU -------------------------------------------------------------------------------

# CANN 9.1.0, Ascend C API, SIMT kernel configuration, table 1: registers a work-item by size
SIMT = ((1, 127), (256, 127), (257, 64), (512, 64), (513, 32), (1024, 32), (1025, 16), (2048, 16))


@pytest.mark.parametrize(("size", "registers"), SIMT)
def test_ascend_simt_registers(size: int, registers: int) -> None:
    assert occupancy("ascend:950", size, registers, 0).groups_per_unit == 1
    refused = occupancy("ascend:950", size, registers + 1, 0)
    assert (refused.groups_per_unit, refused.limiter) == (0, "registers")


def test_ascend_simt_buffer() -> None:
    # the same page: dynamic memory at most 256 KiB - 8 KiB - 32 KiB - static
    most = (256 - 8 - 32) * 1024
    assert occupancy("ascend:950", 2048, 16, most).fraction == 1.0
    assert occupancy("ascend:950", 2048, 16, most + 1).limiter == "shared_memory"
    assert occupancy("ascend:950", 512, 16, most).fraction == 0.25


def test_ascend_simd_fills_cores_in_waves() -> None:
    # 910B1 has 48 vector cores: 49 workgroups take two rounds
    found = occupancy("ascend:910b", 256, 0, 188160)
    assert (found.groups_per_unit, found.fraction) == (1, 1.0)
    tail = found.tail(49)
    assert (tail.units, tail.waves, tail.last_wave_groups) == (48, 2, 1)


def test_cpu_runs_one_workgroup_a_thread() -> None:
    found = occupancy("cpu", 1000, 0, 1000)
    assert (found.groups_per_unit, found.tail(7, units=2).waves) == (1, 4)


# What is common --------------------------------------------------------------------------------


def test_default_figures_and_every_bound() -> None:
    found = occupancy("ptx:sm_90")
    assert found.request.workgroup_size == 256
    assert dict(found.bounds) == {
        "subgroups": 8,
        "workgroups": 32,
        "registers": 4,
        "shared_memory": 4,
        "barriers": 64,
        "virtual_resources": None,
    }
    assert found.limiters == ("registers", "shared_memory")
    assert (found.groups_per_unit, found.subgroups_per_unit, found.fraction) == (4, 32, 0.5)


def test_what_cannot_launch_has_no_group_and_says_why() -> None:
    for target, uses, limiter in (
        ("ptx:sm_90", {"workgroup_size": 1025, "registers": 8, "shared_bytes": 0}, "subgroups"),
        ("ptx:sm_90", {"workgroup_size": 32, "registers": 257, "shared_bytes": 0}, "registers"),
        (
            "ptx:sm_90",
            {"workgroup_size": 32, "registers": 8, "shared_bytes": 232449},
            "shared_memory",
        ),
        (
            "ptx:sm_75",
            {"workgroup_size": 32, "registers": 8, "shared_bytes": 65537},
            "shared_memory",
        ),
        ("gfx1100", {"workgroup_size": 32, "registers": 8, "shared_bytes": 65537}, "shared_memory"),
    ):
        found = occupancy(target, **uses)
        assert (found.groups_per_unit, found.fraction, found.limiter) == (0, 0.0, limiter)


@pytest.mark.parametrize(
    ("target", "uses"),
    [
        ("ptx:sm_90", {}),
        ("ptx:sm_90", {"registers": 80, "shared_bytes": 0}),
        ("ptx:sm_86", {"registers": 40, "shared_bytes": 30000}),
        ("ptx:sm_90", {"registers": 16, "shared_bytes": 40000, "carveout": 20}),
        ("ptx:sm_100", {"workgroup_size": 32, "registers": 16, "shared_bytes": 0, "barriers": 16}),
        ("amd:gfx906", {"registers": 24, "shared_bytes": 0, "scalar_registers": 100}),
        ("amd:gfx1100", {"registers": 120}),
        ("intel:xe-hpc", {"registers": 200, "shared_bytes": 0}),
        ("ascend:950", {"registers": 20, "shared_bytes": 0}),
    ],
)
def test_suggestions_give_what_they_say(target: str, uses: dict[str, int]) -> None:
    now = occupancy(target, **uses)
    assert now.suggestions
    for suggestion in now.suggestions:
        then = occupancy(target, **{**uses, **suggestion.changes})
        assert then.fraction == suggestion.fraction > now.fraction
        assert then.groups_per_unit == suggestion.groups_per_unit
        assert all(str(value) in suggestion.text for value in suggestion.changes.values())


def test_a_suggested_figure_is_the_largest() -> None:
    now = occupancy("ptx:sm_90", 256, 80, 0)
    registers = now.suggestions[0].changes["registers"]
    assert occupancy("ptx:sm_90", 256, registers + 1, 0).groups_per_unit == now.groups_per_unit
    shared = occupancy("ptx:sm_90", 256, 16, 49152).suggestions[-1].changes["shared_bytes"]
    assert occupancy("ptx:sm_90", 256, 16, shared + 128).groups_per_unit == 4


def test_full_needs_no_advice() -> None:
    found = occupancy("ptx:sm_90", 1024, 32, 0)
    assert (found.fraction, found.suggestions) == (1.0, ())


def test_tail_of_a_grid() -> None:
    # 4 workgroups on each of 132 multiprocessors: 528 a wave
    tail = occupancy("ptx:sm_90").tail((50, 20))
    assert (tail.groups, tail.units, tail.capacity) == (1000, 132, 528)
    assert (tail.waves, tail.last_wave_groups) == (2, 472)
    assert tail.efficiency == pytest.approx(1000 / 1056)
    assert occupancy("ptx:sm_90").tail(0).waves == 0
    assert occupancy("ptx:sm_90", 2048).tail(5).efficiency == 0.0


def test_clusters() -> None:
    found = occupancy("ptx:sm_90", 1024, 64, 0)
    assert found.groups_per_unit == 1
    # eight processing clusters of 16 units each: 16 / 6 = 2 clusters, 4 units idle, in each
    cluster = found.cluster(6, units_per_cluster_domain=16, domains=8)
    assert (cluster.active_clusters, cluster.idle_groups, cluster.portable) == (16, 32, True)
    assert not found.cluster(16, 16, 8).portable
    with pytest.raises(ClusterSizeError, match="at most 16"):
        found.cluster(17, 16, 8)
    with pytest.raises(ClusterSizeError, match="at most 1"):
        occupancy("ptx:sm_89").cluster(2, 16, 8)


def test_carveouts_reach_the_default() -> None:
    found = occupancy("ptx:sm_90", 256, 32, 33000)
    steps = found.carveouts()
    assert [step.shared_bytes // 1024 for step in steps] == [
        0,
        8,
        16,
        32,
        64,
        100,
        132,
        164,
        196,
        228,
    ]
    # 33000 + 1024 reserved, in granules of 128, are 34048 bytes: 1 in 64 KiB, 3 in 100 KiB
    assert [step.groups_per_unit for step in steps] == [1, 1, 1, 1, 1, 3, 3, 4, 5, 6]
    assert steps[-1].groups_per_unit == found.groups_per_unit
    assert occupancy("gfx942").carveouts() == ()


@pytest.mark.parametrize(
    ("target", "uses", "message"),
    [
        ("ptx:sm_90", {"workgroup_size": 0}, "a workgroup of 0 work-items is no workgroup"),
        ("ptx:sm_90", {"registers": -1}, "`registers` is -1"),
        ("ptx:sm_90", {"carveout": 101}, "a carve-out of 101 percent"),
        ("ptx:sm_90", {"subgroup_size": 64}, "has no subgroup of 64"),
        ("spirv:vulkan", {}, "has no occupancy of its own"),
    ],
)
def test_impossible_figures(target: str, uses: dict[str, int], message: str) -> None:
    with pytest.raises(OccupancyInputError, match=re.escape(message)):
        occupancy(target, **uses)


def test_suggested_workgroup() -> None:
    sm_90 = limits_of("ptx:sm_90")
    # plenty of work: the usual size; 2-D: a subgroup along the first dimension
    assert suggest_workgroup(sm_90, 1 << 24) == (256,)
    assert suggest_workgroup(sm_90, (4096, 4096)) == (32, 8)
    # 132 multiprocessors and little work: smaller groups, so that none stays idle
    assert suggest_workgroup(sm_90, 132 * 64) == (64,)
    # 200 registers: 256 work-items would leave a quarter of the registers unused
    size = suggest_workgroup(sm_90, 1 << 24, registers=200)[0]
    assert occupancy(sm_90, size, 200, 0).fraction == max(
        occupancy(sm_90, n, 200, 0).fraction for n in (32, 64, 128, 256, 512, 1024)
    )
    assert suggest_workgroup(limits_of("spirv:vulkan"), (100, 100, 100)) == (32, 8, 1)


def test_the_document_tells_the_truth() -> None:
    path = Path(__file__).parents[2] / "docs" / "occupancy.md"
    failed, tried = doctest.testfile(str(path), module_relative=False)
    assert tried > 10
    assert failed == 0
