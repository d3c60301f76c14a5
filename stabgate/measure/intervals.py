"""Intervals of means and shares over rows, and what an interval says of a requirement.

The rows are these rows: what varies is the runs (or, for a population, which rows were drawn).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from stabgate.columns import Floats

CONFIDENCE = 0.95
Z = float(stats.norm.ppf(0.5 + CONFIDENCE / 2))
# Chances are estimated, and with few rows a sum of estimated variances is often too small. With this much more, of rows
# that meet a requirement and of ranks, the intervals cover what they claim to (docs/calibration.md).
VARIANCE_FLOOR = 0.05
RANK_VARIANCE_FLOOR = 0.5

Interval = tuple[float, float]


def count_interval(met: NDArray[np.bool_], chances: Floats, *, deterministic: bool = False) -> Interval:
    """95 % interval of the number of rows that meet a requirement, over other runs on the same rows.

    Args:
        met: booleans ``(rows,)``, which rows meet it now.
        chances: ``(rows,)`` in [0, 1], how likely each is to meet it with other runs (half-samples).
        deterministic: other runs give the same values.

    Returns:
        The ends, which may lie outside 0 and the number of rows.
    """
    count = float(met.sum())
    if deterministic:
        return count, count
    half = Z * float(chance_variance(chances).sum() + VARIANCE_FLOOR) ** 0.5
    return count - half, count + half


def mean_interval(mean: float, variances: Floats, *, deterministic: bool = False) -> Interval:
    """95 % interval of a mean of k over rows, from the variance of each row's k over other runs ``(rows,)``."""
    half = 0.0 if deterministic else Z * float(variances.sum() + RANK_VARIANCE_FLOOR) ** 0.5 / len(variances)
    return mean - half, mean + half


def chance_variance(chances: Floats) -> Floats:
    """Variance, over other runs, of whether a row meets a requirement: min(p, 1 - p) for the chance p in half-samples.

    Half-samples scatter about the runs at hand, not about the truth. Where the truth is on the threshold they
    are mostly on one side of it, and p (1 - p) is 1/6 on average, not the 1/4 it should be; min(p, 1 - p) is 1/4.
    It is what a half and its complement, which are independent, say: half of how often they disagree.
    """
    return np.minimum(chances, 1.0 - chances)


def half_variance(halves: NDArray[Any]) -> Floats:
    """The same for k: variance over other runs of the k of each row, from half-samples ``(halves, ...)``.

    A half and its complement lie on opposite sides of all runs: half of the mean squared difference of the values at
    opposite ends. Of values 0 and 1 it is `chance_variance`.
    """
    ordered = np.sort(halves, axis=0).astype(np.float64)
    return np.asarray(np.square(ordered - ordered[::-1]).mean(axis=0) / 2.0)


def population_share_interval(met: int, rows: int) -> Interval:
    """Wilson's 95 % interval of a share, for rows that were drawn from a population."""
    share, doubt = met / rows, Z**2 / rows
    centre = (share + doubt / 2) / (1 + doubt)
    half = (doubt * share * (1 - share) + doubt**2 / 4) ** 0.5 / (1 + doubt)
    return centre - half, centre + half


def population_mean_interval(values: Floats) -> Interval | None:
    """Student's 95 % interval of a mean, for rows that were drawn from a population; None below two rows."""
    if len(values) < 2:
        return None
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(values) - 1)) * float(values.std(ddof=1)) / len(values) ** 0.5
    return float(values.mean()) - half, float(values.mean()) + half


def clip(interval: Interval, low: float, high: float) -> Interval:
    """The interval within the range that the quantity has."""
    return min(max(interval[0], low), high), min(max(interval[1], low), high)
