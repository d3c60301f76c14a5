"""From samples to distributions: kernel density estimates, Dirac masses, and both at once.

Every feature of every instance becomes points that carry a Gaussian kernel of one bandwidth, and atoms. A
plain KDE has no atoms, a constant feature has nothing else, and the mixed reading has both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stabgate.errors import InputError
from stabgate.separability._checks import Bools, Floats, Ints, as_floats, as_values, one_of
from stabgate.separability.values import ATOM_RUNS, equal_runs, noise_floor

DENSITIES = ("kde", "mixed")
RULES_OF_THUMB = ("silverman", "scott")

Bandwidth = str | float | ArrayLike


@dataclass(frozen=True)
class Mixtures:
    """Distributions of the columns (feature j of instance i is column i * features + j), as points and atoms.

    Point positions are `anchor[column] + offset`, kept apart so that attributions near 1e6 that vary by 1e-3
    lose no digits. Points are sorted by column and offset.

    Attributes:
        anchor: (columns,) smallest value.
        bandwidth: (columns,) standard deviation of the kernels; 0 where there are no points.
        point_column, point_offset, point_mass: (points,).
        atom_column, atom_place, atom_mass: (atoms,).
        place_tolerance: (columns,) atoms of two columns at most this far apart are at the same place.
    """

    anchor: Floats
    bandwidth: Floats
    point_column: Ints
    point_offset: Floats
    point_mass: Floats
    atom_column: Ints
    atom_place: Floats
    atom_mass: Floats
    place_tolerance: Floats


def check_bandwidth(bandwidth: Bandwidth, features: int) -> str | Floats:
    """The name of a rule of thumb, one factor (no axes), or absolute bandwidths (features,).

    Raises:
        InputError: unknown rule, not positive and finite, or not one per feature.
    """
    if isinstance(bandwidth, str):
        return one_of("bandwidth", bandwidth, RULES_OF_THUMB)
    found = as_floats("bandwidth", bandwidth)
    if isinstance(bandwidth, bool) or found.ndim > 1:
        raise InputError(f"bandwidth={bandwidth!r}; expected a rule of thumb, a factor, or one number per feature.")
    if found.ndim == 1 and found.shape != (features,):
        raise InputError(f"bandwidth holds {found.size} number(s) for {features} feature(s); give one per feature.")
    wrong = np.flatnonzero(~(np.isfinite(found) & (found > 0)))
    if wrong.size:
        where = f" of feature {int(wrong[0])}" if found.ndim else ""
        raise InputError(f"bandwidth{where} is {found.ravel()[wrong[0]]}; it must be positive and finite.")
    return found


def bandwidth_factor(rule: str, counts: NDArray[Any]) -> Floats:
    """h / sd of a one-dimensional sample of `counts` values, as in SciPy's `gaussian_kde`."""
    m = np.asarray(counts, dtype=np.float64)
    factor: Floats = (0.75 * m) ** -0.2 if rule == "silverman" else m**-0.2
    return factor


def mixtures(samples: Floats, *, bandwidth: str | Floats, density: str, bias_corrected: bool) -> Mixtures:
    """Distributions of samples (runs, instances, features); see `distance_matrix` for the options."""
    runs, instances, features = samples.shape
    floor = np.repeat(noise_floor(samples), features)
    ordered = np.sort(samples.reshape(runs, -1), axis=0)
    anchor = ordered[0].copy()
    offsets = ordered - anchor

    if density == "kde":
        constant = offsets[-1] <= floor
        in_kernel = np.broadcast_to(~constant, ordered.shape)
        atom_column = np.flatnonzero(constant)
        atom_place = anchor[constant] + offsets[:, constant].mean(axis=0)
        atom_mass = np.ones(atom_column.size)
    else:
        in_kernel, group = _split(ordered, floor)
        atom_column, atom_place, atom_mass = _atoms(offsets, anchor, ~in_kernel, group)

    counts = in_kernel.sum(axis=0)
    spread, mean = _spread(offsets, in_kernel, counts)
    if isinstance(bandwidth, str):
        h = spread * bandwidth_factor(bandwidth, np.maximum(counts, 1))
    elif bandwidth.ndim == 0:
        h = spread * float(bandwidth)
    else:
        h = np.tile(bandwidth, instances)
    h = np.where(counts > 0, h, 0.0)
    if bias_corrected:
        # A KDE's variance is its sample's plus h^2; shrinking about the mean takes the surplus back.
        shrink = np.sqrt(1.0 + np.square(np.divide(h, spread, out=np.zeros_like(h), where=counts > 0)))
        offsets = mean + (offsets - mean) / shrink
        h = h / shrink

    column, run = np.nonzero(in_kernel.T)
    return Mixtures(
        anchor=anchor,
        bandwidth=h,
        point_column=column,
        point_offset=offsets[run, column],
        point_mass=np.full(column.size, 1.0 / runs),
        atom_column=atom_column,
        atom_place=atom_place,
        atom_mass=atom_mass,
        place_tolerance=floor,
    )


