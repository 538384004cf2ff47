"""Registers and instructions of eight kernels, hetir's beside nvcc's; needs nvcc and nvdisasm.

Usage: python -m bench.nvidia_code [sm_90]. No GPU is needed. The hot loop is the longest
innermost loop of the machine code; a kernel without loops counts whole.
"""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hetir import compiler, library
from hetir.backends.ptx import assembler, compile_kernel
from hetir.frontend import parse_signature
from hetir.passes.simplify import simplify
from hetir.target import Assumptions

SOURCE = Path(__file__).parent / "native" / "kernels.cu"
VECTOR, MATRIX = "f32[::1]", "f32[:,::1]"
CASES = {
    "vector_add": (", ".join([VECTOR] * 3), (256, 1, 1)),
    "saxpy": (f"f32, {VECTOR}, {VECTOR}", (256, 1, 1)),
    "transpose": (f"{MATRIX}, {MATRIX}", (32, 8, 1)),
    "matmul": (", ".join([MATRIX] * 3), (16, 16, 1)),
    "histogram": ("u8[::1], i32[::1]", (256, 1, 1)),
    "jacobi": (f"{MATRIX}, {MATRIX}", (32, 8, 1)),
    "mandelbrot": ("i32[:,::1], i32", (16, 16, 1)),
    "sobel": (f"{MATRIX}, {MATRIX}", (16, 16, 1)),
}
# the library's own product computes several results a work-item, which the CUDA one does not
OWN = {"matmul": Path(__file__).parent / "kernels" / "matmul_16.py"}
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(.*?);")


def functions(sass: str) -> dict[str, list[str]]:
    """The instructions and labels of each function of a listing."""
    found: dict[str, list[str]] = {}
    body: list[str] = []
    for line in sass.splitlines():
        if match := re.match(r"\.text\.(?:hetir_kernel_)?(\w+):", line):
            body = found.setdefault(match[1], [])
        elif match := re.match(r"(\.L_x_\d+):", line):
            body.append(f"{match[1]}:")
        elif match := _INSTRUCTION.search(line):
            body.append(match[1])
    return found


def hot_loop(body: list[str]) -> int:
    """Instructions of the longest loop that holds no other loop; of all of it without loops."""
    labels = {line[:-1]: at for at, line in enumerate(body) if line.endswith(":")}
    loops: list[tuple[int, int]] = []
    for at, line in enumerate(body):
        target = re.search(r"BRA.*`\((\.L_x_\d+)\)", line)
        # a branch to itself pads the end of a function
        if target and labels.get(target[1], at) < at and not re.match(r"BRA `", line):
            loops.append((labels[target[1]], at))
    inner = [
        (a, b)
        for a, b in loops
        if not any(a <= c and d <= b and (a, b) != (c, d) for c, d in loops)
    ]
    if not inner:
        return sum(not line.endswith(":") and line != "NOP" for line in body) - 1
    return max(sum(not line.endswith(":") for line in body[a : b + 1]) for a, b in inner)


def registers(log: str) -> dict[str, int]:
    """What `ptxas -v` says of each entry."""
    pairs = re.findall(r"entry function '(?:hetir_kernel_)?(\w+)'.*?Used (\d+) reg", log, re.DOTALL)
    return {name: int(count) for name, count in pairs}


def by_nvcc(chip: str, folder: Path) -> tuple[dict[str, int], str]:
    """Registers and listing of the CUDA C kernels."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        sys.exit("nvcc is not here")
    out = folder / "kernels.cubin"
    command = [nvcc, "-O3", "-fmad=false", "-arch", chip, "-cubin", "-Xptxas", "-v"]
    done = subprocess.run(
        [*command, "-o", str(out), str(SOURCE)], capture_output=True, text=True, check=True
    )
    return registers(done.stderr), assembler.disassemble("", out.read_bytes(), chip)


def by_hetir(chip: str) -> tuple[dict[str, int], str]:
    """The same of hetir's kernels."""
    counts, listing = dict[str, int](), ""
    for name, (signature, workgroup) in CASES.items():
        own = OWN.get(name)
        kernel = getattr(library.load(own or library.folder() / f"{name}.py"), name)
        traced = compiler.record(kernel, parse_signature(signature))
        lowered = simplify(compiler.prepare(traced.module))
        made = compile_kernel(
            lowered,
            target=f"ptx:{chip}",
            workgroup=workgroup,
            assumptions=Assumptions(
                index_bits=32, disjoint=True, aligned=(True,) * len(lowered.params)
            ),
        )
        counts[name] = made.resources.registers or 0
        listing += assembler.disassemble(made.text, made.binary, chip)
    return counts, listing


def emission_ms(operations: int = 200) -> float:
    """Milliseconds from hetIR to PTX of a kernel of so many operations, once all is warm."""
    lines = ["v0 = x[i]"]
    lines += [f"v{k} = v{k - 1} * x[i + {k % 64}] + a" for k in range(1, operations // 5)]
    body = "".join(f"    {line}\n" for line in (*lines, f"y[i] = v{operations // 5 - 1}"))
    head = "import hetir, hetir.lang as hl\n\n@hetir.kernel\ndef generated(a, x, y):\n"
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "generated.py"
        file.write_text(f"{head}    i = hl.global_id(0)\n{body}")
        kernel = library.load(file).generated
        traced = compiler.record(kernel, parse_signature(f"f32, {VECTOR}, {VECTOR}"))
    lowered = simplify(compiler.prepare(traced.module))
    for _ in range(12):
        begun = time.process_time()
        compile_kernel(lowered, target="ptx:sm_90", binary=False)
        times.append(1e3 * (time.process_time() - begun))
    return min(times[2:])


def main() -> None:
    """Print the table."""
    chip = sys.argv[1] if len(sys.argv) > 1 else "sm_90"
    with tempfile.TemporaryDirectory() as folder:
        theirs, their_sass = by_nvcc(chip, Path(folder))
    ours, our_sass = by_hetir(chip)
    loops = [{n: hot_loop(b) for n, b in functions(s).items()} for s in (our_sass, their_sass)]
    print(f"{chip}, {assembler.version()}: hetir / nvcc -O3 -fmad=false\n")
    print("| kernel | registers | instructions of the hot loop |\n|---|---|---|")
    ratios: list[tuple[float, float]] = []
    for name in CASES:
        row = (ours[name], theirs[name], loops[0][name], loops[1][name])
        ratios.append((row[0] / row[1], row[2] / row[3]))
        print(f"| {name} | {row[0]} / {row[1]} | {row[2]} / {row[3]} |")
    medians = [statistics.median(column) for column in zip(*ratios, strict=True)]
    print(f"\nmedian ratio: registers {medians[0]:.2f}, instructions {medians[1]:.2f}")
    print(f"a kernel of 200 operations becomes PTX in {emission_ms():.1f} ms")


if __name__ == "__main__":
    main()
