"""FFT of rows whose length is a power of two: Stockham steps of radix 16 and less in registers."""

import math

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

LONGEST = 2048
GROUP = 64


def plan(n):
    """The radix of each step for rows of n; after the largest one outputs are neighbours.

    Raises ValueError if n is no power of two.
    """
    if n < 1 or n & (n - 1):
        raise ValueError(f"rows of {n}: the length must be a power of two; fill them up with zeros")
    radices = [min(n, 16)]
    while (left := n // math.prod(radices)) > 1:
        radices.append(min(left, 8))
    return tuple(radices)


def twiddles(radices):
    """Cosine and sine of the angles that steps turn by.

    A step of radix r behind a span s has -2 pi j k / (r s) at j s + k, for 0 < j < r and k < s.
    """
    angle, span = np.zeros(math.prod(radices)), 1
    for radix in radices:
        j, k = np.divmod(np.arange(span, radix * span), span)
        angle[span : radix * span] = -2 * np.pi * j * k / (radix * span)
        span *= radix
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


@hetir.func
def turn(re, im, j, part):
    """Multiply number j by exp(-2 pi i part), where part is below 1/2."""
    x, y = re[j], im[j]
    c, s = math.cos(2 * math.pi * part), math.sin(2 * math.pi * part)
    if part == 1 / 4:
        re[j], im[j] = y, -x
    elif part == 1 / 8:
        re[j], im[j] = c * (x + y), c * (y - x)
    elif part == 3 / 8:
        re[j], im[j] = s * (y - x), c * (x + y)
    elif part:
        re[j], im[j] = x * c + y * s, y * c - x * s


@hetir.func
def transform(re, im, count):
    """The transform of `count` numbers in place; output m comes to lie at m's bits reversed."""
    for level in hl.static_range(1, count.bit_length()):
        half = count >> level
        for j in hl.static_range(count):
            k = j + half
            if not j & half:
                re[j], re[k] = re[j] + re[k], re[j] - re[k]
                im[j], im[k] = im[j] + im[k], im[j] - im[k]
                turn(re, im, k, j % half / (2 * half))


@hetir.func
def reverse(m, count):
    """The bits of m < count in reverse."""
    found = 0
    for bit in hl.static_range(count.bit_length() - 1):
        found = 2 * found + (m >> bit & 1)
    return found


@hetir.func
def step(source, to, factors, n, radix, span):
    """Transform all that lie n / radix apart; `span` is the product of the earlier radices."""
    re, im = hl.private(radix, hl.f32), hl.private(radix, hl.f32)
    count = n // radix
    for start in range(0, count, GROUP):
        i = start + hl.local_id(0)
        if count >= GROUP or i < count:
            k = i & (span - 1)
            for j in hl.static_range(radix):
                re[j], im[j] = source[0][i + j * count], source[1][i + j * count]
            if span > 1:
                for j in hl.static_range(1, radix):
                    c, s = factors[0][j * span + k], factors[1][j * span + k]
                    re[j], im[j] = re[j] * c - im[j] * s, re[j] * s + im[j] * c
            transform(re, im, radix)
            at = (i - k) * radix + k
            for m in hl.static_range(radix):
                to[0][at + m * span] = re[reverse(m, radix)]
            for m in hl.static_range(radix):
                to[1][at + m * span] = im[reverse(m, radix)]


@hetir.kernel
def fft(
    real: hl.Array[hl.f32, 2],
    imag: hl.Array[hl.f32, 2],
    cosine: hl.Array[hl.f32, 1],
    sine: hl.Array[hl.f32, 1],
    out_real: hl.Array[hl.f32, 2],
    out_imag: hl.Array[hl.f32, 2],
    radices: hl.static,
):
    """One workgroup a row, of the radices' product; cosine and sine are twiddles(radices)."""
    row, n, last = hl.group_id(0), math.prod(radices), len(radices) - 1
    re, im = hl.shared((2, n), hl.f32), hl.shared((2, n), hl.f32)
    source, span = (real[row], imag[row]), 1
    for at in hl.static_range(last + 1):
        to = (re[at % 2], im[at % 2]) if at < last else (out_real[row], out_imag[row])
        step(source, to, (cosine, sine), n, radices[at], span)
        if at < last:
            hl.barrier()
        source, span = to, span * radices[at]


def case(rng, size=(1024, 1024), data=None):
    """(rows, length), the length a power of two up to LONGEST; takes no data."""
    real, imag = (rng.random(size, np.float32) * 2 - 1 for _ in range(2))
    out_real, out_imag = np.empty_like(real), np.empty_like(real)
    radices = plan(size[1])
    arrays = (real, imag, *twiddles(radices), out_real, out_imag)

    def expected():
        full = np.fft.fft(real + 1j * imag, axis=1)
        return {"out_real": full.real, "out_imag": full.imag}

    return Case(
        steps=(Step(fft, (*arrays, radices), (size[0],), (GROUP,)),),
        results={"out_real": out_real, "out_imag": out_imag},
        expected=expected,
        tolerance=1e-5,
        bytes=16 * real.size,
        flops=5 * real.size * max(1, size[1].bit_length() - 1),
        data_note="no input",
    )
