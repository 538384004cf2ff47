// Runs a kernel that hetir compiled to Ascend C on an NPU, over arrays that lie in files.
//
// Each argument is a number, or FILE:EXTENT[,EXTENT...] for an array: the elements, one row after
// the other, as the kernel's type has them. Arrays that the kernel writes are written back.
#include <acl/acl.h>

#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "kernel.h"

namespace {

struct Array {
    std::string file;
    std::vector<char> bytes;
    void *memory;
    bool writes;
};

[[noreturn]] void Fail(const std::string &message) {
    std::fprintf(stderr, "%s: %s\n", kernel::kName, message.c_str());
    std::exit(1);
}

void Check(aclError code, const char *call) {
    if (code == ACL_SUCCESS) return;
    const char *said = aclGetRecentErrMsg();
    Fail(std::string(call) + " failed with " + std::to_string(code) + ": " +
         (said != nullptr ? said : "the library says no more"));
}

#define CHECK(function, ...) Check(function(__VA_ARGS__), #function)

std::vector<int64_t> Extents(const std::string &text) {
    std::vector<int64_t> found;
    for (size_t at = 0; at <= text.size();) {
        size_t stop = text.find(',', at);
        if (stop == std::string::npos) stop = text.size();
        const std::string part = text.substr(at, stop - at);
        char *end = nullptr;
        errno = 0;
        found.push_back(std::strtoll(part.c_str(), &end, 10));
        if (part.empty() || *end != '\0' || errno != 0 || found.back() < 0) {
            Fail("`" + text + "` is no list of sizes such as 64,1000");
        }
        at = stop + 1;
    }
    return found;
}

void ReadDims(const std::string &text, int64_t *dims) {
    const std::vector<int64_t> given = Extents(text);
    if (given.size() > 3) Fail("`" + text + "` has more than three sizes");
    for (size_t i = 0; i < 3; ++i) dims[i] = i < given.size() ? given[i] : 1;
}

// A product of sizes and an item's bytes; the program ends where 64 bits do not hold it.
int64_t Product(const std::vector<int64_t> &sizes, int64_t item) {
    int64_t product = item;
    for (const int64_t size : sizes) {
        if (size == 0) return 0;
        if (product > INT64_MAX / size) Fail("an array or a grid is too large");
        product *= size;
    }
    return product;
}

template <typename T> void Put(std::vector<char> &block, size_t offset, T value) {
    std::memcpy(block.data() + offset, &value, sizeof(value));
}

void PutScalar(std::vector<char> &block, size_t offset, const kernel::Slot &slot,
               const char *text) {
    char *end = nullptr;
    errno = 0;
    if (slot.kind == 'f' && slot.item == 4) {
        Put(block, offset, std::strtof(text, &end));
    } else if (slot.kind == 'f') {
        Put(block, offset, std::strtod(text, &end));
    } else {
        // integers, bool as 0 or 1, and the bits of f16 and bf16; little-endian, as the NPU is
        const bool is_signed = slot.kind == 'i';
        const uint64_t value = is_signed ? static_cast<uint64_t>(std::strtoll(text, &end, 0))
                                         : std::strtoull(text, &end, 0);
        const int spare = 64 - 8 * static_cast<int>(slot.item);
        const uint64_t kept = value << spare;
        const uint64_t back = is_signed
                                  ? static_cast<uint64_t>(static_cast<int64_t>(kept) >> spare)
                                  : kept >> spare;
        if (back != value) Fail(std::string(slot.name) + " does not hold `" + text + "`");
        std::memcpy(block.data() + offset, &value, slot.item);
    }
    const bool rounded = slot.kind == 'f';  // a float that is too large or small is rounded
    if (end == text || *end != '\0' || (errno != 0 && !rounded)) {
        Fail(std::string(slot.name) + " is a number, not `" + text + "`");
    }
}

Array PutArray(std::vector<char> &block, size_t offset, const kernel::Slot &slot,
               const std::string &text) {
    const size_t colon = text.rfind(':');
    if (colon == std::string::npos) Fail(std::string(slot.name) + " is FILE:EXTENT[,EXTENT...]");
    const size_t axes = static_cast<size_t>(slot.axes);
    const std::vector<int64_t> extents =
        axes == 0 ? std::vector<int64_t>() : Extents(text.substr(colon + 1));
    if (extents.size() != axes) {
        Fail(std::string(slot.name) + " has " + std::to_string(axes) + " extents, not `" + text +
             "`");
    }
    const int64_t size = Product(extents, static_cast<int64_t>(slot.item));
    Array made{text.substr(0, colon), std::vector<char>(static_cast<size_t>(size)), nullptr,
               slot.writes};
    std::ifstream file(made.file, std::ios::binary);
    if (!file.read(made.bytes.data(), size) || file.peek() != std::ifstream::traits_type::eof()) {
        Fail(made.file + " does not hold " + std::to_string(size) + " bytes for " + slot.name);
    }
    const size_t room = made.bytes.empty() ? 1 : made.bytes.size();
    CHECK(aclrtMalloc, &made.memory, room, ACL_MEM_MALLOC_HUGE_FIRST);
    if (size > 0) {
        CHECK(aclrtMemcpy, made.memory, room, made.bytes.data(), made.bytes.size(),
              ACL_MEMCPY_HOST_TO_DEVICE);
    }
    Put(block, offset, reinterpret_cast<uint64_t>(made.memory));
    int64_t stride = static_cast<int64_t>(slot.item);
    for (size_t axis = axes; axis-- > 0;) {
        Put(block, offset + 8 * (1 + axis), extents[axis]);
        Put(block, offset + 8 * (1 + axes + axis), stride);
        stride *= extents[axis] > 0 ? extents[axis] : 1;
    }
    return made;
}

void Launch(const int64_t *grid, const int64_t *workgroup, const std::vector<char> &block,
            const std::vector<Array> &arrays, aclrtStream stream) {
    const int64_t groups = Product({grid[0], grid[1], grid[2]}, 1);
    if (groups == 0) return;
    int64_t most = kernel::kMostBlocks;
    if (most == 0) CHECK(aclrtGetDeviceInfo, 0, kernel::kCores, &most);
    void *launch = nullptr;
    CHECK(aclrtMalloc, &launch, block.size(), ACL_MEM_MALLOC_HUGE_FIRST);
    CHECK(aclrtMemcpy, launch, block.size(), block.data(), block.size(),
          ACL_MEMCPY_HOST_TO_DEVICE);
    std::vector<uint8_t *> addresses;
    for (const Array &array : arrays) addresses.push_back(static_cast<uint8_t *>(array.memory));
    hetir_start(static_cast<uint32_t>(groups < most ? groups : most), workgroup, stream,
                addresses.data(), static_cast<uint8_t *>(launch));
    CHECK(aclrtSynchronizeStream, stream);
    CHECK(aclrtFree, launch);
}

void Finish(std::vector<Array> &arrays) {
    for (Array &array : arrays) {
        if (array.writes && !array.bytes.empty()) {
            CHECK(aclrtMemcpy, array.bytes.data(), array.bytes.size(), array.memory,
                  array.bytes.size(), ACL_MEMCPY_DEVICE_TO_HOST);
            std::ofstream file(array.file, std::ios::binary);
            file.write(array.bytes.data(), static_cast<std::streamsize>(array.bytes.size()));
            if (!file.flush()) Fail(array.file + " cannot be written");
        }
        CHECK(aclrtFree, array.memory);
    }
}

}  // namespace

