"""What enters the distributions, the noise floor, and repeated values."""

from __future__ import annotations

import numpy as np
import pytest

from stabgate.errors import InputError
from stabgate.separability import (
    attribution_values,
    constant_features,
    noise_floor,
    ranking_means,
    repeated_features,
)

EPS = np.finfo(float).eps


@pytest.mark.parametrize(
    ("value", "expected", "means"),
    [
        ("magnitude", [[1, 2], [3, 4]], [2, 3]),
        ("signed", [[1, -2], [-3, -4]], [-1, -3]),
        ("favourable", [[1, 0], [0, 0]], [0.5, 0]),
        ("adverse", [[0, 2], [3, 4]], [1.5, 3]),
        ("absmean", [[1, -2], [-3, -4]], [1, 3]),
    ],
)
def test_values_and_what_they_are_ranked_by(value: str, expected: list, means: list) -> None:
    values = attribution_values([[1, -2], [-3, -4]], value)
    assert values.tolist() == expected
    assert ranking_means(values, value).tolist() == means


def test_shapes_follow_the_input() -> None:
    cube = np.ones((4, 3, 2))
    assert attribution_values(cube).shape == (4, 3, 2)
    assert ranking_means(cube).shape == (3, 2)
    assert noise_floor(cube).shape == (3,)
    assert noise_floor(cube[:, 0]).shape == ()
    assert constant_features(cube[:, 0]).shape == repeated_features(cube[:, 0]).shape == (2,)


def test_the_input_is_left_alone() -> None:
    a = np.array([[1.0, -1.0], [2.0, -2.0]])
    attribution_values(a, "signed")[:] = 0
    assert a.tolist() == [[1, -1], [2, -2]]


def test_mean_of_equal_values_is_the_value() -> None:
    assert np.full(7, 0.1).sum() / 7 != 0.1 or np.full(50, 0.1).sum() / 50 != 0.1
    for runs in (3, 7, 10, 50, 100):
        assert ranking_means(np.full((runs, 1), 0.1)).tolist() == [0.1]


def test_noise_floor_is_sixteen_eps_of_the_largest_magnitude_of_the_instance() -> None:
    x = np.zeros((2, 2, 2))
    x[0, 0] = [1.0, -4.0]
    x[1, 1] = [0.5, 0.0]
    assert noise_floor(x).tolist() == [64 * EPS, 8 * EPS]


def test_constant_and_repeated_features() -> None:
    x = np.stack(
        [
            np.full(6, 2.0),
            2.0 + np.array([0, 1, 2, -1, 0, 3]) * 2 * EPS,
            [0, 0, 0, 1, 2, 3],  # three of six in one group
            [0, 0, 1, 1, 2, 2],  # pairs are no atoms
            [0, 0, 0, 5, 5, 5],
            np.arange(6),
        ],
        axis=1,
    )
    assert constant_features(x).tolist() == [True, True, False, False, False, False]
    assert repeated_features(x).tolist() == [False, False, True, False, True, False]


def test_three_of_seven_runs_are_less_than_half() -> None:
    assert not repeated_features(np.array([[0, 0, 0, 1, 2, 3, 4.0]]).T).any()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_named(bad: float) -> None:
    x = np.zeros((3, 4, 5))
    x[1, 2, 3] = bad
    with pytest.raises(InputError, match="run 1, instance 2, feature 3"):
        attribution_values(x)


def test_unknown_value_lists_the_options() -> None:
    with pytest.raises(InputError, match="'magnitude', 'signed', 'adverse', 'favourable', 'absmean'"):
        attribution_values(np.zeros((2, 2)), "abs")
