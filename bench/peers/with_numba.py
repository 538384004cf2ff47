"""numba: parallel loops over the outer index, fast-math."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numba
import numpy as np
from numba import njit, prange

Arrays = Mapping[str, Any]
Run = Callable[[], Arrays]
F = np.float32
THREADS = numba.get_num_threads()
parallel = njit(parallel=True, fastmath=True)
inline = njit(fastmath=True, inline="always")


def describe() -> dict[str, str]:
    """Version and what the numbers mean."""
    return {"version": numba.__version__, "style": "parallel loops, fast-math"}


def run_of(function: Any, results: Arrays, *arguments: Any) -> Run:
    """A run of one compiled function."""

    def run() -> Arrays:
        function(*arguments)
        return results

    return run


@parallel
def add_loop(x, y, z):
    for i in prange(z.size):
        z[i] = x[i] + y[i]


def vector_add(g: Arrays) -> Run:
    z = np.empty_like(g["x"])
    return run_of(add_loop, {"z": z}, g["x"], g["y"], z)


@parallel
def saxpy_loop(a, x, y):
    for i in prange(y.size):
        y[i] = a * x[i] + y[i]


def saxpy(g: Arrays) -> Run:
    return run_of(saxpy_loop, g, F(1.5), g["x"], g["y"])


@parallel
def launch_loop(a, x, b, y, z):
    for i in prange(z.size):
        z[i] = a * x[i] + b * y[i]


def launch(g: Arrays) -> Run:
    z = np.empty_like(g["x"])
    return run_of(launch_loop, {"z": z}, F(2), g["x"], F(3), g["y"], z)


@parallel
def softmax_loop(x, y):
    for row in prange(x.shape[0]):
        top = F(-np.inf)
        for j in range(x.shape[1]):
            top = max(top, x[row, j])
        total = F(0)
        for j in range(x.shape[1]):
            e = math.exp(x[row, j] - top)
            y[row, j] = e
            total += e
        scale = F(1) / total
        for j in range(x.shape[1]):
            y[row, j] *= scale


def softmax(g: Arrays) -> Run:
    y = np.empty_like(g["x"])
    return run_of(softmax_loop, {"y": y}, g["x"], y)


@parallel
def layer_norm_loop(x, weight, bias, y):
    width = x.shape[1]
    for row in prange(x.shape[0]):
        total = F(0)
        for j in range(width):
            total += x[row, j]
        mean = total / F(width)
        square = F(0)
        for j in range(width):
            centred = x[row, j] - mean
            square += centred * centred
        scale = F(1) / math.sqrt(square / F(width) + F(1e-5))
        for j in range(width):
            y[row, j] = (x[row, j] - mean) * scale * weight[j] + bias[j]


def layer_norm(g: Arrays) -> Run:
    y = np.empty_like(g["x"])
    return run_of(layer_norm_loop, {"y": y}, g["x"], g["weight"], g["bias"], y)


@parallel
def sum_loop(x):
    total = F(0)
    for i in prange(x.size):
        total += x[i]
    return total


def total(g: Arrays) -> Run:
    return lambda: {"total": np.array([sum_loop(g["x"])])}


@parallel
def scan_loop(x, before, y):
    n, parts = x.size, before.size - 1
    for p in prange(parts):
        own = F(0)
        for i in range(n * p // parts, n * (p + 1) // parts):
            own += x[i]
        before[p + 1] = own
    for p in range(parts):
        before[p + 1] += before[p]
    for p in prange(parts):
        running = before[p]
        for i in range(n * p // parts, n * (p + 1) // parts):
            running += x[i]
            y[i] = running


def scan(g: Arrays) -> Run:
    y = np.empty_like(g["x"])
    return run_of(scan_loop, {"y": y}, g["x"], np.zeros(THREADS + 1, F), y)


@parallel
def histogram_loop(x, own, counts):
    n, parts = x.size, own.shape[0]
    for p in prange(parts):
        own[p] = 0
        for i in range(n * p // parts, n * (p + 1) // parts):
            own[p, x[i]] += 1
    counts[:] = 0
    for p in range(parts):
        counts += own[p, :256]


def histogram(g: Arrays) -> Run:
    """A table a thread: numba has no atomics on the CPU; padded against false sharing."""
    counts, own = np.zeros(256, np.int32), np.zeros((THREADS, 1024), np.int32)
    return run_of(histogram_loop, {"counts": counts}, g["x"], own, counts)


@parallel
def matmul_loop(a, b, c):
    rows, depth = a.shape
    for block in prange(rows // 8):
        top = 8 * block
        c[top : top + 8] = 0
        for from_k in range(0, depth, 64):
            for i in range(top, top + 8):
                for k in range(from_k, from_k + 64):
                    factor = a[i, k]
                    for j in range(b.shape[1]):
                        c[i, j] += factor * b[k, j]


def matmul(g: Arrays) -> Run:
    c = np.empty_like(g["a"])
    return run_of(matmul_loop, {"c": c}, g["a"], g["b"], c)


@parallel
def jacobi_loop(a, b):
    for i in prange(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            b[i, j] = F(0.2) * (a[i, j] + a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


def jacobi(g: Arrays) -> Run:
    a, b = g["a"], g["a"].copy()

    def run() -> Arrays:
        for _ in range(5):
            jacobi_loop(a, b)
            jacobi_loop(b, a)
        return g

    return run


@parallel
def nbody_loop(px, py, pz, mass, vel, out):
    n = px.size
    for i in prange(n):
        x, y, z = px[i], py[i], pz[i]
        ax, ay, az = F(0), F(0), F(0)
        for j in range(n):
            dx, dy, dz = px[j] - x, py[j] - y, pz[j] - z
            r2 = dx * dx + dy * dy + dz * dz + F(1e-2)
            w = mass[j] / (r2 * math.sqrt(r2))
            ax += w * dx
            ay += w * dy
            az += w * dz
        vx, vy, vz = vel[i, 0] + F(1e-3) * ax, vel[i, 1] + F(1e-3) * ay, vel[i, 2] + F(1e-3) * az
        out[i, 0], out[i, 1], out[i, 2] = x + F(1e-3) * vx, y + F(1e-3) * vy, z + F(1e-3) * vz
        out[i, 3], out[i, 4], out[i, 5] = vx, vy, vz


def nbody(g: Arrays) -> Run:
    out = np.empty((len(g["vel"]), 6), F)
    return run_of(nbody_loop, {"out": out}, *g["pos"], g["vel"], out)


@parallel
def mandelbrot_loop(counts, limit):
    height, width = counts.shape
    for row in prange(height):
        cy = F(row) * (F(3) / F(height)) - F(1.5)
        for col in range(width):
            cx = F(col) * (F(3) / F(width)) - F(2)
            zx, zy, n = F(0), F(0), 0
            while n < limit and zx * zx + zy * zy <= F(4):
                zx, zy = zx * zx - zy * zy + cx, F(2) * zx * zy + cy
                n += 1
            counts[row, col] = n


def mandelbrot(_: Arrays) -> Run:
    counts = np.empty((1024, 1024), np.int32)
    return run_of(mandelbrot_loop, {"counts": counts}, counts, 256)


@parallel
def attention_loop(q, k, v, out):
    heads, rows, depth = q.shape
    for at in prange(heads * rows):
        head, row = at // rows, at % rows
        total, score = np.zeros(64, F), np.empty(64, F)
        top, weight = F(-1e30), F(0)
        for start in range(0, rows, 64):
            higher = top
            for j in range(64):
                product = F(0)
                for d in range(64):
                    product += q[head, row, d] * k[head, start + j, d]
                score[j] = product * F(0.125)
                higher = max(higher, score[j])
            shrink = math.exp(top - higher)
            weight *= shrink
            for d in range(64):
                total[d] *= shrink
            for j in range(64):
                p = math.exp(score[j] - higher)
                weight += p
                for d in range(64):
                    total[d] += p * v[head, start + j, d]
            top = higher
        for d in range(depth):
            out[head, row, d] = total[d] / weight


def flash_attention(g: Arrays) -> Run:
    out = np.empty_like(g["q"])
    return run_of(attention_loop, {"out": out}, g["q"], g["k"], g["v"], out)


@inline
def normal_cdf(z):
    u = F(1) / (F(1) + F(0.2316419) * abs(z))
    series = F(-1.821255978) + u * F(1.330274429)
    series = F(0.31938153) + u * (F(-0.356563782) + u * (F(1.781477937) + u * series))
    tail = F(0.3989422804) * math.exp(F(-0.5) * z * z) * u * series
    return F(1) - tail if z > F(0) else tail


@parallel
def black_scholes_loop(spot, strike, years, call, put):
    for i in prange(spot.size):
        s, x, t = spot[i], strike[i], years[i]
        spread = F(0.3) * math.sqrt(t)
        d1 = (math.log(s / x) + F(0.065) * t) / spread
        n1, n2 = normal_cdf(d1), normal_cdf(d1 - spread)
        discounted = x * math.exp(F(-0.02) * t)
        call[i] = s * n1 - discounted * n2
        put[i] = discounted * (F(1) - n2) - s * (F(1) - n1)


def black_scholes(g: Arrays) -> Run:
    call, put = np.empty_like(g["spot"]), np.empty_like(g["spot"])
    given = (g["spot"], g["strike"], g["years"])
    return run_of(black_scholes_loop, {"call": call, "put": put}, *given, call, put)


@parallel
def transpose_loop(x, y):
    for block in prange(y.shape[0] // 16):
        top = 16 * block
        for left in range(0, y.shape[1], 16):
            for i in range(top, top + 16):
                for j in range(left, left + 16):
                    y[i, j] = x[j, i]


def transpose(g: Arrays) -> Run:
    y = np.empty_like(g["x"])
    return run_of(transpose_loop, {"y": y}, g["x"], y)


@parallel
def spmv_loop(start, column, value, x, y):
    for row in prange(y.size):
        total = F(0)
        for k in range(start[row], start[row + 1]):
            total += value[k] * x[column[k]]
        y[row] = total


def spmv(g: Arrays) -> Run:
    y = np.empty_like(g["x"])
    return run_of(spmv_loop, {"y": y}, g["start"], g["column"], g["value"], g["x"], y)


@parallel
def exchange_loop(x, size, distance):
    for pair in prange(x.size // 2):
        low = 2 * pair - (pair & (distance - 1))
        p, q = x[low], x[low + distance]
        if ((low & size) == 0) == (p > q):
            x[low], x[low + distance] = q, p


def bitonic_sort(g: Arrays) -> Run:
    """One call a pass of the network."""
    given, x = g["x"], g["x"].copy()

    def run() -> Arrays:
        x[:] = given
        size = 2
        while size <= x.size:
            distance = size // 2
            while distance:
                exchange_loop(x, size, distance)
                distance //= 2
            size *= 2
        return {"x": x}

    return run


MAKERS = {
    "vector_add": vector_add,
    "saxpy": saxpy,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "sum": total,
    "scan": scan,
    "histogram": histogram,
    "matmul_512": matmul,
    "matmul_1024": matmul,
    "jacobi": jacobi,
    "nbody": nbody,
    "mandelbrot": mandelbrot,
    "flash_attention": flash_attention,
    "black_scholes": black_scholes,
    "transpose": transpose,
    "spmv": spmv,
    "bitonic_sort": bitonic_sort,
    "launch": launch,
}
