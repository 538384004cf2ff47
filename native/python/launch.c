/* The warm path of a launch: the specialisation key of its arguments, the canonical block, and
 * what the arguments promise beyond their types. Python keeps the messages and the rare cases. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#include <stdint.h>
#include <string.h>

#include "dlpack.h"
#include "hetir_runtime.h"

typedef int run_function(hetir_program *, const uint8_t *, size_t, int64_t, int64_t, int64_t,
                         int64_t, int64_t, int64_t, uint8_t *, int64_t, hetir_job **);

/* The codes of element types are their places in hetir.runtime.dtypes.NUMPY. */
enum { UNKNOWN = 255, MOST_TYPE_NUMBERS = 1024, MOST_TYPES = 64, MOST_RANGES = 64, MOST_AXES = 64,
       MOST_VECTOR = 16, MOST_GROUPS_AT_ONCE = 65535 };
enum { BOOL, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64 };
/* Why an argument is refused; hetir.runtime.pack has the sentences. */
enum { MISMATCH, READ_ONLY, UNALIGNED, OVERLAPS_ITSELF, OTHER_DEVICE, NO_NUMBER, OUT_OF_RANGE };
/* The facts of a launch: two bits, then one for each slot that is aligned to 16 bytes. */
enum { WIDE = 1, MEETS = 2, FIRST_ALIGNED = 2, MOST_FACTS = 62 };

static uint8_t code_of_type_number[MOST_TYPE_NUMBERS];
static int64_t size_of_code[MOST_TYPES];
static PyObject *code_of_scalar; /* NumPy's scalar types -> code */
static PyTypeObject *array_type; /* hetir.runtime.arrays.Array */
static PyObject *packed_name, *device_name;

/* An array argument, whoever owns it. */
typedef struct {
    uint8_t code, host, writable;
    int ndim;
    int64_t address;
    int64_t shape[MOST_AXES], strides[MOST_AXES];
} view;

enum { NOT_AN_ARRAY = 0, AN_ARRAY = 1, FAILED = -1 };

static int view_of_ndarray(PyArrayObject *array, view *out)
{
    PyArray_Descr *descr = PyArray_DESCR(array);
    int number = descr->type_num;
    out->code = number < MOST_TYPE_NUMBERS && descr->byteorder != '>'
                    ? code_of_type_number[number]
                    : UNKNOWN;
    out->host = 1;
    out->writable = PyArray_ISWRITEABLE(array);
    out->ndim = PyArray_NDIM(array);
    out->address = (int64_t)(intptr_t)PyArray_DATA(array);
    memcpy(out->shape, PyArray_DIMS(array), (size_t)out->ndim * sizeof(int64_t));
    memcpy(out->strides, PyArray_STRIDES(array), (size_t)out->ndim * sizeof(int64_t));
    return AN_ARRAY;
}

/* Reads `Array.packed`: code, ndim, host, writeable, four bytes of nothing, the slot's words. */
static int view_of_array(PyObject *array, view *out)
{
    PyObject *packed = PyObject_GetAttr(array, packed_name);
    char *bytes;
    Py_ssize_t size;
    if (!packed)
        return FAILED;
    if (PyBytes_AsStringAndSize(packed, &bytes, &size) < 0 || size < 16 ||
        (uint8_t)bytes[1] > MOST_AXES || size != 16 + 16 * (uint8_t)bytes[1]) {
        Py_DECREF(packed);
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_SystemError, "Array.packed is malformed");
        return FAILED;
    }
    out->code = (uint8_t)bytes[0];
    out->ndim = (uint8_t)bytes[1];
    out->host = (uint8_t)bytes[2];
    out->writable = (uint8_t)bytes[3];
    memcpy(&out->address, bytes + 8, 8);
    memcpy(out->shape, bytes + 16, 8 * (size_t)out->ndim);
    memcpy(out->strides, bytes + 16 + 8 * out->ndim, 8 * (size_t)out->ndim);
    Py_DECREF(packed);
    return AN_ARRAY;
}

