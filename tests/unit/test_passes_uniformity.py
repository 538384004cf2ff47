"""Uniformity and the barrier check on kernels written by hand."""

import linecache

import pytest

from hetir.ir import ops
from hetir.ir.core import walk
from hetir.ir.text import parse_kernel, parse_module
from hetir.passes.check_barriers import DivergentBarrierError, check_barriers
from hetir.passes.uniformity import uniformity

HEAD = "kernel k(%x: array<i32[?], global> from 0, %n: i64 from 1, %c: bool from 2) {"
IDS = """
  %i: i64 = local_id axis=0
  %g: i64 = group_id axis=0
  %zero: i64 = const 0
  %one: i64 = const 1
  %low: bool = lt %i, %n
  %even: bool = lt %g, %n
"""


def kernel(body):
    body = body.replace("{ ", "{\n").replace(" }", "\n}")
    return parse_kernel(f"{HEAD}\n{IDS}\n{body}\n  return\n}}")


def varying(body, **options):
    """The names of the varying values."""
    found = kernel(body)
    answer = uniformity(found, **options)
    values = [v for op in walk(found.body) for v in op.results]
    values += [v for op in walk(found.body) for r in op.regions for v in r.args]
    return {v.name for v in values if v.name and answer.varying(v)}


def barrier_diverges(body, scope="workgroup"):
    found = kernel(body)
    answer = uniformity(found, scope=scope)
    (barrier,) = [op for op in walk(found.body) if op.spec is ops.BARRIER]
    return answer.divergent(barrier)


def test_ids_and_loads():
    assert varying("%a: i32 = load %x, %g\n%b: i32 = load %x, %i") == {"i", "low", "b"}
    shared = """
      %s: array<i32[4], shared> = alloc
      %p: array<i32[4], private> = alloc
      %a: i32 = load %s, %zero
      %b: i32 = load %p, %zero"""
    assert varying(shared) == {"i", "low", "p", "b"}


def test_groups_differ_over_the_device():
    assert varying("", scope="device") == {"i", "low", "g", "even"}


def test_subgroup_results():
    ballot = "%m: u64 = ballot %low, %c\n%s: i64 = subgroup_id"
    assert varying(ballot) == {"i", "low", "m", "s"}
    assert varying(ballot, scope="subgroup") == {"i", "low"}


def test_assume_uniform():
    assert varying("%u: bool = assume_uniform %low\n%v: bool = not %u") == {"i", "low"}


def test_results_of_ifs():
    choice = """
      %r: i64, %same: i64 = if %low {{
        yield %zero, %n
      }} else {{
        {0}
      }}"""
    assert varying(choice.format("yield %one, %n")) == {"i", "low", "r"}
    # the work-items that are left all came one way
    assert varying(choice.format("return")) == {"i", "low"}
    assert varying(choice.format("yield %one, %n").replace("%low", "%even")) == {"i", "low"}


LOOP = """
      %r: i64 = loop %zero (%j: i64) {{
        %done: bool = ge %j, %{0}
        if %done {{
          break %one
        }} else {{
          yield
        }}
        %next: i64 = add %j, %one
        yield %next
      }}"""


def test_loops_left_at_unlike_times_carry_varying_values():
    assert varying(LOOP.format("n")) == {"i", "low"}
    assert varying(LOOP.format("i")) == {"i", "low", "r", "j", "done", "next"}
    # in lockstep the iteration number is one for all that are still there
    assert varying(LOOP.format("i"), lockstep=True) == {"i", "low", "done", "r"}


def test_varying_bounds():
    body = """
      %s: i64 = for %zero, %{0}, %one, %zero (%j: i64, %acc: i64) {{
        %next: i64 = add %acc, %n
        yield %next
      }}"""
    assert varying(body.format("n")) == {"i", "low"}
    assert varying(body.format("i")) == {"i", "low", "s", "j", "acc", "next"}


def test_continue_under_a_varying_condition():
    body = """
      %s: i64 = for %zero, %n, %one, %zero (%j: i64, %acc: i64) {
        if %low {
          continue %one
        } else {
          yield
        }
        yield %acc
      }"""
    assert varying(body) == {"i", "low", "s", "acc"}


