// Which element types each vector operation takes on each architecture, from the tables of the
// published API reference.
#pragma once

#include "hetir_shim/engine.h"

namespace hetir_shim {

constexpr uint32_t bit(Type type) { return 1u << int(type); }

constexpr uint32_t t_b8 = bit(Type::i8) | bit(Type::u8);
constexpr uint32_t t_b16 = bit(Type::i16) | bit(Type::u16);
constexpr uint32_t t_b32 = bit(Type::i32) | bit(Type::u32);
constexpr uint32_t t_b64 = bit(Type::i64) | bit(Type::u64);
constexpr uint32_t t_float = bit(Type::f16) | bit(Type::f32);
constexpr uint32_t t_arith = t_float | bit(Type::i16) | bit(Type::i32);

// Architectures 2201 and 2002 agree but for the operations that the second switch names.
constexpr uint32_t allowed_simd(Op op, int arch) {
    switch (op) {
        case Op::add: case Op::sub: case Op::mul: case Op::max: case Op::min:
        case Op::adds: case Op::muls: case Op::maxs: case Op::mins: return t_arith;
        case Op::div: case Op::abs: case Op::exp: case Op::ln: case Op::sqrt: case Op::rsqrt:
        case Op::reciprocal: case Op::leaky_relu: case Op::axpy: case Op::mul_add_dst:
        case Op::fused_mul_add: case Op::select: case Op::select_scalar:
        case Op::reduce_sum: case Op::reduce_max: case Op::reduce_min: case Op::whole_sum:
        case Op::whole_max: case Op::whole_min: case Op::block_sum: case Op::block_max:
        case Op::block_min: case Op::pair_sum: return t_float;
        case Op::relu: return t_float | bit(Type::i32);
        case Op::bit_and: case Op::bit_or: case Op::bit_not: return t_b16;
        case Op::shift_left: case Op::shift_right: return t_b16 | t_b32;
        case Op::compare: case Op::compare_scalar:
            return arch == 2201 ? t_float | bit(Type::i32) : t_float;
        case Op::duplicate: return t_b16 | t_b32 | t_float | bit(Type::bf16);
        case Op::gather: case Op::broadcast_block:
            return t_b16 | t_b32 | t_float | (arch == 2201 ? bit(Type::bf16) : 0u);
        case Op::scatter:
            return arch == 2201 ? 0u : bit(Type::u16) | bit(Type::u32) | t_float;
        case Op::create_index: return t_arith;
        case Op::copy: return t_b16 | t_b32 | t_float | bit(Type::bf16);
        default: return 0;
    }
}

constexpr uint32_t allowed_3510(Op op) {
    const uint32_t ints = t_b8 | t_b16 | t_b32 | t_b64;
    switch (op) {
        case Op::add: case Op::sub: case Op::max: case Op::min:
            return ints | t_float | bit(Type::bf16);
        case Op::mul: return t_b16 | t_b32 | t_b64 | t_float | bit(Type::bf16);
        case Op::div: return t_b16 | t_b32 | t_b64 | t_float;
        case Op::bit_and: case Op::bit_or: case Op::shift_left: case Op::shift_right: return ints;
        case Op::bit_not: return ints | t_float;
        case Op::abs: return bit(Type::i8) | bit(Type::i64) | t_arith;
        case Op::relu: return t_float | bit(Type::i32) | bit(Type::i64);
        case Op::adds: case Op::maxs: case Op::mins:
            return t_b8 | t_b64 | t_arith | bit(Type::bf16);
        case Op::muls: return t_b64 | t_arith | bit(Type::bf16);
        case Op::exp: case Op::ln: case Op::leaky_relu: return t_float;
        case Op::sqrt: case Op::rsqrt: case Op::reciprocal: case Op::axpy: case Op::mul_add_dst:
            return t_float | t_b64;
        case Op::fused_mul_add: return t_float | t_b64 | bit(Type::bf16);
        case Op::select: case Op::select_scalar: case Op::gather: case Op::scatter:
        case Op::duplicate: case Op::copy: case Op::broadcast_block:
            return ints | t_float | bit(Type::bf16);
        case Op::compare: case Op::compare_scalar:
            return ints | t_float | bit(Type::bf16) | bit(Type::f64);
        case Op::reduce_sum: case Op::whole_sum: return t_float | t_b64;
        case Op::reduce_max: case Op::reduce_min: return t_b16 | t_b32 | t_b64 | t_float;
        case Op::whole_max: case Op::whole_min: return t_b16 | t_b32 | t_float;
        case Op::block_sum: case Op::block_max: case Op::block_min: case Op::pair_sum:
            return t_float;
        case Op::create_index: return t_arith | bit(Type::i8) | bit(Type::i64);
        default: return 0;
    }
}

constexpr bool allowed(Op op, Type type) {
    return type != Type::other &&
           (((__NPU_ARCH__ == 3510 ? allowed_3510(op) : allowed_simd(op, __NPU_ARCH__)) >>
             int(type)) & 1u);
}

// Rounding modes by their place in RoundMode; none 0, rint 1, floor 2, ceil 3, round 4, trunc 5,
// odd 6. `m_five` is rint to trunc.
constexpr uint32_t m_none = 1u << 0, m_rint = 1u << 1, m_five = 62u, m_odd = 1u << 6;
constexpr uint32_t m_directed = m_five & ~m_rint;

constexpr uint32_t cast_modes_2201(Type from, Type to) {
    const bool small = to == Type::i8 || to == Type::u8;
    switch (from) {
        case Type::i8: case Type::u8: return to == Type::f16 ? m_none : 0;
        case Type::i16:
            return to == Type::f16 ? m_five | m_none : to == Type::f32 ? m_none : 0;
        case Type::f16:
            if (small) return m_five | m_none;
            if (to == Type::i16 || to == Type::i32) return m_five;
            return to == Type::f32 ? m_none : 0;
        case Type::bf16: return to == Type::i32 ? m_five : to == Type::f32 ? m_none : 0;
        case Type::i32:
            if (to == Type::i16 || to == Type::i64) return m_none;
            return to == Type::f32 ? m_five | m_none : 0;
        case Type::f32:
            if (to == Type::f16) return m_five | m_odd | m_none;
            return to == Type::i16 || to == Type::bf16 || to == Type::i32 || to == Type::f32 ||
                           to == Type::i64
                       ? m_five
                       : 0;
        case Type::i64: return to == Type::i32 ? m_none : to == Type::f32 ? m_five : 0;
        default: return 0;
    }
}

constexpr uint32_t cast_modes_2002(Type from, Type to) {
    const bool small = to == Type::i8 || to == Type::u8;
    switch (from) {
        case Type::i8: case Type::u8: case Type::i16: return to == Type::f16 ? m_none : 0;
        case Type::f16:
            if (small) return m_directed | m_none;
            if (to == Type::i16) return m_rint;
            if (to == Type::i32) return m_five;
            return to == Type::f32 ? m_none : 0;
        case Type::i32:
            return to == Type::i16 || to == Type::f32 ? m_none : 0;
        case Type::f32:
            return to == Type::f16 ? m_odd | m_none : to == Type::i64 ? m_five : 0;
        default: return 0;
    }
}

constexpr uint32_t cast_modes_3510(Type from, Type to) {
    switch (from) {
        case Type::i8: return to == Type::i16 || to == Type::f16 || to == Type::i32 ? m_none : 0;
        case Type::u8: return to == Type::u16 || to == Type::f16 || to == Type::u32 ? m_none : 0;
        case Type::i16:
            if (to == Type::f16) return m_five;
            return to == Type::u8 || to == Type::i32 || to == Type::u32 || to == Type::f32 ? m_none
                                                                                          : 0;
        case Type::u16: return to == Type::u8 || to == Type::u32 ? m_none : 0;
        case Type::f16:
            if (to == Type::f32) return m_none;
            return to == Type::i8 || to == Type::u8 || to == Type::i16 || to == Type::bf16 ||
                           to == Type::i32
                       ? m_five
                       : 0;
        case Type::bf16:
            if (to == Type::f32) return m_none;
            return to == Type::f16 || to == Type::i32 ? m_five : 0;
        case Type::i32:
            if (to == Type::f32) return m_five;
            return to == Type::u8 || to == Type::i16 || to == Type::u16 || to == Type::i64
                       ? m_none
                       : 0;
        case Type::u32: return to == Type::u8 || to == Type::i16 || to == Type::u16 ? m_none : 0;
        case Type::f32:
            if (to == Type::f16) return m_five | m_odd | m_none;
            return to == Type::i16 || to == Type::bf16 || to == Type::i32 || to == Type::f32 ||
                           to == Type::i64
                       ? m_five
                       : 0;
        case Type::i64:
            return to == Type::i32 ? m_none : to == Type::f32 || to == Type::f64 ? m_five : 0;
        case Type::f64:
            if (to == Type::i32 || to == Type::i64) return 1u << 5;
            return to == Type::bf16 || to == Type::f32 ? m_five : 0;
        default: return 0;
    }
}

constexpr uint32_t cast_modes(Type from, Type to) {
    return __NPU_ARCH__ == 3510   ? cast_modes_3510(from, to)
           : __NPU_ARCH__ == 2201 ? cast_modes_2201(from, to)
                                  : cast_modes_2002(from, to);
}

}  // namespace hetir_shim
