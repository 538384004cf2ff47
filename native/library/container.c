/* Reads hetbins: bytes that may be anything. All is checked once, when a file is opened. */
#include "container.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { HEADER_BYTES = 32, ENTRY_BYTES = 16, MAJOR = 1, ALIGNMENT = 64, TYPES = 15, MOST_AXES = 32 };

static const uint32_t record_bytes[TABLES] = {72, 8, 36, 120, 16, 36, 44, 20, 24, 4, 1};

/* Which fields of a table's records are strings, lists (two fields) and blobs, by word. */
static const struct {
    enum table_name table;
    uint8_t strings[8], string_count;
    struct {
        uint8_t word;
        enum table_name of;
    } lists[4];
    uint8_t list_count;
    uint8_t blobs[2], blob_count;
} references[] = {
    {KERNELS, {0, 1, 2, 3}, 4, {{10, PARAMETERS}, {12, SLOTS}, {14, PAYLOADS}, {16, POINTS}}, 4, {5}, 1},
    {PARAMETERS, {0, 1}, 2, {{0, 0}}, 0, {0}, 0},
    {SLOTS, {0}, 0, {{7, WORDS}}, 1, {0}, 0},
    {PAYLOADS, {0, 1, 21, 22}, 4, {{24, SITES}, {26, FENCES}, {28, VARIANTS}}, 3, {3, 4}, 2},
    {VARIANTS, {0}, 0, {{0, WORDS}}, 1, {2}, 1},
    {SITES, {0, 1, 4}, 3, {{2, WORDS}}, 1, {0}, 0},
    {FENCES, {0, 1, 2, 3, 4, 6}, 6, {{0, 0}}, 0, {0}, 0},
    {POINTS, {0, 1, 2}, 3, {{0, 0}}, 0, {0}, 0},
};

static uint32_t u32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint64_t u64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint32_t crc32c(uint32_t crc, const uint8_t *data, uint64_t size)
{
    static const uint32_t nibbles[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362,
        0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab,
        0xe330a81a, 0xf36e6f75,
    };
    crc = ~crc;
    for (uint64_t i = 0; i < size; i++) {
        crc ^= data[i];
        crc = crc >> 4 ^ nibbles[crc & 15];
        crc = crc >> 4 ^ nibbles[crc & 15];
    }
    return ~crc;
}

typedef struct {
    char *message;
    size_t size;
} complaint;

__attribute__((format(printf, 3, 4))) static int fail(complaint *to, uint64_t at, const char *format,
                                                      ...)
{
    va_list arguments;
    int begun = snprintf(to->message, to->size, "damaged at byte %llu: ", (unsigned long long)at);
    va_start(arguments, format);
    if (begun > 0 && (size_t)begun < to->size)
        vsnprintf(to->message + begun, to->size - (size_t)begun, format, arguments);
    va_end(arguments);
    return 0;
}

static const uint8_t *row(const container *c, enum table_name table, uint32_t index)
{
    return c->data + c->tables[table].offset + (uint64_t)index * c->tables[table].size;
}

static range range_at(const uint8_t *words, int word)
{
    return (range){u32(words + 4 * word), u32(words + 4 * word + 4)};
}

