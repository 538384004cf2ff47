"""Black-Scholes prices of European calls and puts; the normal distribution by a polynomial.

The polynomial is formula 26.2.17 of Abramowitz and Stegun, error below 7.5e-8.
"""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

RATE = 0.02
VOLATILITY = 0.30
TAIL = (0.31938153, -0.356563782, 1.781477937, -1.821255978, 1.330274429)
RSQRT_2PI = 0.39894228040143267794


def normal_cdf(z):
    """The share of a normal distribution below z."""
    u = 1.0 / (1.0 + 0.2316419 * hl.abs(z))
    series = TAIL[4]
    for k in hl.static_range(3, -1, -1):
        series = TAIL[k] + u * series
    tail = RSQRT_2PI * hl.exp(-0.5 * z * z) * (u * series)
    return hl.where(z > 0.0, 1.0 - tail, tail)


@hetir.kernel
def black_scholes(
    spot: hl.Array[hl.f32, 1],
    strike: hl.Array[hl.f32, 1],
    years: hl.Array[hl.f32, 1],
    call: hl.Array[hl.f32, 1],
    put: hl.Array[hl.f32, 1],
):
    i = hl.global_id(0)
    if i < spot.shape[0]:
        s, x, t = spot[i], strike[i], years[i]
        spread = VOLATILITY * hl.sqrt(t)
        inverse = 1.0 / spread  # it is there before the logarithm
        d1 = (hl.log(s / x) + (RATE + 0.5 * VOLATILITY * VOLATILITY) * t) * inverse
        d2 = d1 - spread
        n1, n2 = normal_cdf(d1), normal_cdf(d2)
        discounted = x * hl.exp(-RATE * t)
        call[i] = s * n1 - discounted * n2
        put[i] = discounted * (1.0 - n2) - s * (1.0 - n1)


def case(rng, size=1 << 22, data=None):
    """`size` options; takes no data."""
    f = np.float32
    spot = rng.random(size, f) * 25 + 5
    strike = rng.random(size, f) * 99 + 1
    years = rng.random(size, f) * f(9.75) + f(0.25)
    call, put = np.empty_like(spot), np.empty_like(spot)

    def expected():
        s, x, t = (a.astype(np.float64) for a in (spot, strike, years))
        root = np.sqrt(t)
        d1 = (np.log(s / x) + (RATE + 0.5 * VOLATILITY**2) * t) / (VOLATILITY * root)
        d2 = d1 - VOLATILITY * root

        def cdf(z):
            u = 1 / (1 + 0.2316419 * np.abs(z))
            tail = RSQRT_2PI * np.exp(-0.5 * z * z) * u * np.polyval(TAIL[::-1], u)
            return np.where(z > 0, 1 - tail, tail)

        discounted = x * np.exp(-RATE * t)
        return {
            "call": s * cdf(d1) - discounted * cdf(d2),
            "put": discounted * (1 - cdf(d2)) - s * (1 - cdf(d1)),
        }

    return Case(
        steps=(
            Step(black_scholes, (spot, strike, years, call, put), (hetir.cdiv(size, 256),), (256,)),
        ),
        results={"call": call, "put": put},
        expected=expected,
        tolerance=1e-5,
        bytes=20 * size,
        flops=60 * size,
        data_note="no input",
    )
