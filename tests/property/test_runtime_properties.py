"""Random arguments, launches, keys and files: what the runtime may never mix up.

Each property is stated by NumPy, by C's struct, or by a model of a few lines.
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import replace
from random import Random

import numpy as np

import hetir
import hetir.lang as hl
from hetir import compiler, hetbin, runtime, testing
from hetir.artifact import Layout, Slot
from hetir.checkpoint import file as checkpoint_file
from hetir.diagnostics import HetirError
from hetir.hetbin.model import Parameter, axes_of
from hetir.ir.binary import encode as encode_module
from hetir.ir.canonical import content_hash
from hetir.ir.core import Kernel, Module, walk
from hetir.ir.types import SCALARS
from hetir.passes.layout import layout_of
from hetir.runtime.cache import Cache
from hetir.runtime.dtypes import NUMPY
from hetir.runtime.hazards import IN_FLIGHT
from hetir.runtime.pack import Packer
from hetir.target import Assumptions
from tests.property.expressions import expression

ONE = (1, 1, 1)


def cut(random: Random, array):
    """A part of an array: whole axes, pieces, steps, backwards."""
    slices = []
    for extent in array.shape:
        low, high = sorted((random.randrange(extent + 1), random.randrange(extent + 1)))
        step = random.choice((1, 1, 2, -1, -2))
        part = slice(low, high) if step > 0 else slice(high - 1 if high else None, None, step)
        slices.append(random.choice((slice(None), part, part)))
    return array[tuple(slices)]


# ---- the argument block ------------------------------------------------------------------------


def test_blocks_hold_what_c_expects():
    """Scalars in their width at multiples of it; address, extents and byte strides of arrays."""
    for seed in range(60):
        random = Random(f"block {seed}")
        case = testing.generate(random.randrange)
        arguments = case.arguments()
        layout = layout_of(case.kernel)
        block = Packer(layout, runtime.device("cpu")).block(arguments)
        offset = 0
        for argument, given in zip(arguments, case.inputs, strict=True):
            size = given.kind.numpy.itemsize
            align = size if given.extents is None else 8
            offset += -offset % align
            if given.extents is None:
                assert block[offset : offset + size] == np.asarray(argument).tobytes()
                offset += size
                continue
            address = argument.__array_interface__["data"][0]
            words = address, *argument.shape, *argument.strides
            wanted = struct.pack(f"<Q{2 * argument.ndim}q", *words)
            assert block[offset : offset + len(wanted)] == wanted, f"seed {seed}"
            offset += len(wanted)
        assert len(block) == offset + -offset % 16


def test_scalars_are_rounded_once():
    """Python numbers become the nearest value of a float type, as NumPy's own conversion has it."""
    for seed in range(400):
        random = Random(f"scalar {seed}")
        name = random.choice(("f16", "f32", "f64"))
        value = random.choice((1, -1)) * random.uniform(0.5, 2) * 2.0 ** random.randrange(-30, 15)
        if random.random() < 0.5:  # beside a tie
            kind = np.float16 if name == "f16" else np.float32
            near = kind(value)
            tie = (float(near) + float(np.nextafter(near, kind(np.inf)))) / 2
            value = np.nextafter(tie, tie + random.choice((-1, 0, 1)))
        with np.errstate(over="ignore"):
            wanted = NUMPY[name].type(value).tobytes()
        slot = Slot(offset=0, source=(0,), dtype=name, ndim=None, reads=True, writes=False)
        packer = Packer(Layout(slots=(slot,), size=16), runtime.device("cpu"))
        assert packer.block((float(value),))[: len(wanted)] == wanted, (name, value)


# ---- launches in flight ------------------------------------------------------------------------


@hetir.kernel
def add_into(x: hl.Array[hl.i64, 1], y: hl.Array[hl.i64, 1]):
    i = hl.global_id(0)
    if i < y.shape[0] and i < x.shape[0]:
        y[i] = y[i] * 3 + x[i]


@hetir.kernel
def busy(z: hl.Array[hl.i64, 1], turns: hl.i64):
    for _ in range(turns):
        z[0] = z[0] * 3 + 1


