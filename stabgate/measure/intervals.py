"""Intervals of means and shares over rows, and what an interval says of a requirement.

The rows are these rows: what varies is the runs (or, for a population, which rows were drawn).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from stabgate.columns import Floats

CONFIDENCE = 0.95
Z = float(stats.norm.ppf(0.5 + CONFIDENCE / 2))
# Rows: chances are estimated, and with few rows a sum of estimated variances is often too small. With this much more
# the intervals cover what they claim to (docs/calibration.md).
VARIANCE_FLOOR = 0.05

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
    half = Z * float((chances * (1.0 - chances)).sum() + VARIANCE_FLOOR) ** 0.5
    return count - half, count + half


def mean_interval(mean: float, variances: Floats) -> Interval:
    """95 % interval of a mean over rows, from the variance of each row's value over other runs."""
    half = Z * float(variances.sum()) ** 0.5 / len(variances)
    return mean - half, mean + half


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