BARRIER = "barrier scope=workgroup\n"
FOR = "for %zero, %n, %one (%j: i64)"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"if %low {{ {BARRIER} yield }} else {{ yield }}", True),
        (f"if %even {{ {BARRIER} yield }} else {{ yield }}", False),
        (f"if %low {{ return }} else {{ yield }}\n{BARRIER}", True),
        (f"if %even {{ return }} else {{ yield }}\n{BARRIER}", False),
        (f"if %low {{ yield }} else {{ yield }}\n{BARRIER}", False),
        (f"{FOR} {{ {BARRIER} yield }}", False),
        (f"for %zero, %i, %one (%j: i64) {{ {BARRIER} yield }}", True),
        # a divergent break makes the next iteration divergent, and what follows whole again
        (
            f"{FOR} {{ {BARRIER} if %low {{ break }} else {{ yield }}\nyield }}",
            True,
        ),
        (
            FOR + " { if %low { break } else { yield }\nyield }\n" + BARRIER,
            False,
        ),
        (
            f"{FOR} {{ {BARRIER} if %low {{ continue }} else {{ yield }}\nyield }}",
            False,
        ),
        (
            f"{FOR} {{ if %low {{ continue }} else {{ yield }}\n{BARRIER} yield }}",
            True,
        ),
        (
            FOR + " { if %low { return } else { yield }\nyield }\n" + BARRIER,
            True,
        ),
        (
            "for %zero, %i, %one (%j: i64) { if %even { return } else { yield }\nyield }\n"
            + BARRIER,
            True,
        ),
        (
            f"{FOR} {{ if %even {{ break }} else {{ yield }}\n{BARRIER} yield }}",
            False,
        ),
    ],
)
def test_barriers_in_flow(body, expected):
    assert barrier_diverges(body) is expected
    if expected:
        with pytest.raises(DivergentBarrierError):
            check_barriers(kernel(body))
    else:
        check_barriers(kernel(body))


def test_a_grid_barrier_needs_all_groups():
    body = "if %even { barrier scope=device\n yield } else { yield }"
    assert not barrier_diverges(body)
    assert barrier_diverges(body, "device")
    with pytest.raises(DivergentBarrierError, match="the whole grid"):
        check_barriers(kernel(body))


def test_subgroup_operations():
    check_barriers(kernel("%s: i64 = subgroup_id\n%e: bool = lt %s, %n\n"
                          "if %e { %b: u64 = ballot %c, %c\n yield } else { yield }"))  # fmt: skip
    with pytest.raises(DivergentBarrierError, match=r"`ballot`.*the whole subgroup"):
        check_barriers(kernel("if %low { %b: u64 = ballot %c, %c\n yield } else { yield }"))


def test_the_error_names_the_barrier_and_the_condition():
    source = "def k(x, n):\n    i = hl.local_id(0)\n    if i < n:\n        hl.barrier()\n"
    linecache.cache["k.py"] = len(source), None, source.splitlines(True), "k.py"
    module = parse_module("""hetir 1
file 0 = "k.py"
kernel k(%x: array<i32[?], global> from 0, %n: i64 from 1) { @1:0-9
  %i: i64 = local_id axis=0 @2:8-22
  %low: bool = lt %i, %n @3:7-12
  if %low { @3:4-4:20
    barrier scope=workgroup @4:8-20
    yield
  } else {
    yield
  }
  return
}
""")
    with pytest.raises(DivergentBarrierError) as caught:
        check_barriers(module.kernels[0])
    assert str(caught.value).splitlines() == [
        "error[HET301]: barrier in control flow that is not the same for the whole workgroup",
        " --> k.py:4:9",
        "  |",
        "4 |         hl.barrier()",
        "  |         ^^^^^^^^^^^^ some work-items may not arrive here",
        " --> k.py:3:8",
        "  |",
        "3 |     if i < n:",
        "  |        ^^^^^ this condition may differ between work-items",
        " --> k.py:2:9",
        "  |",
        "2 |     i = hl.local_id(0)",
        "  |         ^^^^^^^^^^^^^^ because of this `local_id`",
        " = help: move it out, or wrap the condition in `hl.assume_uniform(...)` if it never"
        " differs",
    ]


def test_scope_is_checked():
    with pytest.raises(ValueError, match="`warp` is not one of"):
        uniformity(kernel(""), scope="warp")
