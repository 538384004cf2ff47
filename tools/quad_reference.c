/* Functions in 113 bits by GCC's libquadmath, and the errors of doubles against them.

   gcc -O2 -shared -fPIC tools/quad_reference.c -lquadmath -o OUT; tools/measure_math.py does. */
#include <math.h>
#include <quadmath.h>

typedef __float128 quad;

static quad gelu(quad x) { return x * erfcq(-x * M_SQRT1_2q) / 2; }

static quad gelu_tanh(quad x) {
    quad u = 2 * sqrtq(2 / M_PIq) * (x + 44715 * x * x * x / 1000000);
    return x / (1 + expq(-u));
}

/* In units of the last place of `want`, of the least subnormal below the normal numbers. */
static double error(double got, quad want) {
    if (!isfinite(got) || !finiteq(want) || fabsq(want) > 0x1.fffffffffffff8p1023Q) return 0;
    int exponent = want == 0 ? -1022 : ilogbq(want);
    if (exponent < -1022) exponent = -1022;
    return (double)scalbnq(fabsq(got - want), 52 - exponent);
}

#define FUNCTION(name, call)                                                                  \
    void quad_##name(long count, const double *x, const double *got, double *errors,          \
                     double *values) {                                                        \
        for (long i = 0; i < count; i++) {                                                    \
            quad want = call(x[i]);                                                           \
            errors[i] = error(got[i], want);                                                  \
            values[i] = (double)want;                                                         \
        }                                                                                     \
    }

FUNCTION(erf, erfq)
FUNCTION(erfc, erfcq)
FUNCTION(gelu, gelu)
FUNCTION(gelu_tanh, gelu_tanh)
FUNCTION(tgamma, tgammaq)
FUNCTION(lgamma, lgammaq)
