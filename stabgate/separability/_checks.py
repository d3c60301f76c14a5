"""Arguments of this room, checked in one place: every message names what was found and what is allowed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stabgate.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Bools = NDArray[np.bool_]

T = TypeVar("T", bound=np.generic)

# Distances are symmetric to the last bit here; a matrix built elsewhere may be off by its rounding, not by
# more.
SYMMETRY_TOLERANCE = 1e-9

# Differences of larger values would overflow.
LARGEST = 1e300


def one_of(name: str, found: object, allowed: Iterable[str]) -> str:
    """`found`, if it is one of `allowed`."""
    options = list(allowed)
    if not isinstance(found, str) or found not in options:
        raise InputError(f"{name}={found!r} is not an option; choose one of {', '.join(map(repr, options))}.")
    return found


def as_floats(name: str, values: ArrayLike) -> Floats:
    """`values` as float64, refusing what is not a rectangle of real numbers."""
    try:
        found: NDArray[Any] = np.asarray(values)
        if found.dtype.kind == "c":
            raise InputError(f"{name} holds complex numbers; real numbers are needed.")
        return found.astype(np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name} is not a rectangular array of numbers: {error}") from error


def as_values(values: ArrayLike, *, name: str = "samples", least_runs: int = 1) -> tuple[Floats, bool]:
    """(runs, instances, features) floats, and whether the instance axis was added here.

    Raises:
        InputError: not two or three axes, fewer than `least_runs` runs, no instance or feature, NaN or
            infinity.
    """
    found = as_floats(name, values)
    if found.ndim not in (2, 3):
        raise InputError(f"{name} has shape {found.shape}; expected (runs, features) or (runs, instances, features).")
    single = found.ndim == 2
    cube = found[:, np.newaxis, :] if single else found
    runs, instances, features = cube.shape
    if runs < least_runs:
        raise InputError(
            f"{name} has {runs} run(s); at least {least_runs} are needed"
            + (", because one value per feature is no distribution." if least_runs > 1 else ".")
        )
    if instances == 0 or features == 0:
        raise InputError(f"{name} has shape {found.shape}: no {'instance' if instances == 0 else 'feature'}.")
    bad = np.argwhere(~(np.abs(cube) <= LARGEST))
    if bad.size:
        run, instance, feature = (int(i) for i in bad[0])
        raise InputError(
            f"{name} holds {cube[run, instance, feature]} at run {run}, instance {instance}, feature"
            f" {feature} ({len(bad)} such value(s) in all); only finite numbers up to 1e300 can be measured."
        )
    return cube, single


def as_distances(distances: ArrayLike) -> tuple[Floats, bool]:
    """(instances, features, features) floats, and whether the instance axis was added here.

    Raises:
        InputError: not square in the last two axes, not finite, or not symmetric.
    """
    found = as_floats("distances", distances)
    if found.ndim not in (2, 3) or found.shape[-1] != found.shape[-2] or found.size == 0:
        raise InputError(
            f"distances has shape {found.shape}; expected (features, features) or (instances, features, features)."
        )
    cube = found[np.newaxis] if found.ndim == 2 else found
    bad = np.argwhere(~np.isfinite(cube))
    if bad.size:
        instance, i, j = (int(x) for x in bad[0])
        raise InputError(
            f"distances holds {cube[instance, i, j]} at instance {instance}, features {i} and {j};"
            " pass the measured instances only."
        )
    gap = np.abs(cube - cube.swapaxes(-1, -2))
    if gap.max() > SYMMETRY_TOLERANCE:
        instance, i, j = (int(x) for x in np.unravel_index(int(gap.argmax()), gap.shape))
        raise InputError(f"distances is not symmetric at instance {instance}, features {i} and {j}.")
    return cube, found.ndim == 2


def as_ranking(ranking: ArrayLike, instances: int, features: int, *, single: bool) -> Ints:
    """(instances, features) feature indices, best first.

    Raises:
        InputError: another shape than the distances', or a row that is not a permutation of the features.
    """
    found: NDArray[Any] = np.asarray(ranking)
    expected = (features,) if single else (instances, features)
    if found.shape != expected:
        raise InputError(f"ranking has shape {found.shape}; the distances ask for {expected}.")
    if found.dtype.kind not in "iu":
        raise InputError(f"ranking has type {found.dtype}; expected whole feature indices, best first.")
    order = found.reshape(instances, features).astype(np.intp)
    wrong = np.flatnonzero((np.sort(order, axis=1) != np.arange(features)).any(axis=1))
    if wrong.size:
        raise InputError(
            f"ranking of instance {int(wrong[0])} is {order[wrong[0]].tolist()}: not each of the features"
            f" 0..{features - 1} exactly once."
        )
    return order


def as_pairs(name: str, found: ArrayLike | None, instances: int, features: int, *, single: bool) -> Bools | None:
    """An optional boolean matrix of the distances' shape, as (instances, features, features)."""
    if found is None:
        return None
    pairs: NDArray[Any] = np.asarray(found)
    expected = (features, features) if single else (instances, features, features)
    if pairs.shape != expected or pairs.dtype.kind != "b":
        raise InputError(f"{name} has shape {pairs.shape} and type {pairs.dtype}; expected booleans {expected}.")
    return pairs.reshape(instances, features, features)


def as_threshold(threshold: float) -> float:
    """A distance that counts as separated, in (0, 1]."""
    value = as_floats("threshold", threshold)
    if value.ndim != 0 or isinstance(threshold, bool) or not 0.0 < float(value) <= 1.0:
        raise InputError(f"threshold={threshold!r} is not a number in (0, 1].")
    return float(value)


def in_rank_order(pairs: NDArray[T], order: Ints) -> NDArray[T]:
    """(instances, features, features) with both feature axes sorted by the ranking (instances, features)."""
    rows = np.arange(len(pairs))[:, np.newaxis, np.newaxis]
    ordered: NDArray[T] = pairs[rows, order[:, :, np.newaxis], order[:, np.newaxis, :]]
    return ordered
