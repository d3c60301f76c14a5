"""What a measurement cost, in model rows and seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """What a measurement cost. Counts are of model rows and do not depend on the machine; seconds do.

    Attributes:
        rows: rows that the model evaluated.
        rows_asked: rows that explainers asked for (more than `rows` where a row was needed twice).
        calls: calls of the model.
        seconds: time of the whole collection, wall clock.
        model_seconds: time inside the model, summed over workers.
    """

    rows: int = 0
    rows_asked: int = 0
    calls: int = 0
    seconds: float = 0.0
    model_seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.rows + other.rows,
            self.rows_asked + other.rows_asked,
            self.calls + other.calls,
            self.seconds + other.seconds,
            self.model_seconds + other.model_seconds,
        )

    def __sub__(self, other: Cost) -> Cost:
        return Cost(
            self.rows - other.rows,
            self.rows_asked - other.rows_asked,
            self.calls - other.calls,
            self.seconds - other.seconds,
            self.model_seconds - other.model_seconds,
        )
