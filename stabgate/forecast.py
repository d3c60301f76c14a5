"""What a measurement will cost, told from two runs on one of its rows, and what would make it cheaper."""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import dataclass

from stabgate.cost import Cost
from stabgate.explainers.base import TableExplainer

TRIAL_RUNS = 2
LARGE = 600.0  # seconds from which a measurement deserves advice
SAMPLE = 20  # rows that advice suggests
USUAL_RUNS = 50  # [K]
MODEL_SHARE = 0.5  # of the time; above it the model is what is slow


class CostWarning(UserWarning):
    """A measurement will take long; the message says how long and what would shorten it."""


@dataclass(frozen=True)
class CostEstimate:
    """An extrapolation from two runs on one row; rows that are harder to explain cost more.

    Attributes:
        rows: model rows to be evaluated, about (runs of one row may come to share more of them).
        seconds: with `workers` processes, from the first check to the last run.
        fixed_seconds: the part of them that the first call takes once, whatever the number of rows and runs:
            imports, building the explainer, the background.
        explanations: instances times runs.
        workers: processes that share the work.
        advice: what would make it cheaper; empty where it takes less than ten minutes.
    """

    rows: int
    seconds: float
    fixed_seconds: float
    explanations: int
    workers: int = 1
    advice: tuple[str, ...] = ()

    @property
    def large(self) -> bool:
        """Whether it takes ten minutes or more."""
        return self.seconds >= LARGE

    def __str__(self) -> str:
        shared = "" if self.workers == 1 else f" in {self.workers} processes"
        advice = f"; cheaper: {'; '.join(self.advice)}" if self.advice else ""
        return (
            f"{self.explanations:,} explanations take about {duration(self.seconds)}{shared} and about {self.rows:,} "
            f"model rows ({duration(self.fixed_seconds)} are a fixed cost of the first call){advice}"
        )


class Trial:
    """Watches the first two runs of a row.

    Args:
        explainer: whose cost is read.
        instances, runs: of the whole measurement.
        workers: processes that will share it.
        before: its cost before the rows were prepared.
        started: `time.perf_counter` at that moment.
    """

    def __init__(
        self, explainer: TableExplainer, instances: int, runs: int, workers: int, before: Cost, started: float
    ) -> None:
        self._explainer = explainer
        self._instances = instances
        self._runs = runs
        self._workers = workers
        now = time.perf_counter()
        self._prepared = explainer.cost - before
        self._preparing = now - started
        self._costs = [explainer.cost]
        self._times = [now]

    def restart(self) -> None:
        """A row begins: its first two runs are what counts."""
        self._costs, self._times = [self._explainer.cost], [time.perf_counter()]

    def ran(self) -> CostEstimate | None:
        """A run is done; the estimate at the second one, otherwise None."""
        self._costs.append(self._explainer.cost)
        self._times.append(time.perf_counter())
        return self._estimate() if len(self._times) == TRIAL_RUNS + 1 else None

    def _estimate(self) -> CostEstimate:
        first, second = self._costs[1] - self._costs[0], self._costs[2] - self._costs[1]
        seconds = [self._times[1] - self._times[0], self._times[2] - self._times[1]]
        # What the first call asks beyond the second one belongs to the explainer (the background, say). What it
        # evaluates beyond that belongs to the row: later runs on a row find some of their rows in memory.
        once = max(0, first.rows_asked - second.rows_asked)
        remembered = max(0, first.rows - once - second.rows)
        both = first + second
        per_row = both.model_seconds / max(both.rows, 1)
        again = seconds[1]
        new = again + remembered * per_row
        fixed = max(0.0, seconds[0] - new)
        total = self._instances * (new + (self._runs - 1) * again)
        workers = min(self._workers, self._instances)
        estimate = CostEstimate(
            rows=self._prepared.rows + once + self._instances * (remembered + self._runs * second.rows),
            seconds=self._preparing + fixed + total / workers,
            fixed_seconds=fixed,
            explanations=self._instances * self._runs,
            workers=workers,
        )
        if not estimate.large:
            return estimate
        share = both.model_seconds / max(sum(seconds), 1e-9)
        return CostEstimate(**{**vars(estimate), "advice": self._advice(share)})

    def _advice(self, share: float) -> tuple[str, ...]:
        advice = list(self._explainer.cheaper())
        if share > MODEL_SHARE:
            advice.append(f"{share:.0%} of the time is the model's: a smaller model or background, or one that batches")
        cores = os.cpu_count() or 1
        if self._workers == 1 and cores > 1 and self._instances > 1:
            advice.append(f"n_jobs={min(cores, self._instances)}")
        if self._instances > SAMPLE:
            advice.append(f"rows={SAMPLE}, a sample of the {self._instances:,} rows")
        if self._runs > USUAL_RUNS:
            advice.append(f"runs={USUAL_RUNS} (k from other numbers of runs is not comparable)")
        return tuple(advice)


def warn_if_large(estimate: CostEstimate) -> None:
    """Say so where an estimate is large."""
    if estimate.large:
        warnings.warn(str(estimate), CostWarning, stacklevel=3)


def duration(seconds: float) -> str:
    """Seconds in the largest unit that leaves at least one: "0.25 s", "12 min", "3.5 h"."""
    if seconds < 90:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"
