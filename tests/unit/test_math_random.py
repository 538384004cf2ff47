"""Philox against Random123's known answers; uniform and normal numbers."""

import math

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir.frontend import parse_signature, trace
from hetir.frontend.errors import OperandError
from hetir.ir.core import Options

# kat_vectors of Random123 1.14.0: philox4x32, 10 rounds; counter, key, result
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def reference(counter, key):
    """Philox 4x32-10 in Python integers, from the paper's text."""
    counter, key = list(counter), list(key)
    for _ in range(10):
        a, b = counter[0] * 0xD2511F53, counter[2] * 0xCD9E8D57
        counter = [
            b >> 32 ^ counter[1] ^ key[0],
            b & 0xFFFFFFFF,
            a >> 32 ^ counter[3] ^ key[1],
            a & 0xFFFFFFFF,
        ]
        key = [key[0] + 0x9E3779B9 & 0xFFFFFFFF, key[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return counter


@hetir.kernel
def by_words(words, y):
    i = hl.global_id(0)
    counter = (words[i, 0], words[i, 1], words[i, 2], words[i, 3])
    y[i, 0], y[i, 1], y[i, 2], y[i, 3] = hl.philox((words[i, 4], words[i, 5]), counter)


@pytest.mark.parametrize("device", ["cpu", "emulator"])
def test_known_answers(device):
    words = np.array([counter + key for counter, key, _ in KNOWN], np.uint32)
    y = np.zeros((len(KNOWN), 4), np.uint32)
    by_words.launch((words, y), grid=len(KNOWN), workgroup=1, device=device).wait()
    np.testing.assert_array_equal(y, [result for _, _, result in KNOWN])


def test_random_counters_and_keys_agree_with_python_integers():
    words = np.random.default_rng(2).integers(0, 2**32, (64, 6), dtype=np.uint32)
    y = np.zeros((64, 4), np.uint32)
    by_words[64, 1](words, y)
    want = [reference(map(int, w[:4]), map(int, w[4:])) for w in words]
    np.testing.assert_array_equal(y, want)


def test_a_number_is_its_low_and_high_words():
    @hetir.kernel
    def kernel(seed: hl.u64, y):
        i = hl.global_id(0)
        y[i, 0], y[i, 1], y[i, 2], y[i, 3] = hl.philox(seed, i + 0x500000000)

    seed, y = 0x123456789ABCDEF0, np.zeros((8, 4), np.uint32)
    kernel[8, 1](seed, y)
    want = [reference((i, 5, 0, 0), (0x9ABCDEF0, 0x12345678)) for i in range(8)]
    np.testing.assert_array_equal(y, want)


def test_floats_and_too_many_words_are_refused():
    def with_float(x):
        x[0] = hl.philox(x[0], 1)[0]

    def with_five(x):
        x[0] = hl.philox(0, (1, 2, 3, 4, 5))[0]

    for function in (with_float, with_five):
        with pytest.raises(OperandError):
            trace(function, parse_signature("f32[:]"), options=Options())


@hetir.kernel
def from_words(words, u, w, n):
    i = hl.global_id(0)
    u[i] = hl.uniform(words[i, 0])
    w[i] = hl.uniform_f64(words[i, 0], words[i, 1])
    n[i, 0], n[i, 1] = hl.normal(words[i, 0], words[i, 1])


def _from(words):
    count = len(words)
    u, w, n = np.zeros(count, "f4"), np.zeros(count), np.zeros((count, 2), "f4")
    from_words[count, 1](words, u, w, n)
    return u, w, n


def test_uniform_and_normal_are_their_formulas():
    ends = [[0, 0], [2**32 - 1] * 2, [0, 2**31], [255, 2**30], [256, 2**29], [2**32 - 1, 0]]
    random = np.random.default_rng(5).integers(0, 2**32, (2048, 2))
    words = np.concatenate([ends, random]).astype(np.uint32)
    u, w, n = _from(words)
    np.testing.assert_array_equal(u, (words[:, 0] >> 8) * 2.0**-24)
    whole = (words[:, 1].astype(np.uint64) << np.uint64(32)) | words[:, 0]
    np.testing.assert_array_equal(w, (whole >> np.uint64(11)) * 2.0**-53)
    radius = np.sqrt(-2 * np.log(((words[:, 0] >> 8) + 1.0) * 2.0**-24))
    angle = words[:, 1] * (2 * math.pi / 2**32)
    np.testing.assert_allclose(n[:, 0], radius * np.cos(angle), rtol=0, atol=1.5e-6)
    np.testing.assert_allclose(n[:, 1], radius * np.sin(angle), rtol=0, atol=1.5e-6)


def test_moments_of_a_million_normal_numbers():
    @hetir.kernel
    def kernel(n, seed):
        i = hl.global_id(0)
        a, b, c, d = hl.philox(seed, i)
        n[i, 0], n[i, 1] = hl.normal(a, b)
        n[i, 2], n[i, 3] = hl.normal(c, d)

    n = np.zeros((1 << 18, 4), np.float32)
    kernel[1 << 10, 256](n, 42)
    z = n.astype(np.float64)
    # five standard deviations of each estimate
    count = z.size
    assert abs(z.mean()) < 5 / math.sqrt(count)
    assert abs((z**2).mean() - 1) < 5 * math.sqrt(2 / count)
    assert abs((z**3).mean()) < 5 * math.sqrt(15 / count)
    assert abs((z**4).mean() - 3) < 5 * math.sqrt(96 / count)
    pairs = np.corrcoef(z.T) - np.eye(4)
    assert np.abs(pairs).max() < 5 / math.sqrt(1 << 18)
