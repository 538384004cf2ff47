"""Hetbin files: what is written comes back and runs, and no damaged file does harm."""

import dataclasses
import os
import random
import struct
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from crc32c import crc32c

import hetir
import hetir.lang as hl
from hetir import hetbin, library, runtime
from hetir.artifact import Artifact, Fence, Resources, Site, Variant
from hetir.diagnostics import HetirError
from hetir.frontend import Static
from hetir.hetbin import tables
from hetir.hetbin.model import Parameter, axes_of
from hetir.ir.binary import encode as encode_module
from hetir.ir.core import Module
from hetir.ir.text import parse_kernel
from hetir.ir.types import F32, ArrayType
from hetir.passes.layout import layout_of
from hetir.runtime.drivers import cpu as cpu_driver
from hetir.source import Loc
from hetir.target import Assumptions

HERE = Path(__file__).parent


@hetir.kernel
def saxpy(a: hl.f32, x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


@hetir.kernel
def reversed_groups(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1]):
    held = hl.shared((64,), hl.i32)
    held[hl.local_id(0)] = x[hl.global_id(0)]
    hl.barrier()
    y[hl.global_id(0)] = held[63 - hl.local_id(0)]


@hetir.kernel
def checked(x: hl.Array[hl.i32, 1]):
    i = hl.global_id(0)
    hl.assert_(x[i] < 7, "too large")  # noqa: PT009
    x[i] += 1


def built(kernel, *targets, signature=None, workgroups=(None,)):
    return hetbin.specialise(kernel, signature, targets, workgroups, HERE)


@pytest.fixture(scope="module")
def saxpy_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("hetbin") / "saxpy.hetbin"
    targets = ("cpu:x86-64", "cpu:x86-64-v3", "ptx:sm_80", "spirv:opencl", "spirv:vulkan")
    path.write_bytes(hetbin.encode(built(saxpy, *targets, workgroups=((64, 1, 1), None))))
    return path


def arguments(dtype=np.float32, step=1):
    x = np.arange(200 * step, dtype=dtype)[::step]
    return 3.0, x, np.ones(200, dtype)


def right(values):
    return (values[2] == 3 * values[1] + 1).all()


def made_by_hand():
    """A small file with every kind of record; its payloads are not code."""
    text = """hetir 1

    kernel k(%a: f32 from 0, %x: array<f32[?:1], global> from 1) {
      return
    }
    """
    kernel = dataclasses.replace(parse_kernel(text), loc=Loc("k.py", 3, 0, 3, 0))
    sites = (
        Site(kind="print", format="{} é", dtypes=("f32", "i64"), loc=Loc("k.py", 4, 1, 4, 9)),
        Site(kind="assert", format="wrong", dtypes=(), loc=None),
    )
    layout = layout_of(kernel)
    fence = Fence(kind="load", order="acquire", scope="device", instruction="ld.acquire.gpu",
                  location=Loc("k.py", 4, 1, 4, 9), reason="as asked", line=7)  # fmt: skip
    common = {"kernel": "k", "layout": layout, "loc": kernel.loc, "cooperative": True}
    payloads = tuple(
        hetbin.Payload(
            artifact=Artifact(target=target, entry="e", text=t, binary=b, key=target, **common,
                              resources=Resources(registers=7, shared_bytes=64, lanes=True),
                              sites=sites, variants=(Variant(needs=("a", "b"), binary=b"v" * 20),),
                              fences=(fence,)),
            assumptions=promised,
        )
        for target, t, b, promised in (
            ("cpu:aarch64", "", b"code" * 9, Assumptions(index_bits=32, disjoint=True)),
            ("ptx:sm_90", "text", None, Assumptions(aligned=(False, True))),
        )
    )  # fmt: skip
    return hetbin.Specialisation(
        name="k",
        parameters=(Parameter(name="a", type="f32"), Parameter(name="x", type="f32[::1]")),
        layout=layout,
        axes=axes_of(kernel),
        module=encode_module(Module(kernels=(kernel,))),
        payloads=payloads,
        cooperative=True,
        loc=kernel.loc,
        points=(hetbin.Point(kind="fence", text="fence acquire device", loc=kernel.loc),
                hetbin.Point(kind="safe point", text="0123", loc=None)),
        file="the hetbin",
    )  # fmt: skip


