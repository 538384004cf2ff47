/* What the launcher uses of AscendCL, as its documents declare it: for g++ where there is no CANN. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int aclError;
typedef void *aclrtStream;
#define ACL_SUCCESS 0
typedef enum { ACL_MEM_MALLOC_HUGE_FIRST, ACL_MEM_MALLOC_HUGE_ONLY, ACL_MEM_MALLOC_NORMAL_ONLY } aclrtMemMallocPolicy;
typedef enum {
    ACL_MEMCPY_HOST_TO_HOST, ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST, ACL_MEMCPY_DEVICE_TO_DEVICE
} aclrtMemcpyKind;
typedef enum { ACL_DEV_ATTR_AICORE_CORE_NUM = 101, ACL_DEV_ATTR_VECTOR_CORE_NUM = 201 } aclrtDevAttr;

aclError aclInit(const char *configuration);
aclError aclFinalize(void);
const char *aclGetRecentErrMsg(void);
aclError aclrtSetDevice(int32_t device);
aclError aclrtResetDevice(int32_t device);
aclError aclrtGetDeviceInfo(uint32_t device, aclrtDevAttr attribute, int64_t *value);
aclError aclrtCreateStream(aclrtStream *stream);
aclError aclrtDestroyStream(aclrtStream stream);
aclError aclrtSynchronizeStream(aclrtStream stream);
aclError aclrtMalloc(void **memory, size_t size, aclrtMemMallocPolicy policy);
aclError aclrtFree(void *memory);
aclError aclrtMemcpy(void *to, size_t room, const void *from, size_t size, aclrtMemcpyKind kind);

#ifdef __cplusplus
}
#endif
