"""Microseconds a call of a PyTorch operator: hetir's beside a C++ extension's and torch's own.

    python -m bench.torch_call

All add a number to 16 elements. The C++ operator is compiled here with g++, where torch's headers
and the compiler allow it.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable

import torch

import hetir
import hetir.lang as hl
import hetir.torch

CALLS, ROUNDS = 2000, 7
SOURCE = """
#include <torch/library.h>
#include <ATen/ATen.h>
at::Tensor add_number(const at::Tensor &x, double by) {
  auto y = at::empty_like(x);
  const float *from = x.const_data_ptr<float>();
  float *to = y.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); i++) to[i] = from[i] + static_cast<float>(by);
  return y;
}
TORCH_LIBRARY(hetir_bench_cpp, m) { m.def("add(Tensor x, float by) -> Tensor"); }
TORCH_LIBRARY_IMPL(hetir_bench_cpp, CPU, m) { m.impl("add", add_number); }
"""


@hetir.kernel
def plus(x: hl.Array[hl.f32, 1], by: hl.f32, y: hl.Array[hl.f32, 1]) -> None:
    """y = x + by."""
    i = hl.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i] + by


def calls() -> dict[str, Callable[[torch.Tensor], object]]:
    """What is timed."""
    ours = hetir.torch.op(
        "hetir_bench::add",
        plus,
        outputs=lambda x, by: torch.empty_like(x),
        grid=lambda x, by: 1,
        workgroup=16,
    )

    @torch.library.custom_op("hetir_bench::python", mutates_args=())
    def python(x: torch.Tensor, by: float) -> torch.Tensor:
        return x + by

    found: dict[str, Callable[[torch.Tensor], object]] = {
        "torch's own `x + 1`": lambda x: x + 1.0,
        "a Python custom op around it": lambda x: python(x, 1.0),
        "hetir": lambda x: ours(x, 1.0),
    }
    try:
        from torch.utils.cpp_extension import load_inline

        with tempfile.TemporaryDirectory() as folder:
            load_inline("hetir_bench_cpp", SOURCE, is_python_module=False, build_directory=folder)
        add = torch.ops.hetir_bench_cpp.add
        found["a C++ custom op"] = lambda x: add(x, 1.0)
    except (OSError, RuntimeError, ImportError) as error:
        print(f"no C++ operator: {str(error).splitlines()[0]}")
    return found


def main() -> None:
    """Time all, interleaved, and print medians."""
    x = torch.ones(16)
    timed = calls()
    times: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(ROUNDS):
        for name, call in timed.items():
            for _ in range(50):
                call(x)
            start = time.perf_counter()
            for _ in range(CALLS):
                call(x)
            times[name].append((time.perf_counter() - start) / CALLS * 1e6)
    print("| operator | us a call, median | least |\n|---|---|---|")
    for name, all_ in times.items():
        print(f"| {name} | {statistics.median(all_):.2f} | {min(all_):.2f} |")


if __name__ == "__main__":
    main()
