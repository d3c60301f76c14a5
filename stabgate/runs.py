"""Repeated runs: the same explainer on the same rows, m times, each run of each row under its own seed."""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stabgate.attributions import Attributions, group_positions
from stabgate.columns import Floats
from stabgate.cost import Cost
from stabgate.errors import InputError, MissingDependencyError, StabgateError
from stabgate.explainers.base import Rows, TableExplainer
from stabgate.explainers.baseline import Custom
from stabgate.forecast import TRIAL_RUNS, Trial, warn_if_large
from stabgate.progress import Progress
from stabgate.rowstore import RowStore, content_hashes, row_store
from stabgate.seeds import row_seed
from stabgate.selection import choose_rows

# Starting worker processes and importing an explainer in each takes a few seconds: shorter work stays in this one.
WORTH_WORKERS = 20.0
CHUNKS_PER_WORKER = 4


@dataclass(frozen=True)
class _Work:
    explainer: TableExplainer
    rows: Rows
    seeds: NDArray[np.uint32]  # (runs, instances)
    store: RowStore | None
    no_store: str  # why there is none
    begun: Mapping[int, Floats] = field(default_factory=dict)  # by row: attributions of its first runs, known already


@dataclass(frozen=True)
class _Measured:
    position: int
    values: Floats | None  # (runs, features)
    failure: str | None
    known: int  # runs that came from the store


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
    check_count("runs", runs, least=2, why="one run has no distribution")
    check_count("seed", seed, least=0)
    if not isinstance(cache, bool):
        raise InputError(f"cache={cache!r}; it must be True or False")
    workers = None if n_jobs is None and _may_spread() else worker_count(n_jobs)
    explainer = as_explainer(explainer)
    started = time.perf_counter()
    before = explainer.cost
    chosen, ids = choose_rows(X, rows, seed=seed)
    prepared = explainer.prepare(chosen, target=target, ids=ids)
    if groups is not None:
        group_positions(prepared.features, groups)  # a wrong name costs nothing yet
    seeds = np.array([[row_seed(seed, run, row) for row in prepared.ids] for run in range(runs)], dtype=np.uint32)
    work = _Work(explainer, prepared, seeds, *row_store(explainer, prepared, seed, wanted=cache))
    cost = Cost()
    measured: list[_Measured] = []
    with _one_thread_each(), Progress(len(prepared.ids) * runs, lambda: explainer.cost.rows) as progress:
        remaining = list(range(len(prepared.ids)))
        trial = Trial(explainer, len(remaining), runs, worker_count(n_jobs), before, started)
        watch = _Watch(trial, progress)
        if workers not in (None, 1):
            # Workers report whole rows: two runs here tell what is coming. They are kept, not repeated.
            thin = replace(work, seeds=seeds[:TRIAL_RUNS], store=None)
            if work.store is None or work.store.read(0) is None:
                [tried] = _explain_rows(thin, remaining[:1], watch)
                if tried.values is None:
                    measured, remaining = [tried], remaining[1:]
                else:
                    work = replace(work, begun={0: tried.values})
        while remaining and workers in (None, 1):
            first = time.perf_counter()
            measured += _explain_rows(work, remaining[:1], watch)
            remaining = remaining[1:]
            if workers is None and (time.perf_counter() - first) * len(remaining) > WORTH_WORKERS:
                workers = worker_count(None)
        if remaining and workers is not None:
            for chunk, chunk_cost in _in_processes(work, remaining, workers):
                measured += chunk
                cost += chunk_cost
                progress.advance(sum(runs - len(work.begun.get(m.position, ())) for m in chunk), chunk_cost.rows)
    if work.store is not None:
        work.store.cache.trim()
    cost += replace(explainer.cost - before, seconds=time.perf_counter() - started)
    asked = {"target": target.item() if isinstance(target, np.generic) else target, "population": isinstance(rows, str)}
    attributions = _assemble(work, measured, seed, cost, asked)
    return attributions if groups is None else attributions.grouped(groups, add=explainer.additive)


class _Watch:
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


