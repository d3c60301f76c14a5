"""Maps of a few pairs, kept for whoever wants to look at them: the worst of each perturbation, and small."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappush, heappushpop
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stabgate.measure.fass.pairs import Attempt
from stabgate.perturbations import Perturbation
from stabgate.similarity import MEASURED, MapSimilarity, Reduction
from stabgate.similarity.aligned import reduce_channels

if TYPE_CHECKING:
    import torch

WORST = 2  # pairs that are kept of each perturbation under each method
SIDE = 112  # pixels of the longer side, at most


@dataclass(frozen=True, eq=False)
class Example:
    """A retained pair to look at.

    Attributes:
        image, perturbation, draw, method: of the pair.
        fass: its score.
        original, perturbed: ``(height, width, channels)`` in 0..255, the images.
        before, after: float32 ``(height, width)``, both maps with their channels reduced; `after` in the frame of
            the original where the protocol is "aligned", with NaN where it knows nothing.
    """

    image: Any
    perturbation: str
    draw: int
    method: str
    fass: float
    original: NDArray[np.uint8]
    perturbed: NDArray[np.uint8]
    before: NDArray[np.float32]
    after: NDArray[np.float32]


@dataclass
class Examples:
    """The worst pairs so far: `WORST` of each perturbation under each method, whatever the number of images."""

    aligned: bool
    reduction: Reduction
    _kept: dict[tuple[str, str], list[tuple[float, int, Example]]] = field(default_factory=dict)
    _seen: int = 0

    def offer(
        self,
        method: str,
        perturbation: Perturbation,
        attempt: Attempt,
        name: Any,
        images: tuple[torch.Tensor, torch.Tensor],
        maps: tuple[torch.Tensor, torch.Tensor],
        found: MapSimilarity,
    ) -> None:
        """Keep this pair if it is among the worst; maps and images are ``(channels, height, width)``."""
        if found.status != MEASURED:
            return
        score = float(found.scores()["fass"][0])
        heap = self._kept.setdefault((method, perturbation.label), [])
        if len(heap) == WORST and -score <= heap[0][0]:
            return
        try:
            original, perturbed = (_picture(image) for image in images)
            before, after = self._maps(maps, perturbation)
        except Exception:  # a user's inverse that takes whole batches only: something to look at is not worth a failure
            return
        self._seen += 1  # of equal scores the first stays
        example = Example(name, perturbation.label, attempt.draw, method, score, original, perturbed, before, after)
        entry = (-score, -self._seen, example)
        heappush(heap, entry) if len(heap) < WORST else heappushpop(heap, entry)

    def of(self, method: str) -> tuple[Example, ...]:
        """Those of one method, the worst first."""
        kept = [entry[2] for (name, _), heap in self._kept.items() if name == method for entry in heap]
        return tuple(sorted(kept, key=lambda example: example.fass))

    def _maps(
        self, maps: tuple[torch.Tensor, torch.Tensor], perturbation: Perturbation
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        import torch

        before, after = (one.detach().double() for one in maps)
        known = None
        if self.aligned:
            back, known = perturbation.invert(after[None])
            after, known = back[0], known.reshape(-1, *known.shape[-2:])[0]
        reduction: Reduction = self.reduction if self.aligned else "signed-sum"
        flat = [reduce_channels(one[None], reduction)[0] for one in (before, after)]
        if known is not None:
            flat[1] = flat[1].masked_fill(~known.to(flat[1].device), torch.nan)
        first, second = (_shrunk(one[None])[0].float().cpu().numpy() for one in flat)
        return first, second


def _picture(image: torch.Tensor) -> NDArray[np.uint8]:
    small = _shrunk(image.detach().double()).clamp(0, 1)
    return np.asarray((small * 255).round().byte().permute(1, 2, 0).cpu().numpy())


def _shrunk(image: torch.Tensor) -> torch.Tensor:
    """``(channels, height, width)``, its longer side at most `SIDE` pixels, by averages of areas."""
    from torch.nn.functional import interpolate

    height, width = image.shape[-2:]
    factor = SIDE / max(height, width)
    if factor >= 1:
        return image
    size = (max(1, round(height * factor)), max(1, round(width * factor)))
    return interpolate(image[None], size=size, mode="area")[0]
