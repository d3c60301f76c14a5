"""Constant features, noise in the last bits, and repeated values: limits and sums worked out by hand."""

from __future__ import annotations

import kde_by_hand
import numpy as np
import pytest

from stabgate.separability import distance_matrix

METRICS = ("jaccard", "total_variation", "hellinger", "jensen_shannon")
EPS = np.finfo(float).eps


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("density", ["kde", "mixed"])
@pytest.mark.parametrize("runs", [2, 3, 50])
def test_dirac_limits(metric: str, density: str, runs: int) -> None:
    varied = np.random.default_rng(0).normal(0.5, 0.1, runs)
    x = np.stack([np.full(runs, 0.5), np.full(runs, 0.5), np.full(runs, 0.7), varied], axis=1)
    d = distance_matrix(x, metric=metric, density=density)
    assert d.tolist() == [[0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]]


def test_constants_are_told_by_range_not_by_standard_deviation() -> None:
    # np.std of fifty times 0.1 is not 0.
    assert np.std(np.full(50, 0.1)) > 0
    assert distance_matrix(np.full((50, 2), 0.1))[0, 1] == 0.0


@pytest.mark.parametrize("density", ["kde", "mixed"])
def test_noise_in_the_last_bits_is_no_difference(density: str) -> None:
    rng = np.random.default_rng(1)
    noise = rng.integers(-3, 4, size=(50, 2)) * EPS
    x = np.concatenate([1.0 + noise, np.full((50, 1), 1.0)], axis=1)
    assert not distance_matrix(x, density=density).any()


def test_the_floor_is_sixteen_units_of_the_largest_value() -> None:
    # Largest value 1, in the third feature: two constants may differ by 16 eps.
    def d(gap: float) -> float:
        x = np.array([[0.0, gap, 1.0], [0.0, gap, 1.0]])
        return float(distance_matrix(x)[0, 1])

    assert d(16 * EPS) == 0.0
    assert d(17 * EPS) == 1.0


def test_the_floor_is_each_instances_own() -> None:
    x = np.zeros((2, 2, 2))
    x[:, :, 1] = 100 * EPS
    x[:, 1, :] += 1000.0
    # The first instance holds nothing larger than 100 eps; beside 1000, 100 eps vanish.
    assert distance_matrix(x)[:, 0, 1].tolist() == [1.0, 0.0]


def test_zero_reading_of_constants() -> None:
    rng = np.random.default_rng(2)
    x = np.stack([np.zeros(10), rng.normal(size=10), rng.normal(size=10) + 9], axis=1)
    d = distance_matrix(x, degenerate="zero")
    assert not d[0].any()
    assert not d[:, 0].any()
    assert d[1, 2] == distance_matrix(x)[1, 2]


def bits(a: float, b: float) -> float:
    """What two masses at one place share of the base-2 Jensen-Shannon divergence's total."""
    return 0.5 * (a * np.log2((a + b) / a) + b * np.log2((a + b) / b))


def test_mixed_reading_of_two_features_of_few_values() -> None:
    # a: 0 x5, 1 x3, 2 x2; b: 0 x3, 1 x4, 3 x3. Fewer than three remain of a (the 2s): an atom of mass 0.2.
    a = [0.0] * 5 + [1.0] * 3 + [2.0] * 2
    b = [0.0] * 3 + [1.0] * 4 + [3.0] * 3
    x = np.array([a, b]).T
    found = {metric: distance_matrix(x, metric=metric, density="mixed")[0, 1] for metric in METRICS}
    assert found["total_variation"] == pytest.approx(1 - 0.6, abs=1e-12)
    assert found["jaccard"] == pytest.approx(1 - 0.6 / 1.4, abs=1e-12)
    assert found["hellinger"] == pytest.approx(np.sqrt(1 - np.sqrt(0.15) - np.sqrt(0.12)), abs=1e-12)
    assert found["jensen_shannon"] == pytest.approx(np.sqrt(1 - bits(0.5, 0.3) - bits(0.3, 0.4)), abs=1e-12)


def test_mixed_reading_takes_back_a_false_separation() -> None:
    # 0 in 9 of 10 runs beside always 0: the KDE's limit says 1, the common mass is 0.9.
    x = np.zeros((10, 2))
    x[3, 0] = 5.0
    assert distance_matrix(x)[0, 1] == 1.0
    assert distance_matrix(x, density="mixed")[0, 1] == pytest.approx(1 - 0.9 / 1.1, abs=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_mixed_reading_of_atoms_and_continuous_parts(metric: str) -> None:
    # Both 0 in some of 40 runs, normal in the others: the overlap is that of the atoms plus the weighted
    # densities'.
    rng = np.random.default_rng(3)
    p, q = rng.normal(0.0, 1.0, 30), rng.normal(0.8, 0.5, 12)
    x = np.stack([np.append(p, np.zeros(10)), np.append(q, np.zeros(28))], axis=1)
    hp, hq = kde_by_hand.silverman(p), kde_by_hand.silverman(q)
    grid = np.linspace(-12, 12, 400_001)
    a, b = 0.75 * kde_by_hand.density(grid, p, hp), 0.3 * kde_by_hand.density(grid, q, hq)
    step = grid[1] - grid[0]
    if metric in ("jaccard", "total_variation"):
        common = np.minimum(a, b).sum() * step + 0.25
        expected = 1 - common / (2 - common) if metric == "jaccard" else 1 - common
    elif metric == "hellinger":
        expected = np.sqrt(1 - np.sqrt(a * b).sum() * step - np.sqrt(0.25 * 0.7))
    else:
        a, b = a[(a > 0) & (b > 0)], b[(a > 0) & (b > 0)]
        expected = np.sqrt(1 - sum(bits(s, t) for s, t in zip(a[::20], b[::20])) * step * 20 - bits(0.25, 0.7))
    found = distance_matrix(x, metric=metric, density="mixed")[0, 1]
    assert found == pytest.approx(expected, abs=1e-6)


def test_mixed_reading_without_repeated_values_is_the_kde() -> None:
    x = np.random.default_rng(4).normal(size=(20, 3))
    x[1] = x[0]  # pairs of equal values stay in the KDE
    assert np.array_equal(distance_matrix(x, density="mixed"), distance_matrix(x))


def test_atoms_are_no_wider_than_the_floor() -> None:
    # Steps of 10 eps beside 1: each is within the floor of the next, but all ten are not one value.
    steps = np.repeat(np.arange(10) * 10 * EPS, 3)
    x = np.stack([steps, np.zeros(30), np.ones(30)], axis=1)
    # Groups of two steps (20 values ... 6 runs each) share only the first with the constant 0.
    assert distance_matrix(x, density="mixed", metric="total_variation")[0, 1] == pytest.approx(0.8, abs=1e-12)


@pytest.mark.parametrize("runs", [2, 5, 50])
def test_nearly_degenerate_but_above_the_floor(runs: int) -> None:
    rng = np.random.default_rng(runs)
    x = 1.0 + np.stack([rng.normal(size=runs), rng.normal(1.0, 1.0, runs)], axis=1) * 1e-12
    shifted = (x - 1.0) * 2.0**40  # exact
    expected = kde_by_hand.distances(shifted[:, 0], shifted[:, 1])["jaccard"]
    assert distance_matrix(x)[0, 1] == pytest.approx(expected, abs=1e-6)
