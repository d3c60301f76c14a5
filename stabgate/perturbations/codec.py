"""JPEG: the image through the real codec, at a quality."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stabgate.errors import InputError, MissingDependencyError
from stabgate.perturbations.base import Perturbation

if TYPE_CHECKING:
    import torch

BEST_QUALITY = 95  # Pillow's documented maximum; above it parts of the compression are switched off


@dataclass(frozen=True)
class Jpeg(Perturbation):
    """Encoded and decoded as baseline JPEG with chroma subsampling 4:2:0, through 8 bits per channel.

    Three channels are RGB; of four, the last is alpha and is kept as it is; one channel is coded as grey.

    Attributes:
        severity: the quality, a whole number from 1 to 95; a lower one is harsher.
    """

    severity: float
    name = "jpeg"
    family = "compression"
    draws_globally = False

    def __post_init__(self) -> None:
        whole = isinstance(self.severity, int | np.integer) or (
            isinstance(self.severity, float) and self.severity.is_integer()
        )
        if not whole or isinstance(self.severity, bool) or not 1 <= self.severity <= BEST_QUALITY:
            raise InputError(
                f"jpeg: severity={self.severity!r}; give the quality, a whole number from 1 to {BEST_QUALITY}"
            )

    @property
    def label(self) -> str:
        return f"{self.name} q {self.severity:g}"

    @property
    def strength(self) -> float:
        return 100.0 - float(self.severity)

    def transform(self, images: torch.Tensor) -> torch.Tensor:
        import torch

        colours = images[:, :3]
        pixels = (colours.float() * 255.0).round().clamp(0.0, 255.0).to(torch.uint8).permute(0, 2, 3, 1).cpu()
        coded = [torch.from_numpy(_through_jpeg(image, int(self.severity))) for image in pixels.numpy()]
        if not coded:
            return images
        decoded = torch.stack(coded).permute(0, 3, 1, 2).to(images) / 255.0
        return torch.cat([decoded, images[:, 3:]], dim=1)


def _through_jpeg(pixels: npt.NDArray[np.uint8], quality: int) -> npt.NDArray[np.uint8]:
    """uint8 (h, w, 1 or 3) -> the same, decoded."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependencyError(
            'the JPEG perturbation needs Pillow, which is not installed: pip install "stabgate[torch]"'
        ) from error

    grey = pixels.shape[2] == 1
    buffer = io.BytesIO()
    picture = Image.fromarray(pixels[:, :, 0] if grey else pixels)
    picture.save(buffer, "JPEG", quality=quality, subsampling="4:2:0")
    with Image.open(buffer) as image:
        return np.array(image, dtype=np.uint8).reshape(pixels.shape)
