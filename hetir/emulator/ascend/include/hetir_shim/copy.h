// DataCopy and DataCopyPad: transfers between global memory and the Unified Buffer.
#pragma once

#include "hetir_shim/tensor.h"

namespace hetir_shim {

template <typename T> constexpr bool copies() {
    return type_of<T>() != Type::other &&
           (__NPU_ARCH__ != 2002 || type_of<T>() != Type::bf16);
}

template <typename T> void need_copies(const char *name, int line) {
#ifdef HETIR_SHIM_LATE_TYPES
    if (!copies<T>()) refuse("type", line, "%s does not move this element type here", name);
#else
    static_assert(copies<T>(), "DataCopy does not move this element type on this architecture");
    static_cast<void>(name);
    static_cast<void>(line);
#endif
}

template <typename T>
Copy plain(const AscendC::LocalTensor<T> &local, const AscendC::GlobalTensor<T> &global,
           bool to_global, int line) {
    need_copies<T>("DataCopy", line);
    Copy copy{};
    copy.name = "DataCopy";
    copy.local = local.checked(line);
    copy.global = global.address();
    copy.global_bytes = global.limit();
    copy.to_global = to_global;
    copy.line = line;
    return copy;
}

template <typename T>
void continuous(const AscendC::LocalTensor<T> &local, const AscendC::GlobalTensor<T> &global,
                uint32_t count, bool to_global, int line) {
    Copy copy = plain(local, global, to_global, line);
    copy.block_bytes = uint64_t(count) * sizeof(T);
    issue(copy);
}

template <typename T>
void sliced(const AscendC::LocalTensor<T> &local, const AscendC::GlobalTensor<T> &global,
            const AscendC::DataCopyParams &params, bool to_global, int line) {
    Copy copy = plain(local, global, to_global, line);
    copy.blocks = params.blockCount;
    copy.block_bytes = uint64_t(params.blockLen) * 32;
    copy.global_gap = int64_t(to_global ? params.dstGap : params.srcGap) * 32;
    copy.local_gap = int64_t(to_global ? params.srcGap : params.dstGap) * 32;
    issue(copy);
}

template <typename T>
Copy padded(const AscendC::LocalTensor<T> &local, const AscendC::GlobalTensor<T> &global,
            const AscendC::DataCopyExtParams &params, bool to_global, int line) {
    Copy copy = plain(local, global, to_global, line);
    copy.name = "DataCopyPad";
    copy.ragged = true;
    copy.blocks = params.blockCount;
    copy.block_bytes = params.blockLen;
    copy.global_gap = int64_t(to_global ? params.dstStride : params.srcStride);
    copy.local_gap = int64_t(to_global ? params.srcStride : params.dstStride) * 32;
    return copy;
}

}  // namespace hetir_shim

namespace AscendC {

template <typename T>
void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src, uint32_t count,
              int line = __builtin_LINE()) {
    hetir_shim::continuous(dst, src, count, false, line);
}

template <typename T>
void DataCopy(const GlobalTensor<T> &dst, const LocalTensor<T> &src, uint32_t count,
              int line = __builtin_LINE()) {
    hetir_shim::continuous(src, dst, count, true, line);
}

template <typename T>
void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const DataCopyParams &params,
              int line = __builtin_LINE()) {
    hetir_shim::sliced(dst, src, params, false, line);
}

template <typename T>
void DataCopy(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyParams &params,
              int line = __builtin_LINE()) {
    hetir_shim::sliced(src, dst, params, true, line);
}

template <typename T>
void DataCopy(const LocalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyParams &params,
              int line = __builtin_LINE()) {
    hetir_shim::copy_local(dst.checked(line), src.checked(line), params.blockCount,
                           params.blockLen * 32u, params.srcGap * 32u, params.dstGap * 32u, line);
}

template <typename T>
void DataCopy(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint32_t count,
              int line = __builtin_LINE()) {
    hetir_shim::copy_local(dst.checked(line), src.checked(line), 1, uint32_t(count * sizeof(T)), 0,
                           0, line);
}

template <typename T>
void DataCopyPad(const LocalTensor<T> &dst, const GlobalTensor<T> &src,
                 const DataCopyExtParams &params, const DataCopyPadExtParams<T> &padding,
                 int line = __builtin_LINE()) {
    hetir_shim::Copy copy = hetir_shim::padded(dst, src, params, false, line);
    copy.left = padding.leftPadding;
    copy.right = padding.rightPadding;
    copy.pads = padding.isPad;
    copy.padding = hetir_shim::to_bits(padding.paddingValue);
    hetir_shim::issue(copy);
}

template <typename T>
void DataCopyPad(const GlobalTensor<T> &dst, const LocalTensor<T> &src,
                 const DataCopyExtParams &params, int line = __builtin_LINE()) {
    hetir_shim::issue(hetir_shim::padded(src, dst, params, true, line));
}

}  // namespace AscendC
