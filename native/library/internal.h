/* Inside the C library: modules, devices and what passes between them. */
#ifndef HETIR_INTERNAL_H
#define HETIR_INTERNAL_H

#include <pthread.h>
#include <stdint.h>

#include "container.h"
#include "hetir.h"

enum { RECORD_HEADER = 16, RECORD_ROOM = 1 << 20, MOST_DEVICES = 32 };

typedef struct loaded {
    struct loaded *next;
    uint32_t payload;
    hetir_device *device;
    void *program;
} loaded;

struct hetir_kernel {
    hetir_module *module;
    const char *name;
    uint32_t *rows; /* its specialisations, in the order of the file */
    uint32_t row_count;
};

struct hetir_module {
    container file;
    uint8_t *owned; /* the bytes, where this library read them */
    char *path;
    hetir_kernel *kernels;
    uint32_t *rows;
    size_t kernel_count;
    pthread_mutex_t lock; /* of `programs` */
    loaded *programs;
};

struct hetir_buffer {
    hetir_device *device;
    uint64_t address; /* in the device's view; made up where it tells none */
    size_t size;
    void *token;
};

typedef struct {
    const char *entry, *target;
    const uint8_t *code, *text;
    uint64_t code_size, text_size, shared_bytes, item_bytes;
    uint32_t block_size, array_count;
    int cooperative;
} program_source;

/* One launch: `arrays[i]` is the buffer (null: the host's memory) of the i-th array slot, whose
 * address is at `places[i]` of the block. */
typedef struct {
    int64_t grid[3], workgroup[3];
    uint8_t *block;
    uint32_t block_size, array_count;
    hetir_buffer *const *arrays;
    const uint32_t *places;
    hetir_buffer *records;
} launch_request;

typedef struct {
    /* How good code for a target is here; 0 for code that does not run. */
    int (*rank)(const hetir_device *device, const char *target);
    hetir_result (*allocate)(hetir_device *device, hetir_buffer *buffer);
    void (*release)(hetir_buffer *buffer);
    hetir_result (*write)(hetir_buffer *buffer, size_t offset, const void *data, size_t size);
    hetir_result (*read)(const hetir_buffer *buffer, size_t offset, void *data, size_t size);
    hetir_result (*load)(hetir_device *device, const program_source *source, void **program);
    void (*unload)(hetir_device *device, void *program);
    hetir_result (*launch)(hetir_device *device, void *program, const launch_request *request);
} device_calls;

struct hetir_device {
    char name[24], title[200];
    const device_calls *calls;
    int64_t most_items;
    void *state;
};

/* Notes a sentence for `hetir_error` and gives `result`. */
__attribute__((format(printf, 2, 3))) hetir_result hetir_fail(hetir_result result, const char *format,
                                                             ...);

/* Each appends its devices and gives how many there are then. */
int hetir_probe_cpu(hetir_device **devices, int count);
int hetir_probe_cuda(hetir_device **devices, int count);
int hetir_probe_opencl(hetir_device **devices, int count);

typedef struct {
    void *where; /* a pointer to a function */
    const char *name;
} symbol;

/* Opens a driver's library, which the variable may name, and finds its functions; whether all are
 * there. */
int hetir_resolve(const char *variable, const char *library, const symbol *symbols, size_t count);

hetir_device *hetir_device_new(const char *kind, int number, const device_calls *calls, void *state);

uint32_t hetir_type_bytes(uint32_t type);

/* Prints what a launch wrote to the buffer of records; HETIR_CHECK_FAILED for a failed check. */
hetir_result hetir_report(const hetir_kernel *kernel, const payload_row *payload, const uint8_t *data,
                          uint64_t size);

#endif
