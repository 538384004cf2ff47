"""The conformance kernels in Ascend C: scalar code on one core, with hetir's calling convention."""

SOURCE = """#include "kernel_operator.h"

using namespace AscendC;

constexpr int64_t kHead = 48;  // grid and workgroup come before the arguments

template <typename T> __aicore__ inline T Read(uint64_t address) {
    GlobalTensor<T> tensor;
    tensor.SetGlobalBuffer((__gm__ T *)address);
    return tensor.GetValue(0);
}

template <typename T> __aicore__ inline void Write(uint64_t address, T value) {
    GlobalTensor<T> tensor;
    tensor.SetGlobalBuffer((__gm__ T *)address);
    tensor.SetValue(0, value);
}

__aicore__ inline void Clean(GM_ADDR launch) {
    GlobalTensor<uint8_t> memory;
    memory.SetGlobalBuffer(launch);
    DataCacheCleanAndInvalid<uint8_t, CacheLine::ENTIRE_DATA_CACHE>(memory);
}

extern "C" __global__ __aicore__ void saxpy(GM_ADDR x, GM_ADDR y, GM_ADDR launch) {
    const uint64_t base = (uint64_t)launch;
    int64_t items = 1;
    for (int i = 0; i < 6; ++i) {
        items *= Read<int64_t>(base + 8 * i);
    }
    const float a = Read<float>(base + kHead);
    const int64_t xs = Read<int64_t>(base + kHead + 24), ys = Read<int64_t>(base + kHead + 48);
    const int64_t n = Read<int64_t>(base + kHead + 40);
    for (int64_t i = 0; GetBlockIdx() == 0 && i < n && i < items; ++i) {
        const float product = a * Read<float>((uint64_t)x + i * xs);
        const uint64_t at = (uint64_t)y + i * ys;
        Write<float>(at, Read<float>(at) + product);
    }
    Clean(launch);
}

extern "C" __global__ __aicore__ void dump(GM_ADDR out, GM_ADDR, GM_ADDR launch) {
    const uint64_t base = (uint64_t)launch, to = (uint64_t)out;
    const int64_t size = Read<int64_t>(base + kHead + 8) - kHead;
    for (int64_t i = 0; GetBlockIdx() == 0 && i < size; i += 8) {
        Write<uint64_t>(to + i, Read<uint64_t>(base + kHead + i));
    }
    for (int64_t i = 0; GetBlockIdx() == 0 && i < kHead; i += 8) {
        Write<uint64_t>(to + size + i, Read<uint64_t>(base + i));
    }
    Clean(launch);
}

extern "C" __global__ __aicore__ void scale2d(GM_ADDR x, GM_ADDR launch) {
    const uint64_t base = (uint64_t)launch + kHead;
    const int64_t n = Read<int64_t>(base + 8), m = Read<int64_t>(base + 16);
    const int64_t ns = Read<int64_t>(base + 24), ms = Read<int64_t>(base + 32);
    for (int64_t i = 0; GetBlockIdx() == 0 && i < n; ++i) {
        for (int64_t k = 0; k < m; ++k) {
            const uint64_t at = (uint64_t)x + i * ns + k * ms;
            Write<float>(at, Read<float>(at) * 2);
        }
    }
    Clean(launch);
}

extern "C" __global__ __aicore__ void fails(GM_ADDR) {
    Trap();
}

extern "C" __global__ __aicore__ void spin(GM_ADDR) {
    for (volatile int64_t i = 0; i < 1;) {
    }
}

extern "C" __global__ __aicore__ void writes_record(GM_ADDR launch) {
    const uint64_t records = Read<uint64_t>((uint64_t)launch + kHead);
    if (GetBlockIdx() == 0) {
        Write<uint64_t>(records + 8, 8);
        Write<uint64_t>(records + 16, 0x1122334455667788);
    }
    Clean(launch);
}
"""
