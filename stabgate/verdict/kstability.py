"""From a k-stability result and a requirement to a verdict."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from stabgate.errors import InputError
from stabgate.measure.halves import least_runs
from stabgate.measure.intervals import population_share_interval
from stabgate.verdict.numbers import exact, interval_beside, required_percent
from stabgate.verdict.verdicts import KRequirement, Outcome, Verdict

if TYPE_CHECKING:
    from stabgate.measure.kresult import KStability

HALF_A_ROW = 0.5  # numbers of rows are whole: an end of an interval belongs to the nearest one
REQUIRE = ("order", "membership", "both")


def k_requirement(result: KStability, *, k: Any, share: Any = 1.0, require: str = "order") -> KRequirement:
    """The requirement that `result` will be held against; of all runs that were asked for.

    Raises:
        InputError: k is 1 (it certifies nothing), not an integer or above the number of features; a share
            outside (0, 1]; an unknown `require`; a group of all features.
    """
    check_requirement(k=k, share=share, require=require, features=len(result.attributions.features))
    return KRequirement(int(k), float(share), require, result.threshold, result.settings.rule, result.planned)


def check_requirement(*, k: Any, share: Any, require: Any, features: int | None = None) -> None:
    """Refuse a requirement that cannot be meant. `features` is checked where it is known."""
    if isinstance(k, (bool, np.bool_)) or not isinstance(k, (int, np.integer)):
        raise InputError(f"k={k!r}; it must be an integer of at least 2")
    if k < 2:
        raise InputError(f"k={k} certifies nothing: one feature has no order; ask for k=2 or more")
    if isinstance(share, (bool, np.bool_)) or not isinstance(share, (int, float, np.number)) or not 0 < share <= 1:
        raise InputError(f"share={share!r}; it must be above 0 and at most 1, the share of rows that must reach k")
    if require not in REQUIRE:
        raise InputError(f"require={require!r}; it must be one of {', '.join(REQUIRE)}")
    if features is not None:
        if k > features:
            raise InputError(f"k={k} asks for more than the {features} features there are")
        if require != "order" and k == features:
            raise InputError(
                f"require={require!r} with k={k}: the group of all {features} features has nothing to be told apart "
                f"from; ask for k of at most {features - 1}"
            )


def judge_k(result: KStability, requirement: KRequirement, *, name: str) -> Verdict:
    """Hold the interval of the share of rows that meet the requirement against the share that is required.

    The required share is a number of rows; an end of the interval reaches it from half a row below. PASS: the lower
    end reaches it. FAIL: the upper end does not. INCONCLUSIVE: it lies between. Rows that were not measured never
    count as met; where the outcome would be another one if they were, it is NOT MEASURED.
    """
    meets = result.meets(requirement.k, requirement.require)
    n, measured, met = len(meets), int(result.measured.sum()), int(meets.sum())
    unmeasured = n - measured
    outcome, reasons = outcome_of(result, requirement)
    return Verdict(
        name=name,
        outcome=outcome,
        metric=f"share of rows with {requirement.what}",
        estimate=None if measured == 0 else met / n,
        interval=result.share_interval(requirement.k, requirement.require),
        requirement=requirement,
        n=n,
        measured=measured,
        met=met,
        runs=result.attributions.runs,
        cost=result.attributions.cost,
        reasons=reasons
        if outcome is not Outcome.NOT_MEASURED
        else (*reasons, f"{unmeasured} of {n} rows were not measured and count as not met"),
        notes=(*result.notes(), *_hinging(result, requirement, outcome)),
        facts=(
            ("explainer", result.attributions.provenance.get("explainer", "")),
            ("median_k", result.median_k),
            ("mean_k", result.mean_k),
            ("mean_k_interval", result.mean_k_interval),
            ("rand_k", result.rand_k),
            ("features", len(result.attributions.features)),
            ("decided_at", decided_at(result, requirement)),
        ),
    )


def outcome_of(result: KStability, requirement: KRequirement) -> tuple[Outcome, tuple[str, ...]]:
    n, unmeasured = len(result.k), int((~result.measured).sum())
    met = int(result.meets(requirement.k, requirement.require).sum())
    needed = needed_rows(requirement.share, n)
    if unmeasured == n:
        return Outcome.NOT_MEASURED, ()
    short = f"{met} of {n} rows meet {requirement.what}, {needed} are needed ({required_percent(requirement.share)})"
    found = _reached(result, requirement, 0)
    if unmeasured and found is not Outcome.PASS and _reached(result, requirement, unmeasured) is not found:
        return Outcome.NOT_MEASURED, (short,)
    if found is Outcome.PASS:
        return found, ()
    if found is Outcome.FAIL:
        return found, (short,)
    interval = result.share_interval(requirement.k, requirement.require)
    if interval is None:
        least = least_runs(result.settings.density)
        return found, (f"{result.runs} runs have no interval: at least {least} are needed", short)
    line = decided_at(result, requirement)
    where, at = interval_beside(interval, line, as_percent=True), required_percent(round(line, 9))
    if not result.of_population:
        at += f" ({exact(needed - HALF_A_ROW)} of {n} rows, half a row below what is needed)"
    more = "more rows" if result.of_population else "more runs"
    return found, (
        f"the 95 % interval of the share, {where}, straddles {at}; {more}, or a lower requirement, decide",
        short,
    )


def decided_at(result: KStability, requirement: KRequirement) -> float:
    """The share that the ends of the interval are held against."""
    if result.of_population:
        return requirement.share
    return (needed_rows(requirement.share, len(result.k)) - HALF_A_ROW) / len(result.k)


def _reached(result: KStability, requirement: KRequirement, more: int) -> Outcome:
    """The outcome if `more` rows met the requirement for certain."""
    n = len(result.k)
    if result.of_population:
        met = int(result.meets(requirement.k, requirement.require).sum())
        low, high = population_share_interval(met + more, n)
        return between(low, high, requirement.share)
    interval = result.count_interval(requirement.k, requirement.require)
    if interval is None:
        return Outcome.INCONCLUSIVE
    return between(interval[0] + more, interval[1] + more, needed_rows(requirement.share, n) - HALF_A_ROW)


def between(low: float, high: float, least: float) -> Outcome:
    """What an interval says of the least value that is asked for."""
    return Outcome.PASS if low >= least else Outcome.FAIL if high < least else Outcome.INCONCLUSIVE


def needed_rows(share: float, rows: int) -> int:
    """The number of rows that a share of `rows` is."""
    return math.ceil(share * rows - 1e-9)


def _hinging(result: KStability, requirement: KRequirement, outcome: Outcome) -> tuple[str, ...]:
    """A word where the outcome would be another one if distances moved by what other machines make of them."""
    count = int(result.hinging(requirement.k, requirement.require).sum())
    if not count or outcome is Outcome.NOT_MEASURED:
        return ()
    if _reached(result, requirement, count) is _reached(result, requirement, -count):
        return ()
    return (
        f"the verdict hinges on distances within 1e-6 of the threshold on {count} rows: another machine may differ",
    )
