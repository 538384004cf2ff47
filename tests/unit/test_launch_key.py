"""The specialisation key: every part flipped one by one, against what NumPy says of the arrays."""

import inspect
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hetir
import hetir.lang as hl
from hetir import compiler, runtime
from hetir.artifact import Layout, Slot
from hetir.backends import cpu, host
from hetir.frontend import parse_signature
from hetir.runtime import MEETS, WIDE, ArgumentError, Packer, aligned_bit, device
from hetir.target import Assumptions

EVERY = frozenset(("index_bits", "disjoint", "aligned"))
ONE = (1, 1, 1)
PROMISED = Assumptions(index_bits=32, disjoint=True, aligned=(False, True, True))


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """What the CPU backend is asked to assume, one entry a compilation; it uses every part."""
    seen = []

    def compile_kernel(kernel, *, assumptions, **options):
        seen.append(assumptions)
        if "assumptions" in inspect.signature(cpu.compile_kernel).parameters:
            options["assumptions"] = assumptions
        return cpu.compile_kernel(kernel, **options)

    backend = SimpleNamespace(
        compile_kernel=compile_kernel, fingerprint=host.fingerprint, USES=EVERY
    )
    monkeypatch.setattr(compiler, "_BACKENDS", {"cpu": backend})
    monkeypatch.setattr(compiler, "_DESCRIBED", {"cpu": backend})
    monkeypatch.setenv("HETIR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(runtime, "cache", lambda: runtime.Cache(tmp_path / "cache"))
    return seen


def scale_kernel():
    @hetir.kernel
    def scale(a: hl.f32, x, y):
        i = hl.global_id(0)
        if i < y.shape[0]:
            y[i] = a * x[i]

    return scale


def aligned(count, dtype=np.float32, offset=0):
    """An array that starts `offset` bytes past a multiple of 64."""
    kind = np.dtype(dtype)
    raw = np.zeros(count * kind.itemsize + 128, np.uint8)
    start = -raw.ctypes.data % 64 + offset
    return raw[start : start + count * kind.itemsize].view(kind)


def test_each_promise_is_kept_apart(asked):
    scale = scale_kernel()
    x, y = aligned(64), aligned(64)
    scale[1, 64](2.0, x, y)
    assert asked == [PROMISED]
    scale[1, 64](3.0, aligned(64), aligned(64))
    scale[1, 64](3.0, aligned(32), aligned(32))
    assert len(asked) == 1, "values and extents never specialise"

    scale[1, 32](2.0, aligned(32, offset=4), aligned(32))
    assert asked[-1] == Assumptions(index_bits=32, disjoint=True, aligned=(False, False, True))
    scale[1, 32](2.0, aligned(32), aligned(32, offset=8))
    assert asked[-1] == Assumptions(index_bits=32, disjoint=True, aligned=(False, True, False))
    both = aligned(64)
    both[:] = np.arange(64)
    scale[1, 64](2.0, both, both)
    assert asked[-1] == Assumptions(index_bits=32, disjoint=False, aligned=(False, True, True))
    np.testing.assert_array_equal(both, 2 * np.arange(64))
    one = aligned(1, offset=4)
    one[:] = 1
    far = np.broadcast_to(one, (1 << 31, 1))[:, 0]
    scale[1, 64](2.0, far, y)
    assert asked[-1] == Assumptions(index_bits=64, disjoint=True, aligned=(False, False, True))
    assert y[0] == 2
    count = len(asked)
    scale[1, 64](2.0, x, y)
    assert len(asked) == count


def test_a_size_past_32_bits_takes_wide_indices(asked):
    scale = scale_kernel()
    x, y = aligned(4), aligned(4)
    scale.program((1.0, x, y), "cpu", (256, 1, 1), (1 << 22, 1, 1))
    assert asked[-1].index_bits == 32
    scale.program((1.0, x, y), "cpu", (256, 1, 1), (1 << 23, 1, 1))
    assert asked[-1].index_bits == 64
    scale.program((1.0, x, y), "cpu", (256, 1, 1), (1, 1 << 31, 1))
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("grid", "wide"),
    [
        (((1 << 31) - 1, 1, 1), False),
        ((1 << 31, 1, 1), True),
        ((1, 65535, 65535), False),
        ((1, 65536, 1), True),
        ((1, 1, 65536), True),
        ((1 << 70, 1, 1), True),
    ],
)
def test_grids_that_need_wide_indices(grid, wide):
    packer = Packer(layout(False), device("cpu"))
    assert bool(packer.pack((X,), grid, ONE)[1] & WIDE) == wide


