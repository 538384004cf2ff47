"""Machines and launches: a module, an entry, a grid, parameters, memory; and what is reported."""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from hetir.emulator.ptx.batch import Batch
from hetir.emulator.ptx.faults import PtxLaunchError, PtxLinkError, RaceFault
from hetir.emulator.ptx.layout import Layout
from hetir.emulator.ptx.memory import Memory, Store
from hetir.emulator.ptx.parser import parse
from hetir.emulator.ptx.program import Block, Program, build
from hetir.emulator.ptx.races import Races
from hetir.emulator.ptx.schedule import Schedule
from hetir.emulator.ptx.syntax import Module, Symbol, Variable
from hetir.emulator.ptx.types import Lanes, PtxType

Triple = tuple[int, int, int]
Size = int | Sequence[int]

_MODULE_BASE = 0x6000_0000_0000
_MODULE_BYTES = 1 << 32
_BATCH_LANES = 1 << 14
_MAX_THREADS = 1024
_STATIC_SHARED_BYTES = 48 * 1024
_SHARED_KIB = {"sm_75": 64, "sm_80": 163, "sm_86": 99, "sm_87": 163, "sm_88": 99, "sm_89": 99,
               "sm_120": 99, "sm_121": 99}  # fmt: skip
"""Shared memory that a block may ask for, with opt-in; 227 KiB on the others."""
_machines = itertools.count()


@dataclass(slots=True, kw_only=True)
class Report:
    """What a launch did: races found, thread instructions, and what is not exact.

    `approximate` names instructions whose bits are not the device's (`.approx`, `.full`);
    `contractible` those that an assembler may fuse for want of a rounding modifier.
    """

    races: tuple[RaceFault, ...] = ()
    instructions: int = 0
    approximate: tuple[str, ...] = ()
    contractible: tuple[str, ...] = ()
    static_shared_bytes: int = 0


