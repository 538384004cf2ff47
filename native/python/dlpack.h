/* DLPack 1.x (https://dmlc.github.io/dlpack/latest/c_api.html), and the functions that use it. */
#ifndef HETIR_DLPACK_H
#define HETIR_DLPACK_H

#include <Python.h>
#include <stdint.h>

typedef struct {
    int32_t device_type, device_id;
} dl_device;

typedef struct {
    uint8_t code, bits;
    uint16_t lanes;
} dl_data_type;

typedef struct {
    void *data;
    dl_device device;
    int32_t ndim;
    dl_data_type dtype;
    int64_t *shape, *strides; /* in elements */
    uint64_t byte_offset;
} dl_tensor;

/* Of DLPack before 1.0. */
typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *);
} dl_managed;

typedef struct dl_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dl_versioned *);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

/* to_dlpack(owner, address, (code, bits), shape, strides, (type, id), versioned, flags): a capsule
 * over the memory, which keeps `owner`. Strides are in elements. */
PyObject *hetir_to_dlpack(PyObject *module, PyObject *arguments);

/* from_dlpack(capsule): (owner, address, (code, bits, lanes), shape, strides or None, (type, id),
 * flags); the memory lives as long as `owner`. */
PyObject *hetir_from_dlpack(PyObject *module, PyObject *capsule);

/* Makes the type of the owners; -1 with an error set. */
int hetir_dlpack_ready(void);

#endif
