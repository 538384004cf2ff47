"""Which devices are here: drivers by name, probed when somebody asks."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hetir.lazy import lazy
from hetir.runtime import operands
from hetir.runtime.arrays import Array, Buffer
from hetir.runtime.device import Device
from hetir.runtime.driver import Absent, Driver, DriverAbsentError, DriverError, Memory
from hetir.runtime.drivers.cpu import CpuDriver
from hetir.runtime.errors import DeviceError
from hetir.runtime.layout import address_of, bounds

if TYPE_CHECKING:
    from hetir.runtime.drivers import acl, cuda, opencl, vulkan
else:
    # loaded when their devices are asked for
    acl, cuda, opencl, vulkan = (
        lazy(f"hetir.runtime.drivers.{name}") for name in ("acl", "cuda", "opencl", "vulkan")
    )

Probe = Callable[[], Sequence[Driver]]


class Registry:
    """The drivers of a process. Thread-safe; each driver is probed once."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._probes: dict[str, Probe] = {}
        self._found: dict[str, tuple[Device, ...]] = {}
        self._absent: dict[str, Absent] = {}

    def register(self, name: str, probe: Probe) -> None:
        """Add a driver; `probe` gives its devices or raises DriverAbsentError."""
        with self._lock:
            self._probes[name] = probe
            self._absent.pop(name, None)
            self._found.pop(name, None)

    def _probe(self, name: str) -> tuple[Device, ...]:
        with self._lock:
            if name not in self._found:
                self._found[name] = self._open(name)
            return self._found[name]

    def _open(self, name: str) -> tuple[Device, ...]:
        try:
            return tuple(Device(driver, self.device) for driver in self._probes[name]())
        except DriverAbsentError as error:
            self._absent[name] = Absent(driver=name, reason=error.reason, remedy=error.remedy)
        except Exception as error:  # noqa: BLE001 - a broken driver is a line of the listing
            known = isinstance(error, OSError | DriverError)
            reason = (
                str(error) if known else f"its probe failed with {type(error).__name__}: {error}"
            )
            self._absent[name] = Absent(
                driver=name, reason=reason, remedy="install or repair the vendor's library"
            )
        return ()

    def devices(self, *, emulated: bool = False) -> tuple[Device, ...]:
        """The devices of this machine, the CPU first; with `emulated` the emulators too."""
        found = [device for name in list(self._probes) for device in self._probe(name)]
        return tuple(d for d in found if emulated or not d.portrait.emulated)

    def absent(self) -> tuple[Absent, ...]:
        """The drivers that have no device here, each with its reason."""
        self.devices()
        return tuple(self._absent.values())

    def device(self, name: str | Device) -> Device:
        """A device by name; `cuda` stands for `cuda:0`. Raises DeviceError."""
        if isinstance(name, Device):
            return name
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DeviceError(
                f"a device is named by a string, got `{name!r}`", hint='write for example "cpu"'
            )
        driver = name.partition(":")[0]
        if driver in self._probes:
            for device in self._probe(driver):
                if device.name in (name, f"{name}:0"):
                    return device
        gap = self._absent.get(driver)
        if gap is not None:
            raise DeviceError(f"there is no device `{name}`: {gap.reason}", hint=gap.remedy)
        names = ", ".join(device.name for device in self.devices(emulated=True))
        raise DeviceError(f"there is no device `{name}`", hint=f"use one of {names}")

    def close(self) -> None:
        """Stop every device: the process is about to end."""
        for found in list(self._found.values()):
            for device in found:
                device.close()


_REGISTRY = Registry()
_REGISTRY.register("cpu", lambda: (CpuDriver(),))
_REGISTRY.register("cuda", lambda: cuda.probe())  # noqa: PLW0108 (`cuda.probe` would load it)
_REGISTRY.register("opencl", lambda: opencl.probe())  # noqa: PLW0108
_REGISTRY.register("vulkan", lambda: vulkan.probe())  # noqa: PLW0108
_REGISTRY.register("ascend", lambda: acl.probe())  # noqa: PLW0108
operands.look_up_with(_REGISTRY.device)
register, device = _REGISTRY.register, _REGISTRY.device
devices, absent = _REGISTRY.devices, _REGISTRY.absent
_PROCESS = os.getpid()


@atexit.register
def _close() -> None:
    if os.getpid() == _PROCESS:  # a forked child's launches belong to its parent
        _REGISTRY.close()


def array(source: Any, device: str | Device = "cpu") -> Array:
    """A contiguous copy of an array (NumPy, torch, DLPack, nested lists) on a device."""
    return _REGISTRY.device(device).array(source)


def from_dlpack(source: Any) -> Array:
    """An array over the memory of a DLPack exporter, without a copy; it keeps the exporter.

    Raises ArgumentError for memory of a device that is not here.
    """
    found = operands.from_dlpack(source)
    if isinstance(found, Array):
        return found
    cpu = _REGISTRY.device("cpu")
    low, high = bounds(address_of(found), found.shape, found.strides, found.itemsize)
    buffer = Buffer(cpu, high - low, Memory(low, high - low), found)
    offset = address_of(found) - low
    writeable = found.flags.writeable
    return Array(buffer, found.shape, found.dtype, found.strides, offset, writeable=writeable)


def empty(shape: int | Sequence[int], dtype: Any = "f32", device: str | Device = "cpu") -> Array:
    """An array of undefined elements on a device; `dtype` is a hetIR or NumPy type."""
    return _REGISTRY.device(device).empty(shape, dtype)


def zeros(shape: int | Sequence[int], dtype: Any = "f32", device: str | Device = "cpu") -> Array:
    """An array of zeros on a device."""
    made = empty(shape, dtype, device)
    if made.nbytes:
        blank = np.zeros(made.nbytes, np.uint8)
        target = made.device
        target.driver.write(target.default_queue.handle, made.buffer.memory, 0, blank)
    return made
