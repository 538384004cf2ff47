"""The machine code of what synchronises: which instructions, in which order, by nvdisasm.

The golden files hold the synchronising instructions of each kernel without operands: what NVIDIA's
assembler of CUDA 13 makes of the orders and scopes that the backend wrote.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import hetir
from hetir import compiler
from hetir.backends.ptx import assembler, compile_kernel
from hetir.frontend import parse_signature
from hetir.passes.simplify import simplify
from hetir.target import Assumptions
from tests.unit import weak_kernels
from tests.unit.ptx_support import CHIPS, merged

pytestmark = [
    pytest.mark.skipif(
        assembler.find("nvdisasm") is None,
        reason="no nvdisasm: pip install nvidia-cuda-nvdisasm",
    ),
]
MAKERS = {
    name: maker
    for name, maker in inspect.getmembers(weak_kernels, inspect.isfunction)
    if maker.__module__ == weak_kernels.__name__ and not name.startswith("_")
}
_SYNCHRONISES = re.compile(r"^(?:MEMBAR|ERRBAR|CCTL|ATOM|RED|BAR|WARPSYNC|VOTE|.*STRONG)")


def opcodes(listing: str) -> list[str]:
    """The opcodes of a listing, without predicates and operands."""
    found = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z][\w.]*)", listing)
    return [opcode for opcode in found if _SYNCHRONISES.match(opcode)]


def text_of(source: hetir.Kernel, chip: str) -> str:
    """A kernel on arrays of i32, as the launch path compiles it."""
    signature = ", ".join(["i32[::1]"] * len(source.parameters))
    traced = compiler.record(source, parse_signature(signature))
    kernel = simplify(compiler.prepare(traced.module))
    promised = Assumptions(index_bits=32, disjoint=True)
    return compile_kernel(kernel, target=f"ptx:{chip}", binary=False, assumptions=promised).text


@pytest.mark.parametrize("chip", ["sm_75", "sm_90"])
def test_golden_of_each_synchronising_kernel(chip: str, golden: Any) -> None:
    if not assembler.version().startswith("ptxas 13."):
        pytest.skip(f"the golden files are those of ptxas 13, this is {assembler.version()}")
    texts = [text_of(maker(), chip) for maker in MAKERS.values()]
    bodies = sections(assembler.disassemble(merged(texts, chip), None, chip))
    for number, name in enumerate(MAKERS):
        lines = opcodes(bodies[f"hetir_kernel_kernel_{number}"])
        golden.check(f"ptx/sync/{name}.{chip}.sass", "\n".join([*lines, ""]))


def sections(listing: str) -> dict[str, str]:
    """The code of each entry of a listing."""
    return dict(re.findall(r"\.text\.(\w+):\n(.*?)(?=\n\.text|\Z)", listing, re.DOTALL))


# what each PTX instruction must become, of NVIDIA's documented memory model and seen in every
# generation; the release's part before, the acquire's part behind the access
FORMS = {
    "fence.acq_rel.gpu;": [r"MEMBAR\.ALL\.GPU", r"ERRBAR", r"CCTL\.IVALL"],
    "fence.sc.gpu;": [r"MEMBAR\.SC\.GPU", r"ERRBAR", r"CCTL\.IVALL"],
    "fence.sc.sys;": [r"MEMBAR\.SC\.SYS", r"ERRBAR", r"CCTL\.IVALL"],
    "ld.acquire.gpu.global.u32 %r1, [%rd1];": [r"LD\w*\..*STRONG\.GPU", r"CCTL\.IVALL"],
    "st.release.gpu.global.u32 [%rd1], %r2;": [r"MEMBAR\.ALL\.GPU", r"ST\w*\..*STRONG\.GPU"],
    "atom.acq_rel.gpu.global.add.u32 %r1, [%rd1], %r2;": [
        r"MEMBAR\.ALL\.GPU",
        r"ATOM.*STRONG\.GPU",
        r"CCTL\.IVALL",
    ],
}


@pytest.mark.parametrize("chip", CHIPS)
def test_each_order_is_executed(chip: str) -> None:
    entries = "".join(
        f".visible .entry k{n}(.param .u64 p) {{\n.reg .b32 %r<4>; .reg .b64 %rd<4>;\n"
        "ld.param.u64 %rd1, [p]; mov.u32 %r2, %tid.x;\n"
        f"{text}\nst.global.u32 [%rd1+4], %r1;\nret;\n}}\n"
        for n, text in enumerate(FORMS)
    )
    # what is read is written, or the assembler drops it
    entries = entries.replace("ld.param.u64 %rd1", "mov.u32 %r1, 7; ld.param.u64 %rd1")
    version = "9.0" if chip in ("sm_100", "sm_120") else "8.0"
    head = f".version {version}\n.target {chip}\n.address_size 64\n"
    listing = assembler.disassemble(head + entries, None, chip)
    bodies = sections(listing)
    for number, wanted in enumerate(FORMS.values()):
        found = opcodes(bodies[f"k{number}"])
        at = 0
        for pattern in wanted:
            places = [n for n in range(at, len(found)) if re.match(pattern, found[n])]
            assert places, (list(FORMS)[number], pattern, found)
            at = places[0] + 1
