"""Writes docs/errors.md from the docstrings of the error classes: `python -m tools.errors_page`.

Headings and causes come from the classes. The examples are kept from the page, from the first
fence of a section to its end: they are written there by hand.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import hetir
from hetir.diagnostics import HetirError

PAGE = Path(__file__).parents[1] / "docs" / "errors.md"

_HEAD = """\
# Errors

Written by `python -m tools.errors_page` from the classes: change their docstrings, and here only
the examples. Every `python` example below is run by the tests with `import hetir`, `import
hetir.lang as hl` and `import numpy as np` in front of it, and raises its section's error; `text`
says why a section has none that a test could run.

An error is a `hetir.diagnostics.HetirError`: `str(error)` is what the command line prints, with the
line and the caret; `error.code`, `error.message`, `error.hint` and `error.labels` are its parts.
Any other exception from hetir is a bug. Errors found while compiling are `CompileError`s, errors
of a launch are `LaunchError`s.
"""
_NO_EXAMPLE = "```text\n```"


@cache
def classes() -> tuple[type[HetirError], ...]:
    """Every error class of the package, in the order of the codes, bases before the derived."""
    for module in pkgutil.walk_packages(hetir.__path__, "hetir."):
        # the C runtime is a library beside the modules, and kernels are loaded by path
        if not module.name.startswith(("hetir.kernels", "hetir.bench", "hetir.runtime.lib")):
            importlib.import_module(module.name)
    found = (c for c in _below(HetirError) if c.__module__.startswith("hetir."))
    return tuple(sorted(set(found), key=lambda c: (c.code, len(c.__mro__), c.__name__)))


def _below(base: type[HetirError]) -> Iterator[type[HetirError]]:
    for derived in base.__subclasses__():
        yield derived
        yield from _below(derived)


def documented() -> Mapping[str, type[HetirError]]:
    """The class of each code; a base without a code of its own has no section."""
    return {c.code: c for c in classes() if c.code != HetirError.code}


def errors_page(old: str) -> str:
    """The whole page; examples are those of the page as it was."""
    kept = dict(sections(old))
    parts = [_HEAD]
    for code, error in documented().items():
        example = kept.get(code, _NO_EXAMPLE)
        parts.append(f"\n## {code} {error.__name__}\n\n{_words(error)}\n\n{example}\n")
    return "".join(parts)


def sections(page: str) -> Iterator[tuple[str, str]]:
    """Each code of a page, and the text of its section from the first fence on."""
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        fence = section.find("```")
        if fence >= 0:
            yield section.split()[0], section[fence:].rstrip()


def _words(error: type[HetirError]) -> str:
    """A class's docstring as Markdown, the cause and the fix each a paragraph."""
    text = " ".join(inspect.cleandoc(error.__doc__ or "").split())
    parts = re.split(r"\s+(?=(?:Cause|Fix): )", text)
    return "\n\n".join("\n".join(textwrap.wrap(part, 100)) for part in parts)


if __name__ == "__main__":
    before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    PAGE.write_text(errors_page(before), encoding="utf-8")
