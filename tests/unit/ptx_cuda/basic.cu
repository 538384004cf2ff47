// Loops, branches and memory: one kernel for each shape of control flow.
extern "C" __global__ void saxpy(int n, float a, const float *__restrict__ x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void collatz(const unsigned *start, unsigned *steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned value = start[i], count = 0;
    while (value != 1) {
        if (value & 1) value = 3 * value + 1;
        else value >>= 1;
        if (++count == 300) break;
    }
    steps[i] = count;
}

extern "C" __global__ void choose(const int *kind, const int *x, int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = x[i];
    switch (kind[i]) {
    case 0: v = v * v; break;
    case 1: v = v / 3; break;
    case 2: v = v ^ (v >> 7); // falls through
    case 3: v = v + 11; break;
    case 4: v = -v; break;
    case 5: for (int k = 0; k < i % 5; ++k) v = v * 5 - k; break;
    case 6: v = __popc(v); break;
    case 7: v = __clz(v); break;
    default: v = 7777; break;
    }
    out[i] = v;
}

extern "C" __global__ void copy4(const float4 *x, float4 *y, const double2 *u, double2 *v) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 a = x[i];
    y[i] = make_float4(a.w, a.z, a.y, a.x);
    double2 d = u[i];
    v[i] = make_double2(d.y, d.x);
}

__constant__ int table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ unsigned long long seen = 40;
__device__ int *where[2] = {0, 0};

extern "C" __global__ void constants(int *out) {
    int i = threadIdx.x;
    out[i] = table[i & 7] + (int)(seen & 0xff);
    if (i == 0) where[1] = out;
    __syncthreads();
    if (i == 1) where[1][blockDim.x] = table[5];
}

extern "C" __global__ void local_array(const unsigned char *picks, int *out, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int box[16];
    for (int k = 0; k < 16; ++k) box[k] = k * 3 + i;
    for (int k = 0; k < rounds; ++k) {
        int from = picks[(i + k) & 63] & 15;
        int to = picks[(i * 7 + k) & 63] & 15;
        int t = box[from];
        box[from] = box[to];
        box[to] = t + 1;
    }
    int sum = 0;
    for (int k = 0; k < 16; ++k) sum = sum * 31 + box[k];
    out[i] = sum;
}