static int view_of(PyObject *value, view *out)
{
    if (PyArray_CheckExact(value)) /* a subclass becomes one, or is refused, by as_operand */
        return view_of_ndarray((PyArrayObject *)value, out);
    return Py_TYPE(value) == array_type ? view_of_array(value, out) : NOT_AN_ARRAY;
}

/* ---- the specialisation key -------------------------------------------------------------- */

typedef struct {
    uint8_t *bytes;
    size_t size, room;
    uint8_t fixed[512];
    PyObject *objects; /* what has no bytes: classes and constants */
} key;

static int put(key *to, const uint8_t *bytes, size_t size)
{
    if (to->size + size > to->room) {
        size_t room = 2 * (to->size + size);
        uint8_t *more = PyMem_Malloc(room);
        if (!more) {
            PyErr_NoMemory();
            return FAILED;
        }
        memcpy(more, to->bytes, to->size);
        if (to->bytes != to->fixed)
            PyMem_Free(to->bytes);
        to->bytes = more;
        to->room = room;
    }
    memcpy(to->bytes + to->size, bytes, size);
    to->size += size;
    return AN_ARRAY;
}

static int put_object(key *to, uint8_t tag, PyObject *object)
{
    if (!to->objects && !(to->objects = PyList_New(0)))
        return FAILED;
    return PyList_Append(to->objects, object) < 0 ? FAILED : put(to, &tag, 1);
}

/* Element type, dimensions, broadcast axes and whether the last one is contiguous. */
static int put_array(key *to, const view *array)
{
    uint8_t bytes[3 + MOST_AXES] = {'a', array->code, (uint8_t)array->ndim};
    int last = array->ndim - 1;
    if (array->code == UNKNOWN)
        return NOT_AN_ARRAY;
    for (int axis = 0; axis <= last; axis++)
        bytes[3 + axis] = array->strides[axis] == 0 ? 0 : 2;
    if (last >= 0 &&
        (array->strides[last] == size_of_code[array->code] || array->shape[last] == 1))
        bytes[3 + last] = 1;
    return put(to, bytes, 3 + (size_t)array->ndim);
}

/* A vector parameter: any sequence or array, and how many numbers it holds. */
static int put_vector(key *to, PyObject *value)
{
    Py_ssize_t count = PySequence_Size(value);
    int found = put_object(to, 'v', (PyObject *)Py_TYPE(value));
    if (count < 0) {
        PyErr_Clear();
        return NOT_AN_ARRAY;
    }
    if (found == AN_ARRAY && PyArray_Check(value) && PyArray_NDIM((PyArrayObject *)value) != 1)
        return NOT_AN_ARRAY;
    return found == AN_ARRAY ? put(to, (uint8_t *)&count, sizeof count) : found;
}

static int put_value(key *to, PyObject *value);

/* An array in a tuple may stand for a vector, whose length counts. */
static int put_field(key *to, PyObject *value)
{
    Py_ssize_t count = 0;
    int found = put_value(to, value);
    if (found == AN_ARRAY && PyArray_Check(value) && PyArray_NDIM((PyArrayObject *)value) == 1 &&
        (count = PyArray_DIM((PyArrayObject *)value, 0)) <= MOST_VECTOR)
        return put(to, (uint8_t *)&count, 1);
    return found;
}

static int put_tuple(key *to, PyObject *value)
{
    Py_ssize_t count = PySequence_Size(value);
    int found = put_object(to, 't', (PyObject *)Py_TYPE(value));
    if (found != AN_ARRAY || (found = put(to, (uint8_t *)&count, sizeof count)) != AN_ARRAY ||
        Py_EnterRecursiveCall(" in an argument") < 0)
        return FAILED;
    for (Py_ssize_t i = 0; i < count && found == AN_ARRAY; i++) {
        PyObject *item = PySequence_GetItem(value, i);
        found = item ? put_field(to, item) : FAILED;
        Py_XDECREF(item);
    }
    Py_LeaveRecursiveCall();
    return found;
}

