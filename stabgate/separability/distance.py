"""Distances between attribution distributions: the paper's eq. 2, and three alternatives in [0, 1]."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from stabgate.separability._checks import Floats, as_values, one_of
from stabgate.separability.density import DENSITIES, Bandwidth, check_bandwidth, mixtures
from stabgate.separability.overlap import (
    Shared,
    overlaps,
    shared_hellinger,
    shared_jensen_shannon,
    shared_min,
)
from stabgate.separability.tables import tabulate
from stabgate.separability.values import constant_features

# Distance as a function of what is missing to full overlap, after [K] eq. 2 and textbook
# definitions.
METRICS: dict[str, tuple[Shared, Callable[[Floats], Floats]]] = {
    "jaccard": (shared_min, lambda missing: 2.0 * missing / (1.0 + missing)),
    "total_variation": (shared_min, lambda missing: missing),
    "hellinger": (shared_hellinger, np.sqrt),
    "jensen_shannon": (shared_jensen_shannon, np.sqrt),
}
DEGENERATE = ("dirac", "zero")

# Less than this missing to full overlap is rounding; its square root would look like a distance.
ROUNDING = 1e-13

# Rows are measured together up to this many columns: enough to hide the interpreter, some 10 MB of tables.
BATCH_COLUMNS = 1024


def distance_matrix(
    samples: ArrayLike,
    *,
    metric: str = "jaccard",
    bandwidth: Bandwidth = "silverman",
    density: str = "kde",
    degenerate: str = "dirac",
    bias_corrected: bool = False,
) -> Floats:
    """Distance between the attribution distributions of every two features.

    The densities are integrated over the whole real line, within 1e-6 of the exact integral.

    Args:
        samples: what enters the distributions (see `attribution_values`), (runs, features) or
            (runs, instances, features), at least two runs.
        metric: "jaccard" d = 1 - ∫min(p, q) / ∫max(p, q); "total_variation" 1 - ∫min(p, q); "hellinger"
            sqrt(1 - ∫sqrt(p q)); "jensen_shannon" the square root of the base-2 divergence. All are metrics
            in [0, 1].
        bandwidth: "silverman" (the paper's choice), "scott", a factor that multiplies each feature's standard
            deviation (as `bw_method` of SciPy's `gaussian_kde`), or an array of absolute bandwidths, one per
            feature.
        density: "kde", or "mixed": three or more equal values (within the noise floor) are an atom of mass
            count / m, the rest a KDE with its own bandwidth, or atoms as well where fewer than three values
            remain.
        degenerate: "dirac": a constant feature (within the noise floor) is a point mass, 0 from an equal one
            and 1 from everything else; "zero": it is 0 from everything, which only serves to reproduce
            published tables.
        bias_corrected: shrink each KDE about its mean by sqrt(1 + h²/s²), so that it is not wider than its
            sample. It removes most of the smoothing's bias towards small distances, and changes k.

    Returns:
        float64 in [0, 1], symmetric with a zero diagonal, (features, features) or (instances, features,
        features). An instance's matrix does not depend on the others in the batch.

    Raises:
        InputError: an unknown option, wrong number of axes, fewer than two runs, NaN or infinity (with its
            place).

    Source: "Measuring Explainer Stability via Attribution Separability", arXiv 2608.02697, eq. 2 and
        Proposition 1.
    """
    one_of("metric", metric, METRICS)
    one_of("density", density, DENSITIES)
    one_of("degenerate", degenerate, DEGENERATE)
    cube, single = as_values(samples, least_runs=2)
    _, instances, features = cube.shape
    widths = check_bandwidth(bandwidth, features)
    batch = max(1, BATCH_COLUMNS // features)
    distances = np.empty((instances, features, features))
    for start in range(0, instances, batch):
        rows = slice(start, start + batch)
        distances[rows] = _measure(cube[:, rows], metric, widths, density, bias_corrected)
    if degenerate == "zero":
        constant = constant_features(cube)
        distances[constant[:, :, np.newaxis] | constant[:, np.newaxis, :]] = 0.0
    return distances[0] if single else distances


def _measure(samples: Floats, metric: str, bandwidth: str | Floats, density: str, bias_corrected: bool) -> Floats:
    _, instances, features = samples.shape
    shared, from_missing = METRICS[metric]
    parts = mixtures(samples, bandwidth=bandwidth, density=density, bias_corrected=bias_corrected)
    overlap = overlaps(parts, tabulate(parts, features), shared, instances, features)
    missing = np.subtract(1.0, overlap, out=overlap)
    missing[missing < ROUNDING] = 0.0
    return from_missing(missing)
