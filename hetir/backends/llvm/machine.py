"""LLVM as a library: verify, optimise and emit; the only importer of llvmlite."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from hetir.diagnostics import CompileError


class InvalidCodeError(CompileError):
    """LLVM refuses the code that hetir wrote: a bug in hetir.

    Cause: no kernel should cause it. Fix: report it with the kernel.
    """

    code = "HET351"


_VECTORISED_LINES = 2500
_CALL_NUMBER = re.compile(r" // callseq \d+(, \d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What LLVM compiles for."""

    triple: str
    cpu: str
    features: str = ""
    relocation: str = "pic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One module compiled: the optimised IR and whatever was asked for."""

    ir: str
    binary: bytes | None = None
    assembly: str | None = None


def binding() -> Any:
    """`llvmlite.binding` with every target ready."""
    return _load()


@cache
def _load() -> Any:
    import llvmlite.binding as llvm  # pyright: ignore[reportMissingTypeStubs]

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


@cache
def host() -> Machine:
    """This machine's processor."""
    llvm = _load()
    flags: dict[str, bool] = dict(llvm.get_host_cpu_features())
    text = ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(flags.items()))
    triple = llvm.Target.from_default_triple().triple
    return Machine(triple=triple, cpu=llvm.get_host_cpu_name(), features=text)


def version() -> str:
    """LLVM's version."""
    return ".".join(map(str, _load().llvm_version_info))


def parse(text: str) -> Any:
    """Read and verify LLVM IR."""
    llvm = _load()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise InvalidCodeError(f"LLVM refuses the code that hetir wrote: {error}") from None
    return module


def compile_ir(
    text: str,
    machine: Machine,
    *,
    level: int,
    assembly: bool = False,
    optimised: bool = False,
    vectorise: bool = True,
    comments: bool = False,
) -> Output:
    """Verify `text`, optimise it at `level` 0 to 3 and emit an object (or assembly).

    `optimised` text has been through this once and is only emitted. Without `vectorise`,
    LLVM makes no vectors of its own. With `comments` LLVM writes in the assembly what it spills.
    """
    llvm = _load()
    module = parse(text)
    made = _machine(machine, level)
    module.triple, module.data_layout = machine.triple, str(made.target_data)
    if level and not optimised:
        tuning = llvm.create_pipeline_tuning_options(speed_level=level)
        # the time of LLVM's loop vectoriser grows with the square of a body's accesses
        short = text.count("\n") < _VECTORISED_LINES
        tuning.loop_vectorization = vectorise and level > 1 and short
        tuning.slp_vectorization = vectorise and level > 1
        builder = llvm.create_pass_builder(made, tuning)
        builder.getModulePassManager().run(module, builder)
    if assembly:
        made.set_asm_verbosity(comments)
        # the calls of PTX are numbered over the whole process: equal kernels would differ
        written = _CALL_NUMBER.sub("", made.emit_assembly(module))
        return Output(ir=str(module), assembly=written)
    return Output(ir=str(module), binary=made.emit_object(module))


@cache
def _machine(machine: Machine, level: int) -> Any:
    target = _load().Target.from_triple(machine.triple)
    return target.create_target_machine(
        cpu=machine.cpu,
        features=machine.features,
        opt=level,
        reloc=machine.relocation,
        codemodel="small",
    )