/* Gives NOT_AN_ARRAY for a value that has no key: it must be converted, or refused. */
static int put_value(key *to, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    view array;
    int found = view_of(value, &array);
    if (found != NOT_AN_ARRAY)
        return found == FAILED ? FAILED : put_array(to, &array);
    if (type == &PyLong_Type)
        return put(to, (const uint8_t *)"i", 1);
    if (type == &PyFloat_Type)
        return put(to, (const uint8_t *)"f", 1);
    if (type == &PyBool_Type)
        return put(to, (const uint8_t *)"b", 1);
    PyObject *code = PyDict_GetItemWithError(code_of_scalar, (PyObject *)type);
    if (code) {
        uint8_t bytes[2] = {'s', (uint8_t)PyLong_AsLong(code)};
        return put(to, bytes, 2);
    }
    if (PyErr_Occurred())
        return FAILED;
    if (PyLong_Check(value) || PyFloat_Check(value))
        return put_object(to, 'o', (PyObject *)type);
    return PyTuple_Check(value) || PyList_Check(value) ? put_tuple(to, value) : NOT_AN_ARRAY;
}

static PyObject *finished(key *made)
{
    PyObject *bytes = PyBytes_FromStringAndSize((char *)made->bytes, (Py_ssize_t)made->size);
    PyObject *objects, *both;
    if (!bytes || !made->objects)
        return bytes;
    objects = PyList_AsTuple(made->objects);
    both = objects ? PyTuple_Pack(2, bytes, objects) : NULL;
    Py_XDECREF(objects);
    Py_DECREF(bytes);
    return both;
}

/* key(values, kinds, static_key): `kinds` has one byte a value, 1 for a constant, 2 for a vector. */
static PyObject *key_of(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    PyObject *values, *static_key, *result = NULL;
    char *kinds;
    Py_ssize_t count;
    key made;
    int found = AN_ARRAY;
    (void)module;
    if (given != 3 || !PyTuple_Check(arguments[0]) ||
        PyBytes_AsStringAndSize(arguments[1], &kinds, &count) < 0 ||
        PyTuple_Size(arguments[0]) != count) {
        PyErr_SetString(PyExc_TypeError, "key(values, kinds, static_key): one byte a value");
        return NULL;
    }
    values = arguments[0];
    static_key = arguments[2];
    made.bytes = made.fixed;
    made.size = 0;
    made.room = sizeof made.fixed;
    made.objects = NULL;
    for (Py_ssize_t i = 0; i < count && found == AN_ARRAY; i++) {
        PyObject *value = PyTuple_GetItem(values, i);
        if (kinds[i] == 2) {
            found = put_vector(&made, value);
        } else if (kinds[i] == 1) {
            PyObject *constant = PyObject_CallFunctionObjArgs(static_key, value, NULL);
            found = constant ? put_object(&made, '@', constant) : FAILED;
            Py_XDECREF(constant);
        } else {
            found = put_value(&made, value);
        }
    }
    if (found == AN_ARRAY)
        result = finished(&made);
    else if (found == NOT_AN_ARRAY)
        result = Py_NewRef(Py_None);
    if (made.bytes != made.fixed)
        PyMem_Free(made.bytes);
    Py_XDECREF(made.objects);
    return result;
}

/* ---- the block --------------------------------------------------------------------------- */

typedef struct {
    int64_t offset;
    int ndim; /* -1 for a scalar */
    uint8_t code, writes;
    Py_ssize_t first;
    PyObject *source, *convert;
} slot;

typedef struct {
    PyObject_HEAD
    Py_ssize_t size, count;
    slot *slots;
    uint8_t host;
    PyObject *device, *refuse;
} packer;

typedef struct {
    int64_t low, high;
    uint8_t writes;
} range;

/* The argument of a slot, a new reference. */
static PyObject *take(const slot *from, PyObject *values)
{
    PyObject *value = PyTuple_GetItem(values, from->first);
    Py_ssize_t depth = PyTuple_Size(from->source);
    Py_XINCREF(value);
    for (Py_ssize_t i = 1; i < depth && value; i++) {
        PyObject *field = PyTuple_GetItem(from->source, i);
        PyObject *inner = PyUnicode_Check(field) ? PyObject_GetAttr(value, field)
                                                 : PyObject_GetItem(value, field);
        Py_DECREF(value);
        value = inner;
    }
    return value;
}

