// half and bfloat16_t of the SIMT mode, visible by simt_api/asc_fp16.h and asc_bf16.h.
#pragma once

#include "hetir_shim/simt_math.h"

namespace hetir_shim {

template <typename T> T of_pattern(uint16_t bits) {
    T result;
    result.bits = bits;
    return result;
}

#define HETIR_SHIM_SMALL_INTEGER(T, NAME, INTEGER, I, ROUNDING)                                  \
    inline I __##NAME##2##INTEGER##_##ROUNDING(T x) {                                            \
        return to_integer<I>(float(x), Rounding::ROUNDING);                                      \
    }
#define HETIR_SHIM_SMALL_ROUNDING(T, NAME, NARROW, ROUNDING)                                     \
    inline T __float2##NAME##_##ROUNDING(Float x) {                                              \
        return of_pattern<T>(NARROW(x.value, narrowing(Rounding::ROUNDING)));                    \
    }                                                                                            \
    inline T __##NAME##2##NAME##_##ROUNDING(T x) {                                               \
        return T(float(to_whole(float(x), Rounding::ROUNDING)));                                 \
    }                                                                                            \
    HETIR_SHIM_SMALL_INTEGER(T, NAME, int, int32_t, ROUNDING)                                    \
    HETIR_SHIM_SMALL_INTEGER(T, NAME, uint, uint32_t, ROUNDING)                                  \
    HETIR_SHIM_SMALL_INTEGER(T, NAME, ll, int64_t, ROUNDING)                                     \
    HETIR_SHIM_SMALL_INTEGER(T, NAME, ull, uint64_t, ROUNDING)
#define HETIR_SHIM_SMALL(T, NAME, NARROW)                                                        \
    HETIR_SHIM_SMALL_ROUNDING(T, NAME, NARROW, rn)                                               \
    HETIR_SHIM_SMALL_ROUNDING(T, NAME, NARROW, rz)                                               \
    HETIR_SHIM_SMALL_ROUNDING(T, NAME, NARROW, rd)                                               \
    HETIR_SHIM_SMALL_ROUNDING(T, NAME, NARROW, ru)                                               \
    HETIR_SHIM_SMALL_ROUNDING(T, NAME, NARROW, rna)                                              \
    inline T __float2##NAME(Float x) { return __float2##NAME##_rn(x); }                          \
    inline Float __##NAME##2float(T x) { return Float(float(x)); }                               \
    inline T __ushort_as_##NAME(unsigned short x) { return of_pattern<T>(x); }                   \
    inline T __hadd(T x, T y) { return T(float(x) + float(y)); }                                 \
    inline T __hsub(T x, T y) { return T(float(x) - float(y)); }                                 \
    inline T __hmul(T x, T y) { return T(float(x) * float(y)); }                                 \
    inline T __hneg(T x) { return T(-float(x)); }                                                \
    inline T __habs(T x) { return T(std::fabs(float(x))); }                                      \
    inline bool __hisnan(T x) { return float(x) != float(x); }                                   \
    inline bool __hisinf(T x) { return std::isinf(float(x)); }                                   \
    inline bool __heq(T x, T y) { return float(x) == float(y); }                                 \
    inline bool __hne(T x, T y) { return float(x) != float(y); }                                 \
    inline bool __hlt(T x, T y) { return float(x) < float(y); }                                  \
    inline bool __hgt(T x, T y) { return float(x) > float(y); }                                  \
    inline bool __hle(T x, T y) { return float(x) <= float(y); }                                 \
    inline bool __hge(T x, T y) { return float(x) >= float(y); }

namespace fp16 {
HETIR_SHIM_SMALL(half, half, narrow_to_half)
}  // namespace fp16

namespace bf16 {
HETIR_SHIM_SMALL(bfloat16_t, bfloat16, narrow_to_bfloat)
}  // namespace bf16

#undef HETIR_SHIM_SMALL
#undef HETIR_SHIM_SMALL_ROUNDING
#undef HETIR_SHIM_SMALL_INTEGER

}  // namespace hetir_shim