def test_all_of_it_comes_back():
    entry = made_by_hand()
    data = hetbin.encode([entry, dataclasses.replace(entry, name="other")])
    first, other = hetbin.decode(data)
    # where columns are not kept, lines are; the rest is equal
    plain = dataclasses.replace(
        first, points=tuple(dataclasses.replace(p, loc=None) for p in first.points)
    )
    assert plain == dataclasses.replace(
        entry, points=tuple(dataclasses.replace(p, loc=None) for p in entry.points)
    )
    assert [p.loc and (p.loc.file, p.loc.line) for p in first.points] == [("k.py", 3), None]
    assert other.name == "other"
    assert first.kernel.name == "k"
    assert hetbin.encode([first, other]) == data
    with pytest.raises(hetbin.DamagedHetbinError, match="hetIR of `other`"):
        other.kernel  # noqa: B018 - the hetIR is that of `k`


def test_the_bytes_that_the_page_says():
    """docs/hetbin-format.md, read with nothing but `struct`."""
    data = hetbin.encode([made_by_hand()])
    magic, major, minor, checksum, size, end, count = struct.unpack_from("<8sHHIQII", data)
    assert (magic, major, minor, size, count) == (b"\x89HETBIN\n", 1, 0, len(data), 11)
    assert crc32c(data[:12] + bytes(4) + data[16:end]) == checksum
    entries = [struct.unpack_from("<IIII", data, 32 + 16 * n) for n in range(count)]
    assert [e[1:] for e in entries[:9]] == [
        *((1, 72, 0), (2, 8, 0), (2, 36, 0), (2, 120, 0), (2, 16, 0), (4, 36, 0), (2, 44, 0)),
        *((2, 20, 0), (4, 24, 0)),
    ]
    assert entries[10][0] + entries[10][1] == end

    def string(at):
        start = entries[10][0] + at
        (length,) = struct.unpack_from("<I", data, start)
        assert data[start + 4 + length] == 0
        return data[start + 4 : start + 4 + length].decode()

    kernel = struct.unpack_from("<18I", data, entries[0][0])
    assert (string(kernel[0]), string(kernel[1])) == ("k", "f32, f32[::1]")
    slots = [struct.unpack_from("<3Ii5I", data, entries[2][0] + 36 * n) for n in range(2)]
    assert slots[0][:4] == (0, 0, 11, -1)
    assert slots[1][:7] == (8, 1, 11, 1, 0, 1, 0)
    blobs = [struct.unpack_from("<QQII", data, entries[8][0] + 24 * n) for n in range(4)]
    assert all(at % 64 == 0 and crc32c(data[at : at + n]) == c for at, n, c, _ in blobs)
    assert data[blobs[1][0] :][: blobs[1][1]] == b"code" * 9
    assert blobs[-1][0] + blobs[-1][1] == len(data)


def test_every_changed_byte_is_found_and_named():
    data = hetbin.encode([made_by_hand()])
    for at in range(len(data)):
        for flip in (1, 0x80):
            changed = bytearray(data)
            changed[at] ^= flip
            wrong = (hetbin.DamagedHetbinError, hetbin.HetbinVersionError)
            with pytest.raises(wrong, match=r"here\.hetbin") as caught:
                hetbin.decode(bytes(changed), "here.hetbin")
            if isinstance(caught.value, hetbin.DamagedHetbinError):
                assert 0 <= caught.value.offset <= len(data)
    for size in range(len(data)):
        with pytest.raises(hetbin.DamagedHetbinError):
            hetbin.decode(data[:size])
    with pytest.raises(hetbin.DamagedHetbinError, match=f"written with {len(data)}"):
        hetbin.decode(data + b"\0")


def test_a_changed_blob_is_named_by_its_first_byte():
    data = hetbin.encode([made_by_hand()])
    at = data.index(b"codecode")
    with pytest.raises(hetbin.DamagedHetbinError, match=f"at byte {at}: the 36 bytes") as caught:
        hetbin.decode(data.replace(b"codecode", b"codeCode"), "f")
    assert (caught.value.file, caught.value.offset) == ("f", at)


def signed(data):
    """The bytes with the checksums that they should have, as far as their tables can be read."""
    data = bytearray(data)
    try:
        (end,) = struct.unpack_from("<I", data, 24)
        at, rows, size, _ = struct.unpack_from("<IIII", data, 32 + 16 * 8)
        for n in range(min(rows, 100)):
            offset, length, _, _ = struct.unpack_from("<QQII", data, at + size * n)
            struct.pack_into("<I", data, at + size * n + 16, crc32c(data[offset : offset + length]))
        data[12:16] = bytes(4)
        struct.pack_into("<I", data, 12, crc32c(bytes(data[:end])))
    except (struct.error, OverflowError):
        pass
    return bytes(data)


