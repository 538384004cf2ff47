"""Every part of Python that kernels refuse, with what to write instead."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import MappingProxyType

_OUTSIDE = "define it outside of the kernel"
_ASSERT = "check with `hl.assert_(condition)`, which reports and goes on"

REFUSED: Mapping[type[ast.AST], tuple[str, str]] = MappingProxyType(
    {
        ast.FunctionDef: ("a nested function", _OUTSIDE),
        ast.AsyncFunctionDef: ("`async def`", _OUTSIDE),
        ast.ClassDef: ("a class definition", _OUTSIDE),
        ast.Lambda: ("a lambda", "write a function with `def` outside of the kernel"),
        ast.Delete: ("`del`", "leave the name alone; a register is free after its last use"),
        ast.AsyncFor: ("`async for`", "write `for`"),
        ast.AsyncWith: ("`async with`", "remove it"),
        ast.With: ("`with`", "write the statements without it"),
        ast.Match: ("`match`", "write `if` and `elif`"),
        ast.Raise: ("`raise`", _ASSERT),
        ast.Try: ("`try`", _ASSERT),
        ast.Import: ("`import`", "import at the top of the file"),
        ast.ImportFrom: ("`import`", "import at the top of the file"),
        ast.Global: ("`global`", "store into an array argument"),
        ast.Nonlocal: ("`nonlocal`", "store into an array argument"),
        ast.Dict: ("a dict", "use a NamedTuple or separate variables"),
        ast.Set: ("a set", "use a tuple"),
        ast.SetComp: ("a set comprehension", "write a `for` loop"),
        ast.DictComp: ("a dict comprehension", "write a `for` loop"),
        ast.Await: ("`await`", "call the function directly"),
        ast.Yield: ("`yield`", "store into an array argument"),
        ast.YieldFrom: ("`yield from`", "store into an array argument"),
        ast.Starred: ("`*` here", "write the elements one by one"),
        ast.Slice: ("a slice here", "slice an array: `x[a:b]`"),
        **{
            getattr(ast, name): (what, hint)
            for name, what, hint in (
                ("TryStar", "`try`", _ASSERT),  # from Python 3.11
                ("TypeAlias", "`type`", _OUTSIDE),  # from Python 3.12
                ("TemplateStr", "a t-string", "print with `hl.print`"),  # from Python 3.14
                ("Interpolation", "a t-string", "print with `hl.print`"),
            )
            if hasattr(ast, name)
        },
    }
)
