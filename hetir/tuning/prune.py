"""What is not worth measuring, by the occupancy model."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hetir.artifact import Artifact
from hetir.residency import occupancy
from hetir.runtime import Device
from hetir.tuning.report import MEASURED, PRUNED, Config, Trial, mark

_KEPT = 0.5


def score_of(
    artifact: Artifact, config: Config, on: Device, grid: tuple[int, int, int]
) -> float | None:
    """The share of the device's places in use over the launch; None where there is no model."""
    allowed = on.portrait.limits
    if allowed.unit is None or not (on.portrait.units or allowed.unit.parts) or not prod(grid):
        return None
    resources = artifact.resources
    answer = occupancy(
        allowed, config["workgroup"], resources.registers or 0, resources.shared_bytes
    )
    return answer.fraction * answer.tail(grid, on.portrait.units).efficiency


def pruned(trials: Sequence[Trial], default: int) -> list[Trial]:
    """Leave out what keeps less than half of the device busy that the best one does."""
    best = max((t.score for t in trials if t.score is not None), default=0.0)
    found: list[Trial] = []
    for index, trial in enumerate(trials):
        low = trial.score is not None and trial.score < _KEPT * best and index != default
        if trial.outcome == MEASURED and low:
            reason = f"keeps {trial.score:.0%} of the device in use, another {best:.0%}"
            found.append(mark(trial, PRUNED, reason))
        else:
            found.append(trial)
    return found
