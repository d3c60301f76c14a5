"""What must hold for every sample: metric axioms and invariances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stabgate.separability import distance_matrix, overlap, pairs

METRICS = ("jaccard", "total_variation", "hellinger", "jensen_shannon")


@st.composite
def samples(draw: st.DrawFn, features: int = 4) -> np.ndarray:
    """Continuous, heavy-tailed, repeating and constant features on several scales, side by side."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    runs = draw(st.integers(2, 40))
    columns = []
    for _ in range(features):
        kind = draw(st.sampled_from(["normal", "cauchy", "levels", "zeros", "constant"]))
        scale = 10.0 ** draw(st.integers(-4, 1))
        centre = draw(st.integers(-2, 2)) / 2
        columns.append(
            {
                "normal": lambda: centre + scale * rng.normal(size=runs),
                "cauchy": lambda: centre + scale * rng.standard_cauchy(runs),
                "levels": lambda: centre + rng.choice([0.0, 0.25, 1.0], runs),
                "zeros": lambda: np.where(rng.random(runs) < 0.6, 0.0, rng.normal(size=runs)),
                "constant": lambda: np.full(runs, centre),
            }[kind]()
        )
    return np.stack(columns, axis=1)


densities = st.sampled_from(["kde", "mixed"])
metrics = st.sampled_from(METRICS)


@given(samples(), metrics, densities)
@settings(deadline=None, max_examples=100)
def test_range_symmetry_and_zero_diagonal(x: np.ndarray, metric: str, density: str) -> None:
    d = distance_matrix(x, metric=metric, density=density)
    assert ((d >= 0) & (d <= 1)).all()
    assert np.array_equal(d, d.T)
    assert not d.diagonal().any()


@given(samples(), metrics, densities)
@settings(deadline=None, max_examples=100)
def test_triangle_inequality(x: np.ndarray, metric: str, density: str) -> None:
    d = distance_matrix(x, metric=metric, density=density)
    detour = (d[:, :, np.newaxis] + d[np.newaxis]).min(axis=1)
    assert (d <= detour + 2e-6).all()


@given(samples(), metrics, densities, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=60)
def test_a_copy_with_reordered_runs_is_at_distance_zero(x: np.ndarray, metric: str, density: str, random) -> None:
    order = list(range(len(x)))
    random.shuffle(order)
    d = distance_matrix(np.concatenate([x, x[order]], axis=1), metric=metric, density=density)
    n = x.shape[1]
    assert d[np.arange(n), np.arange(n) + n].max() < 1e-6
    assert d[:n, :n] == pytest.approx(d[n:, n:], abs=1e-9)


@given(samples(), metrics, densities, st.integers(-200, 200), st.booleans())
@settings(deadline=None, max_examples=60)
def test_scale_and_sign_do_not_matter(x: np.ndarray, metric: str, density: str, exponent: int, mirrored: bool) -> None:
    scale = -(10.0**exponent) if mirrored else 10.0**exponent
    expected = distance_matrix(x, metric=metric, density=density)
    assert distance_matrix(x * scale, metric=metric, density=density) == pytest.approx(expected, abs=1e-7)


@given(samples(), metrics, densities, st.integers(-1000, 1000))
@settings(deadline=None, max_examples=60)
def test_shift_does_not_matter(x: np.ndarray, metric: str, density: str, shift: int) -> None:
    # On a grid of 2^-30 the shifted samples are exact, so whatever differs is the library's.
    x = np.round(x * 2.0**30) / 2.0**30
    expected = distance_matrix(x, metric=metric, density=density)
    assert distance_matrix(x + shift, metric=metric, density=density) == pytest.approx(expected, abs=1e-7)


@given(samples(), metrics, densities, st.permutations(range(4)))
@settings(deadline=None, max_examples=60)
def test_order_of_the_features_does_not_matter(x: np.ndarray, metric: str, density: str, order: list[int]) -> None:
    expected = distance_matrix(x, metric=metric, density=density)[np.ix_(order, order)]
    assert distance_matrix(x[:, order], metric=metric, density=density) == pytest.approx(expected, abs=1e-7)


@given(st.lists(samples(), min_size=2, max_size=4), metrics, densities)
@settings(deadline=None, max_examples=40)
def test_an_instance_does_not_depend_on_its_batch(rows: list[np.ndarray], metric: str, density: str) -> None:
    runs = min(len(row) for row in rows)
    batch = np.stack([row[:runs] for row in rows], axis=1)
    d = distance_matrix(batch, metric=metric, density=density)
    for i in range(len(rows)):
        assert np.array_equal(d[i], distance_matrix(batch[:, i], metric=metric, density=density))


def test_many_rows_are_measured_in_several_batches() -> None:
    x = np.random.default_rng(0).normal(size=(5, 2100, 2))
    d = distance_matrix(x)
    for i in (0, 511, 512, 2099):
        assert np.array_equal(d[i], distance_matrix(x[:, i]))


def test_pairs_are_measured_in_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(8, 3, 40)) * rng.uniform(0.1, 3, 40)
    x[:, :, ::5] = x[:, :, ::5].round()
    expected = distance_matrix(x, density="mixed")
    monkeypatch.setattr(overlap, "CHUNK_PAIRS", 50)
    monkeypatch.setattr(pairs, "CHUNK_PAIRS", 50)
    monkeypatch.setattr(pairs, "CHUNK_NODES", 500)
    assert np.array_equal(distance_matrix(x, density="mixed"), expected)
