"""The part of Vulkan's C interface that computing takes, opened through cffi at first use.

Structures and numbers are those of the Vulkan 1.3 specification.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from hetir.runtime.driver import DriverAbsentError, DriverError

LIBRARY = "libvulkan.so.1"

_HANDLES = (
    "VkInstance VkPhysicalDevice VkDevice VkQueue VkCommandBuffer VkBuffer VkDeviceMemory "
    "VkShaderModule VkPipeline VkPipelineLayout VkCommandPool VkFence VkQueryPool VkPipelineCache"
)

_CORE_FEATURES = (
    "robustBufferAccess fullDrawIndexUint32 imageCubeArray independentBlend geometryShader "
    "tessellationShader sampleRateShading dualSrcBlend logicOp multiDrawIndirect "
    "drawIndirectFirstInstance depthClamp depthBiasClamp fillModeNonSolid depthBounds wideLines "
    "largePoints alphaToOne multiViewport samplerAnisotropy textureCompressionETC2 "
    "textureCompressionASTC textureCompressionBC occlusionQueryPrecise pipelineStatisticsQuery "
    "vertexPipelineStoresAndAtomics fragmentStoresAndAtomics tessellationPointSize "
    "shaderImageGatherExtended shaderStorageImageExtendedFormats shaderStorageImageMultisample "
    "shaderStorageImageReadWithoutFormat shaderStorageImageWriteWithoutFormat "
    "uniformBufferArrayDynamic sampledImageArrayDynamic storageBufferArrayDynamic "
    "storageImageArrayDynamic shaderClipDistance shaderCullDistance shaderFloat64 shaderInt64 "
    "shaderInt16 shaderResourceResidency shaderResourceMinLod sparseBinding sparseResidencyBuffer "
    "sparseResidencyImage2D sparseResidencyImage3D sparseResidency2Samples "
    "sparseResidency4Samples sparseResidency8Samples sparseResidency16Samples "
    "sparseResidencyAliased variableMultisampleRate inheritedQueries"
)
_FEATURES_11 = (
    "storageBuffer16BitAccess uniformAndStorageBuffer16BitAccess storagePushConstant16 "
    "storageInputOutput16 multiview multiviewGeometryShader multiviewTessellationShader "
    "variablePointersStorageBuffer variablePointers protectedMemory samplerYcbcrConversion "
    "shaderDrawParameters"
)
_FEATURES_12 = (
    "samplerMirrorClampToEdge drawIndirectCount storageBuffer8BitAccess "
    "uniformAndStorageBuffer8BitAccess storagePushConstant8 shaderBufferInt64Atomics "
    "shaderSharedInt64Atomics shaderFloat16 shaderInt8 descriptorIndexing inputAttachmentDynamic "
    "uniformTexelDynamic storageTexelDynamic uniformBufferNonUniform sampledImageNonUniform "
    "storageBufferNonUniform storageImageNonUniform inputAttachmentNonUniform "
    "uniformTexelNonUniform storageTexelNonUniform uniformBufferAfterBind sampledImageAfterBind "
    "storageImageAfterBind storageBufferAfterBind uniformTexelAfterBind storageTexelAfterBind "
    "updateUnusedWhilePending partiallyBound variableDescriptorCount runtimeDescriptorArray "
    "samplerFilterMinmax scalarBlockLayout imagelessFramebuffer uniformBufferStandardLayout "
    "shaderSubgroupExtendedTypes separateDepthStencilLayouts hostQueryReset timelineSemaphore "
    "bufferDeviceAddress bufferDeviceAddressCaptureReplay bufferDeviceAddressMultiDevice "
    "vulkanMemoryModel vulkanMemoryModelDeviceScope vulkanMemoryModelChains "
    "shaderOutputViewportIndex shaderOutputLayer subgroupBroadcastDynamicId"
)
_FLOATS = (
    "denormIndependence roundingIndependence "
    "signedZero16 signedZero32 signedZero64 denormPreserve16 denormPreserve32 denormPreserve64 "
    "denormFlush16 denormFlush32 denormFlush64 roundEven16 roundEven32 roundEven64 "
    "roundZero16 roundZero32 roundZero64"
)
_FLOAT_ATOMICS = (
    "shaderBufferFloat32Atomics shaderBufferFloat32AtomicAdd shaderBufferFloat64Atomics "
    "shaderBufferFloat64AtomicAdd shaderSharedFloat32Atomics shaderSharedFloat32AtomicAdd "
    "shaderSharedFloat64Atomics shaderSharedFloat64AtomicAdd shaderImageFloat32Atomics "
    "shaderImageFloat32AtomicAdd sparseImageFloat32Atomics sparseImageFloat32AtomicAdd"
)
FLOAT_ATOMICS_EXTENSION = "VK_EXT_shader_atomic_float"
# what kernels may use of the features, by the structure that holds it
WANTED = {
    "core": ("shaderFloat64", "shaderInt64", "shaderInt16"),
    "v11": ("storageBuffer16BitAccess",),
    "v12": (
        *("storageBuffer8BitAccess", "shaderBufferInt64Atomics", "shaderSharedInt64Atomics"),
        *("shaderInt8", "bufferDeviceAddress", "vulkanMemoryModel"),
        *("vulkanMemoryModelDeviceScope", "shaderSubgroupExtendedTypes"),
    ),
    "subgroups": ("subgroupSizeControl", "computeFullSubgroups"),
    "atomics": ("shaderBufferFloat32AtomicAdd", "shaderBufferFloat64AtomicAdd"),
}


def _fields(names: str) -> str:
    return f"uint32_t {', '.join(names.split())};"


_HANDLE_TYPES = "\n".join(f"typedef struct {n}_T *{n};" for n in _HANDLES.split())
_DECLARATIONS = f"""
{_HANDLE_TYPES}
typedef struct {{ {_fields(_CORE_FEATURES)} }} CoreFeatures;
typedef struct {{ uint32_t sType; void *pNext; CoreFeatures core; }} Features2;
typedef struct {{ uint32_t sType; void *pNext; {_fields(_FEATURES_11)} }} Features11;
typedef struct {{ uint32_t sType; void *pNext; {_fields(_FEATURES_12)} }} Features12;
typedef struct {{ uint32_t sType; void *pNext; {_fields(_FLOATS)} }} FloatControls;
typedef struct {{
    uint32_t sType; void *pNext; uint32_t subgroupSizeControl, computeFullSubgroups;
}} FeaturesSubgroups;
typedef struct {{ uint32_t sType; void *pNext; {_fields(_FLOAT_ATOMICS)} }} FeaturesAtomics;
typedef struct {{
    uint32_t sType; void *pNext; uint32_t size, stages, operations, quads;
}} Subgroups;
typedef struct {{
    uint32_t sType; void *pNext; uint32_t least, most, groups, stages;
}} SubgroupSizes;
typedef struct {{ uint32_t sType; void *pNext; uint32_t size; }} RequiredSubgroup;
typedef struct {{ char name[256]; uint32_t version; }} Extension;
typedef struct {{ uint64_t from, to, size; }} CopyRegion;
typedef struct {{
    uint32_t images[8], maxPushConstantsSize, maxMemoryAllocationCount, maxSamplers;
    uint64_t bufferImageGranularity, sparseAddressSpaceSize;
    uint32_t descriptors[16], vertex[5], tessellation[8], geometry[5], fragment[4];
    uint32_t maxComputeSharedMemorySize, maxComputeWorkGroupCount[3];
    uint32_t maxComputeWorkGroupInvocations, maxComputeWorkGroupSize[3];
    uint32_t drawing[5];
    float sampler[2];
    uint32_t viewports[3];
    float viewportBounds[2];
    uint32_t viewportSubPixelBits;
    size_t minMemoryMapAlignment;
    uint64_t offsetAlignment[3];
    uint32_t texels[4];
    float interpolation[2];
    uint32_t frames[15];
    uint32_t timestampComputeAndGraphics;
    float timestampPeriod;
    uint32_t distances[4];
    float sizes[6];
    uint32_t lines[2];
    uint64_t copies[3];
}} Limits;
typedef struct {{
    uint32_t apiVersion, driverVersion, vendorID, deviceID, deviceType;
    char deviceName[256];
    uint8_t uuid[16];
    Limits limits;
    uint32_t sparse[5];
}} Properties;
typedef struct {{ uint32_t sType; void *pNext; Properties properties; }} Properties2;
typedef struct {{
    uint32_t queueFlags, queueCount, timestampValidBits, granularity[3];
}} QueueFamily;
typedef struct {{
    uint32_t memoryTypeCount;
    struct {{ uint32_t propertyFlags, heapIndex; }} memoryTypes[32];
    uint32_t memoryHeapCount;
    struct {{ uint64_t size; uint32_t flags; }} memoryHeaps[16];
}} MemoryProperties;
typedef struct {{
    uint32_t sType; const void *pNext; const char *application; uint32_t version;
    const char *engine; uint32_t engineVersion, apiVersion;
}} ApplicationInfo;
typedef struct {{
    uint32_t sType; const void *pNext; uint32_t flags; const ApplicationInfo *application;
    uint32_t layerCount; const char **layers; uint32_t extensionCount; const char **extensions;
}} InstanceInfo;
typedef struct {{
    uint32_t sType; const void *pNext; uint32_t flags, family, count; const float *priorities;
}} QueueInfo;
typedef struct {{
    uint32_t sType; const void *pNext; uint32_t flags, queueCount; const QueueInfo *queues;
    uint32_t layerCount; const char **layers; uint32_t extensionCount; const char **extensions;
    const CoreFeatures *features;
}} DeviceInfo;
typedef struct {{
    uint32_t sType; const void *pNext; uint32_t flags; uint64_t size; uint32_t usage, sharing;
    uint32_t familyCount; const uint32_t *families;
}} BufferInfo;
typedef struct {{ uint64_t size, alignment; uint32_t memoryTypeBits; }} Requirements;
typedef struct {{
    uint32_t sType; const void *pNext; uint32_t flags, deviceMask;
}} AllocateFlags;
typedef struct {{
    uint32_t sType; const void *pNext; uint64_t size; uint32_t type;
}} AllocateInfo;
typedef struct {{ uint32_t sType; const void *pNext; VkBuffer buffer; }} AddressInfo;
typedef struct {{
    uint32_t sType; const void *pNext; uint32_t flags; size_t codeSize; const uint32_t *code;
}} ShaderInfo;
typedef struct {{ uint32_t id, offset; size_t size; }} SpecializationEntry;
typedef struct {{
    uint32_t count; const SpecializationEntry *entries; size_t size; const void *data;
}} Specialization;
typedef struct {{
    uint32_t sType; const void *pNext; uint32_t flags, stage; VkShaderModule module;
    const char *entry; const Specialization *specialization;
}} StageInfo;
typedef struct {{ uint32_t stages, offset, size; }} PushRange;
typedef struct {{
    uint32_t sType; const void *pNext; uint32_t flags, setCount; const void *sets;
    uint32_t rangeCount; const PushRange *ranges;
}} LayoutInfo;
typedef struct {{
    uint32_t sType; const void *pNext; uint32_t flags; StageInfo stage; VkPipelineLayout layout;
    VkPipeline base; int32_t baseIndex;
}} PipelineInfo;
typedef struct {{ uint32_t sType; const void *pNext; uint32_t flags, family; }} PoolInfo;
typedef struct {{
    uint32_t sType; const void *pNext; VkCommandPool pool; uint32_t level, count;
}} CommandsInfo;
typedef struct {{
    uint32_t sType; const void *pNext; uint32_t flags; const void *inheritance;
}} BeginInfo;
typedef struct {{ uint32_t sType; const void *pNext; uint32_t flags; }} FenceInfo;
typedef struct {{
    uint32_t sType; const void *pNext; uint32_t flags, type, count, statistics;
}} QueryInfo;
typedef struct {{ uint32_t sType; const void *pNext; uint32_t from, to; }} Barrier;
typedef struct {{
    uint32_t sType; const void *pNext; uint32_t waitCount; const void *waits; const void *stages;
    uint32_t commandCount; const VkCommandBuffer *commands; uint32_t signalCount;
    const void *signals;
}} SubmitInfo;

