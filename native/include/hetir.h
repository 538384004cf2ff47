/* hetir for C and C++: kernels of a hetbin file, launched on the CPU and, where libcuda or an
 * OpenCL runtime is present, there. Needs no Python.
 *
 *     hetir_module *module;
 *     hetir_kernel *kernel;
 *     hetir_device *cpu;
 *     hetir_module_open("app.hetbin", &module);
 *     hetir_module_kernel(module, "saxpy", &kernel);
 *     hetir_device_open("cpu", &cpu);
 *     hetir_argument arguments[] = {hetir_number(2.0), hetir_host(HETIR_F32, x, n),
 *                                   hetir_host(HETIR_F32, y, n)};
 *     hetir_launch_1d(kernel, cpu, (n + 255) / 256, 256, arguments, 3);
 *
 * Every function may be called from any thread; only what is being closed or freed must not be in
 * use. Functions that can fail return a `hetir_result`; `hetir_error` has the sentence. A module
 * holds machine code, as a shared library does: open files of those whom you trust.
 */
#ifndef HETIR_H
#define HETIR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define HETIR_API __attribute__((visibility("default")))
#else
#define HETIR_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define HETIR_API_VERSION 1

typedef enum hetir_result {
    HETIR_OK = 0,
    HETIR_BAD_FILE = 1,      /* not readable, no hetbin, or damaged: the text names the byte */
    HETIR_NEWER_FILE = 2,    /* a newer hetir wrote it */
    HETIR_NOT_FOUND = 3,     /* no such kernel or device */
    HETIR_BAD_ARGUMENT = 4,  /* the kernel was not built for such arguments, or one is null */
    HETIR_BAD_SHAPE = 5,     /* a grid or workgroup that cannot be */
    HETIR_NO_PAYLOAD = 6,    /* the file has no code that this device runs for this launch */
    HETIR_OUT_OF_MEMORY = 7,
    HETIR_DEVICE_FAILED = 8, /* a call of the vendor's library failed */
    HETIR_CHECK_FAILED = 9   /* an assertion or an index check of the kernel; the launch went on */
} hetir_result;

typedef enum hetir_type {
    HETIR_BOOL, HETIR_I8, HETIR_I16, HETIR_I32, HETIR_I64, HETIR_U8, HETIR_U16, HETIR_U32, HETIR_U64,
    HETIR_F16, HETIR_BF16, HETIR_F32, HETIR_F64, HETIR_F8E4M3, HETIR_F8E5M2
} hetir_type;

typedef struct hetir_module hetir_module;
typedef struct hetir_kernel hetir_kernel;
typedef struct hetir_device hetir_device;
typedef struct hetir_buffer hetir_buffer;

/* What this thread's last failing call had to say; never null. */
HETIR_API const char *hetir_error(void);
/* The name of a result, such as "HETIR_BAD_FILE". */
HETIR_API const char *hetir_result_name(hetir_result result);

/* ---- modules: whatever is opened is checked whole, its checksums too */

HETIR_API hetir_result hetir_module_open(const char *path, hetir_module **module);
/* The bytes are not copied: they must stay until the module is closed. */
HETIR_API hetir_result hetir_module_from_memory(const void *data, size_t size, hetir_module **module);
HETIR_API void hetir_module_close(hetir_module *module);

HETIR_API size_t hetir_module_kernel_count(const hetir_module *module);
/* Null for an index that is too large. Kernels belong to their module. */
HETIR_API hetir_kernel *hetir_module_kernel_at(const hetir_module *module, size_t index);
HETIR_API hetir_result hetir_module_kernel(const hetir_module *module, const char *name,
                                           hetir_kernel **kernel);

HETIR_API const char *hetir_kernel_name(const hetir_kernel *kernel);
/* A kernel was built for one or more choices of types; a launch takes the first that fits. */
HETIR_API size_t hetir_kernel_signature_count(const hetir_kernel *kernel);
HETIR_API const char *hetir_kernel_signature(const hetir_kernel *kernel, size_t index);
HETIR_API size_t hetir_kernel_parameter_count(const hetir_kernel *kernel);
HETIR_API const char *hetir_kernel_parameter_name(const hetir_kernel *kernel, size_t index);

/* ---- devices and their memory */

/* The devices of this machine, the CPU first; null for an index that is too large. */
HETIR_API const char *hetir_device_name(size_t index);
/* "cpu", "cuda:0", "opencl:0"; "cuda" is "cuda:0". Devices live as long as the process. */
HETIR_API hetir_result hetir_device_open(const char *name, hetir_device **device);
/* What the device calls itself. */
HETIR_API const char *hetir_device_title(const hetir_device *device);

