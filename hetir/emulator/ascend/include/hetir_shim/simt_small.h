// half and bfloat16_t of the SIMT mode, visible by simt_api/asc_fp16.h and asc_bf16.h.
#pragma once

#include "hetir_shim/simt_math.h"

namespace hetir_shim {
namespace fp16 {

inline half __float2half_rn(Float x) {
    half result;
    result.bits = narrow_to_half(double(x.value), narrowing(Rounding::rn));
    return result;
}
inline int32_t __half2int_rn(half x) {
    return to_integer<int32_t>(float(x), Rounding::rn);
}
inline uint32_t __half2uint_rn(half x) {
    return to_integer<uint32_t>(float(x), Rounding::rn);
}
inline int64_t __half2ll_rn(half x) {
    return to_integer<int64_t>(float(x), Rounding::rn);
}
inline uint64_t __half2ull_rn(half x) {
    return to_integer<uint64_t>(float(x), Rounding::rn);
}
inline half __half2half_rn(half x) {
    return half(float(to_whole(float(x), Rounding::rn)));
}
inline half __float2half_rz(Float x) {
    half result;
    result.bits = narrow_to_half(double(x.value), narrowing(Rounding::rz));
    return result;
}
inline int32_t __half2int_rz(half x) {
    return to_integer<int32_t>(float(x), Rounding::rz);
}
inline uint32_t __half2uint_rz(half x) {
    return to_integer<uint32_t>(float(x), Rounding::rz);
}
inline int64_t __half2ll_rz(half x) {
    return to_integer<int64_t>(float(x), Rounding::rz);
}
inline uint64_t __half2ull_rz(half x) {
    return to_integer<uint64_t>(float(x), Rounding::rz);
}
inline half __half2half_rz(half x) {
    return half(float(to_whole(float(x), Rounding::rz)));
}
inline half __float2half_rd(Float x) {
    half result;
    result.bits = narrow_to_half(double(x.value), narrowing(Rounding::rd));
    return result;
}
inline int32_t __half2int_rd(half x) {
    return to_integer<int32_t>(float(x), Rounding::rd);
}
inline uint32_t __half2uint_rd(half x) {
    return to_integer<uint32_t>(float(x), Rounding::rd);
}
inline int64_t __half2ll_rd(half x) {
    return to_integer<int64_t>(float(x), Rounding::rd);
}
inline uint64_t __half2ull_rd(half x) {
    return to_integer<uint64_t>(float(x), Rounding::rd);
}
inline half __half2half_rd(half x) {
    return half(float(to_whole(float(x), Rounding::rd)));
}
inline half __float2half_ru(Float x) {
    half result;
    result.bits = narrow_to_half(double(x.value), narrowing(Rounding::ru));
    return result;
}
inline int32_t __half2int_ru(half x) {
    return to_integer<int32_t>(float(x), Rounding::ru);
}
inline uint32_t __half2uint_ru(half x) {
    return to_integer<uint32_t>(float(x), Rounding::ru);
}
inline int64_t __half2ll_ru(half x) {
    return to_integer<int64_t>(float(x), Rounding::ru);
}
inline uint64_t __half2ull_ru(half x) {
    return to_integer<uint64_t>(float(x), Rounding::ru);
}
inline half __half2half_ru(half x) {
    return half(float(to_whole(float(x), Rounding::ru)));
}
inline half __float2half_rna(Float x) {
    half result;
    result.bits = narrow_to_half(double(x.value), narrowing(Rounding::rna));
    return result;
}
inline int32_t __half2int_rna(half x) {
    return to_integer<int32_t>(float(x), Rounding::rna);
}
inline uint32_t __half2uint_rna(half x) {
    return to_integer<uint32_t>(float(x), Rounding::rna);
}
inline int64_t __half2ll_rna(half x) {
    return to_integer<int64_t>(float(x), Rounding::rna);
}
inline uint64_t __half2ull_rna(half x) {
    return to_integer<uint64_t>(float(x), Rounding::rna);
}
inline half __half2half_rna(half x) {
    return half(float(to_whole(float(x), Rounding::rna)));
}
inline half __float2half(Float x) { return __float2half_rn(x); }
inline Float __half2float(half x) { return Float(float(x)); }
inline half __ushort_as_half(unsigned short x) {
    half result;
    result.bits = x;
    return result;
}
inline half __hadd(half x, half y) { return half(float(x) + float(y)); }
inline half __hsub(half x, half y) { return half(float(x) - float(y)); }
inline half __hmul(half x, half y) { return half(float(x) * float(y)); }
inline half __hneg(half x) { return half(-float(x)); }
inline half __habs(half x) { return half(std::fabs(float(x))); }
inline bool __hisnan(half x) { return float(x) != float(x); }
inline bool __hisinf(half x) { return std::isinf(float(x)); }
inline bool __heq(half x, half y) { return float(x) == float(y); }
inline bool __hne(half x, half y) { return float(x) != float(y); }
inline bool __hlt(half x, half y) { return float(x) < float(y); }
inline bool __hgt(half x, half y) { return float(x) > float(y); }
inline bool __hle(half x, half y) { return float(x) <= float(y); }
inline bool __hge(half x, half y) { return float(x) >= float(y); }

}  // namespace fp16
}  // namespace hetir_shim

