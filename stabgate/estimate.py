"""What a measurement will cost, asked before it is started."""

from __future__ import annotations

import time
from typing import Any

from stabgate.errors import ExplainerError, InputError, MissingDependencyError, StabgateError
from stabgate.forecast import TRIAL_RUNS, CostEstimate, Trial
from stabgate.runs import as_explainer, check_count
from stabgate.seeds import row_seed
from stabgate.selection import choose_rows
from stabgate.workers import worker_count

ROWS_TRIED = 3


def estimate_cost(
    explainer: Any,
    X: Any,
    *,
    target: Any = None,
    runs: int = 50,
    seed: int = 0,
    rows: Any = None,
    n_jobs: int | None = 1,
) -> CostEstimate:
    """Explain one row twice and extrapolate to a whole measurement.

    The two runs are the measurement's own first two, so they may be slower or faster than the average: rows differ,
    and runs on one row share model rows. Nothing is read from the cache and nothing is kept in it.

    Args:
        explainer, X, target, runs, seed, rows: as in `stabgate.measure_k_stability`.
        n_jobs: processes that would share the work, -1 for every core; None as in a measurement.

    Returns:
        Model rows, seconds and, from ten minutes on, advice.

    Raises:
        InputError: the data or an option cannot be used.
        ModelError: the model raises on X, or varies between identical calls.
        ExplainerError: none of the first three rows could be explained.
    """
    check_count("runs", runs, least=2, why="one run has no distribution")
    check_count("seed", seed, least=0)
    workers = worker_count(n_jobs)
    explainer = as_explainer(explainer)
    started, before = time.perf_counter(), explainer.cost
    chosen, ids = choose_rows(X, rows, seed=seed)
    prepared = explainer.prepare(chosen, target=target, ids=ids)
    trial = Trial(explainer, len(prepared.ids), runs, workers, before, started)
    failure: StabgateError | None = None
    for i in range(min(ROWS_TRIED, len(prepared.ids))):
        trial.restart()
        try:
            with explainer.remembering():
                for run in range(TRIAL_RUNS):
                    explainer.explain_row(prepared, i, row_seed(seed, run, prepared.ids[i]))
                    estimate = trial.ran()
                    if estimate is not None:
                        return estimate
        except (InputError, MissingDependencyError):
            raise
        except StabgateError as error:
            failure = error
    raise ExplainerError(f"no cost can be told: the first {i + 1} rows could not be explained ({failure})") from failure
