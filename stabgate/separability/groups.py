"""Groups of leading features, and what is averaged over instances: curve and heat map."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stabgate.errors import InputError
from stabgate.separability._checks import Bools, Floats, as_distances, as_ranking, in_rank_order, one_of
from stabgate.separability.kstability import separated_in_rank_order

AGGREGATES = ("mean", "median", "min")


def _ranked(distances: ArrayLike, ranking: ArrayLike) -> tuple[Floats, bool]:
    """Distances in rank order, (instances, features, features), and whether there was one instance."""
    cube, single = as_distances(distances)
    return in_rank_order(cube, as_ranking(ranking, *cube.shape[:2], single=single)), single


def group_stability(
    distances: ArrayLike, ranking: ArrayLike, k: int, *, aggregate: str = "min"
) -> float | NDArray[np.float64]:
    """How far the top k are from all other features: the aggregate of d(i, j), i in the top k and j not.

    Args:
        distances: (features, features) or (instances, features, features).
        ranking: feature indices, best first, (features,) or (instances, features).
        k: size of the group, 1..features - 1.
        aggregate: "mean", "median" or "min".

    Returns:
        A float, or floats (instances,), in the range of the distances.

    Raises:
        InputError: wrong shapes, NaN, k out of range, unknown aggregate, or a ranking that is not a
            permutation.

    Source: arXiv 2608.02697, A.1.
    """
    one_of("aggregate", aggregate, AGGREGATES)
    ordered, single = _ranked(distances, ranking)
    features = ordered.shape[-1]
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k < features:
        raise InputError(
            f"k={k!r}; a group of the top k of {features} feature(s) needs a whole k in 1..{features - 1}."
        )
    pairs = ordered[:, :k, k:].reshape(len(ordered), -1)
    found: Floats
    if aggregate == "mean":
        found = pairs.mean(axis=1)
    elif aggregate == "median":
        found = np.median(pairs, axis=1)
    else:
        found = pairs.min(axis=1)
    return float(found[0]) if single else found


def certified_groups(separated: ArrayLike, ranking: ArrayLike) -> Bools:
    """Which top-k sets are told apart from all other features.

    Args:
        separated: symmetric booleans, (features, features) or (instances, features, features), as from
            `separated`: distances at or above the threshold, ties excluded.
        ranking: feature indices, best first, (features,) or (instances, features).

    Returns:
        Booleans (features - 1,) or (instances, features - 1); index k - 1 is about the top k.

    Raises:
        InputError: wrong shapes, or a ranking that is not a permutation.

    Source: arXiv 2608.02697, A.1 with the minimum.
    """
    ordered, single = separated_in_rank_order(separated, ranking)
    features = ordered.shape[-1]
    above = np.triu(np.ones((features, features), dtype=bool), 1)
    # The first feature above j that j is not told apart from; a cut between the two certifies nothing.
    confused = ~ordered & above
    first = np.where(confused.any(axis=1), confused.argmax(axis=1), features)
    worst_below = np.minimum.accumulate(first[:, ::-1], axis=1)[:, ::-1]
    certified: Bools = worst_below[:, 1:] >= np.arange(1, features)
    return certified[0] if single else certified


def certification_rate(certified: ArrayLike) -> Floats:
    """Share of instances whose top-k set is certified, (features - 1,) in [0, 1].

    Args:
        certified: (instances, features - 1), as from `certified_groups`.

    Raises:
        InputError: not booleans in two axes, or no instance.
    """
    found = np.asarray(certified)
    if found.ndim != 2 or found.dtype.kind != "b" or not len(found):
        raise InputError(f"certified has shape {found.shape} and type {found.dtype}; expected booleans per instance.")
    rate: Floats = found.mean(axis=0)
    return rate


@dataclass(frozen=True, eq=False)
class SeparabilityCurve:
    """Mean distance of each ranked feature to the next one.

    Attributes:
        mean: (features - 1,), over instances.
        half_width: (features - 1,), 2σ/√N with the N - 1 form of σ; NaN for one instance, whose spread is
            unknown.
        n: number of instances N.
    """

    mean: Floats
    half_width: Floats
    n: int


def separability_curve(distances: ArrayLike, ranking: ArrayLike) -> SeparabilityCurve:
    """The separability curve: mean over instances of d(r_s, r_{s+1}), with ± 2σ/√N.

    Args:
        distances: (features, features) or (instances, features, features).
        ranking: feature indices, best first, (features,) or (instances, features).

    Raises:
        InputError: wrong shapes, NaN, or a ranking that is not a permutation.

    Source: arXiv 2608.02697, Section 5.
    """
    ordered, _ = _ranked(distances, ranking)
    position = np.arange(ordered.shape[-1] - 1)
    steps = ordered[:, position, position + 1]
    n = len(steps)
    half_width: Floats = np.full(position.size, np.nan)
    if n > 1:
        half_width = 2.0 * steps.std(axis=0, ddof=1) / np.sqrt(n)
    return SeparabilityCurve(mean=steps.mean(axis=0), half_width=half_width, n=n)


def heatmap(distances: ArrayLike, ranking: ArrayLike) -> Floats:
    """Mean over instances of the distances in rank order, (features, features).

    Args:
        distances: (features, features) or (instances, features, features).
        ranking: feature indices, best first, (features,) or (instances, features).

    Raises:
        InputError: wrong shapes, NaN, or a ranking that is not a permutation.
    """
    ordered, _ = _ranked(distances, ranking)
    mean: Floats = ordered.mean(axis=0)
    return mean
