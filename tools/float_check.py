"""Writes the modules by which drivers try a device's arithmetic at first use.

Run `python tools/float_check.py`; a test holds the committed files to what this writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hetir.backends.spirv import compile_kernel
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Param, Region, Value
from hetir.ir.types import F32, F64, I64, Scalar, array

FOLDER = Path(__file__).parents[1] / "hetir" / "runtime" / "drivers"


def kernel(kind: Scalar) -> Kernel:
    """quotient = x / y, root = sqrt(x), total = the sum of x * y in order, for each item."""
    names = ("x", "y", "quotient", "root", "total")
    arrays = [Value(array(kind, 1, strides=(1,)), name) for name in names]
    x, y, quotient, root, total = arrays
    b = Builder()
    item = b.value(ops.GLOBAL_ID, axis=0)
    one, two = (b.value(ops.LOAD, v, item) for v in (x, y))
    b.emit(ops.STORE, quotient, item, b.value(ops.DIV, one, two))
    b.emit(ops.STORE, root, item, b.value(ops.SQRT, one))
    bounds = b.const(I64, 0), b.value(ops.DIM, x, axis=0), b.const(I64, 1)
    index, carried, body = Value(I64), Value(kind), Builder()
    product = body.value(ops.MUL, *(body.value(ops.LOAD, v, index) for v in (x, y)))
    body.emit(ops.YIELD, body.value(ops.ADD, carried, product))
    region = Region((index, carried), tuple(body.body))
    loop = b.emit(ops.FOR, *bounds, b.const(kind, 0), types=(kind,), regions=(region,))
    b.emit(ops.STORE, total, item, loop.result)
    b.emit(ops.RETURN)
    params = tuple(Param(v, (i,)) for i, v in enumerate(arrays))
    return Kernel(name="float_check", params=params, body=b.region())


def modules() -> Iterator[tuple[Path, bytes]]:
    """Each file and what belongs there."""
    for flavour in ("opencl", "vulkan"):
        for kind in (F32, F64):
            binary = compile_kernel(kernel(kind), target=f"spirv:{flavour}").binary
            assert binary is not None
            yield FOLDER / f"float_check.{flavour}.{kind}.spv", binary


if __name__ == "__main__":
    for path, content in modules():
        path.write_bytes(content)
