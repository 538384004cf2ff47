// Barriers, fences, atomic and warp functions, and loads and stores past the data cache.
#pragma once

#include "hetir_shim/simt_float.h"

inline void asc_syncthreads(int line = __builtin_LINE()) { hetir_shim::simt_barrier(line); }
inline void asc_threadfence(int line = __builtin_LINE()) { hetir_shim::simt_fence(true, line); }
inline void asc_threadfence_block(int line = __builtin_LINE()) {
    hetir_shim::simt_fence(false, line);
}

namespace hetir_shim {

template <typename T>
T atomic(Atomic operation, T *address, T value, T compare, int line) {
    return of_bits<T>(simt_atomic(operation, address, simt_type<T>(), to_bits(value),
                                  to_bits(compare), line));
}

template <typename T>
T warp(Warp operation, T value, int32_t lane, int32_t width, int line) {
    return of_bits<T>(simt_warp(operation, simt_type<T>(), to_bits(value), lane, width, line));
}

}  // namespace hetir_shim

inline int32_t asc_atomic_add(int32_t *address, int32_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::add, address, val, val, line);
}
inline uint32_t asc_atomic_add(uint32_t *address, uint32_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::add, address, val, val, line);
}
inline hetir_shim::Float asc_atomic_add(hetir_shim::Float *address, hetir_shim::Float val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::add, address, val, val, line);
}
inline int64_t asc_atomic_add(int64_t *address, int64_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::add, address, val, val, line);
}
inline uint64_t asc_atomic_add(uint64_t *address, uint64_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::add, address, val, val, line);
}
inline half asc_atomic_add(half *address, half val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::add, address, val, val, line);
}
inline bfloat16_t asc_atomic_add(bfloat16_t *address, bfloat16_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::add, address, val, val, line);
}
inline int32_t asc_atomic_sub(int32_t *address, int32_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::sub, address, val, val, line);
}
inline uint32_t asc_atomic_sub(uint32_t *address, uint32_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::sub, address, val, val, line);
}
inline hetir_shim::Float asc_atomic_sub(hetir_shim::Float *address, hetir_shim::Float val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::sub, address, val, val, line);
}
inline int64_t asc_atomic_sub(int64_t *address, int64_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::sub, address, val, val, line);
}
inline uint64_t asc_atomic_sub(uint64_t *address, uint64_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::sub, address, val, val, line);
}
inline int32_t asc_atomic_exch(int32_t *address, int32_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::exchange, address, val, val, line);
}
inline uint32_t asc_atomic_exch(uint32_t *address, uint32_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::exchange, address, val, val, line);
}
inline hetir_shim::Float asc_atomic_exch(hetir_shim::Float *address, hetir_shim::Float val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::exchange, address, val, val, line);
}
inline int64_t asc_atomic_exch(int64_t *address, int64_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::exchange, address, val, val, line);
}
inline uint64_t asc_atomic_exch(uint64_t *address, uint64_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::exchange, address, val, val, line);
}
inline int32_t asc_atomic_max(int32_t *address, int32_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::max, address, val, val, line);
}
inline uint32_t asc_atomic_max(uint32_t *address, uint32_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::max, address, val, val, line);
}
inline hetir_shim::Float asc_atomic_max(hetir_shim::Float *address, hetir_shim::Float val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::max, address, val, val, line);
}
inline int64_t asc_atomic_max(int64_t *address, int64_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::max, address, val, val, line);
}
inline uint64_t asc_atomic_max(uint64_t *address, uint64_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::max, address, val, val, line);
}
inline half asc_atomic_max(half *address, half val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::max, address, val, val, line);
}
inline bfloat16_t asc_atomic_max(bfloat16_t *address, bfloat16_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::max, address, val, val, line);
}
inline int32_t asc_atomic_min(int32_t *address, int32_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::min, address, val, val, line);
}
inline uint32_t asc_atomic_min(uint32_t *address, uint32_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::min, address, val, val, line);
}
inline hetir_shim::Float asc_atomic_min(hetir_shim::Float *address, hetir_shim::Float val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::min, address, val, val, line);
}
inline int64_t asc_atomic_min(int64_t *address, int64_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::min, address, val, val, line);
}
inline uint64_t asc_atomic_min(uint64_t *address, uint64_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::min, address, val, val, line);
}
inline half asc_atomic_min(half *address, half val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::min, address, val, val, line);
}
inline bfloat16_t asc_atomic_min(bfloat16_t *address, bfloat16_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::min, address, val, val, line);
}
inline uint32_t asc_atomic_inc(uint32_t *address, uint32_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::inc, address, val, val, line);
}
inline uint64_t asc_atomic_inc(uint64_t *address, uint64_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::inc, address, val, val, line);
}
inline uint32_t asc_atomic_dec(uint32_t *address, uint32_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::dec, address, val, val, line);
}
inline uint64_t asc_atomic_dec(uint64_t *address, uint64_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::dec, address, val, val, line);
}
inline int32_t asc_atomic_and(int32_t *address, int32_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::bit_and, address, val, val, line);
}
inline uint32_t asc_atomic_and(uint32_t *address, uint32_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::bit_and, address, val, val, line);
}
inline int64_t asc_atomic_and(int64_t *address, int64_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::bit_and, address, val, val, line);
}
inline uint64_t asc_atomic_and(uint64_t *address, uint64_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::bit_and, address, val, val, line);
}
inline int32_t asc_atomic_or(int32_t *address, int32_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::bit_or, address, val, val, line);
}
inline uint32_t asc_atomic_or(uint32_t *address, uint32_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::bit_or, address, val, val, line);
}
inline int64_t asc_atomic_or(int64_t *address, int64_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::bit_or, address, val, val, line);
}
inline uint64_t asc_atomic_or(uint64_t *address, uint64_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::bit_or, address, val, val, line);
}
inline int32_t asc_atomic_xor(int32_t *address, int32_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::bit_xor, address, val, val, line);
}
inline uint32_t asc_atomic_xor(uint32_t *address, uint32_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::bit_xor, address, val, val, line);
}
inline int64_t asc_atomic_xor(int64_t *address, int64_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::bit_xor, address, val, val, line);
}
inline uint64_t asc_atomic_xor(uint64_t *address, uint64_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::bit_xor, address, val, val, line);
}
inline int32_t asc_atomic_cas(int32_t *address, int32_t compare, int32_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::cas, address, val, compare, line);
}
inline uint32_t asc_atomic_cas(uint32_t *address, uint32_t compare, uint32_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::cas, address, val, compare, line);
}
inline hetir_shim::Float asc_atomic_cas(hetir_shim::Float *address, hetir_shim::Float compare, hetir_shim::Float val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::cas, address, val, compare, line);
}
inline int64_t asc_atomic_cas(int64_t *address, int64_t compare, int64_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::cas, address, val, compare, line);
}
inline uint64_t asc_atomic_cas(uint64_t *address, uint64_t compare, uint64_t val, int line = __builtin_LINE()) {
    return hetir_shim::atomic(hetir_shim::Atomic::cas, address, val, compare, line);
}

