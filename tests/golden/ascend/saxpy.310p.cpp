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

// Through the cache: the line is written back at once.
template <typename T> __aicore__ inline void StoreGlobal(GM_ADDR base, int64_t offset, T value) {
    GlobalTensor<T> place = Global<T>(base, offset);
    place.SetValue(0, value);
    DataCacheCleanAndInvalid<T, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(place);
}

constexpr int32_t kLanes = 256;

extern "C" __global__ __aicore__ void hetir_saxpy(GM_ADDR x, GM_ADDR y, GM_ADDR launch) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 4096);
    const LocalTensor<float> lanes = buffer.GetWithOffset<float>(256, 0);
    const LocalTensor<float> mul = buffer.GetWithOffset<float>(256, 1024);
    const LocalTensor<float> lanes_2 = buffer.GetWithOffset<float>(256, 2048);
    const LocalTensor<float> add = buffer.GetWithOffset<float>(256, 3072);
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
            for (int32_t lane = 0; lane < lanes_end; ++lane) {
                const float t = LoadGlobal<float>(x, base + 4 * lane);
                lanes.SetValue(lane, t);
            }
            SetFlag<HardEvent::S_V>(EVENT_ID0);
            WaitFlag<HardEvent::S_V>(EVENT_ID0);
            Muls(mul, lanes, a, kLanes);
            for (int32_t lane = 0; lane < lanes_end; ++lane) {
                const float t_2 = LoadGlobal<float>(y, base + 4 * lane);
                lanes_2.SetValue(lane, t_2);
            }
            SetFlag<HardEvent::S_V>(EVENT_ID1);
            WaitFlag<HardEvent::S_V>(EVENT_ID1);
            PipeBarrier<PIPE_V>();
            Add(add, mul, lanes_2, kLanes);
            SetFlag<HardEvent::V_S>(EVENT_ID0);
            WaitFlag<HardEvent::V_S>(EVENT_ID0);
            for (int32_t lane = 0; lane < lanes_end; ++lane) {
                StoreGlobal<float>(y, base + 4 * lane, add.GetValue(lane));
            }
        }
    }
}
