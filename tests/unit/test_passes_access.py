"""Access patterns of kernels written by hand."""

import pytest

from hetir.ir.core import walk
from hetir.ir.text import parse_kernel
from hetir.passes.access import ACCESSES, Addresses, Atom
from hetir.passes.uniformity import uniformity

HEAD = (
    "kernel k(%x: array<f32[?, ?:1], global> from 0, %y: array<i16[?], global> from 1,"
    " %n: i64 from 2, %m: i32 from 3) {"
)
IDS = """
  %i: i64 = global_id axis=0
  %j: i64 = local_id axis=1
  %g: i64 = group_id axis=0
  %zero: i64 = const 0
  %two: i64 = const 2
"""


def patterns(body):
    """The accesses of a kernel, each with its kind and stride."""
    kernel = parse_kernel(f"{HEAD}\n{IDS}\n{body}\n  return\n}}")
    addresses, known = Addresses(kernel), uniformity(kernel, lockstep=True)
    found = [addresses.of(op) for op in walk(kernel.body) if op.spec in ACCESSES]
    return [(access, access.kind(known), access.stride(known)) for access in found]


def last(body):
    """The pattern of the last access of a kernel."""
    return patterns(body)[-1]


@pytest.mark.parametrize(
    ("body", "kind", "stride"),
    [
        ("%v: f32 = load %x, %g, %i", "contiguous", 4),
        ("%v: f32 = load %x, %g, %n", "uniform", 0),
        ("%v: f32 = load %x, %j, %n", "uniform", 0),
        ("%v: f32 = load %x, %i, %n", "strided", None),
        ("%a: i64 = mul %i, %two\n%v: f32 = load %x, %g, %a", "strided", 8),
        ("%a: i64 = sub %n, %i\n%v: f32 = load %x, %g, %a", "strided", -4),
        ("%a: i64 = shl %i, %two\n%v: f32 = load %x, %g, %a", "strided", 16),
        ("%a: i64 = mul %i, %i\n%v: f32 = load %x, %g, %a", "gather", None),
        ("%a: i64 = mul %i, %j\n%v: f32 = load %x, %g, %a", "gather", None),
        ("%a: i64 = mod %i, %n\n%v: f32 = load %x, %g, %a", "gather", None),
        ("%a: i64 = mod %g, %n\n%b: i64 = add %a, %i\n%v: f32 = load %x, %a, %b", "contiguous", 4),
        # the product is the same as what is taken away again
        (
            "%a: i64 = mul %i, %n\n%b: i64 = add %a, %i\n%c: i64 = sub %b, %a\n"
            "%v: f32 = load %x, %g, %c",
            "contiguous",
            4,
        ),
        ("%a: i64 = cast %m\n%b: i64 = add %a, %i\n%v: f32 = load %x, %g, %b", "contiguous", 4),
        ("%a: i32 = cast %i\n%b: i64 = cast %a\n%v: f32 = load %x, %g, %b", "gather", None),
        ("%a: u64 = cast %i\n%b: i64 = cast %a\n%v: f32 = load %x, %g, %b", "contiguous", 4),
        ("%v: i16 = load %y, %i", "strided", None),
        (
            "%w: array<f32[?], global> = view %x, %g, %n, %two steps=[0, -1]\n"
            "%v: f32 = load %w, %i",
            "strided",
            -4,
        ),
        (
            "%w: array<f32[?:1], global> = view %x, %g, %n, %two steps=[0, 1]\n"
            "%v: f32 = load %w, %i",
            "contiguous",
            4,
        ),
        (
            "%s: array<f32[8, 16], shared> = alloc\n%l: i64 = local_id axis=0\n"
            "%v: f32 = load %s, %l, %j",
            "strided",
            64,
        ),
        ("%k: i64 = lane_id\n%v: f32 = load %x, %g, %k", "gather", None),
    ],
)
def test_pattern(body, kind, stride):
    _, found, by = last(body)
    assert found == kind
    assert (by and by.constant) == stride or stride == 0


def test_loops():
    found, kind, _ = last("""
      for %i, %n, %two (%k: i64) {
        %v: f32 = load %x, %g, %k
        yield
      }""")
    assert kind == "contiguous"
    (loop,) = [a.of for a in found.offset.atoms() if a.kind == "iteration"]
    turns = found.offset.coefficient(Atom("iteration", loop))
    assert turns.constant == 8


def test_carried_indices():
    """`while i < n: i += step` counts like a `for`."""
    body = """
      %r: i64 = loop %i, %zero (%k: i64, %t: i64) {{
        %done: bool = ge %k, %n
        if %done {{
          break %k
        }} else {{
          yield
        }}
        %v: f32 = load %x, %g, %k
        %next: i64 = add %k, {0}
        %u: i64 = add %t, %two
        yield %next, %u
      }}"""
    assert last(body.format("%two"))[1] == "contiguous"
    assert last(body.format("%n"))[1] == "contiguous"
    # what is added differs from one iteration to the next
    sums = last(body.format("%t"))[0]
    assert not [a for a in sums.offset.atoms() if a.kind == "iteration"]


def test_divergent_arrays_are_gathered():
    _, kind, _ = last("""
      %c: bool = lt %i, %n
      %w: array<f32[?, ?:1], global> = select %c, %x, %x
      %v: f32 = load %w, %zero, %i""")
    assert kind == "gather"


def test_all_kinds_of_accesses():
    found = patterns("""
      %v: f32 = load %x, %zero, %i
      store %x, %zero, %i, %v
      %o: f32 = atomic.rmw %x, %zero, %i, %v kind="add" order="relaxed" scope="device"
    """)
    assert [kind for _, kind, _ in found] == ["contiguous"] * 3
    assert [access.root.name for access, *_ in found] == ["x"] * 3