def test_launches_follow_those_that_they_meet(monkeypatch):
    """Of other queues: every earlier one that shares bytes with it, if either writes them."""
    device = runtime.device("cpu")
    followed = []
    launch = device.driver.launch

    def spy(queue, task, after=()):
        followed.append(list(after))
        return launch(queue, task, after)

    monkeypatch.setattr(device.driver, "launch", spy)
    orders = 0
    for seed in range(25):
        random = Random(f"launches {seed}")
        room = np.arange(24, dtype=np.int64)
        expected, queues = room.copy(), [device.queue() for _ in range(3)]
        before = []  # queue, arrays and launch
        for queue in queues:  # what is launched next waits, and so is in flight for a while
            z = np.zeros(1, np.int64)
            _, program = busy.program((z, 2_000_000), "cpu", (1, 1, 1), ONE)
            program.launch((z, 2_000_000), grid=1, workgroup=1, queue=queue)
        for _ in range(random.randrange(2, 7)):
            count, step = random.randrange(1, 12), random.choice((1, 1, -1))
            parts = [slice(0, 12), slice(12, 24)]
            random.shuffle(parts)
            starts = [p.start + random.randrange(13 - count) for p in parts]
            (x, y), (source, target) = (
                [whole[n : n + count][::step] for n in starts] for whole in (room, expected)
            )
            target[:] = target * 3 + source
            queue = random.choice(queues)
            _, program = add_into.program((x, y), "cpu", (16, 1, 1), ONE)
            flying = IN_FLIGHT.of(device)
            run = program.launch((x, y), grid=1, workgroup=16, queue=queue)
            for number, (mine, theirs, earlier) in enumerate(before):
                pairs = [(a, b) for a in theirs for b in (x, y) if a is theirs[1] or b is y]
                meets = any(np.may_share_memory(a, b) for a, b in pairs)
                if meets and mine is not queue and earlier in flying:
                    orders += 1
                    enough = [r.event for q, _, r in before[number:] if q is mine]
                    assert any(event in followed[-1] for event in enough), f"seed {seed}"
            before.append((queue, (x, y), run))
        device.wait()
        assert (room == expected).all(), f"seed {seed}"
    assert orders > 20
    assert IN_FLIGHT.of(device) == []


def test_footprints_are_the_bytes_that_numpy_bounds():
    two = np.zeros(4, np.int64), np.ones(4, np.int64)
    _, program = add_into.program(two, "cpu", (16, 1, 1), ONE)
    for seed in range(200):
        random = Random(f"footprints {seed}")
        room = np.zeros(30, np.int64)
        one, two = cut(random, room), cut(random, room)
        (_, a), (b, _) = program.footprints((two, one)), program.footprints((two, one))
        assert a.writes
        assert not b.writes
        assert a.meets(b) == np.may_share_memory(one, two), f"seed {seed}"
        assert not b.meets(a._replace(writes=False))


def test_views_of_device_arrays_are_numpys():
    device = runtime.device("cpu")
    for seed in range(150):
        random = Random(f"views {seed}")
        shape = tuple(random.randrange(1, 6) for _ in range(random.randrange(1, 4)))
        host = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
        there, here = device.array(host), host
        for _ in range(2):
            state = random.getstate()
            here = cut(random, here)
            random.setstate(state)
            there = cut(random, there)
        assert there.shape == here.shape
        assert (there.numpy() == here).all(), f"seed {seed}"


# ---- what a kernel is compiled for -------------------------------------------------------------


@hetir.kernel
def scaled(a, x, y):
    i = hl.global_id(0)
    if i < y.shape[0]:
        y[i] = a * x[i] + y[i]


