"""What tuning tried, and which of it is better than the default by more than noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import median, quantiles
from typing import Any

LEAST_GAIN = 0.01

MEASURED = "measured"
STOPPED = "stopped"  # measured until it was clear that it is slower
PRUNED = "pruned"
REFUSED = "refused"
MODELLED = "modelled"

Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One configuration and what became of it.

    `score` is the share of the device's places that it keeps in use, by the occupancy model
    (None where there is no model); `seconds` are its samples, in the order in which they were
    taken, and `reason` says why there are none or few.
    """

    config: Config
    outcome: str
    reason: str = ""
    score: float | None = None
    seconds: tuple[float, ...] = ()

    @property
    def median(self) -> float:
        """The median of the samples; infinite where there are none."""
        return median(self.seconds) if self.seconds else float("inf")

    @property
    def noise(self) -> float:
        """How far the median may be off: medians further apart than both their noises differ.

        1.57 times the distance between the quartiles over the root of the number of samples, the
        notch of McGill, Tukey and Larsen, "Variations of box plots" (1978). Zero for one sample.
        """
        if len(self.seconds) < 2:
            return 0.0
        low, _, high = quantiles(self.seconds, n=4, method="inclusive")
        return 1.57 * (high - low) / sqrt(len(self.seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was tried for one kernel, device and key. `stored` says that it was read from disk."""

    kernel: str
    device: str
    key: tuple[str, ...]
    trials: tuple[Trial, ...]
    default: int
    chosen: int
    stored: bool = False

    @property
    def config(self) -> Config:
        """The chosen configuration."""
        return self.trials[self.chosen].config

    @property
    def gain(self) -> float:
        """How many times as fast as the default the choice is, by the medians."""
        if self.chosen == self.default:
            return 1.0
        return self.trials[self.default].median / self.trials[self.chosen].median

    def __str__(self) -> str:
        """A line a configuration, the fastest first."""
        shown = ", ".join(self.key)
        head = f"`{self.kernel}` on {self.device}" + (f" for {shown}" if shown else "")
        order = sorted(range(len(self.trials)), key=lambda i: self.trials[i].median)
        lines = [head, *(self._line(index) for index in order)]
        return "\n".join([*lines, self._verdict()])

    def _line(self, index: int) -> str:
        trial = self.trials[index]
        times = ""
        if trial.seconds:
            times = f"{trial.median * 1e3:.4g} ms, noise {trial.noise * 1e3:.2g} ms"
            times += f" ({len(trial.seconds)} samples)"
        said = ": ".join(filter(None, (trial.outcome, trial.reason))) if not times else trial.reason
        mark = "*" if index == self.chosen else " "
        default = " (default)" if index == self.default else ""
        return f"{mark} {show(trial.config)}{default}  {'; '.join(filter(None, (times, said)))}"

    def _verdict(self) -> str:
        if self.chosen == self.default:
            return "the default stays: nothing is better by more than noise"
        if self.trials[self.chosen].outcome == MODELLED:
            return "chosen by the occupancy model, nothing was measured"
        return f"{self.gain:.2f} times as fast as the default"


def show(config: Config) -> str:
    """A configuration as words, `workgroup=(16, 16, 1) tile=32`."""
    return " ".join(f"{name}={value}" for name, value in config.items())


def decide(trials: Sequence[Trial], default: int) -> int:
    """The fastest of those that beat the default by more than both their noises, else the default.

    A gain of less than one percent is none. The default must have been measured.
    """
    usual = trials[default]
    best = default
    for index, trial in enumerate(trials):
        gain = usual.median - trial.median
        sure = gain > max(usual.noise + trial.noise, LEAST_GAIN * usual.median)
        if trial.outcome == MEASURED and sure and trial.median < trials[best].median:
            best = index
    return best


def by_model(trials: Sequence[Trial], default: int) -> int:
    """What uses most of the device by the model; the default unless another is better."""
    scores = [trial.score if trial.score is not None else 0.0 for trial in trials]
    able = [i for i, trial in enumerate(trials) if trial.outcome == MODELLED]
    best = max(able, key=lambda i: (scores[i], i == default, -i))
    return best if scores[best] > scores[default] * (1 + LEAST_GAIN) else default


def mark(trial: Trial, outcome: str, reason: str = "") -> Trial:
    """The trial with another outcome."""
    return replace(trial, outcome=outcome, reason=reason)