static int check_header(container *c, uint64_t *end, int *newer, complaint *to)
{
    static const uint8_t magic[8] = {0x89, 'H', 'E', 'T', 'B', 'I', 'N', '\n'};
    static const uint8_t zeros[4];
    const uint8_t *data = c->data;
    uint32_t count, crc;
    uint64_t first;
    unsigned major, minor;
    if (c->size < sizeof magic || memcmp(data, magic, sizeof magic) != 0)
        return fail(to, 0, "this is no hetbin");
    if (c->size < HEADER_BYTES)
        return fail(to, c->size, "the header is cut short");
    major = data[8] | (unsigned)data[9] << 8;
    minor = data[10] | (unsigned)data[11] << 8;
    if (major > MAJOR) {
        *newer = 1;
        snprintf(to->message, to->size, "format %u.%u, this library reads up to %d", major, minor, MAJOR);
        return 0;
    }
    if (major < 1)
        return fail(to, 8, "versions count from 1");
    if (u64(data + 16) != c->size)
        return fail(to, 16, "the file has %llu bytes and was written with %llu",
                    (unsigned long long)c->size, (unsigned long long)u64(data + 16));
    *end = u32(data + 24);
    count = u32(data + 28);
    first = HEADER_BYTES + (uint64_t)count * ENTRY_BYTES;
    if (count < TABLES || first > *end || *end > c->size)
        return fail(to, 24, "the tables lie outside of the file");
    crc = crc32c(crc32c(crc32c(0, data, 12), zeros, 4), data + 16, *end - 16);
    if (crc != u32(data + 12))
        return fail(to, 12, "the tables do not have their checksum");
    for (uint32_t i = 0; i < TABLES; i++) {
        const uint8_t *entry = data + HEADER_BYTES + i * ENTRY_BYTES;
        uint32_t offset = u32(entry), rows = u32(entry + 4), size = u32(entry + 8);
        if (size < record_bytes[i] || (minor == 0 && size != record_bytes[i]) || offset < first ||
            offset > *end || rows > (*end - offset) / size)
            return fail(to, (uint64_t)(entry - data), "table %u lies outside of the tables", i);
        c->tables[i].offset = offset;
        c->tables[i].count = rows;
        c->tables[i].size = size;
    }
    return 1;
}

static int check_blobs(const container *c, uint64_t end, complaint *to)
{
    for (uint32_t i = 0; i < c->tables[BLOBS].count; i++) {
        const uint8_t *at = row(c, BLOBS, i);
        uint64_t offset = u64(at), size = u64(at + 8);
        uint64_t start = (end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (offset != start || start > c->size || size > c->size - start)
            return fail(to, (uint64_t)(at - c->data), "blob %u is not where the one before ends", i);
        for (; end < start; end++)
            if (c->data[end] != 0)
                return fail(to, end, "the bytes between two blobs are not zero");
        if (crc32c(0, c->data + start, size) != u32(at + 16))
            return fail(to, start, "the %llu bytes from here do not have their checksum",
                        (unsigned long long)size);
        end = start + size;
    }
    return end == c->size ? 1 : fail(to, end, "there are bytes after the last blob");
}

static int is_string(const container *c, uint32_t at)
{
    uint32_t room = c->tables[STRINGS].count;
    const uint8_t *heap = c->data + c->tables[STRINGS].offset;
    uint32_t size;
    if (at % 4 != 0 || room < 5 || at > room - 5)
        return 0;
    size = u32(heap + at);
    return size <= room - at - 5 && heap[at + 4 + size] == 0;
}

/* Checks what the records refer to. A record belongs to one list, so that the work on a file grows
 * with its size only. */
static int check_references(const container *c, complaint *to)
{
    uint64_t listed[TABLES] = {0};
    for (size_t k = 0; k < sizeof references / sizeof references[0]; k++) {
        enum table_name table = references[k].table;
        for (uint32_t i = 0; i < c->tables[table].count; i++) {
            const uint8_t *at = row(c, table, i);
            uint64_t place = (uint64_t)(at - c->data);
            for (int j = 0; j < references[k].string_count; j++)
                if (!is_string(c, u32(at + 4 * references[k].strings[j])))
                    return fail(to, place, "a string outside of the strings");
            for (int j = 0; j < references[k].list_count; j++) {
                range list = range_at(at, references[k].lists[j].word);
                enum table_name of = references[k].lists[j].of;
                uint32_t room = c->tables[of].count;
                if (list.first > room || list.count > room - list.first)
                    return fail(to, place, "a list outside of its table");
                listed[of] += list.count;
                if (listed[of] > room)
                    return fail(to, place, "a list with records of another list");
            }
            for (int j = 0; j < references[k].blob_count; j++) {
                uint32_t blob = u32(at + 4 * references[k].blobs[j]);
                if (blob >= c->tables[BLOBS].count && (blob != NO_BLOB || table != PAYLOADS))
                    return fail(to, place, "blob %u of %u", blob, c->tables[BLOBS].count);
            }
        }
    }
    return 1;
}

static uint32_t bytes_of(uint32_t type)
{
    static const uint8_t sizes[TYPES] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 1, 1};
    return sizes[type];
}