@dataclass(frozen=True, eq=False)
class Distribution:
    """One feature's estimate: Gaussian kernels of one bandwidth at points that share what the atoms leave, and atoms.

    Attributes:
        points: (points,) ascending; the sample's own values unless the estimate is bias-corrected.
        bandwidth: standard deviation of the kernels; 0 where there are no points.
        atoms: (place, mass) of each repeated value.
    """

    points: Floats
    bandwidth: float
    atoms: tuple[tuple[float, float], ...]


def distributions(
    samples: ArrayLike, *, bandwidth: Bandwidth = "silverman", density: str = "kde", bias_corrected: bool = False
) -> list[Distribution]:
    """What `distance_matrix` compares: the estimate of each feature of samples (runs, features); options as there.

    Raises:
        InputError: as `distance_matrix`.
    """
    one_of("density", density, DENSITIES)
    cube, _ = as_values(samples, least_runs=2)
    cube = cube[:, :1]
    widths = check_bandwidth(bandwidth, cube.shape[2])
    parts = mixtures(cube, bandwidth=widths, density=density, bias_corrected=bias_corrected)
    columns = np.arange(parts.anchor.size + 1)
    first_point, first_atom = (np.searchsorted(column, columns) for column in (parts.point_column, parts.atom_column))
    found = []
    for j, anchor in enumerate(parts.anchor.tolist()):
        here = slice(first_atom[j], first_atom[j + 1])
        atoms = zip(parts.atom_place[here].tolist(), parts.atom_mass[here].tolist(), strict=True)
        points = anchor + parts.point_offset[first_point[j] : first_point[j + 1]]
        found.append(Distribution(points, float(parts.bandwidth[j]), tuple(atoms)))
    return found


def _split(ordered: Floats, floor: Floats) -> tuple[Bools, Ints]:
    """Which runs of each column stay in the KDE of the mixed reading, and the groups of equal values."""
    group, size = equal_runs(ordered, floor)
    remaining: Bools = size < ATOM_RUNS
    # One or two leftover values have no spread worth estimating: they are atoms too.
    remaining &= remaining.sum(axis=0) >= ATOM_RUNS
    return remaining, group


def _atoms(offsets: Floats, anchor: Floats, chosen: Bools, group: Ints) -> tuple[Ints, Floats, Floats]:
    """Column, place (mean of the equal values) and mass of each group of chosen runs."""
    runs, columns = offsets.shape
    cell = (np.arange(columns) * runs + group)[chosen]
    count = np.bincount(cell, minlength=runs * columns)
    total = np.bincount(cell, weights=offsets[chosen], minlength=runs * columns)
    occupied = np.flatnonzero(count)
    column = occupied // runs
    place: Floats = anchor[column] + total[occupied] / count[occupied]
    mass: Floats = count[occupied] / runs
    return column, place, mass


def _spread(offsets: Floats, chosen: Bools, counts: NDArray[Any]) -> tuple[Floats, Floats]:
    """Standard deviation (n - 1 in the denominator) and mean of the chosen runs of each column."""
    # In units of the range: squares of values near 1e-200 would vanish.
    unit = np.where(offsets[-1] > 0.0, offsets[-1], 1.0)
    scaled = offsets / unit
    mean = np.where(chosen, scaled, 0.0).sum(axis=0) / np.maximum(counts, 1)
    squares = np.square(np.where(chosen, scaled - mean, 0.0)).sum(axis=0)
    spread: Floats = unit * np.sqrt(squares / np.maximum(counts - 1, 1))
    return spread, unit * mean
