"""The bench: what it calls quiet, wrong and best, and that a worker answers as it should."""

import itertools
import math
import sys

import numpy as np
import pytest

from hetir.cli.bench import part

driver, measure, problems, report = map(part, ("driver", "measure", "problems", "report"))


def row(problem, peer, ms, **more):
    facts = {"bytes": 12 << 24, "flops": 1 << 24, "right": True, "error": 0.0, "round": 1}
    return {"kind": "time", "problem": problem, "peer": peer, "ms": ms, **facts, **more}


HEAD = [
    driver.machine(),
    *({"kind": "peer", "peer": p, "version": "1", "style": "s"} for p in ("hetir", "c", "numba")),
]


def cells(text, first):
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_ratios_are_to_the_best_peer_and_to_numba():
    rows = [
        *HEAD,
        row("vector_add", "hetir", 9.0),
        row("vector_add", "hetir", 8.0),
        row("vector_add", "c", 4.0),
        row("vector_add", "numba", 16.0),
        row("saxpy", "hetir", 2.0),
        row("saxpy", "c", 16.0),
        row("saxpy", "numba", 8.0),
    ]
    text = report.markdown(rows)
    assert cells(text, "vector_add")[1:7] == ["8.00", "4.00", "16.0", "c", "2.00", "0.50"]
    assert cells(text, "saxpy")[1:7] == ["2.00", "16.0", "8.00", "numba", "0.25", "0.25"]
    means = cells(text, "geometric mean")
    assert (means[5], means[6]) == (f"{math.sqrt(0.5):.2f}", f"{math.sqrt(0.125):.2f}")


def test_wrong_results_are_named_and_left_out():
    rows = [*HEAD, row("sum", "hetir", 2.0), row("sum", "c", 1.0, right=False, error=0.5)]
    text = report.markdown(rows)
    assert cells(text, "sum")[1:4] == ["2.00", "", ""]
    assert "c sum: wrong, error 0.5" in text


def test_times_beside_a_busy_neighbour_are_marked():
    used = {"cpu_ms": 2.0, "foreign_cores": 0.3}
    idle = {"cpu_ms": 1.0, "foreign_cores": 0.3}
    rows = [*HEAD, row("sum", "hetir", 1.0, **used), row("sum", "numba", 1.0, **idle)]
    rows[0] = {**HEAD[0], "cores": 2}
    assert cells(report.markdown(rows), "sum")[1:4] == ["1.00~", "", "1.00"]


def test_each_round_loads_anew_and_begins_with_another_peer():
    asked = []

    class Peer:
        def __init__(self, name):
            self.name = name

        def ask(self, do, **command):
            asked.append((do, self.name))
            if do == "load" and self.name == "numba":
                return {"failed": "no such kernel"}
            return {"right": True} if do == "load" else {"ms": 1.0}

    peers = [Peer(name) for name in ("hetir", "numba", "c")]
    rows = driver.one_problem(problems.ALL["launch"], peers, 2, 0.1)
    assert [(r["peer"], r.get("round")) for r in rows] == [
        *(("numba", None), ("hetir", 1), ("c", 1), ("c", 2), ("hetir", 2)),
    ]
    assert rows[0]["failed"] == "no such kernel"
    first = [("load", "hetir"), ("load", "numba"), ("load", "c")]
    ours = [("time", "hetir"), ("time", "c"), ("drop", "hetir"), ("drop", "c")]
    assert asked[:7] == first + ours
    assert asked[7:] == [(do, name) for do in ("load", "time", "drop") for name in ("c", "hetir")]


