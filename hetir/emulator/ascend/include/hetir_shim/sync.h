// Flags, barriers, cache operations and the identity of a core.
#pragma once

#include "hetir_shim/tensor.h"

namespace AscendC {

template <HardEvent event> void SetFlag(int32_t id, int line = __builtin_LINE()) {
    hetir_shim::set_flag(hetir_shim::source_of(event), hetir_shim::target_of(event), id, line);
}
template <HardEvent event> void WaitFlag(int32_t id, int line = __builtin_LINE()) {
    hetir_shim::wait_flag(hetir_shim::source_of(event), hetir_shim::target_of(event), id, line);
}
template <pipe_t pipe> void PipeBarrier(int line = __builtin_LINE()) {
    static_assert(pipe != PIPE_S, "PipeBarrier takes no PIPE_S");
    hetir_shim::barrier(hetir_shim::pipe_of(pipe), line);
}
template <bool isAIVOnly = true> void SyncAll(int line = __builtin_LINE()) {
    static_assert(isAIVOnly, "there are no cube cores here");
    hetir_shim::sync_all(line);
}
template <bool isAIVOnly = true>
void SyncAll(const GlobalTensor<int32_t> &, const LocalTensor<int32_t> &, int32_t used = 0,
             int line = __builtin_LINE()) {
    if (used != 0 && used != hetir_shim::block_count())
        hetir_shim::refuse("sync", line, "SyncAll of %d of %lld cores is not modelled", used,
                           static_cast<long long>(hetir_shim::block_count()));
    hetir_shim::sync_all(line);
}
template <uint8_t mode, pipe_t pipe>
void CrossCoreSetFlag(uint16_t flag, int line = __builtin_LINE()) {
    static_assert(pipe != PIPE_S && pipe != PIPE_ALL, "CrossCoreSetFlag takes one vector pipe");
    hetir_shim::cross_set(mode, hetir_shim::pipe_of(pipe), flag, line);
}
template <uint8_t mode = 0, pipe_t pipe = PIPE_S>
void CrossCoreWaitFlag(uint16_t flag, int line = __builtin_LINE()) {
    hetir_shim::cross_wait(flag, hetir_shim::pipe_of(pipe), line);
}

// One core tells another; what the flags of the workspace hold is the engine's own.
template <bool isAIVOnly = true>
void IBSet(const GlobalTensor<int32_t> &, const LocalTensor<int32_t> &, int32_t blockIdx,
           int32_t eventID, int line = __builtin_LINE()) {
    hetir_shim::block_set(blockIdx, eventID, line);
}
template <bool isAIVOnly = true>
void IBWait(const GlobalTensor<int32_t> &, const LocalTensor<int32_t> &, int32_t blockIdx,
            int32_t eventID, int line = __builtin_LINE()) {
    hetir_shim::block_wait(blockIdx, eventID, line);
}

template <typename T, CacheLine extent, DcciDst destination = DcciDst::CACHELINE_OUT>
void DataCacheCleanAndInvalid(const GlobalTensor<T> &tensor, int line = __builtin_LINE()) {
    hetir_shim::cache_clean(tensor.address(), extent == CacheLine::ENTIRE_DATA_CACHE, line);
}

template <typename T> void SetAtomicAdd(int line = __builtin_LINE()) {
    hetir_shim::set_atomic(1, hetir_shim::type_of<T>(), line);
}
template <typename T> void SetAtomicMax(int line = __builtin_LINE()) {
    hetir_shim::set_atomic(2, hetir_shim::type_of<T>(), line);
}
template <typename T> void SetAtomicMin(int line = __builtin_LINE()) {
    hetir_shim::set_atomic(3, hetir_shim::type_of<T>(), line);
}
inline void SetAtomicNone(int line = __builtin_LINE()) {
    hetir_shim::set_atomic(0, hetir_shim::Type::other, line);
}
inline void DisableDmaAtomic(int line = __builtin_LINE()) {
    hetir_shim::set_atomic(0, hetir_shim::Type::other, line);
}

template <SaturationMode mode> constexpr bool has_saturation_flag = __NPU_ARCH__ == 2201;

// Of the modes only that of half and bfloat16_t results is modelled.
template <SaturationMode mode> void SetSaturationFlag(bool enable, int line = __builtin_LINE()) {
    static_assert(has_saturation_flag<mode>, "this architecture has no SetSaturationFlag");
    if (mode == SaturationMode::FLOAT) hetir_shim::set_saturation(enable, line);
}

inline void InitSocState() {}
inline int64_t GetBlockIdx() { return hetir_shim::block_index(); }
inline int64_t GetBlockNum() { return hetir_shim::block_count(); }
inline int64_t GetSubBlockNum() { return 1; }
inline int64_t GetTaskRation() { return 1; }
inline void Trap(int line = __builtin_LINE()) { hetir_shim::trap(line); }

}  // namespace AscendC
