// The mathematics of the SIMT mode. What the reference does not promise to round right is off by
// a few units; what it says to flush is flushed.
#pragma once

#include "hetir_shim/simt_float.h"

namespace hetir_shim {

constexpr int default_ulps = 2;

inline double power_of_ten(double x) { return std::pow(10.0, x); }

inline Float simt_result(double value, uint64_t operands, int ulps, bool flushes) {
    const float rough = simt_inexact(value, operands, ulps);
    return Float(flushes ? Float::flushed(rough) : rough);
}

}  // namespace hetir_shim

#define HETIR_SHIM_MATH(NAME, FUNCTION)                                                          \
    inline hetir_shim::Float NAME(hetir_shim::Float x) {                                         \
        return hetir_shim::simt_result(FUNCTION(double(x.value)), hetir_shim::to_bits(x),        \
                                       hetir_shim::default_ulps, false);                         \
    }
// For these the reference says that subnormal operands and results become zero.
#define HETIR_SHIM_FLUSHING(NAME, FUNCTION)                                                      \
    inline hetir_shim::Float NAME(hetir_shim::Float x) {                                         \
        return hetir_shim::simt_result(FUNCTION(double(hetir_shim::Float::flushed(x.value))),    \
                                       hetir_shim::to_bits(x), hetir_shim::default_ulps, true);  \
    }
HETIR_SHIM_FLUSHING(expf, std::exp)
HETIR_SHIM_FLUSHING(exp2f, std::exp2)
HETIR_SHIM_FLUSHING(exp10f, hetir_shim::power_of_ten)
HETIR_SHIM_FLUSHING(expm1f, std::expm1)
HETIR_SHIM_MATH(logf, std::log)
HETIR_SHIM_MATH(log2f, std::log2)
HETIR_SHIM_MATH(log10f, std::log10)
HETIR_SHIM_MATH(log1pf, std::log1p)
HETIR_SHIM_MATH(sinf, std::sin)
HETIR_SHIM_MATH(cosf, std::cos)
HETIR_SHIM_MATH(tanf, std::tan)
HETIR_SHIM_MATH(asinf, std::asin)
HETIR_SHIM_MATH(acosf, std::acos)
HETIR_SHIM_MATH(atanf, std::atan)
HETIR_SHIM_MATH(sinhf, std::sinh)
HETIR_SHIM_MATH(coshf, std::cosh)
HETIR_SHIM_MATH(tanhf, std::tanh)
HETIR_SHIM_MATH(asinhf, std::asinh)
HETIR_SHIM_MATH(acoshf, std::acosh)
HETIR_SHIM_MATH(atanhf, std::atanh)
HETIR_SHIM_MATH(erff, std::erf)
HETIR_SHIM_MATH(erfcf, std::erfc)
HETIR_SHIM_MATH(cbrtf, std::cbrt)
HETIR_SHIM_FLUSHING(sqrtf, std::sqrt)
HETIR_SHIM_MATH(tgammaf, std::tgamma)
HETIR_SHIM_MATH(lgammaf, std::lgamma)
#undef HETIR_SHIM_MATH
#undef HETIR_SHIM_FLUSHING

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
#define HETIR_SHIM_EXACT(NAME, FUNCTION)                                                         \
    inline hetir_shim::Float NAME(hetir_shim::Float x) { return FUNCTION(x.value); }
HETIR_SHIM_EXACT(fabsf, std::fabs)
HETIR_SHIM_EXACT(floorf, std::floor)
HETIR_SHIM_EXACT(ceilf, std::ceil)
HETIR_SHIM_EXACT(truncf, std::trunc)
HETIR_SHIM_EXACT(roundf, std::round)
HETIR_SHIM_EXACT(rintf, std::nearbyint)
HETIR_SHIM_EXACT(nearbyintf, std::nearbyint)
#undef HETIR_SHIM_EXACT

#define HETIR_SHIM_EXACT(NAME, FUNCTION)                                                         \
    inline hetir_shim::Float NAME(hetir_shim::Float x, hetir_shim::Float y) {                    \
        return FUNCTION(x.value, y.value);                                                       \
    }
HETIR_SHIM_EXACT(fmaxf, std::fmax)
HETIR_SHIM_EXACT(fminf, std::fmin)
HETIR_SHIM_EXACT(fmodf, std::fmod)
HETIR_SHIM_EXACT(copysignf, std::copysign)
HETIR_SHIM_EXACT(remainderf, std::remainder)
HETIR_SHIM_EXACT(nextafterf, std::nextafter)
HETIR_SHIM_EXACT(fdimf, std::fdim)
#undef HETIR_SHIM_EXACT

#define HETIR_SHIM_ROUGH(NAME, FUNCTION)                                                         \
    inline hetir_shim::Float NAME(hetir_shim::Float x, hetir_shim::Float y) {                    \
        return hetir_shim::simt_result(FUNCTION(double(x.value), double(y.value)),               \
                                       hetir_shim::to_bits(x) * 31 + hetir_shim::to_bits(y),     \
                                       hetir_shim::default_ulps, false);                         \
    }
HETIR_SHIM_ROUGH(hypotf, std::hypot)
HETIR_SHIM_ROUGH(atan2f, std::atan2)
#undef HETIR_SHIM_ROUGH

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

#define HETIR_SHIM_CONVERT(NAME, T, ROUNDING)                                                    \
    inline T __float2##NAME##_##ROUNDING(hetir_shim::Float x) {                                  \
        return hetir_shim::to_integer<T>(x.value, hetir_shim::Rounding::ROUNDING);               \
    }                                                                                            \
    inline hetir_shim::Float __##NAME##2float_##ROUNDING(T x) {                                  \
        return hetir_shim::of_integer(x, hetir_shim::Rounding::ROUNDING);                        \
    }
#define HETIR_SHIM_CONVERTS(ROUNDING)                                                            \
    inline hetir_shim::Float __float2float_##ROUNDING(hetir_shim::Float x) {                     \
        return hetir_shim::to_whole(x.value, hetir_shim::Rounding::ROUNDING);                    \
    }                                                                                            \
    HETIR_SHIM_CONVERT(int, int32_t, ROUNDING)                                                   \
    HETIR_SHIM_CONVERT(uint, uint32_t, ROUNDING)                                                 \
    HETIR_SHIM_CONVERT(ll, int64_t, ROUNDING)                                                    \
    HETIR_SHIM_CONVERT(ull, uint64_t, ROUNDING)
HETIR_SHIM_CONVERTS(rn)
HETIR_SHIM_CONVERTS(rz)
HETIR_SHIM_CONVERTS(rd)
HETIR_SHIM_CONVERTS(ru)
HETIR_SHIM_CONVERTS(rna)
#undef HETIR_SHIM_CONVERTS
#undef HETIR_SHIM_CONVERT

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