@dataclass(slots=True, kw_only=True)
class Launch:
    """One launch of a program, as the batches see it."""

    program: Program
    grid: Triple
    block: Triple
    memory: Memory
    parameters: Store
    dynamic_shared_bytes: int
    uninitialised: bool
    races: Races | None
    step_limit: int
    executed: int = 0
    tables: dict[str, Lanes] = field(default_factory=dict[str, Lanes])
    _fits: dict[tuple[str, int], Lanes] = field(default_factory=dict[tuple[str, int], Lanes])
    shared_stride: int = 0
    threads: int = 0

    def __post_init__(self) -> None:
        """Lay out shared memory with its dynamic part."""
        self.threads = self.block[0] * self.block[1] * self.block[2]
        program, dynamic = self.program, self.dynamic_shared_bytes
        size = -(-(program.dynamic_base + dynamic + 32) // 32) * 32
        table = np.zeros(max(size, len(program.shared_table)), np.int32)
        table[: len(program.shared_table)] = program.shared_table
        table[program.dynamic_base : program.dynamic_base + dynamic] = -1
        self.shared_stride = len(table)
        self.tables = {
            "shared": table,
            "local": program.local_table,
            "param": program.parameter_table,
        }

    def fits(self, space: str, size: int) -> Lanes:
        """For each byte of a space, whether `size` bytes from it on are in one variable."""
        found = self._fits.get((space, size))
        if found is None:
            table = self.tables[space]
            found = np.zeros(len(table), bool)
            last = len(table) - size + 1
            found[:last] = (table[:last] != 0) & (table[:last] == table[size - 1 :])
            self._fits[space, size] = found
        return found

    @property
    def watches(self) -> bool:
        """Whether accesses are watched."""
        return self.races is not None or self.uninitialised

    @property
    def shared_bytes(self) -> int:
        """Static and dynamic shared memory of a block."""
        return self.program.static_shared_bytes + self.dynamic_shared_bytes

    def count(self, block: Block, lanes: int) -> None:
        """Count the instructions of a block."""
        self.executed += (len(block.steps) + 1) * lanes


class Machine:
    """Executes the entries of a module; its `.global` variables live as long as it does."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.programs: dict[str, Program] = {}
        self.addresses: dict[str, int] = {}
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self._place_variables()

    def check(self) -> None:
        """Build every entry, so that what is not known is found without a launch."""
        for name in self.module.entries:
            self.program(name)

    def program(self, entry: str) -> Program:
        """The program of an entry."""
        found = self.programs.get(entry)
        if found is not None:
            return found
        function = self.module.functions.get(entry)
        if function is None or not function.is_entry:
            known = ", ".join(self.module.entries) or "none"
            raise PtxLaunchError(f"there is no entry `{entry}`; the entries are: {known}")
        if not function.defined:
            raise PtxLinkError(f"the entry `{entry}` is not defined", function.place)
        self.programs[entry] = build(self.module, function, self.addresses)
        return self.programs[entry]

    def variable(self, name: str) -> np.ndarray[Any, Any]:
        """The bytes of a `.global` or `.const` variable, for reading and writing."""
        return self.arrays[name]

    def launch(  # noqa: PLR0913 (a launch has these)
        self,
        entry: str,
        grid: Size,
        block: Size,
        params: bytes | Sequence[Any] = b"",
        shared_bytes: int = 0,
        memory: Memory | None = None,
        *,
        races: bool = False,
        uninitialised: bool = False,
        cooperative: bool = False,
        step_limit: int = 1 << 22,
        batch_lanes: int = _BATCH_LANES,
    ) -> Report:
        """Run a grid to its end; results are in the arrays of `memory`.

        `params` is the parameter block, or one value a parameter: a number, or a NumPy array
        that is registered and whose address is passed. `shared_bytes` is the dynamic shared
        memory. `races` looks for data races and reports them, `uninitialised` makes a read of
        shared or local memory that nobody wrote a fault. Blocks run in batches of about
        `batch_lanes` threads, one batch after another; `cooperative` runs all of them together.
        A fault is raised as `Fault`. `step_limit` bounds the turns of one batch.
        """
        program = self.program(entry)
        memory = Memory() if memory is None else memory
        self._register(memory)
        grid3, block3 = _triple(grid), _triple(block)
        _check_sizes(program, grid3, block3)
        _check_shared(program, self.module.target, shared_bytes)
        detector = Races(grid3, block3) if races else None
        launch = Launch(
            program=program,
            grid=grid3,
            block=block3,
            memory=memory,
            parameters=_parameters(program, params, memory),
            dynamic_shared_bytes=shared_bytes,
            uninitialised=uninitialised,
            races=detector,
            step_limit=step_limit,
        )
        blocks = grid3[0] * grid3[1] * grid3[2]
        at_once = blocks if cooperative else max(1, batch_lanes // launch.threads)
        for first in range(0, blocks, max(1, at_once)):
            batch = Batch(launch, first, min(at_once, blocks - first))
            if detector is not None:
                detector.begin(batch)
            Schedule(batch).run()
        return Report(
            races=tuple(detector.found) if detector else (),
            instructions=launch.executed,
            approximate=program.approximate,
            contractible=program.contractible,
            static_shared_bytes=program.static_shared_bytes,
        )

    def _register(self, memory: Memory) -> None:
        for name, array in self.arrays.items():
            space = self.module.variables[name].space
            memory.add(array, name, self.addresses[name], space)

    def _place_variables(self) -> None:
        at = _MODULE_BASE + next(_machines) * _MODULE_BYTES
        for name, variable in self.module.variables.items():
            if variable.space == "shared":
                continue
            if variable.count is None:
                raise PtxLinkError(f"the variable `{name}` is not defined", variable.place)
            align = max(variable.align, 16)
            at = -(-at // align) * align
            self.addresses[name] = at
            at += variable.size + 64
        for name in self.addresses:
            self.arrays[name] = self._initial(self.module.variables[name])

    def _initial(self, variable: Variable) -> np.ndarray[Any, Any]:
        kind = variable.type
        out = np.zeros(max(1, variable.size), np.uint8)
        for i, value in enumerate(variable.initial or ()):
            raw = _encoded(self._resolved(variable, value), kind)
            out[i * kind.size : (i + 1) * kind.size] = np.frombuffer(raw, np.uint8)
        return out

    def _resolved(self, variable: Variable, value: float | Symbol) -> int | float:
        if not isinstance(value, Symbol):
            return value
        address = self.addresses.get(value.name)
        if address is None:
            address = Layout.function_addresses(self.module).get(value.name)
        if address is None:
            raise PtxLinkError(f"`{value.name}` is not defined", variable.place)
        return address + value.offset


def _encoded(value: float, kind: PtxType) -> bytes:
    if kind.kind == "f":
        return np.array(value).astype(kind.dtype).tobytes()
    if isinstance(value, float):
        raise PtxLaunchError(f"a floating-point number does not initialise .{kind.name}")
    return (value % (1 << kind.bits)).to_bytes(kind.size, "little")


def _triple(size: Size) -> Triple:
    values = [size] if isinstance(size, int) else [int(s) for s in size]
    if not 1 <= len(values) <= 3 or min(values) < 0:
        raise PtxLaunchError(f"a size has one to three extents, got {size}")
    x, y, z = (*values, 1, 1)[:3]
    return (x, y, z)


def _check_sizes(program: Program, grid: Triple, block: Triple) -> None:
    x, y, z = block
    threads = x * y * z
    if min(block) < 1 or threads > _MAX_THREADS or x > 1024 or y > 1024 or z > 64:
        raise PtxLaunchError(f"a block of {block} threads cannot be launched")
    if grid[0] > (1 << 31) - 1 or max(grid[1:]) > 65535:
        raise PtxLaunchError(f"a grid of {grid} blocks cannot be launched")
    limits = program.function.limits
    name = program.function.name
    most = limits.get("maxntid")
    if most is not None and threads > int(np.prod(most)):
        raise PtxLaunchError(f"`{name}` has .maxntid {most}, got a block of {block}")
    exactly = limits.get("reqntid")
    if exactly is not None and (*exactly, 1, 1)[:3] != block:
        raise PtxLaunchError(f"`{name}` has .reqntid {exactly}, got a block of {block}")


def _check_shared(program: Program, target: str, dynamic: int) -> None:
    static = program.static_shared_bytes
    if static > _STATIC_SHARED_BYTES:
        raise PtxLaunchError(f"{static} bytes of static shared memory are more than 48 KiB")
    most = 1024 * _SHARED_KIB.get(target.rstrip("af"), 227)
    if dynamic < 0 or static + dynamic > most:
        raise PtxLaunchError(
            f"{static + dynamic} bytes of shared memory a block cannot be had on {target}, "
            f"which has {most}"
        )


def _parameters(program: Program, params: bytes | Sequence[Any], memory: Memory) -> Store:
    size = program.parameter_bytes
    if isinstance(params, (bytes, bytearray, memoryview)):
        block = bytes(params)
        if not size <= len(block) <= -(-size // 16) * 16:
            raise PtxLaunchError(f"the parameters have {size} bytes, got {len(block)}")
    else:
        block = _packed(program, params, memory)
    data = np.zeros(size + 64, np.uint8)
    data[: len(block)] = np.frombuffer(block, np.uint8)
    return Store(data, name="parameters", space="param", writable=False)


def _packed(program: Program, params: Sequence[Any], memory: Memory) -> bytes:
    formals = program.function.parameters
    if len(formals) != len(params):
        raise PtxLaunchError(f"{len(formals)} parameters are needed, got {len(params)}")
    out = bytearray()
    for formal, value in zip(formals, params, strict=True):
        out += bytes(-len(out) % formal.align)
        raw = _argument(formal, value, memory)
        if len(raw) != formal.size:
            raise PtxLaunchError(f"`{formal.name}` has {formal.size} bytes, got {len(raw)}")
        out += raw
    return bytes(out)


def _argument(formal: Variable, value: Any, memory: Memory) -> bytes:
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return struct.pack("<Q", memory.add(array, formal.name))
    if isinstance(value, (bytes, np.generic)):
        return bytes(value) if isinstance(value, bytes) else value.tobytes()
    if formal.type.kind == "f":
        return np.array(value).astype(formal.type.dtype).tobytes()
    if isinstance(value, float):
        raise PtxLaunchError(
            f"`{formal.name}` is .{formal.type.name}", hint="pass a NumPy scalar of its type"
        )
    return (int(value) % (1 << formal.type.bits)).to_bytes(formal.type.size, "little")


def run_ptx(
    text: str,
    entry: str,
    block: bytes,
    grid: Size,
    workgroup: Size,
    arrays: Sequence[np.ndarray[Any, Any]],
    *,
    shared_bytes: int = 0,
    **checks: Any,
) -> Report:
    """Run an entry of PTX text as a device would: the runtime's way in.

    `block` is the kernel's argument block, little-endian, in which an array is passed as the
    address of its first byte on the host (`array.ctypes.data`); `arrays` are those arrays, and
    the kernel reads and writes them in place. Nothing outside them can be accessed. `checks`
    are those of `Machine.launch` (`races`, `uninitialised`, `cooperative`, `step_limit`).
    """
    memory = Memory()
    for number, array in enumerate(_apart(arrays)):
        memory.add(array, f"array {number}", address=int(array.ctypes.data))
    machine = Machine(parse(text))
    return machine.launch(entry, grid, workgroup, block, shared_bytes, memory, **checks)


def _apart(arrays: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """The arrays, those that share memory replaced by one array over all their bytes."""
    found: list[np.ndarray[Any, Any]] = []
    for array in sorted((a for a in arrays if a.size), key=lambda a: int(a.ctypes.data)):
        begin, end = int(array.ctypes.data), int(array.ctypes.data) + array.nbytes
        last = found[-1] if found else None
        if last is None or begin >= int(last.ctypes.data) + last.nbytes:
            found.append(array)
            continue
        start = int(last.ctypes.data)
        size = max(end, start + last.nbytes) - start
        whole = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(start))
        whole.flags.writeable = bool(last.flags.writeable or array.flags.writeable)
        found[-1] = whole
    return found
