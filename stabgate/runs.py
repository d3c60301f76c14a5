"""Repeated runs: the same explainer on the same rows, m times, each run of each row under its own seed."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from types import TracebackType
from typing import Any

import numpy as np

from stabgate.attributions import Attributions, group_positions
from stabgate.budget import Budget
from stabgate.cost import Cost
from stabgate.errors import InputError
from stabgate.explainers.base import TableExplainer
from stabgate.explainers.baseline import Custom
from stabgate.forecast import TRIAL_RUNS, Trial
from stabgate.progress import Progress
from stabgate.rowstore import content_hashes, row_store
from stabgate.rowwork import Row, Watch, Work, explain_rows
from stabgate.seeds import row_seed
from stabgate.selection import choose_rows
from stabgate.workers import in_processes, may_spread, one_thread_each, worker_count

# Starting worker processes and importing an explainer in each takes a few seconds: shorter work stays in this one.
WORTH_WORKERS = 20.0
MEMORY_KEPT = 1 << 29  # bytes of model rows that are kept while runs are added


def collect(
    explainer: Any,
    X: Any,
    *,
    target: Any = None,
    runs: int = 50,
    seed: int = 0,
    rows: Any = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    n_jobs: int | None = None,
    cache: bool = True,
) -> Attributions:
    """Explain every row of `X` `runs` times.

    Run r of the row called i is seeded with ``row_seed(seed, r, i)``, so the result is the same for any number of
    workers and does not change for a row when others are added. A row whose explanation raises, or is not finite, is
    not measured: its reason stands in ``failures`` and its values are NaN.

    Args:
        explainer: a stabgate explainer, or any object with ``explain(X, *, seed, target=None)``.
        X: rows in the container that the explainer's background has.
        target: class label or number of the explained output; None as in `stabgate.models.Model.targets`.
        runs: m, at least 2.
        seed: any integer from 0.
        rows: which rows of X: None for all, a list of ids (index labels, or positions in an array), a function of X
            that returns one boolean per row, or an integer: a seeded sample of that many. A sample goes by a hash of
            the ids, so rows that X gains later displace few of its members. "sample": all rows, and X is itself a
            sample: intervals are then about the population that it was drawn from.
        groups: columns that are ranked as one feature, by its name: ``{"age": ["age_young", "age_old"]}``. Their
            attributions are added (for counterfactual importances, which are shares, the largest counts).
        n_jobs: worker processes; None decides by the time that the first row took, and is 1 under pytest-xdist.
        cache: reuse what was computed before for the same model, data, settings and seeds (see `stabgate.cache`).

    Returns:
        Attributions ``(runs, instances, features)``.

    Raises:
        InputError: an option or the data cannot be used.
        ModelError: the model raises on X, or varies between identical calls.
    """
    with Collection(
        explainer, X, target=target, runs=runs, seed=seed, rows=rows, groups=groups, n_jobs=n_jobs, cache=cache
    ) as collection:
        collection.advance(runs)
        return collection.attributions()


class Collection:
    """Repeated runs on the same rows that can be added to: the first m of them are the same however they are made.

    A context manager. The model's rows are remembered from one addition to the next, up to `MEMORY_KEPT` bytes.

    Args:
        budget: where the work ends before all runs are there. Model rows are counted in one process, so that a
            measurement ends at the same run for any `n_jobs`.
        explainer, X, target, runs, seed, rows, groups, n_jobs, cache: as in `collect`; `runs` is the number of all.

    Raises:
        InputError, ModelError: as in `collect`.
    """

    def __init__(
        self,
        explainer: Any,
        X: Any,
        *,
        target: Any = None,
        runs: int = 50,
        seed: int = 0,
        rows: Any = None,
        groups: Mapping[str, Sequence[str]] | None = None,
        n_jobs: int | None = None,
        cache: bool = True,
        budget: Budget | None = None,
    ) -> None:
        check_count("runs", runs, least=2, why="one run has no distribution")
        check_count("seed", seed, least=0)
        if not isinstance(cache, bool):
            raise InputError(f"cache={cache!r}; it must be True or False")
        self._workers = None if n_jobs is None and may_spread() else worker_count(n_jobs)
        self._started = time.perf_counter()
        deadline = None if budget is None or budget.seconds is None else time.monotonic() + budget.seconds
        self._explainer = explainer = as_explainer(explainer)
        self._before = explainer.cost
        most = None if budget is None or budget.rows is None else self._before.rows + budget.rows
        if most is not None:
            self._workers = 1
        chosen, ids = choose_rows(X, rows, seed=seed)
        prepared = explainer.prepare(chosen, target=target, ids=ids)
        if groups is not None:
            group_positions(prepared.features, groups)  # a wrong name costs nothing yet
        seeds = np.array([[row_seed(seed, run, row) for row in prepared.ids] for run in range(runs)], dtype=np.uint32)
        store, self._no_store = row_store(explainer, prepared, seed, wanted=cache)
        self._work = Work(explainer, prepared, seeds, store, deadline, most)
        self._seed, self._groups = int(seed), groups
        self._asked = {
            "target": target.item() if isinstance(target, np.generic) else target,
            "population": isinstance(rows, str),
        }
        self._rows = [Row(i, np.empty((0, len(prepared.features)))) for i in range(len(prepared.ids))]
        self._elsewhere = Cost()
        self._stack = ExitStack()
        self._progress = Progress(len(prepared.ids) * runs, lambda: explainer.cost.rows)
        trial = Trial(explainer, len(prepared.ids), runs, worker_count(n_jobs), self._before, self._started)
        self._watch = Watch(trial, self._progress)

    def __enter__(self) -> Collection:
        self._stack.enter_context(one_thread_each())
        self._stack.enter_context(self._progress)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stack.close()
        if self._work.store is not None and error is None:
            self._work.store.cache.trim()

    @property
    def runs(self) -> int:
        """The runs that all rows have; rows that could not be explained do not count."""
        return min((len(row.values) for row in self._rows if row.failure is None), default=len(self._work.seeds))

    def advance(self, runs: int) -> bool:
        """Go on until every row has `runs` runs; False where the budget ends first."""
        work = replace(self._work, runs=runs)
        last = runs == len(work.seeds)
        remaining = [row.position for row in self._rows if row.failure is None and len(row.values) < runs]
        if remaining and self._workers not in (None, 1) and len(self._rows[remaining[0]].values) < TRIAL_RUNS:
            # Workers report whole rows: two runs here tell what is coming.
            self._explain(replace(work, runs=min(TRIAL_RUNS, runs)), remaining[:1], last=False)
            remaining = [i for i in remaining if self._rows[i].failure is None]
        while remaining and self._workers in (None, 1):
            first = time.perf_counter()
            self._explain(work, remaining[:1], last=last)
            remaining = remaining[1:]
            if self._workers is None and (time.perf_counter() - first) * len(remaining) > WORTH_WORKERS:
                self._workers = worker_count(None)
        if remaining and self._workers is not None:
            before = {i: len(self._rows[i].values) for i in remaining}
            for chunk, cost in in_processes(work, [self._rows[i] for i in remaining], self._workers):
                self._elsewhere += cost
                self._take(chunk, last=last)
                done = sum((runs if row.failure else len(row.values)) - before[row.position] for row in chunk)
                self._progress.advance(done, cost.rows)
        return self.runs >= runs

    def attributions(self, least: int = 2) -> Attributions:
        """The runs that all rows have, ``(runs, instances, features)``.

        Where they are fewer than `least`, no row is measured. A row that could not be explained is not measured either,
        and has no say in their number.
        """
        runs, rows = self.runs, self._work.rows
        cost = self._elsewhere + replace(
            self._explainer.cost - self._before, seconds=time.perf_counter() - self._started
        )
        short = runs < least
        runs = max(runs, 2)
        values = np.full((runs, len(rows.ids), len(rows.features)), np.nan)
        failures: dict[Hashable, str] = {}
        for row in self._rows:
            if row.failure is None and not short:
                values[:, row.position] = row.values[:runs]
            else:
                failures[rows.ids[row.position]] = row.failure or f"the budget ended after {len(row.values)} runs"
        everything = len(self._work.seeds)
        known = sum(min(row.known, runs) for row in self._rows)
        provenance = {
            **self._described,
            "runs": runs,
            **({} if runs == everything else {"planned": everything}),
            "cache": f"off: {self._no_store}"
            if self._work.store is None
            else f"{known} of {len(self._rows) * runs} explanations were known",
        }
        seeds = self._work.seeds[:runs]
        found = Attributions(values, rows.features, rows.ids, seeds, rows.labels, failures, provenance, cost)
        return found if self._groups is None else found.grouped(self._groups, add=self._explainer.additive)

    @cached_property
    def _described(self) -> dict[str, Any]:
        return {
            **self._explainer.describe(),
            "seed": self._seed,
            **self._asked,
            "hashes": content_hashes(self._explainer, self._work.rows),
            "versions": versions(),
        }

    def _explain(self, work: Work, positions: Sequence[int], *, last: bool) -> None:
        self._take(explain_rows(work, [self._rows[i] for i in positions], self._watch), last=last)

    def _take(self, rows: Sequence[Row], *, last: bool) -> None:
        """Keep what became of rows; what their memories of model rows may take is shared by all."""
        for row in rows:
            self._rows[row.position] = replace(row, memory=None)
            if last or row.failure is not None or row.memory is None:
                continue
            free = MEMORY_KEPT - sum(kept.memory.size for kept in self._rows if kept.memory is not None)
            if row.memory.seldom or row.memory.size > free:
                row.memory.condense()
            if row.memory.size <= free:
                self._rows[row.position] = row


def as_explainer(explainer: Any) -> TableExplainer:
    """A stabgate explainer for what users pass: one of ours, or any object with ``explain(X, *, seed, ...)``.

    Raises:
        InputError: it has no `explain`.
    """
    if isinstance(explainer, TableExplainer):
        return explainer
    name = type(explainer).__name__
    if isinstance(explainer, type):
        raise InputError(f"explainer is the class {explainer.__name__}, not an instance; create one and pass it")
    if callable(getattr(explainer, "explain", None)):
        return Custom(explainer.explain, name=name)
    if callable(explainer):
        raise InputError("explainer is a function; wrap it: stabgate.explainers.Custom(function)")
    raise InputError(f"explainer is {name}, which has no explain(X, *, seed, target=None)")


def check_count(name: str, value: Any, *, least: int, why: str = "") -> None:
    """Raise an InputError unless `value` is an integer of at least `least`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{name}={value!r}; it must be an integer of at least {least}" + (f": {why}" if why else ""))


def versions() -> dict[str, str]:
    """What every record names: stabgate, Python and NumPy."""
    import platform

    from stabgate import __version__

    return {"stabgate": __version__, "python": platform.python_version(), "numpy": np.__version__}
