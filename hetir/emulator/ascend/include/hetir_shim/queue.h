// TPipe, TQue and TBuf: who owns which part of the Unified Buffer, and the events of handing over.
#pragma once

#include "hetir_shim/tensor.h"

namespace hetir_shim {

// Who writes tensors of a position, and who reads them.
constexpr Pipe fills(AscendC::TPosition position) {
    return position == AscendC::TPosition::VECIN ? Pipe::MTE2 : Pipe::V;
}
constexpr Pipe empties(AscendC::TPosition position) {
    return position == AscendC::TPosition::VECOUT ? Pipe::MTE3 : Pipe::V;
}

}  // namespace hetir_shim

namespace AscendC {

template <TPosition source, TPosition destination, int32_t depth, int32_t mask = 0>
class TQueBind {
public:
    TQueBind()
        : queue_(hetir_shim::queue_make(hetir_shim::fills(source), hetir_shim::empties(destination),
                                        depth, "TQue")) {}
    TQueBind(const TQueBind &) = delete;
    template <typename T> LocalTensor<T> AllocTensor(int line = __builtin_LINE()) {
        return LocalTensor<T>(hetir_shim::queue_alloc(queue_, line), source);
    }
    template <typename T>
    bool EnQue(const LocalTensor<T> &tensor, int line = __builtin_LINE()) {
        hetir_shim::queue_enqueue(queue_, tensor.checked(line), line);
        return true;
    }
    template <typename T> LocalTensor<T> DeQue(int line = __builtin_LINE()) {
        return LocalTensor<T>(hetir_shim::queue_dequeue(queue_, line), destination);
    }
    template <typename T> void FreeTensor(LocalTensor<T> &tensor, int line = __builtin_LINE()) {
        hetir_shim::queue_free(queue_, tensor.checked(line), line);
    }
    bool HasTensorInQue() { return hetir_shim::queue_has_tensor(queue_); }
    bool HasIdleBuffer() { return hetir_shim::queue_has_buffer(queue_); }
    bool VacantInQue() { return hetir_shim::queue_tensors(queue_) < depth; }
    int32_t GetTensorCountInQue() { return hetir_shim::queue_tensors(queue_); }
    void *queue() const { return queue_; }

private:
    void *queue_;
};

template <TPosition position, int32_t depth, int32_t mask = 0>
using TQue = TQueBind<position, position, depth, mask>;

template <TPosition position = TPosition::VECCALC> class TBuf {
public:
    template <typename T>
    LocalTensor<T> Get(uint32_t elements = whole_, int line = __builtin_LINE()) {
        return GetWithOffset<T>(elements == whole_ ? bytes_ / sizeof(T) : elements, 0, line);
    }
    template <typename T>
    LocalTensor<T> GetWithOffset(uint32_t elements, uint32_t offset, int line = __builtin_LINE()) {
        if (!ready_) hetir_shim::refuse("queue", line, "a TBuf is used before InitBuffer");
        const uint64_t bytes = uint64_t(elements) * sizeof(T);
        if (offset + bytes > bytes_)
            hetir_shim::refuse("bounds", line, "a TBuf of %u bytes has no %llu bytes from byte %u",
                               bytes_, static_cast<unsigned long long>(bytes), offset);
        return LocalTensor<T>(hetir_shim::View{address_ + offset, uint32_t(bytes), -1, 0, {}},
                              position);
    }
    void place(uint32_t address, uint32_t bytes) {
        address_ = address;
        bytes_ = bytes;
        ready_ = true;
    }

private:
    static constexpr uint32_t whole_ = ~0u;
    uint32_t address_ = 0, bytes_ = 0;
    bool ready_ = false;
};

class TPipe {
public:
    explicit TPipe(int line = __builtin_LINE()) { hetir_shim::pipe_begin(line); }
    ~TPipe() { hetir_shim::pipe_end(); }
    TPipe(const TPipe &) = delete;
    template <TPosition source, TPosition destination, int32_t depth, int32_t mask>
    bool InitBuffer(TQueBind<source, destination, depth, mask> &queue, uint8_t buffers,
                    uint32_t bytes, int line = __builtin_LINE()) {
        hetir_shim::queue_init(queue.queue(), buffers, bytes, line);
        return true;
    }
    template <TPosition position>
    bool InitBuffer(TBuf<position> &buffer, uint32_t bytes, int line = __builtin_LINE()) {
        buffer.place(hetir_shim::pipe_reserve(bytes, "a TBuf", line), (bytes + 31) / 32 * 32);
        return true;
    }
    template <HardEvent event> TEventID AllocEventID(int line = __builtin_LINE()) {
        return TEventID(hetir_shim::event_alloc(hetir_shim::source_of(event),
                                                hetir_shim::target_of(event), line));
    }
    template <HardEvent event> void ReleaseEventID(TEventID id, int line = __builtin_LINE()) {
        hetir_shim::event_release(hetir_shim::source_of(event), hetir_shim::target_of(event), id,
                                  line);
    }
    template <HardEvent event> TEventID FetchEventID(int line = __builtin_LINE()) {
        return FetchEventID(event, line);
    }
    TEventID FetchEventID(HardEvent event, int line = __builtin_LINE()) {
        return TEventID(hetir_shim::event_fetch(hetir_shim::source_of(event),
                                                hetir_shim::target_of(event), line));
    }
    void Reset(int line = __builtin_LINE()) { hetir_shim::pipe_reset(line); }
    void Destroy() { hetir_shim::pipe_end(); }
};

// Addresses one after the other, for programs that plan the buffer without a TPipe.
template <Hardware hard = Hardware::UB> class LocalMemAllocator {
public:
    uint32_t GetCurAddr() const { return head_; }
    template <TPosition position, class T, uint32_t elements>
    LocalTensor<T> Alloc(int line = __builtin_LINE()) {
        return Alloc<position, T>(elements, line);
    }
    template <TPosition position, class T>
    LocalTensor<T> Alloc(uint32_t elements, int line = __builtin_LINE()) {
        static_assert(hard == Hardware::UB, "only the Unified Buffer is modelled");
        const LocalTensor<T> tensor(position, head_, elements, line);
        head_ += uint32_t((elements * sizeof(T) + 31) / 32 * 32);
        return tensor;
    }
    template <class T, uint32_t elements> LocalTensor<T> Alloc(int line = __builtin_LINE()) {
        return Alloc<TPosition::VECIN, T>(elements, line);
    }
    template <class T> LocalTensor<T> Alloc(uint32_t elements, int line = __builtin_LINE()) {
        return Alloc<TPosition::VECIN, T>(elements, line);
    }

private:
    uint32_t head_ = 0;
};

TPipe *GetTPipePtr(int line = __builtin_LINE());

}  // namespace AscendC