def mutated(rng, data):
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed))
        match rng.randrange(4):
            case 0:
                changed[at] ^= 1 << rng.randrange(8)
            case 1:
                at -= at % 4
                number = rng.choice(
                    (0, 1, 2, 0x7FFFFFFF, 0xFFFFFFFF, len(changed), rng.getrandbits(32))
                )
                changed[at : at + 4] = struct.pack("<I", number)
            case 2:
                changed[at : at + 8] = rng.randbytes(8)
            case _:
                del changed[at : at + rng.randint(1, 64)]
                changed[16:24] = struct.pack("<Q", len(changed))
    return signed(changed)


def survives(count, seed):
    """Decode mutated files, the checksums made right; gives how many were still taken."""
    rng, data, taken = random.Random(seed), hetbin.encode([made_by_hand()] * 2), 0
    for _ in range(count):
        changed = mutated(rng, data)
        try:
            for entry in hetbin.decode(changed):
                taken += 1
                entry.kernel  # noqa: B018 - read now
        except HetirError:
            continue
    return taken


def test_mutated_files_do_no_harm():
    tracemalloc.start()
    taken = survives(1500, seed=os.getpid())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken > 0
    assert peak < 1 << 20, "more than a file of two kilobytes may cost"


@pytest.mark.slow
def test_a_million_mutated_files_do_no_harm():
    assert survives(1_000_000, seed=13) > 0


def test_records_are_not_read_twice():
    """Else a small file could grow without end in memory."""
    data = bytearray(hetbin.encode([made_by_hand()] * 2))
    second = struct.unpack_from("<I", data, 32)[0] + 72
    struct.pack_into("<I", data, second + 48, 0)  # the payloads of the first kernel again
    with pytest.raises(hetbin.DamagedHetbinError, match="not those that come next"):
        hetbin.decode(signed(data))


def test_newer_versions():
    data = bytearray(hetbin.encode([made_by_hand()]))
    struct.pack_into("<H", data, 8, 2)
    with pytest.raises(hetbin.HetbinVersionError, match=r"format 2\.0; this hetir reads up to 1"):
        hetbin.decode(bytes(data))
    struct.pack_into("<HH", data, 8, 1, 7)  # a newer minor version is read
    assert hetbin.decode(signed(data))[0].name == "k"


def test_equal_contents_give_equal_bytes(tmp_path, monkeypatch):
    """In another folder, and without what the first compilation left in the cache."""
    source = (
        "import hetir, hetir.lang as hl\n@hetir.kernel(debug=True)\n"
        "def k(x: hl.Array[hl.f32, 1]):\n    x[0] = hl.exp(x[1])\n"
    )
    made = []
    for number in range(2):
        folder = tmp_path / f"{number} folder"
        folder.mkdir()
        (folder / "mine.py").write_text(source)
        cache = runtime.Cache(folder / "cache")
        monkeypatch.setattr(runtime, "cache", lambda cache=cache: cache)
        kernel = library.load(folder / "mine.py").k
        entries = hetbin.specialise(kernel, None, ("cpu:x86-64", "ptx:sm_80"), (None,), folder)
        made.append(hetbin.encode(entries))
    assert made[0] == made[1]
    assert str(tmp_path).encode() not in made[0]
    assert b"mine.py" in made[0]
    assert b"hetir/lang/math/" in made[0]


@pytest.mark.parametrize("device", ["cpu", "ptx-emulator", "emulator", "opencl", "vulkan"])
@pytest.mark.parametrize("step", [1, 2])
def test_launches_give_the_right_values(saxpy_file, device, step):
    try:
        runtime.device(device)
    except runtime.DeviceError as absent:
        assert device == "vulkan"  # the others come by pip
        pytest.skip(str(absent))
    kernel = hetir.load(saxpy_file)["saxpy"]
    for workgroup in (64, 50):
        values = arguments(step=step)
        kernel.launch(values, grid=4, workgroup=workgroup, device=device).wait()
        assert right(values)


