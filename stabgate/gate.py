"""The assertions: measure (unless that is done already), judge, and raise a reason when the outcome is not PASS."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from inspect import signature
from typing import TYPE_CHECKING, Any

from stabgate.budget import Budget
from stabgate.errors import InconclusiveWarning, InputError, StabilityError
from stabgate.measure.kresult import KStability
from stabgate.measure.kstability import measure_k_stability
from stabgate.report.text import failure_text
from stabgate.sequential import Measured, measure_in_blocks
from stabgate.verdict.kstability import check_requirement, judge_k, k_requirement
from stabgate.verdict.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from stabgate.measure.fass import Fass
    from stabgate.measure.record import Record

POLICIES = ("fail", "warn")


def assert_min_k_stability(
    result_or_explainer: Any,
    X: Any = None,
    *,
    k: int,
    share: float = 1.0,
    require: str = "order",
    early: bool = True,
    budget: str | None = None,
    inconclusive: str = "fail",
    name: str | None = None,
    replay: str | None = None,
    **measuring: Any,
) -> Verdict:
    """Require that at least `share` of the rows keep the order of their first `k` features over repeated runs.

    Args:
        result_or_explainer: a `KStability`, or an explainer that is then measured on `X`.
        X: rows to explain; not with a result.
        k: 2..n. k = 1 would certify nothing and is refused.
        share: in (0, 1]; rows that could not be measured count as not meeting the requirement.
        require: "order": the first k are separated from each other ([K] Definition 1); "membership": each of the
            first k is separated from all others ([K] A.1), so the set cannot change; "both".
        early: runs are added in blocks and end once the verdict is settled: it is PASS or FAIL by the runs at hand, and
            the opposite by all of them with a probability of at most 0.001. k are then at fewer runs, the same number
            for all rows. False measures all runs.
        budget: what the measurement may cost: "3m", "90s", "500000 rows" (of the model), or both: "3m, 500000 rows". It
            is checked between explanations; where it ends before the verdict is settled, that is INCONCLUSIVE, and
            NOT MEASURED where not even four runs of every row are there.
        inconclusive: "fail", or "warn": an interval that straddles the requirement is then an `InconclusiveWarning`.
        name: what messages and tables call this gate; the explainer's name by default.
        replay: the command that a failure suggests for seeing it again.
        measuring: options of `measure_k_stability` (target, runs, threshold, rule, value, density, seed, ...).

    Returns:
        The verdict, when it is PASS (or INCONCLUSIVE, and that only warns).

    Raises:
        StabilityError: the requirement was not met, or too little was measured to say (an AssertionError).
        InputError: the requirement, the data or an option cannot be used.
    """
    __tracebackhide__ = True
    check_policy(inconclusive)
    judged = judge_min_k_stability(
        result_or_explainer,
        X,
        k=k,
        share=share,
        require=require,
        early=early,
        budget=budget,
        name=name,
        replay=replay,
        **measuring,
    )
    return conclude(judged, inconclusive)


@dataclass(frozen=True, eq=False)
class Judged:
    """A gate before its verdict is acted upon.

    Attributes:
        verdict: what was found.
        message: why it did not pass, in full; empty where it did.
        result: what was measured.
        before: the earlier measurement that it was compared with, where it was.
    """

    verdict: Verdict
    message: str
    result: KStability | Fass
    before: Record | None = None


def judge_min_k_stability(
    result_or_explainer: Any,
    X: Any = None,
    *,
    k: int,
    share: float = 1.0,
    require: str = "order",
    early: bool = True,
    budget: str | None = None,
    name: str | None = None,
    replay: str | None = None,
    **measuring: Any,
) -> Judged:
    """`assert_min_k_stability` without raising or warning.

    Raises:
        InputError: the requirement, the data or an option cannot be used.
    """
    check_requirement(k=k, share=share, require=require)
    if not isinstance(early, bool):
        raise InputError(f"early={early!r}; it must be True or False")
    limit = None if budget is None else Budget.of(budget)
    if isinstance(result_or_explainer, KStability):
        given = [*(["X"] if X is not None else []), *(["budget"] if budget is not None else []), *measuring]
        if given:
            raise InputError(f"{given[0]} cannot be given with a result: it has been measured already")
        measured = Measured(result_or_explainer)
    else:
        if X is None:
            raise InputError("X is missing: pass the rows to explain, or a KStability result")
        features = getattr(X, "shape", (0, 0))[-1] if getattr(X, "ndim", 0) == 2 else None
        check_requirement(k=k, share=share, require=require, features=features)
        refuse_unknown_options(measuring)
        options = measuring_defaults() | measuring
        asked: dict[str, Any] = {"k": k, "share": share, "require": require}
        measured = measure_in_blocks(result_or_explainer, X, options, asked, early=early, budget=limit)
    result = measured.result
    requirement = k_requirement(result, k=k, share=share, require=require)
    explainer = str(result.attributions.provenance.get("explainer", "explainer"))
    verdict = measured.marked(judge_k(result, requirement, name=name or explainer))
    message = "" if verdict.passed else failure_text(verdict, result, replay=replay or k_replay(result))
    return Judged(verdict, message, result)


def check_policy(inconclusive: Any) -> None:
    """Refuse another policy than "fail" and "warn"."""
    if inconclusive not in POLICIES:
        raise InputError(f"inconclusive={inconclusive!r}; it must be one of {', '.join(POLICIES)}")


def conclude(judged: Judged, inconclusive: str) -> Verdict:
    """The verdict of a gate that passed; raise what another one has to say, or warn where it says to.

    Raises:
        StabilityError: the outcome is not PASS (nor INCONCLUSIVE where that only warns).
    """
    __tracebackhide__ = True
    verdict = judged.verdict
    if verdict.outcome is Outcome.INCONCLUSIVE and inconclusive == "warn":
        warnings.warn(judged.message, InconclusiveWarning, stacklevel=3)
    elif not verdict.passed:
        raise StabilityError(judged.message, verdict)
    return verdict


def measuring_defaults() -> dict[str, Any]:
    """The options of `measure_k_stability` that have a default, with it."""
    parameters = signature(measure_k_stability).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def refuse_unknown_options(measuring: Mapping[str, Any]) -> None:
    """Refuse what is no option of `measure_k_stability`, naming the nearest one that is."""
    known = list(measuring_defaults())
    for option in measuring:
        if option not in known:
            others = ("k", "share", "require", "early", "budget", "inconclusive", "name")
            near = get_close_matches(option, [*known, *others], 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InputError(f"unknown option {option}{hint} (known: {', '.join(known)})")


def k_replay(result: KStability) -> str:
    """The call that measures the same again."""
    seed = result.attributions.provenance.get("seed", 0)
    return f"measure_k_stability(explainer, X, runs={result.planned}, threshold={result.threshold:g}, seed={seed})"
