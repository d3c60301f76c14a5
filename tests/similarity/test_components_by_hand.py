"""Both protocols against plain loops over the definition: 1e-6 aligned, 1e-5 published."""

from __future__ import annotations

import numpy as np
import pytest
from fass_by_hand import aligned, pair_of_maps, published, rotated_back

from stabgate.perturbations import Rotation, Translation
from stabgate.similarity import compare_maps, ssim_window

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

KINDS = ("random", "smooth", "tied", "zeros")
SHAPES = ((3, 20, 17), (1, 13, 31), (4, 9, 12))


def components(result):
    return [result.ssim, result.spearman, result.jaccard]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_published(kind, shape):
    a, b = pair_of_maps(kind, shape)
    result = compare_maps(a, b, protocol="published")
    expected = published(a, b)
    assert components(result) == pytest.approx(expected, abs=1e-5)
    assert result.fass == pytest.approx(np.mean(expected), abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reduction", ["signed-sum", "abs-sum", "positive"])
def test_aligned_with_a_mask(kind, shape, reduction):
    a, b = pair_of_maps(kind, shape, seed=1)
    valid = np.ones(shape[1:], dtype=bool)
    valid[:, :3] = False
    valid[5, 8] = False
    result = compare_maps(a, b, valid=valid, reduction=reduction)
    expected = aligned(a, b, valid, reduction=reduction)
    assert components(result) == pytest.approx(expected, abs=1e-6)
    assert result.fass == pytest.approx(np.mean(expected), abs=1e-6)
    assert result.pixels.tolist() == [valid.sum()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("degrees", [15, -40, 90])
def test_aligned_after_rotation(kind, degrees):
    a, b = pair_of_maps(kind, (3, 24, 19), seed=2)
    # Values checked against the loops are then used as they are: the loops' last bits would break ties.
    back, valid = rotated_back(b, degrees)
    b_back, visible = Rotation(degrees).invert(torch.from_numpy(b)[None])
    np.testing.assert_allclose(b_back[0].numpy()[:, valid], back[:, valid], atol=1e-12)
    assert visible.numpy().tolist() == valid.tolist()
    result = compare_maps(a, b, alignment=Rotation(degrees))
    assert components(result) == pytest.approx(aligned(a, b_back[0].numpy(), valid), abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_aligned_after_translation_keeps_ties(kind):
    a, b = pair_of_maps(kind, (2, 16, 28), seed=3)
    moved = round(40 * 28 / 224)
    back, valid = np.zeros_like(b), np.zeros((16, 28), dtype=bool)
    back[:, :, :-moved], valid[:, :-moved] = b[:, :, moved:], True
    expected = aligned(a, back, valid)
    assert components(compare_maps(a, b, alignment=Translation(40))) == pytest.approx(expected, abs=1e-6)


def test_larger_maps_use_a_larger_window():
    a, b = pair_of_maps("smooth", (1, 90, 100), seed=4)
    assert ssim_window(90, 100) == 5
    expected = aligned(a, b, np.ones((90, 100), dtype=bool), top=0.2)
    assert components(compare_maps(a, b, top=0.2)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("side", "window"),
    # round(11 side / 224): 0, 2, 3, 4, 5, 10, 11, 25, then odd upwards within 3..11.
    [(3, 3), (32, 3), (61, 3), (82, 5), (112, 7), (204, 11), (224, 11), (512, 11)],
)
def test_window_grows_with_the_map(side, window):
    assert ssim_window(side, 2 * side) == ssim_window(2 * side, side) == window


def test_real_gradient_maps(shared):
    """Edges of photographs as maps: heavy tails, and runs of exact zeros in saturated areas."""
    image = pytest.importorskip("PIL.Image")
    paths = sorted((shared / "data" / "images" / "cifar10").glob("*.png"))[:3]
    photos = [np.asarray(image.open(p).convert("RGB"), dtype=float).transpose(2, 0, 1) / 255 for p in paths]
    maps = np.stack([np.diff(photo, axis=2, append=0.0) for photo in photos])
    other = np.roll(maps, 1, axis=3)
    everywhere = np.ones((32, 32), dtype=bool)
    batch, old = compare_maps(maps, other), compare_maps(maps, other, protocol="published")
    for i in range(len(maps)):
        assert components(batch.pair(i)) == pytest.approx(aligned(maps[i], other[i], everywhere), abs=1e-6)
        assert components(old.pair(i)) == pytest.approx(published(maps[i], other[i]), abs=1e-5)
