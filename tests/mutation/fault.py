"""What a seeded fault is, and the parts of the property suite that faults are run against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import hetir

PACKAGE = Path(hetir.__file__).parent
"""The package as it is imported: the tree's, or what is installed."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the property suite: pytest's arguments, and what it is told by environment."""

    tests: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: in a file of the package, `before`, which occurs `count` times, becomes `after`.

    `kind` says what sort of mistake it is, `part` which piece of the suite should notice.
    """

    name: str
    kind: str
    file: str
    before: str
    after: str
    part: str
    count: int = 1

    @property
    def module(self) -> str:
        """The dotted name of the module that it changes."""
        return ".".join(("hetir", *Path(self.file).with_suffix("").parts))

    def source(self, package: Path = PACKAGE) -> str:
        """The changed file; ValueError where the code is no longer what the fault is about."""
        text = (package / self.file).read_text(encoding="utf-8")
        if text.count(self.before) != self.count:
            raise ValueError(f"`{self.name}`: its piece occurs {text.count(self.before)} times")
        return text.replace(self.before, self.after)
