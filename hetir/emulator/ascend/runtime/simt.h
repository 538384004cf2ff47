// The state of a SIMT run: blocks, threads, and who knows of whose accesses.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "fibre.h"
#include "hetir_shim/simt.h"

namespace hetir_shim {

constexpr uint64_t line_flag = 1ull << 63;  // a place is a line, or an address in the code

// What has happened before: of other threads up to a clock, of blocks up to an epoch (a count of
// its barriers).
struct Knowledge {
    std::map<uint64_t, uint32_t> threads;
    std::map<int64_t, uint32_t> epochs;
    bool empty() const { return threads.empty() && epochs.empty(); }
    void merge(const Knowledge &other) {
        for (const auto &entry : other.threads) {
            uint32_t &mine = threads[entry.first];
            if (entry.second > mine) mine = entry.second;
        }
        for (const auto &entry : other.epochs) {
            uint32_t &mine = epochs[entry.first];
            if (entry.second > mine) mine = entry.second;
        }
    }
};

enum class ThreadState { ready, barrier, warp, ended };

struct WarpCall {
    Warp operation;
    Type type;
    uint64_t value;
    int32_t lane, width;
    uint64_t result;
};

// `knows` is ordered before the thread, `seen` will be with its next fence, `told` was at its last.
struct Thread {
    uint32_t index = 0;
    uint64_t id = 0;
    std::unique_ptr<Fibre> fibre;
    ThreadState state = ThreadState::ready;
    int line = 0;
    uint64_t ticks = 0;
    WarpCall warp{};
    uint32_t clock = 1;
    bool tells = false;
    Knowledge knows, seen, told;
};

struct Access {
    uint64_t thread = UINT64_MAX;
    int64_t block = -1;
    uint32_t clock = 0, epoch = 0;
    uint64_t place = 0;
    bool atomic = false, any = false;
};

struct Granule {
    Access write, first_read, last_read;
};

struct Block {
    int64_t index = 0;
    uint32_t epoch = 1, ended = 0;
    std::vector<Thread> threads;
    std::vector<uint8_t> shared;
    std::vector<Granule> words;
};

struct Simt {
    uint32_t threads = 0;
    uint8_t *shared = nullptr;
    uint64_t shared_bytes = 0;
    Block *block = nullptr, *placed = nullptr;
    Thread *thread = nullptr;
    uint64_t library = 0, other_place = 0;
    std::unordered_map<uint64_t, Granule> global;
    std::unordered_map<uint64_t, Knowledge> published;
};
extern Simt simt;

void simt_yield();
void simt_tick();
void call_entry(void *entry);
void exchange(const std::vector<Thread *> &lanes);
[[noreturn]] void refuse_at(const char *kind, uint64_t place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void check_access(uint64_t address, uint32_t bytes, bool writes, bool atomic, uint64_t place);

}  // namespace hetir_shim
