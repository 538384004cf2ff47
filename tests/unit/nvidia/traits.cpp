// NVIDIA's own figures of a compute capability.
#include <cuda/__device/arch_traits.h>

struct Traits {
    int major, minor, items, unit_registers, shared, unit_shared, optin, reserved;
    int workgroups, workgroup_registers, workgroup, x, y, z, grid_x, grid_y, grid_z, subgroup, cluster;
};

extern "C" void traits(int capability, Traits *out)
{
    cuda::arch_traits_t t = cuda::arch_traits_for(cuda::compute_capability{capability});
    *out = {t.compute_capability_major, t.compute_capability_minor, t.max_threads_per_multiprocessor,
            t.max_registers_per_multiprocessor, (int)t.max_shared_memory_per_block,
            (int)t.max_shared_memory_per_multiprocessor, (int)t.max_shared_memory_per_block_optin,
            (int)t.reserved_shared_memory_per_block, t.max_blocks_per_multiprocessor,
            t.max_registers_per_block, t.max_threads_per_block, t.max_block_dim_x, t.max_block_dim_y,
            t.max_block_dim_z, t.max_grid_dim_x, t.max_grid_dim_y, t.max_grid_dim_z, t.warp_size,
            t.cluster_supported};
}
