"""The default protocol: the perturbed map brought back, and only the pixels that both maps saw compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, get_args

from stabgate.errors import InputError
from stabgate.similarity.pairs import PairScores
from stabgate.similarity.ranks import average_ranks, masked_spearman, membership_overlap, top_membership
from stabgate.similarity.reading import NOISE_ULPS, at_safe_scale, largest_exponent, times_power_of_two
from stabgate.similarity.windows import ssim_map, window_sums

if TYPE_CHECKING:
    import torch

Reduction = Literal["signed-sum", "abs-sum", "positive"]
REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)

# The published window of 11 pixels at 224, kept in proportion to the map and within these bounds.
REFERENCE_WINDOW, REFERENCE_SIDE = 11, 224
SMALLEST_WINDOW, LARGEST_WINDOW = 3, 11


class Alignment(Protocol):
    """What brings maps of perturbed images back; every perturbation of `stabgate.perturbations` is one."""

    def invert(self, maps: torch.Tensor, /) -> tuple[torch.Tensor, torch.Tensor]:
        """(n, c, h, w) -> the maps in the original frame, and the valid pixels: bool (h, w) or (n, h, w)."""


def ssim_window(height: int, width: int) -> int:
    """round(11 min(h, w) / 224) pixels, made odd upwards, within 3..11.

    Raises:
        InputError: a map with a side below 3 pixels, in which no window fits.
    """
    side = min(height, width)
    if side < SMALLEST_WINDOW:
        raise InputError(
            f"a map of {height} x {width} pixels is smaller than the SSIM window "
            f"({SMALLEST_WINDOW} x {SMALLEST_WINDOW}): resize the maps to the image"
        )
    window = round(REFERENCE_WINDOW * side / REFERENCE_SIDE)
    return min(max(window + (window + 1) % 2, SMALLEST_WINDOW), LARGEST_WINDOW)


def reduce_channels(maps: torch.Tensor, reduction: Reduction) -> torch.Tensor:
    """(n, c, h, w) -> (n, h, w).

    "signed-sum" adds the channels; "abs-sum" adds their magnitudes and cannot tell a map from its negative;
    "positive" keeps the positive part of the signed sum.
    """
    if reduction == "abs-sum":
        return maps.abs().sum(dim=1)
    total = maps.sum(dim=1)
    return total.clamp(min=0.0) if reduction == "positive" else total


def aligned_scores(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    alignment: Alignment | None,
    allowed: torch.Tensor | None,
    reduction: Reduction,
    top: float,
    eps: tuple[float, float],
) -> PairScores:
    """SSIM, (rho + 1) / 2 and top-fraction overlap of each pair over the pixels valid in both.

    The valid pixels are those of the alignment and of `allowed`; SSIM is averaged over the windows that lie
    wholly on them, the other two components are over all of them.

    Args:
        a: (n, c, h, w) float64: maps of the originals.
        b: (n, c, h, w) float64: maps of the perturbed images, brought back here by `alignment`.
        alignment: the inverse transform, or None for maps in place.
        allowed: (n, h, w) bool, or None for every pixel.
        reduction: see `reduce_channels`.
        top: the fraction of the valid pixels that counts as the top.
        eps: relative precision of the values of a and of b as they were given.
    """
    import torch

    n, _, h, w = a.shape
    safe_a, exponent_a, finite_a = at_safe_scale(a)
    safe_b, exponent_b, finite_b = at_safe_scale(b)
    valid = torch.ones((n, h, w), dtype=torch.bool, device=a.device) if allowed is None else allowed
    if alignment is not None:
        safe_b, visible = _bring_back(alignment, safe_b)
        valid = valid & visible
        finite_b = finite_b & torch.isfinite(safe_b.masked_fill(~valid[:, None], 0.0)).flatten(1).all(dim=1)
        safe_b = safe_b.masked_fill(~(valid & finite_b[:, None, None])[:, None], 0.0)

    reduced_a, scale_a, signal_a = _reduce(safe_a, valid, reduction, eps[0])
    reduced_b, scale_b, signal_b = _reduce(safe_b, valid, reduction, eps[1])
    ssim, windows = _masked_ssim(reduced_a, reduced_b, exponent_a + scale_a, exponent_b + scale_b, valid)

    flat_a, flat_b, flat_valid = reduced_a.flatten(1), reduced_b.flatten(1), valid.flatten(1)
    ranks_a, ascending_a = average_ranks(flat_a, flat_valid)
    ranks_b, ascending_b = average_ranks(flat_b, flat_valid)
    rho = masked_spearman(ranks_a, ranks_b, flat_valid)
    pixels = flat_valid.sum(dim=1)
    k = torch.round(top * pixels.double()).clamp(min=1.0).to(torch.int64)
    members_a = top_membership(flat_a, ascending_a, flat_valid, k)
    members_b = top_membership(flat_b, ascending_b, flat_valid, k)
    overlap = membership_overlap(members_a, members_b)
    return PairScores(
        components=torch.stack([ssim, (rho + 1.0) / 2.0, overlap], dim=1),
        finite=torch.stack([finite_a, finite_b], dim=1),
        signal=torch.stack([signal_a, signal_b], dim=1),
        overlap=windows > 0,
        pixels=pixels,
    )


def _bring_back(alignment: Alignment, maps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Maps in the original frame, and the pixels they know: bool (n, h, w)."""
    import torch

    n, _, h, w = maps.shape
    back, visible = alignment.invert(maps)
    if back.shape != maps.shape or tuple(visible.shape) not in {(h, w), (n, h, w), (n, 1, h, w)}:
        raise InputError(
            f"alignment={alignment!r}: invert() of maps {tuple(maps.shape)} gave maps {tuple(back.shape)} "
            f"and a mask {tuple(visible.shape)}; it must keep the shape, with a mask {(h, w)} or {(n, h, w)}"
        )
    if visible.dtype != torch.bool:
        raise InputError(f"alignment={alignment!r}: the mask of invert() holds {visible.dtype}, not booleans")
    return back.to(maps), visible.to(maps.device).reshape(-1, h, w).expand(n, h, w)


