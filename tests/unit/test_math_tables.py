"""The tables against the functions and constants that they stand for, by mpmath."""

import numpy as np
import pytest
from mpmath import mp, mpf

from hetir.lang.math import tables
from tools import minimax

# what a polynomial may add to the relative error of a result: well below its rounding
SMALL = {"F32": 2.0**-26.5, "F64": 2.0**-54}
ROWS = [(row, kind) for row in minimax.POLYNOMIALS for kind in row.terms if row.name != "CBRT"]


@pytest.mark.parametrize(("row", "kind"), ROWS, ids=lambda v: getattr(v, "name", v))
def test_polynomials_are_near_their_functions(row, kind):
    coefficients = getattr(tables, f"{row.name}_{kind}")
    assert len(coefficients) == row.terms[kind]
    with mp.workdps(50):
        for part in range(41):
            x = row.low + (row.high - row.low) * (part + mpf("0.123")) / 41
            error = row.function(x) - minimax.horner(list(map(mpf, coefficients)), x)
            assert abs(error * row.weight(x)) < SMALL[kind], (row.name, x)


@pytest.mark.parametrize("kind", ["F32", "F64"])
def test_coefficients_are_numbers_of_their_type(kind):
    names = [n for n in vars(tables) if n.endswith(kind) and "BITS" not in n]
    assert len(names) > 30
    for name in names:
        values = np.hstack([np.ravel(row) for row in getattr(tables, name)])
        assert (values.astype({"F32": "f4", "F64": "f8"}[kind]) == values).all(), name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LN2_N", lambda: mp.log(2)),
        ("LN2", lambda: mp.log(2)),
        ("LG2_N", lambda: mp.log10(2)),
        ("LN10", lambda: mp.log(10)),
        ("INV_LN2", lambda: 1 / mp.log(2)),
        ("INV_LN10", lambda: 1 / mp.log(10)),
        ("HALF_PI_N", lambda: mp.pi / 2),
        ("HALF_PI", lambda: mp.pi / 2),
        ("HALF_PI_SUM", lambda: mp.pi / 2),
        ("QUARTER_PI_SUM", lambda: mp.pi / 4),
        ("PI", lambda: mp.pi),
        ("PI_SUM", lambda: mp.pi),
        ("SQRT_HALF", lambda: mp.sqrt(mpf(1) / 2)),
        ("LOG2_PI", lambda: mp.log(2 * mp.pi, 2) / 2),
        ("LN_PI", lambda: mp.log(mp.pi)),
        ("THIRD", lambda: mpf(1) / 3),
        ("TWELFTH_LN2", lambda: 1 / (12 * mp.log(2))),
    ],
)
def test_the_parts_of_constants_add_up(name, value):
    with mp.workdps(80):
        for kind, bits in (("F32", 36), ("F64", 94)):
            parts = getattr(tables, f"{name}_{kind}")
            assert abs(sum(map(mpf, parts)) / value() - 1) < mpf(2) ** -bits


def test_zeros_of_the_logarithm_of_gamma():
    """Each row by mpmath: the zero, its distance from the pole, and the rest beside it."""
    with mp.workdps(60):
        for kind, bits in (("F32", 46), ("F64", 104)):
            rows = getattr(tables, f"LGAMMA_ZEROS_{kind}")
            assert len(rows) == {"F32": 13, "F64": 27}[kind]
            for begins, high, low, *others in rows:
                zero, inverse = mpf(high) + mpf(low), mpf(others[0]) + mpf(others[1])
                pole = mp.nint(zero)
                assert begins < zero < begins + 0.5
                slope = mp.psi(0, zero)
                # a zero off by its pair's last bit leaves the slope times that
                assert abs(minimax.log_of_gamma(zero)) < abs(slope * zero) * mpf(2) ** (1 - bits)
                root = mp.findroot(minimax.log_of_gamma, zero)
                assert abs(inverse * (root - pole) - 1) < mpf(2) ** (3 - bits)
                for part in (-0.06, -0.01, 0.02, 0.06):
                    t = part * (root - pole)
                    rest = t * minimax.horner(list(map(mpf, others[2:])), t)
                    want = minimax.log_of_gamma(root + t)
                    assert abs((rest - mp.log1p(t * inverse)) / want - 1) < SMALL[kind]


def test_the_bits_of_two_over_pi():
    with mp.workdps(500):
        for kind, width in (("F32", 32), ("F64", 64)):
            words = getattr(tables, f"TWO_OVER_PI_BITS_{kind}")
            whole = int(mp.floor(2 / mp.pi * mpf(2) ** (width * len(words))))
            assert sum(w << width * i for i, w in enumerate(reversed(words))) == whole


@pytest.mark.slow
def test_the_script_writes_these_tables():
    assert minimax.TABLES.read_text() == minimax.render()
