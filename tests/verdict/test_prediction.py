"""What all runs will say, told from a part of them: against theory, brute force and what then happens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from stabgate.attributions import Attributions
from stabgate.measure.intervals import VARIANCE_FLOOR, Z
from stabgate.measure.kstability import stability_of
from stabgate.measure.numbers import KSettings
from stabgate.verdict import prediction
from stabgate.verdict.early import looks
from stabgate.verdict.prediction import (
    Forecast,
    critical_distances,
    forecast,
    future_runs,
    is_settled,
    probabilities,
    probit_distance,
)
from stabgate.verdict.verdicts import KRequirement, Outcome


def attributions_of(values):
    runs, rows, features = values.shape
    seeds = np.zeros((runs, rows), dtype=np.uint32)
    return Attributions(values, tuple(f"x{j}" for j in range(features)), tuple(range(rows)), seeds)


SETTINGS = KSettings(0.9, "all-pairs", "magnitude", "kde", "jaccard", "silverman", bias_corrected=False)
ORDER = KRequirement(3, 0.8, "order", 0.9, "all-pairs", 50)


def test_runs_to_come_follow_the_posterior_predictive(monkeypatch):
    """The mean of 40 new runs given 10: Student's t with 9 degrees of freedom, s * sqrt(1/10 + 1/40) about the mean."""
    monkeypatch.setattr(prediction, "DATA_SETS", 4000)
    rng = np.random.default_rng(0)
    seen = rng.multivariate_normal([5.0, -2.0], [[1.0, -0.9], [-0.9, 1.0]], size=10)
    drawn = future_runs(seen, 50, rng)
    assert drawn.shape == (50, 4000, 2)
    assert (drawn[:10] == seen[:, None]).all()
    scaled = (drawn[10:].mean(axis=0) - seen.mean(axis=0)) / (seen.std(axis=0, ddof=1) * np.sqrt(1 / 10 + 1 / 40))
    for feature in range(2):
        assert stats.kstest(scaled[:, feature], stats.t(9).cdf).pvalue > 1e-3
    assert np.corrcoef(scaled.T)[0, 1] == pytest.approx(np.corrcoef(seen.T)[0, 1], abs=0.1)


def test_a_constant_feature_stays_constant():
    seen = np.column_stack([np.full(10, 0.1), np.random.default_rng(0).normal(size=10)])
    assert (future_runs(seen, 50, np.random.default_rng(0))[:, :, 0] == 0.1).all()


@pytest.mark.parametrize("rule", ["all-pairs", "consecutive"])
@pytest.mark.parametrize("require", ["order", "membership", "both"])
def test_a_row_meets_a_requirement_where_its_critical_distance_reaches_the_threshold(rule, require):
    """Against the product's own k and groups, on rows with ties and constant features among them."""
    rng = np.random.default_rng(1)
    values = 5.0 - np.arange(6.0) + rng.normal(size=(30, 60, 6)) * rng.uniform(0.05, 0.6, size=(1, 60, 6))
    values[:, :5, 2] = values[:, :5, 1]
    values[:, 5:9, 0] = 5.0
    whole = stability_of(attributions_of(values), rule=rule)
    requirement = KRequirement(3, 0.8, require, 0.9, rule, 30)
    found = critical_distances(values, replace(SETTINGS, rule=rule), requirement, np.arange(6))
    assert (found >= 0.9).tolist() == whole.meets(3, require).tolist()
    assert 10 < (found >= 0.9).sum() < 50


def test_the_probit_of_a_distance_is_the_separation_of_two_normals():
    z = np.array([0.0, 0.5, 1.5, 3.0])
    d = (2 * stats.norm.cdf(z) - 1) / stats.norm.cdf(z)  # closed form for equal variances, means 2 z apart
    np.testing.assert_allclose(probit_distance(d), z, atol=1e-9)
    assert probit_distance(np.array([1.0]))[0] == 8.0


def test_leading_features_are_enough():
    """The forecast looks at few of 20 features and finds what it would with all of them."""
    rng = np.random.default_rng(2)
    few = 3.0 / (1 + np.arange(5.0)) + 0.1 * rng.normal(size=(12, 8, 5))
    tail = 0.05 + 0.01 * rng.normal(size=(12, 8, 15))
    found = forecast(np.concatenate([few, tail], axis=2), SETTINGS, ORDER, 0)
    for i in range(8):
        drawn = future_runs(np.concatenate([few, tail], axis=2)[:, i], 50, np.random.default_rng(i))
        every = probit_distance(critical_distances(drawn, SETTINGS, ORDER, np.arange(20)))
        assert found.centre[i] == pytest.approx(every.mean(), abs=5 * every.std() / 32**0.5 + 1e-6)