inline int32_t asc_shfl(int32_t var, int32_t src_lane, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::shuffle, var, int32_t(src_lane), width, line);
}
inline uint32_t asc_shfl(uint32_t var, int32_t src_lane, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::shuffle, var, int32_t(src_lane), width, line);
}
inline hetir_shim::Float asc_shfl(hetir_shim::Float var, int32_t src_lane, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::shuffle, var, int32_t(src_lane), width, line);
}
inline int64_t asc_shfl(int64_t var, int32_t src_lane, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::shuffle, var, int32_t(src_lane), width, line);
}
inline uint64_t asc_shfl(uint64_t var, int32_t src_lane, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::shuffle, var, int32_t(src_lane), width, line);
}
inline half asc_shfl(half var, int32_t src_lane, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::shuffle, var, int32_t(src_lane), width, line);
}
inline bfloat16_t asc_shfl(bfloat16_t var, int32_t src_lane, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::shuffle, var, int32_t(src_lane), width, line);
}
inline int32_t asc_shfl_up(int32_t var, uint32_t delta, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::up, var, int32_t(delta), width, line);
}
inline uint32_t asc_shfl_up(uint32_t var, uint32_t delta, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::up, var, int32_t(delta), width, line);
}
inline hetir_shim::Float asc_shfl_up(hetir_shim::Float var, uint32_t delta, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::up, var, int32_t(delta), width, line);
}
inline int64_t asc_shfl_up(int64_t var, uint32_t delta, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::up, var, int32_t(delta), width, line);
}
inline uint64_t asc_shfl_up(uint64_t var, uint32_t delta, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::up, var, int32_t(delta), width, line);
}
inline half asc_shfl_up(half var, uint32_t delta, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::up, var, int32_t(delta), width, line);
}
inline bfloat16_t asc_shfl_up(bfloat16_t var, uint32_t delta, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::up, var, int32_t(delta), width, line);
}
inline int32_t asc_shfl_down(int32_t var, uint32_t delta, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::down, var, int32_t(delta), width, line);
}
inline uint32_t asc_shfl_down(uint32_t var, uint32_t delta, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::down, var, int32_t(delta), width, line);
}
inline hetir_shim::Float asc_shfl_down(hetir_shim::Float var, uint32_t delta, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::down, var, int32_t(delta), width, line);
}
inline int64_t asc_shfl_down(int64_t var, uint32_t delta, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::down, var, int32_t(delta), width, line);
}
inline uint64_t asc_shfl_down(uint64_t var, uint32_t delta, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::down, var, int32_t(delta), width, line);
}
inline half asc_shfl_down(half var, uint32_t delta, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::down, var, int32_t(delta), width, line);
}
inline bfloat16_t asc_shfl_down(bfloat16_t var, uint32_t delta, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::down, var, int32_t(delta), width, line);
}
inline int32_t asc_shfl_xor(int32_t var, int32_t lane_mask, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::exclusive, var, int32_t(lane_mask), width, line);
}
inline uint32_t asc_shfl_xor(uint32_t var, int32_t lane_mask, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::exclusive, var, int32_t(lane_mask), width, line);
}
inline hetir_shim::Float asc_shfl_xor(hetir_shim::Float var, int32_t lane_mask, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::exclusive, var, int32_t(lane_mask), width, line);
}
inline int64_t asc_shfl_xor(int64_t var, int32_t lane_mask, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::exclusive, var, int32_t(lane_mask), width, line);
}
inline uint64_t asc_shfl_xor(uint64_t var, int32_t lane_mask, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::exclusive, var, int32_t(lane_mask), width, line);
}
inline half asc_shfl_xor(half var, int32_t lane_mask, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::exclusive, var, int32_t(lane_mask), width, line);
}
inline bfloat16_t asc_shfl_xor(bfloat16_t var, int32_t lane_mask, int32_t width = warpSize,
                   int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::exclusive, var, int32_t(lane_mask), width, line);
}
inline int32_t asc_reduce_add(int32_t val, int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::sum, val, 0, warpSize, line);
}
inline uint32_t asc_reduce_add(uint32_t val, int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::sum, val, 0, warpSize, line);
}
inline hetir_shim::Float asc_reduce_add(hetir_shim::Float val, int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::sum, val, 0, warpSize, line);
}
inline half asc_reduce_add(half val, int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::sum, val, 0, warpSize, line);
}
inline int32_t asc_reduce_max(int32_t val, int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::max, val, 0, warpSize, line);
}
inline uint32_t asc_reduce_max(uint32_t val, int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::max, val, 0, warpSize, line);
}
inline hetir_shim::Float asc_reduce_max(hetir_shim::Float val, int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::max, val, 0, warpSize, line);
}
inline half asc_reduce_max(half val, int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::max, val, 0, warpSize, line);
}
inline int32_t asc_reduce_min(int32_t val, int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::min, val, 0, warpSize, line);
}
inline uint32_t asc_reduce_min(uint32_t val, int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::min, val, 0, warpSize, line);
}
inline hetir_shim::Float asc_reduce_min(hetir_shim::Float val, int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::min, val, 0, warpSize, line);
}
inline half asc_reduce_min(half val, int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::min, val, 0, warpSize, line);
}
inline int32_t asc_all(int32_t predicate, int line = __builtin_LINE()) {
    return int32_t(hetir_shim::warp(hetir_shim::Warp::all, predicate, 0, warpSize, line));
}
inline int32_t asc_any(int32_t predicate, int line = __builtin_LINE()) {
    return int32_t(hetir_shim::warp(hetir_shim::Warp::any, predicate, 0, warpSize, line));
}
inline uint32_t asc_ballot(int32_t predicate, int line = __builtin_LINE()) {
    return uint32_t(hetir_shim::warp(hetir_shim::Warp::ballot, predicate, 0, warpSize, line));
}
inline uint32_t asc_activemask(int line = __builtin_LINE()) {
    return uint32_t(hetir_shim::warp(hetir_shim::Warp::active, int32_t(1), 0, warpSize, line));
}
inline uint32_t laneid() { return hetir_shim::simt_lane(); }
inline uint32_t lanemask_eq() { return 1u << laneid(); }
inline uint32_t lanemask_lt() { return (1u << laneid()) - 1u; }
inline uint32_t lanemask_le() { return lanemask_lt() | lanemask_eq(); }
inline uint32_t lanemask_gt() { return ~lanemask_le(); }
inline uint32_t lanemask_ge() { return ~lanemask_lt(); }

