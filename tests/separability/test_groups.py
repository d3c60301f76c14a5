"""Groups by brute force over all their pairs, and the averages over instances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stabgate.errors import InputError
from stabgate.separability import (
    certification_rate,
    certified_groups,
    group_stability,
    heatmap,
    separability_curve,
    separated,
)

DISTANCES = np.array([[0, 0.1, 0.9], [0.1, 0, 0.6], [0.9, 0.6, 0]])


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    n, instances = draw(st.integers(2, 7)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d = np.triu(rng.choice([0.5, 0.9, 0.97], (instances, n, n), p=[0.1, 0.4, 0.5]), 1)
    return d + d.swapaxes(1, 2), np.argsort(rng.random((instances, n)), axis=1)


@given(problems(), st.sampled_from(["mean", "median", "min"]), st.data())
@settings(deadline=None, max_examples=100)
def test_group_stability_by_brute_force(
    problem: tuple[np.ndarray, np.ndarray], aggregate: str, data: st.DataObject
) -> None:
    d, ranking = problem
    k = data.draw(st.integers(1, d.shape[1] - 1))
    found = group_stability(d, ranking, k, aggregate=aggregate)
    for i in range(len(d)):
        pairs = [d[i, a, b] for a in ranking[i, :k] for b in ranking[i, k:]]
        expected = {"mean": np.mean, "median": np.median, "min": min}[aggregate](pairs)
        assert found[i] == pytest.approx(expected, abs=1e-14)
    one = group_stability(d[0], ranking[0], k, aggregate=aggregate)
    assert isinstance(one, float)
    assert one == found[0]


@given(problems())
@settings(deadline=None, max_examples=100)
def test_certified_groups_by_brute_force(problem: tuple[np.ndarray, np.ndarray]) -> None:
    d, ranking = problem
    n = d.shape[1]
    found = certified_groups(separated(d, 0.9), ranking)
    expected = [[group_stability(d[i], ranking[i], k) >= 0.9 for k in range(1, n)] for i in range(len(d))]
    assert found.tolist() == expected
    assert certified_groups(separated(d[0], 0.9), ranking[0]).tolist() == expected[0]
    assert certification_rate(found).tolist() == np.mean(expected, axis=0).tolist()


def test_a_tie_across_the_cut_certifies_nothing() -> None:
    d = np.ones((3, 3)) - np.eye(3)
    tied = np.zeros((3, 3), dtype=bool)
    tied[1, 2] = tied[2, 1] = True
    assert certified_groups(separated(d, 0.9, tied=tied), [0, 1, 2]).tolist() == [True, False]


def test_curve() -> None:
    d = np.stack([DISTANCES, DISTANCES / 2])
    curve = separability_curve(d, [[0, 1, 2], [2, 0, 1]])
    # Steps 0.1, 0.6 and 0.45, 0.05; sd of two numbers is |a - b| / sqrt(2), so 2 sd / sqrt(2) is |a - b|.
    assert curve.mean == pytest.approx([0.275, 0.325], abs=1e-15)
    assert curve.half_width == pytest.approx([0.35, 0.55], abs=1e-15)
    assert curve.n == 2


def test_one_instance_has_a_curve_without_a_width() -> None:
    curve = separability_curve(DISTANCES, [0, 1, 2])
    assert curve.mean.tolist() == [0.1, 0.6]
    assert np.isnan(curve.half_width).all()
    assert curve.n == 1


def test_heatmap_is_in_rank_order() -> None:
    d = np.stack([DISTANCES, np.zeros((3, 3))])
    found = heatmap(d, [[2, 1, 0], [0, 1, 2]])
    assert found.tolist() == [[0, 0.3, 0.45], [0.3, 0, 0.05], [0.45, 0.05, 0]]


@pytest.mark.parametrize("k", [0, 3, 1.0, True, "1"])
def test_group_sizes_that_do_not_exist(k: object) -> None:
    with pytest.raises(InputError, match=r"whole k in 1\.\.2"):
        group_stability(DISTANCES, [0, 1, 2], k)


def test_other_errors() -> None:
    with pytest.raises(InputError, match="'mean', 'median', 'min'"):
        group_stability(DISTANCES, [0, 1, 2], 1, aggregate="max")
    with pytest.raises(InputError, match="expected booleans per instance"):
        certification_rate(np.ones((2, 2)))
