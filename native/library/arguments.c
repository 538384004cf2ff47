/* Checks the arguments of a launch against the slots of a specialisation, and packs them. */
#include "arguments.h"

#include <math.h>
#include <stdlib.h>

enum { F16 = HETIR_F16, BF16 = HETIR_BF16, MOST_AXES = 32, STATIC_BYTES = 7 };
static const int64_t EXACT_INTEGERS = (int64_t)1 << 53;

uint32_t hetir_type_bytes(uint32_t type)
{
    static const uint8_t sizes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 1, 1};
    return type < sizeof sizes ? sizes[type] : 0;
}

static const char *type_name(uint32_t type)
{
    static const char *const names[] = {"bool", "i8",  "i16", "i32", "i64",  "u8",  "u16",    "u32",
                                        "u64",  "f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2"};
    return type < sizeof names / sizeof names[0] ? names[type] : "no type";
}

typedef struct {
    const hetir_kernel *kernel;
    const hetir_device *device;
    const char *name; /* of the parameter */
    slot_row slot;
    uint32_t index; /* of the slot */
    packed *to;
} packing;

#define REFUSE(p, format, ...)                                                                \
    hetir_fail(HETIR_BAD_ARGUMENT, "`%s` of `%s` " format, (p)->name, (p)->kernel->name, __VA_ARGS__)

/* A double as a float of `fraction` bits after the point and exponents from `least` to `most`,
 * rounded once. */
static uint16_t small_float(double value, int fraction, int least, int most)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0, infinity = (uint16_t)((most - least + 2) << fraction);
    double size = fabs(value);
    int exponent;
    if (isnan(value))
        return (uint16_t)(sign | infinity | 1 << (fraction - 1));
    if (size == 0 || isinf(size))
        return isinf(size) ? sign | infinity : sign;
    frexp(size, &exponent);
    exponent = exponent - 1 < least ? least : exponent - 1;
    if (exponent > most)
        return sign | infinity;
    /* in units of the last place; a carry goes into the exponent as it should */
    size = rint(ldexp(size, fraction - exponent));
    if (size < ldexp(1, fraction))
        return (uint16_t)(sign | (uint16_t)size);
    return (uint16_t)(sign | (((exponent - least) << fraction) + (int)size));
}

static int put_number(uint32_t type, double value, uint8_t *to)
{
    float single = (float)value;
    uint16_t half;
    switch (type) {
    case HETIR_F64: memcpy(to, &value, 8); return 1;
    case HETIR_F32: memcpy(to, &single, 4); return 1;
    case HETIR_F16: half = small_float(value, 10, -14, 15); break;
    case HETIR_BF16: half = small_float(value, 7, -126, 127); break;
    default: return 0;
    }
    memcpy(to, &half, 2);
    return 1;
}

static hetir_result put_integer(const packing *p, int64_t value, uint8_t *to)
{
    uint32_t type = p->slot.type, bits = 8 * hetir_type_bytes(type);
    int fits = 1;
    if (type == HETIR_BOOL)
        fits = value == 0 || value == 1;
    else if (type <= HETIR_I64)
        fits = bits == 64 || (value >= -((int64_t)1 << (bits - 1)) && value < (int64_t)1 << (bits - 1));
    else if (type <= HETIR_U64)
        fits = value >= 0 && (bits == 64 || value < (int64_t)1 << bits);
    else if (value < -EXACT_INTEGERS || value > EXACT_INTEGERS || !put_number(type, (double)value, to))
        return REFUSE(p, "is %lld, which `%s` does not take exactly", (long long)value, type_name(type));
    else
        return HETIR_OK;
    if (!fits)
        return REFUSE(p, "is %lld, out of the range of `%s`", (long long)value, type_name(type));
    memcpy(to, &value, bits / 8);
    return HETIR_OK;
}

static hetir_result pack_scalar(const packing *p, const hetir_argument *given)
{
    uint8_t *to = p->to->block + p->slot.offset;
    uint32_t type = p->slot.type;
    switch (given->kind) {
    case HETIR_INTEGER:
        return put_integer(p, given->integer, to);
    case HETIR_NUMBER:
        if (put_number(type, given->number, to))
            return HETIR_OK;
        return REFUSE(p, "must be a `%s`, got a floating-point number", type_name(type));
    case HETIR_BITS:
        if ((uint32_t)given->type != type)
            return REFUSE(p, "must be a `%s`, got a `%s`", type_name(type), type_name(given->type));
        memcpy(to, &given->integer, hetir_type_bytes(type));
        return HETIR_OK;
    default:
        return REFUSE(p, "must be a scalar of type `%s`", type_name(type));
    }
}

static hetir_result pack_element(const packing *p, const hetir_argument *given)
{
    const container *file = &p->kernel->module->file;
    const char *step = container_string(file, container_word(file, p->slot.path.first));
    char *end = NULL;
    long place = strtol(step, &end, 10);
    uint32_t size = hetir_type_bytes(p->slot.type);
    if (p->slot.path.count != 1 || *end || place < 0)
        return REFUSE(p, "is a field `%s`, which only Python can pass", step);
    if (given->kind != HETIR_VECTOR || (uint32_t)given->type != p->slot.type || given->extent <= place ||
        !given->host)
        return REFUSE(p, "must be a vector of `%s` with more than %ld scalars", type_name(p->slot.type),
                      place);
    memcpy(p->to->block + p->slot.offset, (const uint8_t *)given->host + (size_t)place * size, size);
    return HETIR_OK;
}

