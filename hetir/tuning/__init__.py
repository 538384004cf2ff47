"""`hetir.autotune`: the fastest of several configurations of a kernel, found once and kept."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from math import prod
from typing import Any, Literal, cast

import numpy as np

from hetir import compiler, runtime
from hetir.decorator import Extents, Kernel
from hetir.diagnostics import CompileError, LaunchError
from hetir.frontend import STATIC
from hetir.ir.canonical import content_hash
from hetir.limits import check_registers
from hetir.tuning import store
from hetir.tuning.measure import Copies, Measure, Race, Run, race, sample, timed
from hetir.tuning.prune import pruned, score_of
from hetir.tuning.report import (
    MEASURED,
    MODELLED,
    REFUSED,
    Config,
    Report,
    Trial,
    by_model,
    decide,
    mark,
)
from hetir.version import CODE_VERSION

__all__ = ["Config", "Report", "Trial", "Tuned", "TuningError", "autotune"]

Grid = Extents | Callable[[Mapping[str, Any]], Extents]


class TuningError(LaunchError):
    """A kernel cannot be tuned as it is asked.

    Cause: no configuration, one that names no static parameter, a key that is no parameter, a
    fixed grid with several workgroups, or no configuration that the device can run.
    Fix: as the hint says.
    """

    code = "HET522"


def autotune(
    kernel: Kernel,
    configs: Sequence[Mapping[str, Any]],
    *,
    key: Sequence[str] = (),
    grid: Grid | None = None,
    rounds: int = 7,
    seed: int = 0,
    measure: Measure | Literal["model"] | None = None,
) -> Tuned:
    """A kernel that launches with the fastest of `configs` for its device and key.

    Args:
        kernel: a `@hetir.kernel` function.
        configs: each a mapping of `workgroup` and of the kernel's `hl.static` parameters
            (tile sizes, unrolling, elements a work-item). The first is the default.
        key: parameters whose value, or shape and type, may change which is fastest; for each
            new combination the configurations are tried again.
        grid: the grid, or a function of one mapping: the arguments by name, the configuration's
            parameters, and `workgroup` as three extents. The kernel's usual grid if left out.
        rounds: samples of each configuration.
        seed: of the order within each round.
        measure: takes a sample, `measure(config, run) -> seconds`; or `"model"`, which chooses
            by the occupancy model alone and gives the same answer every time.

    Raises:
        TuningError: the configurations do not fit the kernel.
    """
    return Tuned(kernel, configs, key=key, grid=grid, rounds=rounds, seed=seed, measure=measure)


class Tuned:
    """A tuned kernel; made by `hetir.autotune`. `report` says what the last tuning tried."""

    def __init__(
        self,
        kernel: Kernel,
        configs: Sequence[Mapping[str, Any]],
        *,
        key: Sequence[str],
        grid: Grid | None,
        rounds: int,
        seed: int,
        measure: Measure | Literal["model"] | None,
    ) -> None:
        self.kernel = kernel
        self.configs = tuple(_config(kernel, config) for config in configs)
        self.key = tuple(key)
        self.grid = grid
        self.rounds, self.seed = max(1, rounds), seed
        self.measure = measure
        self.report: Report | None = None
        # what was traced keeps its identity as long as it is the key's
        self._chosen: dict[tuple[object, ...], tuple[object, Config]] = {}
        _check(self)

    def __call__(self, *arguments: Any, **named: Any) -> None:
        """Launch on the CPU and wait; the static parameters of the configurations are left out."""
        self.launch(self._named(arguments, named)).wait()

    def launch(
        self,
        arguments: Sequence[Any] | Mapping[str, Any] = (),
        *,
        device: Any = "cpu",
        queue: Any = None,
        after: Sequence[Any] = (),
    ) -> runtime.Launch:
        """Start a launch with the best configuration, after finding it where it is not known."""
        given = arguments if isinstance(arguments, Mapping) else self._named(arguments, {})
        config = self.best(given, device=device)
        return self.kernel.launch(
            {**given, **_static(config)},
            grid=self._grid(given, config),
            workgroup=config["workgroup"],
            device=device,
            queue=queue,
            after=after,
        )

    def best(self, arguments: Mapping[str, Any], *, device: Any = "cpu") -> Config:
        """The configuration for these arguments; tunes where it is neither known nor stored."""
        on = runtime.device(device) if isinstance(device, str) else device
        values = self._values(arguments, self.configs[0])
        traced = self.kernel.specialisation(values)
        described = tuple(f"{name}={_described(arguments[name])}" for name in self.key)
        known = self._chosen.get((id(traced), on.name, described))
        if known is not None:
            return known[1]
        identity = self._identity(content_hash(traced.kernel), on, described)
        report = store.load(identity)
        if report is None:
            report = self._tune(arguments, on, described)
            store.save(identity, report)
        self.report = report
        self._chosen[id(traced), on.name, described] = traced, report.config
        return report.config

    def _identity(self, content: str, on: runtime.Device, key: tuple[str, ...]) -> str:
        """All that a choice depends on."""
        portrait = on.portrait
        device = (on.name, portrait.title, portrait.units, on.target)
        how = "model" if self.measure == "model" else "measured"
        parts = (content, CODE_VERSION, device, key, [dict(c) for c in self.configs], how)
        return json.dumps(parts)

    def _tune(
        self, arguments: Mapping[str, Any], on: runtime.Device, key: tuple[str, ...]
    ) -> Report:
        with _progress(self.kernel.name) as tell:
            trials = self._candidates(arguments, on, tell)
            able = [i for i, trial in enumerate(trials) if trial.outcome != REFUSED]
            if not able:
                raise TuningError(
                    f"`{on.name}` can run no configuration of `{self.kernel.name}`: "
                    f"{trials[0].reason}",
                    hint="add a smaller configuration",
                )
            default = able[0]
            if isinstance(self.measure, str):
                trials = [mark(t, MODELLED) if i in able else t for i, t in enumerate(trials)]
                chosen = by_model(trials, default)
            else:
                trials = pruned(trials, default)
                runs = {
                    i: self.run_of(arguments, trial.config, on)
                    for i, trial in enumerate(trials)
                    if trial.outcome == MEASURED
                }
                way = Race(self.rounds, self.seed, self.measure or sample)
                trials = race(trials, runs, default, way, tell)
                chosen = decide(trials, default)
        return Report(
            kernel=self.kernel.name,
            device=on.name,
            key=key,
            trials=tuple(trials),
            default=default,
            chosen=chosen,
        )

    def _candidates(
        self, arguments: Mapping[str, Any], on: runtime.Device, tell: Callable[[str], None]
    ) -> list[Trial]:
        """Each configuration compiled, or refused with the reason."""
        trials: list[Trial] = []
        for index, config in enumerate(self.configs):
            tell(f"compiling {index + 1} of {len(self.configs)}")
            try:
                values, workgroup = self._values(arguments, config), config["workgroup"]
                artifact, _ = self.kernel.program(values, on, workgroup)
                registers = artifact.resources.registers or 0
                check_registers(on.portrait.limits, registers, prod(workgroup))
            except CompileError as error:
                trials.append(Trial(config=config, outcome=REFUSED, reason=error.message))
                continue
            score = score_of(artifact, config, on, compiler.dims(self._grid(arguments, config)))
            trials.append(Trial(config=config, outcome=MEASURED, score=score))
        return trials

    def run_of(self, arguments: Mapping[str, Any], config: Config, on: runtime.Device) -> Run:
        """A launch of a configuration that leaves the caller's arrays as they are."""
        values, workgroup = self._values(arguments, config), config["workgroup"]
        artifact, program = self.kernel.program(values, on, workgroup)
        written: dict[str, bool] = {}
        for slot in artifact.layout.slots:
            if slot.writes:
                name = program.names[int(slot.source[0])]
                written[name] = written.get(name, False) or slot.reads or len(slot.source) > 1
        copies = Copies(dict(zip(self.kernel.parameters, values, strict=True)), written)
        grid = self._grid(arguments, config)

        def start() -> runtime.Launch:
            return self.kernel.launch(copies.arguments, grid=grid, workgroup=workgroup, device=on)

        def run() -> float:
            copies.restore()
            return timed(start)

        return run

    def _values(self, arguments: Mapping[str, Any], config: Config) -> tuple[Any, ...]:
        values = self.kernel.bind((), {**arguments, **_static(config)})
        return tuple(map(runtime.as_operand, values))

    def _grid(self, arguments: Mapping[str, Any], config: Config) -> Extents:
        if callable(self.grid):
            return self.grid({**arguments, **config})
        named = {**arguments, **_static(config)}
        return self.kernel.launch_shape(named, self.grid, config["workgroup"])[0]

    def _named(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Positional arguments by name, the configurations' parameters left out."""
        free = [n for n in self.kernel.parameters if n not in self.configs[0]]
        if len(arguments) > len(free):
            raise TuningError(
                f"`{self.kernel.name}` takes {len(free)} arguments, got {len(arguments)}",
                hint=f"give {', '.join(free)}: the configurations give the rest",
            )
        return {**dict(zip(free, arguments, strict=False)), **named}


def _config(kernel: Kernel, given: Mapping[str, Any]) -> Config:
    """A configuration with the workgroup first, as three extents."""
    if "workgroup" not in given:
        raise TuningError(
            f"a configuration of `{kernel.name}` has no `workgroup`",
            hint='write {"workgroup": 256, ...}',
        )
    static = {name: value for name, value in given.items() if name != "workgroup"}
    for name in static:
        declared = kernel.declared.get(name)
        if declared is None or declared.annotation is not STATIC:
            raise TuningError(
                f"`{name}` is no static parameter of `{kernel.name}`",
                hint=f"annotate it in the kernel: `{name}: hl.static`",
            )
    return {"workgroup": compiler.dims(given["workgroup"]), **static}


def _check(tuned: Tuned) -> None:
    """What can be told to be wrong before there are arguments."""
    kernel, configs = tuned.kernel, tuned.configs
    if not configs:
        raise TuningError(f"`{kernel.name}` has no configuration", hint="give at least one")
    if len({frozenset(config) for config in configs}) > 1:
        raise TuningError(
            f"the configurations of `{kernel.name}` name unlike parameters",
            hint="give each configuration a value for every parameter that one of them names",
        )
    for name in tuned.key:
        if name not in kernel.parameters or name in configs[0]:
            raise TuningError(
                f"`{name}` is no parameter that a caller of `{kernel.name}` gives",
                hint="a key names parameters that no configuration sets",
            )
    sizes = {config["workgroup"] for config in configs}
    if len(sizes) > 1 and tuned.grid is None:
        raise TuningError(
            f"`{kernel.name}` is tried with several workgroups and its grid does not know which",
            hint='give `grid=lambda a: hetir.cdiv(a["x"].size, a["workgroup"][0])`',
        )


def _static(config: Config) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != "workgroup"}


def _described(value: Any) -> str:
    """What of an argument a key holds: an array's type and extents, a number's value."""
    operand = runtime.as_operand(value)
    if isinstance(operand, runtime.Array):
        return f"{operand.dtype}{list(operand.shape)}"
    if isinstance(operand, np.ndarray):
        array = cast("np.ndarray[Any, Any]", operand)
        return f"{array.dtype}{list(array.shape)}"
    return repr(operand)


@contextlib.contextmanager
def _progress(name: str) -> Generator[Callable[[str], None]]:
    """Shows what is being done on a terminal, and nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # loaded only when something is shown

    with Console(stderr=True).status(f"tuning {name}") as status:
        yield lambda text: status.update(f"tuning {name}: {text}")