namespace hetir_shim {
namespace bf16 {

inline bfloat16_t __float2bfloat16_rn(Float x) {
    bfloat16_t result;
    result.bits = narrow_to_bfloat(x.value, narrowing(Rounding::rn));
    return result;
}
inline int32_t __bfloat162int_rn(bfloat16_t x) {
    return to_integer<int32_t>(float(x), Rounding::rn);
}
inline uint32_t __bfloat162uint_rn(bfloat16_t x) {
    return to_integer<uint32_t>(float(x), Rounding::rn);
}
inline int64_t __bfloat162ll_rn(bfloat16_t x) {
    return to_integer<int64_t>(float(x), Rounding::rn);
}
inline uint64_t __bfloat162ull_rn(bfloat16_t x) {
    return to_integer<uint64_t>(float(x), Rounding::rn);
}
inline bfloat16_t __bfloat162bfloat16_rn(bfloat16_t x) {
    return bfloat16_t(float(to_whole(float(x), Rounding::rn)));
}
inline bfloat16_t __float2bfloat16_rz(Float x) {
    bfloat16_t result;
    result.bits = narrow_to_bfloat(x.value, narrowing(Rounding::rz));
    return result;
}
inline int32_t __bfloat162int_rz(bfloat16_t x) {
    return to_integer<int32_t>(float(x), Rounding::rz);
}
inline uint32_t __bfloat162uint_rz(bfloat16_t x) {
    return to_integer<uint32_t>(float(x), Rounding::rz);
}
inline int64_t __bfloat162ll_rz(bfloat16_t x) {
    return to_integer<int64_t>(float(x), Rounding::rz);
}
inline uint64_t __bfloat162ull_rz(bfloat16_t x) {
    return to_integer<uint64_t>(float(x), Rounding::rz);
}
inline bfloat16_t __bfloat162bfloat16_rz(bfloat16_t x) {
    return bfloat16_t(float(to_whole(float(x), Rounding::rz)));
}
inline bfloat16_t __float2bfloat16_rd(Float x) {
    bfloat16_t result;
    result.bits = narrow_to_bfloat(x.value, narrowing(Rounding::rd));
    return result;
}
inline int32_t __bfloat162int_rd(bfloat16_t x) {
    return to_integer<int32_t>(float(x), Rounding::rd);
}
inline uint32_t __bfloat162uint_rd(bfloat16_t x) {
    return to_integer<uint32_t>(float(x), Rounding::rd);
}
inline int64_t __bfloat162ll_rd(bfloat16_t x) {
    return to_integer<int64_t>(float(x), Rounding::rd);
}
inline uint64_t __bfloat162ull_rd(bfloat16_t x) {
    return to_integer<uint64_t>(float(x), Rounding::rd);
}
inline bfloat16_t __bfloat162bfloat16_rd(bfloat16_t x) {
    return bfloat16_t(float(to_whole(float(x), Rounding::rd)));
}
inline bfloat16_t __float2bfloat16_ru(Float x) {
    bfloat16_t result;
    result.bits = narrow_to_bfloat(x.value, narrowing(Rounding::ru));
    return result;
}
inline int32_t __bfloat162int_ru(bfloat16_t x) {
    return to_integer<int32_t>(float(x), Rounding::ru);
}
inline uint32_t __bfloat162uint_ru(bfloat16_t x) {
    return to_integer<uint32_t>(float(x), Rounding::ru);
}
inline int64_t __bfloat162ll_ru(bfloat16_t x) {
    return to_integer<int64_t>(float(x), Rounding::ru);
}
inline uint64_t __bfloat162ull_ru(bfloat16_t x) {
    return to_integer<uint64_t>(float(x), Rounding::ru);
}
inline bfloat16_t __bfloat162bfloat16_ru(bfloat16_t x) {
    return bfloat16_t(float(to_whole(float(x), Rounding::ru)));
}
inline bfloat16_t __float2bfloat16_rna(Float x) {
    bfloat16_t result;
    result.bits = narrow_to_bfloat(x.value, narrowing(Rounding::rna));
    return result;
}
inline int32_t __bfloat162int_rna(bfloat16_t x) {
    return to_integer<int32_t>(float(x), Rounding::rna);
}
inline uint32_t __bfloat162uint_rna(bfloat16_t x) {
    return to_integer<uint32_t>(float(x), Rounding::rna);
}
inline int64_t __bfloat162ll_rna(bfloat16_t x) {
    return to_integer<int64_t>(float(x), Rounding::rna);
}
inline uint64_t __bfloat162ull_rna(bfloat16_t x) {
    return to_integer<uint64_t>(float(x), Rounding::rna);
}
inline bfloat16_t __bfloat162bfloat16_rna(bfloat16_t x) {
    return bfloat16_t(float(to_whole(float(x), Rounding::rna)));
}
inline bfloat16_t __float2bfloat16(Float x) { return __float2bfloat16_rn(x); }
inline Float __bfloat162float(bfloat16_t x) { return Float(float(x)); }
inline bfloat16_t __ushort_as_bfloat16(unsigned short x) {
    bfloat16_t result;
    result.bits = x;
    return result;
}
inline bfloat16_t __hadd(bfloat16_t x, bfloat16_t y) { return bfloat16_t(float(x) + float(y)); }
inline bfloat16_t __hsub(bfloat16_t x, bfloat16_t y) { return bfloat16_t(float(x) - float(y)); }
inline bfloat16_t __hmul(bfloat16_t x, bfloat16_t y) { return bfloat16_t(float(x) * float(y)); }
inline bfloat16_t __hneg(bfloat16_t x) { return bfloat16_t(-float(x)); }
inline bfloat16_t __habs(bfloat16_t x) { return bfloat16_t(std::fabs(float(x))); }
inline bool __hisnan(bfloat16_t x) { return float(x) != float(x); }
inline bool __hisinf(bfloat16_t x) { return std::isinf(float(x)); }
inline bool __heq(bfloat16_t x, bfloat16_t y) { return float(x) == float(y); }
inline bool __hne(bfloat16_t x, bfloat16_t y) { return float(x) != float(y); }
inline bool __hlt(bfloat16_t x, bfloat16_t y) { return float(x) < float(y); }
inline bool __hgt(bfloat16_t x, bfloat16_t y) { return float(x) > float(y); }
inline bool __hle(bfloat16_t x, bfloat16_t y) { return float(x) <= float(y); }
inline bool __hge(bfloat16_t x, bfloat16_t y) { return float(x) >= float(y); }

}  // namespace bf16
}  // namespace hetir_shim
