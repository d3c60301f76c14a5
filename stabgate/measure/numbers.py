"""The numbers behind k of rows that were all measured, and the settings that they depend on [K]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stabgate import separability as sep
from stabgate.columns import Floats


@dataclass(frozen=True)
class KSettings:
    """What k depends on beside the attributions.

    Attributes:
        threshold: l in (0, 1], the least distance that counts as separated ([K] uses 0.9).
        rule: "all-pairs" ([K] Definition 1) or "consecutive" ([K]'s prose).
        value: what enters the distributions: "magnitude", "signed", "adverse", "favourable" or "absmean".
        density: "kde" ([K]) or "mixed", which treats exactly repeated values as atoms.
        metric: "jaccard" ([K] eq. 2), "total_variation", "hellinger" or "jensen_shannon".
        bandwidth: "silverman" ([K]), "scott", a factor, or one bandwidth per feature.
        bias_corrected: scale each KDE to the variance of its sample.
    """

    threshold: float
    rule: str
    value: str
    density: str
    metric: str
    bandwidth: Any
    bias_corrected: bool

    def distances(self, values: Floats, features: Any = slice(None)) -> Floats:
        """Distances between the distributions of `values`, which are those of `features` alone."""
        bandwidth = self.bandwidth if np.ndim(self.bandwidth) == 0 else np.asarray(self.bandwidth)[features]
        return np.asarray(
            sep.distance_matrix(
                values,
                metric=self.metric,
                bandwidth=bandwidth,
                density=self.density,
                bias_corrected=self.bias_corrected,
            )
        )

    def check(self) -> None:
        """Refuse a wrong option before anything is explained, and even where no row could be measured."""
        sep.check_threshold(self.threshold)
        sep.check_rule(self.rule)
        features = 2 if np.ndim(self.bandwidth) == 0 else max(2, len(self.bandwidth))
        numbers_of(np.zeros((2, 1, features)), self)


@dataclass(frozen=True, eq=False)
class KNumbers:
    """For N instances over n features: k ``(N,)``, ranking, means ``(N, n)``, distances, separated ``(N, n, n)``."""

    k: NDArray[np.intp]
    distances: Floats
    ranking: NDArray[np.intp]
    means: Floats
    separated: NDArray[np.bool_]


def numbers_of(attributions: Floats, settings: KSettings) -> KNumbers:
    """The numbers for signed attributions ``(runs, instances, features)`` without gaps."""
    values = sep.attribution_values(attributions, settings.value)
    distances = settings.distances(values)
    means = sep.ranking_means(values, settings.value)
    floor = sep.noise_floor(values)
    ranking = sep.rank_features(means, distances=distances, floor=floor)
    separated = sep.separated(distances, settings.threshold, tied=sep.tied_pairs(means, floor))
    k = np.asarray(sep.k_from_separated(separated, ranking, rule=settings.rule), dtype=np.intp)
    return KNumbers(k, distances, ranking, means, separated)
