// The vector operations: their forms by count, by mask and by repeats, checked for element type.
#pragma once

#include "hetir_shim/tensor.h"

namespace hetir_shim {


template <Op op, typename T> void need(const char *name, int line) {
#ifdef HETIR_SHIM_LATE_TYPES
    if (!allowed(op, type_of<T>()))
        refuse("type", line, "%s does not take %s on architecture %d", name,
               type_name(type_of<T>()), __NPU_ARCH__);
#else
    static_assert(allowed(op, type_of<T>()),
                  "this vector operation does not take this element type on this architecture");
    static_cast<void>(name);
    static_cast<void>(line);
#endif
}

inline Repeat masked(uint64_t elements, uint32_t bytes, uint32_t times) {
    Repeat repeat;
    repeat.on = true;
    const uint32_t lanes = 256 / bytes;
    for (uint64_t lane = 0; lane < elements && lane < 128; ++lane)
        repeat.mask[lane / 64] |= 1ull << (lane % 64);
    if (elements > lanes) repeat.times = ~0u;  // the engine refuses it
    else repeat.times = times;
    return repeat;
}

inline Repeat masked(const uint64_t *mask, uint32_t times) {
    Repeat repeat;
    repeat.on = true;
    repeat.mask[0] = mask[0];
    repeat.mask[1] = mask[1];
    repeat.times = times;
    return repeat;
}

inline Repeat strided(Repeat repeat, const AscendC::BinaryRepeatParams &params) {
    repeat.dst_block = params.dstBlkStride;
    repeat.a_block = params.src0BlkStride;
    repeat.b_block = params.src1BlkStride;
    repeat.dst_repeat = params.dstRepStride;
    repeat.a_repeat = params.src0RepStride;
    repeat.b_repeat = params.src1RepStride;
    return repeat;
}

inline Repeat strided(Repeat repeat, const AscendC::UnaryRepeatParams &params) {
    repeat.dst_block = params.dstBlkStride;
    repeat.a_block = params.srcBlkStride;
    repeat.dst_repeat = params.dstRepStride;
    repeat.a_repeat = params.srcRepStride;
    return repeat;
}

template <typename T> using Local = AscendC::LocalTensor<T>;

template <typename D, typename A>
Instruction start(const char *name, Op op, const Local<D> &dst, const Local<A> &a, int line) {
    Instruction instruction{};
    instruction.name = name;
    instruction.op = op;
    instruction.dst = dst.checked(line);
    instruction.a = a.checked(line);
    instruction.line = line;
    return instruction;
}

template <Op op, typename D, typename T>
void run(const char *name, const Local<D> &dst, const Local<T> &a, const Local<T> *b, T scalar,
         uint32_t count, const Repeat &repeat, int line) {
    need<op, T>(name, line);
    Instruction instruction = start(name, op, dst, a, line);
    if (b) instruction.b = b->checked(line);
    instruction.scalar = to_bits(scalar);
    instruction.count = count;
    instruction.repeat = repeat;
    issue(instruction);
}

template <Op op, typename T, typename U>
void compare(const char *name, const Local<U> &dst, const Local<T> &a, const Local<T> *b, T scalar,
             AscendC::CMPMODE mode, uint32_t count, int line) {
    static_assert(sizeof(U) == 1 && std::is_integral_v<U>, "compare results are bits in bytes");
    need<op, T>(name, line);
    Instruction instruction = start(name, op, dst, a, line);
    if (b) instruction.b = b->checked(line);
    instruction.scalar = to_bits(scalar);
    instruction.kind = int(mode);
    instruction.count = count;
    issue(instruction);
}

// On 910B and 310P an int32_t converts to half with SetDeqScale alone, which the shim leaves out.
template <typename From, typename To> void need_cast(AscendC::RoundMode mode, int line) {
    constexpr uint32_t modes = cast_modes(type_of<From>(), type_of<To>());
#ifdef HETIR_SHIM_LATE_TYPES
    if (modes == 0)
        refuse("type", line, "Cast does not take %s to %s on architecture %d",
               type_name(type_of<From>()), type_name(type_of<To>()), __NPU_ARCH__);
#else
    static_assert(modes != 0, "Cast does not take these element types on this architecture");
#endif
    if (!((modes >> int(mode)) & 1u))
        refuse("type", line, "Cast from %s to %s takes no rounding mode %d on architecture %d",
               type_name(type_of<From>()), type_name(type_of<To>()), int(mode), __NPU_ARCH__);
}

}  // namespace hetir_shim

