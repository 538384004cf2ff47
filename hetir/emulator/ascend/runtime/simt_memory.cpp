// Accesses of SIMT threads: bounds, races, atomic operations, and what lanes of a warp exchange.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "simt.h"
#include "state.h"

namespace hetir_shim {
namespace {

bool before(const Access &access) {
    const Thread &thread = *simt.thread;
    if (!access.any || access.thread == thread.id) return true;
    if (access.block == simt.block->index && access.epoch < simt.block->epoch) return true;
    const auto told = thread.knows.threads.find(access.thread);
    if (told != thread.knows.threads.end() && access.clock <= told->second) return true;
    const auto epoch = thread.knows.epochs.find(access.block);
    return epoch != thread.knows.epochs.end() && access.epoch < epoch->second;
}

void conflict(const Access &other, bool other_writes, bool writes, bool shared, uint64_t place) {
    simt.other_place = other.place;
    refuse_at("hazard", place, "thread %u of block %lld %s %s memory that thread %llu of block "
              "%lld %s, and no barrier or fence orders them", simt.thread->index,
              (long long)simt.block->index, writes ? "writes" : "reads",
              shared ? "shared" : "global",
              (unsigned long long)(other.thread % simt.threads), (long long)other.block,
              other_writes ? "writes" : "reads");
}

void touch(Granule &granule, bool writes, bool atomic, bool shared, uint64_t place) {
    if (job.hazards) {
        if (shared && !writes && !granule.write.any)
            refuse_at("uninitialised", place, "thread %u reads shared memory that nobody has "
                      "written", simt.thread->index);
        const bool both = atomic && granule.write.atomic;
        if (!both && !before(granule.write))
            conflict(granule.write, true, writes, shared, place);
        if (writes)
            for (const Access *read : {&granule.first_read, &granule.last_read})
                if (!(atomic && read->atomic) && !before(*read))
                    conflict(*read, false, true, shared, place);
    }
    const Access now{simt.thread->id, simt.block->index, simt.thread->clock, simt.block->epoch,
                     place, atomic, true};
    if (writes) {
        granule.write = now;
        granule.first_read = granule.last_read = {};
        return;
    }
    if (!granule.first_read.any || granule.first_read.thread == now.thread)
        granule.first_read = now;
    else granule.last_read = now;
}

double number(Type type, uint64_t bits) {
    switch (type) {
        case Type::f32: return of_bits<float>(bits);
        case Type::f16: return float(of_bits<half>(bits));
        case Type::bf16: return float(of_bits<bfloat16_t>(bits));
        default: return 0;
    }
}

uint64_t bits_of(Type type, double value) {
    switch (type) {
        case Type::f16: return to_bits(half(value));
        case Type::bf16: return to_bits(bfloat16_t(float(value)));
        default: return to_bits(float(value));
    }
}

bool floating(Type type) { return type == Type::f32 || type == Type::f16 || type == Type::bf16; }

int64_t widened(Type type, uint64_t bits) {
    return type == Type::i32 ? int64_t(int32_t(bits)) : int64_t(bits);
}

bool less(Type type, uint64_t a, uint64_t b) {
    if (floating(type)) return number(type, a) < number(type, b);
    if (type == Type::i32 || type == Type::i64) return widened(type, a) < widened(type, b);
    return a < b;
}

uint64_t sum(Type type, uint64_t a, uint64_t b) {
    if (type == Type::f32) return to_bits(of_bits<float>(a) + of_bits<float>(b));
    if (floating(type)) return bits_of(type, number(type, a) + number(type, b));
    return a + b;
}

uint64_t updated(Atomic operation, Type type, uint64_t old, uint64_t value, uint64_t compare) {
    switch (operation) {
        case Atomic::add: return sum(type, old, value);
        case Atomic::sub:
            return floating(type) ? to_bits(of_bits<float>(old) - of_bits<float>(value))
                                  : old - value;
        case Atomic::exchange: return value;
        case Atomic::max: return less(type, old, value) ? value : old;
        case Atomic::min: return less(type, value, old) ? value : old;
        case Atomic::inc: return old >= value ? 0 : old + 1;
        case Atomic::dec: return old == 0 || old > value ? value : old - 1;
        case Atomic::cas:
            if (type == Type::f32 ? of_bits<float>(old) == of_bits<float>(compare) : old == compare)
                return value;
            return old;
        case Atomic::bit_and: return old & value;
        case Atomic::bit_or: return old | value;
        default: return old ^ value;
    }
}

bool in_shared(uint64_t address) {
    const auto shared = reinterpret_cast<uint64_t>(simt.shared);
    return address >= shared && address < shared + simt.shared_bytes;
}

// An atomic access sees what was published there, and publishes what the thread last fenced.
void order_atomic(uint64_t address, bool reads, bool writes) {
    Thread &thread = *simt.thread;
    const auto found = simt.published.find(address);
    if (reads && found != simt.published.end()) thread.seen.merge(found->second);
    if (!writes) return;
    if (!reads && found != simt.published.end()) found->second = {};
    if (thread.tells) simt.published[address].merge(thread.told);
}

}  // namespace

void check_access(uint64_t address, uint32_t bytes, bool writes, bool atomic, uint64_t place) {
    if (simt.thread == nullptr) return;
    if (in_shared(address)) {
        const uint64_t at = address - reinterpret_cast<uint64_t>(simt.shared);
        for (uint32_t i = 0; i < bytes && at + i < simt.shared_bytes; ++i)
            touch(simt.block->words[at + i], writes, atomic, true, place);
        simt_tick();
        return;
    }
    if (address >= global_end || address < global_begin) return;
    const Region *region = region_of(address);
    if (region == nullptr || address + bytes > region->end) {
        const Region *nearest = region;
        for (const Region &each : job.regions)
            if (each.end <= address && (!nearest || each.end > nearest->end)) nearest = &each;
        const char *name = nearest ? nearest->name.c_str() : "every array";
        const int64_t past = nearest ? int64_t(address + bytes - nearest->end) : 0;
        refuse_at("bounds", place, "thread %u %s %u bytes that end %lld bytes past the end of %s",
                  simt.thread->index, writes ? "writes" : "reads", bytes, (long long)past, name);
    }
    if (writes && !region->writable)
        refuse_at("bounds", place, "thread %u writes %s, which is read-only", simt.thread->index,
                  region->name.c_str());
    const uint64_t item = std::max<uint32_t>(1, std::min<uint32_t>(region->item, bytes));
    for (uint64_t i = (address - region->begin) / item;
         i <= (address + bytes - 1 - region->begin) / item; ++i)
        touch(simt.global[region->begin + i * item], writes, atomic, false, place);
    simt_tick();
}

uint64_t simt_atomic(Atomic operation, void *address, Type type, uint64_t value, uint64_t compare,
                     int line) {
    current->last_line = line;
    const auto at = reinterpret_cast<uint64_t>(address);
    const uint32_t bytes = size_of(type);
    if (bytes == 8 && in_shared(at))
        refuse("atomic", line, "64-bit atomic operations work on global memory alone");
    if (at % bytes != 0) refuse("alignment", line, "an atomic operation across its own size");
    check_access(at, bytes, true, true, uint64_t(line) | line_flag);
    uint64_t old = 0;
    memcpy(&old, address, bytes);
    const uint64_t fresh = updated(operation, type, old, value, compare);
    memcpy(address, &fresh, bytes);
    order_atomic(at, true, true);
    const bool small = type == Type::f16 || type == Type::bf16;
    return small ? random_number() & 0xffff : old;  // the reference says not to use these
}

uint64_t simt_load(const void *address, uint32_t bytes, int line) {
    current->last_line = line;
    const auto at = reinterpret_cast<uint64_t>(address);
    check_access(at, bytes, false, true, uint64_t(line) | line_flag);
    order_atomic(at, true, false);
    uint64_t bits = 0;
    memcpy(&bits, address, bytes);
    return bits;
}

void simt_store(void *address, uint32_t bytes, uint64_t bits, int line) {
    current->last_line = line;
    const auto at = reinterpret_cast<uint64_t>(address);
    check_access(at, bytes, true, true, uint64_t(line) | line_flag);
    order_atomic(at, false, true);
    memcpy(address, &bits, bytes);
}

// The lanes are those of one warp that wait at one place; the others are not active.
void exchange(const std::vector<Thread *> &lanes) {
    Thread *by_lane[32] = {};
    for (Thread *lane : lanes) by_lane[lane->index % 32] = lane;
    uint32_t votes = 0, active = 0;
    std::vector<uint64_t> values;
    for (uint32_t i = 0; i < 32; ++i) {
        if (!by_lane[i]) continue;
        active |= 1u << i;
        votes |= uint32_t(by_lane[i]->warp.value != 0) << i;
        values.push_back(by_lane[i]->warp.value);
    }
    Knowledge told;
    for (Thread *lane : lanes)
        if (lane->tells) told.merge(lane->told);
    const auto reduce = [&](Warp operation, Type type) {
        std::vector<uint64_t> rest = values;
        while (rest.size() > 1) {
            size_t kept = 0;
            for (size_t i = 0; i < rest.size(); i += 2) {
                const uint64_t a = rest[i], b = i + 1 < rest.size() ? rest[i + 1] : rest[i];
                const bool first = operation == Warp::max ? !less(type, a, b) : !less(type, b, a);
                rest[kept++] = i + 1 == rest.size()       ? a
                               : operation == Warp::sum ? sum(type, a, b)
                               : first                  ? a
                                                        : b;
            }
            rest.resize(kept);
        }
        return rest[0];
    };
    for (Thread *thread : lanes) {
        WarpCall &call = thread->warp;
        const int lane = int(thread->index % 32), group = lane / call.width * call.width;
        int from = lane;
        switch (call.operation) {
            case Warp::shuffle: {
                const int inside = call.lane % call.width;
                from = group + (inside < 0 ? inside + call.width : inside);
                break;
            }
            case Warp::up: from = lane - call.lane < group ? lane : lane - call.lane; break;
            case Warp::down:
                from = lane + call.lane >= group + call.width ? lane : lane + call.lane;
                break;
            case Warp::exclusive:
                from = lane ^ call.lane;
                if (from >= group + call.width || from < 0) from = lane;
                break;
            case Warp::all: call.result = votes == active; continue;
            case Warp::any: call.result = votes != 0; continue;
            case Warp::ballot: call.result = votes; continue;
            case Warp::active: call.result = active; continue;
            default: call.result = reduce(call.operation, call.type); continue;
        }
        call.result = by_lane[from] ? by_lane[from]->warp.value : random_number();
    }
    for (Thread *lane : lanes) lane->seen.merge(told);
}

}  // namespace hetir_shim

