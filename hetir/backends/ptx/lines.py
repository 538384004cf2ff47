"""Line information: LLVM metadata that becomes `.file` and `.loc`, back to the Python lines."""

from __future__ import annotations

from hetir.ir.core import Kernel
from hetir.source import Loc

_FIRST = 1  # !0 is taken


class Lines:
    """Numbers locations as they are met; `text` is the metadata that they name."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._found: dict[tuple[str, int, int], int] = {}
        self._scopes: dict[str, int] = {}
        self._nodes: list[str] = []
        own = kernel.loc or Loc("<kernel>", 1, 0, 1, 0)
        file = self._node(_file(own.file))
        flags = self._node('!{i32 2, !"Debug Info Version", i32 3}')
        kind = self._node("!DISubroutineType(types: !{})")
        unit = self._node(
            f'distinct !DICompileUnit(language: DW_LANG_Python, file: !{file}, producer: "hetir", '
            "isOptimized: true, runtimeVersion: 0, emissionKind: DebugDirectivesOnly)"
        )
        name = kernel.name.encode("ascii", "replace").decode()
        self.program = self._node(
            f'distinct !DISubprogram(name: "{name}", scope: !{file}, file: !{file}, '
            f"line: {own.line}, type: !{kind}, scopeLine: {own.line}, "
            f"spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !{unit})"
        )
        self._scopes[own.file] = self.program
        self._head = [f"!llvm.module.flags = !{{!{flags}}}", f"!llvm.dbg.cu = !{{!{unit}}}"]

    def suffix(self, loc: Loc | None) -> str:
        """What an instruction of an op at `loc` ends with."""
        if loc is None:
            return ""
        key = loc.file, loc.line, loc.col
        if key not in self._found:
            where = f"line: {loc.line}, column: {loc.col + 1}, scope: !{self._scope(loc.file)}"
            self._found[key] = self._node(f"!DILocation({where})")
        return f", !dbg !{self._found[key]}"

    def text(self) -> list[str]:
        """The metadata."""
        nodes = [f"!{_FIRST + n} = {node}" for n, node in enumerate(self._nodes)]
        return [*self._head, *nodes]

    def _scope(self, file: str) -> int:
        """The kernel, or the part of it that was written in another file."""
        if file not in self._scopes:
            other = self._node(_file(file))
            block = f"scope: !{self.program}, file: !{other}, discriminator: 0"
            self._scopes[file] = self._node(f"!DILexicalBlockFile({block})")
        return self._scopes[file]

    def _node(self, text: str) -> int:
        self._nodes.append(text)
        return _FIRST + len(self._nodes) - 1


def _file(name: str) -> str:
    shown = "".join(
        chr(c) if 32 <= c < 127 and chr(c) not in '"\\' else f"\\{c:02X}" for c in name.encode()
    )
    return f'!DIFile(filename: "{shown}", directory: "")'
