// saxpy, from saxpy.py: Ascend C for 910b (arch 2201).
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

// `count` elements to the Unified Buffer; `left` of them stand before the first one there.
template <typename T>
__aicore__ inline void CopyIn(const LocalTensor<T> &to, GM_ADDR from, int64_t offset, int32_t count,
                              uint8_t left = 0) {
    if (count <= 0) return;
    const DataCopyExtParams shape(1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0);
    const DataCopyPadExtParams<T> padding(left != 0, left, 0, static_cast<T>(0));
    DataCopyPad(to, Global<T>(from, offset), shape, padding);
}

template <typename T>
__aicore__ inline void CopyOut(GM_ADDR to, int64_t offset, const LocalTensor<T> &from,
                               int32_t count) {
    if (count <= 0) return;
    DataCopyPad(Global<T>(to, offset), from,
                DataCopyExtParams(1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0));
}

constexpr int32_t kLanes = 256;

extern "C" __global__ __aicore__ void hetir_saxpy(GM_ADDR x, GM_ADDR y, GM_ADDR launch) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 1024);
    const LocalTensor<float> mul = buffer.GetWithOffset<float>(256, 0);
    TQue<TPosition::VECIN, 2> x_lanes_queue;
    pipe.InitBuffer(x_lanes_queue, 2, 1024);
    TQue<TPosition::VECIN, 2> y_lanes_queue;
    pipe.InitBuffer(y_lanes_queue, 2, 1024);
    TQue<TPosition::VECOUT, 2> add_queue;
    pipe.InitBuffer(add_queue, 2, 1024);
    const int64_t groups_x = LoadGlobal<int64_t>(launch, 0);
    const int64_t groups_y = LoadGlobal<int64_t>(launch, 8);
    const int64_t groups_z = LoadGlobal<int64_t>(launch, 16);
    const int64_t groups = groups_x * groups_y * groups_z;
    const float a = LoadGlobal<float>(launch, 48);
    const int64_t x_extent0 = LoadGlobal<int64_t>(launch, 64);
    for (int64_t group = GetBlockIdx(); group < groups; group += GetBlockNum()) {
        const int64_t group_x = group % groups_x;
        const int64_t start_x = group_x * 256;
        // saxpy.py:13
        const int32_t lanes_end = LanesBelow(start_x, x_extent0, 256);
        if (0 < lanes_end) {
            const int64_t base = start_x * 4;
            // saxpy.py:14
            LocalTensor<float> x_lanes_arriving = x_lanes_queue.AllocTensor<float>();
            CopyIn(x_lanes_arriving, x, base, lanes_end);
            x_lanes_queue.EnQue(x_lanes_arriving);
            LocalTensor<float> x_lanes = x_lanes_queue.DeQue<float>();
            PipeBarrier<PIPE_V>();
            Muls(mul, x_lanes, a, kLanes);
            x_lanes_queue.FreeTensor(x_lanes);
            LocalTensor<float> y_lanes_arriving = y_lanes_queue.AllocTensor<float>();
            CopyIn(y_lanes_arriving, y, base, lanes_end);
            y_lanes_queue.EnQue(y_lanes_arriving);
            LocalTensor<float> y_lanes = y_lanes_queue.DeQue<float>();
            LocalTensor<float> add = add_queue.AllocTensor<float>();
            PipeBarrier<PIPE_V>();
            Add(add, mul, y_lanes, kLanes);
            y_lanes_queue.FreeTensor(y_lanes);
            add_queue.EnQue(add);
            LocalTensor<float> add_leaving = add_queue.DeQue<float>();
            CopyOut(y, base, add_leaving, lanes_end);
            add_queue.FreeTensor(add_leaving);
        }
    }
}