int main(int count, char **words) {
    constexpr bool kAnyWorkgroup = kernel::kWorkgroup[0] == 0;
    constexpr int kFirst = kAnyWorkgroup ? 3 : 2;
    constexpr int kSlots = static_cast<int>(sizeof(kernel::kSlots) / sizeof(kernel::kSlots[0])) - 1;
    if (count != kFirst + kSlots) {
        std::string usage = std::string("give GRID") + (kAnyWorkgroup ? " WORKGROUP" : "");
        for (int i = 0; i < kSlots; ++i) usage += std::string(" ") + kernel::kSlots[i].name;
        Fail(usage + "; GRID is 16, or 16,4 for two axes; an array is FILE:EXTENT[,EXTENT...]");
    }
    int64_t shape[6] = {1,
                        1,
                        1,
                        kernel::kWorkgroup[0],
                        kernel::kWorkgroup[1],
                        kernel::kWorkgroup[2]};
    ReadDims(words[1], shape);
    if (kAnyWorkgroup) ReadDims(words[2], shape + 3);

    CHECK(aclInit, nullptr);
    CHECK(aclrtSetDevice, 0);
    aclrtStream stream = nullptr;
    CHECK(aclrtCreateStream, &stream);

    // grid and workgroup, the argument block, the address of records (the kernel writes none)
    std::vector<char> block(sizeof(shape) + kernel::kBlockBytes + 8);
    std::memcpy(block.data(), shape, sizeof(shape));
    std::vector<Array> arrays;
    for (int i = 0; i < kSlots; ++i) {
        const kernel::Slot &slot = kernel::kSlots[i];
        const size_t offset = sizeof(shape) + slot.offset;
        if (slot.axes < 0) {
            PutScalar(block, offset, slot, words[kFirst + i]);
        } else {
            arrays.push_back(PutArray(block, offset, slot, words[kFirst + i]));
        }
    }
    Launch(shape, shape + 3, block, arrays, stream);
    Finish(arrays);

    CHECK(aclrtDestroyStream, stream);
    CHECK(aclrtResetDevice, 0);
    CHECK(aclFinalize);
    return 0;
}
