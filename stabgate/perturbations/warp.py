"""Rotation of images, maps and labels about the centre, by reading each target pixel from where it came.

Written here, and not with grid_sample, for three properties that the comparison of maps relies on: equal
neighbours interpolate to exactly their value (so the ties of a segment-wise map survive, and a constant map
stays constant), right angles are exact, and the mask of valid pixels follows from the same coordinates as the
values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

# Rounding leaves coordinates that should be whole some 1e-14 beside it, and a pixel at the border outside.
SNAP = 1e-9


@dataclass(frozen=True, eq=False)
class Places:
    """Where each target pixel is read: rows and columns (h, w) float64, on the CPU."""

    rows: torch.Tensor
    columns: torch.Tensor

    def inside(self) -> torch.Tensor:
        """Bool (h, w): places within the centres of the border pixels, so that no neighbour is outside."""
        h, w = self.rows.shape
        return (self.rows >= 0) & (self.rows <= h - 1) & (self.columns >= 0) & (self.columns <= w - 1)

    def nearest(self) -> Places:
        """The nearest pixel of each place, halves upwards."""
        return Places((self.rows + 0.5).floor(), (self.columns + 0.5).floor())


@lru_cache(maxsize=16)
def rotation_places(height: int, width: int, degrees: float) -> Places:
    """Places for a counter-clockwise rotation, as seen on the screen, about ((h - 1) / 2, (w - 1) / 2)."""
    import torch

    angle = math.radians(degrees)
    cos, sin = math.cos(angle), math.sin(angle)
    middle_row, middle_column = (height - 1) / 2.0, (width - 1) / 2.0
    with torch.inference_mode(False):  # the result is kept, and the next caller may need gradients
        row = torch.arange(height, dtype=torch.float64, device="cpu")[:, None] - middle_row
        column = torch.arange(width, dtype=torch.float64, device="cpu")[None, :] - middle_column
        return Places(
            _snap(middle_row + row * cos + column * sin),
            _snap(middle_column + column * cos - row * sin),
        )


def read_bilinear(images: torch.Tensor, places: Places) -> torch.Tensor:
    """(n, c, h, w) read at the places; what lies outside is 0, and blends into the pixels at the border."""
    import torch

    work = images if images.dtype in (torch.float32, torch.float64) else images.float()
    row, column = places.rows.floor(), places.columns.floor()
    down = (places.rows - row).to(work)
    right = (places.columns - column).to(work)
    # a + t (b - a) and not (1 - t) a + t b: equal neighbours then give exactly their value.
    upper = _read(work, row, column)
    upper = upper + right * (_read(work, row, column + 1) - upper)
    lower = _read(work, row + 1, column)
    lower = lower + right * (_read(work, row + 1, column + 1) - lower)
    return (upper + down * (lower - upper)).to(images.dtype)


def read_nearest(images: torch.Tensor, places: Places) -> torch.Tensor:
    """(n, c, h, w) read at the nearest pixel; 0 outside."""
    near = places.nearest()
    return _read(images, near.rows, near.columns)


def read_nearest_extended(labels: torch.Tensor, places: Places) -> torch.Tensor:
    """(..., h, w) read at the nearest pixel; the border pixel outside."""
    near = places.nearest()
    h, w = labels.shape[-2:]
    index = (near.rows.clamp(0, h - 1) * w + near.columns.clamp(0, w - 1)).long().to(labels.device)
    return labels.flatten(-2)[..., index]


def known_after(known: torch.Tensor, places: Places) -> torch.Tensor:
    """Bool (h, w): places whose every neighbour of non-zero weight lies inside and is known."""
    import torch

    ok = places.inside()
    row, column = places.rows.floor(), places.columns.floor()
    values = known[None, None].double()
    for down in (0, 1):
        for right in (0, 1):
            used = torch.ones_like(ok)
            if down:
                used &= places.rows > row
            if right:
                used &= places.columns > column
            ok &= ~used | (_read(values, row + down, column + right)[0, 0] > 0)
    return ok


def _read(images: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    h, w = images.shape[-2:]
    outside = (rows < 0) | (rows > h - 1) | (columns < 0) | (columns > w - 1)
    index = (rows.clamp(0, h - 1) * w + columns.clamp(0, w - 1)).long()
    return images.flatten(-2)[..., index.to(images.device)].masked_fill(outside.to(images.device), 0)


def _snap(values: torch.Tensor) -> torch.Tensor:
    whole = values.round()
    near: torch.Tensor = (values - whole).abs() < SNAP
    return whole.where(near, values)
