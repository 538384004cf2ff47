"""libascendcl and libacl_rtc through cffi: opened at run time, every call checked."""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import TracebackType
from typing import Any

import cffi

from hetir.runtime.driver import DriverAbsentError, DriverError

# aclError, acl_base.h and rt_error_codes.h
NO_MEMORY = frozenset((200000, 207001))
_REPEATED, _NO_CONTEXT = 100002, 107002
_NAMES_OF = {
    100000: "ACL_ERROR_INVALID_PARAM",
    100001: "ACL_ERROR_UNINITIALIZE",
    107000: "ACL_ERROR_RT_PARAM_INVALID",
    107001: "ACL_ERROR_RT_INVALID_DEVICEID",
    107002: "ACL_ERROR_RT_CONTEXT_NULL",
    107003: "ACL_ERROR_RT_STREAM_CONTEXT",
    107017: "ACL_ERROR_RT_INVALID_HANDLE",
    207001: "ACL_ERROR_RT_MEMORY_ALLOCATION",
    207004: "ACL_ERROR_RT_NO_DEVICE",
    507015: "ACL_ERROR_RT_AICORE_EXCEPTION",
}
_REMEDY = "install Huawei's CANN and set its environment, on a machine with an Ascend NPU"

# AscendCL, acl_base.h and acl_rt.h; handles are void pointers, enumerations ints
_DECLARATIONS = """
int aclInit(const char *configuration);
const char *aclGetRecentErrMsg(void);
const char *aclrtGetSocName(void);
int aclrtGetDeviceCount(uint32_t *count);
int aclrtSetDevice(int32_t device);
int aclrtGetCurrentContext(void **context);
int aclrtSetCurrentContext(void *context);
int aclrtGetDeviceInfo(uint32_t device, int attribute, int64_t *value);
int aclrtGetMemInfo(int kind, size_t *free, size_t *total);
int aclrtMalloc(void **memory, size_t size, int policy);
int aclrtFree(void *memory);
int aclrtMallocHost(void **memory, size_t size);
int aclrtMemcpy(void *to, size_t room, const void *of, size_t size, int kind);
int aclrtMemcpyAsync(void *to, size_t room, const void *of, size_t size, int kind, void *stream);
int aclrtCreateStream(void **stream);
int aclrtDestroyStream(void *stream);
int aclrtSynchronizeStream(void *stream);
int aclrtStreamQuery(void *stream, int *status);
int aclrtStreamWaitEvent(void *stream, void *event);
int aclrtCreateEventWithFlag(void **event, uint32_t flag);
int aclrtDestroyEvent(void *event);
int aclrtRecordEvent(void *event, void *stream);
int aclrtQueryEventStatus(void *event, int *status);
int aclrtEventElapsedTime(float *milliseconds, void *start, void *end);
typedef struct {
    int kind;
    union { uint32_t magic; uint32_t reserved[4]; } value;
} LoadOption; /* aclrtBinaryLoadOption */
typedef struct {
    LoadOption *options;
    size_t count;
} LoadOptions; /* aclrtBinaryLoadOptions */
int aclrtBinaryLoadFromData(const void *data, size_t size, const LoadOptions *options,
                            void **binary);
int aclrtBinaryUnLoad(void *binary);
int aclrtBinaryGetFunction(void *binary, const char *name, void **function);
int aclrtKernelArgsInit(void *function, void **arguments);
int aclrtKernelArgsAppend(void *arguments, void *value, size_t size, void **parameter);
int aclrtKernelArgsFinalize(void *arguments);
int aclrtLaunchKernelWithConfig(void *function, uint32_t blocks, void *stream, void *config,
                                void *arguments, void *reserved);
"""
# the launch of SIMT code, which names the work-items of a workgroup: CANN 9.2 and newer
SIMT_LAUNCH = "aclrtLaunchSIMTKernelWithArgsArray"
_SIMT = f"""
typedef struct {{ uint32_t x, y, z; }} Dim3; /* dim3 */
int {SIMT_LAUNCH}(void *function, Dim3 grid, Dim3 block, size_t dynamic_bytes, void *stream,
                  void *config, void **arguments);
"""
# the compiler for run time, acl_rtc.h
_COMPILER = """
int aclrtcCreateProg(void **program, const char *source, const char *name, int count,
                     const char **headers, const char **names);
int aclrtcCompileProg(void *program, int count, const char **options);
int aclrtcDestroyProg(void **program);
int aclrtcGetBinDataSize(void *program, size_t *size);
int aclrtcGetBinData(void *program, char *data);
int aclrtcGetCompileLogSize(void *program, size_t *size);
int aclrtcGetCompileLog(void *program, char *log);
"""