def test_a_part_that_no_backend_uses_makes_no_copies(monkeypatch, asked):
    compiler._BACKENDS["cpu"].USES = frozenset(("disjoint",))
    scale = scale_kernel()
    scale[1, 32](2.0, aligned(32), aligned(32))
    scale[1, 32](2.0, aligned(32, offset=4), aligned(32, offset=4))
    assert asked == [Assumptions(disjoint=True)]
    one = aligned(32)
    scale[1, 32](2.0, one, one)
    assert asked[-1] == Assumptions()


def test_ahead_of_time_nothing_is_promised(asked):
    scale = scale_kernel()
    first = hetir.compile(scale, "f32, f32[::1], f32[::1]", target="cpu")
    assert asked == [Assumptions()]
    promised = hetir.compile(
        scale, "f32, f32[::1], f32[::1]", target="cpu", assumptions=Assumptions(disjoint=True)
    )
    assert asked[-1] == Assumptions(disjoint=True)
    assert first.key != promised.key


KEYS = {
    "index width": Assumptions(index_bits=32),
    "disjoint arrays": Assumptions(disjoint=True),
    "an aligned array": Assumptions(aligned=(False, True, False)),
    "another aligned array": Assumptions(aligned=(False, False, True)),
}


@pytest.mark.parametrize("name", KEYS)
def test_the_cache_key_has_every_promise(name):
    kernel = compiler.prepare(
        compiler.record(scale_kernel(), parse_signature("f32, f32[:], f32[:]")).module
    )
    plain = compiler.cache_key(kernel, "f", None)
    keys = {compiler.cache_key(kernel, "f", None, promised) for promised in KEYS.values()}
    assert plain not in keys
    assert len(keys) == len(KEYS)
    assert compiler.cache_key(kernel, "g", None) != plain
    assert compiler.cache_key(kernel, "f", (32, 1, 1)) != plain


class Pair(NamedTuple):
    a: object
    b: object


class Other(NamedTuple):
    a: object
    b: object


X = np.zeros((4, 4), np.float32)
UNLIKE = {
    "element type": (X, X.astype(np.float64)),
    "signedness": (X.astype(np.int32), X.astype(np.uint32)),
    "dimensions": (X, X[0]),
    "last axis": (X, X[:, ::2]),
    "last axis reversed": (X, X[:, ::-1]),
    "broadcast first axis": (X, np.broadcast_to(X[0], (4, 4))),
    "broadcast last axis": (X.T, np.broadcast_to(X[:, :1], (4, 4))),
    "number kind": (1, 1.0),
    "bool and int": (True, 1),
    "NumPy scalar": (np.int32(1), 1),
    "NumPy scalar type": (np.int32(1), np.int64(1)),
    "a float that is NumPy's": (np.float64(1), 1.0),
    "tuple class": (Pair(1, 2), Other(1, 2)),
    "tuple field": (Pair(1, 2), Pair(1, 2.0)),
    "array in a tuple": (Pair(X, 1), Pair(X[0], 1)),
}
LIKE = {
    "extents": (X, np.zeros((7, 9), np.float32)),
    "strides of the first axis": (X, X[::2]),
    "values": (1.0, 2.0),
    "contents": (X, X + 1),
    "long and long long": (np.zeros(4, np.longlong), np.zeros(4, np.int64)),
    "host and device arrays": (X, hetir.array(X)),
    "writability": (X, np.frombuffer(bytes(64), np.float32).reshape(4, 4)),
    "tuples of the same kinds": (Pair(1, X), Pair(2, X + 1)),
    "last axis of one element": (X[:, :1], np.zeros((4, 1), np.float32)),
}


def key_of(value):
    return runtime.launcher().key((value,), b"\0", None)


@pytest.mark.parametrize("name", UNLIKE)
def test_each_part_of_a_type_is_in_the_key(name):
    one, other = map(key_of, UNLIKE[name])
    assert one is not None
    assert other is not None
    assert one != other


@pytest.mark.parametrize("name", LIKE)
def test_what_is_no_part_of_a_type_is_not(name):
    one, other = map(key_of, LIKE[name])
    assert one is not None
    assert one == other


@pytest.mark.parametrize(
    "value", ["text", None, np.zeros(2, ">f4"), np.zeros(2, "M8[s]"), object()]
)
def test_what_kernels_do_not_take_has_no_key(value):
    assert key_of(value) is None


