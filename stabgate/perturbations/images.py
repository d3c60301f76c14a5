"""Rotation, translation, brightness and noise: the perturbations of [F] that are arithmetic on the image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from stabgate.errors import InputError
from stabgate.perturbations.base import Perturbation, check_labels
from stabgate.perturbations.checks import check_severity
from stabgate.perturbations.warp import (
    known_after,
    read_bilinear,
    read_nearest,
    read_nearest_extended,
    rotation_places,
)

if TYPE_CHECKING:
    import torch

Interpolation = Literal["bilinear", "nearest"]

# Translations are stated in pixels of an image this wide ([F]: 20 px on ImageNet crops).
REFERENCE_WIDTH = 224


@dataclass(frozen=True)
class Rotation(Perturbation):
    """Counter-clockwise rotation about the centre ((h - 1) / 2, (w - 1) / 2), filled with black.

    Attributes:
        severity: degrees, -180 to 180 but not 0; negative is clockwise.
        interpolation: of images, "bilinear" or "nearest"; None leaves it to the protocol (bilinear, and
            nearest for the published one). Maps always come back bilinearly.
    """

    severity: float
    interpolation: Interpolation | None = None
    name = "rotation"
    family = "geometric"
    draws_globally = False

    def __post_init__(self) -> None:
        check_severity(self.severity, self.name, -180.0, 180.0, unit="degrees", neutral=0.0)
        if self.interpolation not in (None, "bilinear", "nearest"):
            raise InputError(f'rotation: interpolation={self.interpolation!r}; choose "bilinear" or "nearest"')

    @property
    def label(self) -> str:
        return f"{self.name} {self.severity:g}°"

    def transform(self, images: torch.Tensor) -> torch.Tensor:
        places = rotation_places(*images.shape[-2:], float(self.severity))
        warped = (read_nearest if self.interpolation == "nearest" else read_bilinear)(images, places)
        return warped.clamp(0.0, 1.0)  # interpolation may leave [0, 1] by a rounding error

    def invert(self, maps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Rotate back bilinearly.

        A pixel is valid if everything it is interpolated from lies inside the perturbed map, on pixels that
        were themselves read wholly from inside the original: no black corner, seen or blended in, takes part.
        """
        back = read_bilinear(maps, rotation_places(*maps.shape[-2:], -float(self.severity)))
        nearest = self.interpolation == "nearest"
        return back, _seen_by_both(*maps.shape[-2:], float(self.severity), nearest).to(maps.device, copy=True)

    def warp_labels(self, labels: Any) -> Any:
        check_labels(labels)
        import torch

        tensor = torch.as_tensor(labels)
        places = rotation_places(*tensor.shape[-2:], float(self.severity))
        return _as_given(read_nearest_extended(tensor, places), labels)

    def for_protocol(self, protocol: str) -> Rotation:
        if self.interpolation is not None:
            return self
        return replace(self, interpolation="nearest" if protocol == "published" else "bilinear")


