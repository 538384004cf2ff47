"""What a backend hands to the runtime: code, entry, argument layout, resources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetir.lazy import lazy
from hetir.source import Loc

if TYPE_CHECKING:
    from hetir import residency
else:
    residency = lazy("hetir.residency")  # a launch counts nothing

BLOCK_BY_VALUE_BYTES = 496
"""OpenCL kernels take a larger argument block in a buffer of its own.

Devices take 1,024 bytes of arguments at least: these, a pointer for each 8 of them, and three.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One entry of the argument block.

    `source` is the parameter's position, then the NamedTuple fields that lead to it.
    A scalar has `ndim` None and lies at `offset` in its own width (bool: 1 byte). An
    array is a u64 address, `ndim` i64 extents, then `ndim` i64 strides in bytes.
    """

    offset: int
    source: tuple[int | str, ...]
    dtype: str
    ndim: int | None
    reads: bool
    writes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The canonical little-endian argument block; `size` is a multiple of 16 bytes."""

    slots: tuple[Slot, ...]
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What the code needs; `source` says who counted it. None means unknown.

    `lanes` says that subgroup operations take eight bytes of shared memory a work-item more.
    """

    registers: int | None = None
    shared_bytes: int = 0
    item_bytes: int = 0
    spill_bytes: int | None = None
    lanes: bool = False
    source: str = "hetir"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A place in the code that writes records: `kind` is `print`, `assert` or `bounds`.

    `format` is the line to print (`{}` takes the operands in order) or the message;
    `dtypes` are the operands' scalar types. For `bounds` the operands are, for each axis,
    index and extent (i64), and `format` names the array.
    """

    kind: str
    format: str
    dtypes: tuple[str, ...]
    loc: Loc | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """What the code does for the order of memory at one place of the kernel.

    `kind` is `fence`, `barrier` or that of an atomic access (`load`, `store`, `rmw`, `reduction`,
    `cas`), with the `order` and `scope` that the kernel asks for. `instruction` is what stands in
    the artifact's text, from `line` on (counted from 1), and empty where nothing needs to.
    `reason` says what it is for, or why nothing or less than asked is emitted.
    """

    kind: str
    order: str
    scope: str
    instruction: str
    location: Loc | None
    reason: str
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Another form of an artifact's code, for devices that have all that it `needs`.

    The names are those of the backend that wrote it; it takes the same arguments, gives the
    same bits and is faster.
    """

    needs: tuple[str, ...]
    binary: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One kernel compiled for one target.

    `workgroup` is the size the code was compiled for, or None when the launch decides.
    All workgroups of a `cooperative` kernel must run at once. `key` is the cache key, a content
    hash of everything that shaped the code. `variants` are the forms of `binary` for devices
    that can do more, the best first. `loc` is the kernel's `def`, for messages.
    """

    kernel: str
    target: str
    entry: str
    text: str
    binary: bytes | None
    layout: Layout
    resources: Resources
    workgroup: tuple[int, int, int] | None = None
    subgroup_size: int = 32
    cooperative: bool = False
    fences: tuple[Fence, ...] = ()
    safe_points: tuple[object, ...] = ()
    sites: tuple[Site, ...] = ()
    variants: tuple[Variant, ...] = ()
    reproducible: bool = True
    irreproducible_reason: str = ""
    key: str = ""
    loc: Loc | None = None

    def occupancy(
        self,
        target: str | None = None,
        *,
        workgroup: int | tuple[int, ...] | None = None,
        **figures: int | None,
    ) -> residency.Occupancy:
        """How many workgroups are resident on one unit of the target, and what limits them.

        Args:
            target: a device to count for; the artifact's own target if left out. Portable code
                (`hetir`, `spirv:...`) needs one, such as `intel:xe-hpc`.
            workgroup: the size, where the code was not compiled for one.
            figures: replace or add to the artifact's, as in `hetir.occupancy`; None adds nothing.

        Raises:
            OccupancyInputError: the workgroup or the registers are not known.
        """
        size = self.workgroup if workgroup is None else workgroup
        if size is None:
            raise residency.OccupancyInputError(
                f"`{self.kernel}` was compiled for any workgroup",
                hint="give `workgroup=`, here or to `hetir.compile`",
            )
        given = {name: value for name, value in figures.items() if value is not None}
        # registers limit nothing on a CPU, whose count LLVM does not tell
        known = 0 if self.target.startswith("cpu") else self.resources.registers
        registers = given.get("registers", known)
        if registers is None:
            raise residency.OccupancyInputError(
                f"the registers of `{self.kernel}` for `{self.target}` are not known",
                hint="give `registers=` with your estimate",
            )
        used = {"shared_bytes": self.resources.shared_bytes} | given | {"registers": registers}
        return residency.occupancy(target or self.target, size, **used)
