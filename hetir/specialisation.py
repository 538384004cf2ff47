"""What a kernel was traced and compiled for, device by device."""

from __future__ import annotations

from dataclasses import dataclass, field

from hetir import runtime
from hetir.artifact import Artifact, Layout
from hetir.compiler import Dims
from hetir.frontend import Argument, Static, Traced, Tuple, Weak
from hetir.ir.core import Kernel
from hetir.target import Assumptions


@dataclass(frozen=True, slots=True)
class Compiled:
    """One compilation of a specialisation, loaded on a device."""

    device: str
    workgroup: Dims
    assumptions: Assumptions
    artifact: Artifact
    program: runtime.Program


@dataclass(frozen=True, slots=True)
class Place:
    """A specialisation on one device: `mask` has the facts that the device's backend uses."""

    packer: runtime.Packer
    mask: int
    compiled: dict[tuple[Dims, int], Compiled] = field(
        default_factory=dict[tuple[Dims, int], Compiled]
    )


@dataclass(frozen=True, slots=True)
class Specialisation:
    """A kernel traced for given argument types, and what was compiled of it, device by device.

    `str` shows the key in words. `traced` says what was captured from outside.
    """

    arguments: tuple[Argument, ...]
    traced: Traced
    kernel: Kernel
    layout: Layout
    places: dict[str, Place] = field(default_factory=dict[str, Place])

    @property
    def compiled(self) -> tuple[Compiled, ...]:
        """Everything that was compiled, in order."""
        places = list(self.places.values())
        return tuple(made for place in places for made in list(place.compiled.values()))

    def __str__(self) -> str:
        """One line of the types, then a line for each compilation."""
        types = ", ".join(map(_shown, self.arguments))
        lines = [f"{self.kernel.name}({types})"]
        for made in self.compiled:
            promises = _promises(made.assumptions, self.kernel)
            lines.append(f"  {made.device}, workgroup {made.workgroup}: {promises}")
        return "\n".join(lines)


def _shown(argument: Argument) -> str:
    match argument:
        case Static():
            return f"static {argument.value!r}"
        case Weak():
            return argument.kind
        case Tuple():
            return f"{argument.cls.__name__}({', '.join(map(_shown, argument.fields))})"
        case _:
            return str(argument)


def _promises(assumptions: Assumptions, kernel: Kernel) -> str:
    """What the code relies on, in words."""
    aligned = [p.value.name for p, a in zip(kernel.params, assumptions.aligned, strict=False) if a]
    words = [f"{assumptions.index_bits}-bit indices"]
    words += ["disjoint arrays"] if assumptions.disjoint else []
    words += [f"{', '.join(aligned)} aligned to 16 bytes"] if aligned else []
    return ", ".join(words)
