"""SSIM with a uniform window, from sums over windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

# (0.01 L)^2 and (0.03 L)^2 with L = 1, the range of scaled maps: the constants of Wang et al. 2004, used by
# [F].
C1 = 0.01**2
C2 = 0.03**2


def window_sums(values: torch.Tensor, window: int) -> torch.Tensor:
    """(..., h, w) -> (..., h - window + 1, w - window + 1): sums over each window that lies inside.

    Additions only, along one axis and then the other, in doubling steps: faster than pooling, and unlike
    cumulative sums it neither loses digits along the image nor varies between calls on a GPU, so that
    identical maps get identical sums.
    """
    return _sums_along(_sums_along(values, window, values.ndim - 1), window, values.ndim - 2)


def ssim_map(a: torch.Tensor, b: torch.Tensor, window: int) -> torch.Tensor:
    """SSIM of each window inside two stacks (..., h, w) of maps in [0, 1], with biased variances.

    Symmetric, and exactly 1 where a equals b: numerator and denominator are then the same sums.
    """
    area = float(window * window)
    mean_a, mean_b = window_sums(a, window) / area, window_sums(b, window) / area
    square_a, square_b, product = mean_a * mean_a, mean_b * mean_b, mean_a * mean_b
    variance_a = window_sums(a * a, window) / area - square_a
    variance_b = window_sums(b * b, window) / area - square_b
    covariance = window_sums(a * b, window) / area - product
    numerator = (2.0 * product + C1) * (2.0 * covariance + C2)
    denominator = ((square_a + square_b) + C1) * ((variance_a + variance_b) + C2)
    return numerator / denominator


def _sums_along(values: torch.Tensor, window: int, axis: int) -> torch.Tensor:
    length = values.shape[axis] - window + 1
    total: torch.Tensor | None = None
    offset, width, block = 0, 1, values
    while True:  # block holds sums of `width` neighbours; take those that the binary digits of window ask for
        if window & width:
            part = block.narrow(axis, offset, length)
            total = part if total is None else total + part
            offset += width
        if 2 * width > window:
            assert total is not None  # window >= 1 has a leading digit
            return total
        size = block.shape[axis] - width
        block = block.narrow(axis, 0, size) + block.narrow(axis, width, size)
        width *= 2
