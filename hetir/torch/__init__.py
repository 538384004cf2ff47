"""Kernels as PyTorch operators: `hetir.torch.op` on torch.library.

An operator takes the kernel's parameters in order, but for the last ones, which are its outputs.
It has implementations for the CPU and for CUDA (on torch's current stream, without waiting), a
shape function for `torch.compile` and `torch.export`, and where they are given a backward, a rule
for `vmap` and one for autocast.
"""

from hetir.torch.elementwise import kernel_from
from hetir.torch.operator import Operator, OperatorError, TensorError
from hetir.torch.registration import op

__all__ = ["Operator", "OperatorError", "TensorError", "kernel_from", "op"]
