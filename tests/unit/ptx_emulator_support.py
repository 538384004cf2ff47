"""Runs single PTX instructions on the emulator, and small kernels around them."""

from __future__ import annotations

import subprocess
from bisect import bisect_left
from fractions import Fraction

import ml_dtypes
import numpy as np

from hetir.backends.ptx.assembler import find
from hetir.emulator.ptx import Machine, parse

PTXAS = str(find("ptxas"))  # of the test extra
BF16 = np.dtype(ml_dtypes.bfloat16)
LETTERS = "abcefg"
USED: dict[str, tuple[str, str]] = {}
"""Every body that was executed, by its text: its target and whole PTX, for the assembler."""


def kernel(body: str, inputs: list[int], out: int, target: str = "sm_90", name: str = "k") -> str:
    """An entry: %a, %b, ... hold input elements of so many bits, %d is stored."""
    lines = [f".visible .entry {name}(.param .u64 out, .param .u32 n"]
    lines += [f", .param .u64 in{i}" for i in range(len(inputs))]
    lines += [") {", ".reg .pred %p<8>;", ".reg .b16 %h<8>;", ".reg .b32 %r<16>;"]
    lines += [".reg .b64 %x<16>;", f".reg .b{max(out, 16)} %d;"]
    lines += [f".reg .b{max(bits, 16)} %{LETTERS[i]};" for i, bits in enumerate(inputs)]
    lines += ["mov.u32 %r0, %ctaid.x;", "mov.u32 %r1, %ntid.x;", "mov.u32 %r2, %tid.x;"]
    lines += ["mad.lo.u32 %r0, %r0, %r1, %r2;", "ld.param.u32 %r1, [n];"]
    lines += ["setp.ge.u32 %p0, %r0, %r1;", "@%p0 ret;"]
    for i, bits in enumerate(inputs):
        lines += [f"ld.param.u64 %x0, [in{i}];", f"mad.wide.u32 %x1, %r0, {bits // 8}, %x0;"]
        lines += [f"ld.global.b{bits} %{LETTERS[i]}, [%x1];"]
    lines += [body, "ld.param.u64 %x0, [out];", f"mad.wide.u32 %x1, %r0, {out // 8}, %x0;"]
    lines += [f"st.global.b{out} [%x1], %d;", "ret;", "}"]
    return "\n".join(lines)


def module(text: str, target: str = "sm_90", version: str = "8.8") -> str:
    return f".version {version}\n.target {target}\n.address_size 64\n{text}\n"


def evaluate(body: str, *inputs, out, target: str = "sm_90") -> np.ndarray:
    """`body` computes %d from %a, %b, ... for each element of the inputs."""
    arrays = [np.ascontiguousarray(x) for x in np.broadcast_arrays(*inputs)]
    bits = [a.dtype.itemsize * 8 for a in arrays]
    dtype = np.dtype(out)
    text = kernel(body, bits, dtype.itemsize * 8)
    USED.setdefault(body, (target, text))
    result = np.zeros(len(arrays[0]), dtype)
    machine = Machine(parse(module(text, target)))
    count = len(result)
    machine.launch("k", -(-count // 64), 64, [result, count, *arrays])
    return result


def assemble(text: str, target: str) -> str:
    """What ptxas says to a module: an empty string when it takes it."""
    done = subprocess.run(
        [PTXAS, "-arch", target, "-o", "/dev/null", "-"],
        input=text, text=True, capture_output=True, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr if done.returncode else ""


def launch(text: str, grid, block, params, target: str = "sm_90", entry="k", **kw):
    return Machine(parse(module(text, target))).launch(entry, grid, block, params, **kw)


class Values:
    """All finite values of a format, to round fractions by search."""

    def __init__(self, dtype, bits: int) -> None:
        raw = np.arange(1 << bits).astype(f"u{bits // 8}").view(dtype)
        with np.errstate(all="ignore"):
            raw = raw.astype(np.float64)
        self.sorted = np.unique(np.abs(raw[np.isfinite(raw)]))
        self.exact = [Fraction(v) for v in self.sorted.tolist()]

    def nearest(self, x: Fraction) -> float:
        """Round to nearest, ties to even; beyond the largest by half a step is infinity."""
        size = abs(x)
        at = bisect_left(self.exact, size)
        if at == len(self.exact):
            step = self.exact[-1] - self.exact[-2]
            value = np.inf if size >= self.exact[-1] + step / 2 else self.sorted[-1]
        elif self.exact[at] == size:
            value = self.sorted[at]
        else:
            low, high = self.exact[at - 1], self.exact[at]
            below = size - low < high - size
            tie = size - low == high - size
            value = self.sorted[at - 1 if below or (tie and (at - 1) % 2 == 0) else at]
        return float(-value if x < 0 else value)


def bits_of(values, dtype) -> np.ndarray:
    return np.asarray(values, dtype)


def signed(x: int, bits: int) -> int:
    x %= 1 << bits
    return x - (1 << bits) if x >> (bits - 1) else x


def assemble_used() -> None:
    """NVIDIA's assembler takes every body that was executed: the tests invent no PTX."""
    bodies, complaints = list(USED.values()), []
    for target in sorted({target for target, _ in bodies}):
        texts = [text for wanted, text in bodies if wanted == target]
        named = [text.replace(".entry k(", f".entry k{i}(") for i, text in enumerate(texts)]
        complaints.append(assemble(module("\n".join(named), target), target))
    USED.clear()
    assert not any(complaints), "\n".join(complaints)[:2000]