def test_forecasts_are_right_as_often_as_they_say():
    """Gates of 20 rows whose critical distances and their spread are known, at 20 of 50 runs."""
    rng = np.random.default_rng(3)
    level = float(probit_distance(np.array(0.9)))
    n, m, runs = 20, 20, 50
    claimed, passed = [], []
    for gate in range(300):
        truth = level + rng.normal(0.1, 0.8, size=n)
        sd = 0.3  # of the statistic at 50 runs
        now = truth + sd * np.sqrt(runs / m) * rng.normal(size=n)
        # Given what is at hand and a flat prior, the state at 50 runs is normal about it with variance sd^2 (50/m - 1).
        later = now + sd * np.sqrt(runs / m - 1) * rng.normal(size=n)
        found = Forecast(now, np.full(n, sd * np.sqrt(runs / m - 1)), np.ones(n, bool), np.sqrt(m / (runs - m)))
        requirement = replace(ORDER, share=0.5)
        claimed.append(probabilities(found, requirement, n, gate)[Outcome.PASS])
        chances = stats.norm.cdf((later - level) / sd)
        low = (later >= level).sum() - Z * np.sqrt(np.minimum(chances, 1 - chances).sum() + VARIANCE_FLOOR)
        passed.append(low >= 9.5)
    claimed, passed = np.array(claimed), np.array(passed)
    assert 0.2 < passed.mean() < 0.8
    assert claimed.mean() == pytest.approx(passed.mean(), abs=0.06)
    for low, high in ((0.0, 0.2), (0.2, 0.8), (0.8, 1.01)):
        inside = (claimed >= low) & (claimed < high)
        assert claimed[inside].mean() == pytest.approx(passed[inside].mean(), abs=4 / inside.sum() ** 0.5 / 2)


def test_what_is_certain_is_certain_and_what_is_unknown_counts_against():
    level = float(probit_distance(np.array(0.9)))
    sure = Forecast(np.r_[np.full(9, 8.0), 0.0], np.zeros(10), np.ones(10, bool), 0.5)
    assert probabilities(sure, replace(ORDER, share=0.9), 10, 0) == {Outcome.PASS: 1.0, Outcome.FAIL: 0.0}
    assert probabilities(sure, replace(ORDER, share=1.0), 10, 0) == {Outcome.PASS: 0.0, Outcome.FAIL: 1.0}
    # An eleventh row that could not be measured may be one that meets it.
    assert probabilities(sure, replace(ORDER, share=0.9), 11, 0)[Outcome.FAIL] == 0.0
    doubtful = replace(sure, fits=np.arange(10) > 0)
    assert probabilities(doubtful, replace(ORDER, share=0.9), 10, 0)[Outcome.PASS] == 0.0
    even = Forecast(np.full(10, level), np.full(10, 0.5), np.ones(10, bool), 0.5)
    assert max(probabilities(even, replace(ORDER, share=0.5), 10, 0).values()) < 0.2


def test_rows_of_a_population_go_by_wilsons_interval():
    sure = Forecast(np.full(20, 8.0), np.zeros(20), np.ones(20, bool), 0.5)
    for share in (0.8, 0.83, 0.84, 0.9):  # Wilson's lower end for 20 of 20 is 0.8389
        found = probabilities(sure, replace(ORDER, share=share), 20, 0, population=True)
        assert found[Outcome.PASS] == (stats.binomtest(20, 20).proportion_ci(method="wilson").low >= share)


def test_features_that_repeat_values_have_no_forecast():
    rng = np.random.default_rng(4)
    values = 5.0 - np.arange(5.0) + 0.1 * rng.normal(size=(12, 3, 5))
    values[:, 1, 1] = np.round(values[:, 1, 1], 1)
    values[:, 2, 4] = np.round(values[:, 2, 4], 1)  # does not matter for the first three
    assert forecast(values, SETTINGS, ORDER, 0).fits.tolist() == [True, False, True]


def test_settled_needs_a_likely_outcome_and_an_opposite_that_all_but_never_comes():
    assert is_settled(Outcome.PASS, {Outcome.PASS: 0.9, Outcome.FAIL: 0.0})
    assert not is_settled(Outcome.PASS, {Outcome.PASS: 0.4, Outcome.FAIL: 0.0})
    assert not is_settled(Outcome.FAIL, {Outcome.PASS: 0.01, Outcome.FAIL: 0.98})
    assert not is_settled(Outcome.INCONCLUSIVE, {Outcome.PASS: 0.0, Outcome.FAIL: 0.0})


def test_looks_come_at_ten_runs_and_a_quarter_more_each():
    assert looks(50) == [10, 12, 14, 16, 19, 22, 26, 31, 37, 44]
    assert looks(10) == looks(2) == []
    assert looks(11) == [10]