/* Has Python raise the error; a device may be allowed after all, and only then this goes on. */
static int refuse(packer *self, Py_ssize_t index, int reason, PyObject *value)
{
    PyObject *answer = PyObject_CallFunction(self->refuse, "niO", index, reason, value);
    Py_XDECREF(answer);
    if (answer && reason != OTHER_DEVICE) {
        PyErr_SetString(PyExc_SystemError, "an argument was refused without an error");
        return FAILED;
    }
    return answer ? AN_ARRAY : FAILED;
}

static int64_t magnitude(int64_t stride)
{
    return stride == INT64_MIN ? INT64_MAX : stride < 0 ? -stride : stride;
}

/* Whether two indices may name one byte; as hetir.runtime.layout.overlaps_itself. */
static int overlaps_itself(const view *array, int64_t item)
{
    int order[MOST_AXES];
    int count = 0;
    __int128 covered = item;
    for (int axis = 0; axis < array->ndim; axis++) {
        int at = count;
        if (array->shape[axis] == 0)
            return 0;
        if (array->shape[axis] == 1)
            continue;
        for (; at > 0 && magnitude(array->strides[order[at - 1]]) >
                             magnitude(array->strides[axis]); at--)
            order[at] = order[at - 1];
        order[at] = axis;
        count++;
    }
    for (int i = 0; i < count; i++) {
        int64_t stride = magnitude(array->strides[order[i]]);
        if (stride < covered)
            return 1;
        covered += (__int128)stride * (array->shape[order[i]] - 1);
    }
    return 0;
}

/* The bytes of an array, and which facts of the launch it spoils. */
static int reach(const view *array, int64_t item, range *bytes)
{
    __int128 low = 0, high = 0;
    int wide = 0, empty = 0;
    for (int axis = 0; axis < array->ndim; axis++) {
        __int128 step = (__int128)array->strides[axis] * (array->shape[axis] - 1);
        empty |= array->shape[axis] == 0;
        wide |= array->shape[axis] > INT32_MAX || magnitude(array->strides[axis]) > INT32_MAX;
        if (step < 0)
            low += step;
        else
            high += step;
    }
    bytes->low = empty ? 0 : array->address + (int64_t)low;
    bytes->high = empty ? 0 : array->address + (int64_t)high + item;
    wide |= !empty && (low < INT32_MIN || high + item > INT32_MAX);
    return wide ? WIDE : 0;
}

/* Whether the address and every stride but a contiguous last one are multiples of 16. */
static int is_aligned(const view *array, int64_t item)
{
    uint64_t bits = (uint64_t)array->address;
    for (int axis = 0; axis < array->ndim; axis++)
        if (axis < array->ndim - 1 || array->strides[axis] != item)
            bits |= (uint64_t)array->strides[axis];
    return bits % 16 == 0;
}

static int check_array(packer *self, Py_ssize_t index, PyObject *value, const view *array)
{
    const slot *to = &self->slots[index];
    int64_t size = size_of_code[to->code];
    uint64_t bits = (uint64_t)array->address;
    int contiguous = 1;
    int64_t expected = size;
    if (Py_TYPE(value) == array_type) {
        PyObject *device = PyObject_GetAttr(value, device_name);
        int other = device != self->device;
        Py_XDECREF(device);
        if (!device || (other && refuse(self, index, OTHER_DEVICE, value) == FAILED))
            return FAILED;
    }
    if (to->writes && !array->writable)
        return refuse(self, index, READ_ONLY, value);
    if (array->code != to->code || array->ndim != to->ndim)
        return refuse(self, index, MISMATCH, value);
    for (int axis = array->ndim - 1; axis >= 0; axis--) {
        bits |= (uint64_t)array->strides[axis];
        contiguous &= array->strides[axis] == expected;
        expected *= array->shape[axis];
    }
    if (bits & (uint64_t)(size - 1))
        return refuse(self, index, UNALIGNED, value);
    if (to->writes && !contiguous && overlaps_itself(array, size))
        return refuse(self, index, OVERLAPS_ITSELF, value);
    return AN_ARRAY;
}

