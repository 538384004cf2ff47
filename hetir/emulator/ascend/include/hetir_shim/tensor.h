// LocalTensor and GlobalTensor: typed stretches of the Unified Buffer and of global memory.
#pragma once

#include "hetir_shim/names.h"

namespace AscendC {

template <typename T> class LocalTensor {
public:
    using PrimType = T;
    LocalTensor() = default;
    LocalTensor(TPosition position, uint32_t address, uint32_t elements,
                int line = __builtin_LINE())
        : position_(position) {
        const uint64_t bytes = uint64_t(elements) * sizeof(T);
        if (address + bytes > hetir_shim::local_limit())
            hetir_shim::refuse("budget", line,
                               "a LocalTensor at %u of %llu bytes ends past the %u usable bytes "
                               "of the Unified Buffer",
                               address, static_cast<unsigned long long>(bytes),
                               hetir_shim::local_limit());
        view_ = {address, uint32_t(bytes), -1, 0, hetir_shim::type_of<T>()};
        valid_ = true;
    }
    LocalTensor(hetir_shim::View view, TPosition position) : view_(view), position_(position) {
        view_.type = hetir_shim::type_of<T>();
        valid_ = true;
    }

    T GetValue(uint32_t index, int line = __builtin_LINE()) const {
        return hetir_shim::of_bits<T>(hetir_shim::load_local(at(index, line), line));
    }
    template <typename U>
    void SetValue(uint32_t index, U value, int line = __builtin_LINE()) const {
        hetir_shim::store_local(at(index, line), hetir_shim::to_bits(static_cast<T>(value)), line);
    }
    T operator()(uint32_t index, int line = __builtin_LINE()) const {
        return GetValue(index, line);
    }
    LocalTensor operator[](uint32_t offset) const {
        LocalTensor moved = *this;
        moved.view_ = at(offset, 0);
        return moved;
    }
    template <typename U> LocalTensor<U> ReinterpretCast() const {
        return LocalTensor<U>(checked(0), position_);
    }
    uint64_t GetPhyAddr() const { return view_.address; }
    uint64_t GetPhyAddr(uint32_t offset) const { return view_.address + offset * sizeof(T); }
    int32_t GetPosition() const { return int32_t(position_); }
    uint32_t GetSize() const { return view_.bytes / sizeof(T); }
    void SetSize(uint32_t elements, int line = __builtin_LINE()) {
        if (uint64_t(elements) * sizeof(T) > view_.bytes)
            hetir_shim::refuse("bounds", line, "SetSize(%u) makes a tensor of %u elements larger",
                               elements, GetSize());
        view_.bytes = elements * sizeof(T);
    }
    void SetBufferLen(uint32_t elements, int line = __builtin_LINE()) { SetSize(elements, line); }

    const hetir_shim::View &checked(int line) const {
        if (!valid_) hetir_shim::refuse("queue", line, "a LocalTensor is used without a buffer");
        return view_;
    }

private:
    hetir_shim::View at(uint32_t index, int line) const {
        hetir_shim::View moved = checked(line);
        const uint64_t skip = uint64_t(index) * sizeof(T);
        if (skip > view_.bytes)
            hetir_shim::refuse("bounds", line, "element %u of a LocalTensor of %u elements", index,
                               GetSize());
        moved.address += uint32_t(skip);
        moved.bytes -= uint32_t(skip);
        return moved;
    }

    hetir_shim::View view_;
    TPosition position_ = TPosition::VECCALC;
    bool valid_ = false;
};

// `limit_` is the end that SetGlobalBuffer was told, or 0.
template <typename T> class GlobalTensor {
public:
    using PrimType = T;
    void SetGlobalBuffer(T *buffer, uint64_t elements) {
        address_ = reinterpret_cast<uint64_t>(buffer);
        limit_ = address_ + elements * sizeof(T);
        size_ = elements;
    }
    void SetGlobalBuffer(T *buffer) {
        address_ = reinterpret_cast<uint64_t>(buffer);
        limit_ = size_ = 0;
    }
    T GetValue(uint64_t index, int line = __builtin_LINE()) const {
        return hetir_shim::of_bits<T>(hetir_shim::load_global(
            address_ + index * sizeof(T), limit_, hetir_shim::type_of<T>(), line));
    }
    void SetValue(uint64_t index, T value, int line = __builtin_LINE()) const {
        hetir_shim::store_global(address_ + index * sizeof(T), limit_, hetir_shim::type_of<T>(),
                                 hetir_shim::to_bits(value), line);
    }
    T operator()(uint64_t index, int line = __builtin_LINE()) const {
        return GetValue(index, line);
    }
    GlobalTensor operator[](uint64_t offset) const {
        GlobalTensor moved = *this;
        moved.address_ += offset * sizeof(T);
        return moved;
    }
    const T *GetPhyAddr() const { return reinterpret_cast<const T *>(address_); }
    T *GetPhyAddr(uint64_t offset) const {
        return reinterpret_cast<T *>(address_ + offset * sizeof(T));
    }
    uint64_t GetSize() const { return size_; }
    uint64_t address() const { return address_; }
    uint64_t limit() const { return limit_; }

private:
    uint64_t address_ = 0, limit_ = 0, size_ = 0;
};

}  // namespace AscendC