// The calls that the compiler makes for each access when it is asked to find races.
extern "C" {

#define HETIR_SHIM_PLACE (reinterpret_cast<uint64_t>(__builtin_return_address(0)))
#define HETIR_SHIM_ACCESS(bytes)                                                                \
    void __tsan_read##bytes(void *address);                                                     \
    void __tsan_write##bytes(void *address);                                                    \
    void __tsan_unaligned_read##bytes(void *address);                                           \
    void __tsan_unaligned_write##bytes(void *address);                                          \
    void __tsan_volatile_read##bytes(void *address);                                            \
    void __tsan_volatile_write##bytes(void *address);                                           \
    void __tsan_read##bytes(void *address) {                                                    \
        hetir_shim::check_access(uint64_t(address), bytes, false, false, HETIR_SHIM_PLACE);     \
    }                                                                                           \
    void __tsan_write##bytes(void *address) {                                                   \
        hetir_shim::check_access(uint64_t(address), bytes, true, false, HETIR_SHIM_PLACE);      \
    }                                                                                           \
    void __tsan_unaligned_read##bytes(void *address) {                                          \
        hetir_shim::check_access(uint64_t(address), bytes, false, false, HETIR_SHIM_PLACE);     \
    }                                                                                           \
    void __tsan_unaligned_write##bytes(void *address) {                                         \
        hetir_shim::check_access(uint64_t(address), bytes, true, false, HETIR_SHIM_PLACE);      \
    }                                                                                           \
    void __tsan_volatile_read##bytes(void *address) {                                           \
        hetir_shim::check_access(uint64_t(address), bytes, false, true, HETIR_SHIM_PLACE);      \
    }                                                                                           \
    void __tsan_volatile_write##bytes(void *address) {                                          \
        hetir_shim::check_access(uint64_t(address), bytes, true, true, HETIR_SHIM_PLACE);       \
    }
