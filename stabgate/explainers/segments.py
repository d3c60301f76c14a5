"""Superpixels for LIME, with settings that fit the size of the image.

Quickshift with LIME's settings (kernel 4, distance 200, ratio 0.2) finds 30 to 45 segments in a photo of 224 x 224
and one to three in an image of 32 x 32, which leaves LIME nothing to explain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stabgate.errors import InputError
from stabgate.explainers.base import require

if TYPE_CHECKING:
    import torch

Segmentation: TypeAlias = "Literal['auto'] | Callable[[NDArray[Any]], Any]"

FULL_SIDE = 224  # pixels; LIME's settings are meant for images of about this size
# Below this side quickshift's kernel would be smaller than a pixel's neighbourhood; SLIC finds 20 to 35 segments.
SMALL_SIDE = 64
KERNEL, DISTANCE, RATIO = 4.0, 200.0, 0.2  # the lime package's own
SLIC_SEGMENTS = 50
# Noise falls to pieces that SLIC joins into one segment. With fewer than this, place counts for more than colour.
FEWEST = 8
COMPACT = (10.0, 1000.0)


def checked_segmentation(segmentation: Any) -> Segmentation:
    """`segmentation`, "auto" or a function.

    Raises:
        InputError: something else.
    """
    if segmentation == "auto" or callable(segmentation):
        return segmentation  # type: ignore[no-any-return]
    raise InputError(
        f"segmentation={segmentation!r}: give 'auto' or a function from an image (height, width, 3) to integer "
        "labels (height, width)"
    )


def described(segmentation: Segmentation) -> str:
    """What is recorded about a segmentation."""
    if isinstance(segmentation, str):
        return "auto: quickshift from 64 pixels on, slic below"
    return str(getattr(segmentation, "__name__", type(segmentation).__name__))


def superpixels(images: torch.Tensor, segmentation: Segmentation) -> torch.Tensor:
    """Labels long (n, height, width), from 0 without gaps in each image, on the images' device.

    "auto" is scikit-image's quickshift for images with sides of at least 64 pixels, with LIME's settings at 224
    pixels and more, scaled down with the side below; and SLIC for smaller ones. Both are deterministic.

    Args:
        images: (n, channels, height, width) in [0, 1]; of four channels the first three are looked at.

    Raises:
        InputError: the segmentation returned something else than integer labels (height, width).
        MissingDependencyError: "auto" without scikit-image.
    """
    import torch

    labels = [labels_of(as_rgb(image), segmentation) for image in images]
    return torch.as_tensor(np.stack(labels), device=images.device)


def as_rgb(image: torch.Tensor) -> NDArray[np.float64]:
    """(channels, height, width) as an array (height, width, 3)."""
    array = image.detach().double().cpu().numpy()[:3]
    return np.ascontiguousarray(np.repeat(array, 3 // len(array), axis=0).transpose(1, 2, 0))


def labels_of(image: NDArray[np.float64], segmentation: Segmentation) -> NDArray[np.int64]:
    """Labels of one image (height, width, 3)."""
    found = _automatic(image) if isinstance(segmentation, str) else np.asarray(segmentation(image))
    if found.shape != image.shape[:2] or found.dtype.kind not in "iu":
        raise InputError(
            f"the segmentation returned {found.dtype} of shape {found.shape} for an image of "
            f"{image.shape[0]} x {image.shape[1]}; expected integer labels (height, width)"
        )
    _, labels = np.unique(found, return_inverse=True)
    return np.asarray(labels.reshape(found.shape), dtype=np.int64)


def _automatic(image: NDArray[np.float64]) -> NDArray[Any]:
    segmentation = require("skimage.segmentation", "lime")
    side = min(image.shape[:2])
    if side < SMALL_SIDE:
        for compactness in COMPACT:
            found = segmentation.slic(image, n_segments=SLIC_SEGMENTS, compactness=compactness, start_label=0)
            if len(np.unique(found)) >= FEWEST:
                break
    else:
        scale = min(1.0, side / FULL_SIDE)
        found = segmentation.quickshift(image, kernel_size=KERNEL * scale, max_dist=DISTANCE * scale, ratio=RATIO)
    return np.asarray(found)
