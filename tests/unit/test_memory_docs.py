"""The memory model's pages: every example says what the checker says, and the table is current."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hetir.memory import litmus
from hetir.memory.check import judge
from hetir.memory.lowering.document import markdown

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "memory-model.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```litmus (\w+)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("said", "text"), EXAMPLES, ids=lambda value: value.split("\n")[0])
def test_examples_say_what_the_checker_says(said: str, text: str) -> None:
    test = litmus.parse(text)
    verdict = judge(test.program, test.model, test.claim)
    if verdict.undefined:
        found = "undefined"
    else:
        found = "forbidden" if verdict.witness is None else "allowed"
    assert found == said


def test_there_are_examples_of_each_answer() -> None:
    assert {said for said, _ in EXAMPLES} == {"allowed", "forbidden", "undefined"}
    assert len(EXAMPLES) >= 9


def test_the_lowering_page_is_current() -> None:
    assert (DOCS / "memory-lowering.md").read_text(encoding="utf-8") == markdown()