def layout(*writes):
    slots = tuple(
        Slot(offset=40 * i, source=(i,), dtype="f32", ndim=2, reads=True, writes=written)
        for i, written in enumerate(writes)
    )
    return Layout(slots=slots, size=-(-40 * len(writes) // 16) * 16)


def facts_of(arrays, writes):
    return Packer(layout(*writes), device("cpu")).pack(tuple(arrays), ONE, ONE)[1]


AXIS = st.slices(8)
ROOM = np.zeros(8 * 8, np.float32)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    cuts=st.lists(st.tuples(st.integers(0, 3), AXIS, AXIS), min_size=2, max_size=3),
    writes=st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_facts_against_numpys_own_bounds(cuts, writes):
    whole = ROOM.reshape(8, 8)
    arrays = [whole[rows, columns] for _, rows, columns in cuts]
    writes = writes[: len(arrays)]
    facts = facts_of(arrays, writes)
    meets = any(
        (writes[i] or writes[j]) and np.may_share_memory(arrays[i], arrays[j])
        for i in range(len(arrays))
        for j in range(i)
    )
    assert bool(facts & MEETS) == meets
    assert not facts & WIDE
    for i, array in enumerate(arrays):
        steps = array.strides[:-1] if array.strides[-1] == 4 else array.strides
        expected = array.ctypes.data % 16 == 0 and all(step % 16 == 0 for step in steps)
        assert bool(facts & aligned_bit(i)) == expected


FITS = (1 << 29) - 1  # elements of 4 bytes that reach less than 2 GiB


@pytest.mark.parametrize(
    ("shape", "strides", "wide"),
    [
        ((FITS, 1), (4, 4), False),
        ((FITS + 1, 1), (4, 4), True),
        ((1 << 31, 1), (0, 4), True),
        (((1 << 31) - 1, 1), (0, 4), False),
        ((2, 1), ((1 << 31) - 4, 4), True),
        ((2, 1), ((1 << 31) - 8, 4), False),
        ((2, 1), (-(1 << 31), 4), True),
        ((2, 1), (-(1 << 31) + 4, 4), False),
        ((0, 1 << 40), (4, 4), True),
        ((1, 1), (1 << 40, 4), True),
    ],
)
def test_the_index_width_at_its_edge(shape, strides, wide):
    array = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), shape, strides)
    assert bool(facts_of([array], [False]) & WIDE) == wide


def test_one_array_twice_is_disjoint_where_nobody_writes_it():
    x = X.copy()
    assert not facts_of([x, x], [False, False]) & MEETS
    assert facts_of([x, x], [False, True]) & MEETS
    assert not facts_of([x[:2], x[2:]], [True, True]) & MEETS
    many = [np.zeros((1, 1), np.float32) for _ in range(70)]
    assert facts_of(many, [False] * 69 + [True]) & MEETS, "too many to compare promise nothing"


def test_the_key_is_shown_in_words(asked):
    scale = scale_kernel()
    scale[1, 32](2.0, aligned(32), aligned(32))
    (only,) = scale.specialisations
    first, second = str(only).split("\n")
    assert first.startswith("scale(f32, ")
    assert second == (
        "  cpu, workgroup (32, 1, 1): 32-bit indices, disjoint arrays, x, y aligned to 16 bytes"
    )
    assert only.compiled[0].assumptions == PROMISED
    assert only.compiled[0].artifact.kernel == "scale"


def test_a_launch_keeps_the_arrays_apart_that_it_promised(asked):
    """A vectorised copy that trusted the promise would read what it wrote."""
    scale = scale_kernel()
    room = np.arange(65, dtype=np.float32)
    expected = room.copy()
    expected[1:] = 2 * room[:-1]
    scale[1, 64](2.0, room[:-1].copy(), room[1:])
    np.testing.assert_array_equal(room, expected)


def test_lengths_of_tuples_and_refusals_name_their_slot():
    slots = (Slot(offset=0, source=(0, "a"), dtype="i8", ndim=None, reads=True, writes=False),)
    packer = Packer(Layout(slots=slots, size=16), device("cpu"), ("pair",))
    assert packer.pack((Pair(-5, 0),), ONE, ONE)[0][:1] == b"\xfb"
    with pytest.raises(ArgumentError, match=r"`pair\.a` is 200, which is out of the range of `i8`"):
        packer.pack((Pair(200, 0),), ONE, ONE)
