"""What a driver needs to know of a SPIR-V module before it hands it to a vendor's compiler.

Vendors' compilers were seen to end the process over a malformed module, so that what is no
module, is not valid, or lacks the entry point, is refused here.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from hetir import spirv_tools
from hetir.runtime.driver import DriverError

_MAGIC = 0x07230203
_HEADER_WORDS = 5
_OP_CAPABILITY, _OP_ENTRY_POINT = 17, 15
_OP_SPEC_CONSTANT_TRUE, _OP_SPEC_CONSTANT_FALSE = 48, 49
_OP_SELECTION_MERGE, _OP_LABEL, _OP_CONTROL_BARRIER = 247, 248, 224
_OP_EXT_INST, _OPENCL_FMA = 12, 26
_OP_EXECUTION_MODE, _OP_LOOP_MERGE = 16, 246
_CAPABILITIES = {
    9: "Float16",
    10: "Float64",
    11: "Int64",
    12: "Int64Atomics",
    22: "Int16",
    39: "Int8",
    58: "SubgroupDispatch",
    65: "GroupNonUniformShuffle",
    4433: "StorageBuffer16BitAccess",
    4448: "StorageBuffer8BitAccess",
    5346: "VulkanMemoryModelDeviceScope",
    6033: "AtomicFloat32AddEXT",
    6034: "AtomicFloat64AddEXT",
}
_MODES = {4459: "DenormPreserve", 4461: "SignedZeroInfNanPreserve", 4462: "RoundingModeRTE"}
_MODE_CAPABILITIES = {
    "DenormPreserve": 4464,
    "SignedZeroInfNanPreserve": 4466,
    "RoundingModeRTE": 4467,
}


Instruction = tuple[int, int, int]


class Listing(NamedTuple):
    """The entry points and the capabilities of a module; whether it loops, or calls `fma`.

    `branches` says that a barrier stands in a branch.
    """

    entries: frozenset[str]
    capabilities: Mapping[int, str]
    loops: bool
    fuses: bool
    branches: bool


def _instructions(binary: bytes) -> Iterator[Instruction]:
    """The word at which each instruction starts, its count of words and its opcode.

    Raises DriverError for what is no module.
    """
    if len(binary) % 4 or len(binary) < 4 * _HEADER_WORDS:
        raise DriverError("SPIR-V", 0, "the code is no SPIR-V module")
    words = struct.unpack(f"<{len(binary) // 4}I", binary)
    if words[0] != _MAGIC:
        raise DriverError("SPIR-V", 0, "the code is no SPIR-V module")
    at = _HEADER_WORDS
    while at < len(words):
        count, opcode = words[at] >> 16, words[at] & 0xFFFF
        if not count or at + count > len(words):
            raise DriverError("SPIR-V", 0, f"the module is damaged at word {at}")
        yield at, count, opcode
        at += count


def listing(binary: bytes, environment: str = "") -> Listing:
    """Read a module, validated where the validator is here. Raises DriverError for what is none.

    `environment` is one of `hetir.spirv_tools`; that of the module's version if left out.
    """
    entries: set[str] = set()
    capabilities: dict[int, str] = {}
    loops = fuses = branches = False
    merges: list[int] = []  # the blocks where the branches around end
    for at, count, opcode in _instructions(binary):
        loops |= opcode == _OP_LOOP_MERGE
        if opcode == _OP_CAPABILITY:
            (number,) = struct.unpack_from("<I", binary, 4 * at + 4)
            capabilities[number] = _CAPABILITIES.get(number, f"capability {number}")
        elif opcode == _OP_EXT_INST:
            fuses |= struct.unpack_from("<I", binary, 4 * at + 16) == (_OPENCL_FMA,)
        elif opcode == _OP_SELECTION_MERGE:
            merges += struct.unpack_from("<I", binary, 4 * at + 4)
        elif opcode == _OP_LABEL and merges:
            if struct.unpack_from("<I", binary, 4 * at + 4) == (merges[-1],):
                merges.pop()
        elif opcode == _OP_CONTROL_BARRIER:
            branches |= bool(merges)
        elif opcode == _OP_ENTRY_POINT:
            data = binary[4 * (at + 3) : 4 * (at + count)]
            entries.add(data.partition(b"\0")[0].decode(errors="replace"))
    complaint = spirv_tools.complaint(binary, environment or f"spv{binary[6]}.{binary[5]}")
    if complaint:
        raise DriverError("SPIR-V", 0, f"the module is not valid: {complaint}")
    return Listing(frozenset(entries), capabilities, loops, fuses, branches)


def switched_on(binary: bytes) -> bytes:
    """The module with its boolean specialisation constants true.

    Changed here, because only some devices take them with OpenCL's own call.
    """
    changed = bytearray(binary)
    for at, count, opcode in _instructions(binary):
        if opcode == _OP_SPEC_CONSTANT_FALSE:
            struct.pack_into("<I", changed, 4 * at, count << 16 | _OP_SPEC_CONSTANT_TRUE)
    return bytes(changed)


def without(binary: bytes, modes: Collection[tuple[str, int]]) -> bytes:
    """The module without some modes of floats, each a name and a width in bits.

    A capability goes when no width has its mode any more.
    """
    kept: set[str] = set()
    dropped: list[tuple[int, int]] = []
    for at, count, opcode in _instructions(binary):
        if opcode == _OP_EXECUTION_MODE:
            _, mode, *rest = struct.unpack_from(f"<{count - 1}I", binary, 4 * at + 4)
            name = _MODES.get(mode, "")
            if name and (name, rest[0]) in modes:
                dropped.append((at, count))
            elif name:
                kept.add(name)
    idle = {number for name, number in _MODE_CAPABILITIES.items() if name not in kept}
    for at, count, opcode in _instructions(binary):
        if opcode == _OP_CAPABILITY:
            (number,) = struct.unpack_from("<I", binary, 4 * at + 4)
            if number in idle:
                dropped.append((at, count))
    left = bytearray(binary)
    for at, count in sorted(dropped, reverse=True):
        del left[4 * at : 4 * (at + count)]
    return bytes(left)
