"""Any pair within 1e-6 of an integral over a dense grid of its own, with every kernel evaluated."""

from __future__ import annotations

import itertools
import warnings

import kde_by_hand
import numpy as np
import pytest
from scipy.integrate import IntegrationWarning, quad
from scipy.stats import gaussian_kde

from stabgate.separability import distance_matrix
from stabgate.separability.density import mixtures

METRICS = ("jaccard", "total_variation", "hellinger", "jensen_shannon")

HARD = {
    "normal": lambda rng, m: rng.normal(0.3, 1.0, m),
    "cauchy": lambda rng, m: rng.standard_cauchy(m),
    "skewed": lambda rng, m: np.exp(2 * rng.normal(size=m)),
    "three modes": lambda rng, m: rng.choice([-3.0, 0.0, 4.0], m) + rng.normal(size=m) * 1e-2,
    "spike 1e-8": lambda rng, m: rng.normal(size=m) * 1e-8 + 0.1,
    "spike 1e-3": lambda rng, m: rng.normal(size=m) * 1e-3 + 0.2,
    "outlier": lambda rng, m: np.append(rng.normal(size=m - 1) * 1e-3, 50.0),
    "few values": lambda rng, m: np.append(rng.choice([0.0, 0.2, 1.0], m - 2), [0.0, 1.0]),
    "wide 1e3": lambda rng, m: 1e3 * rng.normal(size=m),
    "just above the floor": lambda rng, m: 1.0 + np.append(rng.normal(size=m - 2), [-4.0, 4.0]) * 1e-11,
}


def largest_errors(samples: np.ndarray, **options: object) -> dict[str, float]:
    found = {metric: distance_matrix(samples, metric=metric, **options) for metric in METRICS}
    worst = dict.fromkeys(METRICS, 0.0)
    for i in range(samples.shape[1]):
        for j in range(i):
            expected = kde_by_hand.distances(samples[:, i], samples[:, j])
            for metric in METRICS:
                worst[metric] = max(worst[metric], abs(found[metric][i, j] - expected[metric]))
    return worst


def within_bounds(errors: dict[str, float]) -> bool:
    """1e-6 is promised; the area under the minimum is ten times better, and its square roots are not."""
    return max(errors.values()) < 1e-6 and max(errors["jaccard"], errors["total_variation"]) < 1e-7


@pytest.mark.parametrize("runs", [2, 3, 10, 50])
def test_hard_samples_in_one_matrix(runs: int) -> None:
    rng = np.random.default_rng(runs)
    samples = np.stack([draw(rng, max(runs, 4))[:runs] for draw in HARD.values()], axis=1)
    samples = samples[:, np.ptp(samples, axis=0) > 1e-11]
    assert within_bounds(largest_errors(samples))


def test_five_hundred_runs() -> None:
    rng = np.random.default_rng(5)
    samples = np.stack([HARD[name](rng, 500) for name in ("normal", "cauchy", "skewed")], axis=1)
    assert within_bounds(largest_errors(samples))


def test_large_offset() -> None:
    rng = np.random.default_rng(6)
    samples = 1e6 + 1e-3 * np.stack([rng.normal(0.0, 1, 30), rng.normal(0.7, 0.3, 30), rng.exponential(1, 30)], axis=1)
    assert within_bounds(largest_errors(samples))


@pytest.mark.parametrize("change", [1e-9, 1e-6, 1e-4, 1e-2])
def test_nearly_equal_samples(change: float) -> None:
    x = np.random.default_rng(7).normal(size=40)
    assert within_bounds(largest_errors(np.stack([x, x * (1 + change), x + change], axis=1)))


def test_scipy_densities_and_adaptive_quadrature() -> None:
    rng = np.random.default_rng(8)
    samples = np.stack([rng.normal(0, 1, 12), rng.normal(1.5, 0.5, 12), rng.exponential(1, 12)], axis=1)
    found = distance_matrix(samples)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IntegrationWarning)
        for i, j in ((0, 1), (1, 2)):
            p, q = gaussian_kde(samples[:, i], "silverman"), gaussian_kde(samples[:, j], "silverman")
            breaks = np.linspace(-6, 10, 65)
            least = sum(
                quad(lambda x: min(p(x)[0], q(x)[0]), a, b, epsabs=1e-10)[0] for a, b in itertools.pairwise(breaks)
            )
            assert found[i, j] == pytest.approx(1 - least / (2 - least), abs=1e-7)


@pytest.mark.parametrize("rule", ["silverman", "scott", 0.37])
def test_bandwidths_are_scipys(rule: str | float) -> None:
    samples = np.random.default_rng(9).gamma(2.0, size=(23, 3))
    option = rule if isinstance(rule, str) else np.asarray(rule)
    parts = mixtures(samples[:, np.newaxis], bandwidth=option, density="kde", bias_corrected=False)
    expected = [np.sqrt(gaussian_kde(samples[:, j], rule).covariance[0, 0]) for j in range(3)]
    assert parts.bandwidth == pytest.approx(expected, rel=1e-12)


def test_absolute_bandwidths() -> None:
    samples = np.random.default_rng(10).normal(size=(15, 2))
    expected = kde_by_hand.distances(samples[:, 0], samples[:, 1], 0.05, 0.4)
    assert distance_matrix(samples, bandwidth=[0.05, 0.4])[0, 1] == pytest.approx(expected["jaccard"], abs=1e-7)


@pytest.mark.parametrize("factor", [1e-6, 1e-3, 20.0])
def test_a_factor_is_the_same_as_its_bandwidths(factor: float) -> None:
    samples = np.random.default_rng(11).normal(size=(25, 3)).round(1)
    h = factor * samples.std(axis=0, ddof=1)
    by_factor = distance_matrix(samples, bandwidth=factor)
    assert by_factor == pytest.approx(distance_matrix(samples, bandwidth=h), abs=1e-9)
    expected = kde_by_hand.distances(samples[:, 0], samples[:, 1], h[0], h[1])
    assert by_factor[0, 1] == pytest.approx(expected["jaccard"], abs=1e-6)


def test_bias_correction_is_a_kde_of_points_drawn_to_the_mean() -> None:
    samples = np.random.default_rng(12).normal(size=(20, 2)) * [1.0, 3.0] + [0.0, 2.0]
    factor = (0.75 * 20) ** -0.2
    c = np.sqrt(1 + factor**2)
    drawn = samples.mean(axis=0) + (samples - samples.mean(axis=0)) / c
    h = factor * samples.std(axis=0, ddof=1) / c
    expected = kde_by_hand.distances(drawn[:, 0], drawn[:, 1], *h)
    found = distance_matrix(samples, bias_corrected=True)[0, 1]
    assert found == pytest.approx(expected["jaccard"], abs=1e-7)


def test_bias_correction_removes_the_bias_at_the_papers_threshold() -> None:
    # Two unit Gaussians at true distance 0.9 (z = 1.3352 solves the closed form), 50 runs: simulated
    # elsewhere, the mean estimates are 0.872 and 0.9015, each with sd 0.03 a draw.
    z = 1.3351777
    samples = np.random.default_rng(13).normal(size=(50, 1500, 2)) + np.array([0.0, 2 * z])
    plain = distance_matrix(samples)[:, 0, 1].mean()
    corrected = distance_matrix(samples, bias_corrected=True)[:, 0, 1].mean()
    assert plain == pytest.approx(0.872, abs=0.004)
    assert corrected == pytest.approx(0.9015, abs=0.004)