namespace AscendC {

using hetir_shim::Op;


template <typename T>
void Add(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    const int32_t &count, int line = __builtin_LINE()) {
    hetir_shim::run<Op::add, T>("Add", dst, src0, &src1, T(), uint32_t(count), {}, line);
}
template <typename T, bool isSetMask = true>
void Add(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    uint64_t mask, const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::add, T>("Add", dst, src0, &src1, T(), 0,
        hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams), line);
}
template <typename T, bool isSetMask = true>
void Add(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    uint64_t mask[], const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::add, T>("Add", dst, src0, &src1, T(), 0,
        hetir_shim::strided(hetir_shim::masked(mask, repeatTime), repeatParams), line);
}

template <typename T>
void Sub(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    const int32_t &count, int line = __builtin_LINE()) {
    hetir_shim::run<Op::sub, T>("Sub", dst, src0, &src1, T(), uint32_t(count), {}, line);
}
template <typename T, bool isSetMask = true>
void Sub(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    uint64_t mask, const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::sub, T>("Sub", dst, src0, &src1, T(), 0,
        hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams), line);
}
template <typename T, bool isSetMask = true>
void Sub(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    uint64_t mask[], const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::sub, T>("Sub", dst, src0, &src1, T(), 0,
        hetir_shim::strided(hetir_shim::masked(mask, repeatTime), repeatParams), line);
}

template <typename T>
void Mul(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    const int32_t &count, int line = __builtin_LINE()) {
    hetir_shim::run<Op::mul, T>("Mul", dst, src0, &src1, T(), uint32_t(count), {}, line);
}
template <typename T, bool isSetMask = true>
void Mul(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    uint64_t mask, const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::mul, T>("Mul", dst, src0, &src1, T(), 0,
        hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams), line);
}
template <typename T, bool isSetMask = true>
void Mul(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    uint64_t mask[], const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::mul, T>("Mul", dst, src0, &src1, T(), 0,
        hetir_shim::strided(hetir_shim::masked(mask, repeatTime), repeatParams), line);
}

template <typename T>
void Div(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    const int32_t &count, int line = __builtin_LINE()) {
    hetir_shim::run<Op::div, T>("Div", dst, src0, &src1, T(), uint32_t(count), {}, line);
}
template <typename T, bool isSetMask = true>
void Div(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    uint64_t mask, const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::div, T>("Div", dst, src0, &src1, T(), 0,
        hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams), line);
}
template <typename T, bool isSetMask = true>
void Div(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    uint64_t mask[], const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::div, T>("Div", dst, src0, &src1, T(), 0,
        hetir_shim::strided(hetir_shim::masked(mask, repeatTime), repeatParams), line);
}

template <typename T>
void Max(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    const int32_t &count, int line = __builtin_LINE()) {
    hetir_shim::run<Op::max, T>("Max", dst, src0, &src1, T(), uint32_t(count), {}, line);
}
template <typename T, bool isSetMask = true>
void Max(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    uint64_t mask, const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::max, T>("Max", dst, src0, &src1, T(), 0,
        hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams), line);
}
template <typename T, bool isSetMask = true>
void Max(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    uint64_t mask[], const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::max, T>("Max", dst, src0, &src1, T(), 0,
        hetir_shim::strided(hetir_shim::masked(mask, repeatTime), repeatParams), line);
}

template <typename T>
void Min(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    const int32_t &count, int line = __builtin_LINE()) {
    hetir_shim::run<Op::min, T>("Min", dst, src0, &src1, T(), uint32_t(count), {}, line);
}
template <typename T, bool isSetMask = true>
void Min(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    uint64_t mask, const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::min, T>("Min", dst, src0, &src1, T(), 0,
        hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams), line);
}
template <typename T, bool isSetMask = true>
void Min(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    uint64_t mask[], const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::min, T>("Min", dst, src0, &src1, T(), 0,
        hetir_shim::strided(hetir_shim::masked(mask, repeatTime), repeatParams), line);
}

