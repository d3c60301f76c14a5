"""Half-samples of the runs: what k and its requirement would have been with other runs.

Half of the runs are drawn without replacement, so that no value is repeated (ties shrink a KDE and inflate distances),
and their densities get the bandwidth factor of all runs, so that they are as smooth as the ones that are judged. A mean
over half of m runs varies about the mean of all of them as that varies about the truth; over many halves, the share
that meets a requirement estimates the chance that other m runs meet it, and the variance of k that of k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stabgate import separability as sep
from stabgate.columns import Floats
from stabgate.measure.numbers import KSettings

HALVES = 100
LEAST_RUNS = 4  # fewer runs have no halves with a distribution
LEAST_RUNS_MIXED = 6  # three values make a density; fewer are atoms, which are all told apart
NEAR = 0.99  # features this far from a group in all runs do not come within its reach in half of them
SPARE = 3  # ranks looked at beyond the one that ends the prefix


def draw_halves(runs: int, seed: int) -> NDArray[np.intp]:
    """Positions of the runs in each half, ``(HALVES, runs // 2)``."""
    rng = np.random.default_rng(seed)
    return np.argsort(rng.random((HALVES, runs)), axis=1)[:, : runs // 2]


def least_runs(density: str) -> int:
    """Runs from which there are half-samples."""
    return LEAST_RUNS_MIXED if density == "mixed" else LEAST_RUNS


def full_bandwidth(bandwidth: Any, runs: int) -> Any:
    """The rule as the factor that it is for `runs` runs; anything else as it is."""
    if isinstance(bandwidth, str):
        return (0.75 * runs if bandwidth == "silverman" else float(runs)) ** -0.2
    return bandwidth


class RowHalves:
    """The half-samples of one instance.

    Args:
        attributions: signed ``(runs, features)`` of the instance, at least `least_runs`.
        settings: what k depends on.
        seed: of the draw.
    """

    def __init__(self, attributions: Floats, settings: KSettings, seed: int) -> None:
        values = sep.attribution_values(attributions, settings.value)
        runs, self._features = values.shape
        self._all = values
        self._settings = replace(settings, bandwidth=full_bandwidth(settings.bandwidth, runs))
        chosen = draw_halves(runs, seed)
        self._values = values[chosen].swapaxes(0, 1)  # (runs // 2, HALVES, features)
        self._means = sep.ranking_means(self._values, settings.value)
        self._floor = sep.noise_floor(self._values)
        self._order = np.argsort(-self._means, axis=1, kind="stable")

    def k(self, guess: int) -> NDArray[np.intp]:
        """k of each half ``(HALVES,)``; `guess` is about what is expected and only decides how much is looked at."""
        ranks = guess + SPARE
        while True:
            kept = self._leading(ranks)
            separated, ranking = self._separated(kept)
            k = np.asarray(sep.k_from_separated(separated, ranking, rule=self._settings.rule), dtype=np.intp)
            if len(kept) == self._features or (k < min(ranks, len(kept))).all():
                return k
            ranks *= 2

    def reaches(self, k: int) -> NDArray[np.bool_]:
        """Whether k of each half is at least this, ``(HALVES,)``; looks at no more features than that takes."""
        separated, ranking = self._separated(self._leading(k))
        return np.asarray(sep.k_from_separated(separated, ranking, rule=self._settings.rule)) >= k

    def certified(self, k: int) -> NDArray[np.bool_]:
        """Whether the top-k set of each half is told apart from all other features, ``(HALVES,)``."""
        inside = self._leading(k)
        if len(inside) + 1 < self._features:
            distances = self._settings.distances(self._all)
            kept = np.union1d(inside, np.flatnonzero((distances[inside] < NEAR).any(axis=0)))
            if len(kept) <= k:  # the group and nothing near it
                kept = self._leading(k + 1)
        else:
            kept = np.arange(self._features)
        separated, ranking = self._separated(kept)
        return sep.certified_groups(separated, ranking)[:, k - 1]

    def _leading(self, ranks: int) -> NDArray[np.intp]:
        """Features that are among the first `ranks` of any half."""
        return np.unique(self._order[:, :ranks])

    def _separated(self, kept: NDArray[np.intp]) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
        means = self._means[:, kept]
        distances = self._settings.distances(self._values[:, :, kept], kept)
        ranking = sep.rank_features(means, distances=distances, floor=self._floor)
        tied = sep.tied_pairs(means, self._floor)
        return sep.separated(distances, self._settings.threshold, tied=tied), ranking


def half_sample_k(
    attributions: Floats, settings: KSettings, seeds: Sequence[int], k: NDArray[np.intp]
) -> NDArray[np.intp]:
    """k of each half-sample of each instance, ``(HALVES, instances)``, from attributions without gaps."""
    columns = [RowHalves(attributions[:, i], settings, seeds[i]).k(int(k[i])) for i in range(len(seeds))]
    return np.stack(columns, axis=1)
