"""The binary form: exact round trips, the bytes that the page states, no harm from bad bytes."""

import random
import tracemalloc

import pytest

from hetir.ir import ops
from hetir.ir.binary import MAGIC, BinaryError, BinaryVersionError, decode, encode
from hetir.ir.build import IllFormedError
from hetir.ir.core import Kernel, Module, Operation, Region, Value
from hetir.ir.text import parse_module, print_module
from hetir.ir.types import F32
from hetir.ir.verify import faults
from tests.property.random_ir import random_module
from tests.unit.test_ir_text import EXAMPLE, same

# docs/ir-binary.md, "An example", byte for byte
SMALL = "hetir 1\n\nkernel k(%a: f32 from 0) {\n  %b: f32 = neg %a\n  return\n}\n"
SMALL_BYTES = bytes.fromhex(
    "93 48 49 52  01 00 01"  # magic, layout 1.0, hetIR 1
    "07  00  01 6b  03 66 33 32  01 61  03 6e 65 67  01 62  06 72 65 74 75 72 6e"  # strings
    "01  00 02"  # types: the scalar `f32`
    "00"  # locations
    "00"  # functions
    "01  01 00"  # kernels: `k`, no location
    "01  00 03 00 00"  # parameters: f32, `a`, position 0, no fields
    "00"  # options
    "00 02"  # the body: no arguments, two operations
    "04 00  01 00  01 00 05  00 00"  # neg of the value 0 back; one result: f32, `b`
    "06 00  00 00 00 00"  # return
)


def test_the_bytes_of_the_page():
    assert encode(parse_module(SMALL)) == SMALL_BYTES
    assert print_module(decode(SMALL_BYTES)) == SMALL


def test_round_trips():
    sizes = [0, 0]
    for module in (parse_module(EXAMPLE), *map(random_module, range(100))):
        data = encode(module)
        back = decode(data)
        assert same(module, back)
        assert print_module(back) == print_module(module)
        assert encode(back) == data
        sizes[0] += len(data)
        sizes[1] += len(print_module(module).encode("utf-8", "replace"))
    assert sizes[0] < 0.6 * sizes[1]


def test_an_undefined_operand_is_refused():
    neg = Operation(ops.NEG, (Value(F32),), (Value(F32),))
    body = Region((), (neg, Operation(ops.RETURN)))
    with pytest.raises(IllFormedError, match="not defined before its use"):
        encode(Module(kernels=(Kernel(name="k", params=(), body=body),)))


def test_newer_versions_are_refused_with_the_reason():
    rest = SMALL_BYTES[7:]
    with pytest.raises(BinaryVersionError, match="layout 2 is newer than 1"):
        decode(MAGIC + b"\x02\x00\x01" + rest)
    with pytest.raises(BinaryVersionError, match="layout 300 is newer than 1"):
        decode(MAGIC + b"\xac\x02\x00\x01")
    with pytest.raises(BinaryVersionError, match="hetIR 2 is newer than 1"):
        decode(MAGIC + b"\x01\x00\x02" + rest)
    assert BinaryVersionError.code == "HET121"


def test_a_newer_minor_version_may_append():
    assert print_module(decode(MAGIC + b"\x01\x01\x01" + SMALL_BYTES[7:] + b"more")) == SMALL
    with pytest.raises(BinaryError, match="more bytes than the module has"):
        decode(SMALL_BYTES + b"\0")