template <typename T>
void And(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    const int32_t &count, int line = __builtin_LINE()) {
    hetir_shim::run<Op::bit_and, T>("And", dst, src0, &src1, T(), uint32_t(count), {}, line);
}
template <typename T, bool isSetMask = true>
void And(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    uint64_t mask, const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::bit_and, T>("And", dst, src0, &src1, T(), 0,
        hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams), line);
}
template <typename T, bool isSetMask = true>
void And(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    uint64_t mask[], const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::bit_and, T>("And", dst, src0, &src1, T(), 0,
        hetir_shim::strided(hetir_shim::masked(mask, repeatTime), repeatParams), line);
}

template <typename T>
void Or(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    const int32_t &count, int line = __builtin_LINE()) {
    hetir_shim::run<Op::bit_or, T>("Or", dst, src0, &src1, T(), uint32_t(count), {}, line);
}
template <typename T, bool isSetMask = true>
void Or(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    uint64_t mask, const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::bit_or, T>("Or", dst, src0, &src1, T(), 0,
        hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams), line);
}
template <typename T, bool isSetMask = true>
void Or(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    uint64_t mask[], const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::bit_or, T>("Or", dst, src0, &src1, T(), 0,
        hetir_shim::strided(hetir_shim::masked(mask, repeatTime), repeatParams), line);
}

template <typename T>
void MulAddDst(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    const int32_t &count, int line = __builtin_LINE()) {
    hetir_shim::run<Op::mul_add_dst, T>("MulAddDst", dst, src0, &src1, T(), uint32_t(count), {}, line);
}
template <typename T, bool isSetMask = true>
void MulAddDst(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    uint64_t mask, const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::mul_add_dst, T>("MulAddDst", dst, src0, &src1, T(), 0,
        hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams), line);
}
template <typename T, bool isSetMask = true>
void MulAddDst(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    uint64_t mask[], const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::mul_add_dst, T>("MulAddDst", dst, src0, &src1, T(), 0,
        hetir_shim::strided(hetir_shim::masked(mask, repeatTime), repeatParams), line);
}

template <typename T>
void FusedMulAdd(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    const int32_t &count, int line = __builtin_LINE()) {
    hetir_shim::run<Op::fused_mul_add, T>("FusedMulAdd", dst, src0, &src1, T(), uint32_t(count), {}, line);
}
template <typename T, bool isSetMask = true>
void FusedMulAdd(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    uint64_t mask, const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::fused_mul_add, T>("FusedMulAdd", dst, src0, &src1, T(), 0,
        hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams), line);
}
template <typename T, bool isSetMask = true>
void FusedMulAdd(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
    uint64_t mask[], const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::fused_mul_add, T>("FusedMulAdd", dst, src0, &src1, T(), 0,
        hetir_shim::strided(hetir_shim::masked(mask, repeatTime), repeatParams), line);
}

template <typename T>
void Abs(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t &count,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::abs, T>("Abs", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        T(), uint32_t(count), {}, line);
}
template <typename T, bool isSetMask = true>
void Abs(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint64_t mask,
    const uint8_t repeatTime, const UnaryRepeatParams &repeatParams, int line = __builtin_LINE()) {
    hetir_shim::run<Op::abs, T>("Abs", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        T(), 0, hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams),
        line);
}

template <typename T>
void Exp(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t &count,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::exp, T>("Exp", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        T(), uint32_t(count), {}, line);
}
template <typename T, bool isSetMask = true>
void Exp(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint64_t mask,
    const uint8_t repeatTime, const UnaryRepeatParams &repeatParams, int line = __builtin_LINE()) {
    hetir_shim::run<Op::exp, T>("Exp", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        T(), 0, hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams),
        line);
}

template <typename T>
void Ln(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t &count,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::ln, T>("Ln", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        T(), uint32_t(count), {}, line);
}
template <typename T, bool isSetMask = true>
void Ln(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint64_t mask,
    const uint8_t repeatTime, const UnaryRepeatParams &repeatParams, int line = __builtin_LINE()) {
    hetir_shim::run<Op::ln, T>("Ln", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        T(), 0, hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams),
        line);
}

