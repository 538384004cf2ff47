"""Random small kernels that synchronise: two workgroups of two work-items, as hetIR text."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

GRID, WORKGROUP = 2, 2
SHAPES = {"x": 1, "y": 1, "out": 12}
"""The kernel's arrays (i32) and their extents; `out` takes what each work-item read."""

_LOADS = ("relaxed", "relaxed", "acquire", "seq_cst")
_STORES = ("relaxed", "relaxed", "release", "seq_cst")
_UPDATES = ("relaxed", "acquire", "release", "acq_rel")
_FENCES = ("acquire", "release", "acq_rel", "seq_cst")
_READS = 3


def text(seed: int) -> str:
    """The kernel of a seed: atomics on `x`, `y` and a shared word, fences, barriers, branches.

    All accesses that may meet are atomic and reach each other, so that no execution races.
    """
    return _Writer(Random(seed)).kernel()


@dataclass(slots=True)
class _Writer:
    random: Random
    lines: list[str] = field(default_factory=list[str])
    names: int = 0
    read: list[str] = field(default_factory=list[str])

    def kernel(self) -> str:
        self.put("%zero: i64 = const 0")
        self.put("%none: i32 = const 0")
        self.put("%one: i32 = const 1")
        self.put("%s: array<i32[1], shared> = alloc")
        self.put("%group: i64 = group_id axis=0")
        self.put("%item: i64 = local_id axis=0")
        self.put("%first: bool = eq %group, %zero")
        self.put("if %first {")
        self.group()
        self.put("} else {")
        self.group()
        self.put("}")
        self.put("return")
        body = "\n".join(f"  {line}" for line in self.lines)
        arrays = ", ".join(
            f"%{name}: array<i32[{extent}], global> from {number}"
            for number, (name, extent) in enumerate(SHAPES.items())
        )
        return f"hetir 1\n\nkernel random({arrays}) {{\n{body}\n}}\n"

    def put(self, line: str) -> None:
        self.lines.append(line)

    def fresh(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def group(self) -> None:
        """What one workgroup runs; barriers stand outside the branch that one item takes."""
        self.read = []
        for _ in range(self.random.randint(2, 4)):
            draw = self.random.random()
            if draw < 0.25:
                self.put("barrier scope=workgroup")
            elif draw < 0.5:
                self.fence()
            elif draw < 0.65:
                self.access()
            else:
                self.elected()
        self.keep()
        self.put("yield")

    def elected(self) -> None:
        """Something that only the first or second item of the workgroup does."""
        self.put(f"{(condition := self.fresh())}: bool = eq %item, %zero")
        self.put(f"if {condition} {{")
        before = list(self.read)
        for end in ("} else {", "}"):
            self.read = list(before)
            for _ in range(self.random.randint(0, 2)):
                if self.random.random() < 0.3:
                    self.fence()
                else:
                    self.access()
            self.keep()
            self.put("yield")
            self.put(end)
        self.read = before

    def fence(self) -> None:
        scope = self.random.choice(("workgroup", "device", "device"))
        self.put(f"fence order={self.random.choice(_FENCES)} scope={scope}")

    def access(self) -> None:
        place = self.random.choice(("x", "y", "s"))
        scope = "device" if place != "s" else self.random.choice(("workgroup", "device"))
        kind = self.random.choice(("load", "store", "rmw"))
        if kind == "store":
            order, value = self.random.choice(_STORES), self.random.choice(("%one", "%none"))
            self.put(f"atomic.store %{place}, %zero, {value} order={order} scope={scope}")
            return
        name = self.fresh()
        if kind == "load":
            order = self.random.choice(_LOADS)
            self.put(f"{name}: i32 = atomic.load %{place}, %zero order={order} scope={scope}")
        else:
            order = self.random.choice(_UPDATES)
            self.put(
                f"{name}: i32 = atomic.rmw %{place}, %zero, %one kind=add order={order} "
                f"scope={scope}"
            )
        self.read.append(name)

    def keep(self) -> None:
        """Store what was read where the work-item's own results go."""
        for number, name in enumerate(self.read[-_READS:]):
            at, base, two, three = (self.fresh() for _ in range(4))
            self.put(f"{two}: i64 = const {WORKGROUP}")
            self.put(f"{three}: i64 = const {_READS}")
            self.put(f"{base}: i64 = mul %group, {two}")
            self.put(f"{at}: i64 = add {base}, %item")
            index, offset, sums = (self.fresh() for _ in range(3))
            self.put(f"{index}: i64 = mul {at}, {three}")
            self.put(f"{offset}: i64 = const {number}")
            self.put(f"{sums}: i64 = add {index}, {offset}")
            self.put(f"store %out, {sums}, {name}")
