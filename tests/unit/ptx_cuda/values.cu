// Arithmetic: integers of all signs, bits, halves, doubles, mathematics and function calls.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void divide(const int *a, const int *b, int *q, int *r, const long long *c,
                                  const long long *d, long long *lq, unsigned long long *lr) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    q[i] = a[i] / b[i];
    r[i] = a[i] % b[i];
    lq[i] = c[i] / d[i];
    lr[i] = (unsigned long long)c[i] % (unsigned long long)d[i];
    q[i] += a[i] / 7 + a[i] % 10;
}

extern "C" __global__ void bits(const unsigned *x, const unsigned *y, unsigned *out) {
    int i = threadIdx.x;
    unsigned a = x[i], b = y[i];
    unsigned long long w = (unsigned long long)a << 32 | b;
    unsigned *o = out + i * 14;
    o[0] = __popc(a) + 100 * __clz(b) + 10000 * __popcll(w);
    o[1] = __brev(a);
    o[2] = __byte_perm(a, b, 0x3715);
    o[3] = __funnelshift_l(a, b, b & 63);
    o[4] = __funnelshift_rc(a, b, a & 63);
    o[5] = (a & b) ^ (~a | (b >> 3));
    o[6] = (a >> 5) & 0x7f;
    o[7] = __ffs(a) + 100 * __clzll(w);
    o[8] = __umulhi(a, b);
    o[9] = (unsigned)__mulhi((int)a, (int)b);
    o[10] = (unsigned)((long long)(int)a * (int)b >> 16);
    o[11] = __dp4a(a, b, 5u);
    o[12] = (unsigned)__dp4a((int)a, (int)b, -9);
    o[13] = __sad((int)a, (int)b, 3u) + (unsigned)(short)a + (unsigned)(signed char)b;
}

extern "C" __global__ void halves(const __half2 *a, const __half2 *b, const __half2 *c,
                                  __half2 *out, const __nv_bfloat16 *p, const __nv_bfloat16 *q,
                                  __nv_bfloat16 *r) {
    int i = threadIdx.x;
    out[4 * i] = __hadd2(a[i], b[i]);
    out[4 * i + 1] = __hfma2(a[i], b[i], c[i]);
    out[4 * i + 2] = __hmax2(__hmul2(a[i], c[i]), b[i]);
    out[4 * i + 3] = __float22half2_rn(__half22float2(__hsub2(a[i], c[i])));
    r[3 * i] = __hadd(p[i], q[i]);
    r[3 * i + 1] = __hfma(p[i], q[i], p[i]);
    r[3 * i + 2] = __float2bfloat16(__bfloat162float(p[i]) * 1.7f);
}

extern "C" __global__ void doubles(const double *a, const double *b, double *out) {
    int i = threadIdx.x;
    double x = a[i], y = b[i];
    double *o = out + i * 8;
    o[0] = x / y;
    o[1] = sqrt(fabs(x));
    o[2] = fma(x, y, -x);
    o[3] = __dadd_rz(x, y);
    o[4] = __dmul_ru(x, y);
    o[5] = floor(x) + trunc(y);
    o[6] = (double)(float)x + (double)(int)y;
    o[7] = fmin(x, y) + (double)(long long)(x * 1e3);
}

extern "C" __global__ void mathematics(const float *x, float *out) {
    int i = threadIdx.x;
    float v = x[i];
    float *o = out + i * 6;
    o[0] = expf(v);
    o[1] = logf(fabsf(v) + 0.5f);
    o[2] = sinf(v * 40.f);
    o[3] = rsqrtf(fabsf(v) + 1.f) * __fdividef(1.f, 3.f + v * v);
    o[4] = powf(fabsf(v) + 0.1f, 1.3f);
    o[5] = tanhf(v) + __fadd_rd(v, 0.1f) + __expf(v) + 1.f / (v + 9.f) + sqrtf(v + 9.f);
}

extern "C" __global__ void sines(const double *x, double *out) {
    int i = threadIdx.x;
    out[3 * i] = sin(x[i]);
    out[3 * i + 1] = exp(x[i] * 0.01);
    out[3 * i + 2] = log(x[i] * x[i] + 0.5);
}

struct Pair { double first; int second; float third; };

__device__ __noinline__ Pair blend(Pair p, Pair q, int k) {
    Pair out;
    out.first = p.first * q.first;
    out.second = p.second + q.second * k;
    out.third = k & 1 ? p.third : q.third;
    return out;
}

__device__ __noinline__ int walk(const int *x, int from, int n) {
    int sum = 0;
    for (int i = from; i < n; ++i) {
        if (x[i] < 0) return -sum;
        sum += x[i];
    }
    return sum;
}

__device__ __noinline__ void sort4(int *v) {
    for (int i = 1; i < 4; ++i)
        for (int j = i; j > 0 && v[j - 1] > v[j]; --j) {
            int t = v[j];
            v[j] = v[j - 1];
            v[j - 1] = t;
        }
}

extern "C" __global__ void calls(Pair base, const int *x, double *first, int *second, float *third,
                                 int n) {
    int i = threadIdx.x;
    Pair mine = {0.5 * i, i, -1.f * i};
    Pair out = blend(base, mine, i);
    if (i & 2) out = blend(out, base, 3);
    first[i] = out.first;
    int four[4] = {x[i], x[(i + 3) % n], x[(i + 5) % n], x[(i + 7) % n]};
    sort4(four);
    second[i] = out.second + walk(x, i, n) + four[1] * 1000;
    third[i] = out.third;
}

__device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ __noinline__ int square(int x) { return x * x; }
__device__ int (*const choices[2])(int) = {twice, square};

extern "C" __global__ void indirect(const int *x, int *out) {
    int i = threadIdx.x;
    out[i] = choices[x[i] & 1](x[i]);
}
