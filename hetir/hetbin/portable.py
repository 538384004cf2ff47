"""Kernels without what differs from one machine's folders to another's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hetir import version
from hetir.ir.core import Kernel, Operation, Region
from hetir.source import Loc

_PACKAGE = Path(version.__file__).parent


def portable(kernel: Kernel, folder: Path) -> Kernel:
    """The kernel with file names relative to `folder`, or to hetir; others without folders."""
    return _Renamer(folder).kernel(kernel)


class _Renamer:
    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.files: dict[str, str] = {}
        self.locs: dict[int, Loc] = {}  # by identity: hashing a chain of callers is slow

    def kernel(self, kernel: Kernel) -> Kernel:
        return replace(kernel, body=self.region(kernel.body), loc=self.loc(kernel.loc))

    def region(self, region: Region) -> Region:
        return Region(region.args, tuple(map(self.operation, region.body)))

    def operation(self, op: Operation) -> Operation:
        regions = tuple(map(self.region, op.regions))
        return replace(op, regions=regions, loc=self.loc(op.loc))

    def loc(self, loc: Loc | None) -> Loc | None:
        if loc is None:
            return None
        found = self.locs.get(id(loc))
        if found is None:
            found = replace(loc, file=self.file(loc.file), caller=self.loc(loc.caller))
            self.locs[id(loc)] = found
        return found

    def file(self, name: str) -> str:
        if name not in self.files:
            self.files[name] = self.short(name)
        return self.files[name]

    def short(self, name: str) -> str:
        path = Path(name)
        for root, prefix in ((_PACKAGE, "hetir"), (self.folder, "")):
            if path.is_absolute() and path.is_relative_to(root):
                return Path(prefix, path.relative_to(root)).as_posix()
        return path.name
