"""The protocol of [F] as its authors' code has it, to reproduce the paper's numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabgate.errors import InputError
from stabgate.similarity.pairs import PairScores
from stabgate.similarity.ranks import ordinal_ranks, ordinal_spearman, top_jaccard
from stabgate.similarity.reading import NOISE_ULPS, at_safe_scale
from stabgate.similarity.windows import ssim_map

if TYPE_CHECKING:
    import torch

PUBLISHED_TOP_K = 100
PUBLISHED_WINDOW = 11


def check_published_size(shape: tuple[int, ...]) -> None:
    """Refuse maps (..., c, h, w) on which the published components say nothing.

    The window needs no check: with the padding that counts it exists at every size.
    """
    c, h, w = shape[-3:]
    if c * h * w <= PUBLISHED_TOP_K:
        raise InputError(
            f'protocol="published" compares the top {PUBLISHED_TOP_K} elements, but these maps have only '
            f"{c} x {h} x {w} = {c * h * w}: the overlap would always be 1. "
            'Resize the maps to the image, or use protocol="aligned"'
        )


def published_scores(a: torch.Tensor, b: torch.Tensor, *, eps: tuple[float, float]) -> PairScores:
    """SSIM, (rho + 1) / 2 and top-100 Jaccard of each pair.

    Maps stay signed and keep their channels; each is min-max scaled to [0, 1] by itself. SSIM has a uniform
    11 x 11 window at every pixel, zero padding that counts, biased variances, and is averaged and not
    remapped. Equal values are ranked by their place in (channel, row, column) order, and the top 100 are the
    100 last of that same ranking: a later element goes before an earlier equal one.

    Args:
        a, b: (n, c, h, w) float64 of any scale.
        eps: relative precision of the values of a and of b as they were given.
    """
    import torch
    from torch.nn.functional import pad

    half = PUBLISHED_WINDOW // 2
    padded, ranks, signal, finite = [], [], [], []
    for maps, precision in zip((a, b), eps, strict=True):
        safe, _, is_finite = at_safe_scale(maps)
        flat = safe.flatten(1)
        low, high = (end[:, None, None, None] for end in (flat.amin(dim=1), flat.amax(dim=1)))
        spread = high - low
        signal.append(spread.flatten() > NOISE_ULPS * precision * flat.abs().amax(dim=1))
        finite.append(is_finite)
        # The authors add 1e-8 to every range. Here it only stands in for a range of zero, so that a map's
        # scale does not matter; such a pair is reported as without signal, whatever comes out.
        padded.append(pad((safe - low) / spread.masked_fill(spread == 0.0, 1e-8), (half, half, half, half)))
        ranks.append(ordinal_ranks(flat))

    ssim = ssim_map(padded[0], padded[1], PUBLISHED_WINDOW).flatten(1).mean(dim=1).clamp(-1.0, 1.0)
    rho = ordinal_spearman(ranks[0], ranks[1])
    overlap = top_jaccard(ranks[0], ranks[1], PUBLISHED_TOP_K)
    n, elements = ranks[0].shape
    return PairScores(
        components=torch.stack([ssim, (rho + 1.0) / 2.0, overlap], dim=1),
        finite=torch.stack(finite, dim=1),
        signal=torch.stack(signal, dim=1),
        overlap=torch.ones(n, dtype=torch.bool, device=a.device),
        pixels=torch.full((n,), elements, device=a.device),
    )
