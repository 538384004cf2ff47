"""FFT of rows whose length is a power of two, by Stockham steps of radix 2 in shared memory."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

LONGEST = 2048


@hetir.kernel
def fft(
    real: hl.Array[hl.f32, 2],
    imag: hl.Array[hl.f32, 2],
    cosine: hl.Array[hl.f32, 1],
    sine: hl.Array[hl.f32, 1],
    out_real: hl.Array[hl.f32, 2],
    out_imag: hl.Array[hl.f32, 2],
):
    """One workgroup a row; cosine and sine hold the angles -2 pi k / n for k < n / 2."""
    row, lane, step = hl.group_id(0), hl.local_id(0), hl.group_size(0)
    n = real.shape[1]
    re = hl.shared((2, LONGEST), hl.f32)
    im = hl.shared((2, LONGEST), hl.f32)
    for i in range(lane, n, step):
        re[0, i] = real[row, i]
        im[0, i] = imag[row, i]
    hl.barrier()
    half = n // 2
    source = 0
    span = 1
    while span < n:
        for i in range(lane, half, step):
            k = i & (span - 1)
            w = k * (half // span)
            c, s = cosine[w], sine[w]
            a_re, a_im = re[source, i], im[source, i]
            b_re, b_im = re[source, i + half], im[source, i + half]
            t_re = b_re * c - b_im * s
            t_im = b_re * s + b_im * c
            at = 2 * i - k
            re[1 - source, at] = a_re + t_re
            im[1 - source, at] = a_im + t_im
            re[1 - source, at + span] = a_re - t_re
            im[1 - source, at + span] = a_im - t_im
        hl.barrier()
        source = 1 - source
        span *= 2
    for i in range(lane, n, step):
        out_real[row, i] = re[source, i]
        out_imag[row, i] = im[source, i]


def case(rng, size=(1024, 1024), data=None):
    """(rows, length), the length a power of two up to LONGEST; takes no data."""
    real, imag = (rng.random(size, np.float32) * 2 - 1 for _ in range(2))
    out_real, out_imag = np.empty_like(real), np.empty_like(real)
    n = size[1]
    angle = -2 * np.pi * np.arange(max(1, n // 2)) / n
    cosine, sine = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    arrays = (real, imag, cosine, sine, out_real, out_imag)

    def expected():
        full = np.fft.fft(real + 1j * imag, axis=1)
        return {"out_real": full.real, "out_imag": full.imag}

    return Case(
        steps=(Step(fft, arrays, (size[0],), (128,)),),
        results={"out_real": out_real, "out_imag": out_imag},
        expected=expected,
        tolerance=1e-5,
        bytes=16 * real.size,
        flops=5 * real.size * max(1, n.bit_length() - 1),
        data_note="no input",
    )
