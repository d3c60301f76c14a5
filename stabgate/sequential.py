"""A gate that measures itself: runs are added in blocks until the verdict is settled, or the budget ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from stabgate.budget import Budget
from stabgate.errors import BudgetError
from stabgate.measure.halves import LEAST_RUNS
from stabgate.measure.kresult import KStability
from stabgate.measure.kstability import of_attributions, started
from stabgate.measure.numbers import KSettings
from stabgate.runs import check_count
from stabgate.verdict.early import looks, settled
from stabgate.verdict.kstability import k_requirement
from stabgate.verdict.verdicts import Outcome, Verdict


@dataclass(frozen=True, eq=False)
class Measured:
    """What was measured for a gate, and why there are no more runs.

    Attributes:
        result: all its rows have the same number of runs.
        settled: the verdict of these runs will be that of all of them.
        ended: how the budget ended the measurement; empty where it did not.
        runs: that all rows have, where it did; the result has none where they are too few for a distribution.
    """

    result: KStability
    settled: bool = True
    ended: str = ""
    runs: int = 0

    def marked(self, verdict: Verdict) -> Verdict:
        """`verdict`, of `result`, with what fewer runs mean for it."""
        planned = self.result.planned
        if self.settled:
            early = f"settled after {verdict.runs} of {planned} runs: k are at {verdict.runs} runs"
            return verdict if verdict.runs == planned else replace(verdict, notes=(early, *verdict.notes))
        decided = verdict.outcome in (Outcome.PASS, Outcome.FAIL)
        return replace(
            verdict,
            outcome=Outcome.INCONCLUSIVE if decided else verdict.outcome,
            runs=self.runs,
            reasons=(self.ended, *verdict.reasons),
        )


def measure_in_blocks(
    explainer: Any,
    X: Any,
    options: Mapping[str, Any],
    asked: Mapping[str, Any],
    *,
    early: bool,
    budget: Budget | None,
) -> Measured:
    """Measure until a requirement is settled, its budget ends, or all runs are there.

    Args:
        options: all of `stabgate.measure_k_stability`.
        asked: what `k_requirement` takes beside the result.
        early: whether to look before all runs are there.
        budget: None for no limit.
    """
    settings, collecting = _parts(options)
    check_count("runs", options["runs"], least=2, why="one run has no distribution")
    with started(explainer, X, settings, collecting, budget=budget) as collection:
        for runs in _blocks(options["runs"], early=early, budget=budget):
            complete = collection.advance(runs)
            if complete and (not early or runs == options["runs"]):
                continue
            result = of_attributions(collection.attributions(least=min(LEAST_RUNS, options["runs"])), settings)
            if settled(result, k_requirement(result, **asked)) is not None:
                return Measured(result)
            if not complete:
                found = collection.runs
                ended = f"the budget of {budget} ended after {found} of {options['runs']} runs"
                return Measured(result, settled=False, ended=ended, runs=found)
        return Measured(of_attributions(collection.attributions(), settings))


def measure_whole(explainer: Any, X: Any, options: Mapping[str, Any], budget: Budget) -> KStability:
    """`stabgate.measure_k_stability` within a budget: all runs, as a comparison needs them, or none.

    Args:
        options: all of `stabgate.measure_k_stability`.

    Raises:
        BudgetError: the budget ended first. What was computed until then is in the cache, where there is one.
    """
    settings, collecting = _parts(options)
    with started(explainer, X, settings, collecting, budget=budget) as collection:
        if not collection.advance(options["runs"]):
            raise BudgetError(
                f"the budget of {budget} ended after {collection.runs} of {options['runs']} runs, and all are needed: "
                "give it more, or measure fewer rows or runs"
            )
        return of_attributions(collection.attributions(), settings)


def _parts(options: Mapping[str, Any]) -> tuple[KSettings, dict[str, Any]]:
    """What k depends on, and what the runs depend on."""
    names = {f.name for f in fields(KSettings)}
    settings = KSettings(**{name: options[name] for name in names})
    return settings, {name: value for name, value in options.items() if name not in names}


def _blocks(runs: int, *, early: bool, budget: Budget | None) -> list[int]:
    """Where to stop and look. A budget may end anywhere: rows then keep what all of them have."""
    found = looks(runs) if early or budget is not None else []
    if budget is not None and runs > LEAST_RUNS:
        found = [LEAST_RUNS, *found]
    return [*found, runs]
