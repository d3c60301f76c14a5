"""Which milder severity would keep enough predictions: forward passes only, asked for when a gate was not measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stabgate.errors import InputError
from stabgate.measure.fass.invariance import Invariance
from stabgate.measure.fass.pairs import RETAINED, Draws, Originals, attempt_one
from stabgate.perturbations import KINDS, Perturbation
from stabgate.perturbations.codec import BEST_QUALITY

if TYPE_CHECKING:
    import torch

# The severity that changes (almost) nothing, and the steps on the way to it.
NEUTRAL = {"rotation": 0.0, "translation": 0.0, "brightness": 1.0, "noise": 0.0, "jpeg": float(BEST_QUALITY)}
STEPS = (0.75, 0.5, 0.25, 0.1)


@dataclass(frozen=True, eq=False)
class Milder:
    """Asks the measured model about the measured images again, at severities that were not asked for."""

    predict: Callable[[torch.Tensor], Any]
    originals: Originals
    invariance: Invariance
    draws: Draws
    device: Any

    def enough(
        self, perturbation: Perturbation, *, min_retention: float, min_pairs: int
    ) -> tuple[Perturbation, int, int] | None:
        """The harshest of the milder severities that keeps enough: it, pairs kept and pairs attempted."""
        everyone = range(len(self.originals.ids))
        for candidate in gentler(perturbation):
            found = attempt_one(
                self.predict,
                self.originals,
                candidate,
                self.invariance,
                self.draws,
                everyone,
                p=0,
                device=self.device,
            )
            kept = sum(attempt.status == RETAINED for attempt in found)
            if kept >= min_pairs and kept >= min_retention * len(found):
                return candidate, kept, len(found)
        return None


def gentler(perturbation: Perturbation) -> list[Perturbation]:
    """The same kind at smaller severities, harshest first; empty for kinds that users made."""
    if type(perturbation) is not KINDS.get(perturbation.name):
        return []
    neutral, severity = NEUTRAL[perturbation.name], float(perturbation.severity)
    found: dict[str, Perturbation] = {}
    for step in STEPS:
        value = neutral + step * (severity - neutral)
        value = float(round(value)) if perturbation.name == "jpeg" else float(f"{value:.3g}")
        try:
            # A field of every built-in kind, which the base class cannot promise to the type checker.
            candidate = replace(perturbation, severity=value)
        except InputError:
            continue
        if candidate.strength < perturbation.strength:
            found[candidate.label] = candidate
    return list(found.values())
