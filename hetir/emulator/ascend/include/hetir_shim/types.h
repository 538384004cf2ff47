// The element types of Ascend C that C++ lacks, and their numbering for the engine.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace hetir_shim {

inline float float_of_bits(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

inline uint32_t bits_of_float(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}

// IEEE binary16 in the low bits, widened exactly.
inline float widen_half(uint16_t bits) {
    const uint32_t sign = uint32_t(bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 31u, fraction = bits & 1023u;
    if (exponent == 31) return float_of_bits(sign | 0x7f800000u | (fraction << 13));
    if (exponent != 0) return float_of_bits(sign | ((exponent + 112) << 23) | (fraction << 13));
    const float magnitude = float(fraction) * (1.0f / 16777216.0f);
    return float_of_bits(sign | bits_of_float(magnitude));
}

// `rounding`: 0 nearest even, 1 down, 2 up, 3 to zero, 4 ties away from zero, 5 to odd.
inline uint16_t narrow_to_half(double value, int rounding) {
    uint64_t raw;
    std::memcpy(&raw, &value, 8);
    const uint16_t sign = uint16_t((raw >> 48) & 0x8000u);
    const int exponent = int((raw >> 52) & 2047) - 1023;
    const uint64_t fraction = raw & 0xfffffffffffffull;
    if (exponent == 1024) return uint16_t(sign | 0x7c00u | (fraction ? 0x200u : 0u));
    if ((raw << 1) == 0) return sign;
    const uint64_t significand = exponent == -1023 ? fraction : fraction | (1ull << 52);
    const int drop = exponent < -14 ? 42 + (-14 - exponent) : 42;
    uint64_t kept = drop > 62 ? 0 : significand >> drop;
    const uint64_t rest = drop > 62 ? 1 : significand & ((1ull << drop) - 1);
    const uint64_t half = drop > 62 ? 2 : 1ull << (drop - 1);
    const bool negative = sign != 0;
    bool up = false;
    switch (rounding) {
        case 0: up = rest > half || (rest == half && (kept & 1)); break;
        case 1: up = negative && rest != 0; break;
        case 2: up = !negative && rest != 0; break;
        case 4: up = rest >= half; break;
        case 5: kept |= rest != 0; break;
        default: break;
    }
    kept += up;
    const uint64_t biased = exponent < -14 ? 0 : uint64_t(exponent + 14) << 10;
    const uint64_t bits = biased + kept;
    if (bits < 0x7c00u) return uint16_t(sign | bits);
    const bool to_largest = rounding == 3 || rounding == 5 || (rounding == 1 && !negative) ||
                            (rounding == 2 && negative);
    return uint16_t(sign | (to_largest ? 0x7bffu : 0x7c00u));
}

inline uint16_t narrow_to_bfloat(float value, int rounding) {
    const uint32_t bits = bits_of_float(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return uint16_t((bits >> 16) | 0x40u);
    uint32_t kept = bits >> 16;
    const uint32_t rest = bits & 0xffffu;
    const bool negative = bits >> 31;
    switch (rounding) {
        case 0: return uint16_t(kept + (rest > 0x8000u || (rest == 0x8000u && (kept & 1))));
        case 1: return uint16_t(kept + (negative && rest != 0));
        case 2: return uint16_t(kept + (!negative && rest != 0));
        case 4: return uint16_t(kept + (rest >= 0x8000u));
        default: return uint16_t(kept);
    }
}

enum class Type : uint8_t { i8, u8, i16, u16, i32, u32, i64, u64, f16, bf16, f32, f64, other };

template <typename T> uint64_t to_bits(T value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    return bits;
}

template <typename T> T of_bits(uint64_t bits) {
    T value;
    std::memcpy(static_cast<void *>(&value), &bits, sizeof(T));
    return value;
}

}  // namespace hetir_shim

// Arithmetic goes through float: with 24 bits of significand it rounds as if done in one step.
struct half {
    uint16_t bits = 0;
    half() = default;
    template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
    half(T value) : bits(hetir_shim::narrow_to_half(double(value), 0)) {}
    operator float() const { return hetir_shim::widen_half(bits); }
};

struct bfloat16_t {
    uint16_t bits = 0;
    bfloat16_t() = default;
    explicit bfloat16_t(float value) : bits(hetir_shim::narrow_to_bfloat(value, 0)) {}
    explicit operator float() const { return hetir_shim::float_of_bits(uint32_t(bits) << 16); }
};

namespace hetir_shim {

template <typename T> constexpr Type type_of() {
    if constexpr (std::is_same_v<T, half>) return Type::f16;
    else if constexpr (std::is_same_v<T, bfloat16_t>) return Type::bf16;
    else if constexpr (std::is_same_v<T, float>) return Type::f32;
    else if constexpr (std::is_same_v<T, double>) return Type::f64;
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 1)
        return std::is_signed_v<T> ? Type::i8 : Type::u8;
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 2)
        return std::is_signed_v<T> ? Type::i16 : Type::u16;
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 4)
        return std::is_signed_v<T> ? Type::i32 : Type::u32;
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 8)
        return std::is_signed_v<T> ? Type::i64 : Type::u64;
    else return Type::other;
}

}  // namespace hetir_shim