int vkCreateInstance(const InstanceInfo *, const void *, VkInstance *);
int vkEnumeratePhysicalDevices(VkInstance, uint32_t *, VkPhysicalDevice *);
void vkGetPhysicalDeviceProperties2(VkPhysicalDevice, Properties2 *);
void vkGetPhysicalDeviceFeatures2(VkPhysicalDevice, Features2 *);
void vkGetPhysicalDeviceQueueFamilyProperties(VkPhysicalDevice, uint32_t *, QueueFamily *);
void vkGetPhysicalDeviceMemoryProperties(VkPhysicalDevice, MemoryProperties *);
int vkEnumerateDeviceExtensionProperties(VkPhysicalDevice, const char *, uint32_t *,
                                         Extension *);
int vkCreateDevice(VkPhysicalDevice, const DeviceInfo *, const void *, VkDevice *);
void vkGetDeviceQueue(VkDevice, uint32_t, uint32_t, VkQueue *);
int vkDeviceWaitIdle(VkDevice);
int vkCreateBuffer(VkDevice, const BufferInfo *, const void *, VkBuffer *);
void vkDestroyBuffer(VkDevice, VkBuffer, const void *);
void vkGetBufferMemoryRequirements(VkDevice, VkBuffer, Requirements *);
int vkAllocateMemory(VkDevice, const AllocateInfo *, const void *, VkDeviceMemory *);
void vkFreeMemory(VkDevice, VkDeviceMemory, const void *);
int vkBindBufferMemory(VkDevice, VkBuffer, VkDeviceMemory, uint64_t);
uint64_t vkGetBufferDeviceAddress(VkDevice, const AddressInfo *);
int vkMapMemory(VkDevice, VkDeviceMemory, uint64_t, uint64_t, uint32_t, void **);
int vkCreateShaderModule(VkDevice, const ShaderInfo *, const void *, VkShaderModule *);
void vkDestroyShaderModule(VkDevice, VkShaderModule, const void *);
int vkCreatePipelineLayout(VkDevice, const LayoutInfo *, const void *, VkPipelineLayout *);
int vkCreateComputePipelines(VkDevice, VkPipelineCache, uint32_t, const PipelineInfo *,
                             const void *, VkPipeline *);