static int pack_array(packer *self, Py_ssize_t index, PyObject *value, uint8_t *block,
                      uint64_t *facts, range *bytes)
{
    const slot *to = &self->slots[index];
    int64_t size = size_of_code[to->code];
    size_t words = 8 * (size_t)to->ndim;
    view array;
    int found = view_of(value, &array);
    if (found == NOT_AN_ARRAY)
        return refuse(self, index, MISMATCH, value);
    if (found == FAILED || check_array(self, index, value, &array) == FAILED)
        return FAILED;
    memcpy(block + to->offset, &array.address, 8);
    memcpy(block + to->offset + 8, array.shape, words);
    memcpy(block + to->offset + 8 + words, array.strides, words);
    *facts |= (uint64_t)reach(&array, size, bytes);
    bytes->writes = to->writes;
    if (index + FIRST_ALIGNED < MOST_FACTS && is_aligned(&array, size))
        *facts |= (uint64_t)1 << (index + FIRST_ALIGNED);
    return AN_ARRAY;
}

static int put_integer(uint8_t code, PyObject *number, uint8_t *to)
{
    static const int bits_of[] = {8, 8, 16, 32, 64, 8, 16, 32, 64, 16, 16, 32, 64, 8, 8};
    int bits = bits_of[code];
    int overflow = 0;
    int is_signed = code >= I8 && code <= I64;
    long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    unsigned long long raw = (unsigned long long)value;
    if (value == -1 && PyErr_Occurred())
        return FAILED;
    if (!is_signed && overflow > 0) {
        raw = PyLong_AsUnsignedLongLong(number);
        if (raw == (unsigned long long)-1 && PyErr_Occurred()) {
            PyErr_Clear();
            return NOT_AN_ARRAY;
        }
    } else if (overflow || (!is_signed && value < 0)) {
        return NOT_AN_ARRAY;
    }
    if (bits < 64 && (is_signed ? value < -(1LL << (bits - 1)) || value >= 1LL << (bits - 1)
                                : raw >> bits != 0))
        return NOT_AN_ARRAY;
    memcpy(to, &raw, (size_t)bits / 8);
    return AN_ARRAY;
}

#define EXACT_INTEGERS (1LL << 53)

static int put_float(uint8_t code, double value, uint8_t *to)
{
    float narrow = (float)value;
    if (code == F64)
        memcpy(to, &value, 8);
    else
        memcpy(to, &narrow, 4);
    return AN_ARRAY;
}

/* What Python makes of a value: the integer of its bits, or a float of 64 bits. */
static int pack_converted(packer *self, Py_ssize_t index, PyObject *value, uint8_t *block)
{
    const slot *to = &self->slots[index];
    PyObject *made = PyObject_CallFunctionObjArgs(to->convert, value, NULL);
    int found;
    if (!made) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError) &&
            !PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_ValueError))
            return FAILED;
        PyErr_Clear();
        return refuse(self, index, NO_NUMBER, value);
    }
    if (PyFloat_Check(made))
        found = put_float(to->code, PyFloat_AsDouble(made), block + to->offset);
    else
        found = put_integer(to->code, made, block + to->offset);
    Py_DECREF(made);
    return found == NOT_AN_ARRAY ? refuse(self, index, OUT_OF_RANGE, value) : found;
}

static int pack_scalar(packer *self, Py_ssize_t index, PyObject *value, uint8_t *block)
{
    const slot *to = &self->slots[index];
    int found;
    if ((to->code == F32 || to->code == F64) && Py_TYPE(value) == &PyFloat_Type)
        return put_float(to->code, PyFloat_AsDouble(value), block + to->offset);
    if (to->code >= I8 && to->code <= U64 && Py_TYPE(value) == &PyLong_Type) {
        found = put_integer(to->code, value, block + to->offset);
        return found == NOT_AN_ARRAY ? refuse(self, index, OUT_OF_RANGE, value) : found;
    }
    if ((to->code == F32 || to->code == F64) && Py_TYPE(value) == &PyLong_Type) {
        int overflow;
        long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
        if (!overflow && number >= -EXACT_INTEGERS && number <= EXACT_INTEGERS)
            return put_float(to->code, (double)number, block + to->offset);
    }
    return pack_converted(self, index, value, block);
}

