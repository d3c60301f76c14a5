"""When the prediction of a perturbed image counts as kept ([F], section 3, and its counterparts for other tasks)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stabgate.columns import Floats
from stabgate.errors import InputError

RULES = ("label", "probability", "output", "relative output", "side")
SUM_SLACK = 1e-3  # outputs whose rows are non-negative and sum to 1 within this are probabilities already


@dataclass(frozen=True)
class Invariance:
    """One rule and its number.

    Attributes:
        rule: "label": the same arg-max; "probability": that, and a probability of the explained class that moves
            by at most `number`; "output" and "relative output": an explained output (regression) that moves by at
            most `number`, or by at most `number` times its size; "side": one output, on the same side of the
            decision threshold `number`.
        number: tolerance or threshold; without meaning for "label".
    """

    rule: str
    number: float = 0.0

    @staticmethod
    def of(given: Any) -> Invariance:
        """From what a user wrote: "label", or a rule and its number.

        Raises:
            InputError: another rule, or a number that it cannot have.
        """
        rule, number = (given, None) if isinstance(given, str) else _two(given)
        if rule not in RULES:
            raise InputError(f"invariance={given!r}: {_CHOICES}")
        if rule == "label":
            if number is not None:
                raise InputError(f"invariance={given!r}: the same label takes no number")
            return Invariance("label")
        if isinstance(number, bool) or not isinstance(number, (int, float, np.number)) or not math.isfinite(number):
            raise InputError(f"invariance={given!r}: {_CHOICES}")
        if rule != "side" and number < 0:
            raise InputError(f"invariance={given!r}: a tolerance is at least 0")
        return Invariance(rule, float(number))

    def __str__(self) -> str:
        return {
            "label": "same label",
            "probability": f"same label, probability within {self.number:g}",
            "output": f"output within {self.number:g}",
            "relative output": f"output within {100 * self.number:g} %",
            "side": f"same side of {self.number:g}",
        }[self.rule]

    def check(self, outputs: int) -> None:
        """Raise InputError where the rule cannot be meant for a model with that many outputs."""
        if outputs == 1 and self.rule in ("label", "probability"):
            raise InputError(
                f'invariance="{self.rule}": the model has one output, so there is no arg-max; say ("side", 0.0) for a '
                'logit, ("side", 0.5) for a probability, or ("output", tolerance) for a regression'
            )
        if outputs > 1 and self.rule == "side":
            raise InputError(f'invariance=("side", ...) is for models with one output; this one has {outputs}: "label"')

    def changes(self, before: Floats, after: Floats, targets: NDArray[np.intp]) -> list[str]:
        """Why each prediction does not count as kept; an empty text where it does.

        Args:
            before: outputs ``(pairs, outputs)`` of the originals, finite.
            after: outputs ``(pairs, outputs)`` of the perturbed images, finite.
            targets: the explained output of each pair ``(pairs,)``.
        """
        return [self._change(*pair) for pair in zip(before, after, targets.tolist(), strict=True)]

    def _change(self, before: Floats, after: Floats, target: int) -> str:
        if self.rule in ("label", "probability"):
            first, second = int(before.argmax()), int(after.argmax())
            if first != second:
                return f"output {first} became {second}"
            if self.rule == "label":
                return ""
            p, q = float(probabilities(before)[target]), float(probabilities(after)[target])
            return "" if abs(p - q) <= self.number else f"probability {p:.3g} became {q:.3g}"
        p, q = float(before[target]), float(after[target])
        if self.rule == "side":
            return "" if (p >= self.number) == (q >= self.number) else f"{p:.3g} became {q:.3g}"
        allowed = self.number * (abs(p) if self.rule == "relative output" else 1.0)
        return "" if abs(p - q) <= allowed else f"output {p:.4g} became {q:.4g}"


def probabilities(outputs: Floats) -> Floats:
    """Outputs ``(outputs,)`` as they are where they are probabilities already, and through a softmax where not."""
    if (outputs >= 0).all() and abs(float(outputs.sum()) - 1.0) <= SUM_SLACK:
        return outputs
    powers = np.exp(outputs - outputs.max())
    shares: Floats = powers / powers.sum()
    return shares


_CHOICES = (
    'give "label", ("probability", tolerance), ("output", tolerance), ("relative output", tolerance) or '
    '("side", threshold)'
)


def _two(given: Any) -> tuple[Any, Any]:
    if isinstance(given, Invariance):
        return given.rule, None if given.rule == "label" else given.number
    try:
        rule, number = given
    except (TypeError, ValueError):
        raise InputError(f"invariance={given!r}: {_CHOICES}") from None
    return rule, number
