"""Rotation and translation against NumPy, SciPy, scikit-image and plain loops; their inverses and masks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import ndimage

from stabgate.errors import InputError
from stabgate.perturbations import Rotation, Translation

torch = pytest.importorskip("torch")
torch.set_num_threads(1)


def images(n=2, c=3, h=23, w=31, seed=0, dtype=torch.float64):
    return torch.rand((n, c, h, w), generator=torch.Generator().manual_seed(seed), dtype=dtype)


def source(y, x, h, w, degrees):
    """Where the pixel of a counter-clockwise rotation comes from; y points down."""
    t, dy, dx = math.radians(degrees), y - (h - 1) / 2, x - (w - 1) / 2
    return (h - 1) / 2 + dx * math.sin(t) + dy * math.cos(t), (w - 1) / 2 + dx * math.cos(t) - dy * math.sin(t)


def by_hand(image, degrees, *, nearest):
    h, w = image.shape[-2:]
    result = np.zeros_like(image)
    for y in range(h):
        for x in range(w):
            sy, sx = source(y, x, h, w, degrees)
            places = [(math.floor(sy + 0.5), math.floor(sx + 0.5), 1.0)]
            if not nearest:
                y0, x0 = math.floor(sy), math.floor(sx)
                places = [
                    (y0 + j, x0 + i, (sy - y0 if j else 1 - sy + y0) * (sx - x0 if i else 1 - sx + x0))
                    for j in (0, 1)
                    for i in (0, 1)
                ]
            result[:, y, x] = sum(weight * image[:, j, i] for j, i, weight in places if 0 <= j < h and 0 <= i < w)
    return result


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("degrees", [15, -5, 120, 33.3])
@pytest.mark.parametrize("interpolation", [None, "bilinear", "nearest"])
def test_rotation_by_hand(channels, degrees, interpolation):
    x = images(c=channels)
    rotated = Rotation(degrees, interpolation).apply(x)
    for image, result in zip(x.numpy(), rotated.numpy(), strict=True):
        expected = by_hand(image, degrees, nearest=interpolation == "nearest")
        np.testing.assert_allclose(result, expected, atol=1e-12)


@pytest.mark.parametrize("shape", [(32, 32), (23, 31)])
def test_rotation_is_that_of_scipy_and_scikit_image(shape):
    transform = pytest.importorskip("skimage.transform")
    image = images(1, 1, *shape)
    rotated = Rotation(15).apply(image)[0, 0].numpy()
    grey = image[0, 0].numpy()
    np.testing.assert_allclose(rotated, transform.rotate(grey, 15, order=1), atol=1e-10)
    scipys = ndimage.rotate(grey, 15, reshape=False, order=1, mode="grid-constant")
    np.testing.assert_allclose(rotated, scipys, atol=1e-10)


def test_rotation_in_float32_and_float16():
    x = images()
    expected = Rotation(15).apply(x)
    for dtype, tolerance in ((torch.float32, 1e-6), (torch.float16, 2e-3), (torch.bfloat16, 1e-2)):
        result = Rotation(15).apply(x.to(dtype))
        assert result.dtype == dtype
        torch.testing.assert_close(result.double(), expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize("interpolation", ["bilinear", "nearest"])
def test_right_angles_are_exact_and_counter_clockwise(interpolation):
    x = images(h=24, w=24)
    for quarter in (-1, 1, 2):
        rotated = Rotation(90 * quarter, interpolation).apply(x)
        assert torch.equal(rotated, torch.rot90(x, quarter, (2, 3)))
    back, valid = Rotation(90, interpolation).invert(rotated)
    assert torch.equal(back, torch.rot90(rotated, -1, (2, 3)))
    assert valid.all()


@pytest.mark.parametrize("interpolation", ["bilinear", "nearest"])
@pytest.mark.parametrize("degrees", [5, 15, -70])
def test_valid_pixels_never_depend_on_black_fill(degrees, interpolation):
    """White images stay exactly white where the mask says so, and only there (up to the rule for nearest)."""
    white = torch.ones((1, 1, 26, 37), dtype=torch.float64)
    rotation = Rotation(degrees, interpolation)
    back, valid = rotation.invert(rotation.apply(white))
    assert torch.equal(back[0, 0][valid], torch.ones(int(valid.sum()), dtype=torch.float64))
    assert torch.equal(back[0, 0] > 1 - 1e-12, valid)
    assert 0.3 < valid.double().mean() < 1.0


def test_inverse_undoes_the_rotation_of_a_smooth_image():
    y, x = torch.meshgrid(torch.linspace(0, 3, 80), torch.linspace(0, 4, 100), indexing="ij")
    smooth = (0.5 + 0.25 * torch.sin(y) + 0.25 * torch.cos(x))[None, None]
    back, valid = Rotation(15).invert(Rotation(15).apply(smooth))
    assert (back - smooth)[0, 0][valid].abs().max() < 1e-3
    assert valid[20:60, 30:70].all()
    assert not valid[0, 0]


def test_equal_neighbours_interpolate_to_exactly_their_value():
    segments = torch.full((1, 1, 30, 30), 0.1)
    segments[..., 15:] = 0.7
    back, valid = Rotation(21).invert(segments)
    counts = {round(v, 6): int((back[0, 0][valid] == v).sum()) for v in segments.unique().tolist()}
    # All but the pixels along the one edge between the segments keep their tie.
    assert sum(counts.values()) > valid.sum() - 3 * 30
    assert Rotation(21).invert(torch.full((1, 1, 30, 30), 0.1))[0][0, 0][valid].unique().numel() == 1


@pytest.mark.parametrize(
    ("severity", "width", "pixels"),
    # round(severity w / 224), halves to the even pixel: 20 * 28 / 224 = 2.5.
    [(20, 224, 20), (20, 32, 3), (10, 32, 1), (20, 28, 2), (60, 28, 8), (-20, 64, -6), (20, 448, 40)],
)
def test_translation_copies_whole_pixels(severity, width, pixels):
    x = images(h=9, w=width)
    moved = Translation(severity).apply(x)
    expected = torch.zeros_like(x)
    if pixels > 0:
        expected[..., pixels:] = x[..., :-pixels]
    else:
        expected[..., :pixels] = x[..., -pixels:]
    assert torch.equal(moved, expected)
    back, valid = Translation(severity).invert(moved)
    assert valid.shape == (9, width)
    assert torch.equal(back[..., valid], x[..., valid])
    assert valid.sum() == 9 * (width - abs(pixels))
    assert not back[..., ~valid].any()


@pytest.mark.parametrize(
    ("severity", "width", "message"),
    [
        (10, 8, "rounds to no pixel at all"),
        (223, 4, "moves everything out"),
        (-223, 1, "moves everything out"),
    ],
)
def test_translation_that_cannot_be_meant(severity, width, message):
    with pytest.raises(InputError, match=f"{message}.*{width} pixels wide"):
        Translation(severity).apply(images(w=width))
    with pytest.raises(InputError, match=message):
        Translation(severity).invert(images(w=width))


@pytest.mark.parametrize("perturbation", [Rotation(25), Rotation(25, "nearest"), Translation(40)])
@pytest.mark.parametrize("batched", [False, True])
def test_labels_travel_with_the_image(perturbation, batched):
    labels = torch.arange(6).repeat_interleave(8).reshape(1, 48).repeat(40, 1)
    labels = labels[None].repeat(2, 1, 1) if batched else labels
    warped = perturbation.warp_labels(labels)
    assert (warped.shape, warped.dtype) == (labels.shape, labels.dtype)
    assert set(warped.unique().tolist()) <= set(range(6))  # none invented, also outside the image
    picture = (labels.reshape(-1, 1, 40, 48) / 5.0).double()
    nearest = Rotation(25, "nearest") if isinstance(perturbation, Rotation) else perturbation
    image = (nearest.apply(picture) * 5).round().long().reshape(labels.shape)
    seen = nearest.apply(torch.ones_like(picture)).bool().reshape(labels.shape)
    assert torch.equal(warped[seen], image[seen])
    array = perturbation.warp_labels(labels.numpy())
    assert isinstance(array, np.ndarray)
    assert np.array_equal(array, warped.numpy())


@pytest.mark.parametrize("bad", [np.zeros((4, 4)), np.zeros(4, dtype=int), np.zeros((1, 1, 4, 4), dtype=int), [[1]]])
def test_labels_must_be_integers_in_two_or_three_dimensions(bad):
    with pytest.raises(InputError, match="give integers"):
        Rotation(5).warp_labels(bad)


def test_inverse_takes_maps_of_any_range_and_channels():
    maps = torch.randn((2, 7, 20, 24)) * 1e6
    for perturbation in (Rotation(15), Translation(40)):
        back, valid = perturbation.invert(maps)
        assert (back.shape, back.dtype, valid.shape) == (maps.shape, maps.dtype, (20, 24))
        valid[:] = False  # the caller's own copy: the next answer must not have changed
        assert perturbation.invert(maps)[1].any()