void vkDestroyPipeline(VkDevice, VkPipeline, const void *);
int vkCreateCommandPool(VkDevice, const PoolInfo *, const void *, VkCommandPool *);
int vkResetCommandPool(VkDevice, VkCommandPool, uint32_t);
int vkAllocateCommandBuffers(VkDevice, const CommandsInfo *, VkCommandBuffer *);
int vkBeginCommandBuffer(VkCommandBuffer, const BeginInfo *);
int vkEndCommandBuffer(VkCommandBuffer);
void vkCmdBindPipeline(VkCommandBuffer, uint32_t, VkPipeline);
void vkCmdPushConstants(VkCommandBuffer, VkPipelineLayout, uint32_t, uint32_t, uint32_t,
                        const void *);
void vkCmdDispatch(VkCommandBuffer, uint32_t, uint32_t, uint32_t);
void vkCmdPipelineBarrier(VkCommandBuffer, uint32_t, uint32_t, uint32_t, uint32_t,
                          const Barrier *, uint32_t, const void *, uint32_t, const void *);
void vkCmdCopyBuffer(VkCommandBuffer, VkBuffer, VkBuffer, uint32_t, const CopyRegion *);
void vkCmdResetQueryPool(VkCommandBuffer, VkQueryPool, uint32_t, uint32_t);
void vkCmdWriteTimestamp(VkCommandBuffer, uint32_t, VkQueryPool, uint32_t);
int vkCreateQueryPool(VkDevice, const QueryInfo *, const void *, VkQueryPool *);
int vkGetQueryPoolResults(VkDevice, VkQueryPool, uint32_t, uint32_t, size_t, void *, uint64_t,
                          uint32_t);
