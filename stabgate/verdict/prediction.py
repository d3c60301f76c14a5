"""What all runs will say, told from the first of them: how likely each outcome of a requirement is.

A row meets its requirement where its *critical distance*, the smallest of the distances that the requirement needs,
reaches the threshold. The runs to come are drawn from what those at hand say of them (a normal distribution whose mean
and variance are known as well as the runs tell: the posterior predictive), a few dozen times; from the critical
distances that follow, with the bandwidth of all runs, comes a normal distribution of the one that the row will have.
The rows together, by simulation, give the outcome under the very rule of a verdict (`stabgate.verdict.kstability`).

Each look judges the same outcome, that of all runs, so looking often does no harm: of the verdicts that are given early
where the opposite one has a probability of at most 0.001, 1 in 1,000 at most would be the opposite with all runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from stabgate import separability as sep
from stabgate.columns import Floats
from stabgate.measure.halves import NEAR
from stabgate.measure.intervals import VARIANCE_FLOOR, Z, chance_variance, population_share_interval
from stabgate.measure.numbers import KSettings
from stabgate.verdict.kstability import needed_rows
from stabgate.verdict.verdicts import KRequirement, Outcome

DATA_SETS = 32  # drawn for each row
SIMULATIONS = 2000  # of all rows together
NEVER = 0.001  # most probability of the opposite outcome with which an outcome is settled
LIKELY = 0.5  # least probability of an outcome itself; what is left is INCONCLUSIVE
LEAST_RUNS = 10  # fewer say too little about a spread
FEW = 2 / 3  # share of distinct values below which a normal distribution is no picture of a feature
_TOP = 8.0  # standard deviations that stand for a distance of 1


@dataclass(frozen=True, eq=False)
class Forecast:
    """Critical distances that rows will have with all runs, on the probit scale of `probit_distance`.

    Attributes:
        centre, spread: ``(rows,)``, mean and standard deviation.
        fits: boolean ``(rows,)``: False where the draws are no picture of the runs (repeated values); such a row may
            turn out either way.
        resample: ratio of the standard deviation over other runs to `spread`.
    """

    centre: Floats
    spread: Floats
    fits: NDArray[np.bool_]
    resample: float


def forecast(attributions: Floats, settings: KSettings, requirement: KRequirement, seed: int) -> Forecast:
    """Where the critical distances of rows will be at ``requirement.runs`` runs.

    Args:
        attributions: signed ``(runs, rows, features)`` so far, without gaps; at least two and fewer than all runs.
        settings: what k depends on.
        requirement: k, what it asks for, and the number of all runs.
        seed: of the draws.
    """
    runs, rows, _ = attributions.shape
    rng = np.random.default_rng(seed)
    centre, spread, fits = np.zeros(rows), np.zeros(rows), np.ones(rows, dtype=bool)
    for i in range(rows):
        drawn = future_runs(attributions[:, i], requirement.runs, rng)
        kept, fits[i] = _deciding(attributions[:, i], drawn, settings, requirement)
        if fits[i]:
            found = probit_distance(critical_distances(drawn, settings, requirement, kept))
            centre[i], spread[i] = found.mean(), found.std(ddof=1)
    return Forecast(centre, spread, fits, (runs / (requirement.runs - runs)) ** 0.5)


def probabilities(
    found: Forecast, requirement: KRequirement, rows: int, seed: int, *, population: bool = False
) -> dict[Outcome, float]:
    """How likely PASS and FAIL are with all runs.

    Args:
        found: of the rows that are measured.
        requirement: share and threshold.
        rows: all rows. Those that are not measured, and those that no forecast fits, count as not met for a PASS and
            as met for a FAIL.
        seed: of the simulation.
        population: the rows are a sample, and the interval is Wilson's.
    """
    fits = found.fits
    level = float(probit_distance(np.array(requirement.threshold)))
    rng = np.random.default_rng(seed)
    # Mean and spread are known from a few dozen draws only: Student's t.
    spread = found.spread[fits] * (1.0 + 1.0 / DATA_SETS) ** 0.5
    will = found.centre[fits] + spread * rng.standard_t(DATA_SETS - 1, (SIMULATIONS, int(fits.sum())))
    met = will >= level
    with np.errstate(divide="ignore", invalid="ignore"):
        chances = np.where(spread > 0, special.ndtr((will - level) / (found.resample * found.spread[fits])), met)
    count = met.sum(axis=1)
    variance = chance_variance(chances).sum(axis=1)
    deterministic = bool(fits.all()) and not found.spread.any()
    doubtful = int((~fits).sum())
    half = Z * (0.0 if deterministic else (variance + 0.5 * doubtful + VARIANCE_FLOOR) ** 0.5)
    result = {}
    for outcome, more in ((Outcome.PASS, 0), (Outcome.FAIL, rows - int(fits.sum()))):
        if population:
            ends = np.array([population_share_interval(c, rows) for c in range(rows + 1)])[count + more]
            low, high, least = ends[:, 0], ends[:, 1], requirement.share
        else:
            low, high, least = count + more - half, count + more + half, needed_rows(requirement.share, rows) - 0.5
        result[outcome] = float(np.mean((low >= least) if outcome is Outcome.PASS else (high < least)))
    return result


def is_settled(outcome: Outcome, found: dict[Outcome, float]) -> bool:
    """Whether an outcome by the runs at hand, PASS or FAIL, will be that of all runs, going by `probabilities`."""
    opposite = {Outcome.PASS: Outcome.FAIL, Outcome.FAIL: Outcome.PASS}.get(outcome)
    return opposite is not None and found[opposite] <= NEVER and found[outcome] >= LIKELY


def future_runs(attributions: Floats, runs: int, rng: np.random.Generator) -> Floats:
    """The runs at hand, and as many drawn ones as make `runs`: ``(runs, DATA_SETS, features)``.

    Each feature's mean and variance are drawn as the runs at hand tell them (scaled inverse chi-squared with
    ``m - 1`` degrees of freedom, and a normal about their mean), then the runs given those. Deviations are drawn as
    combinations of those at hand, so that features keep their correlations. A constant feature stays constant.

    Args:
        attributions: signed ``(m, features)``.
    """
    m, features = attributions.shape
    more = runs - m
    mean = attributions[0] + (attributions - attributions[0]).mean(axis=0)
    deviations = np.where(sep.constant_features(attributions), 0.0, attributions - mean)
    scale = rng.chisquare(m - 1, (DATA_SETS, features)) ** -0.5
    weights = rng.normal(size=(more, DATA_SETS, m)) + rng.normal(size=(DATA_SETS, m)) / m**0.5
    drawn = np.empty((runs, DATA_SETS, features))
    drawn[:m] = attributions[:, None]
    drawn[m:] = mean + (weights @ deviations) * scale
    return drawn


def critical_distances(
    attributions: Floats, settings: KSettings, requirement: KRequirement, kept: NDArray[np.intp]
) -> Floats:
    """The smallest distance that the requirement needs, ``(instances,)``; 0 where a pair that it needs is tied.

    Args:
        attributions: signed ``(runs, instances, features)``.
        kept: the features that can matter.
    """
    values = sep.attribution_values(attributions, settings.value)
    floor = sep.noise_floor(values)
    values = values[:, :, kept]
    distances = settings.distances(values, kept)
    means = sep.ranking_means(values, settings.value)
    ranking = sep.rank_features(means, distances=distances, floor=floor)
    needed = np.where(sep.tied_pairs(means, floor), 0.0, distances)
    rank = np.argsort(ranking, axis=1)
    above, below = rank[:, :, None], rank[:, None, :]
    pairs = np.zeros(needed.shape, dtype=bool)
    if requirement.require in ("order", "both"):
        inside = (above < below) & (below < requirement.k)
        pairs |= inside & (below == above + 1) if requirement.rule == "consecutive" else inside
    if requirement.require in ("membership", "both"):
        pairs |= (above < requirement.k) & (below >= requirement.k)
    return np.asarray(np.where(pairs, needed, 1.0).min(axis=(1, 2)))


def probit_distance(distances: Floats) -> Floats:
    """The separation of two normal distributions of one variance that are that far apart, in its standard deviations.

    Half the distance of their means by their standard deviation: d = (2Φ(z) - 1)/Φ(z); distances near 1 are pulled
    apart, so that a normal distribution can describe them. A distance of 1 is 8.
    """
    return np.asarray(np.minimum(special.ndtri(1.0 / (2.0 - distances)), _TOP))


def _deciding(
    attributions: Floats, drawn: Floats, settings: KSettings, requirement: KRequirement
) -> tuple[NDArray[np.intp], bool]:
    """The features that can matter for the requirement, and whether the draws are a picture of them."""
    values = sep.attribution_values(drawn, settings.value)
    order = np.argsort(-sep.ranking_means(values, settings.value), axis=1, kind="stable")
    kept = np.unique(order[:, : requirement.k])
    now = sep.attribution_values(attributions, settings.value)
    if requirement.require != "order":
        distances = settings.distances(now)
        near = np.flatnonzero((distances[kept] < NEAR).any(axis=0))
        kept = np.union1d(np.union1d(kept, near), order[:, requirement.k])
    varying = attributions[:, kept][:, ~sep.constant_features(attributions)[kept]]
    return kept, all(len(np.unique(column)) >= FEW * len(column) for column in varying.T)
