// What the headers ask of the engine, which is compiled once and lives in the runner.
#pragma once

#include "hetir_shim/types.h"

#ifndef __NPU_ARCH__
#error "define __NPU_ARCH__ as 2201, 2002 or 3510"
#endif

namespace hetir_shim {

enum class Pipe : uint8_t { S, V, M, MTE1, MTE2, MTE3, FIX, ALL };
constexpr int pipe_count = 7;

enum class Op : uint8_t {
    add, sub, mul, div, max, min, bit_and, bit_or,
    abs, exp, ln, sqrt, rsqrt, reciprocal, relu, bit_not,
    adds, muls, maxs, mins, shift_left, shift_right, leaky_relu,
    axpy, mul_add_dst, fused_mul_add,
    cast, duplicate, compare, compare_scalar, select, select_scalar, gather, scatter,
    reduce_sum, reduce_max, reduce_min, whole_sum, whole_max, whole_min, block_sum, block_max,
    block_min, pair_sum, create_index, copy, broadcast_block,
    count
};

// A stretch of the Unified Buffer: `bytes` is what the tensor owns from `address` on. `buffer` is
// the queue buffer that it was allocated from, in its `generation`; -1 for none.
struct View {
    uint32_t address = 0, bytes = 0;
    int32_t buffer = -1;
    uint32_t generation = 0;
    Type type = Type::other;
};

// Masks, repeats and strides (in blocks of 32 bytes) of the forms that take them.
struct Repeat {
    bool on = false;
    uint64_t mask[2] = {0, 0};
    uint32_t times = 1;
    uint32_t dst_block = 1, a_block = 1, b_block = 1, dst_repeat = 8, a_repeat = 8, b_repeat = 8;
};

// `kind` is the rounding, comparison or selection mode; `scalar` holds the operand's own bits.
struct Instruction {
    const char* name;
    Op op;
    View dst, a, b, c;
    uint32_t count = 0;
    uint64_t scalar = 0;
    int kind = 0;
    bool saturates = false;  // the engine fills it in
    Repeat repeat;
    int line = 0;
};

struct Copy {
    const char* name;
    View local;
    uint64_t global = 0, global_bytes = 0;
    uint32_t blocks = 1;
    uint64_t block_bytes = 0;
    int64_t global_gap = 0, local_gap = 0;
    uint32_t left = 0, right = 0;
    bool pads = false, ragged = false;
    uint64_t padding = 0;
    bool to_global = false;
    int line = 0;
};

const char* type_name(Type type);
[[noreturn]] void refuse(const char* kind, int line, const char* format, ...)
    __attribute__((format(printf, 3, 4)));
void issue(const Instruction& instruction);
void issue(const Copy& copy);
void copy_local(const View& dst, const View& src, uint32_t blocks, uint32_t block_bytes,
                uint32_t src_gap, uint32_t dst_gap, int line);

void set_flag(Pipe from, Pipe to, int event, int line);
void wait_flag(Pipe from, Pipe to, int event, int line);
void barrier(Pipe pipe, int line);
void sync_all(int line);
void cross_set(int mode, Pipe pipe, int flag, int line);
void cross_wait(int flag, Pipe pipe, int line);
void block_set(int core, int event, int line);
void block_wait(int core, int event, int line);
void cache_clean(uint64_t address, bool whole, int line);
void set_atomic(int operation, Type type, int line);
void set_saturation(bool saturates, int line);

uint64_t load_local(const View& view, int line);
void store_local(const View& view, uint64_t bits, int line);
uint64_t load_global(uint64_t address, uint64_t limit, Type type, int line);
void store_global(uint64_t address, uint64_t limit, Type type, uint64_t bits, int line);

// Buffers of queues and TBufs. `from` and `to` are the pipes of the side that fills and empties.
void pipe_begin(int line);
void pipe_end();
void pipe_reset(int line);
uint32_t pipe_reserve(uint32_t bytes, const char* what, int line);
void* queue_make(Pipe fills, Pipe empties, int depth, const char* name);
void queue_init(void* queue, uint32_t buffers, uint32_t bytes, int line);
View queue_alloc(void* queue, int line);
void queue_enqueue(void* queue, const View& view, int line);
View queue_dequeue(void* queue, int line);
void queue_free(void* queue, const View& view, int line);
bool queue_has_tensor(void* queue);
bool queue_has_buffer(void* queue);
int queue_tensors(void* queue);
int event_alloc(Pipe from, Pipe to, int line);
int event_fetch(Pipe from, Pipe to, int line);
void event_release(Pipe from, Pipe to, int event, int line);

uint32_t local_limit();
int64_t block_index();
int64_t block_count();
void trap(int line);

}  // namespace hetir_shim
