"""Values, operations, regions, kernels and modules: immutable once built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from hetir.ir.types import Type
from hetir.source import Loc

if TYPE_CHECKING:
    from hetir.ir.ops import Spec

Attr = bool | int | str | Type | tuple["Attr", ...]
NO_ATTRS: Mapping[str, Attr] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A parameter, a block argument or a result. `name` is only a hint for printing."""

    type: Type
    name: str = ""

    def __repr__(self) -> str:
        return f"%{self.name or hex(id(self))}: {self.type}"


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One op applied to operands; structured ops hold regions, terminators end them."""

    spec: Spec
    operands: tuple[Value, ...] = ()
    results: tuple[Value, ...] = ()
    attrs: Mapping[str, Attr] = field(default_factory=lambda: NO_ATTRS)
    regions: tuple[Region, ...] = ()
    loc: Loc | None = None

    @property
    def name(self) -> str:
        """The mnemonic."""
        return self.spec.name

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Block arguments and a list of operations, the last of which is a terminator."""

    args: tuple[Value, ...]
    body: tuple[Operation, ...]

    @property
    def terminator(self) -> Operation:
        """The last operation."""
        return self.body[-1]


@dataclass(frozen=True, slots=True, eq=False)
class Param:
    """A kernel parameter and where its value comes from at launch.

    `source` is the position of the Python parameter, then the NamedTuple fields that
    lead to the value. One Python scalar may feed several parameters of unlike types.
    """

    value: Value
    source: tuple[int | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the kernel asks for beside its body (see `hetir.kernel`)."""

    subgroup_size: int | None = None
    math: str = "reproducible"
    debug: bool = False
    memory_model: str = "drf"
    cooperative: bool = False
    fences: str = "local"

    @property
    def width(self) -> int:
        """The logical subgroup width: 32 unless pinned."""
        return self.subgroup_size or 32


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Kernel:
    """An entry point that every work-item of the grid runs."""

    name: str
    params: tuple[Param, ...]
    body: Region
    options: Options = field(default_factory=Options)
    loc: Loc | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Function:
    """A helper with results; `return` operands are the results. Recursion is refused."""

    name: str
    params: tuple[Value, ...]
    results: tuple[Type, ...]
    body: Region
    loc: Loc | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Module:
    """Several kernels and the helper functions that they call, each by unique name."""

    kernels: tuple[Kernel, ...] = ()
    functions: tuple[Function, ...] = ()


def walk(region: Region) -> Iterator[Operation]:
    """Every operation of a region and of the regions inside it, in program order."""
    for op in region.body:
        yield op
        for inner in op.regions:
            yield from walk(inner)
