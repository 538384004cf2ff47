// The enumerations and parameter records of the interface.
#pragma once

#include "hetir_shim/engine.h"

enum pipe_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_FIX, PIPE_ALL };
enum event_t {
    EVENT_ID0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7
};

namespace AscendC {

using TEventID = int8_t;

enum KernelMetaType {
    KERNEL_TYPE_AIV_ONLY, KERNEL_TYPE_AIC_ONLY, KERNEL_TYPE_MIX_AIV_1_0, KERNEL_TYPE_MIX_AIC_1_0,
    KERNEL_TYPE_MIX_AIC_1_1, KERNEL_TYPE_MIX_AIC_1_2, KERNEL_TYPE_AICORE, KERNEL_TYPE_VECTORCORE
};

enum class TPosition : uint8_t { GM, A1, A2, B1, B2, C1, C2, CO1, CO2, VECIN, VECOUT, VECCALC };
using QuePosition = TPosition;

enum class Hardware : uint8_t { GM, UB, L1, L0A, L0B, L0C };

enum class HardEvent : uint8_t {
    MTE2_MTE3, MTE2_V, MTE2_S, MTE3_MTE2, MTE3_V, MTE3_S, V_MTE2, V_MTE3, V_S, S_MTE2, S_MTE3,
    S_V, V_V, MTE3_MTE3, MTE2_MTE2
};

enum class RoundMode {
    CAST_NONE, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD, CAST_HYBRID
};
enum class CMPMODE : uint8_t { LT, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t {
    VSEL_CMPMASK_SPR, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE
};
enum class CacheLine : uint64_t { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum class DcciDst : uint64_t { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };
enum class ReduceOrder {
    ORDER_VALUE_INDEX, ORDER_INDEX_VALUE, ORDER_ONLY_VALUE, ORDER_ONLY_INDEX
};
enum class SaturationMode : uint8_t { FLOAT, CAST };
enum class ReduceType { SUM, MAX, MIN };
enum class MemDsbT { ALL, DDR, UB, SEQ };

struct DataCopyParams {
    uint16_t blockCount = 1, blockLen = 0, srcGap = 0, dstGap = 0;
    DataCopyParams() = default;
    DataCopyParams(uint16_t count, uint16_t length, uint16_t source, uint16_t destination)
        : blockCount(count), blockLen(length), srcGap(source), dstGap(destination) {}
};

#if __NPU_ARCH__ == 3510
using CopyStride = int64_t;
#else
using CopyStride = uint32_t;
#endif

struct DataCopyExtParams {
    uint16_t blockCount = 1;
    uint32_t blockLen = 0;
    CopyStride srcStride = 0, dstStride = 0;
    uint32_t rsv = 0;
    DataCopyExtParams() = default;
    DataCopyExtParams(uint16_t count, uint32_t length, CopyStride source, CopyStride destination,
                      uint32_t reserved)
        : blockCount(count), blockLen(length), srcStride(source), dstStride(destination),
          rsv(reserved) {}
};

template <typename T> struct DataCopyPadExtParams {
    bool isPad = false;
    uint8_t leftPadding = 0, rightPadding = 0;
    T paddingValue = 0;
    DataCopyPadExtParams() = default;
    DataCopyPadExtParams(bool pads, uint8_t left, uint8_t right, T value)
        : isPad(pads), leftPadding(left), rightPadding(right), paddingValue(value) {}
};

struct UnaryRepeatParams {
    uint16_t dstBlkStride = 1, srcBlkStride = 1;
    uint8_t dstRepStride = 8, srcRepStride = 8;
    UnaryRepeatParams() = default;
    UnaryRepeatParams(uint16_t dst_block, uint16_t src_block, uint8_t dst_repeat,
                      uint8_t src_repeat)
        : dstBlkStride(dst_block), srcBlkStride(src_block), dstRepStride(dst_repeat),
          srcRepStride(src_repeat) {}
};

struct BinaryRepeatParams {
    uint8_t dstBlkStride = 1, src0BlkStride = 1, src1BlkStride = 1;
    uint8_t dstRepStride = 8, src0RepStride = 8, src1RepStride = 8;
    BinaryRepeatParams() = default;
    BinaryRepeatParams(uint8_t dst_block, uint8_t a_block, uint8_t b_block, uint8_t dst_repeat,
                       uint8_t a_repeat, uint8_t b_repeat)
        : dstBlkStride(dst_block), src0BlkStride(a_block), src1BlkStride(b_block),
          dstRepStride(dst_repeat), src0RepStride(a_repeat), src1RepStride(b_repeat) {}
};

}  // namespace AscendC

namespace hetir_shim {

constexpr Pipe pipe_of(pipe_t pipe) {
    switch (pipe) {
        case PIPE_S: return Pipe::S;
        case PIPE_V: return Pipe::V;
        case PIPE_M: return Pipe::M;
        case PIPE_MTE1: return Pipe::MTE1;
        case PIPE_MTE2: return Pipe::MTE2;
        case PIPE_MTE3: return Pipe::MTE3;
        case PIPE_FIX: return Pipe::FIX;
        default: return Pipe::ALL;
    }
}

constexpr Pipe source_of(AscendC::HardEvent event) {
    using E = AscendC::HardEvent;
    switch (event) {
        case E::MTE2_MTE3: case E::MTE2_V: case E::MTE2_S: case E::MTE2_MTE2: return Pipe::MTE2;
        case E::MTE3_MTE2: case E::MTE3_V: case E::MTE3_S: case E::MTE3_MTE3: return Pipe::MTE3;
        case E::V_MTE2: case E::V_MTE3: case E::V_S: case E::V_V: return Pipe::V;
        default: return Pipe::S;
    }
}

constexpr Pipe target_of(AscendC::HardEvent event) {
    using E = AscendC::HardEvent;
    switch (event) {
        case E::MTE3_MTE2: case E::V_MTE2: case E::S_MTE2: case E::MTE2_MTE2: return Pipe::MTE2;
        case E::MTE2_MTE3: case E::V_MTE3: case E::S_MTE3: case E::MTE3_MTE3: return Pipe::MTE3;
        case E::MTE2_V: case E::MTE3_V: case E::S_V: case E::V_V: return Pipe::V;
        default: return Pipe::S;
    }
}

}  // namespace hetir_shim
