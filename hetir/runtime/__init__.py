"""Devices, memory, queues, launches and the compilation cache.

For the layers above (`compiler`, `kernel`, `cli`), the calls in the order of a launch:

    values = tuple(map(as_operand, arguments))      # torch, DLPack, buffers -> numpy or Array
    program = device("cpu").load(artifact, names=("a", "x", "y"))     # once an artifact
    program.run(values, grid, workgroup)            # synchronous, the fast path
    launch = program.launch(values, grid=grid, workgroup=workgroup, queue=None, after=())
    launch.wait(timeout=None); launch.done; launch.arguments["y"]

`Packer(layout, device, names).pack(values, grid, workgroup)` gives the block of a launch, for
`block=`, and its facts, which say what code may assume of it.

`values` holds one entry a parameter, in order: a NumPy array, an `Array`, a number, or a
NamedTuple of these; `Slot.source` leads into it. `grid` and `workgroup` are an int or a tuple
of one to three. Arrays are checked against their slots (element type, rank, alignment,
writability), never converted. `as_operand` gives back what needs no conversion unchanged, so
a specialisation key can be made from its results: `ndarray` and `Array` both have `dtype`
(a NumPy dtype), `shape`, `strides` (bytes) and `ndim`.

`program.run(..., records=Records(size, finish))` and `launch(..., records=...)` pass the
hidden buffer of print and assert: `finish(data)` is called once, with the bytes that the
kernel wrote, by the wait that ends the launch; an error that it raises belongs to the launch.

The evaluator is handed over as a device, once, at import:

    register("emulator", lambda: [EmulatorDriver(evaluate)])
    evaluate(artifact, values, grid, workgroup, records, stop)

with `values` in the order of the layout's slots (NumPy arrays that alias the caller's, and
NumPy scalars), grid and workgroup three ints each, `records` a writable uint8 array or None,
`stop()` true when the launch should end early. It raises what the launch should raise.

    devices(), device(name), absent()               # what is here, and why the rest is not
    array(x, device=), empty(shape, dtype, device=), zeros(...)       # Array: numpy(), to(), DLPack
    from_dlpack(x)                                                    # an Array over its memory
    with Graph() as graph: ...; plan = graph.instantiate(); plan.update(0, a=1.0); plan.replay()
    cache(): Cache.load(key), Cache.store(key, data), Cache.make(key, make) -> bytes
    encode(artifact) -> bytes, decode(data) -> Artifact               # what the cache holds
"""

from hetir.runtime.arrays import Array
from hetir.runtime.cache import Cache, cache
from hetir.runtime.device import Device, Queue
from hetir.runtime.driver import (
    Absent,
    Driver,
    DriverAbsentError,
    DriverError,
    Event,
    Portrait,
    Records,
)
from hetir.runtime.drivers.emulator import EmulatorDriver
from hetir.runtime.drivers.ptx_emulator import Execute, PtxEmulatorDriver
from hetir.runtime.errors import (
    ArgumentError,
    DeviceError,
    LaunchFailedError,
    LaunchTimeoutError,
    OutOfMemoryError,
)
from hetir.runtime.graph import Graph, Node, Plan, Ready, Replay, capturing
from hetir.runtime.launch import Launch
from hetir.runtime.locks import ForkSafeLock
from hetir.runtime.operands import as_operand
from hetir.runtime.pack import MEETS, WIDE, Packer, aligned_bit, launcher
from hetir.runtime.program import Program
from hetir.runtime.registry import (
    absent,
    array,
    device,
    devices,
    empty,
    from_dlpack,
    register,
    zeros,
)
from hetir.runtime.slots import host_slots
from hetir.runtime.staging import snapshot
from hetir.runtime.store import decode, encode

__all__ = [
    "MEETS",
    "WIDE",
    "Absent",
    "ArgumentError",
    "Array",
    "Cache",
    "Device",
    "DeviceError",
    "Driver",
    "DriverAbsentError",
    "DriverError",
    "EmulatorDriver",
    "Event",
    "Execute",
    "ForkSafeLock",
    "Graph",
    "Launch",
    "LaunchFailedError",
    "LaunchTimeoutError",
    "Node",
    "OutOfMemoryError",
    "Packer",
    "Plan",
    "Portrait",
    "Program",
    "PtxEmulatorDriver",
    "Queue",
    "Ready",
    "Records",
    "Replay",
    "absent",
    "aligned_bit",
    "array",
    "as_operand",
    "cache",
    "capturing",
    "decode",
    "device",
    "devices",
    "empty",
    "encode",
    "from_dlpack",
    "host_slots",
    "launcher",
    "register",
    "snapshot",
    "zeros",
]
