"""Ties in the ranking: never by column order, and always to the smaller k."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stabgate.errors import InputError
from stabgate.separability import k_from_separated, rank_features, separated, tied_pairs


def test_descending_means() -> None:
    assert rank_features([1.0, 3.0, 2.0]).tolist() == [1, 2, 0]
    assert rank_features([[1.0, 3.0], [5.0, -5.0]]).tolist() == [[1, 0], [0, 1]]


def test_ties_within_the_floor() -> None:
    tied = tied_pairs([1.0, 1.25, 1.5], 0.25)
    assert tied.tolist() == [[False, True, False], [True, False, True], [False, True, False]]
    assert not tied_pairs([1.0, 2.0], 0.0).any()
    assert tied_pairs([[1.0, 1.0], [1.0, 2.0]], [0.0, 0.5]).any(axis=(1, 2)).tolist() == [True, False]


def test_the_least_separated_of_a_tied_pair_comes_first() -> None:
    d = np.array([[0, 0.95, 0.5], [0.95, 0, 0.7], [0.5, 0.7, 0]])
    assert rank_features([3.0, 1.0, 1.0], distances=d, floor=0.0).tolist() == [0, 2, 1]
    swapped = d[np.ix_([0, 2, 1], [0, 2, 1])]
    assert rank_features([3.0, 1.0, 1.0], distances=swapped, floor=0.0).tolist() == [0, 1, 2]


@st.composite
def tied_problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    n = draw(st.integers(2, 6))
    means = np.array(draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)), dtype=float)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    # Ends of the scale are frequent: distances tie, too.
    d = np.triu(rng.choice([0.2, 0.89, 0.9, 1.0, *rng.random(4)], (n, n)), 1)
    return means, d + d.T


def k_of(order: np.ndarray, means: np.ndarray, d: np.ndarray, floor: float) -> int:
    return k_from_separated(separated(d, 0.9, tied=tied_pairs(means, floor)), order)


@given(tied_problems(), st.sampled_from([0.0, 1.0]))
@settings(deadline=None, max_examples=200)
def test_k_is_the_smallest_that_any_order_of_tied_features_gives(
    problem: tuple[np.ndarray, np.ndarray], floor: float
) -> None:
    means, d = problem
    chosen = k_of(rank_features(means, distances=d, floor=floor), means, d, floor)
    gaps = np.sort(means)[::-1]
    block = np.concatenate([[0], np.cumsum(gaps[:-1] - gaps[1:] > floor)])
    of_mean = dict(zip(gaps, block))
    legal = [
        order
        for order in permutations(range(len(means)))
        if all(of_mean[means[a]] <= of_mean[means[b]] for a, b in pairwise(order))
    ]
    assert chosen == min(k_of(np.array(order), means, d, floor) for order in legal)


@given(tied_problems(), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=200)
def test_order_of_the_columns_does_not_matter(problem: tuple[np.ndarray, np.ndarray], random) -> None:
    means, d = problem
    columns = list(range(len(means)))
    random.shuffle(columns)
    d2, means2 = d[np.ix_(columns, columns)], means[columns]
    first = rank_features(means, distances=d, floor=0.0)
    second = rank_features(means2, distances=d2, floor=0.0)
    assert k_of(first, means, d, 0.0) == k_of(second, means2, d2, 0.0)
    assert means[first].tolist() == means2[second].tolist()


def test_many_zeros_at_the_end() -> None:
    # l1-regularised attributions: most features are 0, tied and at distance 0 of each other.
    n = 300
    means = np.zeros(n)
    means[7], means[100] = 2.0, 1.0
    d = np.zeros((n, n))
    d[[7, 100]] = 1.0
    d[:, [7, 100]] = 1.0
    np.fill_diagonal(d, 0.0)
    order = rank_features(means, distances=d)
    assert order[:2].tolist() == [7, 100]
    assert k_of(order, means, d, 0.0) == 3


@pytest.mark.parametrize(
    ("means", "options", "match"),
    [
        ([np.nan, 1.0], {}, "instance 0, feature 0"),
        (np.zeros((1, 1, 1)), {}, "means has shape"),
        ([1.0, 2.0], {"floor": -1.0}, "floor"),
        ([1.0, 2.0], {"distances": np.zeros((3, 3))}, "distances has shape"),
        ([1.0, 2.0], {"distances": np.zeros((1, 2, 2))}, "distances has shape"),
    ],
)
def test_errors(means: object, options: dict, match: str) -> None:
    with pytest.raises(InputError, match=match):
        rank_features(means, **options)
