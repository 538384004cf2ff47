/* What this machine can do: bandwidth of memory and caches, FMA rate, one fork and join.
 *
 * Each function does its work once and gives the seconds that it took. Bytes are counted as
 * the program names them, without the line that a store reads first. */
#include <omp.h>
#include <stddef.h>

#ifdef __AVX512F__
enum { WIDTH = 16 };
#else
enum { WIDTH = 8 };
#endif
typedef float lanes __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

static volatile float sink;

double triad(long n, float *restrict a, const float *restrict b, const float *restrict c)
{
    double start = omp_get_wtime();
#pragma omp parallel for simd schedule(static)
    for (long i = 0; i < n; i++)
        a[i] = b[i] + 3.0f * c[i];
    return omp_get_wtime() - start;
}

/* Each thread sums its own `n` floats `rounds` times. */
double read_own(long n, long rounds, const float *x)
{
    double start = omp_get_wtime();
    float total = 0;
#pragma omp parallel reduction(+ : total)
    {
        const float *own = x + omp_get_thread_num() * n;
        lanes sums[8] = {{0}};
        for (long round = 0; round < rounds; round++) {
            for (long i = 0; i < n; i += 8 * WIDTH)
#pragma GCC unroll 8
                for (int k = 0; k < 8; k++)
                    sums[k] += *(const lanes *)(own + i + k * WIDTH);
            __asm__ volatile("" ::: "memory");
        }
        for (int k = 0; k < 8; k++)
            for (int lane = 0; lane < WIDTH; lane++)
                total += sums[k][lane];
    }
    sink = total;
    return omp_get_wtime() - start;
}

/* 12 independent chains a thread: 24 * WIDTH flops a round. */
double multiply_add(long rounds)
{
    double start = omp_get_wtime();
    float total = 0;
#pragma omp parallel reduction(+ : total)
    {
        lanes chain[12], factor, addend;
        for (int lane = 0; lane < WIDTH; lane++)
            factor[lane] = 0.999f, addend[lane] = 1e-3f;
        for (int k = 0; k < 12; k++)
            chain[k] = factor * (float)k;
        for (long round = 0; round < rounds; round++)
#pragma GCC unroll 12
            for (int k = 0; k < 12; k++)
                chain[k] = chain[k] * factor + addend;
        for (int k = 0; k < 12; k++)
            total += chain[k][0];
    }
    sink = total;
    return omp_get_wtime() - start;
}

double fork_join(long rounds)
{
    double start = omp_get_wtime();
    for (long round = 0; round < rounds; round++) {
#pragma omp parallel
        __asm__ volatile("" ::: "memory");
    }
    return (omp_get_wtime() - start) / (double)rounds;
}

long width(void)
{
    return WIDTH;
}
