"""What must hold for any maps: identity, symmetry, no scale, independence of batch and number type."""

from __future__ import annotations

import numpy as np
import pytest
from fass_by_hand import pair_of_maps
from hypothesis import given, settings
from hypothesis import strategies as st

from stabgate.similarity import MEASURED, compare_maps

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

PROTOCOLS = ("aligned", "published")
NAMES = ("ssim", "spearman", "jaccard", "fass")


@st.composite
def two_maps(draw, channels=3):
    shape = (draw(st.integers(1, channels)), draw(st.integers(11, 18)), draw(st.integers(11, 18)))
    seed, levels = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([None, 2, 5]))
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=shape), rng.normal(size=shape)
    return (a, b) if levels is None else (np.round(a * levels), np.round(b * levels))


def values(result):
    return [getattr(result, name) for name in NAMES]


@settings(max_examples=40, deadline=None)
@given(two_maps(), st.sampled_from(PROTOCOLS), st.sampled_from([np.float16, np.float32, np.float64]))
def test_identical_maps_score_exactly_one(maps, protocol, dtype):
    a = maps[0].astype(dtype)
    assert values(compare_maps(a, a.copy(), protocol=protocol)) == [1.0] * 4


@settings(max_examples=40, deadline=None)
@given(two_maps(), st.sampled_from(PROTOCOLS))
def test_symmetric_exactly(maps, protocol):
    a, b = maps
    assert values(compare_maps(a, b, protocol=protocol)) == values(compare_maps(b, a, protocol=protocol))


@settings(max_examples=40, deadline=None)
@given(two_maps(channels=1), st.sampled_from(PROTOCOLS), st.sampled_from([1e-12, 1e-300, 0.3, 7e5, 1e300]))
def test_scale_free(maps, protocol, scale):
    a, b = maps
    plain, scaled = (compare_maps(a * s, b * s, protocol=protocol) for s in (1.0, scale))
    assert values(scaled) == pytest.approx(values(plain), abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(two_maps(), st.sampled_from(PROTOCOLS), st.integers(-900, 900))
def test_powers_of_two_change_no_digit(maps, protocol, exponent):
    a, b = maps
    scaled = compare_maps(a * 2.0**exponent, b * 2.0**exponent, protocol=protocol)
    assert values(scaled) == values(compare_maps(a, b, protocol=protocol))


@settings(max_examples=30, deadline=None)
@given(two_maps(), st.sampled_from(PROTOCOLS))
def test_within_their_ranges(maps, protocol):
    a, b = maps
    result = compare_maps(a, b, protocol=protocol)
    assert -1.0 <= result.ssim <= 1.0
    assert 0.0 <= result.spearman <= 1.0
    assert 0.0 <= result.jaccard <= 1.0


def test_tiny_unrelated_maps_do_not_score_one():
    a, b = (np.random.default_rng(seed).normal(size=(3, 32, 32)) * 1e-12 for seed in (0, 9))
    for protocol in PROTOCOLS:
        assert compare_maps(a, b, protocol=protocol).fass < 0.5


def test_opposite_maps():
    a = pair_of_maps("smooth", (1, 40, 40))[0]
    result = compare_maps(a, -a)
    assert result.spearman == pytest.approx(0.0, abs=1e-12)
    assert result.jaccard == 0.0
    # The sum of magnitudes cannot tell a map from its negative: that is why it is not the default.
    assert compare_maps(a, -a, reduction="abs-sum").fass == 1.0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pair_does_not_depend_on_its_batch(protocol, monkeypatch):
    pairs = [pair_of_maps(kind, (3, 20, 20), seed) for seed, kind in enumerate(["random", "tied", "zeros"] * 3)]
    a, b = (np.stack(side) for side in zip(*pairs, strict=True))
    whole = compare_maps(a, b, protocol=protocol)
    monkeypatch.setattr("stabgate.similarity.compare.CHUNK_ELEMENTS_CPU", 2 * 3 * 400)
    chunked = compare_maps(a, b, protocol=protocol)
    for i in range(len(a)):
        alone = values(compare_maps(a[i], b[i], protocol=protocol))
        assert values(whole.pair(i)) == values(chunked.pair(i)) == alone


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_arrays_and_tensors_of_every_type(protocol):
    a, b = (np.round(m * 4) for m in pair_of_maps("random", (3, 16, 16)))  # exact in every type
    expected = values(compare_maps(a, b, protocol=protocol))
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32):
        x, y = (torch.from_numpy(m).to(dtype) for m in (a, b))
        assert values(compare_maps(x, y, protocol=protocol)) == expected
    for array in (
        a[:, ::-1, ::-1][:, ::-1, ::-1],
        np.asfortranarray(a),
        a.astype(">f8"),
        a.astype(np.longdouble),
    ):
        assert values(compare_maps(array, b, protocol=protocol)) == expected
    frozen = a.copy()
    frozen.flags.writeable = False
    assert values(compare_maps(frozen, torch.from_numpy(b).requires_grad_(), protocol=protocol)) == expected


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_inputs_are_left_alone(protocol):
    a, b = pair_of_maps("tied", (3, 16, 16))
    before = a.copy(), b.copy()
    assert compare_maps(a, b, protocol=protocol).reason == MEASURED
    np.testing.assert_array_equal(a, before[0])
    np.testing.assert_array_equal(b, before[1])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_default_device_of_the_caller_does_not_matter(protocol):
    a, b = (torch.from_numpy(m) for m in pair_of_maps("tied", (3, 16, 16)))
    expected = values(compare_maps(a, b, protocol=protocol))
    with torch.device("meta"):  # a tensor made on the default device would have no values
        assert values(compare_maps(a, b, protocol=protocol)) == expected