template <typename T>
void Sqrt(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t &count,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::sqrt, T>("Sqrt", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        T(), uint32_t(count), {}, line);
}
template <typename T, bool isSetMask = true>
void Sqrt(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint64_t mask,
    const uint8_t repeatTime, const UnaryRepeatParams &repeatParams, int line = __builtin_LINE()) {
    hetir_shim::run<Op::sqrt, T>("Sqrt", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        T(), 0, hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams),
        line);
}

template <typename T>
void Rsqrt(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t &count,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::rsqrt, T>("Rsqrt", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        T(), uint32_t(count), {}, line);
}
template <typename T, bool isSetMask = true>
void Rsqrt(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint64_t mask,
    const uint8_t repeatTime, const UnaryRepeatParams &repeatParams, int line = __builtin_LINE()) {
    hetir_shim::run<Op::rsqrt, T>("Rsqrt", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        T(), 0, hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams),
        line);
}

template <typename T>
void Reciprocal(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t &count,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::reciprocal, T>("Reciprocal", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        T(), uint32_t(count), {}, line);
}
template <typename T, bool isSetMask = true>
void Reciprocal(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint64_t mask,
    const uint8_t repeatTime, const UnaryRepeatParams &repeatParams, int line = __builtin_LINE()) {
    hetir_shim::run<Op::reciprocal, T>("Reciprocal", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        T(), 0, hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams),
        line);
}

template <typename T>
void Relu(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t &count,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::relu, T>("Relu", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        T(), uint32_t(count), {}, line);
}
template <typename T, bool isSetMask = true>
void Relu(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint64_t mask,
    const uint8_t repeatTime, const UnaryRepeatParams &repeatParams, int line = __builtin_LINE()) {
    hetir_shim::run<Op::relu, T>("Relu", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        T(), 0, hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams),
        line);
}

template <typename T>
void Not(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t &count,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::bit_not, T>("Not", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        T(), uint32_t(count), {}, line);
}
template <typename T, bool isSetMask = true>
void Not(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint64_t mask,
    const uint8_t repeatTime, const UnaryRepeatParams &repeatParams, int line = __builtin_LINE()) {
    hetir_shim::run<Op::bit_not, T>("Not", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        T(), 0, hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams),
        line);
}

template <typename T, typename U>
void Adds(const LocalTensor<T> &dst, const LocalTensor<T> &src, const U &scalarValue,
    const int32_t &count, int line = __builtin_LINE()) {
    hetir_shim::run<Op::adds, T>("Adds", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        static_cast<T>(scalarValue), uint32_t(count), {}, line);
}
template <typename T, typename U, bool isSetMask = true>
void Adds(const LocalTensor<T> &dst, const LocalTensor<T> &src, const U &scalarValue,
    uint64_t mask, const uint8_t repeatTime, const UnaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::adds, T>("Adds", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        static_cast<T>(scalarValue), 0,
        hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams), line);
}

template <typename T, typename U>
void Muls(const LocalTensor<T> &dst, const LocalTensor<T> &src, const U &scalarValue,
    const int32_t &count, int line = __builtin_LINE()) {
    hetir_shim::run<Op::muls, T>("Muls", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        static_cast<T>(scalarValue), uint32_t(count), {}, line);
}
template <typename T, typename U, bool isSetMask = true>
void Muls(const LocalTensor<T> &dst, const LocalTensor<T> &src, const U &scalarValue,
    uint64_t mask, const uint8_t repeatTime, const UnaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::muls, T>("Muls", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        static_cast<T>(scalarValue), 0,
        hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams), line);
}

template <typename T, typename U>
void Maxs(const LocalTensor<T> &dst, const LocalTensor<T> &src, const U &scalarValue,
    const int32_t &count, int line = __builtin_LINE()) {
    hetir_shim::run<Op::maxs, T>("Maxs", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        static_cast<T>(scalarValue), uint32_t(count), {}, line);
}
template <typename T, typename U, bool isSetMask = true>
void Maxs(const LocalTensor<T> &dst, const LocalTensor<T> &src, const U &scalarValue,
    uint64_t mask, const uint8_t repeatTime, const UnaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::maxs, T>("Maxs", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        static_cast<T>(scalarValue), 0,
        hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams), line);
}

