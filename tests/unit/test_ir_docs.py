"""The pages about hetIR: docs/ops.md is what the table says now, and the examples are true."""

import re
import textwrap
from pathlib import Path

from hetir.ir.binary import encode
from hetir.ir.docs import ops_page
from hetir.ir.ops import TABLE
from hetir.ir.text import parse_module, print_module
from hetir.ir.verify import faults

PAGE = Path(__file__).parents[2] / "docs" / "ops.md"


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == ops_page(), "run `python -m hetir.ir.docs`"


def test_the_page_has_every_op():
    rows = [line for line in ops_page().splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == list(TABLE)
    assert all(row.replace("\\|", "").count("|") == 7 for row in rows)


def examples(page):
    """The indented blocks that are hetIR, as files."""
    text = (PAGE.parent / page).read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^(?: {4}.*)?\n)+", text, re.MULTILINE)
    files = [textwrap.dedent(block).strip() + "\n" for block in blocks]
    return [file for file in files if file.startswith("hetir ")]


def test_the_text_example_is_what_is_printed():
    (example,) = examples("ir.md")
    module = parse_module(example)
    assert faults(module) == ()
    assert print_module(module) == example


def test_the_bytes_of_the_binary_example():
    (example,) = examples("ir-binary.md")
    page = (PAGE.parent / "ir-binary.md").read_text(encoding="utf-8")
    rows = page.split("| bytes | meaning |")[1]
    data = bytes.fromhex(" ".join(re.findall(r"^\| `([0-9a-f ]+)` \|", rows, re.MULTILINE)))
    assert encode(parse_module(example)) == data
