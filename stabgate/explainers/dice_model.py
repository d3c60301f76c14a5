"""The model that DiCE asks: counted, in the user's own column types, with a deadline."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stabgate.columns import Floats
from stabgate.errors import ExplainerError, InputError
from stabgate.explainers.dice_frame import DiceFrame
from stabgate.models import Model, Predictor

if TYPE_CHECKING:
    import pandas as pd

Reading: TypeAlias = Literal["probabilities", "second class", "scores", "decision", "value"]
SUM_TOLERANCE = 1e-5  # of probabilities to 1; single-precision networks miss by 1e-7


@dataclass(frozen=True)
class Scores:
    """How a model's outputs read as class probabilities.

    Attributes:
        reading: "probabilities" as they are; "second class": one output in [0, 1]; "scores": several outputs
            that are none, through the softmax; "decision": one signed score, through the logistic function;
            "value": a regression.
        labels: class labels, or None.
        count: number of classes, 0 for a regression.
        reached: classes that some background row is predicted as.
        constant: the output of every background row, where they are all the same.
    """

    reading: Reading
    labels: tuple[Any, ...] | None
    count: int
    reached: frozenset[int] = frozenset()
    constant: Floats | None = None

    @classmethod
    def of(cls, model: Model, outputs: Floats, desired_range: Any) -> Scores:
        """Decide by the outputs ``(rows, outputs)`` of the background.

        Raises:
            InputError: a regression without `desired_range`, several outputs with one, or a single output
                that is neither.
        """
        columns = outputs.shape[1]
        constant = outputs[0] if (outputs == outputs[0]).all() else None
        if desired_range is not None:
            if columns > 1:
                raise InputError(f"desired_range is for one output; {model.name} has {columns}: use desired_class")
            return cls("value", None, 0, frozenset(), constant)
        if model.task == "regression":
            raise InputError(
                f"{model.name} is a regression: say which outputs its counterfactuals should reach with "
                "desired_range=(low, high)"
            )
        labels = model.labels if model.labels is not None and len(model.labels) == max(columns, 2) else None
        within = bool(((outputs >= 0) & (outputs <= 1)).all())
        reading: Reading
        if columns > 1:
            sums = bool((np.abs(outputs.sum(axis=1) - 1) <= SUM_TOLERANCE).all())
            reading = "probabilities" if within and sums else "scores"
        elif model.task == "classification" and not within:
            reading = "decision"
        elif within:
            reading = "second class"
        else:
            raise InputError(
                f"{model.name} has one output with values outside [0, 1] ({outputs.min():g} to "
                f"{outputs.max():g}): pass desired_range=(low, high) if it is a regression, or a model that "
                "returns probabilities"
            )
        scores = cls(reading, labels, max(columns, 2), frozenset(), constant)
        reached = frozenset(int(c) for c in scores.probabilities(outputs).argmax(axis=1))
        return cls(reading, labels, max(columns, 2), reached, constant)

    def probabilities(self, outputs: Floats) -> Floats:
        """Class probabilities ``(rows, classes)``."""
        from scipy.special import expit, softmax

        if self.reading == "probabilities":
            return outputs
        if self.reading == "scores":
            return np.asarray(softmax(outputs, axis=1))
        second = outputs[:, 0] if self.reading == "second class" else expit(outputs[:, 0])
        return np.column_stack([1 - second, second])

    def predictions(self, outputs: Floats) -> NDArray[Any]:
        """Class numbers ``(rows,)``, or the values of a regression."""
        if self.reading == "value":
            return outputs[:, 0]
        return np.asarray(self.probabilities(outputs).argmax(axis=1))

    def label(self, number: int) -> Any:
        """The label of a class, or its number where the model has no labels."""
        return number if self.labels is None else self.labels[number]

    def number(self, label: Any) -> int:
        """The number of a class.

        Raises:
            InputError: the model has no such class.
        """
        known = list(range(self.count)) if self.labels is None else list(self.labels)
        if label not in known:
            raise InputError(
                f"desired_class={label!r} is not a class of the model; choose 'opposite' or one of {known}"
            )
        return known.index(label)


class DiceModel:
    """What dice-ml gets as its scikit-learn model.

    It has no `classes_`, so that DiCE speaks of classes by number.
    """

    def __init__(self, predictor: Predictor, frame: DiceFrame, scores: Scores) -> None:
        self.predictor = predictor
        self.frame = frame
        self.scores = scores
        self._limit: float | None = None
        self._started = 0.0

    def start(self, limit: float | None) -> None:
        """A search begins; `limit` seconds from now the model stops answering."""
        self._limit, self._started = limit, time.monotonic()

    def predict_proba(self, frame: pd.DataFrame) -> Floats:
        """Class probabilities ``(rows, classes)`` for rows in DiCE's frame."""
        return self.scores.probabilities(self._outputs(frame))

    def predict(self, frame: pd.DataFrame) -> NDArray[Any]:
        """Class numbers, or the values of a regression, ``(rows,)``."""
        return self.scores.predictions(self._outputs(frame))

    def _outputs(self, frame: pd.DataFrame) -> Floats:
        if self._limit is not None and time.monotonic() - self._started > self._limit:
            raise ExplainerError(
                f"the counterfactual search ran past time_limit={self._limit:g} seconds; raise it, or choose "
                "method='random', which always ends"
            )
        return self.predictor(self.frame.encoded(frame))
