"""`hetir.testing.check_kernel`: right kernels pass, and each kind of mistake is found."""

import numpy as np
import pytest
from hypothesis import strategies as st

import hetir
import hetir.lang as hl
from hetir.testing import arrays, check_kernel


@hetir.kernel
def saxpy(a: hl.f32, x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


@hetir.kernel
def unguarded(a: hl.f32, x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    y[i] = a * x[i] + y[i]


@hetir.kernel
def racing(a: hl.f32, x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    if i < x.shape[0]:
        y[0] = a * x[i] + y[0]


@hetir.kernel(grid=lambda x: hetir.cdiv(x.shape[0], 8), workgroup=8)
def doubles(x: hl.Array[hl.i32, 1]):
    i = hl.global_id(0)
    if i < x.shape[0]:
        x[i] = x[i] * 2


def vectors(low=0):
    return st.integers(low, 12).flatmap(
        lambda n: st.tuples(st.floats(-9, 9, width=32), arrays(hl.f32, n), arrays(hl.f32, n))
    )


LAUNCH = {"grid": lambda a, x, y: hetir.cdiv(x.size, 4), "workgroup": 4, "examples": 10}


def test_a_right_kernel_passes_on_every_device():
    check_kernel(saxpy, lambda a, x, y: np.float32(a) * x + y, vectors(),
                 devices=("cpu", "ptx-emulator"), **LAUNCH)  # fmt: skip


def test_references_may_write_return_or_name():
    def write(x):
        x *= 2

    numbers = arrays(np.int32, st.integers(1, 20), elements=st.integers(-99, 99)).map(
        lambda x: (x,)
    )
    for reference in (write, lambda x: x * 2, lambda x: {"x": x * 2}):
        check_kernel(doubles, reference, numbers, examples=10)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [(unguarded, "out of bounds"), (racing, "race")],
    ids=["bounds", "race"],
)
def test_faults_are_found(kernel, words):
    with pytest.raises(AssertionError, match=words):
        check_kernel(kernel, lambda a, x, y: np.float32(a) * x + y, vectors(2), **LAUNCH)


def test_a_wrong_reference_is_found_and_shrunk():
    with pytest.raises(AssertionError, match="`y` is not what the reference has") as caught:
        check_kernel(saxpy, lambda a, x, y: np.float32(a) * x - y, vectors(), **LAUNCH)
    notes = "\n".join(getattr(caught.value, "__notes__", []))
    assert "arguments=(" in notes
