// The mathematics of the SIMT mode. What the reference does not promise to round right is off by
// a few units; what it says to flush is flushed.
#pragma once

#include "hetir_shim/simt_float.h"

namespace hetir_shim {

constexpr int default_ulps = 2;

inline Float simt_result(double value, uint64_t operands, int ulps, bool flushes) {
    const float rough = simt_inexact(value, operands, ulps);
    return Float(flushes ? Float::flushed(rough) : rough);
}

}  // namespace hetir_shim

inline hetir_shim::Float expf(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::exp(double(hetir_shim::Float::flushed(x.value))), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, true);
}
inline hetir_shim::Float exp2f(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::exp2(double(hetir_shim::Float::flushed(x.value))), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, true);
}
inline hetir_shim::Float exp10f(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::pow(10.0, double(hetir_shim::Float::flushed(x.value))), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, true);
}
inline hetir_shim::Float expm1f(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::expm1(double(hetir_shim::Float::flushed(x.value))), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, true);
}
inline hetir_shim::Float logf(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::log(double(x.value)), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, false);
}
inline hetir_shim::Float log2f(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::log2(double(x.value)), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, false);
}
inline hetir_shim::Float log10f(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::log10(double(x.value)), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, false);
}
inline hetir_shim::Float log1pf(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::log1p(double(x.value)), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, false);
}
inline hetir_shim::Float sinf(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::sin(double(x.value)), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, false);
}
inline hetir_shim::Float cosf(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::cos(double(x.value)), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, false);
}
inline hetir_shim::Float tanf(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::tan(double(x.value)), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, false);
}
inline hetir_shim::Float asinf(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::asin(double(x.value)), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, false);
}
inline hetir_shim::Float acosf(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::acos(double(x.value)), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, false);
}
inline hetir_shim::Float atanf(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::atan(double(x.value)), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, false);
}
inline hetir_shim::Float sinhf(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::sinh(double(x.value)), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, false);
}
inline hetir_shim::Float coshf(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::cosh(double(x.value)), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, false);
}
inline hetir_shim::Float tanhf(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::tanh(double(x.value)), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, false);
}
inline hetir_shim::Float asinhf(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::asinh(double(x.value)), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, false);
}
inline hetir_shim::Float acoshf(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::acosh(double(x.value)), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, false);
}
inline hetir_shim::Float atanhf(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::atanh(double(x.value)), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, false);
}
inline hetir_shim::Float erff(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::erf(double(x.value)), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, false);
}
inline hetir_shim::Float erfcf(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::erfc(double(x.value)), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, false);
}
inline hetir_shim::Float cbrtf(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::cbrt(double(x.value)), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, false);
}
inline hetir_shim::Float sqrtf(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::sqrt(double(hetir_shim::Float::flushed(x.value))), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, true);
}
inline hetir_shim::Float tgammaf(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::tgamma(double(x.value)), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, false);
}
inline hetir_shim::Float lgammaf(hetir_shim::Float x) {
    return hetir_shim::simt_result(std::lgamma(double(x.value)), hetir_shim::to_bits(x),
                                   hetir_shim::default_ulps, false);
}
inline hetir_shim::Float rsqrtf(hetir_shim::Float x) {
    return hetir_shim::simt_result(1 / std::sqrt(double(hetir_shim::Float::flushed(x.value))),
                                   hetir_shim::to_bits(x), hetir_shim::default_ulps, true);
}
inline hetir_shim::Float powf(hetir_shim::Float x, hetir_shim::Float y) {
    return hetir_shim::simt_result(std::pow(double(hetir_shim::Float::flushed(x.value)),
                                            double(hetir_shim::Float::flushed(y.value))),
                                   hetir_shim::to_bits(x) * 31 + hetir_shim::to_bits(y),
                                   hetir_shim::default_ulps, true);
}
inline hetir_shim::Float fdividef(hetir_shim::Float x, hetir_shim::Float y) {
    const hetir_shim::Float divided = x / y;
    return hetir_shim::Float(hetir_shim::Float::flushed(divided.value));
}
inline hetir_shim::Float __fdividef(hetir_shim::Float x, hetir_shim::Float y) {
    return fdividef(x, y);
}
inline hetir_shim::Float fmaf(hetir_shim::Float x, hetir_shim::Float y, hetir_shim::Float z) {
    return std::fma(x.value, y.value, z.value);
}
inline hetir_shim::Float ldexpf(hetir_shim::Float x, int32_t n) { return std::ldexp(x.value, n); }
inline hetir_shim::Float scalbnf(hetir_shim::Float x, int32_t n) { return std::ldexp(x.value, n); }
inline hetir_shim::Float frexpf(hetir_shim::Float x, int32_t *n) {
    int exponent = 0;
    const hetir_shim::Float part = std::frexp(x.value, &exponent);
    *n = exponent;
    return part;
}
inline bool isnan(hetir_shim::Float x) { return x.value != x.value; }
inline bool isinf(hetir_shim::Float x) { return std::isinf(x.value); }
inline bool isfinite(hetir_shim::Float x) { return std::isfinite(x.value); }
inline int32_t signbit(hetir_shim::Float x) { return std::signbit(x.value); }
inline int32_t __float_as_int(hetir_shim::Float x) { return int32_t(hetir_shim::to_bits(x)); }
inline uint32_t __float_as_uint(hetir_shim::Float x) { return uint32_t(hetir_shim::to_bits(x)); }
inline hetir_shim::Float __int_as_float(int32_t x) {
    return hetir_shim::of_bits<hetir_shim::Float>(uint32_t(x));
}
inline hetir_shim::Float __uint_as_float(uint32_t x) {
    return hetir_shim::of_bits<hetir_shim::Float>(x);
}
inline hetir_shim::Float fabsf(hetir_shim::Float x) { return std::fabs(x.value); }
inline hetir_shim::Float floorf(hetir_shim::Float x) { return std::floor(x.value); }
inline hetir_shim::Float ceilf(hetir_shim::Float x) { return std::ceil(x.value); }
inline hetir_shim::Float truncf(hetir_shim::Float x) { return std::trunc(x.value); }
inline hetir_shim::Float roundf(hetir_shim::Float x) { return std::round(x.value); }
inline hetir_shim::Float rintf(hetir_shim::Float x) { return std::nearbyint(x.value); }
inline hetir_shim::Float nearbyintf(hetir_shim::Float x) { return std::nearbyint(x.value); }
inline hetir_shim::Float fmaxf(hetir_shim::Float x, hetir_shim::Float y) {
    return std::fmax(x.value, y.value);
}
inline hetir_shim::Float fminf(hetir_shim::Float x, hetir_shim::Float y) {
    return std::fmin(x.value, y.value);
}
inline hetir_shim::Float fmodf(hetir_shim::Float x, hetir_shim::Float y) {
    return std::fmod(x.value, y.value);
}
inline hetir_shim::Float copysignf(hetir_shim::Float x, hetir_shim::Float y) {
    return std::copysign(x.value, y.value);
}
inline hetir_shim::Float remainderf(hetir_shim::Float x, hetir_shim::Float y) {
    return std::remainder(x.value, y.value);
}
inline hetir_shim::Float hypotf(hetir_shim::Float x, hetir_shim::Float y) {
    return hetir_shim::simt_result(std::hypot(double(x.value), double(y.value)),
                                   hetir_shim::to_bits(x) * 31 + hetir_shim::to_bits(y),
                                   hetir_shim::default_ulps, false);
}
inline hetir_shim::Float nextafterf(hetir_shim::Float x, hetir_shim::Float y) {
    return std::nextafter(x.value, y.value);
}
inline hetir_shim::Float fdimf(hetir_shim::Float x, hetir_shim::Float y) {
    return std::fdim(x.value, y.value);
}
inline hetir_shim::Float atan2f(hetir_shim::Float x, hetir_shim::Float y) {
    return hetir_shim::simt_result(std::atan2(double(x.value), double(y.value)),
                                   hetir_shim::to_bits(x) * 31 + hetir_shim::to_bits(y),
                                   hetir_shim::default_ulps, false);
}

