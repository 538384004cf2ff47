"""What the two flavours of SPIR-V do differently: addresses, arguments, ids, the entry point."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from hetir.artifact import Layout
from hetir.backends.spirv.code import Code
from hetir.backends.spirv.grammar import Version
from hetir.backends.spirv.module import Module, Operand
from hetir.backends.spirv.options import SUBGROUPS, Options
from hetir.ir.core import Kernel
from hetir.ir.types import ArrayType, Scalar

Workgroup = tuple[int, int, int]
U64 = Scalar("u64", "uint", 64)
_SUBGROUP_VERSION = (1, 3)  # the first with GroupNonUniform instructions


@dataclass(frozen=True, slots=True)
class Place:
    """Where an access goes: a pointer to `kind`; `access` are the operands of plain accesses.

    What lies there is the element itself, or unless `typed` the integer of its bits, in a
    word of 32 bits when `widened`.
    """

    pointer: int
    kind: int
    typed: bool
    access: tuple[Operand, ...] = ()
    widened: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The constants of a flavour; an empty environment is that of the module's version.

    `contraction` says that float operations must be decorated so as not to be contracted.
    """

    name: str
    version: Version
    environment: str
    extended: str
    capabilities: tuple[str, ...]
    preferred: tuple[str, ...]
    contraction: bool


class Flavour(ABC):
    """One flavour's side of a function that is being emitted."""

    dialect: ClassVar[Dialect]

    def __init__(
        self,
        kernel: Kernel,
        layout: Layout,
        workgroup: Workgroup | None,
        options: Options = frozenset(),
    ) -> None:
        self.kernel, self.layout, self.workgroup = kernel, layout, workgroup
        self.pinned = SUBGROUPS in options
        """Whether the device's subgroups are hetIR's."""
        d = self.dialect
        self.version = max(d.version, _SUBGROUP_VERSION) if self.pinned else d.version
        self.module = Module(self.version, d.capabilities, d.preferred)
        self.code = Code(self.module, extended=d.extended, contraction=d.contraction)
        self.first_block = self.module.fresh()
        self._indices: dict[tuple[str, int], int] = {}

    # ---- addresses -----------------------------------------------------------------------

    @property
    @abstractmethod
    def reference(self) -> int:
        """The type of a reference to global memory."""

    @abstractmethod
    def base(self, index: int) -> int:
        """The reference that the array parameter in slot `index` starts at."""

    @abstractmethod
    def array(self, kind: ArrayType, *, words: bool) -> int:
        """A new shared or private array; `words` says that its parts of words are atomic."""

    @abstractmethod
    def place(self, space: str, reference: int, offset: int, element: Scalar) -> Place:
        """Where an access of an element goes."""

    @abstractmethod
    def word(self, space: str, reference: int, offset: int) -> tuple[int, int]:
        """A pointer to the 32-bit word around a byte, and how many bits lie below the byte."""

    @abstractmethod
    def argument(self, offset: int, kind: Scalar) -> int:
        """A value of the argument block, loaded at the function's start."""

    @property
    @abstractmethod
    def records(self) -> int:
        """The reference of the buffer of records, or null."""

    @property
    @abstractmethod
    def hidden(self) -> int:
        """The reference of the device's hidden word, which seq_cst operations update."""

    @abstractmethod
    def address(self, reference: int) -> int:
        """A global reference as an integer."""

    @property
    def environment(self) -> str:
        """What the validator takes the module for."""
        major, minor = self.version
        return self.dialect.environment or f"spv{major}.{minor}"

    @abstractmethod
    def lane_slot(self, item: int) -> Place:
        """The 64-bit place of a work-item through which subgroup operations exchange values."""

    def keep_order(self) -> None:  # noqa: B027 (most flavours need nothing)
        """In a loop's body: keep the device's compiler from reordering sums."""

    # ---- ids -----------------------------------------------------------------------------

    def index(self, name: str, axis: int) -> int:
        """An id or extent of hetIR's by its op's name, computed once at the function's start."""
        if (name, axis) not in self._indices:
            made = self._global_id(axis) if name == "global_id" else self.make_index(name, axis)
            self._indices[name, axis] = made
        return self._indices[name, axis]

    @abstractmethod
    def make_index(self, name: str, axis: int) -> int:
        """Compute `local_id`, `group_id`, `group_size` or `num_groups`."""

    def _global_id(self, axis: int) -> int:
        parts = [self.index(name, axis) for name in ("group_id", "group_size", "local_id")]
        with self.code.at_start():
            wide = self.code.int(64)
            start = self.code.add("OpIMul", wide, *parts[:2])
            return self.code.add("OpIAdd", wide, start, parts[2])

    @cached_property
    def items(self) -> int:
        """Work-items a workgroup, over all axes."""
        x, y, z = (self.index("group_size", axis) for axis in (0, 1, 2))
        with self.code.at_start():
            wide = self.code.int(64)
            return self.code.add("OpIMul", wide, self.code.add("OpIMul", wide, x, y), z)

    @cached_property
    def linear_item(self) -> int:
        """The work-item's linear id in its workgroup, axis 0 the fastest."""
        return self._linear("local_id", "group_size")

    @cached_property
    def linear_group(self) -> int:
        """The workgroup's linear id in the grid."""
        return self._linear("group_id", "num_groups")

    def _linear(self, name: str, extent: str) -> int:
        x, y, z = (self.index(name, axis) for axis in (0, 1, 2))
        sx, sy = (self.index(extent, axis) for axis in (0, 1))
        with self.code.at_start():
            wide = self.code.int(64)
            rows = self.code.add("OpIAdd", wide, self.code.add("OpIMul", wide, z, sy), y)
            return self.code.add("OpIAdd", wide, self.code.add("OpIMul", wide, rows, sx), x)

    # ---- the function --------------------------------------------------------------------

    @abstractmethod
    def finish(self, entry: str) -> bytes:
        """Write the function around the code's body; the whole module."""

    def function(self, main: int, parameters: Sequence[tuple[int, int]]) -> None:
        """Write the function: its parameters as pairs of type and id, then its blocks."""
        module, code = self.module, self.code
        void = module.unique("OpTypeVoid")
        kind = module.unique("OpTypeFunction", void, *(t for t, _ in parameters))
        head = [module.encode("OpFunction", void, main, "None", kind)]
        head += (module.encode("OpFunctionParameter", t, name) for t, name in parameters)
        head.append(module.encode("OpLabel", self.first_block))
        end = [module.encode("OpFunctionEnd")]
        module.function((*head, *code.variables, *code.entry, *code.body, *end))
