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

// Each of these has the forms of the reference: by count, by a number of lanes and by a bit for
// each lane; the last two with repeats and strides.
#define HETIR_SHIM_BINARY(NAME, OP)                                                              \
    template <typename T>                                                                        \
    void NAME(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, \
              const int32_t &count, int line = __builtin_LINE()) {                               \
        hetir_shim::run<Op::OP, T>(#NAME, dst, src0, &src1, T(), uint32_t(count), {}, line);     \
    }                                                                                            \
    template <typename T, bool isSetMask = true>                                                 \
    void NAME(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, \
              uint64_t mask, const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,   \
              int line = __builtin_LINE()) {                                                     \
        const auto repeat = hetir_shim::masked(mask, sizeof(T), repeatTime);                     \
        hetir_shim::run<Op::OP, T>(#NAME, dst, src0, &src1, T(), 0,                              \
                                   hetir_shim::strided(repeat, repeatParams), line);             \
    }                                                                                            \
    template <typename T, bool isSetMask = true>                                                 \
    void NAME(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, \
              const uint64_t mask[], const uint8_t repeatTime,                                   \
              const BinaryRepeatParams &repeatParams, int line = __builtin_LINE()) {             \
        const auto repeat = hetir_shim::masked(mask, repeatTime);                                \
        hetir_shim::run<Op::OP, T>(#NAME, dst, src0, &src1, T(), 0,                              \
                                   hetir_shim::strided(repeat, repeatParams), line);             \
    }
HETIR_SHIM_BINARY(Add, add)
HETIR_SHIM_BINARY(Sub, sub)
HETIR_SHIM_BINARY(Mul, mul)
HETIR_SHIM_BINARY(Div, div)
HETIR_SHIM_BINARY(Max, max)
HETIR_SHIM_BINARY(Min, min)
HETIR_SHIM_BINARY(And, bit_and)
HETIR_SHIM_BINARY(Or, bit_or)
HETIR_SHIM_BINARY(MulAddDst, mul_add_dst)
HETIR_SHIM_BINARY(FusedMulAdd, fused_mul_add)
#undef HETIR_SHIM_BINARY

#define HETIR_SHIM_UNARY(NAME, OP)                                                               \
    template <typename T>                                                                        \
    void NAME(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t &count,        \
              int line = __builtin_LINE()) {                                                     \
        const LocalTensor<T> *none = nullptr;                                                    \
        hetir_shim::run<Op::OP, T>(#NAME, dst, src, none, T(), uint32_t(count), {}, line);       \
    }                                                                                            \
    template <typename T, bool isSetMask = true>                                                 \
    void NAME(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint64_t mask,               \
              const uint8_t repeatTime, const UnaryRepeatParams &repeatParams,                   \
              int line = __builtin_LINE()) {                                                     \
        const LocalTensor<T> *none = nullptr;                                                    \
        const auto repeat = hetir_shim::masked(mask, sizeof(T), repeatTime);                     \
        hetir_shim::run<Op::OP, T>(#NAME, dst, src, none, T(), 0,                                \
                                   hetir_shim::strided(repeat, repeatParams), line);             \
    }                                                                                            \
    template <typename T, bool isSetMask = true>                                                 \
    void NAME(const LocalTensor<T> &dst, const LocalTensor<T> &src, const uint64_t mask[],       \
              const uint8_t repeatTime, const UnaryRepeatParams &repeatParams,                   \
              int line = __builtin_LINE()) {                                                     \
        const LocalTensor<T> *none = nullptr;                                                    \
        const auto repeat = hetir_shim::masked(mask, repeatTime);                                \
        hetir_shim::run<Op::OP, T>(#NAME, dst, src, none, T(), 0,                                \
                                   hetir_shim::strided(repeat, repeatParams), line);             \
    }
HETIR_SHIM_UNARY(Abs, abs)
HETIR_SHIM_UNARY(Exp, exp)
HETIR_SHIM_UNARY(Ln, ln)
HETIR_SHIM_UNARY(Sqrt, sqrt)
HETIR_SHIM_UNARY(Rsqrt, rsqrt)
HETIR_SHIM_UNARY(Reciprocal, reciprocal)
HETIR_SHIM_UNARY(Relu, relu)
HETIR_SHIM_UNARY(Not, bit_not)
#undef HETIR_SHIM_UNARY

#define HETIR_SHIM_SCALAR(NAME, OP)                                                              \
    template <typename T, typename U>                                                            \
    void NAME(const LocalTensor<T> &dst, const LocalTensor<T> &src, const U &scalarValue,        \
              const int32_t &count, int line = __builtin_LINE()) {                               \
        const LocalTensor<T> *none = nullptr;                                                    \
        hetir_shim::run<Op::OP, T>(#NAME, dst, src, none, static_cast<T>(scalarValue),           \
                                   uint32_t(count), {}, line);                                   \
    }                                                                                            \
    template <typename T, typename U, bool isSetMask = true>                                     \
    void NAME(const LocalTensor<T> &dst, const LocalTensor<T> &src, const U &scalarValue,        \
              uint64_t mask, const uint8_t repeatTime, const UnaryRepeatParams &repeatParams,    \
              int line = __builtin_LINE()) {                                                     \
        const LocalTensor<T> *none = nullptr;                                                    \
        const auto repeat = hetir_shim::masked(mask, sizeof(T), repeatTime);                     \
        hetir_shim::run<Op::OP, T>(#NAME, dst, src, none, static_cast<T>(scalarValue), 0,        \
                                   hetir_shim::strided(repeat, repeatParams), line);             \
    }                                                                                            \
    template <typename T, typename U, bool isSetMask = true>                                     \
    void NAME(const LocalTensor<T> &dst, const LocalTensor<T> &src, const U &scalarValue,        \
              const uint64_t mask[], const uint8_t repeatTime,                                   \
              const UnaryRepeatParams &repeatParams, int line = __builtin_LINE()) {              \
        const LocalTensor<T> *none = nullptr;                                                    \
        const auto repeat = hetir_shim::masked(mask, repeatTime);                                \
        hetir_shim::run<Op::OP, T>(#NAME, dst, src, none, static_cast<T>(scalarValue), 0,        \
                                   hetir_shim::strided(repeat, repeatParams), line);             \
    }
HETIR_SHIM_SCALAR(Adds, adds)
HETIR_SHIM_SCALAR(Muls, muls)
HETIR_SHIM_SCALAR(Maxs, maxs)
HETIR_SHIM_SCALAR(Mins, mins)
HETIR_SHIM_SCALAR(ShiftLeft, shift_left)
HETIR_SHIM_SCALAR(ShiftRight, shift_right)
HETIR_SHIM_SCALAR(LeakyRelu, leaky_relu)
HETIR_SHIM_SCALAR(Axpy, axpy)
#undef HETIR_SHIM_SCALAR

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
template <typename T, typename U, bool isSetMask = true>
void Cast(const LocalTensor<T> &dst, const LocalTensor<U> &src, const RoundMode &roundMode,
          const uint64_t mask, const uint8_t repeatTime, const UnaryRepeatParams &repeatParams,
          int line = __builtin_LINE()) {
    hetir_shim::need_cast<U, T>(roundMode, line);
    auto instruction = hetir_shim::start("Cast", Op::cast, dst, src, line);
    constexpr uint32_t bytes = sizeof(T) > sizeof(U) ? sizeof(T) : sizeof(U);
    instruction.kind = int(roundMode);
    instruction.repeat =
        hetir_shim::strided(hetir_shim::masked(mask, bytes, repeatTime), repeatParams);
    hetir_shim::issue(instruction);
}

#define HETIR_SHIM_REDUCE(NAME, OP)                                                              \
    template <typename T>                                                                        \
    void NAME(const LocalTensor<T> &dst, const LocalTensor<T> &src,                              \
              const LocalTensor<T> &sharedTmpBuffer, const int32_t count, bool calIndex = false, \
              int line = __builtin_LINE()) {                                                     \
        hetir_shim::need<Op::OP, T>(#NAME, line);                                                \
        auto instruction = hetir_shim::start(#NAME, Op::OP, dst, src, line);                     \
        instruction.b = sharedTmpBuffer.checked(line);                                           \
        instruction.kind = calIndex;                                                             \
        instruction.count = uint32_t(count);                                                     \
        hetir_shim::issue(instruction);                                                          \
    }
HETIR_SHIM_REDUCE(ReduceMax, reduce_max)
HETIR_SHIM_REDUCE(ReduceMin, reduce_min)
#undef HETIR_SHIM_REDUCE

template <typename T, bool isSetMask = true>
void ReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src,
               const LocalTensor<T> &sharedTmpBuffer, const int32_t count,
               int line = __builtin_LINE()) {
    hetir_shim::need<Op::reduce_sum, T>("ReduceSum", line);
    auto instruction = hetir_shim::start("ReduceSum", Op::reduce_sum, dst, src, line);
    instruction.b = sharedTmpBuffer.checked(line);
    instruction.count = uint32_t(count);
    hetir_shim::issue(instruction);
}

}  // namespace AscendC

namespace hetir_shim {

struct Parts {
    int32_t mask, times, dst_repeat, block, repeat;
};

template <Op op, typename T>
void reduce_parts(const char *name, const Local<T> &dst, const Local<T> &src, const Parts &parts,
                  AscendC::ReduceOrder order, int line) {
    need<op, T>(name, line);
    auto instruction = start(name, op, dst, src, line);
    instruction.repeat = masked(uint64_t(parts.mask), sizeof(T), uint32_t(parts.times));
    instruction.repeat.dst_repeat = uint32_t(parts.dst_repeat);
    instruction.repeat.a_block = uint32_t(parts.block);
    instruction.repeat.a_repeat = uint32_t(parts.repeat);
    instruction.kind = int(order);
    issue(instruction);
}

}  // namespace hetir_shim

namespace AscendC {

// One result a repeat, a block or a pair, by the names of the reference.
template <ReduceType kind, typename T, typename U, bool isSetMask = true>
void ReduceRepeat(const LocalTensor<T> &dst, const LocalTensor<U> &src, const int32_t mask,
                  const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,
                  const int32_t srcRepStride,
                  ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX, int line = __builtin_LINE()) {
    static_assert(std::is_same_v<T, U>, "ReduceRepeat keeps the element type");
    constexpr Op op = kind == ReduceType::SUM   ? Op::whole_sum
                      : kind == ReduceType::MAX ? Op::whole_max
                                                : Op::whole_min;
    hetir_shim::reduce_parts<op>("ReduceRepeat", dst, src,
                                 {mask, repeatTime, dstRepStride, srcBlkStride, srcRepStride},
                                 order, line);
}
template <ReduceType kind, typename T, typename U, bool isSetMask = true>
void ReduceDataBlock(const LocalTensor<T> &dst, const LocalTensor<U> &src, const int32_t mask,
                     const int32_t repeatTime, const int32_t dstRepStride,
                     const int32_t srcBlkStride, const int32_t srcRepStride,
                     int line = __builtin_LINE()) {
    static_assert(std::is_same_v<T, U>, "ReduceDataBlock keeps the element type");
    constexpr Op op = kind == ReduceType::SUM   ? Op::block_sum
                      : kind == ReduceType::MAX ? Op::block_max
                                                : Op::block_min;
    hetir_shim::reduce_parts<op>("ReduceDataBlock", dst, src,
                                 {mask, repeatTime, dstRepStride, srcBlkStride, srcRepStride},
                                 ReduceOrder::ORDER_ONLY_VALUE, line);
}
template <ReduceType kind, typename T, typename U, bool isSetMask = true>
void ReducePairElem(const LocalTensor<T> &dst, const LocalTensor<U> &src, const int32_t mask,
                    const int32_t repeatTime, const int32_t dstRepStride,
                    const int32_t srcBlkStride, const int32_t srcRepStride,
                    int line = __builtin_LINE()) {
    static_assert(kind == ReduceType::SUM, "ReducePairElem adds");
    static_assert(std::is_same_v<T, U>, "ReducePairElem keeps the element type");
    hetir_shim::reduce_parts<Op::pair_sum>("ReducePairElem", dst, src,
                                           {mask, repeatTime, dstRepStride, srcBlkStride,
                                            srcRepStride},
                                           ReduceOrder::ORDER_ONLY_VALUE, line);
}

// Their older names.
#define HETIR_SHIM_WHOLE(NAME, KIND)                                                             \
    template <typename T, bool isSetMask = true>                                                 \
    void NAME(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t mask,          \
              const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,  \
              const int32_t srcRepStride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX,    \
              int line = __builtin_LINE()) {                                                     \
        ReduceRepeat<ReduceType::KIND>(dst, src, mask, repeatTime, dstRepStride, srcBlkStride,   \
                                       srcRepStride, order, line);                               \
    }
HETIR_SHIM_WHOLE(WholeReduceMax, MAX)
HETIR_SHIM_WHOLE(WholeReduceMin, MIN)
#undef HETIR_SHIM_WHOLE

template <typename T, bool isSetMask = true>
void WholeReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t mask,
                    const int32_t repeatTime, const int32_t dstRepStride,
                    const int32_t srcBlkStride, const int32_t srcRepStride,
                    int line = __builtin_LINE()) {
    ReduceRepeat<ReduceType::SUM>(dst, src, mask, repeatTime, dstRepStride, srcBlkStride,
                                  srcRepStride, ReduceOrder::ORDER_ONLY_VALUE, line);
}

#define HETIR_SHIM_BLOCK(NAME, KIND)                                                             \
    template <typename T, bool isSetMask = true>                                                 \
    void NAME(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t repeatTime,    \
              const int32_t mask, const int32_t dstRepStride, const int32_t srcBlkStride,        \
              const int32_t srcRepStride, int line = __builtin_LINE()) {                         \
        ReduceDataBlock<ReduceType::KIND>(dst, src, mask, repeatTime, dstRepStride,              \
                                          srcBlkStride, srcRepStride, line);                     \
    }
HETIR_SHIM_BLOCK(BlockReduceSum, SUM)
HETIR_SHIM_BLOCK(BlockReduceMax, MAX)
HETIR_SHIM_BLOCK(BlockReduceMin, MIN)
#undef HETIR_SHIM_BLOCK

template <typename T, bool isSetMask = true>
void PairReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t repeatTime,
                   const int32_t mask, const int32_t dstRepStride, const int32_t srcBlkStride,
                   const int32_t srcRepStride, int line = __builtin_LINE()) {
    ReducePairElem<ReduceType::SUM>(dst, src, mask, repeatTime, dstRepStride, srcBlkStride,
                                    srcRepStride, line);
}

}  // namespace AscendC
