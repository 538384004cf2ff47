"""Loads hetbin files, and launches their kernels: the best code for a device, or its hetIR."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any

from hetir import checkpoint, compiler, limits, records, runtime
from hetir.artifact import Artifact
from hetir.compiler import Dims
from hetir.hetbin import reader
from hetir.hetbin.errors import HetbinError, NoSpecialisationError
from hetir.hetbin.model import Payload, Specialisation
from hetir.ir.types import ArrayType
from hetir.target import Assumptions

Extents = int | tuple[int, ...]


def load(path: str | Path) -> Hetbin:
    """Read a hetbin: a mapping of its kernels by name.

    Like a shared library it holds machine code that runs with the rights of the process: load
    files of those whom you trust.

    Raises:
        HetbinError: the file cannot be read.
        DamagedHetbinError: it is damaged; the error says where.
        HetbinVersionError: a newer hetir wrote it.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise HetbinError(f"{path} cannot be read: {error.strerror}") from None
    return Hetbin(str(path), reader.decode(data, str(path)))


class Hetbin(Mapping[str, "BuiltKernel"]):
    """The kernels of a file by name; `file["saxpy"][grid, workgroup](...)` launches one."""

    def __init__(self, file: str, entries: Sequence[Specialisation]) -> None:
        self.file, self.entries = file, tuple(entries)
        names = dict.fromkeys(entry.name for entry in entries)
        self._kernels = {
            name: BuiltKernel(name, [e for e in entries if e.name == name]) for name in names
        }

    def __getitem__(self, name: str) -> BuiltKernel:
        found = self._kernels.get(name)
        if found is None:
            known = ", ".join(f"`{n}`" for n in self._kernels) or "none"
            raise NoKernelError(f"{self.file} has no kernel `{name}`", hint=f"it has {known}")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __contains__(self, name: object) -> bool:
        return name in self._kernels

    def __repr__(self) -> str:
        return f"<hetbin {self.file}: {', '.join(self._kernels) or 'no kernels'}>"


class NoKernelError(HetbinError, KeyError):
    """A hetbin has no kernel of that name.

    Cause: a misspelt name, or a kernel that was not built. Fix: use a name that the hint lists.
    """

    code = "HET554"

    def __str__(self) -> str:
        return HetbinError.__str__(self)


@dataclass(frozen=True, slots=True)
class _Loaded:
    artifact: Artifact
    program: runtime.Program


@dataclass(frozen=True, slots=True)
class _Place:
    """A specialisation on one device, and the code that was loaded there."""

    packer: runtime.Packer
    mask: int
    loaded: dict[tuple[Dims, int], _Loaded] = field(default_factory=dict[tuple[Dims, int], _Loaded])


