// The SIMT mode: a fibre for each thread of a block, blocks in any order, and a check of every
// access to global and shared memory, which the compiler hands over as it does to a race detector.
#include "simt.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "state.h"

dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace hetir_shim {

Simt simt;

namespace {

constexpr size_t thread_stack = 64 * 1024;
constexpr size_t most_fibres = 16384;
constexpr uint64_t patience = 2048;

void enter(Block &block, Thread &thread) {
    simt.block = &block;
    simt.thread = &thread;
    const uint32_t i = thread.index;
    threadIdx = dim3(i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y));
    const int64_t b = block.index;
    blockIdx = dim3(uint32_t(b % job.grid[0]), uint32_t(b / job.grid[0] % job.grid[1]),
                    uint32_t(b / (job.grid[0] * job.grid[1])));
    thread.fibre->resume();
    simt.thread = nullptr;
}

// Shared arrays are static memory of the library: only one block's contents are in place.
void swap_in(Block &block) {
    if (simt.placed == &block) return;
    if (simt.placed) memcpy(simt.placed->shared.data(), simt.shared, simt.shared_bytes);
    memcpy(simt.shared, block.shared.data(), simt.shared_bytes);
    simt.placed = &block;
}

std::unique_ptr<Block> make_block(int64_t index, void *entry) {
    auto block = std::make_unique<Block>();
    block->index = index;
    block->shared.resize(simt.shared_bytes);
    uint64_t state = job.seed * 131 + uint64_t(index);
    for (uint8_t &byte : block->shared) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        byte = uint8_t(state >> 56);
    }
    block->words.resize(simt.shared_bytes);
    block->threads.resize(simt.threads);
    for (uint32_t i = 0; i < simt.threads; ++i) {
        Thread &thread = block->threads[i];
        thread.index = i;
        thread.id = uint64_t(index) * simt.threads + i;
        thread.fibre = std::make_unique<Fibre>([entry] { call_entry(entry); }, thread_stack);
    }
    return block;
}

std::vector<uint32_t> thread_order(const Block &block) {
    std::vector<uint32_t> order;
    for (const Thread &thread : block.threads)
        if (thread.state == ThreadState::ready) order.push_back(thread.index);
    if (job.order == Order::newest) std::reverse(order.begin(), order.end());
    if (job.order == Order::random)
        for (size_t i = order.size(); i > 1; --i)
            std::swap(order[i - 1], order[random_number() % i]);
    return order;
}

bool all_at_barrier(const Block &block) {
    for (const Thread &thread : block.threads)
        if (thread.state != ThreadState::barrier) return false;
    return true;
}

void open_barrier(Block &block) {
    const int line = block.threads[0].line;
    for (const Thread &thread : block.threads)
        if (thread.line != line)
            refuse("barrier", thread.line, "thread %u waits at the barrier of line %d, thread 0 at "
                   "that of line %d: divergent barriers", thread.index, thread.line, line);
    Knowledge all;
    for (Thread &thread : block.threads) all.merge(thread.knows);
    ++block.epoch;
    for (Thread &thread : block.threads) {
        thread.state = ThreadState::ready;
        if (!all.empty()) thread.knows = all;
    }
    ++barriers_run;
}

// Lanes that wait at one place are active together once no other lane of the warp can still come.
bool open_warp(Block &block, uint32_t first) {
    const uint32_t last = std::min(first + 32, simt.threads);
    int line = 0;
    for (uint32_t i = first; i < last; ++i) {
        const Thread &thread = block.threads[i];
        if (thread.state == ThreadState::ready) return false;
        if (thread.state == ThreadState::warp && (line == 0 || thread.line < line))
            line = thread.line;
    }
    if (line == 0) return false;
    std::vector<Thread *> lanes;
    for (uint32_t i = first; i < last; ++i)
        if (block.threads[i].state == ThreadState::warp && block.threads[i].line == line)
            lanes.push_back(&block.threads[i]);
    exchange(lanes);
    for (Thread *lane : lanes) lane->state = ThreadState::ready;
    return true;
}

[[noreturn]] void stuck(const Block &block) {
    const Thread *waits = nullptr, *other = nullptr;
    for (const Thread &thread : block.threads) {
        if (thread.state == ThreadState::barrier && !waits) waits = &thread;
        if (thread.state != ThreadState::barrier && !other) other = &thread;
    }
    if (waits && other)
        refuse("barrier", waits->line, "thread %u of block %lld waits at a barrier that thread %u "
               "never reaches: a divergent barrier", waits->index,
               static_cast<long long>(block.index), other->index);
    refuse("deadlock", 0, "no thread of block %lld can go on", static_cast<long long>(block.index));
}

