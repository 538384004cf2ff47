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

#define HETIR_SHIM_ATOMIC(NAME, OPERATION, T)                                                    \
    inline T NAME(T *address, T val, int line = __builtin_LINE()) {                              \
        return hetir_shim::atomic(hetir_shim::Atomic::OPERATION, address, val, val, line);       \
    }
#define HETIR_SHIM_ATOMIC_WORDS(NAME, OPERATION)                                                 \
    HETIR_SHIM_ATOMIC(NAME, OPERATION, int32_t)                                                  \
    HETIR_SHIM_ATOMIC(NAME, OPERATION, uint32_t)                                                 \
    HETIR_SHIM_ATOMIC(NAME, OPERATION, int64_t)                                                  \
    HETIR_SHIM_ATOMIC(NAME, OPERATION, uint64_t)
#define HETIR_SHIM_ATOMIC_NUMBERS(NAME, OPERATION)                                               \
    HETIR_SHIM_ATOMIC_WORDS(NAME, OPERATION)                                                     \
    HETIR_SHIM_ATOMIC(NAME, OPERATION, hetir_shim::Float)
HETIR_SHIM_ATOMIC_NUMBERS(asc_atomic_add, add)
HETIR_SHIM_ATOMIC(asc_atomic_add, add, half)
HETIR_SHIM_ATOMIC(asc_atomic_add, add, bfloat16_t)
HETIR_SHIM_ATOMIC_NUMBERS(asc_atomic_sub, sub)
HETIR_SHIM_ATOMIC_NUMBERS(asc_atomic_exch, exchange)
HETIR_SHIM_ATOMIC_NUMBERS(asc_atomic_max, max)
HETIR_SHIM_ATOMIC(asc_atomic_max, max, half)
HETIR_SHIM_ATOMIC(asc_atomic_max, max, bfloat16_t)
HETIR_SHIM_ATOMIC_NUMBERS(asc_atomic_min, min)
HETIR_SHIM_ATOMIC(asc_atomic_min, min, half)
HETIR_SHIM_ATOMIC(asc_atomic_min, min, bfloat16_t)
HETIR_SHIM_ATOMIC(asc_atomic_inc, inc, uint32_t)
HETIR_SHIM_ATOMIC(asc_atomic_inc, inc, uint64_t)
HETIR_SHIM_ATOMIC(asc_atomic_dec, dec, uint32_t)
HETIR_SHIM_ATOMIC(asc_atomic_dec, dec, uint64_t)
HETIR_SHIM_ATOMIC_WORDS(asc_atomic_and, bit_and)
HETIR_SHIM_ATOMIC_WORDS(asc_atomic_or, bit_or)
HETIR_SHIM_ATOMIC_WORDS(asc_atomic_xor, bit_xor)
#undef HETIR_SHIM_ATOMIC
#undef HETIR_SHIM_ATOMIC_WORDS
#undef HETIR_SHIM_ATOMIC_NUMBERS

#define HETIR_SHIM_CAS(T)                                                                        \
    inline T asc_atomic_cas(T *address, T compare, T val, int line = __builtin_LINE()) {         \
        return hetir_shim::atomic(hetir_shim::Atomic::cas, address, val, compare, line);         \
    }
HETIR_SHIM_CAS(int32_t)
HETIR_SHIM_CAS(uint32_t)
HETIR_SHIM_CAS(int64_t)
HETIR_SHIM_CAS(uint64_t)
HETIR_SHIM_CAS(hetir_shim::Float)
#undef HETIR_SHIM_CAS

#define HETIR_SHIM_SHUFFLE(T)                                                                    \
    inline T asc_shfl(T var, int32_t src_lane, int32_t width = warpSize,                         \
                      int line = __builtin_LINE()) {                                             \
        return hetir_shim::warp(hetir_shim::Warp::shuffle, var, src_lane, width, line);          \
    }                                                                                            \
    inline T asc_shfl_up(T var, uint32_t delta, int32_t width = warpSize,                        \
                         int line = __builtin_LINE()) {                                          \
        return hetir_shim::warp(hetir_shim::Warp::up, var, int32_t(delta), width, line);         \
    }                                                                                            \
    inline T asc_shfl_down(T var, uint32_t delta, int32_t width = warpSize,                      \
                           int line = __builtin_LINE()) {                                        \
        return hetir_shim::warp(hetir_shim::Warp::down, var, int32_t(delta), width, line);       \
    }                                                                                            \
    inline T asc_shfl_xor(T var, int32_t lane_mask, int32_t width = warpSize,                    \
                          int line = __builtin_LINE()) {                                         \
        return hetir_shim::warp(hetir_shim::Warp::exclusive, var, lane_mask, width, line);       \
    }
HETIR_SHIM_SHUFFLE(int32_t)
HETIR_SHIM_SHUFFLE(uint32_t)
HETIR_SHIM_SHUFFLE(int64_t)
HETIR_SHIM_SHUFFLE(uint64_t)
HETIR_SHIM_SHUFFLE(hetir_shim::Float)
HETIR_SHIM_SHUFFLE(half)
HETIR_SHIM_SHUFFLE(bfloat16_t)
#undef HETIR_SHIM_SHUFFLE

#define HETIR_SHIM_WARP_REDUCE(T)                                                                \
    inline T asc_reduce_add(T val, int line = __builtin_LINE()) {                                \
        return hetir_shim::warp(hetir_shim::Warp::sum, val, 0, warpSize, line);                  \
    }                                                                                            \
    inline T asc_reduce_max(T val, int line = __builtin_LINE()) {                                \
        return hetir_shim::warp(hetir_shim::Warp::max, val, 0, warpSize, line);                  \
    }                                                                                            \
    inline T asc_reduce_min(T val, int line = __builtin_LINE()) {                                \
        return hetir_shim::warp(hetir_shim::Warp::min, val, 0, warpSize, line);                  \
    }
HETIR_SHIM_WARP_REDUCE(int32_t)
HETIR_SHIM_WARP_REDUCE(uint32_t)
HETIR_SHIM_WARP_REDUCE(hetir_shim::Float)
HETIR_SHIM_WARP_REDUCE(half)
#undef HETIR_SHIM_WARP_REDUCE

inline int32_t asc_all(int32_t predicate, int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::all, predicate, 0, warpSize, line);
}
inline int32_t asc_any(int32_t predicate, int line = __builtin_LINE()) {
    return hetir_shim::warp(hetir_shim::Warp::any, predicate, 0, warpSize, line);
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
// Through the data cache, as a plain load.
template <typename T> T asc_ldca(const T *address) { return *address; }
inline void asc_dcci_single(void *, int line = __builtin_LINE()) {
    hetir_shim::simt_fence(true, line);
}
inline void asc_dcci_entire(int line = __builtin_LINE()) { hetir_shim::simt_fence(true, line); }
