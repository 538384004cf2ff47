// Shared memory, barriers, warp operations and atomics.
extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n) {
    __shared__ float ta[16][16], tb[16][17];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        ta[ty][tx] = row < n && k + tx < n ? a[row * n + k + tx] : 0.f;
        tb[ty][tx] = col < n && k + ty < n ? b[(k + ty) * n + col] : 0.f;
        __syncthreads();
        for (int j = 0; j < 16; ++j) sum = fmaf(ta[ty][j], tb[j][tx], sum);
        __syncthreads();
    }
    if (row < n && col < n) c[row * n + col] = sum;
}

extern "C" __global__ void reduce(const int *x, int *total, int n) {
    __shared__ int part[32];
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += x[i];
    for (int d = 16; d; d >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
        for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
        if (threadIdx.x == 0) atomicAdd(total, sum);
    }
}

extern "C" __global__ void histogram(const unsigned char *x, unsigned *bins, int n) {
    __shared__ unsigned mine[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) mine[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&mine[x[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (mine[i]) atomicAdd(&bins[i], mine[i]);
}

extern "C" __global__ void warp_ops(const int *x, unsigned *out) {
    int i = threadIdx.x, lane = i & 31;
    int v = x[i];
    unsigned *o = out + i * 8;
    o[0] = __ballot_sync(0xffffffffu, v & 1);
    o[1] = __any_sync(0xffffffffu, v > 90) * 2 + __all_sync(0xffffffffu, v > 5);
    o[2] = __match_any_sync(0xffffffffu, v & 3);
    o[3] = __reduce_add_sync(0xffffffffu, v);
    o[4] = __reduce_max_sync(0xffffffffu, v - 50);
    o[5] = __shfl_sync(0xffffffffu, v, lane * 5, 8);
    o[6] = __shfl_up_sync(0xffffffffu, v, 3, 16);
    if (lane < 16) o[7] = __shfl_xor_sync(0x0000ffffu, v, 1);
    else o[7] = __reduce_xor_sync(0xffff0000u, v);
    __syncwarp();
}

extern "C" __global__ void reverse(int *x) {
    extern __shared__ int tile[];
    int *mine = x + blockIdx.x * blockDim.x;
    tile[threadIdx.x] = mine[threadIdx.x];
    __syncthreads();
    mine[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

__device__ unsigned arrived;

extern "C" __global__ void last_block(const int *x, int *part, int *total) {
    __shared__ bool last;
    int v = x[blockIdx.x * blockDim.x + threadIdx.x];
    if (__syncthreads_count(v > 0) == -1) return;
    for (int d = 16; d; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);
    if (threadIdx.x == 0) {
        part[blockIdx.x] = v;
        __threadfence();
        last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        __threadfence();
        int sum = 0;
        for (int k = 0; k < gridDim.x; ++k) sum += ((volatile int *)part)[k];
        *total = sum;
    }
}

extern "C" __global__ void cas_max(const float *x, float *best) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int *cell = (int *)best, old = *cell, seen;
    do {
        seen = old;
        if (__int_as_float(seen) >= x[i]) break;
        old = atomicCAS(cell, seen, __float_as_int(x[i]));
    } while (old != seen);
}