static int check_kernels(const container *c, complaint *to)
{
    for (uint32_t i = 0; i < c->tables[KERNELS].count; i++) {
        kernel_row kernel = container_kernel(c, i);
        uint64_t end = 0, place = (uint64_t)(row(c, KERNELS, i) - c->data);
        for (uint32_t j = 0; j < kernel.slots.count; j++) {
            slot_row slot = container_slot(c, kernel.slots.first + j);
            if (slot.type >= TYPES || slot.ndim < -1 || slot.ndim > MOST_AXES ||
                slot.parameter >= kernel.parameters.count || slot.offset < end)
                return fail(to, place, "slot %u of kernel %u", j, i);
            for (uint32_t k = 0; k < slot.path.count; k++)
                if (!is_string(c, container_word(c, slot.path.first + k)))
                    return fail(to, place, "slot %u of kernel %u", j, i);
            end = slot.offset + (slot.ndim < 0 ? bytes_of(slot.type) : 8 + 16 * (uint64_t)slot.ndim);
        }
        if (end > kernel.args_size || kernel.args_size % 16 != 0 || kernel.args_size - end > 16)
            return fail(to, place, "the argument block of kernel %u", i);
    }
    for (uint32_t i = 0; i < c->tables[SITES].count; i++) {
        site_row site = container_site(c, i);
        for (uint32_t j = 0; j < site.types.count; j++)
            if (container_word(c, site.types.first + j) >= TYPES)
                return fail(to, (uint64_t)(row(c, SITES, i) - c->data), "an element type of a site");
    }
    return 1;
}

int container_check(container *c, const uint8_t *data, uint64_t size, int *newer, char *message,
                    size_t message_size)
{
    complaint to = {message, message_size};
    uint64_t end = 0;
    memset(c, 0, sizeof *c);
    c->data = data;
    c->size = size;
    *newer = 0;
    return check_header(c, &end, newer, &to) && check_blobs(c, end, &to) && check_references(c, &to) &&
           check_kernels(c, &to);
}

kernel_row container_kernel(const container *c, uint32_t index)
{
    const uint8_t *at = row(c, KERNELS, index);
    kernel_row made;
    memcpy(&made, at, 40);
    made.parameters = range_at(at, 10);
    made.slots = range_at(at, 12);
    made.payloads = range_at(at, 14);
    made.points = range_at(at, 16);
    return made;
}

slot_row container_slot(const container *c, uint32_t index)
{
    slot_row made;
    memcpy(&made, row(c, SLOTS, index), sizeof made);
    return made;
}

payload_row container_payload(const container *c, uint32_t index)
{
    const uint8_t *at = row(c, PAYLOADS, index);
    payload_row made;
    memcpy(&made, at, 40);
    made.aligned = u64(at + 40);
    made.shared_bytes = u64(at + 48);
    made.item_bytes = u64(at + 56);
    made.subgroup_size = u32(at + 80);
    made.sites = range_at(at, 24);
    made.variants = range_at(at, 28);
    return made;
}

site_row container_site(const container *c, uint32_t index)
{
    site_row made;
    memcpy(&made, row(c, SITES, index), sizeof made);
    return made;
}

uint32_t container_word(const container *c, uint32_t index)
{
    return u32(row(c, WORDS, index));
}

const char *container_parameter(const container *c, uint32_t index)
{
    return container_string(c, u32(row(c, PARAMETERS, index)));
}

const char *container_parameter_type(const container *c, uint32_t index)
{
    return container_string(c, u32(row(c, PARAMETERS, index) + 4));
}

const char *container_string(const container *c, uint32_t at)
{
    return (const char *)c->data + c->tables[STRINGS].offset + at + 4;
}

const uint8_t *container_blob(const container *c, uint32_t index, uint64_t *size)
{
    const uint8_t *at;
    *size = 0;
    if (index == NO_BLOB)
        return NULL;
    at = row(c, BLOBS, index);
    *size = u64(at + 8);
    return c->data + u64(at);
}
