/* The C peer: what a careful native build reaches without heroics.
 *
 * Built by peers/with_c.py: gcc -O3 -march=native -ffast-math -fopenmp. Sizes that the
 * bench does not use (odd matrix sizes, say) are not handled. */
#include <float.h>
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <string.h>

#define EACH _Pragma("omp parallel for schedule(static)")
#define EACH_SIMD _Pragma("omp parallel for simd schedule(static)")

#ifdef __AVX512F__
enum { WIDTH = 16, TILE_ROWS = 8 };
#else
enum { WIDTH = 8, TILE_ROWS = 4 };
#endif
typedef float lanes __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

void vector_add(long n, const float *restrict x, const float *restrict y, float *restrict z)
{
    EACH_SIMD
    for (long i = 0; i < n; i++)
        z[i] = x[i] + y[i];
}

void saxpy(long n, float a, const float *restrict x, float *restrict y)
{
    EACH_SIMD
    for (long i = 0; i < n; i++)
        y[i] = a * x[i] + y[i];
}

void launch(long n, float a, const float *restrict x, float b, const float *restrict y,
            float *restrict z)
{
    EACH_SIMD
    for (long i = 0; i < n; i++)
        z[i] = a * x[i] + b * y[i];
}

void softmax(long rows, long width, const float *restrict x, float *restrict y)
{
    EACH
    for (long row = 0; row < rows; row++) {
        const float *in = x + row * width;
        float *out = y + row * width;
        float top = -FLT_MAX, total = 0;
        for (long j = 0; j < width; j++)
            top = fmaxf(top, in[j]);
        for (long j = 0; j < width; j++) {
            float e = expf(in[j] - top);
            out[j] = e;
            total += e;
        }
        float scale = 1 / total;
        for (long j = 0; j < width; j++)
            out[j] *= scale;
    }
}

void layer_norm(long rows, long width, const float *restrict x, const float *restrict weight,
                const float *restrict bias, float *restrict y)
{
    EACH
    for (long row = 0; row < rows; row++) {
        const float *in = x + row * width;
        float *out = y + row * width;
        float total = 0, square = 0;
        for (long j = 0; j < width; j++)
            total += in[j];
        float mean = total / (float)width;
        for (long j = 0; j < width; j++)
            square += (in[j] - mean) * (in[j] - mean);
        float scale = 1 / sqrtf(square / (float)width + 1e-5f);
        for (long j = 0; j < width; j++)
            out[j] = (in[j] - mean) * scale * weight[j] + bias[j];
    }
}

void sum(long n, const float *restrict x, float *restrict total)
{
    float all = 0;
#pragma omp parallel for simd schedule(static) reduction(+ : all)
    for (long i = 0; i < n; i++)
        all += x[i];
    *total = all;
}

void scan(long n, const float *restrict x, float *restrict y)
{
    enum { MOST_THREADS = 1024 };
    static float before[MOST_THREADS + 1];
#pragma omp parallel
    {
        int threads = omp_get_num_threads(), self = omp_get_thread_num();
        long from = n / 8 * self / threads * 8, to = n / 8 * (self + 1) / threads * 8;
        float own = 0;
#pragma omp simd reduction(+ : own)
        for (long i = from; i < to; i++)
            own += x[i];
        before[self + 1] = own;
#pragma omp barrier
        float running = 0;
        for (int t = 1; t <= self; t++)
            running += before[t];
        for (long i = from; i < to; i += 8) { /* four short chains instead of one long */
            float a = x[i], b = a + x[i + 1], c = x[i + 2], d = c + x[i + 3];
            float e = x[i + 4], f = e + x[i + 5], g = x[i + 6], h = g + x[i + 7];
            float low = running + b, middle = low + d, high = middle + f;
            y[i] = running + a, y[i + 1] = low;
            y[i + 2] = low + c, y[i + 3] = middle;
            y[i + 4] = middle + e, y[i + 5] = high;
            y[i + 6] = high + g;
            running = running + ((b + d) + (f + h));
            y[i + 7] = running;
        }
    }
}

void histogram(long n, const uint8_t *restrict x, int32_t *restrict counts)
{
    memset(counts, 0, 256 * sizeof *counts);
#pragma omp parallel
    {
        int32_t own[8][256] = {{0}}; /* equal neighbours go to different tables */
#pragma omp for schedule(static)
        for (long i = 0; i < n / 8; i++) {
            uint64_t eight;
            memcpy(&eight, x + 8 * i, 8);
            for (int k = 0; k < 8; k++)
                own[k][(eight >> (8 * k)) & 255]++;
        }
        for (int bin = 0; bin < 256; bin++) {
            int32_t total = 0;
            for (int k = 0; k < 8; k++)
                total += own[k][bin];
#pragma omp atomic
            counts[bin] += total;
        }
    }
}

