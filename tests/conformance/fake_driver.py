"""A driver for fake_npu.c, written as one for a real accelerator would be."""

import time

import cffi

from hetir.limits import limits_of
from hetir.runtime import Driver, DriverError, Event, Portrait
from hetir.runtime.driver import Memory

DECLARATIONS = """
int fnAlloc(uint64_t size, uint64_t *address);
int fnFree(uint64_t address);
int fnWrite(int stream_id, uint64_t address, const void *host, uint64_t size);
int fnRead(int stream_id, uint64_t address, void *host, uint64_t size);
int fnStreamCreate(int *id);
int fnStreamDestroy(int id);
int fnModuleLoad(const char *image, uint64_t size, const char *entry, int *module,
                 char *log, int log_size);
int fnModuleUnload(int module);
int fnLaunch(int stream_id, int module, const int64_t *shape, const void *args,
             uint64_t args_size, uint64_t records, void **after, int after_count, void **result);
int fnCopy(int stream_id, uint64_t to, uint64_t of, uint64_t size, void **result);
int fnEventRecord(int stream_id, void **after, int after_count, void **result);
int fnEventQuery(void *e);
int fnEventWait(void *e, int64_t timeout_ns);
int fnEventTimes(void *e, int64_t *times);
int fnEventStop(void *e);
int fnEventDestroy(void *e);
const char *fnErrorName(int code);
const char *fnTakeCalls(void);
void fnFailNext(const char *call, int code);
uint64_t fnLiveBytes(void);
"""
NO_MEMORY, NOT_READY = 2, 600
GRACE_SECONDS = 0.5


class Library:
    """The C library, each call checked."""

    def __init__(self, path):
        self.ffi = cffi.FFI()
        self.ffi.cdef(DECLARATIONS)
        # its threads outlive the object: the code must stay
        self.raw = self.ffi.dlopen(str(path), self.ffi.RTLD_NOW | self.ffi.RTLD_NODELETE)

    def call(self, name, *arguments):
        code = getattr(self.raw, name)(*arguments)
        if code == NO_MEMORY:
            raise MemoryError
        if code:
            raise self.error(name, code)

    def error(self, name, code):
        text = self.ffi.string(self.raw.fnErrorName(code)).decode()
        return DriverError(name, code, text)

    def calls(self):
        """The calls since the last time, but those that may come at any moment."""
        taken = self.ffi.string(self.raw.fnTakeCalls()).decode().split()
        return [name for name in taken if name not in ("fnEventQuery", "fnEventDestroy")]


class FakeEvent(Event):
    def __init__(self, library, handle):
        self.library, self.handle = library, handle

    def __del__(self):
        self.library.raw.fnEventDestroy(self.handle)

    def done(self):
        return self.library.raw.fnEventQuery(self.handle) == 0

    def wait(self, timeout=None):
        nanoseconds = -1 if timeout is None else int(timeout * 1e9)
        code = self.library.raw.fnEventWait(self.handle, nanoseconds)
        if code == NOT_READY:
            return False
        if code:
            raise self.library.error("fnEventWait", code)
        return True

    def times(self):
        out = self.library.ffi.new("int64_t[2]")
        return None if self.library.raw.fnEventTimes(self.handle, out) else (out[0], out[1])

    def abandon(self):
        self.library.raw.fnEventStop(self.handle)
        deadline = time.monotonic() + GRACE_SECONDS
        while not self.done() and time.monotonic() < deadline:
            time.sleep(0.001)
        return self.done()


class FakeDriver(Driver):
    def __init__(self, path):
        self.library = Library(path)
        self.portrait = Portrait(
            name="fake:0",
            driver="fake",
            title="fake accelerator",
            vendor="none",
            targets=("fake",),
            host_memory=False,
            memory_bytes=1 << 28,
            units=1,
            limits=limits_of("hetir"),
        )

    def can_run(self, target):
        return target == "fake"

    def allocate(self, size):
        out = self.library.ffi.new("uint64_t *")
        self.library.call("fnAlloc", size, out)
        return Memory(out[0], size)

    def free(self, memory):
        self.library.call("fnFree", memory.address)

    def write(self, queue, memory, offset, source):
        data = self.library.ffi.from_buffer(source)
        self.library.call("fnWrite", queue, memory.address + offset, data, source.nbytes)

    def read(self, queue, memory, offset, into):
        data = self.library.ffi.from_buffer(into, require_writable=True)
        self.library.call("fnRead", queue, memory.address + offset, data, into.nbytes)

    def copy(self, queue, to, of, size):
        places = (to[0].address + to[1], of[0].address + of[1])
        return self._event("fnCopy", queue, *places, size)

    def make_queue(self):
        out = self.library.ffi.new("int *")
        self.library.call("fnStreamCreate", out)
        return out[0]

    def free_queue(self, queue):
        self.library.call("fnStreamDestroy", queue)

    def mark(self, queue, after=()):
        before = [event.handle for event in after]
        return self._event("fnEventRecord", queue, before, len(before))

    def load(self, artifact):
        out, log = self.library.ffi.new("int *"), self.library.ffi.new("char[256]")
        entry, binary = artifact.entry.encode(), artifact.binary
        code = self.library.raw.fnModuleLoad(binary, len(binary), entry, out, log, len(log))
        if code:
            text = self.library.ffi.string(log).decode()
            raise DriverError("fnModuleLoad", code, text)
        return out[0]

    def unload(self, program):
        self.library.call("fnModuleUnload", program)

    def launch(self, queue, task, after=()):
        shape = self.library.ffi.new("int64_t[6]", (*task.grid, *task.workgroup))
        before = [event.handle for event in after]
        records = task.records.address if task.records else 0
        arguments = (shape, task.block, len(task.block), records, before, len(before))
        return self._event("fnLaunch", queue, task.program, *arguments)

    def close(self):
        pass

    def _event(self, name, *arguments):
        out = self.library.ffi.new("void **")
        self.library.call(name, *arguments, out)
        return FakeEvent(self.library, out[0])
