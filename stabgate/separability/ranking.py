"""Ranking by mean attribution, and ties that no column order may break silently."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from stabgate.errors import InputError
from stabgate.separability._checks import Bools, Floats, Ints, as_distances, as_floats

# Distances that agree to this many decimals do not tell two tied features apart.
TIE_DECIMALS = 12


def tied_pairs(means: ArrayLike, floor: ArrayLike) -> Bools:
    """Pairs of features whose means differ by no more than the noise floor.

    Args:
        means: (features,) or (instances, features), as from `ranking_means`.
        floor: one number, or (instances,), as from `noise_floor` of the values behind the means.

    Returns:
        (features, features) or (instances, features, features); a feature is not tied with itself.

    Raises:
        InputError: wrong shapes, NaN or infinity.
    """
    rows, single = _as_means(means)
    limit = _as_floor(floor, len(rows))
    tied: Bools = np.abs(rows[:, :, np.newaxis] - rows[:, np.newaxis, :]) <= limit[:, np.newaxis, np.newaxis]
    diagonal = np.arange(rows.shape[1])
    tied[:, diagonal, diagonal] = False
    return tied[0] if single else tied


def rank_features(means: ArrayLike, *, distances: ArrayLike | None = None, floor: ArrayLike | None = None) -> Ints:
    """Features by descending mean, best first.

    Neighbours in that order whose means are within the noise floor form a block. In a block, the feature that
    is least
    separated from those ranked above it comes first: k is then the smallest that any order of the tied
        features gives
    under the all-pairs rule, whatever the order of the columns. Features that even all their distances do not
    tell apart, and all tied features when no distances are given, stay in column order; `tied_pairs` names
    them.

    Args:
        means: (features,) or (instances, features).
        distances: (features, features) or (instances, features, features); decides in blocks of tied
            features.
        floor: one number, or (instances,); 0 if not given, so that only equal means are tied.

    Returns:
        Indices of the features in the shape of `means`.

    Raises:
        InputError: wrong shapes, NaN or infinity.
    """
    rows, single = _as_means(means)
    instances, features = rows.shape
    limit = _as_floor(0.0 if floor is None else floor, instances)
    order: Ints = np.argsort(-rows, axis=1, kind="stable")
    if distances is not None:
        matrices, _ = as_distances(distances)
        if matrices.shape != (instances, features, features) or np.ndim(distances) != (2 if single else 3):
            raise InputError(f"distances has shape {np.shape(distances)}, means {np.shape(means)}.")
        descending = np.take_along_axis(rows, order, axis=1)
        joined = descending[:, :-1] - descending[:, 1:] <= limit[:, np.newaxis]
        for i in np.flatnonzero(joined.any(axis=1)):
            order[i] = _order_blocks(order[i], joined[i], matrices[i], rows[i], float(limit[i]))
    return order[0] if single else order


def _order_blocks(order: Ints, joined: Bools, distances: Floats, means: Floats, floor: float) -> Ints:
    """`order` with each block of joined neighbours sorted from least to most separated."""
    # What tells tied features apart when their distances to those above are equal: all their distances.
    _, profile = np.unique(np.sort(np.round(distances, TIE_DECIMALS), axis=1), axis=0, return_inverse=True)
    profile = profile.ravel()
    result = order.copy()
    starts = np.flatnonzero(np.append(True, ~joined))
    ends = np.append(starts[1:], order.size)
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if end - start < 2:
            continue
        left = np.sort(order[start:end])
        above = order[:start] if start == 0 else result[:start]
        nearest = distances[np.ix_(left, above)].min(axis=1, initial=np.inf)
        for position in range(start, end):
            best = int(np.lexsort((profile[left], nearest))[0])
            chosen = left[best]
            result[position] = chosen
            left, nearest = np.delete(left, best), np.delete(nearest, best)
            # A tie separates nothing, so it counts as nearer than any distance.
            to_chosen = np.where(np.abs(means[left] - means[chosen]) <= floor, -1.0, distances[left, chosen])
            nearest = np.minimum(nearest, to_chosen)
    return result


def _as_means(means: ArrayLike) -> tuple[Floats, bool]:
    found = as_floats("means", means)
    if found.ndim not in (1, 2) or found.size == 0:
        raise InputError(f"means has shape {found.shape}; expected (features,) or (instances, features).")
    rows = np.atleast_2d(found)
    bad = np.argwhere(~np.isfinite(rows))
    if bad.size:
        instance, feature = (int(x) for x in bad[0])
        raise InputError(f"means holds {rows[instance, feature]} at instance {instance}, feature {feature}.")
    return rows, found.ndim == 1


def _as_floor(floor: ArrayLike, instances: int) -> Floats:
    found = as_floats("floor", floor)
    if found.shape not in ((), (instances,)) or not (np.isfinite(found) & (found >= 0.0)).all():
        raise InputError(f"floor={floor!r}; expected one number >= 0, or one per each of {instances} instance(s).")
    return np.broadcast_to(found, (instances,))
