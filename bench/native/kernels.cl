/* The OpenCL peer: GPU-style kernels, one work-item an element or one group a row. */
#define GROUP 64

kernel void vector_add(global const float *x, global const float *y, global float *z)
{
    size_t i = get_global_id(0);
    z[i] = x[i] + y[i];
}

kernel void saxpy(float a, global const float *x, global float *y)
{
    size_t i = get_global_id(0);
    y[i] = a * x[i] + y[i];
}

kernel void launch(float a, global const float *x, float b, global const float *y,
                   global float *z)
{
    size_t i = get_global_id(0);
    z[i] = a * x[i] + b * y[i];
}

static float group_sum(local float *tree, float value)
{
    int lane = get_local_id(0), width = get_local_size(0);
    tree[lane] = value;
    for (int step = width / 2; step; step /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < step)
            tree[lane] += tree[lane + step];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float all = tree[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return all;
}

static float group_max(local float *tree, float value)
{
    int lane = get_local_id(0), width = get_local_size(0);
    tree[lane] = value;
    for (int step = width / 2; step; step /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < step)
            tree[lane] = fmax(tree[lane], tree[lane + step]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float all = tree[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return all;
}

kernel void softmax(int width, global const float *x, global float *y)
{
    local float tree[GROUP];
    global const float *in = x + get_group_id(0) * (size_t)width;
    global float *out = y + get_group_id(0) * (size_t)width;
    float top = -FLT_MAX, total = 0;
    for (int j = get_local_id(0); j < width; j += GROUP)
        top = fmax(top, in[j]);
    top = group_max(tree, top);
    for (int j = get_local_id(0); j < width; j += GROUP) {
        float e = exp(in[j] - top);
        out[j] = e;
        total += e;
    }
    total = 1 / group_sum(tree, total);
    for (int j = get_local_id(0); j < width; j += GROUP)
        out[j] *= total;
}

kernel void layer_norm(int width, global const float *x, global const float *weight,
                       global const float *bias, global float *y)
{
    local float tree[GROUP];
    global const float *in = x + get_group_id(0) * (size_t)width;
    global float *out = y + get_group_id(0) * (size_t)width;
    float total = 0, square = 0;
    for (int j = get_local_id(0); j < width; j += GROUP)
        total += in[j];
    float mean = group_sum(tree, total) / width;
    for (int j = get_local_id(0); j < width; j += GROUP)
        square += (in[j] - mean) * (in[j] - mean);
    float scale = rsqrt(group_sum(tree, square) / width + 1e-5f);
    for (int j = get_local_id(0); j < width; j += GROUP)
        out[j] = (in[j] - mean) * scale * weight[j] + bias[j];
}

kernel void sum(int n, global const float *x, global float *parts)
{
    local float tree[GROUP];
    float total = 0;
    for (int i = get_global_id(0); i < n; i += get_global_size(0))
        total += x[i];
    total = group_sum(tree, total);
    if (get_local_id(0) == 0)
        parts[get_group_id(0)] = total;
}

/* One work-item a long run of elements: sums, their scan, then the runs again. */
kernel void scan_runs(int run, global const float *x, global float *sums)
{
    size_t at = get_global_id(0) * (size_t)run;
    float total = 0;
    for (int i = 0; i < run; i++)
        total += x[at + i];
    sums[get_global_id(0)] = total;
}

kernel void scan_sums(int n, global float *sums)
{
    float running = 0;
    for (int i = 0; i < n; i++) {
        float own = sums[i];
        sums[i] = running;
        running += own;
    }
}

kernel void scan(int run, global const float *x, global const float *sums, global float *y)
{
    size_t at = get_global_id(0) * (size_t)run;
    float running = sums[get_global_id(0)];
    for (int i = 0; i < run; i++) {
        running += x[at + i];
        y[at + i] = running;
    }
}

kernel void histogram(int n, global const uchar *x, global int *counts)
{
    local int own[256];
    for (int bin = get_local_id(0); bin < 256; bin += GROUP)
        own[bin] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = get_global_id(0); i < n; i += get_global_size(0))
        atomic_inc(&own[x[i]]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int bin = get_local_id(0); bin < 256; bin += GROUP)
        atomic_add(&counts[bin], own[bin]);
}

#define TILE 16
kernel void matmul(int n, global const float *a, global const float *b, global float *c)
{
    local float left[TILE][TILE], right[TILE][TILE];
    int tx = get_local_id(0), ty = get_local_id(1);
    int col = get_global_id(0), row = get_global_id(1);
    float total = 0;
    for (int k0 = 0; k0 < n; k0 += TILE) {
        left[ty][tx] = a[row * n + k0 + tx];
        right[ty][tx] = b[(k0 + ty) * n + col];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < TILE; k++)
            total += left[ty][k] * right[k][tx];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[row * n + col] = total;
}

kernel void jacobi(global const float *a, global float *b)
{
    int x = get_global_id(0), y = get_global_id(1), n = get_global_size(0);
    if (x == 0 || y == 0 || x == n - 1 || y == n - 1)
        return;
    global const float *p = a + y * n + x;
    b[y * n + x] = 0.2f * (p[0] + p[-n] + p[n] + p[-1] + p[1]);
}

kernel void nbody(int n, global const float4 *pos, global const float *vel, global float *out)
{
    local float4 tile[GROUP];
    size_t i = get_global_id(0);
    float4 own = pos[i];
    float ax = 0, ay = 0, az = 0;
    for (int from = 0; from < n; from += GROUP) {
        tile[get_local_id(0)] = pos[from + get_local_id(0)];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < GROUP; k++) {
            float dx = tile[k].x - own.x, dy = tile[k].y - own.y, dz = tile[k].z - own.z;
            float r2 = dx * dx + dy * dy + dz * dz + 1e-2f;
            float w = tile[k].w / (r2 * sqrt(r2));
            ax += w * dx;
            ay += w * dy;
            az += w * dz;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    global float *to = out + 6 * i;
    to[3] = vel[3 * i] + 1e-3f * ax;
    to[4] = vel[3 * i + 1] + 1e-3f * ay;
    to[5] = vel[3 * i + 2] + 1e-3f * az;
    to[0] = own.x + 1e-3f * to[3];
    to[1] = own.y + 1e-3f * to[4];
    to[2] = own.z + 1e-3f * to[5];
}

kernel void mandelbrot(int limit, global int *counts)
{
    int col = get_global_id(0), row = get_global_id(1), n = get_global_size(0);
    float cx = col * (3.0f / n) - 2.0f, cy = row * (3.0f / n) - 1.5f;
    float zx = 0, zy = 0;
    int inside = 0;
    while (inside < limit && zx * zx + zy * zy <= 4.0f) {
        float next = zx * zx - zy * zy + cx;
        zy = 2 * zx * zy + cy;
        zx = next;
        inside++;
    }
    counts[row * n + col] = inside;
}

#define DEPTH 64
#define KEYS 32
kernel void flash_attention(int rows, global const float *q, global const float *k,
                            global const float *v, global float *out)
{
    local float keys[KEYS][DEPTH], values[KEYS][DEPTH];
    int lane = get_local_id(0);
    size_t head = get_group_id(1) * (size_t)rows * DEPTH;
    size_t at = head + get_global_id(0) * DEPTH;
    float query[DEPTH], total[DEPTH], top = -FLT_MAX, weight = 0;
    for (int d = 0; d < DEPTH; d++) {
        query[d] = q[at + d] * 0.125f;
        total[d] = 0;
    }
    for (int from = 0; from < rows; from += KEYS) {
        for (int e = lane; e < KEYS * DEPTH; e += GROUP) {
            keys[e / DEPTH][e % DEPTH] = k[head + from * DEPTH + e];
            values[e / DEPTH][e % DEPTH] = v[head + from * DEPTH + e];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int j = 0; j < KEYS; j++) {
            float score = 0;
            for (int d = 0; d < DEPTH; d++)
                score += query[d] * keys[j][d];
            float higher = fmax(top, score);
            float shrink = exp(top - higher), p = exp(score - higher);
            weight = weight * shrink + p;
            for (int d = 0; d < DEPTH; d++)
                total[d] = total[d] * shrink + p * values[j][d];
            top = higher;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int d = 0; d < DEPTH; d++)
        out[at + d] = total[d] / weight;
}

static float normal_cdf(float z)
{
    float u = 1 / (1 + 0.2316419f * fabs(z));
    float series = mad(u, mad(u, 1.330274429f, -1.821255978f), 1.781477937f);
    series = mad(u, mad(u, series, -0.356563782f), 0.31938153f);
    float tail = 0.3989422804f * exp(-0.5f * z * z) * u * series;
    return z > 0 ? 1 - tail : tail;
}

kernel void black_scholes(global const float *spot, global const float *strike,
                          global const float *years, global float *call, global float *put)
{
    size_t i = get_global_id(0);
    float s = spot[i], x = strike[i], t = years[i], spread = 0.3f * sqrt(t);
    float d1 = (log(s / x) + 0.065f * t) / spread;
    float n1 = normal_cdf(d1), n2 = normal_cdf(d1 - spread);
    float discounted = x * exp(-0.02f * t);
    call[i] = s * n1 - discounted * n2;
    put[i] = discounted * (1 - n2) - s * (1 - n1);
}

kernel void transpose(int n, global const float *x, global float *y)
{
    local float tile[TILE][TILE + 1];
    int tx = get_local_id(0), ty = get_local_id(1);
    int left = get_group_id(0) * TILE, top = get_group_id(1) * TILE;
    tile[ty][tx] = x[(size_t)(top + ty) * n + left + tx];
    barrier(CLK_LOCAL_MEM_FENCE);
    y[(size_t)(left + ty) * n + top + tx] = tile[tx][ty];
}

kernel void spmv(int rows, global const int *start, global const int *column,
                 global const float *value, global const float *x, global float *y)
{
    int row = get_global_id(0);
    if (row >= rows)
        return;
    float total = 0;
    for (int k = start[row]; k < start[row + 1]; k++)
        total += value[k] * x[column[k]];
    y[row] = total;
}

kernel void exchange(int size, int distance, global int *x)
{
    int pair = get_global_id(0);
    int low = 2 * pair - (pair & (distance - 1));
    int p = x[low], q = x[low + distance];
    int least = min(p, q), most = max(p, q), down = (low & size) != 0;
    x[low] = down ? most : least;
    x[low + distance] = down ? least : most;
}

#define BLOCK 1024
/* All passes of distance below BLOCK of one merge, or of all merges up to BLOCK. */
kernel void exchange_block(int from_size, int to_size, global int *x)
{
    local int tile[BLOCK];
    int lane = get_local_id(0), base = get_group_id(0) * BLOCK;
    for (int e = lane; e < BLOCK; e += get_local_size(0))
        tile[e] = x[base + e];
    for (int size = from_size; size <= to_size; size *= 2)
        for (int distance = min(size, BLOCK) / 2; distance; distance /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int pair = lane; pair < BLOCK / 2; pair += get_local_size(0)) {
                int low = 2 * pair - (pair & (distance - 1));
                int p = tile[low], q = tile[low + distance];
                int least = min(p, q), most = max(p, q), down = ((base + low) & size) != 0;
                tile[low] = down ? most : least;
                tile[low + distance] = down ? least : most;
            }
        }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int e = lane; e < BLOCK; e += get_local_size(0))
        x[base + e] = tile[e];
}