template <typename T, typename U>
void Mins(const LocalTensor<T> &dst, const LocalTensor<T> &src, const U &scalarValue,
    const int32_t &count, int line = __builtin_LINE()) {
    hetir_shim::run<Op::mins, T>("Mins", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        static_cast<T>(scalarValue), uint32_t(count), {}, line);
}
template <typename T, typename U, bool isSetMask = true>
void Mins(const LocalTensor<T> &dst, const LocalTensor<T> &src, const U &scalarValue,
    uint64_t mask, const uint8_t repeatTime, const UnaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::mins, T>("Mins", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        static_cast<T>(scalarValue), 0,
        hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams), line);
}

template <typename T, typename U>
void ShiftLeft(const LocalTensor<T> &dst, const LocalTensor<T> &src, const U &scalarValue,
    const int32_t &count, int line = __builtin_LINE()) {
    hetir_shim::run<Op::shift_left, T>("ShiftLeft", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        static_cast<T>(scalarValue), uint32_t(count), {}, line);
}
template <typename T, typename U, bool isSetMask = true>
void ShiftLeft(const LocalTensor<T> &dst, const LocalTensor<T> &src, const U &scalarValue,
    uint64_t mask, const uint8_t repeatTime, const UnaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::shift_left, T>("ShiftLeft", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        static_cast<T>(scalarValue), 0,
        hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams), line);
}

template <typename T, typename U>
void ShiftRight(const LocalTensor<T> &dst, const LocalTensor<T> &src, const U &scalarValue,
    const int32_t &count, int line = __builtin_LINE()) {
    hetir_shim::run<Op::shift_right, T>("ShiftRight", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        static_cast<T>(scalarValue), uint32_t(count), {}, line);
}
template <typename T, typename U, bool isSetMask = true>
void ShiftRight(const LocalTensor<T> &dst, const LocalTensor<T> &src, const U &scalarValue,
    uint64_t mask, const uint8_t repeatTime, const UnaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::shift_right, T>("ShiftRight", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        static_cast<T>(scalarValue), 0,
        hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams), line);
}

template <typename T, typename U>
void LeakyRelu(const LocalTensor<T> &dst, const LocalTensor<T> &src, const U &scalarValue,
    const int32_t &count, int line = __builtin_LINE()) {
    hetir_shim::run<Op::leaky_relu, T>("LeakyRelu", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        static_cast<T>(scalarValue), uint32_t(count), {}, line);
}
template <typename T, typename U, bool isSetMask = true>
void LeakyRelu(const LocalTensor<T> &dst, const LocalTensor<T> &src, const U &scalarValue,
    uint64_t mask, const uint8_t repeatTime, const UnaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::leaky_relu, T>("LeakyRelu", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        static_cast<T>(scalarValue), 0,
        hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams), line);
}

template <typename T, typename U>
void Axpy(const LocalTensor<T> &dst, const LocalTensor<T> &src, const U &scalarValue,
    const int32_t &count, int line = __builtin_LINE()) {
    hetir_shim::run<Op::axpy, T>("Axpy", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        static_cast<T>(scalarValue), uint32_t(count), {}, line);
}
template <typename T, typename U, bool isSetMask = true>
void Axpy(const LocalTensor<T> &dst, const LocalTensor<T> &src, const U &scalarValue,
    uint64_t mask, const uint8_t repeatTime, const UnaryRepeatParams &repeatParams,
    int line = __builtin_LINE()) {
    hetir_shim::run<Op::axpy, T>("Axpy", dst, src, static_cast<const LocalTensor<T> *>(nullptr),
        static_cast<T>(scalarValue), 0,
        hetir_shim::strided(hetir_shim::masked(mask, sizeof(T), repeatTime), repeatParams), line);
}

