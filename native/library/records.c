/* What kernels print, and their failed checks. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

enum { RECORD_BYTES = 24 };

typedef struct {
    const uint8_t *bytes;
    uint32_t size, site;
    int64_t group, item;
} record;

static int compare(const void *a, const void *b)
{
    const record *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->item != y->item)
        return x->item < y->item ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static double half_of(uint16_t bits, int fraction, int least)
{
    int exponent = (bits & 0x7FFF) >> fraction, top = fraction == 10 ? 31 : 255;
    double part = bits & ((1 << fraction) - 1);
    double size = exponent == top   ? (part ? NAN : INFINITY)
                  : exponent == 0   ? ldexp(part, least - fraction)
                                    : ldexp(part + (1 << fraction), exponent - 1 + least - fraction);
    return bits & 0x8000 ? -size : size;
}

/* The shortest number with 1 to 17 digits that reads back as the same float. */
static void show_float(double value, int single, char *to, size_t size)
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(to, size, "%.*g", digits, value);
        if (isnan(value) || (single ? strtof(to, NULL) == (float)value : strtod(to, NULL) == value))
            break;
    }
    if (isfinite(value) && !strpbrk(to, ".en"))
        snprintf(to + strlen(to), size - strlen(to), ".0");
}

static void show(uint32_t type, const uint8_t *word, char *to, size_t size)
{
    uint64_t bits;
    float single;
    double both;
    memcpy(&bits, word, 8);
    memcpy(&single, word, 4);
    memcpy(&both, word, 8);
    switch (type) {
    case HETIR_BOOL: snprintf(to, size, "%s", bits & 1 ? "True" : "False"); break;
    case HETIR_I8: snprintf(to, size, "%d", (int8_t)bits); break;
    case HETIR_I16: snprintf(to, size, "%d", (int16_t)bits); break;
    case HETIR_I32: snprintf(to, size, "%d", (int32_t)bits); break;
    case HETIR_I64: snprintf(to, size, "%" PRId64, (int64_t)bits); break;
    case HETIR_F16: show_float(half_of((uint16_t)bits, 10, -14), 1, to, size); break;
    case HETIR_BF16: show_float(half_of((uint16_t)bits, 7, -126), 1, to, size); break;
    case HETIR_F32: show_float(single, 1, to, size); break;
    case HETIR_F64: show_float(both, 0, to, size); break;
    default: snprintf(to, size, "%" PRIu64, bits); break;
    }
}

/* Prints a line: `{}` takes the operands in order, `{{` and `}}` are braces. */
static void print_line(const container *file, const site_row *site, const record *r)
{
    const char *at = container_string(file, site->format);
    char text[64];
    uint32_t next = 0;
    for (; *at; at++) {
        if (at[0] == '{' && at[1] == '}' && next < site->types.count) {
            show(container_word(file, site->types.first + next), r->bytes + RECORD_BYTES + 8 * next, text,
                 sizeof text);
            fputs(text, stdout);
            next++;
            at++;
        } else {
            if ((at[0] == '{' || at[0] == '}') && at[1] == at[0])
                at++;
            putchar(*at);
        }
    }
    putchar('\n');
}

/* Every second operand of an index check, from `first` on: the index, or the array's shape. */
static void list_axes(const record *r, uint32_t first, uint32_t count, char *to, size_t size)
{
    char number[32];
    size_t used = 0;
    to[0] = 0;
    for (uint32_t i = first; i < count && used < size; i += 2) {
        show(HETIR_I64, r->bytes + RECORD_BYTES + 8 * i, number, sizeof number);
        used += (size_t)snprintf(to + used, size - used, "%s%s", i > first ? ", " : "", number);
    }
}

static hetir_result fail_check(const hetir_kernel *kernel, const site_row *site, const record *r)
{
    const container *file = &kernel->module->file;
    const char *text = container_string(file, site->format);
    const char *where = container_string(file, site->file);
    char index[128], shape[128];
    if (strcmp(container_string(file, site->kind), "assert") == 0)
        return hetir_fail(HETIR_CHECK_FAILED,
                          "assertion failed in `%s`: %s (%s:%u, work-item %lld of workgroup %lld)",
                          kernel->name, text, where, site->line, (long long)r->item, (long long)r->group);
    list_axes(r, 0, site->types.count, index, sizeof index);
    list_axes(r, 1, site->types.count, shape, sizeof shape);
    return hetir_fail(HETIR_CHECK_FAILED,
                      "index (%s) is out of bounds for `%s` of shape (%s) in `%s` (%s:%u, work-item %lld "
                      "of workgroup %lld)",
                      index, text, shape, kernel->name, where, site->line, (long long)r->item,
                      (long long)r->group);
}

/* The records of a buffer, as far as they are whole. */
static size_t read_all(const container *file, const payload_row *payload, const uint8_t *data,
                       uint64_t size, record *records)
{
    size_t count = 0;
    uint64_t at = 0;
    while (at + RECORD_BYTES <= size) {
        record r = {.bytes = data + at};
        memcpy(&r.size, data + at, 4);
        memcpy(&r.site, data + at + 4, 4);
        memcpy(&r.group, data + at + 8, 8);
        memcpy(&r.item, data + at + 16, 8);
        if (r.size < RECORD_BYTES || r.size > size - at || r.site >= payload->sites.count)
            break;
        if (r.size - RECORD_BYTES < 8 * container_site(file, payload->sites.first + r.site).types.count)
            break;
        records[count++] = r;
        at += r.size;
    }
    return count;
}

hetir_result hetir_report(const hetir_kernel *kernel, const payload_row *payload, const uint8_t *data,
                          uint64_t size)
{
    const container *file = &kernel->module->file;
    hetir_result result = HETIR_OK;
    uint64_t used, room = size - RECORD_HEADER;
    record *records = malloc((size_t)(room / RECORD_BYTES + 1) * sizeof *records);
    size_t count;
    if (!records)
        return hetir_fail(HETIR_OUT_OF_MEMORY, "no memory for what `%s` printed", kernel->name);
    memcpy(&used, data + 8, 8);
    count = read_all(file, payload, data + RECORD_HEADER, used < room ? used : room, records);
    qsort(records, count, sizeof *records, compare);
    for (size_t i = 0; i < count; i++) {
        site_row site = container_site(file, payload->sites.first + records[i].site);
        if (strcmp(container_string(file, site.kind), "print") == 0)
            print_line(file, &site, &records[i]);
        else if (result == HETIR_OK)
            result = fail_check(kernel, &site, &records[i]);
    }
    if (used > room)
        printf("hetir: the print buffer is full: %llu bytes of %s are lost\n",
               (unsigned long long)(used - room), kernel->name);
    fflush(stdout);
    free(records);
    return result;
}
