"""From attributions to the numbers whose distributions are compared: sign, noise floor, repeated values."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from stabgate.separability._checks import Bools, Floats, Ints, as_values, one_of

VALUES = ("magnitude", "signed", "adverse", "favourable", "absmean")

# Two routes to one exact SHAP value differ by a few units in the last place of the largest term that was
# summed.
NOISE_FLOOR_ULPS = 16

# Two equal floats out of 50 happen by rounding; three mark a value that the explainer returns on purpose.
ATOM_RUNS = 3


def attribution_values(attributions: ArrayLike, value: str = "magnitude") -> Floats:
    """What enters the attribution distributions.

    Args:
        attributions: signed, (runs, instances, features) or (runs, features).
        value: "magnitude" |a| per run (the paper's A.4), "signed" a, "favourable" max(a, 0), "adverse"
            max(-a, 0), "absmean" a (the densities are of signed values; `ranking_means` then ranks by
            |mean|).

    Returns:
        Values of the same shape.

    Raises:
        InputError: unknown `value`, wrong number of axes, NaN or infinity.
    """
    one_of("value", value, VALUES)
    cube, single = as_values(attributions, name="attributions")
    if value == "magnitude":
        cube = np.abs(cube)
    elif value == "favourable":
        cube = np.maximum(cube, 0.0)
    elif value == "adverse":
        cube = np.maximum(-cube, 0.0)
    return cube[:, 0] if single else cube


def ranking_means(values: ArrayLike, value: str = "magnitude") -> Floats:
    """Means over runs that the features are ranked by; the absolute mean for `value="absmean"`.

    Args:
        values: result of `attribution_values`, (runs, instances, features) or (runs, features).
        value: the choice that produced them.

    Returns:
        (instances, features), or (features,) for one instance.

    Raises:
        InputError: unknown `value`, wrong number of axes, NaN or infinity.
    """
    one_of("value", value, VALUES)
    cube, single = as_values(values, name="values")
    # Around the first run, so that equal values have exactly their value as mean.
    means: Floats = cube[0] + (cube - cube[0]).mean(axis=0)
    if value == "absmean":
        means = np.abs(means)
    return means[0] if single else means


def noise_floor(values: ArrayLike) -> Floats:
    """Differences up to this size are rounding: 16 eps max|a| over the runs and features of an instance.

    Args:
        values: (runs, instances, features) or (runs, features).

    Returns:
        (instances,), or an array without axes for one instance.

    Raises:
        InputError: wrong number of axes, NaN or infinity.
    """
    cube, single = as_values(values, name="values")
    floors: Floats = NOISE_FLOOR_ULPS * np.finfo(np.float64).eps * np.abs(cube).max(axis=(0, 2))
    return floors.reshape(()) if single else floors


def equal_runs(ordered: Floats, floor: Floats) -> tuple[Ints, Ints]:
    """Groups of values that are equal within the floor.

    A group starts at its smallest value and holds all within `floor` above it, so that it is never wider than
    the floor; joining neighbours instead would let a chain of tiny steps become one "value".

    Args:
        ordered: (runs, columns), ascending along the runs.
        floor: (columns,).

    Returns:
        Group number and group size of each value, both (runs, columns).
    """
    runs, columns = ordered.shape
    group = np.zeros((runs, columns), dtype=np.intp)
    smallest = ordered[0].copy()
    for run in range(1, runs):
        starts = ordered[run] - smallest > floor
        smallest[starts] = ordered[run, starts]
        group[run] = group[run - 1] + starts
    cell = group * columns + np.arange(columns)
    size = np.bincount(cell.ravel(), minlength=runs * columns)
    return group, size[cell].astype(np.intp)


def constant_features(values: ArrayLike) -> Bools:
    """Features whose value is the same in every run: largest minus smallest within the noise floor.

    Not judged by the standard deviation, which is often 4e-16 for equal floats.

    Args:
        values: (runs, instances, features) or (runs, features).

    Returns:
        (instances, features), or (features,) for one instance.

    Raises:
        InputError: wrong number of axes, NaN or infinity.
    """
    cube, single = as_values(values, name="values")
    constant: Bools = np.ptp(cube, axis=0) <= noise_floor(cube)[:, np.newaxis]
    return constant[0] if single else constant


def repeated_features(values: ArrayLike) -> Bools:
    """Features that repeat a few values, so that a KDE is a doubtful picture of them.

    At least half of the runs lie in groups of three or more values that are equal within the noise floor, and
    the feature is not constant.

    Args:
        values: (runs, instances, features) or (runs, features).

    Returns:
        (instances, features), or (features,) for one instance.

    Raises:
        InputError: wrong number of axes, NaN or infinity.
    """
    cube, single = as_values(values, name="values")
    runs, instances, features = cube.shape
    floor = np.repeat(noise_floor(cube), features)
    _, size = equal_runs(np.sort(cube.reshape(runs, -1), axis=0), floor)
    mostly = (2 * (size >= ATOM_RUNS).sum(axis=0) >= runs).reshape(instances, features)
    repeated: Bools = mostly & ~constant_features(cube)
    return repeated[0] if single else repeated