/* The extents and strides of an array, and the bytes that it reaches from its first element. */
typedef struct {
    int64_t shape[MOST_AXES], strides[MOST_AXES];
    __int128 low, high;
    int ndim, empty, wide;
} view;

static hetir_result view_of(const packing *p, const hetir_argument *given, view *v)
{
    int64_t item = hetir_type_bytes(p->slot.type);
    __int128 step = item;
    v->ndim = p->slot.ndim;
    v->empty = v->wide = 0;
    v->low = v->high = 0;
    if (given->kind != HETIR_ARRAY || (uint32_t)given->type != p->slot.type || given->ndim != v->ndim)
        return REFUSE(p, "must be an array of `%s` with %d dimensions", type_name(p->slot.type), v->ndim);
    if (!given->shape && v->ndim > 1)
        return REFUSE(p, "has %d dimensions and no shape", v->ndim);
    for (int axis = v->ndim - 1; axis >= 0; axis--) {
        int64_t extent = given->shape ? given->shape[axis] : given->extent;
        __int128 reach;
        if (extent < 0 || step > INT64_MAX || (given->strides && given->strides[axis] == INT64_MIN))
            return REFUSE(p, "has the extent %lld", (long long)extent);
        v->shape[axis] = extent;
        v->strides[axis] = given->strides ? given->strides[axis] : (int64_t)step;
        step *= extent;
        v->empty |= extent == 0;
        v->wide |= extent > INT32_MAX || v->strides[axis] > INT32_MAX || v->strides[axis] < -INT32_MAX;
        reach = extent ? (__int128)v->strides[axis] * (extent - 1) : 0;
        if (reach > INT64_MAX || reach < INT64_MIN)
            return REFUSE(p, "reaches too far in dimension %d", axis);
        v->low += reach < 0 ? reach : 0;
        v->high += reach > 0 ? reach : 0;
    }
    v->wide |= !v->empty && (v->low < INT32_MIN || v->high + item > INT32_MAX);
    return HETIR_OK;
}

static hetir_result check_strides(const packing *p, const view *v)
{
    int64_t item = hetir_type_bytes(p->slot.type);
    for (int axis = 0; axis < v->ndim; axis++) {
        int unit = p->slot.unit_axes >> axis & 1, zero = p->slot.zero_axes >> axis & 1;
        if ((unit && v->strides[axis] != item && v->shape[axis] != 1) || (zero && v->strides[axis] != 0))
            return REFUSE(p, "has a step of %lld bytes in dimension %d, which this was not built for",
                          (long long)v->strides[axis], axis);
        if (v->strides[axis] % item != 0)
            return REFUSE(p, "is not aligned to its elements of %lld bytes", (long long)item);
    }
    return HETIR_OK;
}

/* Whether two indices may name one byte. */
static int overlaps_itself(const view *v, int64_t item)
{
    int64_t steps[MOST_AXES], extents[MOST_AXES];
    __int128 covered = item;
    int count = 0;
    for (int axis = 0; axis < v->ndim && !v->empty; axis++) {
        int64_t step = v->strides[axis] < 0 ? -v->strides[axis] : v->strides[axis];
        int at = count;
        if (v->shape[axis] == 1)
            continue;
        for (; at > 0 && steps[at - 1] > step; at--) {
            steps[at] = steps[at - 1];
            extents[at] = extents[at - 1];
        }
        steps[at] = step;
        extents[at] = v->shape[axis];
        count++;
    }
    for (int i = 0; i < count; i++) {
        if (steps[i] < covered)
            return 1;
        covered += (__int128)steps[i] * (extents[i] - 1);
    }
    return 0;
}

/* Checks where an array lies, and gives the address of its first element. */
static hetir_result check_place(const packing *p, const hetir_argument *given, const view *v,
                                uint64_t *address)
{
    int64_t item = hetir_type_bytes(p->slot.type);
    if (given->buffer) {
        const hetir_buffer *buffer = given->buffer;
        if (buffer->device != p->device)
            return REFUSE(p, "lies on %s, the launch is on %s", buffer->device->name, p->device->name);
        if (given->offset < 0 || (!v->empty && (v->low + given->offset < 0 ||
                                                v->high + given->offset + item > buffer->size)))
            return REFUSE(p, "reaches out of its buffer of %zu bytes", buffer->size);
        *address = buffer->address + (uint64_t)given->offset;
    } else if (strcmp(p->device->name, "cpu") != 0)
        return REFUSE(p, "lies in the program's memory, the launch is on %s", p->device->name);
    else if (!given->host && !v->empty)
        return REFUSE(p, "is null%s", "");
    else
        *address = (uint64_t)(uintptr_t)given->host + (uint64_t)given->offset;
    if (*address % (uint64_t)item != 0)
        return REFUSE(p, "is not aligned to its elements of %lld bytes", (long long)item);
    if (p->slot.flags & WRITES && overlaps_itself(v, item))
        return REFUSE(p, "is written by the kernel and overlaps itself%s", "");
    return HETIR_OK;
}

