"""The bench of the launch path runs, and a warm launch does no work that grows with its arrays."""

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir import runtime
from hetir.cli.bench import part

launch_path = part("launch_path")


@pytest.mark.parametrize("peer", ["hetir", "cffi", "ctypes"])
def test_the_bench_measures_each_peer(peer, monkeypatch):
    monkeypatch.setattr(launch_path, "COUNTS", (3, 4))
    monkeypatch.setattr(launch_path, "ROUNDS", 1)
    monkeypatch.setattr(launch_path, "CALLS", 2)
    rows = launch_path.measure(peer)
    assert {row["arrays"] for row in rows} == {3, 4}
    assert all(row["us"] > 0 for row in rows)
    assert launch_path.table(rows).count(f"| {peer} |") == len(rows) // 2


@pytest.mark.parametrize("count", launch_path.COUNTS)
def test_the_benchs_kernels_are_right(count):
    """What hetir and C compute is what the table compares."""
    call = dict(launch_path.hetir_calls(count))["kernel[grid, workgroup](...)"]
    values = next(c.cell_contents for c in call.__closure__ if isinstance(c.cell_contents, tuple))
    call()
    assert values[2].tolist() == [3.0] * launch_path.ITEMS


def test_a_warm_launch_looks_nothing_up(monkeypatch):
    @hetir.kernel
    def add(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
        i = hl.global_id(0)
        y[i] += x[i]

    x, y = np.ones(16, np.float32), np.zeros(16, np.float32)
    add[1, 16](x, y)

    def never(*_, **__):
        raise AssertionError("a warm launch must not come here")

    for where, name in (
        (runtime, "device"),
        (runtime, "as_operand"),
        (runtime, "cache"),
        (type(add), "specialise"),
        (type(add), "_compile"),
        (type(add), "bind"),
    ):
        monkeypatch.setattr(where, name, never)
    add[1, 16](x, y)
    assert y.tolist() == [2.0] * 16