template <typename T, typename U>
void Compare(const LocalTensor<U> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
             CMPMODE cmpMode, uint32_t count, int line = __builtin_LINE()) {
    hetir_shim::compare<Op::compare>("Compare", dst, src0, &src1, T(), cmpMode, count, line);
}
template <typename T, typename U>
void CompareScalar(const LocalTensor<U> &dst, const LocalTensor<T> &src0, const T src1Scalar,
                   CMPMODE cmpMode, uint32_t count, int line = __builtin_LINE()) {
    hetir_shim::compare<Op::compare_scalar>("CompareScalar", dst, src0,
                                            static_cast<const LocalTensor<T> *>(nullptr),
                                            src1Scalar, cmpMode, count, line);
}
template <typename T, typename U>
void Compares(const LocalTensor<U> &dst, const LocalTensor<T> &src0, const T src1Scalar,
              CMPMODE cmpMode, uint32_t count, int line = __builtin_LINE()) {
    CompareScalar(dst, src0, src1Scalar, cmpMode, count, line);
}

template <typename T, typename U>
void Select(const LocalTensor<T> &dst, const LocalTensor<U> &selMask, const LocalTensor<T> &src0,
            const LocalTensor<T> &src1, SELMODE selMode, uint32_t count,
            int line = __builtin_LINE()) {
    hetir_shim::need<Op::select, T>("Select", line);
    auto instruction = hetir_shim::start("Select", Op::select, dst, src0, line);
    instruction.b = src1.checked(line);
    instruction.c = selMask.checked(line);
    instruction.kind = int(selMode);
    instruction.count = count;
    hetir_shim::issue(instruction);
}
template <typename T, typename U>
void Select(const LocalTensor<T> &dst, const LocalTensor<U> &selMask, const LocalTensor<T> &src0,
            std::common_type_t<T> src1, SELMODE selMode, uint32_t count,
            int line = __builtin_LINE()) {
    hetir_shim::need<Op::select_scalar, T>("Select", line);
    auto instruction = hetir_shim::start("Select", Op::select_scalar, dst, src0, line);
    instruction.c = selMask.checked(line);
    instruction.scalar = hetir_shim::to_bits(src1);
    instruction.kind = int(selMode);
    instruction.count = count;
    hetir_shim::issue(instruction);
}

template <typename T>
void Duplicate(const LocalTensor<T> &dst, const std::common_type_t<T> &scalarValue,
               const int32_t &count, int line = __builtin_LINE()) {
    hetir_shim::need<Op::duplicate, T>("Duplicate", line);
    auto instruction = hetir_shim::start("Duplicate", Op::duplicate, dst, dst, line);
    instruction.scalar = hetir_shim::to_bits(scalarValue);
    instruction.count = uint32_t(count);
    hetir_shim::issue(instruction);
}
template <typename T, bool isSetMask = true>
void Duplicate(const LocalTensor<T> &dst, const std::common_type_t<T> &scalarValue, uint64_t mask,
               const uint8_t repeatTime, const uint16_t dstBlockStride,
               const uint8_t dstRepeatStride, int line = __builtin_LINE()) {
    hetir_shim::need<Op::duplicate, T>("Duplicate", line);
    auto instruction = hetir_shim::start("Duplicate", Op::duplicate, dst, dst, line);
    instruction.scalar = hetir_shim::to_bits(scalarValue);
    instruction.repeat = hetir_shim::masked(mask, sizeof(T), repeatTime);
    instruction.repeat.dst_block = instruction.repeat.a_block = dstBlockStride;
    instruction.repeat.dst_repeat = instruction.repeat.a_repeat = dstRepeatStride;
    hetir_shim::issue(instruction);
}

template <typename T>
void CreateVecIndex(const LocalTensor<T> &dst, const std::common_type_t<T> &firstValue,
                    uint32_t count, int line = __builtin_LINE()) {
    hetir_shim::need<Op::create_index, T>("CreateVecIndex", line);
    auto instruction = hetir_shim::start("CreateVecIndex", Op::create_index, dst, dst, line);
    instruction.scalar = hetir_shim::to_bits(firstValue);
    instruction.count = count;
    hetir_shim::issue(instruction);
}

