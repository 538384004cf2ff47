"""One step of n bodies under gravity, all pairs, positions staged through shared memory."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

TILE = 64
SOFTENING = 1e-2
DT = 1e-3


def towards(tile, k, x, y, z):
    """The way to body k of a tile, and the third power of its softened length."""
    dx = tile[0, k] - x
    dy = tile[1, k] - y
    dz = tile[2, k] - z
    r2 = dx * dx + dy * dy + dz * dz + SOFTENING
    return dx, dy, dz, r2 * hl.sqrt(r2)


@hetir.kernel
def nbody(pos: hl.Array[hl.f32, 2], vel: hl.Array[hl.f32, 2], out: hl.Array[hl.f32, 2]):
    """pos has rows x, y, z and mass; a row of vel is x, y, z, of out the new place and velocity."""
    i = hl.global_id(0)
    lane = hl.local_id(0)
    n = pos.shape[1]
    own = min(i, n - 1)
    x, y, z = pos[0, own], pos[1, own], pos[2, own]
    ax = hl.f32(0)
    ay = hl.f32(0)
    az = hl.f32(0)
    tile = hl.shared((4, TILE), hl.f32)
    for start in range(0, n, TILE):
        j = start + lane
        for c in hl.static_range(4):
            tile[c, lane] = pos[c, j] if j < n else 0.0
        hl.barrier()
        dx, dy, dz, r3 = towards(tile, 0, x, y, z)
        for k in range(1, TILE):  # a root is on its way while the quotient before it is made
            next_dx, next_dy, next_dz, next_r3 = towards(tile, k, x, y, z)
            w = tile[3, k - 1] / r3
            ax += w * dx
            ay += w * dy
            az += w * dz
            dx, dy, dz, r3 = next_dx, next_dy, next_dz, next_r3
        w = tile[3, TILE - 1] / r3
        ax += w * dx
        ay += w * dy
        az += w * dz
        hl.barrier()
    if i < n:
        vx = vel[i, 0] + DT * ax
        vy = vel[i, 1] + DT * ay
        vz = vel[i, 2] + DT * az
        out[i, 0] = x + DT * vx
        out[i, 1] = y + DT * vy
        out[i, 2] = z + DT * vz
        out[i, 3] = vx
        out[i, 4] = vy
        out[i, 5] = vz


def case(rng, size=4096, data=None):
    """`size` bodies in a cube; takes no data."""
    pos = rng.random((4, size), np.float32) * 2 - 1
    pos[3] = rng.random(size, np.float32) / size
    vel = rng.random((size, 3), np.float32) * np.float32(0.2) - np.float32(0.1)
    out = np.empty((size, 6), np.float32)

    def expected():
        p, v = pos.T.astype(np.float64), vel.astype(np.float64)
        acc = np.empty((size, 3))
        for i in range(0, size, 256):
            r = p[None, :, :3] - p[i : i + 256, None, :3]
            s = (r * r).sum(2) + SOFTENING
            acc[i : i + 256] = np.einsum("ijk,ij->ik", r, p[None, :, 3] / (s * np.sqrt(s)))
        v = v + DT * acc
        return {"out": np.concatenate([p[:, :3] + DT * v, v], 1)}

    return Case(
        steps=(Step(nbody, (pos, vel, out), (hetir.cdiv(size, TILE),), (TILE,)),),
        results={"out": out},
        expected=expected,
        tolerance=1e-5,
        bytes=56 * size,
        flops=20 * size * size,
        data_note="no input",
    )
