"""Whether a verdict is settled before all runs are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabgate.seeds import row_seed
from stabgate.verdict.kstability import outcome_of
from stabgate.verdict.prediction import LEAST_RUNS, forecast, is_settled, probabilities
from stabgate.verdict.verdicts import KRequirement, Outcome

if TYPE_CHECKING:
    from stabgate.measure.kresult import KStability

STEP = 2  # runs between two looks, at least


def looks(runs: int) -> list[int]:
    """Numbers of runs at which to look, below `runs`: 10, and then a fifth more each time, or two."""
    found = []
    m = LEAST_RUNS
    while m < runs:
        found.append(m)
        m += max(STEP, m // 5)
    return found


def settled(result: KStability, requirement: KRequirement) -> Outcome | None:
    """PASS or FAIL where `result` says so, and so will ``requirement.runs`` runs in all likelihood; otherwise None.

    Args:
        result: of fewer runs.
        requirement: that all runs are held against.
    """
    where = np.flatnonzero(result.measured)
    if not where.size or not LEAST_RUNS <= result.runs < requirement.runs:
        return None
    seed = row_seed(int(result.attributions.provenance.get("seed", 0)), result.runs, "runs to come")
    ahead = forecast(result.attributions.values[:, where], result.settings, requirement, seed)
    found = probabilities(ahead, requirement, len(result.k), seed, population=result.of_population)
    likely = max(found, key=lambda outcome: found[outcome])
    # Half-samples take longer than the forecast: they are left to the looks that may be the last one.
    return likely if is_settled(likely, found) and outcome_of(result, requirement)[0] is likely else None