static hetir_result pack_array(const packing *p, const hetir_argument *given)
{
    packed *to = p->to;
    uint8_t *block = to->block + p->slot.offset;
    uint64_t address = 0, bits;
    int64_t item = hetir_type_bytes(p->slot.type);
    uint32_t n = to->array_count;
    view v;
    hetir_result result = view_of(p, given, &v);
    if (result == HETIR_OK)
        result = check_strides(p, &v);
    if (result == HETIR_OK)
        result = check_place(p, given, &v, &address);
    if (result != HETIR_OK)
        return result;
    if (n == MOST_ARRAYS)
        return REFUSE(p, "is one array more than %d", MOST_ARRAYS);
    memcpy(block, &address, 8);
    memcpy(block + 8, v.shape, 8 * (size_t)v.ndim);
    memcpy(block + 8 + 8 * (size_t)v.ndim, v.strides, 8 * (size_t)v.ndim);
    to->wide |= v.wide;
    bits = address;
    for (int axis = 0; axis < v.ndim; axis++)
        if (axis < v.ndim - 1 || v.strides[axis] != item)
            bits |= (uint64_t)v.strides[axis];
    if (bits % 16 == 0 && p->index < 64)
        to->aligned |= (uint64_t)1 << p->index;
    to->arrays[n] = given->buffer;
    to->places[n] = p->slot.offset;
    to->lows[n] = v.empty ? 0 : address + (uint64_t)v.low;
    to->highs[n] = v.empty ? 0 : address + (uint64_t)v.high + (uint64_t)item;
    to->writes[n] = (p->slot.flags & WRITES) != 0;
    to->array_count++;
    return HETIR_OK;
}

static int meets(const packed *to)
{
    for (uint32_t i = 0; i < to->array_count; i++)
        for (uint32_t j = 0; j < i; j++)
            if ((to->writes[i] || to->writes[j]) && to->lows[i] < to->highs[j] &&
                to->lows[j] < to->highs[i])
                return 1;
    return 0;
}

static int is_wide(const int64_t *grid, const int64_t *workgroup)
{
    for (int axis = 0; axis < 3; axis++) {
        int64_t both;
        if (__builtin_mul_overflow(grid[axis], workgroup[axis], &both) || both > INT32_MAX ||
            grid[axis] > (axis ? UINT16_MAX : INT32_MAX))
            return 1;
    }
    return 0;
}

/* Whether an argument is the compile-time constant that a parameter's type names; others are. */
static int is_constant(const char *type, const hetir_argument *given)
{
    char *end = NULL;
    if (strncmp(type, "static ", STATIC_BYTES) != 0)
        return 1;
    type += STATIC_BYTES;
    if (strcmp(type, "True") == 0 || strcmp(type, "False") == 0)
        return given->kind == HETIR_INTEGER && given->integer == (type[0] == 'T');
    if (given->kind == HETIR_INTEGER)
        return given->integer == strtoll(type, &end, 10) && *type && !*end;
    return given->kind == HETIR_NUMBER && given->number == strtod(type, &end) && *type && !*end &&
           strpbrk(type, ".en") != NULL;
}

hetir_result hetir_pack(const hetir_kernel *kernel, const kernel_row *row, const hetir_device *device,
                        const int64_t *grid, const int64_t *workgroup, const hetir_argument *arguments,
                        size_t count, packed *to)
{
    const container *file = &kernel->module->file;
    packing p = {.kernel = kernel, .device = device, .to = to};
    if (count != row->parameters.count)
        return hetir_fail(HETIR_BAD_ARGUMENT, "`%s` takes %u arguments, got %zu", kernel->name,
                          row->parameters.count, count);
    for (uint32_t i = 0; i < row->parameters.count; i++) {
        p.name = container_parameter(file, row->parameters.first + i);
        if (!is_constant(container_parameter_type(file, row->parameters.first + i), &arguments[i]))
            return REFUSE(&p, "was built as the constant `%s`",
                          container_parameter_type(file, row->parameters.first + i) + STATIC_BYTES);
    }
    to->wide = is_wide(grid, workgroup);
    for (uint32_t i = 0; i < row->slots.count; i++) {
        const hetir_argument *given;
        hetir_result result;
        p.slot = container_slot(file, row->slots.first + i);
        p.index = i;
        p.name = container_parameter(file, row->parameters.first + p.slot.parameter);
        given = &arguments[p.slot.parameter];
        if (p.slot.ndim >= 0)
            result = p.slot.path.count ? REFUSE(&p, "is an array in a tuple%s", "") : pack_array(&p, given);
        else
            result = p.slot.path.count ? pack_element(&p, given) : pack_scalar(&p, given);
        if (result != HETIR_OK)
            return result;
    }
    to->meets = meets(to);
    return HETIR_OK;
}
