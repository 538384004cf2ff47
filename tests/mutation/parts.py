"""The parts of the property suite, each small enough that a fault shows within seconds."""

from __future__ import annotations

from tests.mutation.fault import Part

_GENERATED = "tests/property/test_generated.py"
_STOPS = "tests/unit/test_safe_points.py"
_DENSE = "tests/property/test_dense.py"
_FEW = {"HETIR_GENERATED": "120", "HETIR_DENSE": "1"}


def _tests(file: str, *names: str, environment: dict[str, str] = _FEW) -> Part:
    return Part(tuple(f"{file}::{name}" for name in names) or (file,), environment)


_EXPRESSIONS = "tests/property/test_expressions.py"
_RUNTIME = "tests/property/test_runtime_properties.py"


def _on(*devices: str) -> Part:
    """Cells on some devices."""
    return _tests(_DENSE, *(f"test_backends_agree[{d}]" for d in devices))


def _ops(*devices: str) -> Part:
    """Expressions on some devices."""
    return _tests(
        _EXPRESSIONS, *(f"test_backends_compute_the_evaluators_bits[{d}]" for d in devices)
    )


PARTS: dict[str, Part] = {
    "expressions": _tests(_EXPRESSIONS, "test_no_pass_changes_a_bit"),
    "passes": _tests(_DENSE, "test_no_pass_changes_a_bit"),
    "exits": Part(
        (f"{_DENSE}::test_lowered_exits_agree", f"{_GENERATED}::test_lowered_exits_agree"), _FEW
    ),
    "inline": _tests(_GENERATED, "test_inlined_functions_agree"),
    "uniformity": _tests(_DENSE, "test_uniform_values_are_uniform"),
    "access": _tests(_DENSE, "test_accesses_lie_where_they_say"),
    "ranges": _tests(_DENSE, "test_every_value_of_a_run_lies_in_its_range"),
    "narrow": _tests(_DENSE, "test_narrowed_kernels_agree"),
    "expansions": _tests("tests/unit/test_legalize.py", "test_expansions_mean_what_the_op_means"),
    "conversions": _tests("tests/property/test_conversions.py"),
    "fences": Part(
        (
            "tests/property/test_fence_proofs.py",
            "tests/unit/test_fences.py::test_the_proofs_refuse_every_step_that_adds_an_outcome",
        ),
        _FEW,
    ),
    "safe points": Part(
        (
            f"{_STOPS}::test_stops_bring_back_what_memory_forgot",
            f"{_DENSE}::test_stops_change_no_bit",
        ),
        _FEW,
    ),
    "frontend": _tests(
        _GENERATED, "test_python_and_traced_sources_agree", "test_drawn_sources_agree"
    ),
    **{
        f"{name} orders": _tests(
            "tests/property/test_mapping_fuzz.py",
            f"test_lowered_programs_do_only_what_hetir_allows[{target}-0]",
            f"test_fenced_shapes_do_only_what_hetir_allows[{target}]",
        )
        for name, target in {
            "ptx": "ptx:sm_75",
            "opencl": "spirv:opencl",
            "vulkan": "spirv:vulkan",
            "x86": "cpu:x86-64",
            "aarch64": "cpu:aarch64",
        }.items()
    },
    "cpu": _on("cpu", "cpu by 4", "cpu by 8"),
    "cpu ops": _ops("cpu", "cpu in vectors"),
    "ptx": _on("ptx"),
    "ptx ops": _ops("ptx"),
    "opencl": _on("opencl"),
    "opencl ops": _ops("opencl"),
    "vulkan ops": _ops("vulkan"),
    "910b": _tests(
        _DENSE, "test_branches_and_loops_agree[ascend-shim]", "test_backends_agree[910b]"
    ),
    "910b ops": _ops("910b"),
    "950": _tests(
        _DENSE, "test_branches_and_loops_agree[ascend-shim:950]", "test_backends_agree[950]"
    ),
    "checks": _tests("tests/property/test_checks.py"),
    "launches": _tests(
        _RUNTIME,
        "test_launches_follow_those_that_they_meet",
        "test_footprints_are_the_bytes_that_numpy_bounds",
    ),
    "block": _tests(
        _RUNTIME, "test_blocks_hold_what_c_expects", "test_views_of_device_arrays_are_numpys"
    ),
    "keys": _tests(_RUNTIME, "test_cache_keys_differ_where_anything_does"),
    "calls": _tests(
        _RUNTIME,
        "test_calls_in_any_order_compute_their_own_arguments",
        "test_arrays_that_meet_are_read_after_they_are_written",
    ),
    "files": _tests(
        _RUNTIME,
        "test_hetbins_come_back_and_no_changed_byte_is_read",
        "test_checkpoint_files_come_back_and_no_changed_byte_is_read",
        "test_cache_entries_come_back_or_are_refused",
    ),
}
