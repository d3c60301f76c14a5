"""The assertion against an earlier measurement: compare, judge, raise unless PASS."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from stabgate.baselines import find_baseline
from stabgate.baselines.document import Baseline
from stabgate.cost import Cost
from stabgate.errors import InputError
from stabgate.gate import Judged, check_policy, conclude, k_replay
from stabgate.gate_fass import fass_replay
from stabgate.logged_models import is_registered, nearest_scheme, scheme_of
from stabgate.measure.fass import Fass
from stabgate.measure.kresult import KStability
from stabgate.measure.record import Record
from stabgate.report.regression import regression_failure_text
from stabgate.verdict.regression import EARLIER, judge_regression, regression_requirement
from stabgate.verdict.verdicts import Verdict


def assert_no_regression(
    result: KStability | Fass,
    baseline: Any = None,
    *,
    max_drop: float,
    k: int | None = None,
    name: str | None = None,
    inconclusive: str = "fail",
    replay: str | None = None,
) -> Verdict:
    """Require that a measurement has not fallen below an earlier one by more than `max_drop`.

    It fails only if the drop exceeds the margin and is significant at 0.01 (one-sided). How good the value is in
    itself is another requirement: `assert_min_k_stability`, `assert_min_fass`.

    Args:
        result: what was measured now: a `KStability`, or a `Fass` of one method.
        baseline: what it is compared with: an earlier result or `Record`, or the name or path of a baseline file.
            None: the baseline file called `name`. "models:/credit@champion": the measurement of that version of a
            registered model that was logged to MLflow, by the gate called `name` or else with the same explainer.
        max_drop: by how much the value may fall, at least 0, in its own unit: ranks for mean k, shares for `k`, FASS.
        k: compare the share of rows that reach it (k-stability); None compares mean k.
        name: what messages and tables call this gate; the explainer's name by default.
        inconclusive: "fail", or "warn": what INCONCLUSIVE does; two measurements that differ in rows, runs, explainer
            settings or anything else that can change values whatever the model are INCONCLUSIVE.
        replay: the command that a failure suggests for seeing it again.

    Returns:
        The verdict, when it is PASS (or INCONCLUSIVE, and that only warns). Its estimate is the drop.

    Raises:
        StabilityError: the value fell, or the two cannot be compared (an AssertionError).
        InputError: the baseline does not exist, is of another metric, or an option cannot be used.
    """
    __tracebackhide__ = True
    check_policy(inconclusive)
    judged = judge_no_regression(result, baseline, max_drop=max_drop, k=k, name=name, replay=replay)
    return conclude(judged, inconclusive)


def judge_no_regression(
    result: KStability | Fass,
    baseline: Any = None,
    *,
    max_drop: float,
    k: int | None = None,
    name: str | None = None,
    replay: str | None = None,
    called: str | None = None,
) -> Judged:
    """`assert_no_regression` without raising or warning; `called` is what messages call the baseline.

    Raises:
        InputError: the baseline does not exist, is of another metric, or an option cannot be used.
    """
    if not isinstance(result, (KStability, Fass)):
        raise InputError(
            f"a regression is about a result, not {type(result).__name__}: measure first, with measure_k_stability or "
            "measure_fass"
        )
    now = Record.of(result)
    label = called or _label(baseline, name)
    regression_requirement(now, max_drop=max_drop, k=k, baseline=label)  # a wrong option needs no baseline
    before, found, accepted = _before(baseline, name, now)
    label = called or found or label
    explainer = str(now.explainer.get("explainer", "explainer"))
    verdict = judge_regression(now, before, max_drop=max_drop, k=k, name=name or explainer, baseline=label)
    if isinstance(result, KStability):
        cost = result.attributions.cost
    else:
        images = result.cost.predictions + result.cost.forward + result.cost.reference_forward
        cost = Cost(rows=images, rows_asked=images, seconds=result.cost.seconds)
    verdict = replace(verdict, cost=cost, notes=(*verdict.notes, *accepted, *result.notes()))
    seen = replay or (k_replay(result) if isinstance(result, KStability) else fass_replay(result))
    message = "" if verdict.passed else regression_failure_text(verdict, replay=seen)
    return Judged(verdict, message, result, before)


def _before(baseline: Any, name: str | None, now: Record) -> tuple[Record, str, tuple[str, ...]]:
    """The earlier measurement, wherever it is; what exactly was found, where the address does not say that; and who
    accepted it.
    """
    if isinstance(baseline, Baseline):
        return baseline.record, "", (f"the baseline was {baseline.accepted}",)
    if isinstance(baseline, Record):
        return baseline, "", ()
    if isinstance(baseline, (KStability, Fass)):
        return Record.of(baseline), "", ()
    wanted = name if baseline is None else baseline
    if not isinstance(wanted, (str, os.PathLike)) or not str(wanted):
        found = "nothing" if wanted is None else type(wanted).__name__
        raise InputError(
            f"baseline is missing (found {found}): give the name or path of a baseline file, a Record, or an earlier "
            "result"
        )
    if is_registered(wanted):
        from stabgate.tracking import registry_baseline

        record, found = registry_baseline(str(wanted), name=name, like=now)
        return record, f"baseline {wanted} ({found})", ()
    if scheme_of(str(wanted)):
        raise InputError(
            f"baseline {str(wanted)!r} is not the address of one{nearest_scheme(str(wanted), ('models',))} (a baseline "
            "is a name, a path to a baseline file, models:/name@alias or models:/name/version)"
        )
    return _before(find_baseline(os.fspath(wanted)), name, now)


def _label(baseline: Any, name: str | None) -> str:
    if isinstance(baseline, (str, os.PathLike)):
        return f"baseline {os.fspath(baseline)}"
    return f"baseline {name}" if baseline is None else EARLIER
