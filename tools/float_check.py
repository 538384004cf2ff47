"""Writes the module by which the OpenCL driver tries a device's arithmetic at first use.

Run `python tools/float_check.py`; a test holds the committed file to what this writes.
"""

from __future__ import annotations

from pathlib import Path

from hetir.backends.spirv import compile_kernel
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Param, Region, Value
from hetir.ir.types import F32, I64, array

OUTPUT = Path(__file__).parents[1] / "hetir" / "runtime" / "drivers" / "float_check.spv"


def kernel() -> Kernel:
    """quotient = x / y, root = sqrt(x), total = the sum of x * y in order, for each item."""
    x, y, quotient, root, total = (
        Value(array(F32, 1, strides=(1,)), n) for n in ("x", "y", "q", "r", "t")
    )
    b = Builder()
    item = b.value(ops.GLOBAL_ID, axis=0)
    one, two = (b.value(ops.LOAD, v, item) for v in (x, y))
    b.emit(ops.STORE, quotient, item, b.value(ops.DIV, one, two))
    b.emit(ops.STORE, root, item, b.value(ops.SQRT, one))
    count = b.value(ops.DIM, x, axis=0)
    index, carried = Value(I64), Value(F32)
    body = Builder()
    product = body.value(ops.MUL, *(body.value(ops.LOAD, v, index) for v in (x, y)))
    body.emit(ops.YIELD, body.value(ops.ADD, carried, product))
    loop = b.emit(
        ops.FOR,
        b.const(I64, 0),
        count,
        b.const(I64, 1),
        b.const(F32, 0),
        types=(F32,),
        regions=(Region((index, carried), tuple(body.body)),),
    )
    b.emit(ops.STORE, total, item, loop.result)
    b.emit(ops.RETURN)
    params = tuple(Param(v, (i,)) for i, v in enumerate((x, y, quotient, root, total)))
    return Kernel(name="float_check", params=params, body=b.region())


def module() -> bytes:
    """The module."""
    binary = compile_kernel(kernel(), target="spirv:opencl").binary
    assert binary is not None
    return binary


if __name__ == "__main__":
    OUTPUT.write_bytes(module())
