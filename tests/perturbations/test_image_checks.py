"""Images that are not what they should be, and what every perturbation keeps."""

from __future__ import annotations

import numpy as np
import pytest

from stabgate.errors import InputError, MissingDependencyError
from stabgate.perturbations import MILD, PUBLISHED, Rotation, validate_images
from stabgate.perturbations.warp import rotation_places

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

GOOD = torch.rand((2, 3, 32, 40), generator=torch.Generator().manual_seed(0))


def with_value(value, index=(1, 0, 2, 3)):
    images = GOOD.clone()
    images[index] = value
    return images


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ((GOOD * 255).to(torch.uint8), "uint8.*divide by 255"),
        ((GOOD * 255).to(torch.uint8).numpy(), "uint8.*divide by 255"),
        (GOOD > 0.5, "images are torch.bool"),
        (GOOD * 255, "outside .0, 1. .first at index 0.: divide by 255"),
        ((GOOD - 0.45) / 0.22, "undo the normalisation"),
        (with_value(1.01), r"to 1.01, outside \[0, 1\] \(first at index 1\): scale them"),
        (with_value(float("nan")), "NaN or infinity .1 of 2, first at index 1"),
        (with_value(float("inf"), 0), "NaN or infinity .1 of 2, first at index 0"),
        (GOOD[0], r"one image: use images\[None\]"),
        (GOOD[0, 0], r"one grey image: use images\[None, None\]"),
        (GOOD[None], "5 dimensions"),
        (GOOD.permute(0, 2, 3, 1), r"channels last: use images.permute\(0, 3, 1, 2\)"),
        (GOOD[:, :2], "2 channels; give"),
        (GOOD[:, :, :0], "length 0"),
        (np.array(["a"]), "give numbers"),
        (np.zeros((1, 3, 4, 4), dtype=complex), "complex128"),
    ],
)
def test_images_that_cannot_be_used(images, message):
    with pytest.raises(InputError, match=message):
        validate_images(images)
    with pytest.raises(InputError, match=message):
        Rotation(5).apply(images)


def test_rounding_beyond_the_range_is_let_through():
    assert validate_images(with_value(1.0 + 1e-7)) is not None
    assert Rotation(5).apply(with_value(1.0 + 1e-7)).max() <= 1.0


def test_arrays_are_taken():
    for array in (GOOD.numpy(), GOOD.numpy().astype(">f4"), np.asfortranarray(GOOD.numpy())):
        assert torch.equal(Rotation(5).apply(array), Rotation(5).apply(GOOD))
    frozen = GOOD.numpy().copy()
    frozen.flags.writeable = False
    assert torch.equal(validate_images(frozen), GOOD)


@pytest.mark.parametrize("perturbation", [*PUBLISHED, *MILD], ids=lambda p: p.label)
@pytest.mark.parametrize("shape", [(2, 1, 28, 28), (1, 3, 32, 50), (3, 4, 61, 24), (0, 3, 32, 32)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_what_every_perturbation_keeps(perturbation, shape, dtype):
    x = torch.rand(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)
    before = x.clone()
    result = perturbation.apply(x.requires_grad_(), seeds=range(shape[0]))
    assert (result.shape, result.dtype, result.device) == (x.shape, x.dtype, x.device)
    assert not result.requires_grad
    assert torch.equal(x, before)
    assert not result.is_inference()
    if shape[0]:
        assert result.min() >= 0.0
        assert result.max() <= 1.0
        assert not torch.equal(result, x)


def test_without_torch_the_message_names_the_extra(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependencyError, match=r"perturbing images needs torch.*stabgate\[torch\]"):
        Rotation(5).apply(GOOD)


def test_the_default_device_and_inference_mode_of_the_caller_do_not_matter():
    expected = [p.apply(GOOD, seeds=[1, 2]) for p in PUBLISHED]
    for context in (
        torch.device("meta"),
        torch.inference_mode(),
    ):  # "meta": any tensor made there has no values
        rotation_places.cache_clear()
        with context:
            results = [p.apply(GOOD, seeds=[1, 2]) for p in PUBLISHED]
            masks = [p.invert(GOOD)[1].sum() for p in PUBLISHED]
        assert all(torch.equal(r, e) for r, e in zip(results, expected, strict=True))
        assert all(m > 0 for m in masks)
    # Coordinates kept from inference mode would break the gradients of the next caller.
    maps = GOOD.clone().requires_grad_()
    Rotation(15).invert(maps)[0].sum().backward()
    assert maps.grad is not None