/* Whether an array that is written shares bytes with another one. */
static int meets(const range *ranges, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++)
        for (Py_ssize_t j = 0; j < i; j++)
            if ((ranges[i].writes | ranges[j].writes) && ranges[i].low < ranges[j].high &&
                ranges[j].low < ranges[i].high)
                return 1;
    return 0;
}

/* Whether a global size does not fit 32 bits, or some device must run the grid in pieces; `grid`
 * and `workgroup` are tuples of three. */
static int is_wide(PyObject *grid, PyObject *workgroup)
{
    for (Py_ssize_t axis = 0; axis < 3; axis++) {
        int64_t groups = PyLong_AsLongLong(PyTuple_GetItem(grid, axis));
        int64_t items = PyLong_AsLongLong(PyTuple_GetItem(workgroup, axis));
        int64_t both;
        if (PyErr_Occurred()) {
            PyErr_Clear();
            return 1;
        }
        if (__builtin_mul_overflow(groups, items, &both) || both > INT32_MAX || both < 0 ||
            groups > (axis ? UINT16_MAX : INT32_MAX) || items > INT32_MAX)
            return 1; /* past UINT16_MAX in y and z a grid runs in pieces on some devices */
    }
    return 0;
}

static int is_dims(PyObject *given)
{
    return PyTuple_Check(given) && PyTuple_Size(given) == 3;
}

/* pack(values, grid, workgroup) -> (block, facts) */
static PyObject *packer_pack(PyObject *object, PyObject *const *arguments, Py_ssize_t given)
{
    packer *self = (packer *)object;
    PyObject *values, *block;
    range ranges[MOST_RANGES];
    Py_ssize_t arrays = 0;
    uint64_t facts;
    uint8_t *bytes;
    if (given != 3 || !PyTuple_Check(arguments[0]) || !is_dims(arguments[1]) ||
        !is_dims(arguments[2])) {
        PyErr_SetString(PyExc_TypeError, "pack(values, grid, workgroup): tuples, two of three");
        return NULL;
    }
    values = arguments[0];
    if (!(block = PyBytes_FromStringAndSize(NULL, self->size)))
        return NULL;
    bytes = (uint8_t *)PyBytes_AsString(block);
    memset(bytes, 0, (size_t)self->size);
    facts = is_wide(arguments[1], arguments[2]) ? WIDE : 0;
    for (Py_ssize_t i = 0; i < self->count; i++) {
        range spare;
        PyObject *value = take(&self->slots[i], values);
        int found = FAILED;
        if (value && self->slots[i].ndim < 0)
            found = pack_scalar(self, i, value, bytes);
        else if (value)
            found = pack_array(self, i, value, bytes, &facts,
                               arrays < MOST_RANGES ? &ranges[arrays++] : &spare);
        if (found == AN_ARRAY && arrays == MOST_RANGES)
            facts |= MEETS;
        Py_XDECREF(value);
        if (found == FAILED) {
            Py_DECREF(block);
            return NULL;
        }
    }
    if (meets(ranges, arrays))
        facts |= MEETS;
    return Py_BuildValue("NK", block, (unsigned long long)facts);
}

static void packer_dealloc(PyObject *object)
{
    packer *self = (packer *)object;
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    PyObject_GC_UnTrack(object);
    for (Py_ssize_t i = 0; i < self->count; i++) {
        Py_XDECREF(self->slots[i].source);
        Py_XDECREF(self->slots[i].convert);
    }
    PyMem_Free(self->slots);
    Py_XDECREF(self->device);
    Py_XDECREF(self->refuse);
    release(object);
    Py_DECREF(type);
}