HETIR_SHIM_ACCESS(1)
HETIR_SHIM_ACCESS(2)
HETIR_SHIM_ACCESS(4)
HETIR_SHIM_ACCESS(8)
HETIR_SHIM_ACCESS(16)

void __tsan_init();
void __tsan_func_entry(void *);
void __tsan_func_exit();
void __tsan_read_range(void *address, unsigned long bytes);
void __tsan_write_range(void *address, unsigned long bytes);
void *__tsan_memcpy(void *to, const void *from, unsigned long bytes);
void *__tsan_memmove(void *to, const void *from, unsigned long bytes);
void *__tsan_memset(void *to, int value, unsigned long bytes);
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_read_range(void *address, unsigned long bytes) {
    hetir_shim::check_access(uint64_t(address), uint32_t(bytes), false, false, HETIR_SHIM_PLACE);
}
void __tsan_write_range(void *address, unsigned long bytes) {
    hetir_shim::check_access(uint64_t(address), uint32_t(bytes), true, false, HETIR_SHIM_PLACE);
}
void *__tsan_memcpy(void *to, const void *from, unsigned long bytes) {
    hetir_shim::check_access(uint64_t(from), uint32_t(bytes), false, false, HETIR_SHIM_PLACE);
    hetir_shim::check_access(uint64_t(to), uint32_t(bytes), true, false, HETIR_SHIM_PLACE);
    return memmove(to, from, bytes);
}
void *__tsan_memmove(void *to, const void *from, unsigned long bytes) {
    return __tsan_memcpy(to, from, bytes);
}
void *__tsan_memset(void *to, int value, unsigned long bytes) {
    hetir_shim::check_access(uint64_t(to), uint32_t(bytes), true, false, HETIR_SHIM_PLACE);
    return memset(to, value, bytes);
}

}