def test_the_best_payload_is_chosen(saxpy_file, monkeypatch):
    kernel = hetir.load(saxpy_file)["saxpy"]
    if not runtime.device("cpu").can_run("cpu:x86-64-v3"):
        pytest.skip("this machine is of another kind")
    values = arguments()
    best = kernel.code_for(values, workgroup=64)
    assert (best.target, best.workgroup) == ("cpu:x86-64-v3", (64, 1, 1))
    assert kernel.code_for(values, workgroup=65).workgroup is None
    assert kernel.code_for(values, "ptx-emulator", workgroup=64).target == "ptx:sm_80"
    # the same array twice: what was compiled for arrays that do not meet is no good
    x = np.ones(200, np.float32)
    meeting = kernel.code_for((3.0, x, x), workgroup=64)
    assert meeting.target == "cpu:x86-64-v3"
    assert meeting.key != best.key
    kernel[4, 64](3.0, x, x)
    assert (x == 4).all()
    # a machine without AVX2 takes the plain code, one of another kind compiles the hetIR
    for levels, target in (({"cpu:x86-64"}, "cpu:x86-64"), (set(), "cpu")):
        monkeypatch.setattr(cpu_driver, "_levels", lambda levels=levels: frozenset(levels))
        kernel = hetir.load(saxpy_file)["saxpy"]
        assert kernel.code_for(values, workgroup=64).target == target
        values = arguments()
        kernel[4, 64](*values)
        assert right(values)


def test_a_file_without_payloads_is_compiled_on_the_spot():
    entries = hetbin.decode(hetbin.encode(built(reversed_groups)))
    assert not entries[0].payloads
    x = np.arange(128, dtype=np.int32)
    y = np.zeros_like(x)
    hetbin.Hetbin("here", entries)["reversed_groups"][2, 64](x, y)
    assert (y == x.reshape(2, 64)[:, ::-1].ravel()).all()
    kinds = [point.kind for point in entries[0].points]
    assert kinds[0] == "barrier"
    assert "safe point" in kinds


def test_assertions_and_their_lines(tmp_path):
    (entry,) = hetbin.decode(hetbin.encode(built(checked, "cpu:x86-64", signature="i32[::1]")))
    kernel = hetbin.Hetbin("here", [entry])["checked"]
    x = np.array([1, 2, 9, 4], np.int32)
    with pytest.raises(HetirError, match="too large") as caught:
        kernel[1, 4](x)
    assert caught.value.labels[0].loc.file == "test_hetbin.py"
    x[2] = 3
    kernel[1, 4](x)
    assert (x == [3, 4, 4, 6]).all()


def test_wrong_arguments(saxpy_file):
    kernel = hetir.load(saxpy_file)["saxpy"]
    _, x, y = arguments()
    for values in (
        *((3.0, x), (3.0, x, y, y), (3.0, x.astype(np.float64), y), (3.0, x.reshape(2, 100), y)),
        *((x, x, y), ("3", x, y), (3.0, x, None), (3.0, x.tolist(), y), (np.complex64(3), x, y)),
    ):
        with pytest.raises(HetirError, match="saxpy"):
            kernel[4, 64](*values)
    with pytest.raises(HetirError, match="has no kernel `daxpy`"):
        hetir.load(saxpy_file)["daxpy"]
    assert "daxpy" not in hetir.load(saxpy_file)
    for shape in ((1,), 3, (1, 2, 3), (1.5, 64)):
        with pytest.raises(HetirError):
            kernel[shape](3.0, x, y)
    with pytest.raises(HetirError, match="cannot be read"):
        hetir.load(saxpy_file.parent / "absent.hetbin")
    (only,) = hetbin.decode(hetbin.encode(built(saxpy, signature="f32, f32[::1], f32[::1]")))
    alone = hetbin.Hetbin("here", [only])["saxpy"]
    with pytest.raises(HetirError, match="`x` must be an array of `f32`"):
        alone[4, 64](3.0, x.astype(np.float64), y)
    with pytest.raises(hetbin.NoSpecialisationError, match="was not built for"):
        alone[4, 64](3.0, np.repeat(x, 2)[::2], y)
    assert (y == 1).all()


def test_numbers_of_numpy_are_converted_where_none_was_built_for_them(saxpy_file):
    kernel = hetir.load(saxpy_file)["saxpy"]
    for number in (np.float64(3), np.float32(3), np.int8(3), 3):
        values = (number, *arguments()[1:])
        kernel[4, 64](*values)
        assert right(values)


