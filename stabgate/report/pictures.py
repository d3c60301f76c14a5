"""Images and attribution maps as small PNG data URIs."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from stabgate.measure.fass import Example

# From below zero to above: orange over near-white to blue, which colour-blind readers tell apart.
BELOW, ZERO, ABOVE = (179, 88, 6), (247, 247, 247), (5, 80, 150)
EXTREME = 99.5  # percentile of |a| that the ends of the scale stand for: one bright pixel must not hide all others


def pictures_of(example: Example) -> dict[str, Any]:
    """Both images, both maps and their difference, on one scale; `scale` is the attribution at its ends."""
    before, after = example.before.astype(np.float64), example.after.astype(np.float64)
    scale = scale_of(before, after)
    return {
        "scale": float(f"{scale:.3g}"),
        "original": png(example.original),
        "perturbed": png(example.perturbed),
        "before": png(coloured(before / scale)),
        "after": png(coloured(after / scale)),
        "difference": png(coloured((after - before) / scale)),
    }


def scale_of(before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    """The attribution that the ends of the scale stand for: one scale for both maps; `after` is NaN where unknown."""
    known = np.concatenate([before.ravel(), after[np.isfinite(after)]])
    return float(np.percentile(np.abs(known), EXTREME)) or float(np.abs(known).max()) or 1.0


def coloured(values: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Values in -1..1 (more is cut off) as ``(height, width, 4)``; transparent where they are NaN."""
    known = np.isfinite(values)
    share = np.where(known, np.clip(values, -1.0, 1.0), 0.0)[..., None]
    ends = np.where(share < 0, np.array(BELOW, dtype=np.float64), np.array(ABOVE, dtype=np.float64))
    colours = np.array(ZERO) + np.abs(share) * (ends - np.array(ZERO))
    return np.concatenate([colours.round(), 255.0 * known[..., None]], axis=2).astype(np.uint8)


def png(pixels: NDArray[np.uint8]) -> str:
    """``(height, width, channels)`` as a data URI; of two channels, or more than four, the first is shown."""
    from PIL import Image

    if pixels.shape[2] not in (3, 4):
        pixels = pixels[:, :, 0]
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