static int packer_traverse(PyObject *object, visitproc visit, void *arg)
{
    packer *self = (packer *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->device);
    Py_VISIT(self->refuse);
    for (Py_ssize_t i = 0; i < self->count; i++)
        Py_VISIT(self->slots[i].convert);
    return 0;
}

static int packer_clear(PyObject *object)
{
    packer *self = (packer *)object;
    Py_CLEAR(self->refuse);
    return 0;
}

static int read_slot(PyObject *given, slot *out, Py_ssize_t size)
{
    long long offset, bytes;
    int ndim, code, writes;
    if (!PyArg_ParseTuple(given, "LiipO!O", &offset, &ndim, &code, &writes, &PyTuple_Type,
                          &out->source, &out->convert))
        return FAILED;
    out->first = PyTuple_Size(out->source) ? PyLong_AsSsize_t(PyTuple_GetItem(out->source, 0)) : -1;
    Py_INCREF(out->source);
    Py_INCREF(out->convert);
    if (PyErr_Occurred())
        return FAILED;
    out->offset = offset;
    out->ndim = ndim;
    out->code = (uint8_t)code;
    out->writes = (uint8_t)writes;
    bytes = ndim < 0 ? 8 : 8 + 16 * (long long)ndim;
    if (code >= 0 && code < MOST_TYPES && ndim < 0)
        bytes = size_of_code[code];
    if (code < 0 || code >= MOST_TYPES || size_of_code[code] == 0 || ndim > MOST_AXES ||
        out->first < 0 || offset < 0 || offset + bytes > size) {
        PyErr_SetString(PyExc_ValueError, "a slot does not fit its block");
        return FAILED;
    }
    return AN_ARRAY;
}

/* Packer(size, slots, device, refuse): a slot is (offset, ndim or -1, code, writes, source,
 * convert). `refuse(index, reason, value)` raises. */
static PyObject *packer_new(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    Py_ssize_t size;
    PyObject *slots, *device, *refuser;
    packer *self;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    (void)named;
    if (!PyArg_ParseTuple(arguments, "nO!OO", &size, &PyTuple_Type, &slots, &device, &refuser))
        return NULL;
    if (!(self = (packer *)allocate(type, 0)))
        return NULL;
    self->size = size;
    self->device = Py_NewRef(device);
    self->refuse = Py_NewRef(refuser);
    self->slots = PyMem_Calloc((size_t)PyTuple_Size(slots) + 1, sizeof(slot));
    if (!self->slots) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < PyTuple_Size(slots); i++) {
        self->count = i + 1;
        if (read_slot(PyTuple_GetItem(slots, i), &self->slots[i], size) == FAILED) {
            Py_DECREF(self);
            return NULL;
        }
    }
    return (PyObject *)self;
}

