"""k against every prefix by brute force, and the comparison of methods."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stabgate.errors import InputError
from stabgate.separability import (
    compare_k,
    distance_matrix,
    k_from_separated,
    k_stability,
    rank_features,
    ranking_means,
    separated,
    tied_pairs,
)


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Distances (instances, n, n) around the threshold and a ranking."""
    n = draw(st.integers(1, 8))
    instances = draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d = np.triu(rng.choice([0.3, 0.9, 0.95, 1.0], (instances, n, n), p=[0.1, 0.3, 0.3, 0.3]), 1)
    return d + d.swapaxes(1, 2), np.argsort(rng.random((instances, n)), axis=1)


def brute_k(d: np.ndarray, ranking: np.ndarray, threshold: float, rule: str) -> int:
    best = 1
    for s in range(1, len(ranking) + 1):
        top = ranking[:s]
        pairs = list(combinations(top, 2)) if rule == "all-pairs" else list(pairwise(top))
        if all(d[i, j] >= threshold for i, j in pairs):
            best = s
    return best


@given(problems(), st.sampled_from(["all-pairs", "consecutive"]))
@settings(deadline=None, max_examples=200)
def test_k_by_brute_force_over_prefixes(problem: tuple[np.ndarray, np.ndarray], rule: str) -> None:
    d, ranking = problem
    found = k_stability(d, ranking, rule=rule)
    assert found.tolist() == [brute_k(d[i], ranking[i], 0.9, rule) for i in range(len(d))]
    assert k_stability(d[0], ranking[0], rule=rule) == found[0]


@given(problems(), st.sampled_from(["all-pairs", "consecutive"]))
@settings(deadline=None, max_examples=50)
def test_k_never_grows_with_the_threshold(problem: tuple[np.ndarray, np.ndarray], rule: str) -> None:
    d, ranking = problem
    ks = [k_stability(d, ranking, threshold=t, rule=rule) for t in (0.1, 0.3, 0.5, 0.9, 0.95, 1.0)]
    assert all((later <= earlier).all() for earlier, later in pairwise(ks))


@given(problems())
@settings(deadline=None, max_examples=50)
def test_all_pairs_is_never_above_consecutive(problem: tuple[np.ndarray, np.ndarray]) -> None:
    d, ranking = problem
    assert (k_stability(d, ranking) <= k_stability(d, ranking, rule="consecutive")).all()


def test_a_distance_at_the_threshold_counts() -> None:
    d = np.array([[0, 0.9], [0.9, 0]])
    assert k_stability(d, [0, 1], threshold=0.9) == 2
    assert k_stability(d, [0, 1], threshold=np.nextafter(0.9, 1)) == 1


def test_one_feature_and_all_separable() -> None:
    assert k_stability([[0.0]], [0]) == 1
    assert k_stability(np.ones((4, 4)) - np.eye(4), [3, 1, 0, 2]) == 4


def test_tied_means_are_not_separated_whatever_the_distance() -> None:
    d = np.ones((3, 3)) - np.eye(3)
    means = np.array([1.0, 2.0, 1.0 + 2e-15])  # indexed by feature; the floor is 16 eps 2 = 7e-15
    assert k_stability(d, [1, 2, 0]) == 3
    assert k_stability(d, [1, 2, 0], means=means) == 2
    assert k_stability(d, [1, 2, 0], means=means, rule="consecutive") == 2
    assert k_stability(d[np.newaxis], [[1, 2, 0]], means=means[np.newaxis]).tolist() == [2]


def test_equal_means_with_different_spread_are_tied() -> None:
    # Symmetric about 1 to the last bit, spreads 1000 apart: d is near 1 and no order is certified.
    half = np.linspace(1, 2, 25)
    x = 1.0 + np.stack([np.append(half, -half) * 2.0**-3, np.append(half, -half) * 2.0**-13], axis=1)
    d, means = distance_matrix(x), ranking_means(x)
    assert d[0, 1] > 0.9
    order = rank_features(means, distances=d, floor=1e-14)
    assert k_from_separated(separated(d, 0.9, tied=tied_pairs(means, 1e-14)), order) == 1
    assert k_stability(d, order, means=means) == 1


def test_random_attributions_certify_nothing() -> None:
    # RAND of the paper: i.i.d. uniform, so all true distances are 0.
    x = np.random.default_rng(0).random((50, 40, 10))
    d, means = distance_matrix(x), ranking_means(x)
    assert (k_stability(d, rank_features(means, distances=d)) == 1).all()
    assert d.max() < 0.5


def test_clearly_ordered_attributions_are_all_certified() -> None:
    x = np.random.default_rng(1).normal(size=(50, 20, 6)) + 10 * np.arange(6)
    d, means = distance_matrix(x), ranking_means(x)
    order = rank_features(means, distances=d)
    assert (order == np.arange(6)[::-1]).all()
    assert (k_stability(d, order) == 6).all()


def test_comparison_of_methods() -> None:
    table = compare_k({"shap": [1, 2, 3, 4], "lime": [1, 3, 3, 1]})
    assert table.tolist() == [[1.0, 0.75], [0.75, 1.0]]
    assert compare_k([np.array([2, 2]), np.array([1, 1])]).tolist() == [[1.0, 1.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"ranking": [0, 0, 1]}, "not each of the features"),
        ({"ranking": [0, 1]}, "ranking has shape"),
        ({"ranking": [0.0, 1.0, 2.0]}, "whole feature indices"),
        ({"ranking": [[0, 1, 2]]}, "ranking has shape"),
        ({"threshold": 0.0}, r"\(0, 1\]"),
        ({"threshold": 1.1}, r"\(0, 1\]"),
        ({"threshold": float("nan")}, r"\(0, 1\]"),
        ({"threshold": "high"}, "threshold"),
        ({"rule": "all"}, "'all-pairs', 'consecutive'"),
        ({"distances": np.zeros((2, 3))}, "distances has shape"),
        ({"distances": np.full((3, 3), np.nan)}, "nan at instance 0"),
        ({"distances": np.triu(np.ones((3, 3)))}, "not symmetric"),
        ({"means": [1.0, 2.0]}, "means has shape"),
        ({"means": [1.0, 2.0, np.nan]}, "feature 2"),
    ],
)
def test_errors(arguments: dict, match: str) -> None:
    usual = {"distances": np.ones((3, 3)) - np.eye(3), "ranking": [0, 1, 2]} | arguments
    with pytest.raises(InputError, match=match):
        k_stability(usual.pop("distances"), usual.pop("ranking"), **usual)


@pytest.mark.parametrize("bad", [[], [[1, 2], [1]], [[]]])
def test_methods_must_share_their_instances(bad: list) -> None:
    with pytest.raises(InputError, match="one k per instance"):
        compare_k(bad)


def test_separated_must_be_boolean_and_symmetric() -> None:
    with pytest.raises(InputError, match="expected booleans"):
        k_from_separated(np.ones((2, 2)), [0, 1])
    with pytest.raises(InputError, match="not symmetric"):
        k_from_separated(np.array([[False, True], [False, False]]), [0, 1])
    with pytest.raises(InputError, match="tied has shape"):
        separated(np.zeros((2, 2)), 0.5, tied=np.zeros((3, 3), dtype=bool))
