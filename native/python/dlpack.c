/* Capsules of DLPack, out and in. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include "dlpack.h"

#include <stdlib.h>

enum { MAJOR = 1, MINOR = 1, MOST_DIMENSIONS = 64 };
#define PLAIN "dltensor"
#define VERSIONED "dltensor_versioned"
#define USED_PLAIN "used_dltensor"
#define USED_VERSIONED "used_dltensor_versioned"

/* Both forms of an exported tensor, with its extents and strides behind it. */
typedef struct {
    union {
        dl_managed plain;
        dl_versioned versioned;
    } form;
    int64_t words[];
} exported;

static void drop(void *context)
{
    /* a consumer may let go on any thread, even while the interpreter ends */
    if (!Py_IsInitialized())
        return;
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)context);
    PyGILState_Release(state);
}

static void delete_plain(dl_managed *managed)
{
    drop(managed->context);
    free(managed);
}

static void delete_versioned(dl_versioned *managed)
{
    drop(managed->context);
    free(managed);
}

/* A capsule that nobody took. One that was taken has another name and is its consumer's. */
static void end_capsule(PyObject *capsule)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (PyCapsule_IsValid(capsule, PLAIN)) {
        dl_managed *managed = PyCapsule_GetPointer(capsule, PLAIN);
        if (managed->deleter)
            managed->deleter(managed);
    } else if (PyCapsule_IsValid(capsule, VERSIONED)) {
        dl_versioned *managed = PyCapsule_GetPointer(capsule, VERSIONED);
        if (managed->deleter)
            managed->deleter(managed);
    }
    PyErr_Restore(type, value, trace);
}

static int read_words(PyObject *tuple, Py_ssize_t count, int64_t *out)
{
    for (Py_ssize_t i = 0; i < count; i++)
        out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *capsule_of(exported *made, PyObject *owner, int versioned, unsigned long long flags)
{
    PyObject *capsule;
    if (versioned) {
        made->form.versioned.major = MAJOR;
        made->form.versioned.minor = MINOR;
        made->form.versioned.context = owner;
        made->form.versioned.deleter = delete_versioned;
        made->form.versioned.flags = flags;
    } else {
        made->form.plain.context = owner;
        made->form.plain.deleter = delete_plain;
    }
    capsule = PyCapsule_New(made, versioned ? VERSIONED : PLAIN, end_capsule);
    if (capsule)
        Py_INCREF(owner);
    else
        free(made);
    return capsule;
}

PyObject *hetir_to_dlpack(PyObject *module, PyObject *arguments)
{
    PyObject *owner, *shape, *strides;
    unsigned long long address, flags;
    int code, bits, type, number, versioned;
    Py_ssize_t count;
    exported *made;
    dl_tensor *tensor;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OK(ii)O!O!(ii)pK", &owner, &address, &code, &bits,
                          &PyTuple_Type, &shape, &PyTuple_Type, &strides, &type, &number,
                          &versioned, &flags))
        return NULL;
    count = PyTuple_Size(shape);
    if (count != PyTuple_Size(strides)) {
        PyErr_SetString(PyExc_ValueError, "a stride for each extent");
        return NULL;
    }
    made = calloc(1, sizeof *made + 2 * (size_t)count * sizeof(int64_t));
    if (!made)
        return PyErr_NoMemory();
    if (read_words(shape, count, made->words) < 0 ||
        read_words(strides, count, made->words + count) < 0) {
        free(made);
        return NULL;
    }
    tensor = versioned ? &made->form.versioned.tensor : &made->form.plain.tensor;
    tensor->data = (void *)(uintptr_t)address;
    tensor->device = (dl_device){type, number};
    tensor->ndim = (int32_t)count;
    tensor->dtype = (dl_data_type){(uint8_t)code, (uint8_t)bits, 1};
    tensor->shape = made->words;
    tensor->strides = made->words + count;
    return capsule_of(made, owner, versioned, flags);
}

