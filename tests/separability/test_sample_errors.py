"""Samples and options that cannot be used: the message names what, where, and what is allowed."""

from __future__ import annotations

import numpy as np
import pytest

from stabgate.errors import InputError
from stabgate.separability import distance_matrix

GOOD = np.random.default_rng(0).normal(size=(5, 2, 3))


@pytest.mark.parametrize(
    ("samples", "match"),
    [
        (np.zeros(3), "expected \\(runs, features\\)"),
        (np.zeros((1, 2, 3, 4)), "expected \\(runs, features\\)"),
        (np.zeros((1, 3)), "at least 2"),
        (np.zeros((0, 3)), "at least 2"),
        (np.zeros((2, 0)), "no feature"),
        (np.zeros((2, 0, 3)), "no instance"),
        ([[1.0, 2.0], [1.0]], "not a rectangular array"),
        ([["a", "b"], ["c", "d"]], "not a rectangular array of numbers"),
        (np.zeros((2, 2), dtype=complex), "complex"),
        (np.full((2, 2), 1e301), "run 0, instance 0, feature 0"),
    ],
)
def test_samples(samples: object, match: str) -> None:
    with pytest.raises(InputError, match=match):
        distance_matrix(samples)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_first_value_that_is_not_finite_is_named(bad: float) -> None:
    x = GOOD.copy()
    x[3, 1, 2] = bad
    with pytest.raises(InputError, match="run 3, instance 1, feature 2"):
        distance_matrix(x)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"metric": "total-variation"}, "'jaccard', 'total_variation', 'hellinger', 'jensen_shannon'"),
        ({"density": "histogram"}, "'kde', 'mixed'"),
        ({"degenerate": "one"}, "'dirac', 'zero'"),
        ({"bandwidth": "isj"}, "'silverman', 'scott'"),
        ({"bandwidth": 0.0}, "positive"),
        ({"bandwidth": -1}, "positive"),
        ({"bandwidth": float("nan")}, "positive"),
        ({"bandwidth": True}, "bandwidth"),
        ({"bandwidth": [0.1, 0.2]}, "for 3 feature"),
        ({"bandwidth": [0.1, 0.2, 0.0]}, "of feature 2"),
        ({"bandwidth": np.ones((1, 3))}, "one number per feature"),
        ({"bandwidth": None}, "bandwidth"),
    ],
)
def test_options(options: dict, match: str) -> None:
    with pytest.raises(InputError, match=match):
        distance_matrix(GOOD, **options)


def test_integers_and_lists_are_numbers() -> None:
    assert distance_matrix([[0, 9], [1, 8], [0, 9]]).shape == (2, 2)


def test_the_samples_are_left_alone() -> None:
    x = GOOD.copy()
    distance_matrix(x, density="mixed", bias_corrected=True)
    assert np.array_equal(x, GOOD)


def test_tiny_and_huge_values() -> None:
    expected = distance_matrix(GOOD)
    for scale in (1e-290, 1e290):
        assert distance_matrix(GOOD * scale) == pytest.approx(expected, abs=1e-7)