static PyMethodDef packer_methods[] = {
    {"pack", (PyCFunction)(void (*)(void))packer_pack, METH_FASTCALL,
     "The block of a launch and the facts of its arguments."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot packer_slots[] = {
    {Py_tp_new, packer_new},           {Py_tp_dealloc, packer_dealloc},
    {Py_tp_traverse, packer_traverse}, {Py_tp_clear, packer_clear},
    {Py_tp_methods, packer_methods},   {0, NULL},
};

static PyType_Spec packer_spec = {
    .name = "hetir.runtime._launch.Packer",
    .basicsize = sizeof(packer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = packer_slots,
};

/* ---- the CPU ----------------------------------------------------------------------------- */

/* run(hetir_run, program, block, shape, slice_ns), the first two addresses: the status, or a tuple
 * of the status, the address of the job that is left, and what Ctrl-C raised meanwhile or None. */
static PyObject *run(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    run_function *call;
    hetir_program *program;
    hetir_job *job = NULL;
    PyObject *interrupt = NULL;
    int64_t shape[6], slice;
    char *block;
    Py_ssize_t size;
    int status;
    (void)module;
    if (given != 5 || PyBytes_AsStringAndSize(arguments[2], &block, &size) < 0 ||
        !PyTuple_Check(arguments[3]) || PyTuple_Size(arguments[3]) != 6) {
        PyErr_SetString(PyExc_TypeError, "run(function, program, block, shape, slice_ns)");
        return NULL;
    }
    call = (run_function *)PyLong_AsVoidPtr(arguments[0]);
    program = PyLong_AsVoidPtr(arguments[1]);
    for (Py_ssize_t i = 0; i < 6; i++)
        shape[i] = PyLong_AsLongLong(PyTuple_GetItem(arguments[3], i));
    slice = PyLong_AsLongLong(arguments[4]);
    if (PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = call(program, (uint8_t *)block, (size_t)size, shape[0], shape[1], shape[2], shape[3],
                  shape[4], shape[5], NULL, slice, &job);
    Py_END_ALLOW_THREADS;
    if (status != HETIR_DONE && PyErr_CheckSignals() < 0 && job) {
        /* what goes on in the job must be given up by who keeps its arrays alive */
        PyObject *kind, *trace;
        PyErr_Fetch(&kind, &interrupt, &trace);
        PyErr_NormalizeException(&kind, &interrupt, &trace);
        Py_XDECREF(kind);
        Py_XDECREF(trace);
    }
    if (PyErr_Occurred())
        return NULL;
    if (!job)
        return PyLong_FromLong(status);
    if (!interrupt)
        interrupt = Py_NewRef(Py_None);
    return Py_BuildValue("iNN", status, PyLong_FromVoidPtr(job), interrupt);
}

/* setup(type_numbers, sizes, scalars, array_type): codes of NumPy's type numbers, the bytes of
 * each code, and the codes of NumPy's scalar types. */
static PyObject *setup(PyObject *module, PyObject *arguments)
{
    PyObject *numbers, *sizes, *scalars, *array, *name, *code;
    Py_ssize_t at = 0;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "O!O!O!O", &PyDict_Type, &numbers, &PyTuple_Type, &sizes,
                          &PyDict_Type, &scalars, &array))
        return NULL;
    memset(code_of_type_number, UNKNOWN, sizeof code_of_type_number);
    while (PyDict_Next(numbers, &at, &name, &code)) {
        long number = PyLong_AsLong(name);
        if (number >= 0 && number < MOST_TYPE_NUMBERS)
            code_of_type_number[number] = (uint8_t)PyLong_AsLong(code);
    }
    for (Py_ssize_t i = 0; i < PyTuple_Size(sizes) && i < MOST_TYPES; i++)
        size_of_code[i] = PyLong_AsLongLong(PyTuple_GetItem(sizes, i));
    if (PyErr_Occurred())
        return NULL;
    Py_XDECREF(code_of_scalar);
    code_of_scalar = Py_NewRef(scalars);
    Py_XDECREF((PyObject *)array_type);
    array_type = (PyTypeObject *)Py_NewRef(array);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"key", (PyCFunction)(void (*)(void))key_of, METH_FASTCALL,
     "The specialisation key of values, None where one has none."},
    {"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL,
     "Run a grid on the CPU: its status, or the status and the job that goes on."},
    {"to_dlpack", hetir_to_dlpack, METH_VARARGS, "A capsule over memory."},
    {"from_dlpack", hetir_from_dlpack, METH_O, "What a capsule holds."},
    {"setup", setup, METH_VARARGS, "Say which types there are."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_launch",
    .m_doc = "Keys and argument blocks of launches.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__launch(void)
{
    PyObject *module, *type;
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_ImportError, "hetir runs in the main interpreter only");
        return NULL;
    }
    import_array();
    packed_name = PyUnicode_InternFromString("packed");
    device_name = PyUnicode_InternFromString("device");
    if (!packed_name || !device_name || hetir_dlpack_ready() < 0 ||
        !(module = PyModule_Create(&definition)))
        return NULL;
    type = PyType_FromSpec(&packer_spec);
    if (!type || PyModule_AddObjectRef(module, "Packer", type) < 0) {
        Py_XDECREF(type);
        Py_DECREF(module);
        return NULL;
    }
    Py_DECREF(type);
    return module;
}