/* Register tiles of TILE_ROWS by two vectors; b is packed panel by panel for each block of k. */
void matmul(long n, const float *restrict a, const float *restrict b, float *restrict c,
            float *restrict packed)
{
    enum { DEPTH = 256, PANEL = 2 * WIDTH };
#pragma omp parallel
    for (long k0 = 0; k0 < n; k0 += DEPTH) {
#pragma omp for schedule(static)
        for (long j = 0; j < n; j += PANEL)
            for (long k = 0; k < DEPTH; k++)
                memcpy(packed + j * DEPTH + k * PANEL, b + (k0 + k) * n + j, PANEL * 4);
#pragma omp for schedule(static)
        for (long i = 0; i < n; i += TILE_ROWS)
            for (long j = 0; j < n; j += PANEL) {
                lanes left[TILE_ROWS] = {{0}}, right[TILE_ROWS] = {{0}};
                const float *panel = packed + j * DEPTH;
                for (long k = 0; k < DEPTH; k++) {
                    lanes b0 = *(const lanes *)(panel + k * PANEL);
                    lanes b1 = *(const lanes *)(panel + k * PANEL + WIDTH);
#pragma GCC unroll 8
                    for (int r = 0; r < TILE_ROWS; r++) {
                        float factor = a[(i + r) * n + k0 + k];
                        left[r] += factor * b0;
                        right[r] += factor * b1;
                    }
                }
#pragma GCC unroll 8
                for (int r = 0; r < TILE_ROWS; r++) {
                    lanes *out = (lanes *)(c + (i + r) * n + j);
                    if (k0) {
                        left[r] += out[0];
                        right[r] += out[1];
                    }
                    out[0] = left[r];
                    out[1] = right[r];
                }
            }
    }
}

void jacobi(long n, int steps, float *a, float *b)
{
    for (int step = 0; step < steps; step++) {
        const float *restrict in = step % 2 ? b : a;
        float *restrict out = step % 2 ? a : b;
        EACH
        for (long i = 1; i < n - 1; i++)
            for (long j = 1; j < n - 1; j++) {
                const float *p = in + i * n + j;
                out[i * n + j] = 0.2f * (p[0] + p[-n] + p[n] + p[-1] + p[1]);
            }
    }
}

/* Positions come as four arrays: x, y, z, mass. */
void nbody(long n, const float *restrict px, const float *restrict py, const float *restrict pz,
           const float *restrict mass, const float *restrict vel, float *restrict out)
{
    EACH
    for (long i = 0; i < n; i++) {
        float x = px[i], y = py[i], z = pz[i], ax = 0, ay = 0, az = 0;
        for (long j = 0; j < n; j++) {
            float dx = px[j] - x, dy = py[j] - y, dz = pz[j] - z;
            float r2 = dx * dx + dy * dy + dz * dz + 1e-2f;
            float w = mass[j] / (r2 * sqrtf(r2));
            ax += w * dx;
            ay += w * dy;
            az += w * dz;
        }
        float *to = out + 6 * i;
        to[3] = vel[3 * i] + 1e-3f * ax;
        to[4] = vel[3 * i + 1] + 1e-3f * ay;
        to[5] = vel[3 * i + 2] + 1e-3f * az;
        to[0] = x + 1e-3f * to[3];
        to[1] = y + 1e-3f * to[4];
        to[2] = z + 1e-3f * to[5];
    }
}

typedef int32_t masks __attribute__((vector_size(4 * WIDTH)));
enum { STEPS_A_TEST = 8 };

/* A vector of pixels at a time; a point that left grows without bound, so that it stays out. */
void mandelbrot(long n, int limit, int32_t *restrict counts)
{
#pragma omp parallel for schedule(dynamic, 4)
    for (long row = 0; row < n; row++) {
        lanes cy = (lanes){0} - 1.5f + 3.0f / (float)n * (float)row;
        for (long from = 0; from < n; from += WIDTH) {
            lanes cx, zx = {0}, zy = {0};
            masks live = {0}, inside = {0};
            live = ~live;
            for (int k = 0; k < WIDTH; k++)
                cx[k] = -2.0f + 3.0f / (float)n * (float)(from + k);
            for (int step = 0; step < limit; step += STEPS_A_TEST) {
                for (int k = 0; k < STEPS_A_TEST; k++) {
                    lanes x2 = zx * zx, y2 = zy * zy;
                    live &= x2 + y2 <= 4.0f;
                    inside -= live;
                    zy = 2 * zx * zy + cy;
                    zx = x2 - y2 + cx;
                }
                int32_t some = 0;
                for (int k = 0; k < WIDTH; k++)
                    some |= live[k];
                if (!some)
                    break;
            }
            memcpy(counts + row * n + from, &inside, sizeof inside);
        }
    }
}

