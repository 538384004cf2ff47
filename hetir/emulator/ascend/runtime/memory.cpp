// Global memory: what may be touched, and each core's scalar cache before it.
#include <cstdio>

#include "state.h"

namespace hetir_shim {

uint32_t size_of(Type type) {
    switch (type) {
        case Type::i8: case Type::u8: return 1;
        case Type::i16: case Type::u16: case Type::f16: case Type::bf16: return 2;
        case Type::i32: case Type::u32: case Type::f32: return 4;
        case Type::i64: case Type::u64: case Type::f64: return 8;
        default: return 1;
    }
}

const char *type_name(Type type) {
    static const char *names[] = {"int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t",
                                  "uint32_t", "int64_t", "uint64_t", "half", "bfloat16_t",
                                  "float", "double", "another type"};
    return names[int(type)];
}

const Region *region_of(uint64_t address) {
    for (const Region &region : job.regions)
        if (address >= region.begin && address < region.end) return &region;
    return nullptr;
}

void check_global(uint64_t address, uint64_t bytes, uint64_t limit, bool writes, int line,
                  const char *name) {
    if (bytes == 0) return;
    const Region *region = region_of(address);
    if (region == nullptr) {
        const Region *nearest = nullptr;
        for (const Region &each : job.regions)
            if (each.end <= address && (!nearest || each.end > nearest->end)) nearest = &each;
        if (nearest && address - nearest->end < (1u << 30))
            refuse("bounds", line, "%s starts %llu bytes past the end of %s", name,
                   static_cast<unsigned long long>(address - nearest->end), nearest->name.c_str());
        refuse("bounds", line, "%s touches no array (address 0x%llx)", name,
               static_cast<unsigned long long>(address));
    }
    if (address + bytes > region->end)
        refuse("bounds", line, "%s ends %llu bytes past the end of %s", name,
               static_cast<unsigned long long>(address + bytes - region->end),
               region->name.c_str());
    if (limit != 0 && address + bytes > limit)
        refuse("bounds", line, "%s ends %llu bytes past what SetGlobalBuffer was told", name,
               static_cast<unsigned long long>(address + bytes - limit));
    if (writes && !region->writable)
        refuse("bounds", line, "%s writes %s, which is read-only", name, region->name.c_str());
}

void check_view(const View &view, uint64_t bytes, const char *name, const char *operand,
                int line, uint32_t alignment) {
    if (view.address % alignment != 0)
        refuse("alignment", line, "%s of %s starts at byte %u of the Unified Buffer: not a "
               "multiple of %u", operand, name, view.address, alignment);
    if (bytes > view.bytes)
        refuse("bounds", line, "%s touches %llu bytes of %s, whose tensor has %u", name,
               static_cast<unsigned long long>(bytes), operand, view.bytes);
    if (view.buffer >= 0) {
        const QueueBuffer &buffer = current->buffers[size_t(view.buffer)];
        if (buffer.generation != view.generation || buffer.state == BufferState::idle)
            refuse("queue", line, "%s uses %s after FreeTensor", name, operand);
        if (buffer.state == BufferState::queued)
            refuse("queue", line, "%s uses %s between EnQue and DeQue", name, operand);
    }
}

namespace {

Line &cached(uint64_t base) {
    const auto found = current->cache.find(base);
    if (found != current->cache.end()) return found->second;
    Line &line = current->cache[base];
    for (uint32_t i = 0; i < line_bytes; ++i)
        line.data[i] = region_of(base + i) ? *reinterpret_cast<uint8_t *>(base + i) : uint8_t(0);
    return line;
}

// A whole line goes back, also the bytes that this core never wrote.
void write_back(uint64_t base, Line &line) {
    if (line.dirty == 0) return;
    for (uint32_t i = 0; i < line_bytes; ++i) {
        const Region *region = region_of(base + i);
        if (region && region->writable) *reinterpret_cast<uint8_t *>(base + i) = line.data[i];
    }
}

// A cache may give up any line at any time.
void evict_at_random() {
    if (job.order != Order::random || current->cache.empty() || random_number() % 8 != 0) return;
    auto line = current->cache.begin();
    std::advance(line, long(random_number() % current->cache.size()));
    write_back(line->first, line->second);
    current->cache.erase(line);
}

void check_scalar(uint64_t address, uint64_t limit, Type type, bool writes, int line) {
    const uint32_t size = size_of(type);
    check_global(address, size, limit, writes, line, writes ? "SetValue" : "GetValue");
    if (address % size != 0)
        refuse("alignment", line, "%s of %s at an address that is not a multiple of %u",
               writes ? "SetValue" : "GetValue", type_name(type), size);
    current->last_line = line;
    advance(Pipe::S, line);
    touch_global(Pipe::S, {address, size}, writes, line);
    evict_at_random();
}

}  // namespace

uint64_t load_global(uint64_t address, uint64_t limit, Type type, int line) {
    check_scalar(address, limit, type, false, line);
    const uint64_t base = address / line_bytes * line_bytes;
    uint64_t bits = 0;
    memcpy(&bits, cached(base).data.data() + (address - base), size_of(type));
    return bits;
}

void store_global(uint64_t address, uint64_t limit, Type type, uint64_t bits, int line) {
    check_scalar(address, limit, type, true, line);
    const uint64_t base = address / line_bytes * line_bytes;
    Line &entry = cached(base);
    memcpy(entry.data.data() + (address - base), &bits, size_of(type));
    for (uint32_t i = 0; i < size_of(type); ++i) entry.dirty |= 1ull << (address - base + i);
    entry.line = line;
}

void cache_clean(uint64_t address, bool whole, int line) {
    current->last_line = line;
    if (job.disabled.count(line)) return;
    ++cleans_run;
    advance(Pipe::S, line);
    if (whole) {
        for (auto &entry : current->cache) write_back(entry.first, entry.second);
        current->cache.clear();
    } else {
        const auto found = current->cache.find(address / line_bytes * line_bytes);
        if (found != current->cache.end()) {
            write_back(found->first, found->second);
            current->cache.erase(found);
        }
    }
    yield_core();
}

void check_cache_clean() {
    for (const auto &entry : current->cache)
        if (entry.second.dirty)
            refuse("cache", entry.second.line, "this SetValue is still in the scalar cache when "
                   "the kernel ends: no DataCacheCleanAndInvalid writes it back");
}

}  // namespace hetir_shim