@dataclass(frozen=True)
class Translation(Perturbation):
    """Translation to the right by round(severity * width / 224) whole pixels, filled with black.

    Attributes:
        severity: pixels of an image 224 wide, -223 to 223; negative is to the left. Halves are rounded to the
            even pixel. An image so narrow that the shift rounds to nothing is an error: it would score 1.
    """

    severity: float
    name = "translation"
    family = "geometric"
    draws_globally = False

    def __post_init__(self) -> None:
        limit = REFERENCE_WIDTH - 1.0
        check_severity(
            self.severity, self.name, -limit, limit, unit=f"pixels at a width of {REFERENCE_WIDTH}", neutral=0.0
        )

    @property
    def label(self) -> str:
        return f"{self.name} {self.severity:g} px"

    def shift(self, width: int) -> int:
        """Whole pixels to the right for an image of this width."""
        pixels = round(float(self.severity) * width / REFERENCE_WIDTH)
        if pixels == 0 or abs(pixels) >= width:
            what = "rounds to no pixel at all" if pixels == 0 else "moves everything out of the image"
            raise InputError(
                f"{self.label} (at a width of {REFERENCE_WIDTH}) {what} on images {width} pixels wide: "
                "choose another severity or larger images"
            )
        return pixels

    def transform(self, images: torch.Tensor) -> torch.Tensor:
        return _moved_right(images, self.shift(images.shape[-1]))

    def invert(self, maps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Move back by whole pixels: values are copied, never interpolated."""
        import torch

        pixels = self.shift(maps.shape[-1])
        valid = torch.ones((1, 1, *maps.shape[-2:]), dtype=torch.bool, device=maps.device)
        return _moved_right(maps, -pixels), _moved_right(valid, -pixels)[0, 0]

    def warp_labels(self, labels: Any) -> Any:
        check_labels(labels)
        import torch

        tensor = torch.as_tensor(labels)
        width = tensor.shape[-1]
        source = (torch.arange(width, device=tensor.device) - self.shift(width)).clamp(0, width - 1)
        return _as_given(tensor[..., source], labels)


@dataclass(frozen=True)
class Brightness(Perturbation):
    """Every channel times the severity, clamped to [0, 1].

    Attributes:
        severity: the factor, above 0 and at most 100, other than 1.
    """

    severity: float
    name = "brightness"
    family = "photometric"
    draws_globally = False

    def __post_init__(self) -> None:
        check_severity(self.severity, self.name, 0.0, 100.0, unit="a factor", open_low=True, neutral=1.0)

    @property
    def label(self) -> str:
        return f"{self.name} x{self.severity:g}"

    @property
    def strength(self) -> float:
        return abs(math.log(self.severity))

    def transform(self, images: torch.Tensor) -> torch.Tensor:
        return (images * float(self.severity)).clamp(0.0, 1.0)


@dataclass(frozen=True)
class GaussianNoise(Perturbation):
    """Independent Gaussian noise on every channel and pixel, clamped to [0, 1].

    Each image has its own generator, on the CPU: its noise is the same in every batch and on every device.

    Attributes:
        severity: standard deviation on [0, 1], above 0 and at most 10.
    """

    severity: float
    name = "noise"
    family = "photometric"
    draws_globally = False
    random = True

    def __post_init__(self) -> None:
        check_severity(self.severity, self.name, 0.0, 10.0, unit="a standard deviation", neutral=0.0)

    @property
    def label(self) -> str:
        return f"{self.name} σ {self.severity:g}"

    def draw(self, images: torch.Tensor, seeds: Sequence[int]) -> torch.Tensor:
        import torch

        result = torch.empty_like(images)
        for i, seed in enumerate(seeds):
            generator = torch.Generator("cpu").manual_seed(seed)
            # float32 whatever the images are: the draws of another type would be other numbers.
            noise = torch.randn(images.shape[1:], generator=generator, dtype=torch.float32, device="cpu")
            result[i] = (images[i] + (noise * float(self.severity)).to(images)).clamp(0.0, 1.0)
        return result


@lru_cache(maxsize=16)
def _seen_by_both(height: int, width: int, degrees: float, nearest: bool) -> torch.Tensor:
    import torch

    with torch.inference_mode(False):
        forward = rotation_places(height, width, degrees)
        known = (forward.nearest() if nearest else forward).inside()
        return known_after(known, rotation_places(height, width, -degrees))


def _moved_right(values: torch.Tensor, pixels: int) -> torch.Tensor:
    """(n, c, h, w) moved by whole pixels, zeros (or false) moving in."""
    import torch

    result = torch.zeros_like(values)
    right, left, width = max(pixels, 0), max(-pixels, 0), values.shape[-1]
    result[..., right : width - left] = values[..., left : width - right]
    return result


def _as_given(result: torch.Tensor, labels: Any) -> Any:
    import torch

    return result if isinstance(labels, torch.Tensor) else result.numpy()
