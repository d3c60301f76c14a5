"""The runs of one row: those that are known already, then one explanation after the other, within a budget."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stabgate.columns import Floats
from stabgate.errors import InputError, MissingDependencyError, StabgateError
from stabgate.explainers.base import Rows, TableExplainer
from stabgate.forecast import Trial, warn_if_large
from stabgate.memory import RowMemory
from stabgate.progress import Progress
from stabgate.rowstore import RowStore


@dataclass(frozen=True)
class Work:
    """What is the same for all rows of a measurement."""

    explainer: TableExplainer
    rows: Rows
    seeds: NDArray[np.uint32]  # (runs, instances), of all runs
    store: RowStore | None
    deadline: float | None = None  # of `time.monotonic`, which all processes of a machine share
    most_rows: int | None = None  # of the explainer's own count
    runs: int = 0  # how many are wanted now


@dataclass
class Row:
    """What is known of one row so far."""

    position: int
    values: Floats  # (runs, features)
    known: int = 0  # runs that came from the store
    failure: str | None = None
    read: bool = False  # whether the store was asked
    stored: Floats | None = None
    memory: RowMemory | None = None  # of the model's rows, to go on with


class Watch:
    """Told of every explanation in this process: moves the progress line, and estimates the cost once."""

    def __init__(self, trial: Trial, progress: Progress) -> None:
        self._trial: Trial | None = trial
        self._progress = progress

    def known(self, explanations: int) -> None:
        """A row begins, and `explanations` of it came from the cache."""
        self._progress.known(explanations)
        if self._trial is not None:
            self._trial.restart()

    def failed(self, explanations: int) -> None:
        """The row at hand is given up, with `explanations` of it to come."""
        self._progress.advance(explanations)

    def ran(self) -> None:
        """One explanation is done."""
        self._progress.advance(1)
        estimate = None if self._trial is None else self._trial.ran()
        if estimate is not None:
            self._trial = None
            self._progress.expect(estimate.seconds)
            warn_if_large(estimate)


def explain_rows(work: Work, rows: Sequence[Row], watch: Watch | None = None) -> list[Row]:
    found = []
    for row in rows:
        with work.explainer.remembering(row.memory) as memory:
            found.append(replace(_explain_row(work, row, watch), memory=memory))
    return found


def _explain_row(work: Work, row: Row, watch: Watch | None) -> Row:
    i, store = row.position, work.store
    if not row.read:
        stored = None if store is None else store.read(i)
        row = replace(row, read=True, stored=None if stored is None else stored[: len(work.seeds)])
    values = np.empty((work.runs, len(work.rows.features)))
    done = len(row.values)
    values[:done] = row.values
    known = 0 if row.stored is None else min(len(row.stored), work.runs)
    if row.stored is not None and known > done:
        values[done:known] = row.stored[done:known]
    if watch is not None:
        watch.known(max(0, known - done))
    done = max(done, known)
    for run in range(done, work.runs):
        if _spent(work):
            break
        try:
            values[run] = work.explainer.explain_row(work.rows, i, int(work.seeds[run, i]))
        except (InputError, MissingDependencyError):
            raise
        except StabgateError as error:
            if watch is not None:
                watch.failed(len(work.seeds) - run)
            return replace(row, known=known, failure=f"run {run} (seed {int(work.seeds[run, i])}): {error}")
        done = run + 1
        if watch is not None:
            watch.ran()
    if store is not None and done > (0 if row.stored is None else len(row.stored)):
        store.write(i, values[:done])
    return replace(row, values=values[:done], known=max(known, row.known))


def _spent(work: Work) -> bool:
    """Whether the budget has ended."""
    if work.deadline is not None and time.monotonic() >= work.deadline:
        return True
    return work.most_rows is not None and work.explainer.cost.rows >= work.most_rows
