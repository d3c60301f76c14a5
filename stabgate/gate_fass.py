"""The assertion about image explanations: measure (unless that is done already), judge, raise unless PASS."""

from __future__ import annotations

from typing import Any

from stabgate.errors import InputError
from stabgate.gate import Judged, check_policy, conclude
from stabgate.measure.fass import Fass, measure_fass
from stabgate.report.fass import fass_failure_text
from stabgate.verdict.fass import MIN_PAIRS, MIN_RETENTION, check_fass_requirement, fass_requirement, judge_fass
from stabgate.verdict.verdicts import Verdict

LONGEST_LIST = 8  # numbers of an option that a replay command spells out


def assert_min_fass(
    result_or_explainer: Any,
    images: Any = None,
    *,
    score: float,
    min_retention: float = MIN_RETENTION,
    min_pairs: int = MIN_PAIRS,
    geometric: float | None = None,
    photometric: float | None = None,
    compression: float | None = None,
    above_floor: float | None = None,
    inconclusive: str = "fail",
    name: str | None = None,
    replay: str | None = None,
    **measuring: Any,
) -> Verdict:
    """Require that explanations stay alike, to a mean FASS of `score`, where perturbations keep the prediction [F].

    Args:
        result_or_explainer: a `Fass` of one method, or an explainer that is then measured on `images`.
        images: ``(n, channels, height, width)`` in [0, 1]; not with a result.
        score: least mean FASS over all retained pairs, above 0 and at most 1.
        min_retention: share of the pairs of **each** perturbation that must be retained; less is NOT MEASURED.
        min_pairs: retained pairs of each perturbation that must be there; fewer are NOT MEASURED.
        geometric, photometric, compression: least mean FASS within that family of perturbations.
        above_floor: least (FASS - floor) / (1 - floor), the floor being the score against another image's map.
        inconclusive: "fail", or "warn": an interval that straddles the requirement is then an `InconclusiveWarning`.
        name: what messages and tables call this gate; the method's name by default.
        replay: the command that a failure suggests for seeing it again.
        measuring: options of `measure_fass` (target, perturbations, protocol, seed, invariance, ...).

    Returns:
        The verdict, when it is PASS (or INCONCLUSIVE, and that only warns).

    Raises:
        StabilityError: the requirement was not met, or too little was measured to say (an AssertionError).
        InputError: the requirement, the images or an option cannot be used; several methods at once.
    """
    __tracebackhide__ = True
    check_policy(inconclusive)
    judged = judge_min_fass(
        result_or_explainer,
        images,
        score=score,
        min_retention=min_retention,
        min_pairs=min_pairs,
        geometric=geometric,
        photometric=photometric,
        compression=compression,
        above_floor=above_floor,
        name=name,
        replay=replay,
        **measuring,
    )
    return conclude(judged, inconclusive)


def judge_min_fass(
    result_or_explainer: Any,
    images: Any = None,
    *,
    score: float,
    min_retention: float = MIN_RETENTION,
    min_pairs: int = MIN_PAIRS,
    geometric: float | None = None,
    photometric: float | None = None,
    compression: float | None = None,
    above_floor: float | None = None,
    name: str | None = None,
    replay: str | None = None,
    **measuring: Any,
) -> Judged:
    """`assert_min_fass` without raising or warning.

    Raises:
        InputError: the requirement, the images or an option cannot be used; several methods at once.
    """
    asked: dict[str, Any] = {
        "score": score,
        "families": {"geometric": geometric, "photometric": photometric, "compression": compression},
        "above_floor": above_floor,
        "min_retention": min_retention,
        "min_pairs": min_pairs,
    }
    check_fass_requirement(**asked)
    if isinstance(result_or_explainer, Fass):
        given = [*(["images"] if images is not None else []), *measuring]
        if given:
            raise InputError(f"{given[0]} cannot be given with a result: it has been measured already")
        result = result_or_explainer
    else:
        if images is None:
            raise InputError("images is missing: pass the images to explain, or a Fass result")
        if isinstance(result_or_explainer, dict) and len(result_or_explainer) > 1:
            raise InputError(
                "a claim of stability is about one method: measure_fass them together, so that they share the "
                f"predictions, and assert_min_fass(result[{next(iter(result_or_explainer))!r}], score={score}) each"
            )
        result = measure_fass(result_or_explainer, images, **measuring)
    requirement = fass_requirement(result, **asked)
    verdict = judge_fass(result, requirement, name=name or result.method)
    message = "" if verdict.passed else fass_failure_text(verdict, result, replay=replay or fass_replay(result))
    return Judged(verdict, message, result)


def fass_replay(result: Fass) -> str:
    """The call that measures the same again."""
    found = result.provenance
    options = {"protocol": found["protocol"], "seed": found["seed"], **found["options"]}
    shown = ", ".join(f"{name}={_shown(value)}" for name, value in options.items())
    return f"measure_fass(explainer, images, perturbations=..., {shown}) with {', '.join(found['perturbations'])}"


def _shown(value: Any) -> str:
    return "..." if isinstance(value, list) and len(value) > LONGEST_LIST else repr(value)
