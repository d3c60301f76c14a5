"""The maps of a measurement as they come in, and what their comparison says of each pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from stabgate.measure.fass.examples import Examples
from stabgate.measure.fass.methods import Method
from stabgate.measure.fass.pairs import (
    CHUNK,
    ERROR,
    NO_SIGNAL,
    RETAINED,
    Attempt,
    Draws,
    Originals,
    Pair,
    each,
    perturbed,
)
from stabgate.measure.fass.references import Reference, floor_of, reseed_of
from stabgate.measure.fass.result import FassCost
from stabgate.perturbations import Perturbation
from stabgate.progress import Progress
from stabgate.similarity import MEASURED, MapSimilarity, compare_maps
from stabgate.similarity import NO_SIGNAL as MAP_WITHOUT_SIGNAL

if TYPE_CHECKING:
    import torch

    from stabgate.measure.fass.methods import Segments


@dataclass(frozen=True)
class Comparing:
    """`compare_maps` with the settings of the measurement."""

    protocol: Any
    weights: Any
    reduction: Any
    top: float

    def __call__(self, a: torch.Tensor, b: torch.Tensor, perturbation: Perturbation | None = None) -> MapSimilarity:
        return compare_maps(
            a,
            b,
            protocol=self.protocol,
            weights=self.weights,
            reduction=self.reduction,
            top=self.top,
            alignment=perturbation if self.protocol == "aligned" else None,
        )

    def check(self, shape: tuple[int, ...], perturbations: Sequence[Perturbation]) -> None:
        """Refuse, before anything is computed, options and images that no pair could be compared under."""
        import torch

        blank = torch.zeros(shape)
        self(blank, blank)
        for perturbation in perturbations if self.protocol == "aligned" else ():
            perturbation.invert(torch.zeros((1, 1, *shape[-2:])))

    def shares(self) -> tuple[float, float, float]:
        return self(*np.zeros((2, 16, 16))).weights


@dataclass(frozen=True)
class Explained:
    """Some originals under one method: by image, the map ``(c, h, w)`` or the reason for its absence, and segments."""

    maps: dict[int, torch.Tensor]
    reasons: dict[int, str]
    segments: dict[int, torch.Tensor]


@dataclass
class Work:
    """The one place of a measurement that has state.

    Attributes:
        sample: images whose maps are kept for the references.
        costs: what each method has cost.
        scores: of each retained attempt under each method: similarity, or why there is none.
        examples: pairs to look at.
    """

    methods: tuple[Method, ...]
    originals: Originals
    perturbations: tuple[Perturbation, ...]
    draws: Draws
    comparing: Comparing
    device: Any
    sample: frozenset[int]
    costs: dict[str, FassCost] = field(default_factory=dict)
    scores: dict[tuple[str, Attempt], MapSimilarity | str] = field(default_factory=dict)
    sampled: dict[str, dict[int, torch.Tensor]] = field(default_factory=dict)
    examples: Examples = field(init=False)

    def __post_init__(self) -> None:
        self.examples = Examples(self.comparing.protocol == "aligned", self.comparing.reduction)

    def explain(self, images: list[int], kept: Sequence[Attempt], progress: Progress) -> None:
        """Maps of these originals once per method, then of their retained copies, compared at once."""
        firsts = {}
        for method in self.methods:
            before = method.passes()
            firsts[method.name] = found = self._originals(method, images, run=0, first=method.name not in self.costs)
            self._count(method, before, maps=len(images))
            keep = self.sampled.setdefault(method.name, {})
            keep |= {i: value for i, value in found.maps.items() if i in self.sample}
            progress.advance(len(images))
        for p, perturbation in enumerate(self.perturbations):
            some = [a for a in kept if a.perturbation == p]
            for part in (some[start : start + CHUNK] for start in range(0, len(some), CHUNK)):
                which = [(a.image, a.draw) for a in part]
                copies = perturbed(self.originals, perturbation, self.draws, which, self.device)
                for method in self.methods:
                    self._compare(method, perturbation, part, copies, firsts[method.name])
                    progress.advance(len(part))

    def pair(self, method: Method, a: Attempt) -> Pair:
        """What became of an attempt under a method."""
        perturbation = self.perturbations[a.perturbation]
        status, reason, scores = a.status, a.reason, {}
        if status == RETAINED:
            found = self.scores[method.name, a]
            if isinstance(found, str):
                status, reason = ERROR, found
            elif found.status == MEASURED:
                scores = {name: float(column[0]) for name, column in found.scores().items()}
            else:
                status = NO_SIGNAL if found.status == MAP_WITHOUT_SIGNAL else ERROR
                reason = str(found.reason).replace("the first map", "the original's map")
                reason = reason.replace("the second map", "the perturbed copy's map").removeprefix(f"{status}: ")
        failed = a.image in self.originals.failures
        return Pair(
            image=self.originals.ids[a.image],
            perturbation=perturbation.label,
            kind=perturbation.name,
            severity=float(perturbation.severity),
            family=perturbation.family,
            draw=a.draw,
            method=method.name,
            target=None if failed else int(self.originals.targets[a.image]),
            status=status,
            reason=reason,
            **scores,
        )

    def references(self, method: Method, sample: Sequence[int]) -> tuple[Reference, Reference]:
        """Floor and re-seed reference on the sampled images."""
        if not sample:
            nothing = Reference(note="no image was explained for it")
            return nothing, nothing
        known = self.sampled.setdefault(method.name, {})
        before, missing = method.passes(), [i for i in sample if i not in known]
        if missing:
            known |= self._originals(method, missing, run=0).maps
        maps = {i: known[i] for i in sample if i in known}
        again, reseed = reseed_of(maps, lambda some: self._originals(method, some, run=1).maps, self.comparing)
        self._count(method, before, reference_maps=len(missing) + again)
        return floor_of(maps, self.comparing), reseed

    def _originals(self, method: Method, images: list[int], *, run: int, first: bool = False) -> Explained:
        """Explain originals with the seeds of a run, each with its own segments; `first` as for `maps_each`."""
        batch = self.originals.images[images].to(self.device)
        seeds = [self.draws.of_original(i, run) for i in images]
        segments: dict[int, torch.Tensor] = {}

        def cut(some: list[int]) -> Segments | None:
            found = method.segments(batch[some], [seeds[j] for j in some])
            if found is None:
                return None
            segments.update({images[j]: value for j, value in zip(some, found, strict=True)})
            return found, None

        targets = [int(self.originals.targets[i]) for i in images]
        maps, reasons = method.maps_each(batch, targets=targets, seeds=seeds, segments=cut, first=first)
        return Explained(
            {images[j]: value for j, value in maps.items()}, {images[j]: why for j, why in reasons.items()}, segments
        )

    def _compare(
        self, method: Method, perturbation: Perturbation, part: list[Attempt], copies: torch.Tensor, firsts: Explained
    ) -> None:
        """Explain perturbed copies and compare each map with its original's."""
        import torch

        for a in part:
            if a.image not in firsts.maps:
                self.scores[method.name, a] = f"original: {firsts.reasons[a.image]}"
        places = [j for j, a in enumerate(part) if a.image in firsts.maps]
        part, copies = [part[j] for j in places], copies[places]
        seeds = [self.draws.of_copy(a.image, perturbation, a.draw, baseline=method.baseline) for a in part]

        def cut(some: list[int]) -> Segments | None:
            if self.comparing.protocol == "published":
                found = method.segments(copies[some], [seeds[j] for j in some])
                return None if found is None else (found, None)
            if not firsts.segments:
                return None
            # Carried along with the image; the design stays that of the original even if a segment has left it.
            own = torch.stack([firsts.segments[part[j].image] for j in some])
            return perturbation.warp_labels(own), [int(labels.max()) + 1 for labels in own]

        def compare(some: list[int]) -> list[MapSimilarity]:
            a, b = (torch.stack([maps[j] for j in some]) for maps in (before, after))
            return list(self.comparing(a, b, perturbation))

        passes = method.passes()
        targets = [int(self.originals.targets[a.image]) for a in part]
        after, reasons = method.maps_each(copies, targets=targets, seeds=seeds, segments=cut)
        self._count(method, passes, maps=len(part))
        before = {j: firsts.maps[part[j].image] for j in after}
        scores, incomparable = each(compare, list(after))
        for j, found in (scores | reasons | incomparable).items():
            self.scores[method.name, part[j]] = found
        for j, found in scores.items():
            a = part[j]
            pictures, maps = (self.originals.images[a.image], copies[j]), (before[j], after[j])
            self.examples.offer(method.name, perturbation, a, self.originals.ids[a.image], pictures, maps, found)

    def _count(self, method: Method, before: tuple[int, int], *, maps: int = 0, reference_maps: int = 0) -> None:
        forward, backward = (now - then for now, then in zip(method.passes(), before, strict=True))
        spent = (
            FassCost(reference_maps=reference_maps, reference_forward=forward, reference_backward=backward)
            if reference_maps
            else FassCost(maps=maps, forward=forward, backward=backward)
        )
        self.costs[method.name] = self.costs.get(method.name, FassCost()) + spent