namespace hetir_shim {

template <typename T> constexpr bool moves() {
    return sizeof(T) <= 8 && (std::is_arithmetic_v<T> || std::is_same_v<T, half> ||
                              std::is_same_v<T, bfloat16_t> || std::is_same_v<T, Float>);
}

}  // namespace hetir_shim

// Past the data cache of the core: these read what other cores wrote.
template <typename T, typename = std::enable_if_t<hetir_shim::moves<T>()>>
T asc_ldcg(T *address, int line = __builtin_LINE()) {
    return hetir_shim::of_bits<T>(hetir_shim::simt_load(address, sizeof(T), line));
}
template <typename T, typename = std::enable_if_t<hetir_shim::moves<T>()>>
void asc_stcg(T *address, T val, int line = __builtin_LINE()) {
    hetir_shim::simt_store(address, sizeof(T), hetir_shim::to_bits(val), line);
}
template <typename T, typename = std::enable_if_t<hetir_shim::moves<T>()>>
void asc_stwt(T *address, T val, int line = __builtin_LINE()) {
    hetir_shim::simt_store(address, sizeof(T), hetir_shim::to_bits(val), line);
}
inline void asc_dcci_single(void *, int line = __builtin_LINE()) {
    hetir_shim::simt_fence(true, line);
}
inline void asc_dcci_entire(int line = __builtin_LINE()) { hetir_shim::simt_fence(true, line); }
