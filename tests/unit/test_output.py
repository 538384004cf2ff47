"""What `hl.print` writes, and the names that messages and hetIR show."""

import linecache
import runpy

import ml_dtypes
import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir.diagnostics import HetirError


@hetir.kernel
def show(x):
    hl.print("{} and {}", x[0], x[1])


# the shortest decimal that rounds to the value: 0.1 is not the nearest of every format to 1/10
SHORTEST = [
    (np.float32, 0.1, "0.1"),
    (np.float32, 1 / 3, "0.33333334"),
    (np.float32, 16777216.0, "16777216.0"),
    (np.float32, 3e10, "30000000000.0"),
    (np.float32, 1e-45, "1e-45"),
    (np.float32, np.inf, "inf"),
    (np.float32, np.nan, "nan"),
    (np.float64, 0.1, "0.1"),
    (np.float64, 1 / 3, "0.3333333333333333"),
    (np.float16, 1 / 3, "0.3333"),
    (np.float16, 65504.0, "65500.0"),
    (ml_dtypes.bfloat16, 1 / 3, "0.334"),
    (np.int8, -128, "-128"),
    (np.uint64, 2**64 - 1, "18446744073709551615"),
    (np.bool_, True, "True"),
]


@pytest.mark.parametrize("device", ["cpu", "emulator"])
@pytest.mark.parametrize(("dtype", "value", "text"), SHORTEST)
def test_numbers_are_short_and_exact(device, dtype, value, text, capsys):
    x = np.array([value, 0], dtype)
    show.launch((x,), grid=1, workgroup=1, device=device).wait()
    line = capsys.readouterr().out.rstrip("\n")
    zero = str(x[1].item() if x.dtype.kind in "biu" else float(x[1]))
    assert line == f"{text} and {zero}"
    if x.dtype.kind not in "biu" and value == value:
        assert np.array(float(text)).astype(dtype) == x[0]


def tile(n):
    return hl.shared(n, hl.f32)


@hetir.kernel
def unwritten(x: hl.Array[hl.f32, 1]):
    block = hl.shared(64, hl.f32)
    first, second = hl.private(2, hl.f32), tile(4)
    i = hl.local_id(0)
    x[i] = block[i] + first[0] + second[1]


def test_local_arrays_are_called_as_their_variables():
    report = hetir.check(unwritten, (np.zeros(4, np.float32),), 1, 4)
    assert [fault.array for fault in report.faults] == ["block", "first", "second"]
    assert "`block` is read at 0 before it is written" in str(report.faults[0])


def test_hetir_text_keeps_names():
    text = unwritten.hir()
    assert "kernel unwritten(%x: array<" in text
    assert "%block: array<f32[64], shared> = alloc" in text


def test_a_renamed_array_is_not_called_by_its_old_name(tmp_path):
    """The compiled code is cached, and what it says of the array must not be."""
    said = []
    for name in "ab":
        file = tmp_path / f"{name}.py"
        file.write_text(
            "import hetir, hetir.lang as hl\n@hetir.kernel(debug=True)\n"
            f"def k({name}):\n    {name}[hl.global_id(0)] = 1\n"
        )
        file = file.replace(tmp_path / "same.py")
        linecache.clearcache()
        kernel = runpy.run_path(str(file))["k"]
        with pytest.raises(HetirError) as caught:
            kernel[1, 8](np.zeros(4, np.float32))
        said.append(caught.value.message)
    assert said == [said[0], said[0].replace("`a`", "`b`")]
    assert said[0] != said[1]
