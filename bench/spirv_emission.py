"""Times the emission of SPIR-V for a kernel of about 200 ops: `python bench/spirv_emission.py`."""

from __future__ import annotations

import time
from collections.abc import Callable

from hetir.backends.spirv import FLAVOURS, compile_kernel
from hetir.backends.spirv.emit import Emitter
from hetir.backends.spirv.targets import NAMES, resolve
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Param, Value, walk
from hetir.ir.types import F32, array
from hetir.passes.expand_arrays import expand_arrays
from hetir.passes.layout import layout_of
from hetir.passes.legalize import legalize


def kernel() -> Kernel:
    """A chain of float arithmetic between two loads and a store."""
    x, y = (Value(array(F32, 1), name) for name in "xy")
    b = Builder()
    i = b.value(ops.GLOBAL_ID, axis=0)
    v, w = (b.value(ops.LOAD, a, i) for a in (x, y))
    for number in range(48):
        v = b.value(ops.ADD, b.value(ops.MUL, v, w), v)
        w = b.value(ops.SUB, w, b.const(F32, number))
    b.emit(ops.STORE, y, i, b.value(ops.ADD, v, w))
    b.emit(ops.RETURN)
    params = (Param(x, (0,)), Param(y, (1,)))
    return Kernel(name="chain", params=params, body=b.region())


def best(run: Callable[[], object], repeats: int = 20) -> float:
    """The least time in milliseconds."""
    times: list[float] = []
    for _ in range(repeats):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return min(times) * 1e3


def main() -> None:
    """Print a line a flavour."""
    made = kernel()
    count = sum(1 for _ in walk(made.body))
    for target in NAMES:
        lowered = legalize(expand_arrays(made), resolve(target))
        layout = layout_of(lowered)

        def emit(target: str = target, lowered: Kernel = lowered) -> bytes:
            flavour = FLAVOURS[target](lowered, layout, None)  # noqa: B023
            return Emitter(lowered, resolve(target), flavour, layout).module()  # noqa: B023

        whole = best(lambda target=target: compile_kernel(made, target=target))
        print(f"{target}: {count} ops, emission {best(emit):.2f} ms, all {whole:.2f} ms")


if __name__ == "__main__":
    main()