def test_empty_grids_and_arrays(saxpy_file):
    kernel = hetir.load(saxpy_file)["saxpy"]
    values = arguments()
    kernel[0, 64](*values)
    kernel[(4, 0), 64](*values)
    assert (values[2] == 1).all()
    kernel[1, 64](3.0, np.zeros(0, np.float32), np.zeros(0, np.float32))


def test_several_threads_at_once(saxpy_file):
    kernel = hetir.load(saxpy_file)["saxpy"]
    made = [arguments() for _ in range(8)]

    def work(values):
        for _ in range(20):
            values[2][:] = 1
            kernel[4, 64](*values)

    threads = [threading.Thread(target=work, args=(values,)) for values in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(map(right, made))


def test_stopping_and_going_on(saxpy_file, tmp_path):
    kernel = hetir.load(saxpy_file)["saxpy"]
    values, path = arguments(), tmp_path / "s.hetck"
    launch = kernel.launch(values, grid=4, workgroup=64,
                           checkpoint=hetir.StopAt(safe_points=2, path=path))  # fmt: skip
    launch.wait()
    run = hetir.resume(path)
    run.wait()
    assert (run.arguments["y"] == 3 * values[1] + 1).all()


def test_targets_that_are_not_portable():
    for target, reason in (("cpu", "not portable"), ("cpu:haswell", "not portable"),
                           ("hetir", "every hetbin"), ("spirv:opencl", "twice")):  # fmt: skip
        with pytest.raises(hetbin.HetbinError, match=reason):
            built(saxpy, "spirv:opencl", target)


def test_tables_match_their_rows():
    for table in tables.TABLES:
        assert len(table.form.unpack(bytes(table.form.size))) == len(table.row._fields)
        assert table.form.size % 4 == 0


@hetir.kernel
def scaled(factor: hl.static, x: hl.Array[hl.f32, 1]):
    x[hl.global_id(0)] *= factor


@hetir.kernel
def marked(mark: hl.static, x: hl.Array[hl.f32, 1]):
    x[0] = 1.0


def test_constants_are_part_of_what_a_launch_must_match():
    entries = [e for c in (3, 0.5) for e in built(scaled, signature=f"{c}, f32[::1]")]
    kernel = hetbin.Hetbin("here", hetbin.decode(hetbin.encode(entries)))["scaled"]
    x = np.array([1, 2], np.float32)
    kernel[1, 2](3, x)
    kernel[1, 2](0.5, x)
    assert (x == [1.5, 3]).all()
    for other in (4, 3.0, True, "3"):
        with pytest.raises(hetbin.NoSpecialisationError, match="static 3"):
            kernel[1, 2](other, x)
    with pytest.raises(hetbin.HetbinError, match="cannot hold the constant"):
        hetbin.specialise(marked, (Static(object()), ArrayType(F32, 1)), (), (None,), HERE)


@pytest.mark.parametrize(
    "name", ["saxpy", "softmax", "histogram", "nbody", "rotary", "monte_carlo"]
)
def test_kernels_of_the_library(name):
    """Built for the arguments of their cases, read back and run, they give NumPy's values."""
    module = library.load(library.folder() / f"{name}.py")
    case = module.case(np.random.default_rng(5), library.SMALL[name])
    for step in case.steps:
        values = step.kernel.operands(step.arguments)
        size = (*step.workgroup, 1, 1)[:3]
        made = hetbin.specialise(
            step.kernel, step.kernel.specialise(values), ("cpu:x86-64",), (size,), HERE
        )
        (kernel,) = hetbin.Hetbin(name, hetbin.decode(hetbin.encode(made))).values()
        kernel[step.grid, step.workgroup](*step.arguments)
    assert case.error() <= case.tolerance


@hetir.kernel
def counts(x: hl.Array[hl.i8, 1]):
    hl.atomic_add(x, hl.global_id(0), 1)


def test_code_for_any_stride_takes_contiguous_arrays_too(tmp_path):
    """A launch promises alignment to 16 bytes of all but a contiguous last axis."""
    path = tmp_path / "counts.hetbin"
    path.write_bytes(hetbin.encode(built(counts, "ptx:sm_80", signature="i8[:]")))
    for step in (1, 2, 16):
        x = np.zeros(40 * step, np.int8)
        hetir.load(path)["counts"].launch(
            (x[::step],), grid=5, workgroup=8, device="ptx-emulator"
        ).wait()
        assert (x == (np.arange(x.size) % step == 0)).all()
