"""Distances against the script that is usually written, side by side in one process.

The usual script: SciPy's `gaussian_kde` per feature, evaluated on 1,000 points for each pair, trapezoid rule,
over the range of both samples (`range`) or ten bandwidths more (`wide`). Errors are the largest of 28 pairs,
against a trapezoid rule of 2,000 nodes per bandwidth around the finer sample.

Run: python benchmarks/distance_speed.py [--rows 50] [--wide-features 1000]
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import trapezoid
from scipy.stats import gaussian_kde

from stabgate.separability import distance_matrix

Floats = NDArray[np.float64]
RUNS, FEATURES = 50, 20
PAGE = """# Speed of distances

How long the distances between all pairs of features take, against the script that is usually written: SciPy's
`gaussian_kde` for each feature, evaluated on 1,000 points for each pair, and a trapezoid rule. `range` integrates over
the range of both samples, `wide` over ten bandwidths more; `error` is the largest of 28 pairs against a brute-force
integral of 2,000 nodes per bandwidth. Processor time on one thread, of one machine on one day; written by
`python benchmarks/distance_speed.py --page docs/distance-speed.md`.
"""


def usual_script(samples: Floats, margin: float) -> Floats:
    """(runs, features) -> (features, features) as it is usually done."""
    n = samples.shape[1]
    distances = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1, n):
            p, q = gaussian_kde(samples[:, i], "silverman"), gaussian_kde(samples[:, j], "silverman")
            beyond = margin * max(np.sqrt(p.covariance[0, 0]), np.sqrt(q.covariance[0, 0]))
            both = samples[:, [i, j]]
            grid = np.linspace(both.min() - beyond, both.max() + beyond, 1000)
            a, b = p(grid), q(grid)
            least = trapezoid(np.minimum(a, b), grid)
            most = trapezoid(np.maximum(a, b), grid)
            distances[i, j] = distances[j, i] = 1 - least / most
    return distances


def brute_force(x: Floats, y: Floats) -> float:
    """Distance of two KDEs, every kernel evaluated."""
    if bandwidth(x) > bandwidth(y):
        x, y = y, x
    x, hx, hy = np.sort(x), bandwidth(x), bandwidth(y)
    least = 0.0
    starts = np.flatnonzero(np.append(True, np.diff(x) > 20 * hx))
    for a, b in zip(starts, np.append(starts[1:], len(x)), strict=True):
        left, right = x[a] - 10 * hx, x[b - 1] + 10 * hx
        nodes = int(np.ceil((right - left) / hx * 2000))
        grid = np.linspace(left, right, nodes + 1)
        least += np.minimum(kernels(grid, x, hx), kernels(grid, y, hy)).sum() * (right - left) / nodes
    return 1 - least / (2 - least)


def bandwidth(x: Floats) -> float:
    """Silverman's rule."""
    return float(np.std(x, ddof=1) * (0.75 * len(x)) ** -0.2)


def kernels(grid: Floats, points: Floats, h: float) -> Floats:
    """Kernel density estimate on a grid."""
    total = np.zeros_like(grid)
    for point in points:
        total += np.exp(-0.5 * ((grid - point) / h) ** 2)
    found: Floats = total / (len(points) * h * np.sqrt(2 * np.pi))
    return found


def seconds(call: Callable[[], object], times: int) -> float:
    """Best of several processor times, which other programs on the machine disturb least."""
    best = np.inf
    for _ in range(times):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def peak_of(call: Callable[[], object]) -> tuple[float, float]:
    """Processor seconds, and the resident memory in MB by which the process grew at most."""
    resident = Path("/proc/self/statm")

    def megabytes() -> float:
        return int(resident.read_text().split()[1]) * 4096 / 1e6 if resident.exists() else float("nan")

    before = peak = megabytes()
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.002):
            peak = max(peak, megabytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.process_time()
    call()
    took = time.process_time() - start
    done.set()
    watcher.join()
    return took, peak - before


def samples_of(kind: str, rng: np.random.Generator, rows: int, features: int) -> Floats:
    """(runs, rows, features) of one kind."""
    noise = rng.normal(size=(RUNS, rows, features))
    if kind == "cauchy":
        noise = rng.standard_cauchy(noise.shape)
    spread = rng.uniform(0.3, 2.0, features)
    if kind == "scales 1e-4..1e2":
        spread = 10 ** rng.uniform(-4, 2, features)
    found: Floats = noise * spread + rng.normal(size=features)
    return found


def main() -> None:
    """Print the comparison, and write it as a page where one is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50)
    parser.add_argument("--wide-features", type=int, default=1000)
    parser.add_argument("--page", type=Path, default=None, help="write docs/distance-speed.md here")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    lines: list[str] = []

    def say(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    say(f"one row of {FEATURES} features x {RUNS} runs; stabgate over {options.rows} rows at once; CPU time")
    say(f"{'':<18}{'script':>11}{'stabgate':>12}{'ratio':>8}{'error: range':>15}{'wide':>10}{'stabgate':>11}")
    for kind in ("normal", "cauchy", "scales 1e-4..1e2"):
        x = samples_of(kind, rng, options.rows, FEATURES)
        distance_matrix(x)
        fast = seconds(partial(distance_matrix, x), 5) / options.rows
        slow = seconds(partial(usual_script, x[:, 0], 0.0), 2)
        some = x[:, 0, :8]
        exact = [brute_force(some[:, i], some[:, j]) for i in range(8) for j in range(i + 1, 8)]
        upper = np.triu_indices(8, 1)
        errors = [
            np.abs(found[upper] - exact).max()
            for found in (usual_script(some, 0.0), usual_script(some, 10.0), distance_matrix(some))
        ]
        say(
            f"{kind:<18}{slow * 1e3:>8.0f} ms{fast * 1e3:>9.2f} ms{slow / fast:>7.0f}x"
            f"{errors[0]:>15.1e}{errors[1]:>10.1e}{errors[2]:>11.1e}"
        )

    settings = [(metric, "kde") for metric in ("jaccard", "hellinger", "jensen_shannon")] + [("jaccard", "mixed")]
    for metric, density in settings:
        x = samples_of("normal", rng, 1, options.wide_features)
        took, grown = peak_of(partial(distance_matrix, x, metric=metric, density=density))
        say(
            f"one row of {options.wide_features} features x {RUNS} runs, {metric}, {density}:"
            f" {took:.1f} s, {grown:.0f} MB more"
        )
    if options.page is not None:
        options.page.write_text(PAGE + "\n```text\n" + "\n".join(lines) + "\n```\n", encoding="utf-8")


if __name__ == "__main__":
    main()
