// An NPU of 4 cores in host memory: tells each call on stderr, and fails the one that FAIL names.
#include <acl/acl.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

static std::map<void *, size_t> memory;
static int stream;

static aclError Told(const char *call, bool right = true) {
    const char *failing = std::getenv("FAIL");
    std::fprintf(stderr, "%s ", call);
    if (!right) return 107000;
    return failing != nullptr && std::strcmp(failing, call) == 0 ? 507000 : ACL_SUCCESS;
}

static bool Holds(const void *at, size_t size) {
    const auto next = memory.upper_bound(const_cast<void *>(at));
    if (next == memory.begin()) return false;
    const auto found = std::prev(next);
    const size_t before = static_cast<size_t>(static_cast<const char *>(at) - static_cast<char *>(found->first));
    return before + size <= found->second;
}

aclError aclInit(const char *configuration) { return Told("aclInit", configuration == nullptr); }
aclError aclFinalize(void) { return Told("aclFinalize", memory.empty()); }
const char *aclGetRecentErrMsg(void) { return "EE9999: the fake says why"; }
aclError aclrtSetDevice(int32_t device) { return Told("aclrtSetDevice", device == 0); }
aclError aclrtResetDevice(int32_t device) { return Told("aclrtResetDevice", device == 0); }

aclError aclrtGetDeviceInfo(uint32_t device, aclrtDevAttr attribute, int64_t *value) {
    *value = 4;
    return Told("aclrtGetDeviceInfo", device == 0 && attribute == ACL_DEV_ATTR_VECTOR_CORE_NUM);
}

aclError aclrtCreateStream(aclrtStream *made) {
    *made = &stream;
    return Told("aclrtCreateStream");
}

aclError aclrtDestroyStream(aclrtStream given) { return Told("aclrtDestroyStream", given == &stream); }
aclError aclrtSynchronizeStream(aclrtStream given) { return Told("aclrtSynchronizeStream", given == &stream); }

aclError aclrtMalloc(void **made, size_t size, aclrtMemMallocPolicy policy) {
    *made = std::calloc(1, size);
    memory[*made] = size;
    return Told("aclrtMalloc", size > 0 && policy == ACL_MEM_MALLOC_HUGE_FIRST);
}

aclError aclrtFree(void *given) {
    const bool known = memory.erase(given) == 1;
    if (known) std::free(given);
    return Told("aclrtFree", known);
}

aclError aclrtMemcpy(void *to, size_t room, const void *from, size_t size, aclrtMemcpyKind kind) {
    const bool in = kind == ACL_MEMCPY_HOST_TO_DEVICE;
    const bool right = size <= room && (in || kind == ACL_MEMCPY_DEVICE_TO_HOST) && (in ? Holds(to, size) : Holds(from, size));
    if (right) std::memcpy(to, from, size);
    return Told(in ? "copy-in" : "copy-out", right);
}
