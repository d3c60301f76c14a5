"""Which milder severity would keep enough predictions: forward passes only, asked for when a gate was not measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

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
HALVINGS = 4  # between the harshest severity found to keep enough and the next one that does not


class Try(NamedTuple):
    """A severity, how many predictions held at it, and how many were asked."""

    perturbation: Perturbation
    kept: int
    attempted: int

    def enough(self, *, min_retention: float, min_pairs: int) -> bool:
        return self.kept >= min_pairs and self.kept >= min_retention * self.attempted


@dataclass(frozen=True, eq=False)
class Milder:
    """Asks the measured model about the measured images again, at severities that were not asked for."""

    predict: Callable[[torch.Tensor], Any]
    originals: Originals
    invariance: Invariance
    draws: Draws
    device: Any

    def tries(
        self, perturbation: Perturbation, known: Sequence[Try], *, min_retention: float, min_pairs: int
    ) -> tuple[Try, ...]:
        """Milder severities, harshest first: those that are known, steps down to one that keeps enough, and halvings.

        Args:
            known: severities that were measured anyway.
        """
        found = {t.perturbation.label: t for t in known if is_milder(t.perturbation, perturbation)}

        def ask(candidate: Perturbation) -> bool:
            if candidate.label not in found:
                found[candidate.label] = self._ask(candidate)
            return found[candidate.label].enough(min_retention=min_retention, min_pairs=min_pairs)

        steps = {t.perturbation.label: t.perturbation for t in found.values()}
        steps |= {p.label: p for p in map(milder_by(perturbation), STEPS) if p is not None}
        too_harsh = perturbation
        for candidate in sorted(steps.values(), key=lambda p: -p.strength):
            if ask(candidate):
                for _ in range(HALVINGS):
                    middle = between(candidate, too_harsh)
                    if middle is None:
                        break
                    candidate, too_harsh = (middle, too_harsh) if ask(middle) else (candidate, middle)
                break
            too_harsh = candidate
        return tuple(sorted(found.values(), key=lambda t: -t.perturbation.strength))

    def _ask(self, candidate: Perturbation) -> Try:
        everyone = range(len(self.originals.ids))
        found = attempt_one(
            self.predict, self.originals, candidate, self.invariance, self.draws, everyone, p=0, device=self.device
        )
        return Try(candidate, sum(attempt.status == RETAINED for attempt in found), len(found))


def is_milder(candidate: Perturbation, perturbation: Perturbation) -> bool:
    """Whether it is the same kind, in the same direction, at a smaller severity."""
    if type(candidate) is not type(perturbation) or candidate.name not in NEUTRAL:
        return False
    neutral = NEUTRAL[candidate.name]
    aside = (float(candidate.severity) - neutral) * (float(perturbation.severity) - neutral)
    return aside > 0 and candidate.strength < perturbation.strength


def at(perturbation: Perturbation, value: float) -> Perturbation | None:
    """The same kind at another severity, rounded; None where there is none, or users made the kind."""
    if type(perturbation) is not KINDS.get(perturbation.name):
        return None
    value = float(round(value)) if perturbation.name == "jpeg" else float(f"{value:.3g}")
    try:
        # A field of every built-in kind, which the base class cannot promise to the type checker.
        candidate = replace(perturbation, severity=value)
    except InputError:
        return None
    return candidate


def milder_by(perturbation: Perturbation) -> Callable[[float], Perturbation | None]:
    """Share of the severity to the same kind, that much milder."""
    neutral = NEUTRAL.get(perturbation.name, 0.0)

    def step(share: float) -> Perturbation | None:
        found = at(perturbation, neutral + share * (float(perturbation.severity) - neutral))
        return found if found is not None and found.strength < perturbation.strength else None

    return step


def between(mild: Perturbation, harsh: Perturbation) -> Perturbation | None:
    """The severity halfway; None where people would write it like one of the two."""
    middle = at(harsh, (float(mild.severity) + float(harsh.severity)) / 2)
    return middle if middle is not None and mild.strength < middle.strength < harsh.strength else None
