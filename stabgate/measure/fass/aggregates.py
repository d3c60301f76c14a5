"""Means of pairs, and intervals that know that pairs of one image are not independent."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from stabgate.columns import Floats
from stabgate.measure.fass.pairs import CHANGED, ERROR, NO_SIGNAL, RETAINED, Pair

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Summary:
    """Pairs of one method taken together: what became of them, and the means over the retained ones.

    Attributes:
        method: the explainer's name.
        name: what the pairs have in common: a perturbation's label, a family, or "all".
        severity: of the perturbation, where they share one.
        attempted, retained, changed, no_signal, errors: numbers of pairs; the last four add up to the first.
        images: how many images have a retained pair.
        ssim, spearman, jaccard, fass: means over the retained pairs, or None where there are none.
        low, high: 95 % interval of `fass` over images; None below two images.
    """

    method: str
    name: str
    severity: float | None
    attempted: int
    retained: int
    changed: int
    no_signal: int
    errors: int
    images: int
    ssim: float | None
    spearman: float | None
    jaccard: float | None
    fass: float | None
    low: float | None
    high: float | None

    @property
    def retention(self) -> float:
        """retained / attempted, 0..1."""
        return self.retained / self.attempted if self.attempted else 0.0


def summarise(pairs: Iterable[Pair], *, method: str, name: str) -> Summary:
    """The `Summary` of some pairs."""
    pairs = list(pairs)
    count = {status: sum(pair.status == status for pair in pairs) for status in (RETAINED, CHANGED, NO_SIGNAL, ERROR)}
    scored = [pair for pair in pairs if pair.fass is not None]
    severities = {pair.severity for pair in pairs} if len({pair.kind for pair in pairs}) == 1 else set()
    interval = clustered_interval([float(p.fass) for p in scored if p.fass is not None], [p.image for p in scored])
    return Summary(
        method=method,
        name=name,
        severity=severities.pop() if len(severities) == 1 else None,
        attempted=len(pairs),
        retained=count[RETAINED],
        changed=count[CHANGED],
        no_signal=count[NO_SIGNAL],
        errors=count[ERROR],
        images=len({pair.image for pair in scored}),
        ssim=mean(pair.ssim for pair in scored),
        spearman=mean(pair.spearman for pair in scored),
        jaccard=mean(pair.jaccard for pair in scored),
        fass=mean(pair.fass for pair in scored),
        low=None if interval is None else interval[0],
        high=None if interval is None else interval[1],
    )


def mean(values: Iterable[float | None]) -> float | None:
    """Mean of what is there, or None."""
    found = [value for value in values if value is not None]
    return float(np.mean(found)) if found else None


def clustered_interval(
    values: Sequence[float], clusters: Sequence[Hashable], confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """Interval of the mean of `values`, for values that are dependent within a cluster (an image).

    The standard error is that of `clustered_mean`, the quantile Student's with as many degrees of freedom. With
    equally many values per cluster this is exactly the t interval of the cluster means.

    Returns:
        The interval, its ends not above 1; None below two clusters.
    """
    found = clustered_mean(values, clusters)
    if found is None:
        return None
    from scipy.stats import t

    centre, error, freedom = found
    half = float(t.ppf(0.5 + confidence / 2, freedom)) * error
    return min(centre - half, 1.0), min(centre + half, 1.0)


def clustered_mean(values: Sequence[float] | Floats, clusters: Sequence[Hashable]) -> tuple[float, float, float] | None:
    """Mean of `values`, its standard error and degrees of freedom; None below two of G clusters.

    The mean over values is recomputed without each cluster in turn; the variance of these G means, times
    (G - 1)**2 / G, is the jackknife variance of the mean. Clusters of unequal size say less about it: there are as many
    degrees of freedom as equal ones of the same effective number, (Σn)² / Σn² - 1, would leave, 1 at least.
    """
    names = {name: i for i, name in enumerate(dict.fromkeys(clusters))}
    groups = len(names)
    if groups < 2:
        return None
    where = np.array([names[name] for name in clusters])
    sums = np.bincount(where, weights=np.asarray(values, dtype=np.float64))
    counts = np.bincount(where).astype(np.float64)
    centre = float(sums.sum() / counts.sum())
    without = (sums.sum() - sums) / (counts.sum() - counts)
    variance = float((groups - 1) / groups * np.square(without - without.mean()).sum())
    freedom = max(float(counts.sum() ** 2 / np.square(counts).sum()) - 1.0, 1.0)
    return centre, variance**0.5, freedom
