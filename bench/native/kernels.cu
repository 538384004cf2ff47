/* Eight kernels of hetir's library as one writes them in CUDA C: what nvcc makes of them stands
 * beside what hetir makes. Contraction is off, as hetir rounds every operation. */
#define TILE 16
#define SIDE 32
#define ROWS 8

extern "C" {

__global__ void __launch_bounds__(256) vector_add(const float *x, const float *y, float *z, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        z[i] = x[i] + y[i];
}

__global__ void __launch_bounds__(256) saxpy(float a, const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}

__global__ void __launch_bounds__(256) transpose(const float *x, float *y, int height, int width)
{
    __shared__ float tile[SIDE][SIDE + 1];
    int tx = threadIdx.x, ty = threadIdx.y;
    int col = blockIdx.x * SIDE + tx, top = blockIdx.y * SIDE;
    for (int k = ty; k < SIDE; k += ROWS)
        if (top + k < height && col < width)
            tile[k][tx] = x[(top + k) * width + col];
    __syncthreads();
    col = top + tx;
    top = blockIdx.x * SIDE;
    for (int k = ty; k < SIDE; k += ROWS)
        if (top + k < width && col < height)
            y[(top + k) * height + col] = tile[tx][k];
}

__global__ void __launch_bounds__(256) matmul(const float *a, const float *b, float *c, int m, int n, int depth)
{
    __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    float total = 0;
    for (int start = 0; start < depth; start += TILE) {
        tile_a[ty][tx] = row < m && start + tx < depth ? a[row * depth + start + tx] : 0.0f;
        tile_b[ty][tx] = start + ty < depth && col < n ? b[(start + ty) * n + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILE; k++)
            total += tile_a[ty][k] * tile_b[k][tx];
        __syncthreads();
    }
    if (row < m && col < n)
        c[row * n + col] = total;
}

__global__ void __launch_bounds__(256) histogram(const unsigned char *x, int *counts, int n)
{
    __shared__ int local[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x)
        local[b] = 0;
    __syncthreads();
    int part = (n + gridDim.x - 1) / gridDim.x, start = blockIdx.x * part;
    int stop = min(start + part, n);
    for (int i = start + threadIdx.x; i < stop; i += blockDim.x)
        atomicAdd(&local[x[i]], 1);
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x)
        atomicAdd(&counts[b], local[b]);
}

__global__ void __launch_bounds__(256) jacobi(const float *a, float *b, int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (0 < x && x < width - 1 && 0 < y && y < height - 1) {
        int i = y * width + x;
        b[i] = 0.2f * (a[i] + a[i - width] + a[i + width] + a[i - 1] + a[i + 1]);
    }
}

__global__ void __launch_bounds__(256) mandelbrot(int *counts, int height, int width, int limit)
{
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height)
        return;
    float cx = px * (3.0f / width) - 2.0f, cy = py * (3.0f / height) - 1.5f;
    float zx = 0, zy = 0;
    int n = 0;
    while (n < limit) {
        float x2 = zx * zx, y2 = zy * zy;
        if (x2 + y2 > 4.0f)
            break;
        zy = 2.0f * zx * zy + cy;
        zx = x2 - y2 + cx;
        n++;
    }
    counts[py * width + px] = n;
}

__global__ void __launch_bounds__(256) sobel(const float *image, float *edges, int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int left = max(x - 1, 0), right = min(x + 1, width - 1);
    const float *up = image + max(y - 1, 0) * width, *mid = image + y * width;
    const float *down = image + min(y + 1, height - 1) * width;
    float gx = (up[right] - up[left]) + 2.0f * (mid[right] - mid[left]) + (down[right] - down[left]);
    float gy = (down[left] - up[left]) + 2.0f * (down[x] - up[x]) + (down[right] - up[right]);
    edges[y * width + x] = sqrtf(gx * gx + gy * gy);
}

}
