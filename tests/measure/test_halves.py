"""Half-samples: k and groups of each half against the whole computation on all features, run on that half alone."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest

from stabgate.attributions import Attributions
from stabgate.measure.halves import HALVES, RowHalves, draw_halves, full_bandwidth
from stabgate.measure.kstability import stability_of
from stabgate.measure.numbers import KSettings

PLAIN = KSettings(0.9, "all-pairs", "magnitude", "kde", "jaccard", "silverman", False)
FEATURES = 7


def attributions(values, **provenance):
    runs, rows, features = values.shape
    names, seeds = tuple(f"f{j}" for j in range(features)), np.zeros((runs, rows), dtype=np.uint32)
    return Attributions(values, names, tuple(range(rows)), seeds, provenance=provenance)


def row(runs, seed, *, spacing=3.0, features=FEATURES):
    """Means about as far apart as the threshold asks for, of both signs, in no order."""
    rng = np.random.default_rng(seed)
    means = rng.permutation(np.arange(1, features + 1) * spacing) * rng.choice([-1.0, 1.0], features)
    return means + rng.normal(size=(runs, features))


def whole(values, settings, seed):
    """The result of measuring each half as if it were an instance, smoothed like all runs."""
    chosen = draw_halves(len(values), seed)
    factor = full_bandwidth(settings.bandwidth, len(values))
    halves = np.swapaxes(values[chosen], 0, 1)
    return stability_of(attributions(halves), **{**asdict(settings), "bandwidth": factor})


@pytest.mark.parametrize(
    ("runs", "settings"),
    [
        (4, PLAIN),
        (5, replace(PLAIN, value="absmean")),
        (20, PLAIN),
        (20, replace(PLAIN, rule="consecutive")),
        (15, replace(PLAIN, value="signed", bandwidth="scott")),
        (6, replace(PLAIN, density="mixed")),
        (20, replace(PLAIN, density="mixed")),
        (20, replace(PLAIN, metric="hellinger", threshold=0.8)),
        (10, replace(PLAIN, bias_corrected=True)),
        (20, replace(PLAIN, bandwidth=tuple(np.linspace(0.3, 0.6, FEATURES)))),
    ],
)
def test_each_half_has_the_k_of_the_whole_computation(runs, settings):
    found = []
    for seed in range(3):
        values = row(runs, seed)
        k = RowHalves(values, settings, seed).k(2)
        np.testing.assert_array_equal(k, whole(values, settings, seed).k)
        found.append(k)
    assert len(np.unique(found)) > 1


def test_the_guess_only_decides_how_much_is_looked_at():
    values = row(20, 1, spacing=3.5)
    expected = whole(values, PLAIN, 5).k
    for guess in (0, 1, 4, FEATURES):
        np.testing.assert_array_equal(RowHalves(values, PLAIN, 5).k(guess), expected)


@pytest.mark.parametrize(
    ("runs", "settings"),
    [(4, PLAIN), (20, PLAIN), (15, replace(PLAIN, density="mixed")), (20, replace(PLAIN, value="absmean"))],
)
def test_each_half_has_the_groups_of_the_whole_computation(runs, settings):
    several = set()
    for seed in range(3):
        values = row(runs, seed, spacing=2.8)
        certified = whole(values, settings, seed).certified_groups()
        for k in range(1, FEATURES):
            found = RowHalves(values, settings, seed).certified(k)
            np.testing.assert_array_equal(found, certified[:, k - 1])
            several |= set(found.tolist())
    assert several == {True, False}


def test_repeated_values_are_atoms_in_halves_too():
    values = row(20, 3)
    values[:15, 2] = 0.0
    values[:, 4] = np.round(values[:, 4])
    for density in ("kde", "mixed"):
        settings = replace(PLAIN, density=density)
        np.testing.assert_array_equal(RowHalves(values, settings, 0).k(3), whole(values, settings, 0).k)


def test_a_half_has_half_of_the_runs_each_once():
    for runs, size in ((4, 2), (5, 2), (50, 25)):
        chosen = draw_halves(runs, 0)
        assert chosen.shape == (HALVES, size)
        assert all(len(set(half)) == size for half in chosen.tolist())
        assert set(chosen.ravel().tolist()) == set(range(runs))
    np.testing.assert_array_equal(draw_halves(9, 4), draw_halves(9, 4))
    assert (draw_halves(9, 4) != draw_halves(9, 5)).any()


def test_the_bandwidth_factor_is_that_of_all_runs():
    assert full_bandwidth("silverman", 50) == pytest.approx((50 * 3 / 4) ** (-1 / 5))
    assert full_bandwidth("scott", 50) == pytest.approx(50 ** (-1 / 5))
    assert full_bandwidth(0.3, 50) == 0.3


def two_rows(runs):
    return np.stack([row(runs, 1), row(runs, 2)], axis=1)


def test_a_result_draws_its_halves_from_its_seed_and_the_row_alone():
    values = two_rows(20)
    first = stability_of(attributions(values, seed=3))
    np.testing.assert_array_equal(first.half_k, stability_of(attributions(values, seed=3)).half_k)
    assert (first.half_k != stability_of(attributions(values, seed=4)).half_k).any()
    alone = Attributions(values[:, 1:], first.features, (1,), np.zeros((20, 1), np.uint32), provenance={"seed": 3})
    np.testing.assert_array_equal(first.half_k[:, 1:], stability_of(alone).half_k)


@pytest.mark.parametrize(("runs", "density"), [(2, "kde"), (3, "kde"), (5, "mixed")])
def test_too_few_runs_have_no_halves(runs, density):
    """Two values make no density of which three would be needed: with "mixed" every half would tell all apart."""
    result = stability_of(attributions(two_rows(runs)), density=density)
    assert result.half_k is None
    assert result.bagged_k is None
    assert result.variance_of_k is None
    assert result.chances(2) is None
    assert result.share_interval(2) is None
    assert result.mean_k_interval is None


@pytest.mark.parametrize("runs", [2, 20])
def test_a_deterministic_explainer_has_the_same_k_in_every_half(runs):
    values = np.broadcast_to(np.array([[3.0, 2.0, 1.0], [3.0, 3.0, 1.0]]), (runs, 2, 3)).copy()
    result = stability_of(attributions(values))
    np.testing.assert_array_equal(result.half_k, np.broadcast_to([3, 1], (HALVES, 2)))
    assert result.variance_of_k.tolist() == [0.0, 0.0]
    assert result.share_interval(2) == (0.5, 0.5)
    assert result.mean_k_interval == (2.0, 2.0)


def test_a_row_that_was_not_measured_meets_nothing_in_any_half():
    values = two_rows(8)
    values[:, 0] = np.nan
    names = tuple(f"f{j}" for j in range(FEATURES))
    result = stability_of(Attributions(values, names, (0, 1), np.zeros((8, 2), np.uint32), failures={0: "no"}))
    assert (result.half_k[:, 0] == 0).all()
    assert result.chances(2)[0] == 0.0
