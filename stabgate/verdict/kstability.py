"""From a k-stability result and a requirement to a verdict."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from stabgate.errors import InputError
from stabgate.verdict.verdicts import KRequirement, Outcome, Verdict, percent

if TYPE_CHECKING:
    from stabgate.measure.kresult import KStability

REQUIRE = ("order", "membership", "both")


def k_requirement(result: KStability, *, k: Any, share: Any = 1.0, require: str = "order") -> KRequirement:
    """The requirement that `result` will be held against.

    Raises:
        InputError: k is 1 (it certifies nothing), not an integer or above the number of features; a share
            outside (0, 1]; an unknown `require`; a group of all features.
    """
    check_requirement(k=k, share=share, require=require, features=len(result.attributions.features))
    return KRequirement(int(k), float(share), require, result.threshold, result.settings.rule, result.runs)


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
    """Compare the share of rows that meet the requirement with the share that is required.

    Rows that were not measured never count as met. Where they alone could change the answer, the outcome is
    NOT MEASURED.
    """
    meets = result.meets(requirement.k, requirement.require)
    n, measured, met = len(meets), int(result.measured.sum()), int(meets.sum())
    needed = math.ceil(requirement.share * n - 1e-9)
    unmeasured = n - measured
    reasons: list[str] = []
    if measured == 0:
        outcome = Outcome.NOT_MEASURED
    elif met >= needed:
        outcome = Outcome.PASS
    elif met + unmeasured >= needed:
        outcome = Outcome.NOT_MEASURED
    else:
        outcome = Outcome.FAIL
    if outcome is not Outcome.PASS:
        reasons.append(
            f"{met} of {n} rows meet {_what(requirement)}, {needed} are needed ({percent(requirement.share)})"
        )
    if outcome is Outcome.NOT_MEASURED:
        reasons.append(f"{unmeasured} of {n} rows were not measured and count as not met")
    return Verdict(
        name=name,
        outcome=outcome,
        metric=f"share of rows with {_what(requirement)}",
        estimate=None if measured == 0 else met / n,
        interval=None,
        requirement=requirement,
        n=n,
        measured=measured,
        met=met,
        runs=result.attributions.runs,
        cost=result.attributions.cost,
        reasons=tuple(reasons),
        notes=result.notes(),
        facts=(
            ("explainer", result.attributions.provenance.get("explainer", "")),
            ("median_k", result.median_k),
            ("rand_k", result.rand_k),
            ("features", len(result.attributions.features)),
        ),
    )


def _what(requirement: KRequirement) -> str:
    return str(requirement).removesuffix(f" on {percent(requirement.share)} of rows")