/* One query row at a time, keys in blocks, online softmax. */
void flash_attention(long heads, long rows, const float *restrict q, const float *restrict k,
                     const float *restrict v, float *restrict out)
{
    enum { DEPTH = 64, BLOCK = 64 };
    EACH
    for (long row = 0; row < heads * rows; row++) {
        const float *query = q + row * DEPTH;
        const float *keys = k + row / rows * rows * DEPTH;
        const float *values = v + row / rows * rows * DEPTH;
        float top = -FLT_MAX, weight = 0, total[DEPTH] = {0}, score[BLOCK];
        for (long from = 0; from < rows; from += BLOCK) {
            float higher = top;
            for (int j = 0; j < BLOCK; j++) {
                const float *key = keys + (from + j) * DEPTH;
                float product = 0;
                for (int d = 0; d < DEPTH; d++)
                    product += query[d] * key[d];
                score[j] = product * 0.125f;
                higher = fmaxf(higher, score[j]);
            }
            float shrink = expf(top - higher);
            for (int j = 0; j < BLOCK; j++)
                score[j] = expf(score[j] - higher);
            weight *= shrink;
            for (int j = 0; j < BLOCK; j++)
                weight += score[j];
            for (int d = 0; d < DEPTH; d++)
                total[d] *= shrink;
            for (int j = 0; j < BLOCK; j++)
                for (int d = 0; d < DEPTH; d++)
                    total[d] += score[j] * values[(from + j) * DEPTH + d];
            top = higher;
        }
        for (int d = 0; d < DEPTH; d++)
            out[row * DEPTH + d] = total[d] / weight;
    }
}

static inline float normal_cdf(float z)
{
    float u = 1 / (1 + 0.2316419f * fabsf(z));
    float series = 1.330274429f;
    series = series * u - 1.821255978f;
    series = series * u + 1.781477937f;
    series = series * u - 0.356563782f;
    series = series * u + 0.31938153f;
    float tail = 0.3989422804f * expf(-0.5f * z * z) * u * series;
    return z > 0 ? 1 - tail : tail;
}

void black_scholes(long n, const float *restrict spot, const float *restrict strike,
                   const float *restrict years, float *restrict call, float *restrict put)
{
    EACH_SIMD
    for (long i = 0; i < n; i++) {
        float s = spot[i], x = strike[i], t = years[i], spread = 0.3f * sqrtf(t);
        float d1 = (logf(s / x) + 0.065f * t) / spread;
        float n1 = normal_cdf(d1), n2 = normal_cdf(d1 - spread);
        float discounted = x * expf(-0.02f * t);
        call[i] = s * n1 - discounted * n2;
        put[i] = discounted * (1 - n2) - s * (1 - n1);
    }
}

void transpose(long n, const float *restrict x, float *restrict y)
{
    enum { SIDE = 16 };
    EACH
    for (long i0 = 0; i0 < n; i0 += SIDE)
        for (long j0 = 0; j0 < n; j0 += SIDE)
            for (long i = i0; i < i0 + SIDE; i++)
                for (long j = j0; j < j0 + SIDE; j++)
                    y[i * n + j] = x[j * n + i];
}

void spmv(long rows, const int32_t *restrict start, const int32_t *restrict column,
          const float *restrict value, const float *restrict x, float *restrict y)
{
    EACH
    for (long row = 0; row < rows; row++) {
        float total = 0;
        for (int32_t k = start[row]; k < start[row + 1]; k++)
            total += value[k] * x[column[k]];
        y[row] = total;
    }
}

/* One distance of the network over [from, to): runs of `distance` neighbours. */
static void exchange(int32_t *x, long from, long to, long size, long distance)
{
    for (long base = from; base < to; base += 2 * distance) {
        int32_t *restrict low = x + base, *restrict high = x + base + distance;
        int down = (base & size) != 0;
        for (long t = 0; t < distance; t++) {
            int32_t p = low[t], q = high[t], least = p < q ? p : q, most = p < q ? q : p;
            low[t] = down ? most : least;
            high[t] = down ? least : most;
        }
    }
}

/* The bitonic network; distances inside a block are done while the block is in the cache. */
void bitonic_sort(long n, const int32_t *restrict given, int32_t *restrict x)
{
    enum { BLOCK = 4096 };
    memcpy(x, given, n * sizeof *x);
    EACH
    for (long from = 0; from < n; from += BLOCK)
        for (long size = 2; size <= BLOCK; size *= 2)
            for (long distance = size / 2; distance; distance /= 2)
                exchange(x, from, from + BLOCK, size, distance);
    for (long size = 2 * BLOCK; size <= n; size *= 2) {
        for (long distance = size / 2; distance >= BLOCK; distance /= 2) {
            EACH
            for (long part = 0; part < n / 2; part += BLOCK / 2) {
                long at = part / distance * 2 * distance + part % distance;
                int32_t *restrict low = x + at, *restrict high = x + at + distance;
                int down = (at & size) != 0;
                for (long t = 0; t < BLOCK / 2; t++) {
                    int32_t p = low[t], q = high[t];
                    int32_t least = p < q ? p : q, most = p < q ? q : p;
                    low[t] = down ? most : least;
                    high[t] = down ? least : most;
                }
            }
        }
        EACH
        for (long from = 0; from < n; from += BLOCK)
            for (long distance = BLOCK / 2; distance; distance /= 2)
                exchange(x, from, from + BLOCK, size, distance);
    }
}