class Library:
    """The functions of the two libraries. Raises DriverAbsentError where the first is missing."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.ffi: Any = cffi.FFI()
        self.ffi.cdef(_DECLARATIONS)
        self.ffi.cdef(_SIMT + _COMPILER)
        try:
            self.raw: Any = self.ffi.dlopen(path)
        except OSError:
            raise DriverAbsentError(f"{path} is not here", _REMEDY) from None
        missing = self._missing(self.raw, _DECLARATIONS)
        if missing:
            raise DriverAbsentError(f"{path} has no `{missing}`", "install a newer CANN")
        self._compiler: Any = None

    def _missing(self, raw: Any, declarations: str) -> str:
        names = re.findall(r"\b(acl\w+)\(", declarations)
        return next((name for name in names if not hasattr(raw, name)), "")

    def start(self) -> int:
        """Begin, and count the devices. Raises DriverAbsentError where there is none."""
        code = self.raw.aclInit(self.ffi.NULL)
        count = self.ffi.new("uint32_t *")
        if code in (0, _REPEATED):  # another library of the process may have begun
            code = self.raw.aclrtGetDeviceCount(count)
        if code or count[0] == 0:
            name = self.name(code) if code else "no device"
            raise DriverAbsentError(f"libascendcl has no device: {name}", _REMEDY)
        return count[0]

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function. Raises MemoryError or DriverError."""
        code = getattr(self.raw, name)(*arguments)
        if code in NO_MEMORY:
            raise MemoryError
        if code:
            raise self.error(name, code)

    def get(self, name: str, kind: str, *arguments: Any) -> Any:
        """Call a function whose last argument is where the result goes."""
        out = self.ffi.new(f"{kind} *")
        self.call(name, *arguments, out)
        return out[0]

    def make(self, name: str, *arguments: Any) -> Any:
        """Call a function whose first argument is where a handle goes."""
        out = self.ffi.new("void **")
        self.call(name, out, *arguments)
        return out[0]

    def error(self, name: str, code: int, more: str = "") -> DriverError:
        """What a failing call becomes, with the library's own text where it has one."""
        said = more or self.text(self.raw.aclGetRecentErrMsg())
        return DriverError(name, code, self.name(code) + (f", {said}" if said else ""))

    def name(self, code: int) -> str:
        """Huawei's name of an error."""
        return _NAMES_OF.get(code, "an ACL error")

    def text(self, pointer: Any) -> str:
        """A C string, empty for none."""
        return self.ffi.string(pointer).decode(errors="replace").strip() if pointer else ""

    # ---- the compiler for run time

    def compile(self, source: str, options: list[str]) -> bytes:
        """Device code of a source. Raises DriverError with what the compiler said."""
        raw, ffi = self._open_compiler(), self.ffi
        given = [ffi.new("char[]", option.encode()) for option in options]
        program = ffi.new("void **")
        name = b"kernel.asc"
        self._check(
            "aclrtcCreateProg",
            raw.aclrtcCreateProg(program, source.encode(), name, 0, ffi.NULL, ffi.NULL),
        )
        try:
            code = raw.aclrtcCompileProg(program[0], len(given), ffi.new("char *[]", given))
            if code:
                raise self.error("aclrtcCompileProg", code, self._log(raw, program[0]))
            size = ffi.new("size_t *")
            self._check("aclrtcGetBinDataSize", raw.aclrtcGetBinDataSize(program[0], size))
            data = ffi.new("char[]", size[0])
            self._check("aclrtcGetBinData", raw.aclrtcGetBinData(program[0], data))
            return bytes(ffi.buffer(data, size[0]))
        finally:
            raw.aclrtcDestroyProg(program)

    def _open_compiler(self) -> Any:
        if self._compiler is None:
            beside = str(Path(self.path).with_name("libacl_rtc.so"))
            for path in (self.path, beside, "libacl_rtc.so"):
                try:
                    raw = self.ffi.dlopen(path)
                except OSError:
                    continue
                if not self._missing(raw, _COMPILER):
                    self._compiler = raw
                    return raw
            raise DriverError("aclrtcCreateProg", 1, "no libacl_rtc.so: install CANN's toolkit")
        return self._compiler

    def _log(self, raw: Any, program: Any) -> str:
        size = self.ffi.new("size_t *")
        if raw.aclrtcGetCompileLogSize(program, size) or not size[0]:
            return ""
        log = self.ffi.new("char[]", size[0] + 1)
        return "" if raw.aclrtcGetCompileLog(program, log) else self.text(log)

    def _check(self, name: str, code: int) -> None:
        if code:
            raise self.error(name, code)


class Current:
    """Makes a context the thread's own for a `with`, and leaves the one of before as it was."""

    __slots__ = ("_before", "_context", "_library")

    def __init__(self, library: Library, context: Any) -> None:
        self._library, self._context = library, context
        self._before = library.ffi.new("void **")

    def __enter__(self) -> None:
        code = self._library.raw.aclrtGetCurrentContext(self._before)
        if code not in (0, _NO_CONTEXT):
            raise self._library.error("aclrtGetCurrentContext", code)
        if self._before[0] != self._context:
            self._library.call("aclrtSetCurrentContext", self._context)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before[0] and self._before[0] != self._context:
            self._library.raw.aclrtSetCurrentContext(self._before[0])


def open_library() -> Library:
    """CANN's library, or the one that HETIR_LIBASCENDCL names."""
    return Library(os.environ.get("HETIR_LIBASCENDCL", "libascendcl.so"))