// Runs a block until it ends (true), or until its threads only spin (false).
bool run_block(Block &block) {
    swap_in(block);
    for (;;) {
        bool progress = false, ready = false;
        for (uint32_t i : thread_order(block)) {
            Thread &thread = block.threads[i];
            ready = true;
            enter(block, thread);
            if (thread.fibre->ended()) {
                thread.state = ThreadState::ended;
                thread.fibre.reset();
                ++block.ended;
            }
            progress |= thread.state != ThreadState::ready;
        }
        if (block.ended == simt.threads) return true;
        if (all_at_barrier(block)) {
            open_barrier(block);
            continue;
        }
        bool opened = false;
        for (uint32_t first = 0; first < simt.threads; first += 32)
            opened |= open_warp(block, first);
        if (opened || progress) continue;
        if (!ready) stuck(block);
        return false;
    }
}

}  // namespace

void simt_yield() { simt.thread->fibre->yield(); }

void run_simt(void *entry, uint8_t *shared, uint64_t shared_bytes) {
    blockDim = dim3(job.threads[0], job.threads[1], job.threads[2]);
    gridDim = dim3(uint32_t(job.grid[0]), uint32_t(job.grid[1]), uint32_t(job.grid[2]));
    simt.threads = job.threads[0] * job.threads[1] * job.threads[2];
    simt.shared = shared;
    simt.shared_bytes = shared_bytes;
    if (simt.threads == 0 || simt.threads > job.bounds)
        refuse("cores", 0, "%u threads a block, but __launch_bounds__ says %u", simt.threads,
               job.bounds);
    if (shared_bytes > job.limit)
        refuse("budget", 0, "%llu bytes of __ubuf__ arrays: a block has %u",
               static_cast<unsigned long long>(shared_bytes), job.limit);
    const int64_t blocks = job.grid[0] * job.grid[1] * job.grid[2];
    if (blocks > 65535)
        refuse("cores", 0, "%lld blocks: 65535 at most", static_cast<long long>(blocks));
    const size_t resident = std::max<size_t>(1, std::min<size_t>(size_t(job.cores),
                                                                 most_fibres / simt.threads));
    std::vector<std::unique_ptr<Block>> live;
    int64_t next = 0;
    bool spins = true;
    while (next < blocks || !live.empty()) {
        // another block starts when there is none, or when those that there are wait for it
        if (next < blocks && live.size() < resident && (live.empty() || spins)) {
            const bool backwards = job.order == Order::newest;
            live.insert(live.begin(), make_block(backwards ? blocks - 1 - next : next, entry));
            ++next;
        }
        const size_t at = job.order == Order::random ? random_number() % live.size() : 0;
        spins = !run_block(*live[at]);
        if (spins) live.push_back(std::move(live[at]));
        else simt.placed = nullptr;
        live.erase(live.begin() + long(at));
    }
}

void simt_barrier(int line) {
    current->last_line = line;
    if (job.disabled.count(line)) return;
    simt.thread->line = line;
    simt.thread->state = ThreadState::barrier;
    simt_yield();
}

void simt_fence(bool device, int line) {
    current->last_line = line;
    static_cast<void>(device);
    if (job.disabled.count(line)) return;
    Thread &thread = *simt.thread;
    ++cleans_run;
    thread.knows.merge(thread.seen);
    thread.seen = {};
    thread.told = thread.knows;
    thread.told.threads[thread.id] = thread.clock;
    thread.told.epochs[simt.block->index] = simt.block->epoch;
    ++thread.clock;
    thread.tells = true;
}

uint64_t simt_warp(Warp operation, Type type, uint64_t value, int32_t lane, int32_t width,
                   int line) {
    current->last_line = line;
    if (width <= 0 || width > 32 || (width & (width - 1)) != 0)
        refuse("count", line, "a width of %d: it must be a power of two up to 32", width);
    Thread &thread = *simt.thread;
    thread.warp = {operation, type, value, lane, width, 0};
    thread.line = line;
    thread.state = ThreadState::warp;
    simt_yield();
    return thread.warp.result;
}

uint32_t simt_lane() { return simt.thread->index % 32; }

float simt_inexact(double value, uint64_t operands, int ulps) {
    const auto nearest = float(value);
    if (!std::isfinite(nearest) || nearest == 0) return nearest;
    uint64_t mixed = (operands + job.seed) * 0x9e3779b97f4a7c15ull;
    mixed ^= mixed >> 29;
    mixed *= 0xbf58476d1ce4e5b9ull;
    mixed ^= mixed >> 32;
    const int off = int(mixed % uint64_t(2 * ulps + 1)) - ulps;
    float moved = nearest;
    for (int i = 0; i < std::abs(off); ++i)
        moved = std::nextafter(moved, off > 0 ? INFINITY : -INFINITY);
    return moved;
}

// Called for each access to memory: now and then another thread gets its turn.
void simt_tick() {
    Thread &thread = *simt.thread;
    ++thread.ticks;
    const uint64_t turn = job.order == Order::random  ? 1 + random_number() % 256
                          : job.order == Order::eager ? 16
                                                      : patience;
    if (thread.ticks < turn) return;
    thread.ticks = 0;
    simt_yield();
}

}  // namespace hetir_shim
