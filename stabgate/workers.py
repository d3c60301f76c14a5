"""How many processes share a measurement, how many threads each of them has, and how they are given rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from stabgate.cost import Cost
from stabgate.errors import InputError
from stabgate.rowwork import Row, Work, explain_rows

CHUNKS_PER_WORKER = 4


def worker_count(n_jobs: int | None) -> int:
    """Processes that share a measurement. None: every core, or one under pytest-xdist, where tests share them.

    Raises:
        InputError: not a positive integer, -1 or None.
    """
    cores = os.cpu_count() or 1
    if n_jobs is None:
        return cores if may_spread() else 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0 or n_jobs < -1:
        raise InputError(f"n_jobs={n_jobs!r}; it must be a positive integer, -1 for every core, or None")
    return cores if n_jobs == -1 else int(n_jobs)


def may_spread() -> bool:
    return "PYTEST_XDIST_WORKER" not in os.environ and (os.cpu_count() or 1) > 1


def one_thread_each() -> AbstractContextManager[Any]:
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


def explain_chunk(work: Work, rows: Sequence[Row]) -> tuple[list[Row], Cost]:
    before = work.explainer.cost
    found = explain_rows(work, rows)
    return found, work.explainer.cost - before


def in_processes(work: Work, rows: Sequence[Row], workers: int) -> Iterable[tuple[list[Row], Cost]]:
    from joblib import Parallel, delayed, parallel_config

    count = min(len(rows), workers * CHUNKS_PER_WORKER)
    chunks = [list(rows[start::count]) for start in range(count)]
    with parallel_config(backend="loky", n_jobs=workers, inner_max_num_threads=1):
        yield from Parallel(return_as="generator_unordered")(delayed(explain_chunk)(work, chunk) for chunk in chunks)
