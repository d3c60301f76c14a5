"""What both protocols hand over for a chunk of pairs, and the words for pairs that have no score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stabgate.similarity.result import MEASURED, NO_OVERLAP, NO_SIGNAL, NOT_FINITE

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class PairScores:
    """Components of n pairs, and what decides whether they mean anything.

    Attributes:
        components: (n, 3) float64: SSIM, (rho + 1) / 2, overlap; arbitrary for a pair that is not measurable.
        finite: (n, 2) bool, for the first and the second map.
        signal: (n, 2) bool: more than a constant, up to rounding.
        overlap: (n,) bool: at least one whole SSIM window to compare.
        pixels: (n,) int64: pixels (or elements) compared.
    """

    components: torch.Tensor
    finite: torch.Tensor
    signal: torch.Tensor
    overlap: torch.Tensor
    pixels: torch.Tensor

    def to_numpy(self) -> tuple[npt.NDArray[np.float64], tuple[str, ...], npt.NDArray[np.int64]]:
        """Components (n, 3), one reason per pair, pixels (n,)."""
        components = self.components.cpu().numpy()
        flags = zip(
            self.finite.tolist(),
            self.overlap.tolist(),
            self.signal.tolist(),
            np.isfinite(components).all(axis=1).tolist(),
            strict=True,
        )
        return components, tuple(_reason(*pair) for pair in flags), self.pixels.cpu().numpy()


def _reason(finite: list[bool], overlap: bool, signal: list[bool], scored: bool) -> str:
    if not all(finite):
        return f"{NOT_FINITE}: NaN or infinite values in {_which(finite)}"
    if not overlap:
        return f"{NO_OVERLAP}: no whole SSIM window is valid in both maps"
    if not all(signal):
        return f"{NO_SIGNAL}: {_which(signal)} constant (all zero, or one value up to rounding)"
    return MEASURED if scored else f"{NOT_FINITE}: a component cannot be computed from these values"


def _which(flags: list[bool]) -> str:
    if not any(flags):
        return "both maps"
    return "the first map" if not flags[0] else "the second map"
