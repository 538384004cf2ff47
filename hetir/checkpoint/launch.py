"""Launches that can be stopped, saved and resumed, on another device if wanted."""

from __future__ import annotations

import secrets
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from hetir import compiler, limits, records, runtime
from hetir.artifact import Artifact, Layout
from hetir.checkpoint import file
from hetir.checkpoint.commit import publish
from hetir.checkpoint.errors import CheckpointError, CheckpointTimeout
from hetir.checkpoint.snapshot import Job, Snapshot, State, described, from_file, plan_of
from hetir.checkpoint.values import OnHost
from hetir.compiler import Dims
from hetir.ir.canonical import canonicalise, content_hash
from hetir.ir.core import Kernel
from hetir.ir.types import Scalar
from hetir.passes.layout import layout_of
from hetir.passes.resumable import DONE, NOT_STARTED, WORDS, Control, Resumable
from hetir.passes.safe_points import NotCheckpointableError, Plan, place
from hetir.passes.simplify import simplify
from hetir.target import UnsupportedError

MOST_GROUPS = 1 << 28
_STATE_BYTES = 256 << 20
_SHOWN_BYTES = 64 << 20
_LEAST_CAPACITY, _MOST_CAPACITY = 16, 8192
_MOST_PARTS = 16
_EMPTY = State(MappingProxyType({}), MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAt:
    """Stop a launch after a number of safe points, and save it: for tests.

    Args:
        safe_points: how many safe points all workgroups together pass before they stop. The
            place before a workgroup's first op is one.
        path: the file to write; none is written if the launch ends first.
    """

    safe_points: int
    path: str | Path


class CheckpointLaunch:
    """One launch in flight that can be stopped; `runtime.Launch` with `checkpoint` and `migrate`.

    Attributes:
        kernel: the kernel's name.
        device: where it runs now.
        arguments: the arguments by parameter name; after `wait` host arrays hold the results.
    """

    def __init__(
        self, snapshot: Snapshot, device: runtime.Device, stop: StopAt | None = None
    ) -> None:
        self.kernel = snapshot.job.kernel.name
        self.device = device
        self.arguments: Mapping[str, Any] = dict(zip(snapshot.names, snapshot.values, strict=True))
        self._stop = stop
        self._snapshot = snapshot
        self._over = False
        self._run = _started(snapshot, device, stop)

    def __repr__(self) -> str:
        state = "ended" if self.done else "running"
        return f"<hetir launch of {self.kernel} on {self.device.name}, {state}>"

    @property
    def done(self) -> bool:
        """Whether it has ended or was stopped; results are there after `wait`."""
        return self._over or (self._run.launch.done and self._stop is None)

    @property
    def error(self) -> Exception | None:
        """What the launch failed with, or None."""
        return self._run.launch.error

    @property
    def seconds(self) -> float | None:
        """How long the device worked on its last part, or None before that has ended."""
        return self._run.launch.seconds

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it has ended, or stopped as `StopAt` says; host arrays hold the results.

        A launch whose wait was interrupted from the keyboard stops at its next safe points: it can
        be saved, and goes on where it is waited for again.

        Raises:
            LaunchFailedError: the launch failed.
            LaunchTimeoutError: it did not end in `timeout` seconds, and is still running.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not self._over:
            left = None if end is None else max(0.0, end - time.monotonic())
            if not self._ended(left):
                raise runtime.LaunchTimeoutError(f"`{self.kernel}` did not end in {timeout:g} s")
            self._run.launch.wait()
            self._snapshot = self._run.stopped()
            if self._snapshot.done:
                self._over = True
            elif self._stop is not None:
                self._save(Path(self._stop.path))
            else:
                self._go_on()

    def checkpoint(self, path: str | Path, timeout: float | None = None) -> None:
        """Stop at the next safe points and save; the launch is over when this returns.

        Args:
            path: the file to write, by convention `*.hetck`. A file that is there is kept as
                `*.hetck.previous`.
            timeout: seconds to wait at most for the workgroups to stop.

        Raises:
            CheckpointTimeout: they did not stop in time; the launch is still running.
            CheckpointError: the file cannot be written; the launch goes on.
        """
        self._quiesce(timeout)
        self._save(Path(path))

    def save(self, path: str | Path, timeout: float | None = None) -> None:
        """Stop, save and go on, as `checkpoint` but for the last; for saving now and then."""
        over = self._over
        self._quiesce(timeout)
        self._save(Path(path))
        if not over and not self._snapshot.done:
            self._over = False
            self._go_on()

    def migrate(self, device: str | runtime.Device, timeout: float | None = None) -> None:
        """Stop, and go on with the rest of the work on another device, through memory.

        Arrays of the host stay where they are. Arrays on a device are copied to the host:
        `arguments` has the ones that hold the results.

        Raises:
            CheckpointTimeout: the workgroups did not stop in `timeout` seconds.
            CheckpointError: the launch was stopped and saved before.
            CompileError: the device cannot run the kernel; the launch goes on where it was.
        """
        if self._over and not self._snapshot.done:
            raise CheckpointError(
                f"`{self.kernel}` was stopped and saved: this launch is over",
                hint="go on with its file: `hetir.resume(path, device)`",
            )
        target = runtime.device(device) if isinstance(device, str) else device
        prepare(self._snapshot.job, target)
        self._quiesce(timeout)
        if self._snapshot.done:
            return
        self._snapshot = replace(self._snapshot, values=OnHost().all(self._snapshot.values))
        names = self._snapshot.names
        self.arguments = dict(zip(names, self._snapshot.values, strict=True))
        before, self.device = self.device, target
        try:
            self._go_on()
        except BaseException:
            self.device = before
            self._go_on()
            raise

    def _quiesce(self, timeout: float | None) -> None:
        """Ask the workgroups to stop, and wait until they have."""
        if self._over:
            return
        self._run.ask(stop=True)
        if not self._ended(timeout):
            self._run.ask(stop=False)
            raise CheckpointTimeout(
                f"`{self.kernel}` did not stop in {timeout:g} s and is still running",
                hint="wait longer; one workgroup may need that long between two safe points",
            )
        self._run.launch.wait()
        self._snapshot = self._run.stopped()
        self._over = self._snapshot.done

    def _ended(self, timeout: float | None) -> bool:
        """Wait for the part that runs; whether it has ended, well or not."""
        try:
            return self._run.launch.event.wait(timeout)
        except runtime.DriverError:  # the launch's own wait raises what it means
            return True
        except KeyboardInterrupt:
            self._run.ask(stop=True)
            raise

    def _save(self, path: Path) -> None:
        meta, tensors = self._snapshot.to_file()
        try:
            with _progress(path, sum(t.nbytes for t in tensors.values())) as tell:
                publish(path, lambda out: file.write(out, meta, tensors, tell))
        except BaseException:
            if not self._over and not self._snapshot.done:
                self._stop = None
                self._go_on()
            raise
        self._over = True

    def _go_on(self) -> None:
        """Run what is left."""
        self._run = _started(self._snapshot, self.device, self._stop)


def _started(snapshot: Snapshot, device: runtime.Device, stop: StopAt | None) -> _Run | _Parts:
    """Run what is left: in one launch, or in parts where a kernel cannot be asked to stop."""
    try:
        return _Run(snapshot, device, stop)
    except UnsupportedError:
        return _Parts(snapshot, device, stop)


class _Run:
    """One launch of the instrumented kernel, and the hidden arrays that it works with."""

    def __init__(self, snapshot: Snapshot, device: runtime.Device, stop: StopAt | None) -> None:
        job = snapshot.job
        self.snapshot, self.device = snapshot, device
        self.resumes = bool((snapshot.status != NOT_STARTED).any())
        kind = Resumable(resume=self.resumes, counts=stop is not None)
        code = _polling(job.text, device, kind)
        self.capacity = capacity(job, snapshot.tickets)
        control = np.zeros(len(Control), np.int32)
        control[Control.CAPACITY] = self.capacity
        control[Control.LIMIT] = min(stop.safe_points, (1 << 31) - 1) if stop else 0
        self.control = device.array(control)
        rows = 1 if code.near else 1 + WORDS
        self.status = device.array(np.full(max(1, rows * job.groups), DONE, np.int64))
        self.saved = {
            kind: device.empty(max(1, self._size(kind)), kind.name) for kind in job.plan.types
        }
        hidden = [self.control, self.status, *self.saved.values()]
        if self.resumes:
            flat = snapshot.state.flat(job, self.capacity)
            hidden.append(device.array(snapshot.status))
            hidden += [device.array(flat[kind]) for kind in job.plan.types]
        given = (*snapshot.values[: code.inputs], *hidden)
        block, facts = code.packer.pack(given, job.grid, job.workgroup)
        artifact, program = code.program(facts, device, job.workgroup)
        self.launch: runtime.Launch = program.launch(
            given,
            grid=job.grid,
            workgroup=job.workgroup,
            records=records.request(artifact, job.grid, job.workgroup),
            block=block,
        )

    def _size(self, kind: Scalar) -> int:
        job = self.snapshot.job
        rows = job.plan.elements(kind, shared=False) * job.items
        return self.capacity * (rows + job.plan.elements(kind, shared=True))

    def ask(self, *, stop: bool) -> None:
        """Write the stop word, past what the launch's own queue has to do."""
        word = np.array([stop], np.int32).view(np.uint8)
        queue = self.device.queue()
        place = self.control.offset + 4 * Control.STOP
        self.device.driver.write(queue.handle, self.control.buffer.memory, place, word)

    def stopped(self) -> Snapshot:
        """How far the launch came; it has ended."""
        job, before = self.snapshot.job, self.snapshot
        status = self.status.numpy()[: job.groups].copy()
        saved = status > 0
        flat = {kind: a.numpy() for kind, a in self.saved.items()} if saved.any() else {}
        tickets = int(status.max() >> 16) + 1 if saved.any() else 0
        state = State.of(job, flat, self.capacity, tickets) if flat else _EMPTY
        producer = {"device": self.device.name, "target": self.device.target}
        return replace(
            before, status=status, state=state, epoch=before.epoch + 1, producer=producer
        )


@contextmanager
def _progress(path: Path, size: int) -> Generator[Callable[[int], object]]:
    """A bar on a terminal while a large file is written; gives the function that moves it."""
    if size < _SHOWN_BYTES or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    columns = ("[progress.description]{task.description}", BarColumn())
    shown = Progress(
        *columns, DownloadColumn(), TransferSpeedColumn(), console=Console(stderr=True)
    )
    with shown:
        task = shown.add_task(f"saving {path.name}", total=size)
        yield lambda written: shown.advance(task, written)


class _Parts:
    """A launch as several of some workgroups each, for devices whose kernels cannot poll.

    A thread of its own makes them; a request to stop comes true between two of them. It stands for
    the launch and for its event, too.
    """

    def __init__(self, snapshot: Snapshot, device: runtime.Device, stop: StopAt | None) -> None:
        job = snapshot.job
        self.snapshot, self.device = snapshot, device
        self.status = snapshot.status.copy()
        self.launch = self.event = self
        self.error: Exception | None = None
        self.seconds: float | None = None
        resumes = bool((snapshot.status > 0).any())
        kind = Resumable(resume=resumes, polls=False, initialise=device.portrait.emulated)
        self.code = _code(job.text, device.name, kind)
        self.capacity = max(1, snapshot.tickets)
        self.hidden: list[Any] = []
        if resumes:
            control = np.zeros(len(Control), np.int32)
            control[Control.CAPACITY] = self.capacity
            flat = snapshot.state.flat(job, self.capacity)
            self.hidden = [control, *(flat[kind] for kind in job.plan.types)]
        left = np.flatnonzero(self.status != DONE)
        self.most = len(left) if stop is None else min(len(left), stop.safe_points)
        size = max(1, device.portrait.units or 1, len(left) // _MOST_PARTS)
        self.parts = [left[n : min(n + size, self.most)] for n in range(0, self.most, size)]
        self._asked = threading.Event()
        self._load()
        self._thread = threading.Thread(target=self._work, name="hetir-parts", daemon=True)
        self._thread.start()

    def _load(self) -> None:
        """Compile now, so that what the device lacks is told where the launch is made."""
        job = self.snapshot.job
        limits.check_launch_shape(self.device.portrait.limits, job.grid, job.workgroup)
        self.code.program(~0, self.device, job.workgroup)

    def _work(self) -> None:
        start = time.perf_counter()
        try:
            for part in self.parts:
                if self._asked.is_set():
                    break
                self._part(part)
        except Exception as error:  # noqa: BLE001 - raised by wait
            self.error = error
        self.seconds = time.perf_counter() - start

    def _part(self, groups: np.ndarray[Any, Any]) -> None:
        job = self.snapshot.job
        before = np.full(max(1, job.groups), DONE, np.int64)
        before[groups] = self.status[groups]
        values = self.snapshot.values[: self.code.inputs]
        given = (*values, *self.hidden[:1], before, *self.hidden[1:])
        block, facts = self.code.packer.pack(given, job.grid, job.workgroup)
        artifact, program = self.code.program(facts, self.device, job.workgroup)
        launch = program.launch(
            given,
            grid=job.grid,
            workgroup=job.workgroup,
            records=records.request(artifact, job.grid, job.workgroup),
            block=block,
        )
        launch.wait()
        self.status[groups] = DONE

    @property
    def done(self) -> bool:
        """Whether no part is running or to come."""
        return not self._thread.is_alive()

    def wait(self, timeout: float | None = None) -> bool:
        """As Launch.wait, or as Event.wait: False when the time is over."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if self.error is not None:
            error, self.parts = self.error, []
            raise error
        return True

    def ask(self, *, stop: bool) -> None:
        """Stop after the part that runs, or not."""
        if stop:
            self._asked.set()
        else:
            self._asked.clear()

    def stopped(self) -> Snapshot:
        """How far the launch came; it has ended."""
        before = self.snapshot
        producer = {"device": self.device.name, "target": self.device.target}
        return replace(before, status=self.status.copy(), epoch=before.epoch + 1, producer=producer)


def capacity(job: Job, tickets: int) -> int:
    """Workgroups whose state a launch has room for; the others stop at their ends."""
    room = _STATE_BYTES // max(1, job.group_bytes)
    wanted = max(_LEAST_CAPACITY, min(_MOST_CAPACITY, room))
    return max(1, tickets, min(job.groups, wanted))


@dataclass(slots=True)
class _Code:
    """One form of a kernel for one device, compiled for what launches promise of arguments.

    `inputs` arguments of the launch come before the hidden ones: none that follows them is read.
    `near` is `Resumable`'s.
    """

    kernel: Kernel
    near: bool
    inputs: int
    layout: Layout
    packer: runtime.Packer
    mask: int
    programs: dict[tuple[int, Dims], tuple[Artifact, runtime.Program]] = field(
        default_factory=dict[tuple[int, Dims], tuple[Artifact, runtime.Program]]
    )

    def program(
        self, facts: int, device: runtime.Device, workgroup: Dims
    ) -> tuple[Artifact, runtime.Program]:
        """The code for some facts of a launch."""
        key = facts & self.mask, workgroup
        found = self.programs.get(key)
        if found is None:
            allowed = device.portrait.limits
            needed = compiler.shared_bytes(self.kernel, allowed.shared_alignment)
            limits.check_shared(allowed, needed)
            compiler.check_progress(self.kernel, device.name, device.portrait.progress)
            artifact = compiler.for_launch(
                self.kernel, self.layout, device.target, workgroup, facts
            )
            found = artifact, device.load(artifact, names=self.packer.names)
            self.programs[key] = found
        return found


@lru_cache(maxsize=256)
def _code(text: str, device: str, kind: Resumable) -> _Code:
    plan = plan_of(text)
    lowered = kind.run(plan)
    layout = layout_of(lowered)
    hidden = kind.hidden(plan).names
    count = 1 + max((int(p.source[0]) for p in plan.kernel.params), default=-1)
    names = (*(f"argument {n}" for n in range(count)), *hidden)
    on = runtime.device(device)
    mask = compiler.fact_mask(on.target, len(layout.slots))
    return _Code(lowered, kind.near, count, layout, runtime.Packer(layout, on, names), mask)


def _polling(text: str, device: runtime.Device, kind: Resumable) -> _Code:
    """The code that asks whether to stop, through shared memory where there is room for it."""
    kind = replace(kind, initialise=device.portrait.emulated)
    found, allowed = _code(text, device.name, kind), device.portrait.limits
    if compiler.shared_bytes(found.kernel, allowed.shared_alignment) <= allowed.shared_bytes_optin:
        return found
    return _code(text, device.name, replace(kind, near=False))


def prepare(job: Job, device: runtime.Device) -> None:
    """Compile a job for a device: raises what the device lacks before anything is stopped."""
    emulated = device.portrait.emulated
    limits.check_launch_shape(device.portrait.limits, job.grid, job.workgroup)
    try:
        code = _polling(job.text, device, Resumable(resume=True))
        code.program(~0, device, job.workgroup)
    except UnsupportedError:
        kind = Resumable(resume=True, initialise=emulated, polls=False)
        _code(job.text, device.name, kind).program(~0, device, job.workgroup)


def start(
    kernel: Kernel,
    names: Sequence[str],
    values: Sequence[Any],
    *,
    grid: Dims,
    workgroup: Dims,
    device: runtime.Device,
    stop: StopAt | None = None,
    scratch: Sequence[str] = (),
) -> CheckpointLaunch:
    """Launch a kernel so that it can be stopped.

    Args:
        kernel: hetIR without calls, as `compiler.prepare` gives it.
        names: of the parameters; `values` in their order.
        values: as `runtime.Program.launch` takes them.
        grid: workgroups.
        workgroup: work-items a workgroup.
        device: where to run.
        stop: stop after a number of safe points.
        scratch: names of arrays whose contents are not saved.

    Raises:
        NotCheckpointableError: the kernel cannot be stopped.
    """
    groups = grid[0] * grid[1] * grid[2]
    if groups > MOST_GROUPS:
        raise CheckpointError(
            f"{groups} workgroups are too many to keep account of, at most {MOST_GROUPS}",
            hint="use larger workgroups, or launch in parts",
        )
    for name in scratch:
        if name not in names:
            raise CheckpointError(f"there is no parameter `{name}` to be scratch")
    job = Job(_placed(kernel), grid, workgroup, secrets.token_hex(16), tuple(scratch))
    snapshot = Snapshot(job, tuple(names), tuple(values), np.zeros(groups, np.int64), _EMPTY, 0, {})
    return CheckpointLaunch(snapshot, device, stop)


@lru_cache(maxsize=256)
def _placed(kernel: Kernel) -> str:
    simple = simplify(kernel)
    try:
        return described(place(canonicalise(simple)))
    except NotCheckpointableError:
        place(simple)  # refuses the same, with the lines that canonical hetIR lacks
        raise


def safe_points(kernel: Any, values: Sequence[Any]) -> Plan:
    """The safe points of a `@hetir.kernel` for arguments like these."""
    found = kernel.specialisation(kernel.operands(values)).kernel
    return plan_of(_placed(found))


def load(path: str | Path) -> Snapshot:
    """The stopped launch in a file, every checksum and count checked.

    Raises:
        CorruptCheckpoint: the file is damaged.
        CheckpointError: there is no such file, or it cannot be resumed by this hetir.
    """
    place_ = Path(path)
    try:
        return from_file(file.read(place_))
    except OSError as error:
        raise CheckpointError(
            f"cannot read {place_}: {error.strerror or error}", hint="name a `.hetck` file"
        ) from error


def resume(
    path: str | Path,
    device: str | runtime.Device = "cpu",
    *,
    kernel: Any = None,
    allow_native: bool = False,
    stop: StopAt | None = None,
) -> CheckpointLaunch:
    """Go on with a saved launch on any device; `wait` ends it.

    Args:
        path: a file that `checkpoint` wrote.
        device: where to go on, a name of `hetir devices` or a device.
        kernel: the `@hetir.kernel` that the file must be of; any is right if left out.
        allow_native: go on with a kernel of `math="native"` too, whose bits depend on the device.
        stop: stop again, see StopAt.

    Returns:
        The launch; `arguments` are host arrays with the parameters' names.

    Raises:
        CorruptCheckpoint: the file is damaged; nothing was started.
        CheckpointError: it is not of `kernel`, or cannot be resumed.
        CompileError: the device lacks something that the kernel needs.
    """
    snapshot = load(path)
    if snapshot.job.kernel.options.math == "native" and not allow_native:
        raise CheckpointError(
            f"{path} is of a kernel with native mathematics: its bits depend on the device",
            hint="pass `allow_native=True` to go on all the same",
        )
    if kernel is not None:
        _same(kernel, snapshot)
    target = runtime.device(device) if isinstance(device, str) else device
    prepare(snapshot.job, target)
    return CheckpointLaunch(snapshot, target, stop)


def _same(kernel: Any, snapshot: Snapshot) -> None:
    """Refuse a kernel that has changed since."""
    values = [snapshot.values[snapshot.names.index(n)] for n in kernel.parameters]
    found = kernel.specialisation(tuple(values)).kernel
    placed = place(canonicalise(simplify(found)))
    if content_hash(placed) != content_hash(snapshot.job.kernel):
        unknown = [n for n, v in zip(snapshot.names, snapshot.values, strict=True) if v is None]
        if unknown:
            raise CheckpointError(
                f"the file does not hold the constant `{unknown[0]}`: whether `{kernel.name}` is "
                "the same cannot be told",
                hint="resume without `kernel=` to go on with the code that the file holds",
            )
        raise CheckpointError(
            f"`{kernel.name}` has changed since the launch was stopped",
            hint="resume without `kernel=` to go on with the code that the file holds",
        )
