"""docs/errors.md: a section for every error class, and every example raises its error."""

from __future__ import annotations

import linecache
import re
import shlex
import sys

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir.cli import main as cli
from hetir.diagnostics import HetirError
from tools.errors_page import PAGE, classes, documented, errors_page, sections

TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES = {
    code: re.findall(r"^```(\w+)\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    for code, section in sections(TEXT)
}


def examples(wanted):
    found = [
        (code, text) for code, all_ in EXAMPLES.items() for kind, text in all_ if kind == wanted
    ]
    return pytest.mark.parametrize(("code", "text"), found, ids=[code for code, _ in found])


def test_the_page_is_current():
    assert errors_page(TEXT) == TEXT, "run `python -m tools.errors_page`"


def test_every_class_has_a_section_with_an_example_and_a_fix():
    assert set(EXAMPLES) == set(documented())
    for part in TEXT.split("\n## ")[1:]:
        assert "Fix: " in part, part.splitlines()[0]
    for code, found in EXAMPLES.items():
        assert found, code
        for kind, text in found:
            assert kind in ("python", "sh", "text"), code
            assert text.strip(), f"{code}: an empty example"


def test_one_class_a_code():
    """Bases aside: a class may only share its code with the classes that it is derived from."""
    for error in classes():
        if error.code == HetirError.code:
            assert error.__subclasses__(), f"{error.__name__} has no code"
            continue
        assert re.fullmatch(r"HET[1-9]\d\d", error.code)
        assert issubclass(documented()[error.code], error), f"{error.code} is used twice"


@examples("python")
def test_example(code, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = str(tmp_path / f"{code}.py")
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope = {"hetir": hetir, "hl": hl, "np": np, "__name__": "example"}
    with pytest.raises(HetirError) as caught:
        exec(compile(text, file, "exec"), scope)
    assert caught.value.code == code, str(caught.value)
    assert str(caught.value).startswith(f"error[{code}]: ")


@examples("sh")
def test_command(code, text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", shlex.split(text))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith(f"error[{code}]: ")
