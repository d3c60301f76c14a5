"""k-stability: how many of the leading features keep a reliable order (Definition 1 of the paper)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stabgate.errors import InputError
from stabgate.separability._checks import (
    Bools,
    Floats,
    as_distances,
    as_floats,
    as_pairs,
    as_ranking,
    as_threshold,
    in_rank_order,
    one_of,
)
from stabgate.separability.ranking import tied_pairs
from stabgate.separability.values import noise_floor

RULES = ("all-pairs", "consecutive")

DEFAULT_THRESHOLD = 0.9  # [K]


def check_threshold(threshold: float) -> float:
    """`threshold` as a float in (0, 1].

    Raises:
        InputError: anything else.
    """
    return as_threshold(threshold)


def check_rule(rule: str) -> str:
    """`rule`, if it is "all-pairs" or "consecutive".

    Raises:
        InputError: anything else.
    """
    return one_of("rule", rule, RULES)


def separated(distances: ArrayLike, threshold: float = DEFAULT_THRESHOLD, *, tied: ArrayLike | None = None) -> Bools:
    """Pairs of features that are told apart: d >= threshold, and not tied.

    Args:
        distances: (features, features) or (instances, features, features).
        threshold: l in (0, 1].
        tied: booleans of the same shape, as from `tied_pairs`.

    Returns:
        Booleans of the same shape.

    Raises:
        InputError: distances not square, symmetric and finite, threshold out of range, `tied` of another
            shape.
    """
    limit = as_threshold(threshold)
    cube, single = as_distances(distances)
    found: Bools = np.asarray(cube >= limit)
    ties = as_pairs("tied", tied, *cube.shape[:2], single=single)
    if ties is not None:
        found &= ~ties
    return found.reshape(np.shape(distances)) if single else found


def k_from_separated(separated: ArrayLike, ranking: ArrayLike, *, rule: str = "all-pairs") -> int | NDArray[np.intp]:
    """k from the pairs that are told apart: the largest s such that the top s are, pair by pair.

    Args:
        separated: symmetric booleans, (features, features) or (instances, features, features).
        ranking: feature indices, best first, (features,) or (instances, features).
        rule: "all-pairs" (Definition 1), or "consecutive": each ranked feature against the next only.

    Returns:
        An int, or ints (instances,), in 1..features. k = 1 certifies no order at all.

    Raises:
        InputError: unknown rule, wrong shapes, or a ranking that is not a permutation.
    """
    check_rule(rule)
    ordered, single = separated_in_rank_order(separated, ranking)
    features = ordered.shape[-1]
    joins: Bools
    if rule == "all-pairs":
        # Feature s joins if it is told apart from all above it; the rest of its column does not matter yet.
        below = np.tril(np.ones((features, features), dtype=bool))
        joins = np.logical_and.reduce(ordered | below, axis=1)[:, 1:]
    else:
        position = np.arange(features - 1)
        joins = ordered[:, position, position + 1]
    k: NDArray[np.intp] = 1 + np.logical_and.accumulate(joins, axis=1).sum(axis=1, dtype=np.intp)
    return int(k[0]) if single else k


def separated_in_rank_order(separated: ArrayLike, ranking: ArrayLike) -> tuple[Bools, bool]:
    """Separated pairs in rank order, (instances, features, features), and whether there was one instance."""
    pairs: NDArray[Any] = np.asarray(separated)
    square = pairs.ndim in (2, 3) and pairs.shape[-1] == pairs.shape[-2] and pairs.size > 0
    if not square or pairs.dtype.kind != "b":
        raise InputError(
            f"separated has shape {pairs.shape} and type {pairs.dtype}; expected booleans"
            " (features, features) or (instances, features, features)."
        )
    single = pairs.ndim == 2
    cube = pairs.reshape(-1, *pairs.shape[-2:])
    if (cube != cube.swapaxes(1, 2)).any():
        raise InputError("separated is not symmetric.")
    return in_rank_order(cube, as_ranking(ranking, *cube.shape[:2], single=single)), single


def k_stability(
    distances: ArrayLike,
    ranking: ArrayLike,
    *,
    threshold: float = DEFAULT_THRESHOLD,
    rule: str = "all-pairs",
    means: ArrayLike | None = None,
) -> int | NDArray[np.intp]:
    """k: the largest s such that all pairs among the top s of the ranking are at least `threshold` apart.

    Args:
        distances: (features, features) or (instances, features, features).
        ranking: feature indices, best first, (features,) or (instances, features); taken as it is.
        threshold: l in (0, 1].
        rule: "all-pairs" (Definition 1), or "consecutive": each ranked feature against the next only.
        means: what the ranking goes by, in the ranking's shape but indexed by feature. Pairs whose means
            differ by no more than 16 eps max|mean| of the instance then count as not separated, whatever
            their distance.

    Returns:
        An int, or ints (instances,), in 1..features. k = 1 certifies no order at all.

    Raises:
        InputError: wrong shapes, NaN, threshold out of range, unknown rule, or a ranking that is not a
            permutation.

    Source: arXiv 2608.02697, Definition 1.
    """
    tied = None
    if means is not None:
        found = as_floats("means", means)
        if found.shape != np.shape(ranking):
            raise InputError(f"means has shape {found.shape}, ranking {np.shape(ranking)}; they must agree.")
        tied = tied_pairs(found, noise_floor(found[np.newaxis]))
    return k_from_separated(separated(distances, threshold, tied=tied), ranking, rule=rule)


def compare_k(results: Mapping[str, ArrayLike] | Iterable[ArrayLike]) -> Floats:
    """Share of instances on which the row's method reaches at least the column's k.

    Args:
        results: k of each method on the same instances, (instances,) each; a mapping's order is kept.

    Returns:
        (methods, methods) in [0, 1], 1 on the diagonal.

    Raises:
        InputError: no method, no instance, or different numbers of instances.

    Source: arXiv 2608.02697, Definition 2, Tables 1-4.
    """
    rows = [as_floats("k", k) for k in (results.values() if isinstance(results, Mapping) else results)]
    shapes = {row.shape for row in rows}
    if len(shapes) != 1 or len(next(iter(shapes))) != 1 or not rows[0].size:
        raise InputError(f"k of the methods have shapes {sorted(shapes)}; give one k per instance, the same for all.")
    table = np.stack(rows)
    share: Floats = (table[:, np.newaxis] >= table[np.newaxis]).mean(axis=2)
    return share
