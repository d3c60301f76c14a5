"""Repeated runs: the same explainer on the same rows, m times, each run of each row under its own seed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stabgate.attributions import Attributions
from stabgate.errors import InputError, MissingDependencyError, StabgateError
from stabgate.explainers.base import Rows, TableExplainer
from stabgate.explainers.baseline import Custom
from stabgate.models import Cost
from stabgate.progress import Progress
from stabgate.seeds import row_seed
from stabgate.tables import Floats

# Starting worker processes and importing an explainer in each takes a few seconds: shorter work stays in this one.
WORTH_WORKERS = 20.0
CHUNKS_PER_WORKER = 4


@dataclass(frozen=True)
class _Measured:
    position: int
    values: Floats | None  # (runs, features)
    failure: str | None


def collect(
    explainer: Any,
    X: Any,
    *,
    target: Any = None,
    runs: int = 50,
    seed: int = 0,
    n_jobs: int | None = None,
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
        n_jobs: worker processes; None decides by the time that the first row took, and is 1 under pytest-xdist.

    Returns:
        Attributions ``(runs, instances, features)``.

    Raises:
        InputError: an option or the data cannot be used.
        ModelError: the model raises on X, or varies between identical calls.
    """
    check_count("runs", runs, least=2, why="one run has no distribution")
    check_count("seed", seed, least=0)
    workers = _workers(n_jobs)
    explainer = as_explainer(explainer)
    started = time.perf_counter()
    before = explainer.cost
    rows = explainer.prepare(X, target=target)
    seeds = np.array([[row_seed(seed, run, row) for row in rows.ids] for run in range(runs)], dtype=np.uint32)
    cost = Cost()
    measured: list[_Measured] = []
    with _one_thread_each(workers), Progress(len(rows.ids) * runs, lambda: explainer.cost.rows) as progress:
        remaining = list(range(len(rows.ids)))
        while remaining and workers in (None, 1):
            first = time.perf_counter()
            measured += _explain_rows(explainer, rows, remaining[:1], seeds, progress.advance)
            remaining = remaining[1:]
            if workers is None and _worth_workers((time.perf_counter() - first) * len(remaining)):
                workers = os.cpu_count() or 1
        if remaining and workers is not None:
            for chunk, chunk_cost in _in_processes(explainer, rows, remaining, seeds, workers):
                measured += chunk
                cost += chunk_cost
                progress.advance(len(chunk) * runs, chunk_cost.rows)
    cost += replace(explainer.cost - before, seconds=time.perf_counter() - started)
    return _assemble(explainer, rows, measured, seeds, seed, cost)


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


def _explain_rows(
    explainer: TableExplainer,
    rows: Rows,
    positions: Sequence[int],
    seeds: NDArray[np.uint32],
    advance: Callable[[int], None] | None = None,
) -> list[_Measured]:
    measured = []
    for i in positions:
        remembering: AbstractContextManager[None] = (
            explainer.predictor.remembering() if explainer.model is not None else nullcontext()
        )
        with remembering:
            measured.append(_explain_row(explainer, rows, i, seeds[:, i], advance))
    return measured


def _explain_row(
    explainer: TableExplainer,
    rows: Rows,
    i: int,
    seeds: NDArray[np.uint32],
    advance: Callable[[int], None] | None,
) -> _Measured:
    values = np.empty((len(seeds), len(rows.features)))
    for run, seed in enumerate(seeds):
        try:
            values[run] = explainer.explain_row(rows, i, int(seed))
        except (InputError, MissingDependencyError):
            raise
        except StabgateError as error:
            if advance is not None:
                advance(len(seeds) - run)
            return _Measured(i, None, f"run {run} (seed {int(seed)}): {error}")
        if advance is not None:
            advance(1)
    return _Measured(i, values, None)


def _chunk(
    explainer: TableExplainer, rows: Rows, positions: Sequence[int], seeds: NDArray[np.uint32]
) -> tuple[list[_Measured], Cost]:
    before = explainer.cost
    measured = _explain_rows(explainer, rows, positions, seeds)
    return measured, explainer.cost - before


def _in_processes(
    explainer: TableExplainer, rows: Rows, positions: Sequence[int], seeds: NDArray[np.uint32], workers: int
) -> Iterable[tuple[list[_Measured], Cost]]:
    from joblib import Parallel, delayed, parallel_config

    count = min(len(positions), workers * CHUNKS_PER_WORKER)
    chunks = [list(positions[start::count]) for start in range(count)]
    with parallel_config(backend="loky", n_jobs=workers, inner_max_num_threads=1):
        tasks = (delayed(_chunk)(explainer, rows, chunk, seeds) for chunk in chunks)
        yield from Parallel(return_as="generator_unordered")(tasks)


def _workers(n_jobs: int | None) -> int | None:
    if n_jobs is None:
        under_xdist = "PYTEST_XDIST_WORKER" in os.environ
        return 1 if under_xdist or (os.cpu_count() or 1) == 1 else None
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0 or n_jobs < -1:
        raise InputError(f"n_jobs={n_jobs!r}; it must be a positive integer, -1 for every core, or None")
    return (os.cpu_count() or 1) if n_jobs == -1 else int(n_jobs)


def _worth_workers(seconds: float) -> bool:
    return seconds > WORTH_WORKERS


def _one_thread_each(workers: int | None) -> AbstractContextManager[Any]:
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
    explainer: TableExplainer,
    rows: Rows,
    measured: Sequence[_Measured],
    seeds: NDArray[np.uint32],
    seed: int,
    cost: Cost,
) -> Attributions:
    values = np.full((len(seeds), len(rows.ids), len(rows.features)), np.nan)
    failures: dict[Hashable, str] = {}
    for one in sorted(measured, key=lambda m: m.position):
        if one.values is not None:
            values[:, one.position] = one.values
        else:
            failures[rows.ids[one.position]] = one.failure or "not measured"
    provenance = {**explainer.describe(), "seed": int(seed), "runs": len(seeds), "versions": _versions()}
    return Attributions(values, rows.features, rows.ids, seeds, rows.labels, failures, provenance, cost)


def _versions() -> dict[str, str]:
    import platform

    from stabgate import __version__

    return {"stabgate": __version__, "python": platform.python_version(), "numpy": np.__version__}