namespace hetir_shim {

// By the ending of a conversion's name: rn nearest even, rz to zero, rd down, ru up, rna away.
enum class Rounding { rn, rz, rd, ru, rna };

inline double to_whole(double value, Rounding rounding) {
    switch (rounding) {
        case Rounding::rz: return std::trunc(value);
        case Rounding::rd: return std::floor(value);
        case Rounding::ru: return std::ceil(value);
        case Rounding::rna: return std::round(value);
        default: return std::nearbyint(value);
    }
}

template <typename To> To to_integer(double value, Rounding rounding) {
    const double whole = to_whole(value, rounding);
    if (whole != whole) return 0;
    if (whole <= double(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (whole >= double(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return To(whole);
}

template <typename From> Float of_integer(From value, Rounding rounding) {
    const float nearest = float(value);
    const long double exact = value, got = nearest;
    if (got == exact || rounding == Rounding::rn) return nearest;
    const float up = got > exact ? nearest : std::nextafter(nearest, INFINITY);
    const float down = got < exact ? nearest : std::nextafter(nearest, -INFINITY);
    switch (rounding) {
        case Rounding::rd: return down;
        case Rounding::ru: return up;
        case Rounding::rz: return exact > 0 ? down : up;
        default:
            if ((long double)up - exact == exact - (long double)down) return exact > 0 ? up : down;
            return nearest;
    }
}

inline int narrowing(Rounding rounding) {
    switch (rounding) {
        case Rounding::rz: return 3;
        case Rounding::rd: return 1;
        case Rounding::ru: return 2;
        case Rounding::rna: return 4;
        default: return 0;
    }
}

}  // namespace hetir_shim

inline hetir_shim::Float __float2float_rn(hetir_shim::Float x) {
    return hetir_shim::to_whole(x.value, hetir_shim::Rounding::rn);
}
inline int32_t __float2int_rn(hetir_shim::Float x) {
    return hetir_shim::to_integer<int32_t>(x.value, hetir_shim::Rounding::rn);
}
inline hetir_shim::Float __int2float_rn(int32_t x) {
    return hetir_shim::of_integer(x, hetir_shim::Rounding::rn);
}
inline uint32_t __float2uint_rn(hetir_shim::Float x) {
    return hetir_shim::to_integer<uint32_t>(x.value, hetir_shim::Rounding::rn);
}
inline hetir_shim::Float __uint2float_rn(uint32_t x) {
    return hetir_shim::of_integer(x, hetir_shim::Rounding::rn);
}
inline int64_t __float2ll_rn(hetir_shim::Float x) {
    return hetir_shim::to_integer<int64_t>(x.value, hetir_shim::Rounding::rn);
}
inline hetir_shim::Float __ll2float_rn(int64_t x) {
    return hetir_shim::of_integer(x, hetir_shim::Rounding::rn);
}
inline uint64_t __float2ull_rn(hetir_shim::Float x) {
    return hetir_shim::to_integer<uint64_t>(x.value, hetir_shim::Rounding::rn);
}
inline hetir_shim::Float __ull2float_rn(uint64_t x) {
    return hetir_shim::of_integer(x, hetir_shim::Rounding::rn);
}
inline hetir_shim::Float __float2float_rz(hetir_shim::Float x) {
    return hetir_shim::to_whole(x.value, hetir_shim::Rounding::rz);
}
inline int32_t __float2int_rz(hetir_shim::Float x) {
    return hetir_shim::to_integer<int32_t>(x.value, hetir_shim::Rounding::rz);
}
inline hetir_shim::Float __int2float_rz(int32_t x) {
    return hetir_shim::of_integer(x, hetir_shim::Rounding::rz);
}
inline uint32_t __float2uint_rz(hetir_shim::Float x) {
    return hetir_shim::to_integer<uint32_t>(x.value, hetir_shim::Rounding::rz);
}
inline hetir_shim::Float __uint2float_rz(uint32_t x) {
    return hetir_shim::of_integer(x, hetir_shim::Rounding::rz);
}
inline int64_t __float2ll_rz(hetir_shim::Float x) {
    return hetir_shim::to_integer<int64_t>(x.value, hetir_shim::Rounding::rz);
}
inline hetir_shim::Float __ll2float_rz(int64_t x) {
    return hetir_shim::of_integer(x, hetir_shim::Rounding::rz);
}
inline uint64_t __float2ull_rz(hetir_shim::Float x) {
    return hetir_shim::to_integer<uint64_t>(x.value, hetir_shim::Rounding::rz);
}
inline hetir_shim::Float __ull2float_rz(uint64_t x) {
    return hetir_shim::of_integer(x, hetir_shim::Rounding::rz);
}
inline hetir_shim::Float __float2float_rd(hetir_shim::Float x) {
    return hetir_shim::to_whole(x.value, hetir_shim::Rounding::rd);
}
inline int32_t __float2int_rd(hetir_shim::Float x) {
    return hetir_shim::to_integer<int32_t>(x.value, hetir_shim::Rounding::rd);
}
inline hetir_shim::Float __int2float_rd(int32_t x) {
    return hetir_shim::of_integer(x, hetir_shim::Rounding::rd);
}
inline uint32_t __float2uint_rd(hetir_shim::Float x) {
    return hetir_shim::to_integer<uint32_t>(x.value, hetir_shim::Rounding::rd);
}
inline hetir_shim::Float __uint2float_rd(uint32_t x) {
    return hetir_shim::of_integer(x, hetir_shim::Rounding::rd);
}
inline int64_t __float2ll_rd(hetir_shim::Float x) {
    return hetir_shim::to_integer<int64_t>(x.value, hetir_shim::Rounding::rd);
}
inline hetir_shim::Float __ll2float_rd(int64_t x) {
    return hetir_shim::of_integer(x, hetir_shim::Rounding::rd);
}
inline uint64_t __float2ull_rd(hetir_shim::Float x) {
    return hetir_shim::to_integer<uint64_t>(x.value, hetir_shim::Rounding::rd);
}
inline hetir_shim::Float __ull2float_rd(uint64_t x) {
    return hetir_shim::of_integer(x, hetir_shim::Rounding::rd);
}
inline hetir_shim::Float __float2float_ru(hetir_shim::Float x) {
    return hetir_shim::to_whole(x.value, hetir_shim::Rounding::ru);
}
inline int32_t __float2int_ru(hetir_shim::Float x) {
    return hetir_shim::to_integer<int32_t>(x.value, hetir_shim::Rounding::ru);
}
inline hetir_shim::Float __int2float_ru(int32_t x) {
    return hetir_shim::of_integer(x, hetir_shim::Rounding::ru);
}
inline uint32_t __float2uint_ru(hetir_shim::Float x) {
    return hetir_shim::to_integer<uint32_t>(x.value, hetir_shim::Rounding::ru);
}
inline hetir_shim::Float __uint2float_ru(uint32_t x) {
    return hetir_shim::of_integer(x, hetir_shim::Rounding::ru);
}
inline int64_t __float2ll_ru(hetir_shim::Float x) {
    return hetir_shim::to_integer<int64_t>(x.value, hetir_shim::Rounding::ru);
}
inline hetir_shim::Float __ll2float_ru(int64_t x) {
    return hetir_shim::of_integer(x, hetir_shim::Rounding::ru);
}
inline uint64_t __float2ull_ru(hetir_shim::Float x) {
    return hetir_shim::to_integer<uint64_t>(x.value, hetir_shim::Rounding::ru);
}
inline hetir_shim::Float __ull2float_ru(uint64_t x) {
    return hetir_shim::of_integer(x, hetir_shim::Rounding::ru);
}
inline hetir_shim::Float __float2float_rna(hetir_shim::Float x) {
    return hetir_shim::to_whole(x.value, hetir_shim::Rounding::rna);
}
inline int32_t __float2int_rna(hetir_shim::Float x) {
    return hetir_shim::to_integer<int32_t>(x.value, hetir_shim::Rounding::rna);
}
inline hetir_shim::Float __int2float_rna(int32_t x) {
    return hetir_shim::of_integer(x, hetir_shim::Rounding::rna);
}
inline uint32_t __float2uint_rna(hetir_shim::Float x) {
    return hetir_shim::to_integer<uint32_t>(x.value, hetir_shim::Rounding::rna);
}
inline hetir_shim::Float __uint2float_rna(uint32_t x) {
    return hetir_shim::of_integer(x, hetir_shim::Rounding::rna);
}
inline int64_t __float2ll_rna(hetir_shim::Float x) {
    return hetir_shim::to_integer<int64_t>(x.value, hetir_shim::Rounding::rna);
}
inline hetir_shim::Float __ll2float_rna(int64_t x) {
    return hetir_shim::of_integer(x, hetir_shim::Rounding::rna);
}
inline uint64_t __float2ull_rna(hetir_shim::Float x) {
    return hetir_shim::to_integer<uint64_t>(x.value, hetir_shim::Rounding::rna);
}
inline hetir_shim::Float __ull2float_rna(uint64_t x) {
    return hetir_shim::of_integer(x, hetir_shim::Rounding::rna);
}

inline int32_t __clz(int32_t x) { return x == 0 ? 32 : __builtin_clz(uint32_t(x)); }
inline int32_t __clz(int64_t x) { return x == 0 ? 64 : __builtin_clzll(uint64_t(x)); }
inline int32_t __popc(uint32_t x) { return __builtin_popcount(x); }
inline int32_t __popc(uint64_t x) { return __builtin_popcountll(x); }
inline int32_t __ffs(int32_t x) { return __builtin_ffs(x); }
inline int32_t __ffs(int64_t x) { return __builtin_ffsll(x); }
inline uint64_t __brev(uint64_t x) {
    uint64_t reversed = 0;
    for (int i = 0; i < 64; ++i) reversed |= ((x >> i) & 1u) << (63 - i);
    return reversed;
}
inline uint32_t __brev(uint32_t x) { return uint32_t(__brev(uint64_t(x)) >> 32); }
inline int32_t __mulhi(int32_t x, int32_t y) { return int32_t((int64_t(x) * y) >> 32); }
inline uint32_t __umulhi(uint32_t x, uint32_t y) { return uint32_t((uint64_t(x) * y) >> 32); }
__extension__ typedef __int128 hetir_shim_wide;
__extension__ typedef unsigned __int128 hetir_shim_unsigned_wide;
inline int64_t __mul64hi(int64_t x, int64_t y) { return int64_t((hetir_shim_wide(x) * y) >> 64); }
inline uint64_t __umul64hi(uint64_t x, uint64_t y) {
    return uint64_t((hetir_shim_unsigned_wide(x) * y) >> 64);
}
inline int64_t __mul_i32toi64(int32_t x, int32_t y) { return int64_t(x) * y; }
template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>> T max(T x, T y) {
    return x > y ? x : y;
}
template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>> T min(T x, T y) {
    return x < y ? x : y;
}
inline uint32_t umax(uint32_t x, uint32_t y) { return x > y ? x : y; }
inline uint32_t umin(uint32_t x, uint32_t y) { return x < y ? x : y; }
inline int64_t llmax(int64_t x, int64_t y) { return x > y ? x : y; }
inline int64_t llmin(int64_t x, int64_t y) { return x < y ? x : y; }
inline uint64_t ullmax(uint64_t x, uint64_t y) { return x > y ? x : y; }
inline uint64_t ullmin(uint64_t x, uint64_t y) { return x < y ? x : y; }