template <typename T>
void Gather(const LocalTensor<T> &dst, const LocalTensor<T> &src,
            const LocalTensor<uint32_t> &srcOffset, const uint32_t srcBaseAddr,
            const uint32_t count, int line = __builtin_LINE()) {
    hetir_shim::need<Op::gather, T>("Gather", line);
    auto instruction = hetir_shim::start("Gather", Op::gather, dst, src, line);
    instruction.b = srcOffset.checked(line);
    instruction.scalar = srcBaseAddr;
    instruction.count = count;
    hetir_shim::issue(instruction);
}
template <typename T>
void Scatter(const LocalTensor<T> &dst, const LocalTensor<T> &src,
             const LocalTensor<uint32_t> &dstOffset, const uint32_t dstBaseAddr,
             const uint32_t count, int line = __builtin_LINE()) {
    hetir_shim::need<Op::scatter, T>("Scatter", line);
    auto instruction = hetir_shim::start("Scatter", Op::scatter, dst, src, line);
    instruction.b = dstOffset.checked(line);
    instruction.scalar = dstBaseAddr;
    instruction.count = count;
    hetir_shim::issue(instruction);
}

template <typename T, typename U>
void Cast(const LocalTensor<T> &dst, const LocalTensor<U> &src, const RoundMode &roundMode,
          const uint32_t count, int line = __builtin_LINE()) {
    hetir_shim::need_cast<U, T>(roundMode, line);
    auto instruction = hetir_shim::start("Cast", Op::cast, dst, src, line);
    instruction.kind = int(roundMode);
    instruction.count = count;
    hetir_shim::issue(instruction);
}


template <typename T>
void ReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src,
    const LocalTensor<T> &sharedTmpBuffer, const int32_t count,
    int line = __builtin_LINE()) {
    hetir_shim::need<Op::reduce_sum, T>("ReduceSum", line);
    auto instruction = hetir_shim::start("ReduceSum", Op::reduce_sum, dst, src, line);
    instruction.b = sharedTmpBuffer.checked(line);
    instruction.kind = 0;
    instruction.count = uint32_t(count);
    hetir_shim::issue(instruction);
}

template <typename T>
void ReduceMax(const LocalTensor<T> &dst, const LocalTensor<T> &src,
    const LocalTensor<T> &sharedTmpBuffer, const int32_t count, bool calIndex = false,
    int line = __builtin_LINE()) {
    hetir_shim::need<Op::reduce_max, T>("ReduceMax", line);
    auto instruction = hetir_shim::start("ReduceMax", Op::reduce_max, dst, src, line);
    instruction.b = sharedTmpBuffer.checked(line);
    instruction.kind = calIndex;
    instruction.count = uint32_t(count);
    hetir_shim::issue(instruction);
}

template <typename T>
void ReduceMin(const LocalTensor<T> &dst, const LocalTensor<T> &src,
    const LocalTensor<T> &sharedTmpBuffer, const int32_t count, bool calIndex = false,
    int line = __builtin_LINE()) {
    hetir_shim::need<Op::reduce_min, T>("ReduceMin", line);
    auto instruction = hetir_shim::start("ReduceMin", Op::reduce_min, dst, src, line);
    instruction.b = sharedTmpBuffer.checked(line);
    instruction.kind = calIndex;
    instruction.count = uint32_t(count);
    hetir_shim::issue(instruction);
}

template <typename T, bool isSetMask = true>
void WholeReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t mask, const int32_t repeatTime,
    const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,
    int line = __builtin_LINE()) {
    hetir_shim::need<Op::whole_sum, T>("WholeReduceSum", line);
    auto instruction = hetir_shim::start("WholeReduceSum", Op::whole_sum, dst, src, line);
    instruction.repeat = hetir_shim::masked(uint64_t(mask), sizeof(T), uint32_t(repeatTime));
    instruction.repeat.dst_repeat = uint32_t(dstRepStride);
    instruction.repeat.a_block = uint32_t(srcBlkStride);
    instruction.repeat.a_repeat = uint32_t(srcRepStride);
    instruction.kind = 0;
    hetir_shim::issue(instruction);
}

template <typename T, bool isSetMask = true>
void WholeReduceMax(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t mask, const int32_t repeatTime,
    const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX,
    int line = __builtin_LINE()) {
    hetir_shim::need<Op::whole_max, T>("WholeReduceMax", line);
    auto instruction = hetir_shim::start("WholeReduceMax", Op::whole_max, dst, src, line);
    instruction.repeat = hetir_shim::masked(uint64_t(mask), sizeof(T), uint32_t(repeatTime));
    instruction.repeat.dst_repeat = uint32_t(dstRepStride);
    instruction.repeat.a_block = uint32_t(srcBlkStride);
    instruction.repeat.a_repeat = uint32_t(srcRepStride);
    instruction.kind = int(order);
    hetir_shim::issue(instruction);
}

