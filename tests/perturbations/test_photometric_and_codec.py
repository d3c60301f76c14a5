"""Brightness, noise and JPEG: values, seeds, and independence of batch and global generators."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stabgate.errors import InputError, MissingDependencyError
from stabgate.perturbations import PUBLISHED, Brightness, GaussianNoise, Jpeg

torch = pytest.importorskip("torch")
torch.set_num_threads(1)


def images(n=3, c=3, h=19, w=26, seed=0, dtype=torch.float32):
    return torch.rand((n, c, h, w), generator=torch.Generator().manual_seed(seed), dtype=dtype)


def test_brightness_multiplies_and_clamps():
    x = images(dtype=torch.float64)
    np.testing.assert_allclose(Brightness(1.5).apply(x).numpy(), np.minimum(x.numpy() * 1.5, 1.0), atol=1e-15)
    assert Brightness(1.5).strength == pytest.approx(Brightness(1 / 1.5).strength)


def test_noise_is_gaussian_of_the_stated_spread():
    grey = torch.full((1, 1, 300, 300), 0.5)
    drawn = (GaussianNoise(0.05).apply(grey, seeds=[3]) - 0.5).numpy().ravel()  # ten sigmas from the clamp
    assert drawn.std() == pytest.approx(0.05, rel=4 / math.sqrt(2 * drawn.size))
    assert abs(drawn.mean()) < 4 * 0.05 / math.sqrt(drawn.size)
    quartiles = np.quantile(drawn, [0.25, 0.75])
    np.testing.assert_allclose(quartiles, [-0.6745 * 0.05, 0.6745 * 0.05], atol=1e-3)


def test_noise_is_clamped():
    noisy = GaussianNoise(3.0).apply(images(), seeds=[1, 2, 3])
    assert noisy.min() == 0.0
    assert noisy.max() == 1.0


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5), st.sampled_from([1, 3, 4]))
def test_noise_of_an_image_depends_on_its_seed_alone(seeds, channels):
    x = images(len(seeds), channels)
    together = GaussianNoise(0.15).apply(x, seeds=seeds)
    for i, seed in enumerate(seeds):
        assert torch.equal(GaussianNoise(0.15).apply(x[i : i + 1], seeds=[seed])[0], together[i])
    backwards = GaussianNoise(0.15).apply(x.flip(0), seeds=seeds[::-1])
    assert torch.equal(backwards.flip(0), together)


def test_noise_differs_between_seeds_and_scales_with_severity():
    x = torch.full((2, 3, 8, 8), 0.5)
    weak = GaussianNoise(0.01).apply(x, seeds=[1, 2])
    assert not torch.equal(weak[0], weak[1])
    strong = GaussianNoise(0.02).apply(x, seeds=[1, 2])
    torch.testing.assert_close(strong - 0.5, 2 * (weak - 0.5), atol=1e-6, rtol=0)


def test_noise_is_the_same_in_every_number_type():
    x = images()
    expected = GaussianNoise(0.1).apply(x.double(), seeds=[1, 2, 3])
    for dtype, tolerance in ((torch.float32, 1e-6), (torch.float16, 1e-3)):
        result = GaussianNoise(0.1).apply(x.to(dtype), seeds=[1, 2, 3])
        assert result.dtype == dtype
        torch.testing.assert_close(result.double(), expected, atol=tolerance, rtol=0)


def test_global_generators_are_neither_read_nor_moved():
    x, seeds = images(), np.array([5, 6, 7], dtype=np.uint32)
    torch.manual_seed(0)
    np.random.seed(0)
    states = torch.get_rng_state(), np.random.get_state()[1].copy()
    first = [p.apply(x, seeds=seeds) for p in PUBLISHED]
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])
    torch.manual_seed(1)
    assert all(torch.equal(p.apply(x, seeds=seeds), f) for p, f in zip(PUBLISHED, first, strict=True))


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        (None, "give seeds=, one integer for each of the 3 images"),
        (7, "give a sequence"),
        ("123", "give a sequence"),
        ([1, 2], "2 entries for 3 images"),
        ([1, 2, 2.5], r"seeds\[2\]=2.5"),
        ([1, True, 2], r"seeds\[1\]=True"),
        ([1, 2, -1], r"seeds\[2\]=-1"),
        ([1, 2, 2**32], "0 to 2\\*\\*32 - 1"),
    ],
)
def test_seeds_that_cannot_be_used(seeds, message):
    with pytest.raises(InputError, match=message):
        GaussianNoise(0.1).apply(images(), seeds=seeds)
    assert torch.isfinite(Brightness(1.5).apply(images(), seeds=seeds)).all()  # nothing random, nothing to check


def through_pillow(image, quality):
    """uint8 (h, w, 3) or (h, w) through the codec."""
    pil = pytest.importorskip("PIL.Image")
    buffer = io.BytesIO()
    pil.fromarray(image).save(buffer, "JPEG", quality=quality, subsampling=2)  # Pillow's number for 4:2:0
    return np.asarray(pil.open(buffer))


@pytest.mark.parametrize("quality", [5, 40, 85, 95])
@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_jpeg_is_pillows(quality, channels, dtype):
    x = images(c=channels, dtype=dtype)
    result = Jpeg(quality).apply(x)
    assert result.dtype == dtype
    for image, coded in zip(x.numpy(), result.numpy(), strict=True):
        pixels = np.rint(image[:3].astype(np.float32) * 255).astype(np.uint8)
        expected = through_pillow(pixels[0] if channels == 1 else pixels.transpose(1, 2, 0), quality)
        expected = expected[None] if channels == 1 else expected.transpose(2, 0, 1)
        np.testing.assert_allclose(coded[:3], expected / 255, atol=1e-7)
        if channels == 4:
            assert np.array_equal(coded[3], image[3])  # alpha, to the last bit


def test_jpeg_gets_harsher_as_quality_falls():
    smooth = torch.linspace(0, 1, 64).repeat(1, 3, 64, 1)
    x = (smooth + 0.1 * images(1, 3, 64, 64)).clamp(0, 1)
    errors = [float((Jpeg(q).apply(x) - x).abs().mean()) for q in (95, 85, 40, 5)]
    assert errors == sorted(errors)
    assert Jpeg(40).strength > Jpeg(85).strength


def test_jpeg_of_no_images_is_no_images():
    assert Jpeg(40).apply(images(0)).shape == (0, 3, 19, 26)


def test_jpeg_without_pillow_names_the_extra(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingDependencyError, match=r"Pillow.*stabgate\[torch\]"):
        Jpeg(40).apply(images())


@pytest.mark.parametrize("perturbation", [Brightness(2), GaussianNoise(0.1), Jpeg(40)])
def test_what_moves_no_pixel_has_the_identity_as_inverse(perturbation):
    maps = torch.randn((2, 5, 9, 11))
    back, valid = perturbation.invert(maps)
    assert torch.equal(back, maps)
    assert (valid.shape, valid.dtype, bool(valid.all())) == ((9, 11), torch.bool, True)
    labels = np.arange(99).reshape(9, 11)
    assert np.array_equal(perturbation.warp_labels(labels), labels)