def _reduce(
    maps: torch.Tensor, valid: torch.Tensor, reduction: Reduction, precision: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Reduced maps (n, h, w) below 1, 0 where not valid; their exponents (n,); which have signal (n,)."""
    values = reduce_channels(maps, reduction).masked_fill(~valid, 0.0)
    # What channels cancel to within rounding is not signal, so the noise floor knows the size of the
    # summands.
    size = maps.abs().sum(dim=1).masked_fill(~valid, 0.0).flatten(1).amax(dim=1)
    low, high = _extremes(values, valid)
    exponent = largest_exponent(values)
    return times_power_of_two(values, -exponent), exponent, high - low > NOISE_ULPS * precision * size


def _masked_ssim(
    a: torch.Tensor,
    b: torch.Tensor,
    exponent_a: torch.Tensor,
    exponent_b: torch.Tensor,
    valid: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean SSIM (n,) of a 2**exponent_a and b 2**exponent_b over whole valid windows; how many those are."""
    import torch

    window = ssim_window(*valid.shape[-2:])
    whole = window_sums(valid.double(), window) == float(window * window)
    windows = whole.flatten(1).sum(dim=1)
    # Back to a scale that the two maps share; only their ratio can be extreme now, and then it is so in
    # truth.
    joint = torch.maximum(exponent_a, exponent_b)
    scaled_a, scaled_b = _scale_together(
        times_power_of_two(a, exponent_a - joint), times_power_of_two(b, exponent_b - joint), valid
    )
    local = ssim_map(scaled_a, scaled_b, window).masked_fill(~whole, 0.0)
    return (local.flatten(1).sum(dim=1) / windows).clamp(-1.0, 1.0), windows


def _extremes(values: torch.Tensor, valid: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    low = values.masked_fill(~valid, torch.inf).flatten(1).amin(dim=1)
    high = values.masked_fill(~valid, -torch.inf).flatten(1).amax(dim=1)
    return low, high


def _scale_together(a: torch.Tensor, b: torch.Tensor, valid: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both maps of a pair by one minimum and one range; 0 where not valid."""
    import torch

    ends = [_extremes(x, valid) for x in (a, b)]
    low = torch.minimum(ends[0][0], ends[1][0])[:, None, None]
    spread = torch.maximum(ends[0][1], ends[1][1])[:, None, None] - low
    scaled_a, scaled_b = (((x - low) / spread).masked_fill(~valid, 0.0) for x in (a, b))
    return scaled_a, scaled_b