template <typename T, bool isSetMask = true>
void WholeReduceMin(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t mask, const int32_t repeatTime,
    const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX,
    int line = __builtin_LINE()) {
    hetir_shim::need<Op::whole_min, T>("WholeReduceMin", line);
    auto instruction = hetir_shim::start("WholeReduceMin", Op::whole_min, dst, src, line);
    instruction.repeat = hetir_shim::masked(uint64_t(mask), sizeof(T), uint32_t(repeatTime));
    instruction.repeat.dst_repeat = uint32_t(dstRepStride);
    instruction.repeat.a_block = uint32_t(srcBlkStride);
    instruction.repeat.a_repeat = uint32_t(srcRepStride);
    instruction.kind = int(order);
    hetir_shim::issue(instruction);
}

template <typename T, bool isSetMask = true>
void BlockReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t repeatTime, const int32_t mask,
    const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,
    int line = __builtin_LINE()) {
    hetir_shim::need<Op::block_sum, T>("BlockReduceSum", line);
    auto instruction = hetir_shim::start("BlockReduceSum", Op::block_sum, dst, src, line);
    instruction.repeat = hetir_shim::masked(uint64_t(mask), sizeof(T), uint32_t(repeatTime));
    instruction.repeat.dst_repeat = uint32_t(dstRepStride);
    instruction.repeat.a_block = uint32_t(srcBlkStride);
    instruction.repeat.a_repeat = uint32_t(srcRepStride);
    instruction.kind = 0;
    hetir_shim::issue(instruction);
}

template <typename T, bool isSetMask = true>
void BlockReduceMax(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t repeatTime, const int32_t mask,
    const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,
    int line = __builtin_LINE()) {
    hetir_shim::need<Op::block_max, T>("BlockReduceMax", line);
    auto instruction = hetir_shim::start("BlockReduceMax", Op::block_max, dst, src, line);
    instruction.repeat = hetir_shim::masked(uint64_t(mask), sizeof(T), uint32_t(repeatTime));
    instruction.repeat.dst_repeat = uint32_t(dstRepStride);
    instruction.repeat.a_block = uint32_t(srcBlkStride);
    instruction.repeat.a_repeat = uint32_t(srcRepStride);
    instruction.kind = 0;
    hetir_shim::issue(instruction);
}

template <typename T, bool isSetMask = true>
void BlockReduceMin(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t repeatTime, const int32_t mask,
    const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,
    int line = __builtin_LINE()) {
    hetir_shim::need<Op::block_min, T>("BlockReduceMin", line);
    auto instruction = hetir_shim::start("BlockReduceMin", Op::block_min, dst, src, line);
    instruction.repeat = hetir_shim::masked(uint64_t(mask), sizeof(T), uint32_t(repeatTime));
    instruction.repeat.dst_repeat = uint32_t(dstRepStride);
    instruction.repeat.a_block = uint32_t(srcBlkStride);
    instruction.repeat.a_repeat = uint32_t(srcRepStride);
    instruction.kind = 0;
    hetir_shim::issue(instruction);
}

template <typename T, bool isSetMask = true>
void PairReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t mask, const int32_t repeatTime,
    const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,
    int line = __builtin_LINE()) {
    hetir_shim::need<Op::pair_sum, T>("PairReduceSum", line);
    auto instruction = hetir_shim::start("PairReduceSum", Op::pair_sum, dst, src, line);
    instruction.repeat = hetir_shim::masked(uint64_t(mask), sizeof(T), uint32_t(repeatTime));
    instruction.repeat.dst_repeat = uint32_t(dstRepStride);
    instruction.repeat.a_block = uint32_t(srcBlkStride);
    instruction.repeat.a_repeat = uint32_t(srcRepStride);
    instruction.kind = 0;
    hetir_shim::issue(instruction);
}

}  // namespace AscendC