def test_the_bound_is_the_tighter_of_bytes_and_flops():
    limits = {"triad_gbps": 10.0, "read_gbps": 20.0, "fma_gflops": 100.0}
    add, total = problems.ALL["vector_add"], problems.ALL["sum"]
    assert report.bound_ms(add, {"bytes": 5e9, "flops": 1e9}, limits) == pytest.approx(500)
    assert report.bound_ms(total, {"bytes": 5e9, "flops": 1e9}, limits) == pytest.approx(250)
    assert report.bound_ms(add, {"bytes": 0, "flops": 1e9}, limits) == pytest.approx(10)
    rows = [{"kind": "limits", "triad_gbps": 9.0, "fork_join_us": 3.0}]
    rows.append({"kind": "limits", "triad_gbps": 7.0, "fork_join_us": 2.0})
    assert report.best_limits(rows) == {"triad_gbps": 9.0, "fork_join_us": 2.0}


def test_a_loud_window_is_taken_again_and_the_quietest_kept(monkeypatch):
    loud = iter((0.1, 0.9, 0.3, 0.5, 0.7))  # the first one is not counted
    windows = []

    def window(run, budget):
        windows.append({"times": [0.001 * (len(windows) + 1)], "own_cores": 1.9, "cpu": 0.001})
        return windows[-1] | {"others": next(loud)}

    monkeypatch.setattr(measure, "window", window)
    kept = measure.sample(lambda: None, 0.01)
    assert (kept["windows"], kept["foreign_cores"], kept["ms"]) == (4, 0.3, 3.0)


def test_idle_cores_that_others_use_do_not_count(monkeypatch):
    monkeypatch.setattr(measure, "CORES", 4)
    made = itertools.repeat({"times": [0.001], "own_cores": 1.0, "cpu": 0.001, "others": 2.5})
    monkeypatch.setattr(measure, "window", lambda run, budget: next(made))
    assert measure.sample(lambda: None, 0.01)["windows"] == 2


def test_a_window_counts_its_own_time():
    def spin():
        total = 0
        for k in range(20_000):
            total += k
        return total

    found = measure.window(spin, 0.02)
    assert len(found["times"]) >= 3
    assert 0 < found["cpu"] <= 1.5 * max(found["times"]) + 0.01


@pytest.fixture(scope="module")
def numpy_peer():
    with driver.started(("numpy",)) as (peer,):
        yield peer


def test_a_worker_checks_before_it_times(numpy_peer, tmp_path):
    about = problems.ALL["launch"].export(tmp_path)
    answer = numpy_peer.ask("load", **about)
    assert answer["right"]
    assert answer["error"] <= 1e-6
    timed = numpy_peer.ask("time", budget=0.01)
    assert 0 < timed["ms_least"] <= timed["ms"] <= timed["ms_p90"]


def test_a_worker_sees_a_wrong_result(numpy_peer, tmp_path):
    about = problems.ALL["launch"].export(tmp_path)
    want = np.load(tmp_path / "want.z.npy")
    want[17] += 0.01
    np.save(tmp_path / "want.z.npy", want)
    assert numpy_peer.ask("load", **about)["right"] is False
    np.save(tmp_path / "want.z.npy", want[:-1])
    assert numpy_peer.ask("load", **about)["error"] == math.inf


def test_a_failure_is_an_answer_and_a_dead_worker_starts_again(numpy_peer, tmp_path):
    assert numpy_peer.ask("load", **problems.ALL["launch"].export(tmp_path))["right"]
    assert "failed" in numpy_peer.ask("load", problem="launch", folder="/nowhere", share=False)
    numpy_peer.close()
    assert numpy_peer.ask("load", **problems.ALL["launch"].export(tmp_path))["right"]


def test_a_peer_that_is_not_there_says_what_would_bring_it(monkeypatch, tmp_path):
    fake = tmp_path / "python"
    fake.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("HETIR_BENCH_PYTHON_NUMBA", str(fake))
    rows = list(driver.run((), ("numba",), rounds=1, budget=0.01, tell=lambda _: None))
    (about,) = [r for r in rows if r["kind"] == "peer" and r["peer"] == "numba"]
    assert "missing" in about
    assert "HETIR_BENCH_PYTHON_NUMBA" in report.markdown(rows)
