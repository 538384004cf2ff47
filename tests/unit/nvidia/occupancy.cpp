// NVIDIA's own occupancy calculator over many configurations at once.
#include <climits>

#include <cuda_occupancy.h>

struct Device {
    int major, minor, items, unit_registers, shared, unit_shared, optin, reserved;
};

struct Configuration {
    int device, workgroup, registers, static_shared, dynamic_shared, barriers, carveout, virtual_resources;
};

struct Answer {
    int status, groups, subgroups, workgroups, registers, shared, barriers, virtual_resources;
    int allocated_registers, allocated_shared, factors;
};

static cudaOccDeviceProp properties(const Device &d)
{
    cudaOccDeviceProp p;
    p.computeMajor = d.major;
    p.computeMinor = d.minor;
    p.maxThreadsPerBlock = 1024;
    p.maxThreadsPerMultiprocessor = d.items;
    p.regsPerBlock = d.unit_registers;
    p.regsPerMultiprocessor = d.unit_registers;
    p.warpSize = 32;
    p.sharedMemPerBlock = d.shared;
    p.sharedMemPerMultiprocessor = d.unit_shared;
    p.numSms = 1;
    p.sharedMemPerBlockOptin = d.optin;
    p.reservedSharedMemPerBlock = d.reserved;
    return p;
}

static cudaOccFuncAttributes attributes(const Configuration &c)
{
    cudaOccFuncAttributes a;
    a.maxThreadsPerBlock = INT_MAX;
    a.numRegs = c.registers;
    a.sharedSizeBytes = c.static_shared;
    a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    a.maxDynamicSharedSizeBytes = c.dynamic_shared;
    a.numBlockBarriers = c.barriers;
    a.virtualResourceCount = c.virtual_resources;
    return a;
}

static cudaOccDeviceState state(const Configuration &c)
{
    cudaOccDeviceState s;
    s.carveoutConfig = c.carveout;
    return s;
}

extern "C" void residency(const Device *devices, const Configuration *asked, Answer *answers, long count)
{
    for (long i = 0; i < count; ++i) {
        const Configuration &c = asked[i];
        cudaOccDeviceProp p = properties(devices[c.device]);
        cudaOccFuncAttributes a = attributes(c);
        cudaOccDeviceState s = state(c);
        cudaOccResult r = {};
        int status = cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &a, &s, c.workgroup, c.dynamic_shared);
        answers[i] = {status, r.activeBlocksPerMultiprocessor, r.blockLimitWarps, r.blockLimitBlocks,
                      r.blockLimitRegs, r.blockLimitSharedMem, r.blockLimitBarriers, r.blockLimitVirtual,
                      r.allocatedRegistersPerBlock, (int)r.allocatedSharedMemPerBlock, (int)r.limitingFactors};
    }
}

extern "C" void best_sizes(const Device *devices, const Configuration *asked, int *sizes, long count)
{
    for (long i = 0; i < count; ++i) {
        const Configuration &c = asked[i];
        cudaOccDeviceProp p = properties(devices[c.device]);
        cudaOccFuncAttributes a = attributes(c);
        cudaOccDeviceState s = state(c);
        int grid;
        cudaOccMaxPotentialOccupancyBlockSize(&grid, &sizes[i], &p, &a, &s, (size_t)c.dynamic_shared);
    }
}