int vkCreateFence(VkDevice, const FenceInfo *, const void *, VkFence *);
int vkResetFences(VkDevice, uint32_t, const VkFence *);
int vkGetFenceStatus(VkDevice, VkFence);
int vkWaitForFences(VkDevice, uint32_t, const VkFence *, uint32_t, uint64_t);
int vkQueueSubmit(VkQueue, uint32_t, const SubmitInfo *, VkFence);
"""

# VkStructureType
TYPES = {
    "ApplicationInfo": 0,
    "InstanceInfo": 1,
    "QueueInfo": 2,
    "DeviceInfo": 3,
    "SubmitInfo": 4,
    "AllocateInfo": 5,
    "FenceInfo": 8,
    "QueryInfo": 11,
    "BufferInfo": 12,
    "ShaderInfo": 16,
    "StageInfo": 18,
    "PipelineInfo": 29,
    "LayoutInfo": 30,
    "PoolInfo": 39,
    "CommandsInfo": 40,
    "BeginInfo": 42,
    "Barrier": 46,
    "Features11": 49,
    "Features12": 51,
    "Features2": 1000059000,
    "Properties2": 1000059001,
    "AllocateFlags": 1000060000,
    "Subgroups": 1000094000,
    "FloatControls": 1000197000,
    "SubgroupSizes": 1000225000,
    "RequiredSubgroup": 1000225001,
    "FeaturesSubgroups": 1000225002,
    "AddressInfo": 1000244001,
    "FeaturesAtomics": 1000260000,
}
_RESULTS = {
    1: "VK_NOT_READY",
    2: "VK_TIMEOUT",
    -1: "VK_ERROR_OUT_OF_HOST_MEMORY",
    -2: "VK_ERROR_OUT_OF_DEVICE_MEMORY",
    -3: "VK_ERROR_INITIALIZATION_FAILED",
    -4: "VK_ERROR_DEVICE_LOST",
    -5: "VK_ERROR_MEMORY_MAP_FAILED",
    -7: "VK_ERROR_EXTENSION_NOT_PRESENT",
    -8: "VK_ERROR_FEATURE_NOT_PRESENT",
    -9: "VK_ERROR_INCOMPATIBLE_DRIVER",
    -10: "VK_ERROR_TOO_MANY_OBJECTS",
    -13: "VK_ERROR_UNKNOWN",
}
NOT_READY, TIMEOUT = 1, 2
NO_MEMORY = (-1, -2, -10)


class Api(NamedTuple):
    """The loader's functions and cffi's tool box."""

    ffi: Any
    lib: Any

    def make(self, name: str, **fields: Any) -> Any:
        """A structure with its type filled in."""
        made = self.ffi.new(f"{name} *", fields)
        if name in TYPES:
            made.sType = TYPES[name]
        return made

    def call(self, name: str, *arguments: Any) -> int:
        """Call a function. Raises MemoryError, or DriverError for other failures."""
        code = getattr(self.lib, name)(*arguments)
        if code in NO_MEMORY:
            raise MemoryError
        if code < 0:
            raise DriverError(name, code, _RESULTS.get(code, "an error"))
        return code

    def create(self, name: str, kind: str, *arguments: Any) -> Any:
        """Call a function that gives a handle through its last argument."""
        out = self.ffi.new(f"{kind} *")
        self.call(name, *arguments, self.ffi.NULL, out)
        return out[0]


@cache
def api() -> Api:
    """Open the loader. Raises DriverAbsentError."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(_DECLARATIONS)
    try:
        return Api(ffi, ffi.dlopen(LIBRARY))
    except OSError:
        raise DriverAbsentError(
            f"there is no {LIBRARY}", "install a Vulkan driver: apt install mesa-vulkan-drivers"
        ) from None
