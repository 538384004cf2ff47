// saxpy, from saxpy.py: Ascend C for 310p (arch 2002).
// Work-items are lanes of vectors in the Unified Buffer: workgroups of 256 x 1 x 1.
// `launch` holds int64 counts of workgroups [3] and work-items [3], then the arguments.
#include "kernel_operator.h"

using namespace AscendC;

// How many of the first lanes lie below `stop`: a lane's number times `factor` after `first`.
__aicore__ inline int32_t LanesBelow(int64_t first, int64_t stop, int32_t lanes,
                                     int32_t factor = 1) {
    if (first >= stop) return 0;
    const uint64_t room = static_cast<uint64_t>(stop) - static_cast<uint64_t>(first);
    const uint64_t below = (room - 1) / static_cast<uint64_t>(factor) + 1;
    return below < static_cast<uint64_t>(lanes) ? static_cast<int32_t>(below) : lanes;
}

// The element that lies `offset` bytes after an address.
template <typename T> __aicore__ inline GlobalTensor<T> Global(GM_ADDR base, int64_t offset) {
    GlobalTensor<T> found;
    found.SetGlobalBuffer(reinterpret_cast<__gm__ T *>(base + offset));
    return found;
}

template <typename T> __aicore__ inline T LoadGlobal(GM_ADDR base, int64_t offset) {
    return Global<T>(base, offset).GetValue(0);
}

// Through the cache: the line is that of memory, and is written back at once.
template <typename T> __aicore__ inline void StoreGlobal(GM_ADDR base, int64_t offset, T value) {
    GlobalTensor<T> place = Global<T>(base, offset);
    DataCacheCleanAndInvalid<T, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(place);
    place.SetValue(0, value);
    DataCacheCleanAndInvalid<T, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(place);
}

// `count` elements to the Unified Buffer, and what follows them in the last block of 32 bytes.
template <typename T>
__aicore__ inline void CopyBlocksIn(const LocalTensor<T> &to, GM_ADDR from, int64_t offset,
                                    int32_t count) {
    constexpr int32_t block = 32 / sizeof(T);
    if (count <= 0) return;
    GlobalTensor<T> row;
    row.SetGlobalBuffer(reinterpret_cast<__gm__ T *>(from + offset), count);
    DataCopy(to, row, (count + block - 1) / block * block);
}

// The whole blocks of 32 bytes among `count` elements.
template <typename T>
__aicore__ inline void CopyBlocksOut(GM_ADDR to, int64_t offset, const LocalTensor<T> &from,
                                     int32_t count) {
    constexpr int32_t block = 32 / sizeof(T);
    if (count < block) return;
    DataCopy(Global<T>(to, offset), from, count / block * block);
}

// The elements after the last whole block.
template <typename T>
__aicore__ inline void StoreTail(GM_ADDR to, int64_t offset, const LocalTensor<T> &from,
                                 int32_t count) {
    constexpr int32_t block = 32 / sizeof(T);
    for (int32_t at = count / block * block; at < count; ++at) {
        StoreGlobal<T>(to, offset + at * static_cast<int64_t>(sizeof(T)), from.GetValue(at));
    }
}

constexpr int32_t kLanes = 256;

extern "C" __global__ __aicore__ void hetir_saxpy(GM_ADDR x, GM_ADDR y, GM_ADDR launch) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 2048);
    const LocalTensor<float> mul = buffer.GetWithOffset<float>(256, 0);
    const LocalTensor<float> add = buffer.GetWithOffset<float>(256, 1024);
    TQue<TPosition::VECIN, 2> x_lanes_queue;
    pipe.InitBuffer(x_lanes_queue, 2, 1024);
    TQue<TPosition::VECIN, 2> y_lanes_queue;
    pipe.InitBuffer(y_lanes_queue, 2, 1024);
    const int64_t groups_x = LoadGlobal<int64_t>(launch, 0);
    const int64_t groups_y = LoadGlobal<int64_t>(launch, 8);
    const int64_t groups_z = LoadGlobal<int64_t>(launch, 16);
    const int64_t groups = groups_x * groups_y * groups_z;
    if (GetBlockIdx() != 0) return;
    const float a = LoadGlobal<float>(launch, 48);
    const int64_t x_extent0 = LoadGlobal<int64_t>(launch, 64);
    for (int64_t group = 0; group < groups; ++group) {
        const int64_t group_x = group % groups_x;
        const int64_t start_x = group_x * 256;
        // saxpy.py:13
        const int32_t lanes_end = LanesBelow(start_x, x_extent0, 256);
        if (0 < lanes_end) {
            const int64_t base = start_x * 4;
            // saxpy.py:14
            LocalTensor<float> x_lanes_arriving = x_lanes_queue.AllocTensor<float>();
            CopyBlocksIn(x_lanes_arriving, x, base, lanes_end);
            x_lanes_queue.EnQue(x_lanes_arriving);
            LocalTensor<float> x_lanes = x_lanes_queue.DeQue<float>();
            PipeBarrier<PIPE_V>();
            Muls(mul, x_lanes, a, kLanes);
            x_lanes_queue.FreeTensor(x_lanes);
            LocalTensor<float> y_lanes_arriving = y_lanes_queue.AllocTensor<float>();
            CopyBlocksIn(y_lanes_arriving, y, base, lanes_end);
            y_lanes_queue.EnQue(y_lanes_arriving);
            LocalTensor<float> y_lanes = y_lanes_queue.DeQue<float>();
            PipeBarrier<PIPE_V>();
            SetFlag<HardEvent::MTE3_V>(EVENT_ID0);
            WaitFlag<HardEvent::MTE3_V>(EVENT_ID0);
            Add(add, mul, y_lanes, kLanes);
            y_lanes_queue.FreeTensor(y_lanes);
            SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
            WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
            CopyBlocksOut(y, base, add, lanes_end);
            if (lanes_end % 8 != 0) {
                SetFlag<HardEvent::MTE3_S>(EVENT_ID0);
                WaitFlag<HardEvent::MTE3_S>(EVENT_ID0);
                StoreTail(y, base, add, lanes_end);
                SetFlag<HardEvent::S_V>(EVENT_ID0);
                WaitFlag<HardEvent::S_V>(EVENT_ID0);
            }
        }
    }
}
