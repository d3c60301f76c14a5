"""What a score means: the floor (another image's map) and the re-seed reference (the same image, other seeds)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from stabgate.errors import StabgateError
from stabgate.measure.fass.aggregates import mean
from stabgate.measure.fass.pairs import reason_of
from stabgate.similarity import MEASURED, MapSimilarity

if TYPE_CHECKING:
    import torch

    Compare = Callable[[torch.Tensor, torch.Tensor], MapSimilarity]

FLOOR_PAIRS = 20  # pairs of different images behind a floor, at most
SAME_FIRST = 2  # images explained twice before a method is taken as one that ignores its seed


@dataclass(frozen=True)
class Reference:
    """Mean scores of a reference, under the protocol of the measurement and without a perturbation.

    Attributes:
        fass, ssim, spearman, jaccard: means; None where nothing could be compared.
        pairs: how many comparisons.
        images: of how many images.
        note: why there is no number, or how it came about.
    """

    fass: float | None = None
    ssim: float | None = None
    spearman: float | None = None
    jaccard: float | None = None
    pairs: int = 0
    images: int = 0
    note: str = ""


def floor_of(maps: Mapping[int, torch.Tensor], compare: Compare) -> Reference:
    """The mean score of the maps of different images: each with the next, then with the one after it, and so on.

    Args:
        maps: by image, ``(c, h, w)``.
        compare: two batches of maps to their similarity.
    """
    n = len(maps)
    if n == 0:
        return Reference(note="no image could be explained")
    if n < 2:
        return Reference(note="the floor needs the maps of two images")
    known = list(maps.values())
    found = {tuple(sorted((i, (i + shift) % n))): None for shift in range(1, n // 2 + 1) for i in range(n)}
    first, second = zip(*list(found)[:FLOOR_PAIRS], strict=True)
    return _reference([known[i] for i in first], [known[i] for i in second], compare, n)


def reseed_of(
    maps: Mapping[int, torch.Tensor],
    again: Callable[[list[int]], Mapping[int, torch.Tensor]],
    compare: Compare,
) -> tuple[int, Reference]:
    """The mean score of the same image explained twice with different seeds.

    A method whose first two images come out the same to the bit ignores its seed, and the others are left out.

    Args:
        maps: the first explanations, by image.
        again: explains images with their second seed; leaves out those on which it fails.

    Returns:
        How many maps it took, and the reference.
    """
    import torch

    images = list(maps)
    second: dict[int, torch.Tensor] = {}
    taken, note = 0, ""
    for start, stop in pairwise((0, min(SAME_FIRST, len(images)), len(images))):
        asked = images[start:stop]
        second |= again(asked) if asked else {}
        taken += len(asked)
        same = bool(second) and all(torch.equal(second[i], maps[i]) for i in second)
        if same and start == 0 and taken == min(SAME_FIRST, len(images)):
            note = "deterministic: another seed gave the same map"
            break
    if not maps:
        return 0, Reference(note="no image could be explained")
    if not second:
        return taken, Reference(note="no image could be explained a second time")
    both = list(second)
    reference = _reference([maps[i] for i in both], [second[i] for i in both], compare, len(both))
    return taken, reference if reference.note else replace(reference, note=note)


def _reference(a: list[torch.Tensor], b: list[torch.Tensor], compare: Compare, images: int) -> Reference:
    import torch

    try:
        similarity = compare(torch.stack(a), torch.stack(b))
    except (StabgateError, RuntimeError) as error:  # maps of different shapes, from an explainer that users brought
        return Reference(images=images, note=reason_of(error))
    kept = [pair for pair in similarity if pair.status == MEASURED]
    if not kept:
        return Reference(images=images, note="no map of the sample has signal")
    return Reference(
        fass=mean(_number(pair.fass) for pair in kept),
        ssim=mean(_number(pair.ssim) for pair in kept),
        spearman=mean(_number(pair.spearman) for pair in kept),
        jaccard=mean(_number(pair.jaccard) for pair in kept),
        pairs=len(kept),
        images=images,
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, float) else None