def test_calls_in_any_order_compute_their_own_arguments():
    """One kernel, called with arguments of all kinds after each other: nothing is left of a
    call that looked alike."""
    dtypes = (np.float32, np.float64, np.int32, np.int64, np.uint32, np.int8)
    for seed in range(60):
        random = Random(f"calls {seed % 30}")
        kind = random.choice(dtypes)
        count = random.randrange(1, 40)
        room = np.random.default_rng(seed).integers(0, 5, 3 * count + 8).astype(kind)
        offset = random.randrange(4)
        x = room[offset : offset + count][:: random.choice((1, -1))]
        shared = seed >= 30
        start = offset if shared and random.random() < 0.5 else offset + count
        y = room[start : start + count][:: random.choice((1, -1))]
        if start == offset and (x.strides != y.strides or x.ctypes.data != y.ctypes.data):
            continue  # work-items would race
        a = random.choice((2, np.int32(3), 2.0)) if np.dtype(kind).kind == "f" else 3
        wanted = (a * x.astype(np.float64) + y).astype(kind)
        items = random.choice((8, 16))
        scaled[-(-count // items), items](a, x, y)
        assert (y == wanted).all(), f"seed {seed}"


@hetir.kernel
def running(x, y):
    i = hl.global_id(0)
    if i < y.shape[0]:
        for k in range(y.shape[1] - 1):
            y[i, k + 1] += x[i, k]


def test_arrays_that_meet_are_read_after_they_are_written():
    """Sums along rows, into the array itself and into another one, in any order of calls."""
    for seed in range(16):
        random = Random(f"running {seed}")
        rows, columns = random.randrange(1, 6), random.choice((3, 33, 70))
        y = np.random.default_rng(seed).integers(0, 5, (rows, columns)).astype(np.float32)
        x = y if random.random() < 0.6 else y.copy()
        first, wanted = x.copy(), y.copy()
        for k in range(columns - 1):
            wanted[:, k + 1] += (wanted if x is y else first)[:, k]
        running[1, 8](x, y)
        assert (y == wanted).all(), f"seed {seed}"


def variants(kernel: Kernel, random: Random):
    """The same kernel with one thing changed that means something."""
    options = kernel.options
    yield "width", replace(kernel, options=replace(options, subgroup_size=2 * options.width))
    yield "debug", replace(kernel, options=replace(options, debug=not options.debug))
    constants = [op for op in walk(kernel.body) if op.name == "const" and op.result.type.is_int]
    chosen = random.choice(constants)
    yield "constant", with_op(kernel, chosen, replace(
        chosen, attrs={**chosen.attrs, "bits": int(chosen.attrs["bits"]) ^ 1}
    ))  # fmt: skip
    twins = {"add": "sub", "lt": "ge", "xor": "and", "min": "max", "mul": "add", "eq": "ne"}
    others = [op for op in walk(kernel.body) if op.name in twins]
    if others:
        chosen = random.choice(others)
        spec = hetir.ir.ops.TABLE[twins[chosen.name]]
        yield "op", with_op(kernel, chosen, replace(chosen, spec=spec))


def with_op(kernel: Kernel, old, new) -> Kernel:
    def region(given):
        body = tuple(
            new if op is old else replace(op, regions=tuple(map(region, op.regions)))
            for op in given.body
        )
        return replace(given, body=body)

    return replace(kernel, body=region(kernel.body))


def test_cache_keys_differ_where_anything_does():
    for seed in range(40):
        random = Random(f"keys {seed}")
        kernel = expression(seed).kernel
        aligned = tuple(random.random() < 0.5 for _ in kernel.params)
        keys = {"itself": compiler.cache_key(kernel, "f", None)}
        for name, other in variants(kernel, random):
            keys[name] = compiler.cache_key(other, "f", None)
        keys["fingerprint"] = compiler.cache_key(kernel, "g", None)
        for size in ((8, 1, 1), (1, 8, 1), (8, 1, 2)):
            keys[f"workgroup {size}"] = compiler.cache_key(kernel, "f", size)
        promises = [Assumptions(index_bits=32), Assumptions(disjoint=True)]
        promises += [Assumptions(aligned=tuple(i == n for i, _ in enumerate(aligned)))
                     for n in range(min(3, len(aligned)))]  # fmt: skip
        for promise in promises:
            keys[str(promise)] = compiler.cache_key(kernel, "f", None, promise)
        alike = [(a, b) for a, b in itertools.combinations(keys, 2) if keys[a] == keys[b]]
        assert not alike, f"seed {seed}: {alike}"
        assert content_hash(replace(kernel, name="other")) == content_hash(kernel)


def times(factor):
    @hetir.kernel
    def kernel(x, y):
        i = hl.global_id(0)
        y[i] = x[i] * factor

    return kernel


def test_what_is_captured_is_part_of_the_kernel():
    """Kernels that differ in a number from outside alone are kept apart, in memory and on disk."""
    for value in (3, 5, 3, 2.5, -1, 1, True, 1.0, 0.0, -0.0):
        x, y = np.arange(4, dtype=np.float64), np.zeros(4)
        times(value)[1, 4](x, y)
        wanted = x * value
        assert y.tobytes() == wanted.tobytes()


# ---- files -------------------------------------------------------------------------------------


def flips(data: bytes, random: Random, count: int):
    """Copies with one byte changed, and some cut short."""
    for _ in range(count):
        at = random.randrange(len(data))
        changed = bytearray(data)
        changed[at] ^= 1 << random.randrange(8)
        yield at, bytes(changed)
    for _ in range(count // 8):
        at = random.randrange(len(data))
        yield at, data[:at]


def refuses(read) -> bool:
    """Whether a reader says that its file is damaged."""
    try:
        read()
    except HetirError:
        return True
    return False


def specialisation(seed: int) -> hetbin.Specialisation:
    """A generated kernel as a file holds it, with its code for one target, or two."""
    random = Random(f"hetbin {seed}")
    kernel = replace(expression(seed).kernel, name="k")
    layout = layout_of(kernel)
    targets = random.sample(["cpu:x86-64", "cpu:aarch64", "ptx:sm_80"], random.randrange(1, 3))
    payloads = tuple(
        hetbin.Payload(
            artifact=replace(
                compiler.describe(kernel, "text", None), target=target,
                binary=random.randbytes(random.randrange(1, 60)), layout=layout,
                workgroup=random.choice((None, (8, 2, 1))),
            ),
            assumptions=Assumptions(
                index_bits=random.choice((32, 64)),
                disjoint=random.random() < 0.5,
                aligned=tuple(random.random() < 0.5 for _ in layout.slots),
            ),
        )
        for target in targets
    )  # fmt: skip
    verdict = payloads[0].artifact
    return hetbin.Specialisation(
        name="k",
        parameters=tuple(Parameter(name=f"p{i}", type="f32[:]") for i in range(len(layout.slots))),
        layout=layout,
        axes=axes_of(kernel),
        module=encode_module(Module(kernels=(kernel,), functions=())),
        payloads=payloads,
        reproducible=verdict.reproducible,
        irreproducible_reason=verdict.irreproducible_reason,
        file="the hetbin",
    )


def test_hetbins_come_back_and_no_changed_byte_is_read():
    for seed in range(6):
        random = Random(f"hetbins {seed}")
        entry = specialisation(seed)
        data = hetbin.encode([entry])
        (back,) = hetbin.decode(data)
        assert hetbin.encode([back]) == data
        assert back.layout == entry.layout
        assert back.module == entry.module
        for got, given in zip(back.payloads, entry.payloads, strict=True):
            assert got.assumptions == given.assumptions
            assert got.artifact.binary == given.artifact.binary
            assert got.artifact.workgroup == given.artifact.workgroup
        for at, changed in flips(data, random, 60):
            assert refuses(lambda c=changed: hetbin.decode(c)), f"byte {at} of {len(data)}"


def test_checkpoint_files_come_back_and_no_changed_byte_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_file, "PIECE_BYTES", 64)
    path, longest = tmp_path / "job.hetck", 0
    for seed in range(8):
        random = Random(f"checkpoints {seed}")
        maker = np.random.default_rng(seed)
        tensors = {}
        for number in range(seed % 4):
            kind = random.choice(list(SCALARS.values()))
            rows, columns = random.randrange(9), random.choice((random.randrange(9), 90))
            shape = random.choice(((), (columns,), (rows, columns)))
            count = int(np.prod(shape)) * kind.bytes
            longest = max(longest, count)
            raw = maker.integers(0, 2 if kind.kind == "bool" else 256, count, np.uint8)
            tensors[f"t{number}"] = raw.view(kind.numpy).reshape(shape)
        meta = {"format": 1, "seed": seed, "words": "x" * random.randrange(40)}
        with path.open("wb") as out:
            size = checkpoint_file.write(out, meta, tensors)
        data = path.read_bytes()
        assert size == len(data)
        found = checkpoint_file.read(path)
        assert found.meta == meta
        assert {n: a.tobytes() for n, a in found.tensors.items()} == {
            n: a.tobytes() for n, a in tensors.items()
        }
        for at, changed in flips(data, random, 40):
            path.write_bytes(changed)
            assert refuses(lambda: checkpoint_file.read(path)), f"byte {at} of {len(data)}"
    assert longest > 5 * checkpoint_file.PIECE_BYTES


def test_cache_entries_come_back_or_are_refused(tmp_path):
    store = Cache(tmp_path / "cache")
    for seed in range(20):
        random = Random(f"entries {seed}")
        data = random.randbytes(random.randrange(200))
        assert store.load(f"key {seed}") is None
        assert store.store(f"key {seed}", data)
        assert store.load(f"key {seed}") == data
        (entry,) = (e for e in store.entries() if e.key == f"key {seed}")
        whole = entry.path.read_bytes()
        for at, changed in flips(whole, random, 10):
            entry.path.write_bytes(changed)
            assert store.load(f"key {seed}") is None, f"byte {at} of {len(whole)}"
        other = Cache(tmp_path / "other")
        other.store(f"kay {seed}", data)
        (alien,) = other.entries()
        entry.path.write_bytes(alien.path.read_bytes())
        assert store.load(f"key {seed}") is None
        other.clear()
