"""Pairs without a score: counted, explained, never NaN and never 1; and results as objects."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from fass_by_hand import pair_of_maps

from stabgate.errors import InputError
from stabgate.perturbations import Rotation, Translation
from stabgate.similarity import compare_maps, score_above_floor

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

PROTOCOLS = ("aligned", "published")
NAMES = ("ssim", "spearman", "jaccard", "fass")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("value", [0.0, 0.1, -3.0, 1e-300])
def test_constant_maps_carry_no_signal(protocol, value):
    flat, other = np.full((3, 16, 16), value), pair_of_maps("random", (3, 16, 16))[0]
    for a, b, which in ((flat, flat, "both maps"), (flat, other, "the first"), (other, flat, "the second")):
        result = compare_maps(a, b, protocol=protocol)
        assert (result.measured, result.status) == (False, "no signal")
        assert which in result.reason
        assert [getattr(result, name) for name in NAMES] == [None] * 4
        assert len(result) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_rounding_around_a_constant_is_not_signal(protocol, dtype):
    noise = np.random.default_rng(0).integers(-4, 5, size=(1, 16, 16)) * np.finfo(dtype).eps
    flat = (1.0 + noise).astype(dtype)
    assert compare_maps(flat, flat, protocol=protocol).status == "no signal"


def test_channels_that_cancel_leave_no_signal():
    half = pair_of_maps("random", (1, 16, 16))[0]
    third = np.concatenate([half * 0.1, half * 0.2, -half * 0.3])  # sums to 1e-17, not to 0
    assert np.abs(third.sum(0)).max() > 0
    assert compare_maps(third, third).status == "no signal"
    assert compare_maps(third, third, reduction="abs-sum").fass == 1.0


def test_signal_is_looked_for_where_the_maps_are_compared():
    a, b = pair_of_maps("random", (1, 16, 16))
    b[:, :, 4:] = 1.0  # brought back by 4 of 16 pixels, only the constant part is left
    result = compare_maps(a, b, alignment=Translation(56))
    assert (result.status, result.reason.count("the second map")) == ("no signal", 1)


def test_a_constant_map_stays_constant_when_it_is_rotated_back():
    a = pair_of_maps("random", (3, 33, 40))[0]
    flat = np.full_like(a, 0.1)
    assert compare_maps(a, flat, alignment=Rotation(33)).status == "no signal"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_broken_map_costs_one_pair(protocol, bad):
    a = np.stack([pair_of_maps("random", (3, 16, 16), seed)[0] for seed in range(4)])
    b = a[:, :, ::-1].copy()
    expected = compare_maps(a, b, protocol=protocol)
    b[1, 0, 2, 3] = bad
    a[2] = 0.0
    result = compare_maps(a, b, protocol=protocol)
    assert result.measured.tolist() == [True, False, False, True]
    assert result.status == ("measured", "not finite", "no signal", "measured")
    for name in NAMES:
        got, want = getattr(result, name), getattr(expected, name)
        assert np.isfinite(got.data).all()
        assert got.mask.tolist() == [False, True, True, False]
        assert got.compressed().tolist() == want[[0, 3]].tolist()
        assert got.mean() == pytest.approx(want[[0, 3]].mean())


def test_no_whole_window_in_common():
    a, b = pair_of_maps("random", (1, 16, 16))
    checkerboard = np.indices((16, 16)).sum(0) % 2 == 0
    for mask in (checkerboard, np.zeros((16, 16), dtype=bool)):
        assert compare_maps(a, b, valid=mask).status == "no overlap"


def test_extreme_ratio_between_two_maps_stays_finite():
    a, b = pair_of_maps("random", (3, 16, 16))
    for protocol, scale in itertools.product(PROTOCOLS, (1e300, 1e-300)):
        result = compare_maps(a * scale, b / scale, protocol=protocol)
        assert result.measured
        assert all(np.isfinite(getattr(result, name)) for name in NAMES)
        assert result.spearman == pytest.approx(compare_maps(a, b, protocol=protocol).spearman, abs=1e-12)


def test_an_empty_batch_is_zero_pairs():
    empty = np.empty((0, 3, 16, 16))
    result = compare_maps(empty, empty)
    assert (len(result), result.measured.tolist(), result.fass.tolist()) == (0, [], [])


def test_weights_by_name_and_by_order():
    a, b = pair_of_maps("smooth", (3, 20, 20))
    plain = compare_maps(a, b)
    expected = (2 * plain.ssim + plain.spearman) / 3
    assert compare_maps(a, b, weights={"spearman": 1, "ssim": 2, "jaccard": 0}).fass == pytest.approx(expected)
    assert compare_maps(a, b, weights=(2, 1, 0)).fass == pytest.approx(expected)
    assert compare_maps(a, a, weights=(0.3, 0.1, 0.7)).fass == 1.0


def test_pairs_of_a_batch_are_results_of_their_own():
    a, b = (np.stack(m) for m in zip(*(pair_of_maps("random", (1, 16, 16), s) for s in (0, 1)), strict=True))
    a[1] = 0.0
    first, second = compare_maps(a, b)
    assert first.fass == compare_maps(a[0], b[0]).fass
    assert (second.fass, second.status) == (None, "no signal")
    with pytest.raises(IndexError):
        compare_maps(a, b).pair(2)


def test_score_above_floor():
    assert score_above_floor(0.75, 0.5) == pytest.approx(0.5)
    assert score_above_floor(1.0, 0.4) == 1.0
    assert score_above_floor(0.2, 0.5) == pytest.approx(-0.6)
    np.testing.assert_allclose(score_above_floor(np.array([0.5, 1.0]), 0.5), [0.0, 1.0])
    for floor in (1.0, 1.5, float("nan"), float("inf")):
        with pytest.raises(InputError, match="below 1"):
            score_above_floor(0.9, floor)
