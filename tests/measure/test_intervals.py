"""Intervals against their formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from stabgate.measure.fass.aggregates import clustered_interval, clustered_mean
from stabgate.measure.intervals import (
    chance_variance,
    clip,
    count_interval,
    half_variance,
    mean_interval,
    population_mean_interval,
    population_share_interval,
)

Z = 1.959963984540054


def test_the_count_has_the_variance_of_a_sum_of_independent_rows():
    chances = np.array([0.1, 0.5, 0.9, 1.0, 0.0])
    met = np.array([False, True, True, True, False])
    half = Z * math.sqrt(0.1 + 0.5 + 0.1 + 0.05)
    assert count_interval(met, chances) == pytest.approx((3 - half, 3 + half))
    assert count_interval(met, chances, deterministic=True) == (3.0, 3.0)


def test_the_variance_on_the_threshold_is_that_of_a_coin():
    """Critical distances of normal runs, in standard errors from the threshold; halves scatter about them by one."""
    distances = np.random.default_rng(0).normal(size=200_000)
    chances = stats.norm.cdf(distances)
    assert chance_variance(chances).mean() == pytest.approx(0.25, abs=0.002)
    assert (chances * (1 - chances)).mean() == pytest.approx(1 / 6, abs=0.002)


def test_the_variance_of_k_compares_opposite_halves():
    assert half_variance(np.array([1, 1, 1, 4])) == pytest.approx((9 + 0 + 0 + 9) / 4 / 2)
    assert half_variance(np.full((100, 2), 3)).tolist() == [0.0, 0.0]
    halves = np.random.default_rng(0).random((100, 5)) < [0.1, 0.3, 0.5, 0.8, 1.0]
    np.testing.assert_allclose(half_variance(halves), chance_variance(halves.mean(axis=0)))


def test_rows_that_are_settled_are_less_than_half_a_row_in_doubt():
    low, high = count_interval(np.ones(50, dtype=bool), np.ones(50))
    assert low > 49.5
    assert high < 50.5


def test_the_mean_has_the_mean_of_the_variances_over_the_rows():
    variances = np.array([0.0, 0.25, 1.0, 0.5])
    half = Z * math.sqrt((1.75 + 0.5) / 16)
    assert mean_interval(3.0, variances) == pytest.approx((3 - half, 3 + half))
    assert mean_interval(3.0, 0 * variances, deterministic=True) == (3.0, 3.0)


@pytest.mark.parametrize(("met", "rows"), [(0, 10), (7, 10), (10, 10), (33, 50)])
def test_the_share_of_a_population_is_wilsons(met, rows):
    expected = stats.binomtest(met, rows).proportion_ci(0.95, method="wilson")
    assert population_share_interval(met, rows) == pytest.approx((expected.low, expected.high))


def test_the_mean_of_a_population_is_students():
    values = np.array([1.0, 3.0, 4.0, 4.0])
    half = stats.t.ppf(0.975, 3) * values.std(ddof=1) / 2
    assert population_mean_interval(values) == pytest.approx((3 - half, 3 + half))
    assert population_mean_interval(values[:1]) is None


def test_ends_stay_within_the_range():
    assert clip((-0.2, 1.3), 0.0, 1.0) == (0.0, 1.0)
    assert clip((1.1, 1.2), 0.0, 1.0) == (1.0, 1.0)


def test_the_error_of_clusters_is_that_of_their_means_where_they_are_equally_large():
    values = np.random.default_rng(0).normal(size=(6, 4))
    centre, error, freedom = clustered_mean(values.ravel(), np.repeat(np.arange(6), 4))
    assert (centre, freedom) == (pytest.approx(values.mean()), 5)
    assert error == pytest.approx(values.mean(axis=1).std(ddof=1) / math.sqrt(6))
    half = stats.t.ppf(0.975, 5) * error
    assert clustered_interval(values.ravel() - 3, np.repeat(np.arange(6), 4)) == pytest.approx(
        (centre - 3 - half, centre - 3 + half)
    )
    assert clustered_mean([0.5, 0.6], ["a", "a"]) is None
    assert clustered_mean([0.5, 0.6, 0.7, 0.8], list("abbb"))[2] == 1.0
    assert clustered_mean([0.5, 0.6, 0.7, 0.8], list("abcc"))[2] == pytest.approx(16 / 6 - 1)