BAD = [
    (b"", "this is not hetIR"),
    (b"\x7fELF", "this is not hetIR"),
    (MAGIC, "the data ends in the middle"),
    (MAGIC + b"\x01\x00\x00", "versions count from 1"),
    (MAGIC + b"\x81\x00", "an integer ends in a byte 0"),
    (MAGIC + b"\xff" * 20, "an integer has more than 10 bytes"),
    (MAGIC + b"\x01\x00\x01\xff\xff\xff\xff\x7f", "34359738367 items cannot be in the bytes"),
    (MAGIC + b"\x01\x00\x01\x01\x05ab", "5 items cannot be in the bytes that are left"),
    (MAGIC + b"\x01\x00\x01\x01\x01\xff", "a string is not UTF-8"),
    (MAGIC + b"\x01\x00\x01\x00\x01\x07", "there is no kind 7 of types"),
    (MAGIC + b"\x01\x00\x01\x00\x01\x00\x00", "entry 0 of a table of 0"),
    (MAGIC + b"\x01\x00\x01\x01\x01x\x01\x00\x00", "unknown scalar type `x`"),
    (MAGIC + b"\x01\x00\x01\x01\x01x\x01\x02\x00", "unknown space `'x'`"),
    (MAGIC + b"\x01\x00\x01\x01\x01x\x00\x01\x00\x01\x01\x00\x00\x02", "before its caller"),
    (SMALL_BYTES.replace(b"\x03neg", b"\x03ngg"), "this hetir has no op `ngg`"),
    (SMALL_BYTES.replace(b"\x04\x00\x01\x00\x01", b"\x04\x00\x01\x01\x01"), "before the first"),
]


@pytest.mark.parametrize(("data", "message"), BAD)
def test_bad_bytes(data, message):
    with pytest.raises(BinaryError) as caught:
        decode(data)
    assert message in caught.value.message
    assert "byte " in caught.value.message


def survives(data):
    """Decoding gives a module or a BinaryError, and nothing else."""
    try:
        module = decode(data)
    except BinaryError:
        return None
    return module


def test_every_prefix_and_every_changed_byte():
    data = encode(parse_module(EXAMPLE))
    assert all(survives(data[:size]) is None for size in range(len(data)))
    for at in range(len(data)):
        for new in (0, 1, 0x7F, 0x80, 0xFF, data[at] ^ 1, data[at] ^ 0x40):
            module = survives(data[:at] + bytes([new]) + data[at + 1 :])
            if module is not None:
                once = print_module(module)
                if not faults(module):
                    assert print_module(parse_module(once)) == once


def mutated(rng, seeds):
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0:
                data[at : at + 1] = rng.randbytes(1)
            case 1:
                data[at : at + 1] = (
                    bytes([data[at] ^ 1 << rng.randrange(8)]) if at < len(data) else b""
                )
            case 2:
                data[at:] = b""
            case 3:
                data[at:at] = rng.randbytes(rng.choice((1, 2, 8)))
            case _:
                other = rng.choice(seeds)
                data[at:] = other[rng.randrange(len(other)) :]
    return bytes(data)


def fuzz(count, seed):
    rng = random.Random(seed)
    seeds = sorted((encode(random_module(n, 3)) for n in range(60)), key=len)[:40]
    read = 0
    for _ in range(count):
        module = survives(mutated(rng, seeds))
        if module is not None:
            read += 1
            if read % 20 == 0:
                faults(module)
                print_module(module)
    return read


def test_a_hundred_thousand_mutated_files():
    assert fuzz(100_000, 1) > 1000


@pytest.mark.slow
def test_a_million_mutated_files():
    assert fuzz(1_000_000, 2) > 10_000


def test_memory_stays_in_proportion():
    rng = random.Random(3)
    seeds = [encode(random_module(n, 30)) for n in range(10)]
    largest = max(map(len, seeds))
    sizes = b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
    tracemalloc.start()
    for _ in range(300):
        data = mutated(rng, seeds)
        at = rng.randrange(7, len(data) + 8)
        survives(data[:at] + sizes + data[at:])
        survives(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 500 * largest


def test_deep_bytes_are_refused():
    strings = b"\x03\x00\x04loop\x06return"
    head = MAGIC + b"\x01\x00\x01" + strings + b"\x00\x00\x00\x01" + b"\x00" * 4 + b"\x00\x01"
    loop = b"\x01\x00\x00\x00\x00\x01" + b"\x00\x01"
    with pytest.raises(BinaryError, match="nested deeper"):
        decode(head + loop * 1000)
    shallow = head + loop * 100 + b"\x02\x00\x00\x00\x00\x00"
    assert print_module(decode(shallow)).count("loop") == 100
