"""A long job is killed in the middle, and goes on on another device, to the same bits.

    python examples/migrate.py [--device opencl:0] [--paths 2000000]

A child process prices an option by Monte-Carlo simulation (Philox random numbers) and saves a
checkpoint now and then. It is killed with SIGKILL; this process resumes the last checkpoint on
another device, and compares the result with an uninterrupted run.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.progress import Progress

import hetir
import hetir.lang as hl
from hetir import checkpoint

ITEMS = 256


@hetir.kernel
def price(total: hl.Array[hl.f32, 1], paths: hl.i64, seed: hl.u64) -> None:
    """Each workgroup sums `paths` payoffs an item of a call at the money."""
    item = hl.global_id(0)
    payoff = hl.f32(0)
    for path in range(paths):
        a, b, _c, _d = hl.philox(seed, item * paths + path)
        draw, other = hl.normal(a, b)
        payoff += max(hl.exp(0.2 * draw - 0.02) - 1.0, 0.0)
        payoff += max(hl.exp(0.2 * other - 0.02) - 1.0, 0.0)
    total[item] = payoff / hl.f32(2 * paths)


def launch(groups: int, paths: int, device: str) -> checkpoint.CheckpointLaunch:
    """Start the job so that it can be stopped."""
    total = np.zeros(groups * ITEMS, np.float32)
    return price.launch(
        (total, paths, np.uint64(7)), grid=groups, workgroup=ITEMS, device=device, checkpoint=True
    )


def work(folder: Path, groups: int, paths: int, device: str) -> None:
    """What the child does: run, and save every 0.2 seconds."""
    run = launch(groups, paths, device)
    while True:
        time.sleep(0.2)
        run.save(folder / "job.hetck")
        if run.done:
            return


def killed(folder: Path, options: argparse.Namespace) -> float:
    """Run the child until a part is done, kill it, and give the part."""
    sizes = ["--paths", str(options.paths), "--groups", str(options.groups)]
    child = subprocess.Popen([sys.executable, __file__, "--work", str(folder), *sizes])
    done = 0.0
    with Progress() as bar:
        task = bar.add_task("cpu, to be killed", total=1.0)
        while done < 0.3 and child.poll() is None:
            time.sleep(0.1)
            try:
                status = checkpoint.load(checkpoint.latest(folder)).status
            except checkpoint.CheckpointError:
                continue
            done = float((status < 0).mean())
            bar.update(task, completed=done)
    if child.poll() is None:
        os.kill(child.pid, signal.SIGKILL)
    child.wait()
    return done


def main() -> None:
    """Tell the story."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="", help="where to go on; any other device if left out")
    parser.add_argument("--paths", type=int, default=40_000, help="paths a work-item")
    parser.add_argument("--groups", type=int, default=64)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.groups, options.paths, "cpu")
        return
    others = [d.name for d in hetir.devices() if d.name != "cpu"]
    device = options.device or (others[0] if others else "cpu")
    whole = launch(options.groups, options.paths, "cpu")
    whole.wait()
    with tempfile.TemporaryDirectory() as folder:
        done = killed(Path(folder), options)
        print(f"killed the process after {done:.0%} of the workgroups; going on on {device}")
        run = hetir.resume(checkpoint.latest(folder), device)
        run.wait()
    same = run.arguments["total"].tobytes() == whole.arguments["total"].tobytes()
    found = run.arguments["total"].mean(dtype=np.float64)
    print(f"price {found:.6f}; the bits are {'equal' if same else 'NOT EQUAL'}")
    sys.exit(not same)


if __name__ == "__main__":
    main()
