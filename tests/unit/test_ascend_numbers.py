"""What the emitter knows of index text agrees with the values that the text takes."""

from __future__ import annotations

import random

import pytest

from hetir.backends.ascend.simd_numbers import Numbers, divided


def expression(stream: random.Random, depth: int) -> str:
    """Sums and products of two names and small numbers."""
    if depth == 0:
        return stream.choice(["i", "j", str(stream.randrange(0, 40)), str(4 * stream.randrange(9))])
    a, b = (expression(stream, depth - 1) for _ in range(2))
    return f"({a}) {stream.choice(['+', '-', '*'])} ({b})"


@pytest.mark.parametrize("seed", range(60))
def test_multiples_ranges_and_quotients_hold(seed: int) -> None:
    facts = Numbers()
    facts.counts("i", 8, 41, 8)
    facts.note("j", "i * 12 + 4")
    text = expression(random.Random(seed), seed % 3 + 1)
    multiple, known = facts.multiple(text), facts.range_of(text)
    assert known is not None
    for i in range(8, 41, 8):
        value = eval(text, {"i": i, "j": i * 12 + 4})
        assert value % multiple == 0 if multiple else value == 0
        assert known[0] <= value <= known[1]
        for size in (1, 2, 4):
            if value % size == 0:
                shown = divided(text, size).replace("/", "//")
                assert eval(shown, {"i": i, "j": i * 12 + 4}) == value // size


def test_a_loop_s_last_index_is_known() -> None:
    facts = Numbers()
    facts.counts("k", 0, 32, 8)
    assert facts.ranges["k"] == (0, 24)
    assert facts.multiples["k"] == 8
    facts.counts("m", 0, "n", 8)
    assert facts.range_of("m") is None
    assert facts.multiple("m * 132") == 1056


def test_what_it_cannot_read_it_knows_nothing_of() -> None:
    facts = Numbers()
    assert facts.multiple("static_cast<int64_t>(x)") == 1
    assert facts.range_of("FloorRemainder<int64_t>(x, 4)") is None
    assert divided("static_cast<int64_t>(x)", 4) == "static_cast<int64_t>(x) / 4"
    for operator in ("&", "|", "^", "<<", ">>"):  # g++ wants these parentheses
        text = f"2 * ((a + b) {operator} 1)"
        assert divided(text, 2) == f"({text}) / 2"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("k * 132 + 4 * x + 132 * y", "33 * k + x + 33 * y"),
        ("r * 256", "64 * r"),
        ("4096", "1024"),
        ("8 * a - 4 * b", "2 * a - b"),
        ("8 * a - (4 * b + 8)", "2 * a - (b + 2)"),
        ("3 * k", "(3 * k) / 4"),
    ],
)
def test_quotients_read_well(text: str, want: str) -> None:
    assert divided(text, 4) == want