HETIR_API hetir_result hetir_allocate(hetir_device *device, size_t size, hetir_buffer **buffer);
HETIR_API void hetir_free(hetir_buffer *buffer);
HETIR_API size_t hetir_buffer_size(const hetir_buffer *buffer);
/* Where a buffer of the CPU lies; null for one of another device. */
HETIR_API void *hetir_buffer_data(const hetir_buffer *buffer);
HETIR_API hetir_result hetir_write(hetir_buffer *buffer, size_t offset, const void *data, size_t size);
HETIR_API hetir_result hetir_read(const hetir_buffer *buffer, size_t offset, void *data, size_t size);

/* ---- launches */

typedef enum hetir_argument_kind {
    HETIR_INTEGER, /* `integer`, for any integer type that holds it, or a float; also bool */
    HETIR_NUMBER,  /* `number`, rounded to the float type; not for integers */
    HETIR_BITS,    /* `integer` is the pattern of a scalar of `type`, such as HETIR_F16 */
    HETIR_VECTOR,  /* `host` are `extent` scalars of `type`, for a vector parameter */
    HETIR_ARRAY    /* an array in `buffer` at `offset` bytes, or, on the CPU, at `host` */
} hetir_argument_kind;

/* One argument; what its kind does not name is 0. Write them with the functions below. */
typedef struct hetir_argument {
    hetir_argument_kind kind;
    hetir_type type;
    int64_t integer;
    double number;
    void *host;
    hetir_buffer *buffer;
    int64_t offset;
    int32_t ndim;
    int64_t extent;         /* of an array with one axis whose `shape` is null */
    const int64_t *shape;   /* `ndim` extents */
    const int64_t *strides; /* `ndim` steps in bytes; null for a contiguous array */
} hetir_argument;

/* Runs a grid and waits. Extents of the grid may be 0: then nothing runs. One argument for each
 * parameter of the Python function, in its order. */
HETIR_API hetir_result hetir_launch_grid(hetir_kernel *kernel, hetir_device *device,
                                         const int64_t grid[3], const int64_t workgroup[3],
                                         const hetir_argument *arguments, size_t count);
HETIR_API hetir_result hetir_launch_1d(hetir_kernel *kernel, hetir_device *device, int64_t groups,
                                       int64_t items, const hetir_argument *arguments, size_t count);
/* The target of the code that such a launch runs, such as "cpu:x86-64-v3"; null with an error. */
HETIR_API const char *hetir_launch_target(hetir_kernel *kernel, hetir_device *device,
                                          const int64_t grid[3], const int64_t workgroup[3],
                                          const hetir_argument *arguments, size_t count);

static inline hetir_argument hetir_none(hetir_argument_kind kind)
{
    hetir_argument made;
    memset(&made, 0, sizeof made);
    made.kind = kind;
    return made;
}

static inline hetir_argument hetir_integer(int64_t value)
{
    hetir_argument made = hetir_none(HETIR_INTEGER);
    made.integer = value;
    return made;
}

static inline hetir_argument hetir_number(double value)
{
    hetir_argument made = hetir_none(HETIR_NUMBER);
    made.number = value;
    return made;
}

static inline hetir_argument hetir_bits(hetir_type type, uint64_t pattern)
{
    hetir_argument made = hetir_none(HETIR_BITS);
    made.type = type;
    made.integer = (int64_t)pattern;
    return made;
}

static inline hetir_argument hetir_vector(hetir_type type, const void *scalars, int64_t length)
{
    hetir_argument made = hetir_none(HETIR_VECTOR);
    made.type = type;
    made.host = (void *)(uintptr_t)scalars;
    made.extent = length;
    return made;
}

/* A contiguous array of one axis in a buffer, from its start on. */
static inline hetir_argument hetir_array(hetir_type type, hetir_buffer *buffer, int64_t extent)
{
    hetir_argument made = hetir_none(HETIR_ARRAY);
    made.type = type;
    made.buffer = buffer;
    made.ndim = 1;
    made.extent = extent;
    return made;
}

/* A contiguous array of one axis in the program's own memory, for launches on the CPU. */
static inline hetir_argument hetir_host(hetir_type type, void *data, int64_t extent)
{
    hetir_argument made = hetir_array(type, NULL, extent);
    made.host = data;
    return made;
}

#ifdef __cplusplus
}
#endif
#endif
