// The float of the SIMT mode: IEEE but for division, which takes subnormal operands for zero.
#pragma once

#include "hetir_shim/simt.h"

namespace hetir_shim {

struct Float {
    float value;

    Float() = default;
    template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
    constexpr Float(T from) : value(static_cast<float>(from)) {}
    Float(half from) : value(float(from)) {}
    // templates, so that the class stays trivial to copy
    template <typename V, typename = std::enable_if_t<std::is_same_v<V, volatile Float>>,
              typename = void>
    Float(V &from) : value(from.value) {}
    template <typename T, typename = std::enable_if_t<std::is_same_v<T, Float>>>
    void operator=(const T &from) volatile {
        value = from.value;
    }
    explicit Float(bfloat16_t from) : value(float(from)) {}
    template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
    constexpr explicit operator T() const {
        return static_cast<T>(value);
    }
    explicit operator half() const { return half(value); }
    explicit operator bfloat16_t() const { return bfloat16_t(value); }

    Float operator-() const { return Float(-value); }
    Float operator+() const { return *this; }
    Float &operator+=(Float other) { return *this = Float(value + other.value); }
    Float &operator-=(Float other) { return *this = Float(value - other.value); }
    Float &operator*=(Float other) { return *this = Float(value * other.value); }
    Float &operator/=(Float other) { return *this = *this / other; }
    friend Float operator+(Float a, Float b) { return Float(a.value + b.value); }
    friend Float operator-(Float a, Float b) { return Float(a.value - b.value); }
    friend Float operator*(Float a, Float b) { return Float(a.value * b.value); }
    friend Float operator/(Float a, Float b) { return Float(flushed(a.value) / flushed(b.value)); }
    friend bool operator<(Float a, Float b) { return a.value < b.value; }
    friend bool operator>(Float a, Float b) { return a.value > b.value; }
    friend bool operator<=(Float a, Float b) { return a.value <= b.value; }
    friend bool operator>=(Float a, Float b) { return a.value >= b.value; }
    friend bool operator==(Float a, Float b) { return a.value == b.value; }
    friend bool operator!=(Float a, Float b) { return a.value != b.value; }

    static float flushed(float operand) {
        const bool subnormal = std::fabs(operand) < std::numeric_limits<float>::min();
        return subnormal ? std::copysign(0.0f, operand) : operand;
    }
};
static_assert(sizeof(Float) == 4 && std::is_trivially_copyable_v<Float>);

// The element type that stands behind a type of the source.
template <typename T> constexpr Type simt_type() {
    if constexpr (std::is_same_v<T, Float>) return Type::f32;
    else return type_of<T>();
}

}  // namespace hetir_shim

namespace std {
template <> class numeric_limits<hetir_shim::Float> : public numeric_limits<float> {};
}  // namespace std
