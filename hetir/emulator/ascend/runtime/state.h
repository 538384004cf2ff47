// The state of a run: the job, the regions of global memory, the cores and their pipes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "fibre.h"
#include "hetir_shim/engine.h"

namespace hetir_shim {

constexpr uint64_t global_begin = 0x100000000000, global_end = 0x300000000000;
constexpr uint32_t local_bytes = 256 * 1024;
constexpr uint32_t block_bytes = 32, line_bytes = 64;

enum class Order { program, newest, oldest, eager, random };

struct Region {
    uint64_t begin, end;
    uint32_t item;
    bool writable;
    std::string name;
};

struct Map {
    uint64_t address, bytes, offset;
    std::string file;
};

struct Job {
    std::string library, entry, report;
    int arch = 2201, blocks = 1, cores = 48;
    Order order = Order::newest;
    uint64_t seed = 1;
    bool hazards = true, simt = false;
    uint32_t limit = 0, reserve = 0, bounds = 1024, threads[3] = {1, 1, 1};
    int64_t grid[3] = {1, 1, 1};
    std::unordered_set<int> disabled;
    std::vector<Region> regions;
    std::vector<uint64_t> arguments;
    std::vector<Map> maps;
};
extern Job job;

using Clock = std::array<uint32_t, pipe_count>;

// One word of memory: which pipe wrote it last and which have read it since (a bit each), and at
// which positions of theirs.
struct Word {
    uint8_t writer, readers;
    uint32_t write;
    std::array<uint32_t, pipe_count> reads;
};

enum class Kind { instruction, set, wait, barrier, cross };

struct Pending {
    Kind kind;
    int line;
    uint64_t serial;
    int flag = -1;
    std::function<void()> run;
};

struct Flag {
    bool up = false;
    int balance = 0;
    int set_line = 0, wait_line = 0;
    std::deque<Clock> clocks;
    uint32_t wait_at = 0;
    Pipe waiter = Pipe::S;
};

struct Line {
    std::array<uint8_t, line_bytes> data;
    uint64_t dirty = 0;
    int line = 0;
};

enum class BufferState { idle, filling, queued, emptying };

struct QueueBuffer {
    uint32_t address, bytes, generation = 0;
    BufferState state = BufferState::idle;
    int event = -1, line = 0;
    struct Queue *owner = nullptr;
    int index = 0;
};

struct Queue {
    Pipe fills, empties;
    int depth;
    std::vector<int> buffers;
    std::deque<int> queued;
    std::deque<int> idle;
};

struct Core {
    int index = 0;
    std::unique_ptr<Fibre> fibre;
    std::vector<uint8_t> local;
    std::unique_ptr<Word, void (*)(void *)> words{nullptr, free};  // zero pages until used
    std::unordered_map<uint64_t, std::unique_ptr<std::array<Word, 1024>>> global_words;
    std::array<std::deque<Pending>, pipe_count> pipes;
    std::array<Clock, pipe_count> known{};
    Clock position{};
    std::array<std::vector<int>, pipe_count> lines;
    std::map<int, Flag> flags;
    std::unordered_map<uint64_t, Line> cache;
    std::vector<QueueBuffer> buffers;
    std::vector<std::unique_ptr<Queue>> queues;
    std::map<int, uint8_t> events;
    bool pipe_open = false;
    uint32_t used = 0, most_used = 0;
    int atomic = 0;
    bool saturates = false;
    Type atomic_type = Type::other;
    std::array<int, 16> cross{};
    int last_line = 0;
    bool waiting = false;
    uint64_t arrived = 0;
};
extern std::vector<std::unique_ptr<Core>> cores;
extern Core *current;

extern uint64_t instructions_run[pipe_count], flags_set, barriers_run, syncs_run, cleans_run;

const char *pipe_name(Pipe pipe);
uint64_t random_number();
[[noreturn]] void finish(int status);

// pipes.cpp
struct Range {
    uint64_t address, bytes;
};
struct Accesses {
    std::vector<Range> local_reads, local_writes, global_reads, global_writes;
};
void submit(Pipe pipe, int line, const Accesses &accesses, std::function<void()> run);
void touch_local(Pipe pipe, const Range &range, bool writes, int line);
void touch_global(Pipe pipe, const Range &range, bool writes, int line);
uint32_t advance(Pipe pipe, int line);
void raise_flag(Pipe from, Pipe to, int event, int line);
void lower_flag(Pipe from, Pipe to, int event, int line);
void drain(int line);
void yield_core();

// memory.cpp
const Region *region_of(uint64_t address);
void check_global(uint64_t address, uint64_t bytes, uint64_t limit, bool writes, int line,
                  const char *name);
void check_cache_clean();
uint32_t size_of(Type type);
void check_view(const View &view, uint64_t bytes, const char *name, const char *operand, int line,
                uint32_t alignment = block_bytes);

// compute.cpp
void compute(const Instruction &instruction);
double widen(Type type, const uint8_t *at);
void accumulate(int operation, Type type, uint8_t *to, const uint8_t *from, uint64_t bytes);

// simt.cpp
void run_simt(void *entry, uint8_t *shared, uint64_t shared_bytes);

}  // namespace hetir_shim