class BuiltKernel:
    """A kernel of a hetbin: launched like a `@hetir.kernel`, without its Python source.

    `built` has its specialisations; a launch takes the first that fits its arguments.
    """

    def __init__(self, name: str, built: Sequence[Specialisation]) -> None:
        self.name, self.built = name, tuple(built)
        self.parameters = built[0].names
        self._signature = Signature(
            [Parameter(n, Parameter.POSITIONAL_OR_KEYWORD) for n in self.parameters]
        )
        self._places: dict[tuple[int, str], _Place] = {}
        self._lock = runtime.ForkSafeLock()

    def __repr__(self) -> str:
        return f"<hetir.BuiltKernel {self.name}({', '.join(self.parameters)})>"

    def __getitem__(self, shape: tuple[Extents, Extents]) -> Callable[..., None]:
        """`kernel[grid, workgroup]`: launches on the CPU and waits."""
        if not isinstance(shape, tuple) or len(shape) != 2:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise HetbinError(
                f"`{self.name}[...]` takes grid and workgroup",
                hint=f"write {self.name}[groups, items](...), or [(gx, gy), (wx, wy)]",
            )
        return partial(self._run, shape[0], shape[1])

    def _run(self, grid: Extents, workgroup: Extents, *arguments: Any, **named: Any) -> None:
        values = self._bind(arguments, named)
        groups, items = compiler.dims(grid), compiler.dims(workgroup)
        made, block = self._ready(values, "cpu", groups, items)
        told = records.request(made.artifact, groups, items)
        made.program.run(values, groups, items, told, block)

    def launch(
        self,
        arguments: Sequence[Any] | Mapping[str, Any] = (),
        *,
        grid: Extents,
        workgroup: Extents,
        device: Any = "cpu",
        queue: Any = None,
        after: Sequence[Any] = (),
        checkpoint: bool | checkpoint.StopAt = False,
        scratch: Sequence[str] = (),
    ) -> Any:
        """Start a launch and return it, as `hetir.Kernel.launch` does.

        Raises:
            NoSpecialisationError: the kernel was not built for such arguments.
            LaunchError: the shape or an argument cannot be.
        """
        if isinstance(arguments, Mapping):
            values = self._bind((), arguments)
        else:
            values = self._bind(arguments, {})
        groups, items = compiler.dims(grid), compiler.dims(workgroup)
        if checkpoint:
            return self._stoppable(values, groups, items, device, checkpoint, scratch,
                                   [queue, *after])  # fmt: skip
        made, block = self._ready(values, device, groups, items)
        return made.program.launch(
            values,
            grid=groups,
            workgroup=items,
            queue=queue,
            after=after,
            records=records.request(made.artifact, groups, items),
            block=block,
        )

    def _stoppable(
        self,
        values: tuple[Any, ...],
        grid: Dims,
        workgroup: Dims,
        device: Any,
        stop: bool | checkpoint.StopAt,
        scratch: Sequence[str],
        before: Sequence[Any],
    ) -> checkpoint.CheckpointLaunch:
        for item in before:
            if item is not None:
                item.wait()
        on = runtime.device(device)
        limits.check_launch_shape(on.portrait.limits, grid, workgroup)
        return checkpoint.start(
            self.built[self._choose(values)].kernel,
            self.parameters,
            values,
            grid=grid,
            workgroup=workgroup,
            device=on,
            stop=None if isinstance(stop, bool) else stop,
            scratch=scratch,
        )

    def launch_shape(
        self, arguments: Mapping[str, Any], grid: Extents | None, workgroup: Extents | None
    ) -> tuple[Dims, Dims]:
        """The grid and workgroup of a launch: a hetbin keeps no usual ones."""
        del arguments
        for what, given in (("grid", grid), ("workgroup", workgroup)):
            if given is None:
                raise HetbinError(
                    f"the launch of `{self.name}` has no {what}", hint=f"add --{what}"
                )
        assert grid is not None
        assert workgroup is not None
        return compiler.dims(grid), compiler.dims(workgroup)

    def is_scalar(self, name: str) -> bool:
        """Whether a parameter is no array."""
        return self.declared_array(name) is None

    def declared_array(self, name: str) -> ArrayType | None:
        """The type of an array parameter, in the first specialisation."""
        position = self.parameters.index(name)
        for param in self.built[0].kernel.params:
            if param.source == (position,) and isinstance(param.value.type, ArrayType):
                return param.value.type
        return None

    def code_for(
        self,
        values: Sequence[Any],
        device: Any = "cpu",
        *,
        workgroup: Extents,
        grid: Extents = 1,
    ) -> Artifact:
        """What a launch with these arguments runs on a device; compiled now if it must be."""
        operands = tuple(map(runtime.as_operand, values))
        return self._ready(operands, device, compiler.dims(grid), compiler.dims(workgroup))[
            0
        ].artifact

    def _bind(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        try:
            bound = self._signature.bind(*arguments, **named)
        except TypeError as error:
            names = ", ".join(self.parameters)
            raise NoSpecialisationError(
                f"`{self.name}`: {error}", hint=f"its parameters are {names or 'none'}"
            ) from None
        return tuple(runtime.as_operand(bound.arguments[name]) for name in self.parameters)

    def _choose(self, values: tuple[Any, ...]) -> int:
        """The first specialisation that takes the values."""
        for exact in (True, False):
            for index, entry in enumerate(self.built):
                if entry.takes(values, exact=exact):
                    return index
        if len(self.built) == 1:  # the packer says what is wrong, unless it is a stride
            packer = self._place(0, runtime.device("cpu")).packer
            packer.block(values)
        built = "; ".join(f"({entry.signature})" for entry in self.built)
        raise NoSpecialisationError(
            f"`{self.name}` was not built for these arguments, but for {built}",
            hint="pass such arguments, or build with one more `--signature`",
        )

    def _place(self, index: int, on: runtime.Device) -> _Place:
        place = self._places.get((index, on.name))
        if place is None:
            entry = self.built[index]
            mask = runtime.WIDE | runtime.MEETS
            mask |= sum(map(runtime.aligned_bit, range(len(entry.layout.slots))))
            made = _Place(runtime.Packer(entry.layout, on, self.parameters), mask)
            place = self._places.setdefault((index, on.name), made)
        return place

    def _ready(
        self, values: tuple[Any, ...], device: Any, grid: Dims, workgroup: Dims
    ) -> tuple[_Loaded, bytes]:
        """The code for a launch, loaded, and the block of its arguments."""
        on = runtime.device(device)
        index = self._choose(values)
        place = self._place(index, on)
        block, facts = place.packer.pack(values, grid, workgroup)
        key = workgroup, facts & place.mask
        made = place.loaded.get(key)
        if made is None:
            with self._lock:
                made = place.loaded.get(key)
                if made is None:
                    made = self._load(self.built[index], on, workgroup, facts)
                    place.loaded[key] = made
        return made, block

    def _load(
        self, entry: Specialisation, on: runtime.Device, workgroup: Dims, facts: int
    ) -> _Loaded:
        limits.check_workgroup(on.portrait.limits, workgroup)
        for payload in fitting(entry, on, workgroup, facts):
            try:
                return _Loaded(payload.artifact, on.load(payload.artifact, self.parameters))
            except runtime.DeviceError:
                continue  # such as a variant of SPIR-V that the device does not take
        artifact = compiler.for_launch(entry.kernel, entry.layout, on.target, workgroup, facts)
        return _Loaded(artifact, on.load(artifact, self.parameters))


def fitting(
    entry: Specialisation, on: runtime.Device, workgroup: Dims, facts: int
) -> list[Payload]:
    """The payloads that a launch may run on a device, the best first."""
    found = [
        p
        for p in entry.payloads
        if on.can_run(p.artifact.target)
        and p.artifact.workgroup in (None, workgroup)
        and _holds(p.assumptions, facts)
    ]
    return sorted(found, key=_rank, reverse=True)


def _holds(promised: Assumptions, facts: int) -> bool:
    return (
        not (promised.index_bits == 32 and facts & runtime.WIDE)
        and not (promised.disjoint and facts & runtime.MEETS)
        and all(
            facts & runtime.aligned_bit(slot)
            for slot, aligned in enumerate(promised.aligned)
            if aligned
        )
    )


def _rank(payload: Payload) -> tuple[Any, ...]:
    """What makes one payload better than another on a device that runs both."""
    made, promised = payload.artifact, payload.assumptions
    level = re.search(r"(?:-v|sm_)(\d+)", made.target)
    return (
        int(level[1]) if level else 0,
        made.workgroup is not None,
        promised.index_bits == 32,
        promised.disjoint,
        sum(promised.aligned),
    )
