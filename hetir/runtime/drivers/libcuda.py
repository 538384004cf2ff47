"""libcuda through cffi: opened at run time, every call checked, errors named as NVIDIA does."""

from __future__ import annotations

import os
import re
from types import TracebackType
from typing import Any

import cffi

from hetir.runtime.driver import DriverAbsentError, DriverError

NO_MEMORY, DEINITIALIZED, NOT_READY = 2, 4, 600
# CUresult: faults of a kernel, after which every call on the context fails with the same code
_LOST = frozenset((700, 714, 715, 716, 717, 718, 719))
_REMEDY = "install NVIDIA's driver, or run on a machine with an NVIDIA GPU"

# CUDA Driver API, cuda.h; handles that are only passed on are integers or void pointers
_DECLARATIONS = """
int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuDeviceGetCount(int *count);
int cuDeviceGet(int *device, int ordinal);
int cuDeviceGetName(char *name, int size, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceTotalMem_v2(size_t *size, int device);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxPushCurrent_v2(void *context);
int cuCtxPopCurrent_v2(void **context);
int cuMemAlloc_v2(uint64_t *address, size_t size);
int cuMemFree_v2(uint64_t address);
int cuMemHostAlloc(void **host, size_t size, unsigned flags);
int cuMemFreeHost(void *host);
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *host, size_t size, void *stream);
int cuMemcpyDtoHAsync_v2(void *host, uint64_t of, size_t size, void *stream);
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t of, size_t size, void *stream);
int cuMemcpyPeerAsync(uint64_t to, void *there, uint64_t of, void *here, size_t size, void *stream);
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamDestroy_v2(void *stream);
int cuStreamSynchronize(void *stream);
int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
int cuEventCreate(void **event, unsigned flags);
int cuEventDestroy_v2(void *event);
int cuEventRecord(void *event, void *stream);
int cuEventQuery(void *event);
int cuEventElapsedTime(float *milliseconds, void *start, void *end);
int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options,
                       void **values);
int cuModuleUnload(void *module);
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuFuncSetAttribute(void *function, int attribute, int value);
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int items,
                                                size_t shared);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                   unsigned by, unsigned bz, unsigned shared, void *stream, void **params,
                   void **extra);
int cuLaunchCooperativeKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                              unsigned by, unsigned bz, unsigned shared, void *stream,
                              void **params);
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t size, void *stream);
typedef struct {
    void *function;
    unsigned grid_x, grid_y, grid_z, group_x, group_y, group_z, shared_bytes;
    void **parameters, **extra;
} KernelNode; /* CUDA_KERNEL_NODE_PARAMS_v1 */
int cuGraphCreate(void **graph, unsigned flags);
int cuGraphAddKernelNode(void **node, void *graph, void **after, size_t count,
                         const KernelNode *parameters);
int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags);
int cuGraphExecKernelNodeSetParams(void *executable, void *node, const KernelNode *parameters);
int cuGraphLaunch(void *executable, void *stream);
int cuGraphExecDestroy(void *executable);
int cuGraphDestroy(void *graph);
int cuGetErrorName(int code, const char **name);
"""
_NAMES = re.findall(r"\b(cu\w+)\(", _DECLARATIONS)


class Library:
    """The functions of libcuda. Raises DriverAbsentError where it is not there."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.ffi: Any = cffi.FFI()
        try:
            self.raw: Any = self.ffi.dlopen(path)
        except OSError:
            raise DriverAbsentError(f"{path} is not here", _REMEDY) from None
        self.ffi.cdef(_DECLARATIONS)
        missing = [name for name in _NAMES if not hasattr(self.raw, name)]
        if missing:
            raise DriverAbsentError(f"{path} has no `{missing[0]}`", "install a newer driver")

    def start(self) -> int:
        """Begin, and count the devices. Raises DriverAbsentError where there is none."""
        code = self.raw.cuInit(0)
        count = self.ffi.new("int *")
        if code == 0:
            code = self.raw.cuDeviceGetCount(count)
        if code or count[0] == 0:
            name = self.name(code) if code else "no device"
            raise DriverAbsentError(f"libcuda has no device: {name}", _REMEDY)
        return count[0]

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function. Raises MemoryError or DriverError."""
        code = getattr(self.raw, name)(*arguments)
        if code == NO_MEMORY:
            raise MemoryError
        # what is given back while the process ends is gone already
        if code and code != DEINITIALIZED:
            raise self.error(name, code)

    def get(self, name: str, kind: str, *arguments: Any) -> Any:
        """Call a function whose first argument is where the result goes."""
        out = self.ffi.new(f"{kind} *")
        self.call(name, out, *arguments)
        return out[0]

    def error(self, name: str, code: int, more: str = "") -> DriverError:
        """What a failing call becomes."""
        shown = name.removesuffix("_v2")
        if code in _LOST:
            more = "the GPU's context is lost: nothing runs on it until the process starts anew"
        return DriverError(shown, code, self.name(code) + (f", {more}" if more else ""))

    def name(self, code: int) -> str:
        """NVIDIA's name of an error."""
        out = self.ffi.new("const char **")
        if self.raw.cuGetErrorName(code, out) or not out[0]:
            return "an unknown error"
        return self.ffi.string(out[0]).decode()


class Current:
    """Makes a context the thread's own for a `with`, and leaves the one of before as it was."""

    __slots__ = ("_context", "_library", "_out")

    def __init__(self, library: Library, context: Any) -> None:
        self._library, self._context = library, context
        self._out = library.ffi.new("void **")

    def __enter__(self) -> None:
        self._library.call("cuCtxPushCurrent_v2", self._context)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._library.raw.cuCtxPopCurrent_v2(self._out)


def open_library() -> Library:
    """The driver's library, or the one that HETIR_LIBCUDA names."""
    return Library(os.environ.get("HETIR_LIBCUDA", "libcuda.so.1"))