def _explain_rows(work: _Work, positions: Sequence[int], watch: _Watch | None = None) -> list[_Measured]:
    measured = []
    for i in positions:
        with work.explainer.remembering():
            measured.append(_explain_row(work, i, watch))
    return measured


def _explain_row(work: _Work, i: int, watch: _Watch | None) -> _Measured:
    seeds = work.seeds[:, i]
    values = np.empty((len(seeds), len(work.rows.features)))
    stored = None if work.store is None else work.store.read(i)
    known = 0 if stored is None else min(len(stored), len(seeds))
    if stored is not None:
        values[:known] = stored[:known]
    begun = work.begun.get(i, values[:0])
    values[known : len(begun)] = begun[known:]
    if watch is not None:
        watch.known(known)
    for run in range(max(known, len(begun)), len(seeds)):
        try:
            values[run] = work.explainer.explain_row(work.rows, i, int(seeds[run]))
        except (InputError, MissingDependencyError):
            raise
        except StabgateError as error:
            if watch is not None:
                watch.failed(len(seeds) - run)
            return _Measured(i, None, f"run {run} (seed {int(seeds[run])}): {error}", known)
        if watch is not None:
            watch.ran()
    if work.store is not None and known < len(seeds):
        work.store.write(i, values)
    return _Measured(i, values, None, known)


def _chunk(work: _Work, positions: Sequence[int]) -> tuple[list[_Measured], Cost]:
    before = work.explainer.cost
    measured = _explain_rows(work, positions)
    return measured, work.explainer.cost - before


def _in_processes(work: _Work, positions: Sequence[int], workers: int) -> Iterable[tuple[list[_Measured], Cost]]:
    from joblib import Parallel, delayed, parallel_config

    count = min(len(positions), workers * CHUNKS_PER_WORKER)
    chunks = [list(positions[start::count]) for start in range(count)]
    with parallel_config(backend="loky", n_jobs=workers, inner_max_num_threads=1):
        yield from Parallel(return_as="generator_unordered")(delayed(_chunk)(work, chunk) for chunk in chunks)


def worker_count(n_jobs: int | None) -> int:
    """Processes that share a measurement. None: every core, or one under pytest-xdist, where tests share them.

    Raises:
        InputError: not a positive integer, -1 or None.
    """
    cores = os.cpu_count() or 1
    if n_jobs is None:
        return cores if _may_spread() else 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0 or n_jobs < -1:
        raise InputError(f"n_jobs={n_jobs!r}; it must be a positive integer, -1 for every core, or None")
    return cores if n_jobs == -1 else int(n_jobs)


def _may_spread() -> bool:
    return "PYTEST_XDIST_WORKER" not in os.environ and (os.cpu_count() or 1) > 1


def _one_thread_each() -> AbstractContextManager[Any]:
    """Under xdist the processes share the cores already: thread pools inside each would only fight."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return nullcontext()
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    sharing = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    limits: AbstractContextManager[Any] = threadpool_limits(max(1, (os.cpu_count() or 1) // sharing))
    return limits


def _assemble(
    work: _Work, measured: Sequence[_Measured], seed: int, cost: Cost, asked: Mapping[str, Any]
) -> Attributions:
    rows, seeds = work.rows, work.seeds
    values = np.full((len(seeds), len(rows.ids), len(rows.features)), np.nan)
    failures: dict[Hashable, str] = {}
    for one in sorted(measured, key=lambda m: m.position):
        if one.values is not None:
            values[:, one.position] = one.values
        else:
            failures[rows.ids[one.position]] = one.failure or "not measured"
    provenance = {
        **work.explainer.describe(),
        "seed": int(seed),
        "runs": len(seeds),
        **asked,
        "hashes": content_hashes(work.explainer, rows),
        "versions": versions(),
        "cache": f"off: {work.no_store}"
        if work.store is None
        else f"{sum(m.known for m in measured)} of {len(measured) * len(seeds)} explanations were known",
    }
    return Attributions(values, rows.features, rows.ids, seeds, rows.labels, failures, provenance, cost)


def versions() -> dict[str, str]:
    """What every record names: stabgate, Python and NumPy."""
    import platform

    from stabgate import __version__

    return {"stabgate": __version__, "python": platform.python_version(), "numpy": np.__version__}
