"""Tuning on an injected clock: what is tried, chosen, kept on disk and said."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir import library, runtime
from hetir.runtime import Cache
from hetir.tuning import Report, Trial, Tuned, TuningError, store
from hetir.tuning import report as reports
from hetir.tuning.measure import Copies, Race, race, sample


@hetir.kernel
def scale(x, each: hl.static, y):
    first = hl.global_id(0) * each
    for k in hl.static_range(each):
        if first + k < x.shape[0]:
            y[first + k] = y[first + k] + 2 * x[first + k]


CONFIGS = [{"workgroup": workgroup, "each": each} for workgroup in (64, 32, 128) for each in (1, 2)]


def grid(a: Mapping[str, Any]) -> int:
    return hetir.cdiv(a["x"].size, a["workgroup"][0] * a["each"])


@pytest.fixture(autouse=True)
def folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(runtime, "cache", lambda: Cache(tmp_path))
    return tmp_path / "tuning"


class Clock:
    """Gives each configuration the times of a list, in turn, and notes who asked."""

    def __init__(self, times: Callable[[Mapping[str, Any]], Sequence[float]]) -> None:
        self.times = times
        self.asked: list[tuple[int, int]] = []

    def __call__(self, config: Mapping[str, Any], run: Callable[[], float]) -> float:
        run()
        who = config["workgroup"][0], config["each"]
        self.asked.append(who)
        seen = self.times(config)
        return seen[(self.asked.count(who) - 1) % len(seen)]


def fast(**wanted: int) -> Callable[[Mapping[str, Any]], Sequence[float]]:
    """One second, with noise of a percent, for one configuration, and two for the rest."""

    def times(config: Mapping[str, Any]) -> Sequence[float]:
        right = config["workgroup"][0] == wanted["workgroup"] and config["each"] == wanted["each"]
        return (1.0, 1.01, 0.99) if right else (2.0, 2.01, 1.99)

    return times


def arrays(size: int = 1000) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.arange(size, dtype=np.float32), np.ones(size, np.float32)


def tuned(measure: Any, **options: Any) -> Tuned:
    return hetir.autotune(scale, CONFIGS, **{"grid": grid, "measure": measure} | options)


# Choosing ----------------------------------------------------------------------------------------


def test_the_fastest_is_chosen_and_runs() -> None:
    x, y = arrays()
    kernel = tuned(Clock(fast(workgroup=32, each=2)))
    kernel(x, y)
    np.testing.assert_array_equal(y, 1 + 2 * x)
    assert kernel.report is not None
    assert kernel.report.config == {"workgroup": (32, 1, 1), "each": 2}
    assert kernel.report.gain == 2.0
    assert "2.00 times as fast as the default" in str(kernel.report)


def test_tuning_leaves_the_callers_arrays_alone() -> None:
    x, y = arrays()
    kernel = tuned(Clock(fast(workgroup=32, each=2)))
    kernel.best({"x": x, "y": y})
    assert (y == 1).all()
    np.testing.assert_array_equal(x, np.arange(1000))


def test_runs_see_the_first_contents_each_time() -> None:
    x, y = arrays(4)
    copies = Copies({"x": x, "y": y, "again": y}, {"y": True, "again": True})
    assert copies.arguments["x"] is x
    assert copies.arguments["y"] is copies.arguments["again"]
    copies.arguments["y"][:] = 7
    copies.restore()
    assert (copies.arguments["y"] == 1).all()


def test_copies_keep_strides_and_tuples() -> None:
    class Pair(NamedTuple):
        array: Any
        number: float

    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    view = base[::-1, ::2]
    copies = Copies({"v": view, "p": Pair(base, 2.0)}, {"v": True, "p": True})
    copy = copies.arguments["v"]
    assert copy.strides == view.strides
    np.testing.assert_array_equal(copy, view)
    assert not np.shares_memory(copy, base)
    copies.arguments["p"].array[:] = 0
    copies.restore()
    np.testing.assert_array_equal(copies.arguments["p"].array, base)
    assert copies.arguments["p"].number == 2.0


def _trial(*seconds: float, outcome: str = reports.MEASURED, score: float | None = None) -> Trial:
    return Trial(config={"workgroup": (1, 1, 1)}, outcome=outcome, seconds=seconds, score=score)


def test_noise_is_the_notch_of_the_box_plot() -> None:
    # quartiles of 1..9 are 3 and 7
    assert _trial(*range(1, 10)).noise == pytest.approx(1.57 * 4 / 3)
    assert _trial(5.0).noise == 0.0


def test_a_gain_within_the_noise_is_none() -> None:
    default = _trial(2.0, 2.4, 1.6, 2.2, 1.8)
    assert reports.decide([default, _trial(1.8, 2.2, 1.4, 2.0, 1.6)], 0) == 0
    assert reports.decide([default, _trial(1.0, 1.1, 0.9, 1.05, 0.95)], 0) == 1


def test_the_fastest_median_loses_to_a_sure_one() -> None:
    default, sure = _trial(2.0, 2.0, 2.0), _trial(1.5, 1.5, 1.5)
    wild = _trial(0.5, 1.4, 9.0, 0.1, 5.0)
    assert reports.decide([default, wild, sure], 0) == 2


def test_less_than_a_percent_is_no_gain() -> None:
    assert reports.decide([_trial(1.0, 1.0), _trial(0.995, 0.995)], 0) == 0
    assert reports.decide([_trial(1.0, 1.0), _trial(0.98, 0.98)], 0) == 1


def test_only_what_was_measured_to_the_end_can_win() -> None:
    trials = [_trial(2.0, 2.0), _trial(1.0, 1.0, outcome=reports.STOPPED)]
    assert reports.decide(trials, 0) == 0


def test_equal_times_keep_the_default() -> None:
    kernel = tuned(Clock(lambda _: (1.0,)))
    kernel(*arrays())
    assert kernel.report is not None
    assert kernel.report.chosen == kernel.report.default == 0
    assert "the default stays" in str(kernel.report)


# Measuring ---------------------------------------------------------------------------------------


def _race(rounds: int, times: Sequence[float], seed: int = 0) -> tuple[list[Trial], list[int]]:
    asked: list[int] = []

    def measure(config: Mapping[str, Any], run: Callable[[], float]) -> float:
        asked.append(config["n"])
        return run()

    trials = [Trial(config={"n": n}, outcome=reports.MEASURED) for n in range(len(times))]
    runs = {n: lambda t=t: t for n, t in enumerate(times)}
    found = race(trials, runs, 0, Race(rounds, seed, measure), lambda _: None)
    return found, asked


def test_configurations_take_turns() -> None:
    _, asked = _race(5, (1.0, 1.1, 1.2))
    assert all(sorted(asked[i : i + 3]) == [0, 1, 2] for i in range(0, 15, 3))
    assert len({tuple(asked[i : i + 3]) for i in range(0, 15, 3)}) > 1


def test_the_seed_gives_the_order() -> None:
    assert _race(5, (1.0, 1.1, 1.2), seed=3) == _race(5, (1.0, 1.1, 1.2), seed=3)
    assert _race(9, (1.0, 1.1, 1.2), seed=3)[1] != _race(9, (1.0, 1.1, 1.2), seed=4)[1]


def test_what_is_clearly_slower_is_stopped_but_never_the_default() -> None:
    found, asked = _race(6, (9.0, 1.0, 1.6))
    assert [len(trial.seconds) for trial in found] == [6, 6, 4]
    assert found[2].outcome == reports.STOPPED
    assert asked.count(0) == 6


def test_warming_up_is_no_sample() -> None:
    first = count()
    trial = Trial(config={}, outcome=reports.MEASURED)
    way = Race(3, 0, lambda _, run: run())
    (found,) = race([trial], {0: lambda: float(next(first))}, 0, way, lambda _: None)
    assert found.seconds == (1.0, 2.0, 3.0)


def test_a_sample_is_the_median_of_two_milliseconds_or_fifty_runs() -> None:
    times = iter([1e-3, 5e-4, 7e-4, 99.0])
    assert sample({}, lambda: next(times)) == 7e-4
    runs = count()
    assert sample({}, lambda: 0.0 * next(runs)) == 0.0
    assert next(runs) == 50


# Pruning -----------------------------------------------------------------------------------------


def test_what_the_device_cannot_run_is_refused_with_its_reason() -> None:
    x, y = arrays()
    clock = Clock(lambda _: (1.0,))
    most = hetir.device("cpu").portrait.limits.max_workgroup_size
    configs = [{"workgroup": most * 2, "each": 1}, {"workgroup": 64, "each": 1}]
    kernel = hetir.autotune(scale, configs, grid=grid, measure=clock)
    kernel(x, y)
    np.testing.assert_array_equal(y, 1 + 2 * x)
    assert kernel.report is not None
    assert kernel.report.trials[0].outcome == reports.REFUSED
    assert f"has at most {most}" in kernel.report.trials[0].reason
    assert kernel.report.default == kernel.report.chosen == 1
    assert {who[0] for who in clock.asked} == {64}


def test_nothing_that_runs_is_an_error() -> None:
    configs = [{"workgroup": 1 << 20, "each": 1}]
    with pytest.raises(TuningError, match="can run no configuration of `scale`"):
        hetir.autotune(scale, configs, grid=grid, measure=Clock(lambda _: (1.0,)))(*arrays())


def test_what_leaves_half_of_the_device_idle_is_not_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import hetir.tuning as module

    scores = {(64, 1): 0.3, (32, 1): 1.0, (128, 2): 0.49}

    def score(_: Any, config: Mapping[str, Any], *__: Any) -> float:
        return scores.get((config["workgroup"][0], config["each"]), 0.8)

    monkeypatch.setattr(module, "score_of", score)
    clock = Clock(lambda _: (1.0,))
    kernel = tuned(clock)
    kernel(*arrays())
    assert kernel.report is not None
    by_config = {(t.config["workgroup"][0], t.config["each"]): t for t in kernel.report.trials}
    assert by_config[128, 2].outcome == reports.PRUNED
    assert by_config[128, 2].reason == "keeps 49% of the device in use, another 100%"
    # the default is what gains are compared with, whatever the model says of it
    assert by_config[64, 1].outcome == reports.MEASURED
    assert (128, 2) not in clock.asked


def test_the_model_alone_is_the_same_every_time() -> None:
    trials = [_trial(outcome=reports.MODELLED, score=s) for s in (0.5, 0.9, 0.9, 0.2)]
    assert reports.by_model(trials, 0) == 1
    assert reports.by_model(trials, 2) == 2
    kernel = tuned("model")
    kernel(*arrays(100_000))
    assert kernel.report is not None
    assert all(trial.seconds == () for trial in kernel.report.trials)
    assert kernel.report.chosen == kernel.report.default


# Keeping -----------------------------------------------------------------------------------------


def test_a_choice_is_kept_on_disk(folder: Any) -> None:
    first = tuned(Clock(fast(workgroup=128, each=1)))
    first(*arrays())
    (file,) = folder.iterdir()
    assert json.loads(file.read_text())["chosen"] == 4
    again = Clock(lambda _: (1.0,))
    second = tuned(again)
    second(*arrays())
    assert again.asked == []
    assert first.report is not None
    assert second.report is not None
    assert second.report.stored
    assert second.report.trials == first.report.trials
    assert second.report.config == first.report.config


def test_each_key_is_tuned_for_itself() -> None:
    clock = Clock(lambda _: (1.0,))
    kernel = tuned(clock, key=["x"])
    kernel(*arrays(100))
    asked = len(clock.asked)
    kernel(*arrays(100))
    assert len(clock.asked) == asked
    kernel(*arrays(200))
    assert len(clock.asked) == 2 * asked
    assert kernel.report is not None
    assert kernel.report.key == ("x=float32[200]",)


def test_types_and_configurations_are_part_of_what_is_kept() -> None:
    clock = Clock(lambda _: (1.0,))
    tuned(clock)(*arrays())
    asked = len(clock.asked)
    x, y = arrays()
    tuned(clock)(x.astype(np.float64), y.astype(np.float64))
    assert len(clock.asked) == 2 * asked
    hetir.autotune(scale, CONFIGS[:2], grid=grid, measure=clock)(x, y)
    assert len(clock.asked) > 2 * asked


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:40],
        lambda text: text.replace('"version": 1', '"version": 2'),
        lambda text: text.replace('"chosen": 4', '"chosen": 99'),
        lambda text: text.replace('"trials"', '"trails"'),
        lambda _: "[]",
    ],
)
def test_a_damaged_file_is_tuned_again(folder: Any, damage: Callable[[str], str]) -> None:
    tuned(Clock(fast(workgroup=128, each=1)))(*arrays())
    (file,) = folder.iterdir()
    whole = file.read_text()
    file.write_text(damage(whole))
    kernel = tuned(Clock(fast(workgroup=128, each=1)))
    kernel(*arrays())
    assert kernel.report is not None
    assert not kernel.report.stored
    assert json.loads(file.read_text())["chosen"] == 4


def test_a_folder_that_others_may_write_to_is_not_used(folder: Any) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    clock = Clock(lambda _: (1.0,))
    kernel = tuned(clock)
    kernel(*arrays())
    assert list(folder.iterdir()) == []
    kernel(*arrays())  # this process still knows
    assert kernel.report is not None
    assert not kernel.report.stored


def test_a_report_is_the_same_after_the_disk() -> None:
    trials = (_trial(1.0, 2.0), _trial(outcome=reports.REFUSED, score=0.5))
    report = Report(
        kernel="k", device="cpu", key=("n=3",), trials=trials, default=0, chosen=0, stored=True
    )
    assert store.save("identity", report)
    assert store.load("identity") == report
    assert store.load("another") is None


# Use ---------------------------------------------------------------------------------------------


def test_launches_are_asynchronous_and_take_names() -> None:
    x, y = arrays()
    kernel = tuned(Clock(lambda _: (1.0,)))
    launch = kernel.launch({"x": x, "y": y}, device="cpu")
    launch.wait()
    np.testing.assert_array_equal(y, 1 + 2 * x)


def test_nothing_is_shown_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned(Clock(lambda _: (1.0,)))(*arrays())
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    tuned(Clock(lambda _: (1.0,)), key=["x"])(*arrays())
    assert "tuning scale" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("configs", "options", "said"),
    [
        ([], {}, "has no configuration"),
        ([{"each": 1}], {}, "has no `workgroup`"),
        ([{"workgroup": 64, "tile": 1}], {}, "`tile` is no static parameter"),
        ([{"workgroup": 64, "x": 1}], {}, "`x` is no static parameter"),
        ([{"workgroup": 64, "each": 1}, {"workgroup": 64}], {}, "name unlike parameters"),
        (CONFIGS, {"key": ["z"]}, "`z` is no parameter"),
        (CONFIGS, {"key": ["each"]}, "`each` is no parameter that a caller"),
        (CONFIGS, {"grid": None}, "its grid does not know which"),
    ],
)
def test_what_cannot_be_tuned(configs: Any, options: Any, said: str) -> None:
    with pytest.raises(TuningError) as refused:
        hetir.autotune(scale, configs, **{"grid": grid} | options)
    assert said in refused.value.message
    assert refused.value.hint


def test_too_many_arguments() -> None:
    with pytest.raises(TuningError, match="takes 2 arguments, got 3"):
        tuned(Clock(lambda _: (1.0,)))(1, 2, 3)


def test_the_example_tunes_and_checks_a_library_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    example = library.load(Path(__file__).parents[2] / "examples" / "tune_library.py")
    row = example.tune(example.Problem("jacobi", (33, 70), example.IMAGE[:2]), "cpu", 1)
    assert "`jacobi` on cpu" in capsys.readouterr().out
    assert row["default"] == [64, 4, 1]
    assert row["samples"] == [2, 2]
    assert row["gain"] == pytest.approx(row["default_ms"] / row["choice_ms"])