/* ---- in ---------------------------------------------------------------------------------- */

/* Keeps a tensor that was taken from its capsule. */
typedef struct {
    PyObject_HEAD
    dl_managed *plain;
    dl_versioned *versioned;
} keeper;

static PyObject *keeper_type;

static void keeper_dealloc(PyObject *object)
{
    keeper *self = (keeper *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->plain && self->plain->deleter)
        self->plain->deleter(self->plain);
    if (self->versioned && self->versioned->deleter)
        self->versioned->deleter(self->versioned);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyType_Slot keeper_slots[] = {{Py_tp_dealloc, keeper_dealloc}, {0, NULL}};

static PyType_Spec keeper_spec = {
    .name = "hetir.runtime._launch.Keeper",
    .basicsize = sizeof(keeper),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = keeper_slots,
};

int hetir_dlpack_ready(void)
{
    keeper_type = PyType_FromSpec(&keeper_spec);
    return keeper_type ? 0 : -1;
}

static PyObject *tuple_of(const int64_t *words, int32_t count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int32_t i = 0; tuple && i < count; i++) {
        PyObject *word = PyLong_FromLongLong(words[i]);
        if (!word || PyTuple_SetItem(tuple, i, word) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *described(PyObject *owner, const dl_tensor *tensor, uint64_t flags)
{
    PyObject *shape, *strides;
    if (tensor->ndim < 0 || tensor->ndim > MOST_DIMENSIONS || (tensor->ndim && !tensor->shape)) {
        PyErr_SetString(PyExc_BufferError, "the tensor's dimensions are malformed");
        return NULL;
    }
    shape = tuple_of(tensor->shape, tensor->ndim);
    strides = tensor->strides ? tuple_of(tensor->strides, tensor->ndim) : Py_NewRef(Py_None);
    if (!shape || !strides) {
        Py_XDECREF(shape);
        Py_XDECREF(strides);
        return NULL;
    }
    return Py_BuildValue("OK(iii)NN(ii)K", owner,
                         (unsigned long long)(uintptr_t)tensor->data + tensor->byte_offset,
                         tensor->dtype.code, tensor->dtype.bits, tensor->dtype.lanes, shape,
                         strides, tensor->device.device_type, tensor->device.device_id,
                         (unsigned long long)flags);
}

PyObject *hetir_from_dlpack(PyObject *module, PyObject *capsule)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot((PyTypeObject *)keeper_type, Py_tp_alloc);
    keeper *owner;
    PyObject *result = NULL;
    (void)module;
    if (!PyCapsule_IsValid(capsule, PLAIN) && !PyCapsule_IsValid(capsule, VERSIONED)) {
        PyErr_SetString(PyExc_BufferError, "this is no DLPack capsule, or it was used before");
        return NULL;
    }
    if (!(owner = (keeper *)allocate((PyTypeObject *)keeper_type, 0)))
        return NULL;
    if (PyCapsule_IsValid(capsule, VERSIONED)) {
        dl_versioned *managed = PyCapsule_GetPointer(capsule, VERSIONED);
        if (managed->major != MAJOR) {
            /* of another major version only the deleter's place is known */
            PyErr_Format(PyExc_BufferError, "the capsule is of DLPack %u, this reads %d",
                         (unsigned)managed->major, MAJOR);
        } else if (PyCapsule_SetName(capsule, USED_VERSIONED) == 0) {
            owner->versioned = managed;
            result = described((PyObject *)owner, &managed->tensor, managed->flags);
        }
    } else {
        dl_managed *managed = PyCapsule_GetPointer(capsule, PLAIN);
        if (PyCapsule_SetName(capsule, USED_PLAIN) == 0) {
            owner->plain = managed;
            result = described((PyObject *)owner, &managed->tensor, 0);
        }
    }
    Py_DECREF(owner);
    return result;
}
