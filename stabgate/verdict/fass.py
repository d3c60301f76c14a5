"""From a FASS result and a requirement to a verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from stabgate.cost import Cost
from stabgate.errors import InputError
from stabgate.verdict.numbers import beside, exact, interval_beside, percent_beside, required_percent
from stabgate.verdict.verdicts import FassRequirement, Outcome, Verdict

if TYPE_CHECKING:
    from stabgate.measure.fass import Fass, Summary

MIN_RETENTION = 0.1
MIN_PAIRS = 5
HINGE = 1e-9  # other machines agree to this
FAMILIES = ("geometric", "photometric", "compression")


def check_fass_requirement(
    *,
    score: Any,
    families: Mapping[str, Any] | None = None,
    above_floor: Any = None,
    min_retention: Any = MIN_RETENTION,
    min_pairs: Any = MIN_PAIRS,
) -> None:
    """Refuse a requirement that cannot be meant.

    Raises:
        InputError: a score outside (0, 1], a share outside [0, 1], or fewer than one pair.
    """
    named = {"score": score, **(families or {}), "above_floor": above_floor}
    for name, value in named.items():
        if value is None and name != "score":
            continue
        if not _number(value) or not 0 < value <= 1:
            raise InputError(f"{name}={value!r}; it must be above 0 and at most 1, the least score that is enough")
    if not _number(min_retention) or not 0 <= min_retention <= 1:
        raise InputError(f"min_retention={min_retention!r}; it must be from 0 to 1, the share of pairs to be retained")
    if isinstance(min_pairs, (bool, np.bool_)) or not isinstance(min_pairs, (int, np.integer)) or min_pairs < 1:
        raise InputError(f"min_pairs={min_pairs!r}; it must be an integer of at least 1")


def fass_requirement(
    result: Fass,
    *,
    score: Any,
    families: Mapping[str, Any] | None = None,
    above_floor: Any = None,
    min_retention: Any = MIN_RETENTION,
    min_pairs: Any = MIN_PAIRS,
) -> FassRequirement:
    """The requirement that `result` will be held against.

    Args:
        families: least score by family; None asks nothing of it.

    Raises:
        InputError: as `check_fass_requirement`; several methods in the result; a family that no perturbation is of.
    """
    wanted = {name: least for name, least in (families or {}).items() if least is not None}
    check_fass_requirement(
        score=score, families=wanted, above_floor=above_floor, min_retention=min_retention, min_pairs=min_pairs
    )
    if len(result.methods) > 1:
        raise InputError(
            f"{len(result.methods)} methods were measured and a claim of stability is about one: assert each, as in "
            f"assert_min_fass(result[{result.methods[0]!r}], score={score})"
        )
    present = {p.family for p in result.perturbations}
    for name in wanted:
        if name not in present:
            raise InputError(f"{name}={wanted[name]}: no {name} perturbation was measured, only {_list(present)}")
    return FassRequirement(
        float(score),
        tuple((name, float(wanted[name])) for name in FAMILIES if name in wanted),
        None if above_floor is None else float(above_floor),
        float(min_retention),
        int(min_pairs),
        str(result.provenance["protocol"]),
    )


def judge_fass(result: Fass, requirement: FassRequirement, *, name: str) -> Verdict:
    """Compare the scores of one method with what is required.

    PASS: the lower end of the 95 % interval of every score (clustered by image) reaches what is required of it. FAIL:
    the upper end of one does not. INCONCLUSIVE: neither, or there is one image only and so no interval.

    NOT MEASURED, whatever the scores: a perturbation with too few retained pairs, maps that are sampling noise, a
    floor that is required and missing, and pairs without a score (no signal, error) that could change the answer.
    """
    total = result.summary
    families = {family.name: family for family in result.by_family()}
    wanted: list[tuple[str, Summary, float]] = [("FASS", total, requirement.score)]
    wanted += [(family, families[family], least) for family, least in requirement.families]
    missing = [_short(result, part, requirement) for part in result.by_perturbation() if _few(part, requirement)]
    if result.only_noise:
        missing.append("the maps are sampling noise: re-seeded, an image is no closer to itself than to another")
    floor = result.floor
    if requirement.above_floor is not None and (floor is None or result.alike):
        why = result.references[result.method][0].note if floor is None else f"it is {floor:.2f}"
        missing.append(f"no floor to stand above: {why}")
    elif requirement.above_floor is not None and floor is not None:
        least = round(floor + requirement.above_floor * (1.0 - floor), 6)  # what is compared is what is shown
        wanted.append((f"above the floor of {floor:.3f}: FASS", total, least))
    found = [(what, part, least, _reached(part, least)) for what, part, least in wanted]
    below = [_falls_short(*one[:3]) for one in found if one[3] is Outcome.FAIL]
    unsure = [_straddles(*one[:3]) for one in found if one[3] is Outcome.INCONCLUSIVE]
    if not missing and below and not any(_fails(part, least, 1.0) for _, part, least in wanted):
        missing.append(_unscored(total, "above"))
    if not missing and not below and not unsure and any(_fails(part, least, 0.0) for _, part, least in wanted):
        missing.append(_unscored(total, "below"))
    outcome = (
        Outcome.NOT_MEASURED if missing else Outcome.FAIL if below else Outcome.INCONCLUSIVE if unsure else Outcome.PASS
    )
    hinging = [
        f"the verdict hinges on {what} within 1e-9 of {exact(least)}: another machine may differ"
        for what, part, least in wanted
        if any(end is not None and abs(end - least) < HINGE for end in (part.low, part.high))
    ]
    cost = result.cost
    forward = cost.predictions + cost.forward + cost.reference_forward
    return Verdict(
        name=name,
        outcome=outcome,
        metric="FASS",
        estimate=total.fass,
        interval=result.interval,
        requirement=requirement,
        n=total.attempted,
        measured=total.retained,
        met=sum(pair.fass is not None and pair.fass >= requirement.score for pair in result.pairs),
        runs=1,
        cost=Cost(rows=forward, rows_asked=forward, seconds=cost.seconds),
        reasons=(*missing, *below, *unsure),
        notes=(*result.notes(), *hinging),
        facts=(
            ("explainer", result.method),
            ("model", result.provenance["model"]),
            ("floor", result.floor),
            ("reseed", result.reseed),
            ("above_floor", result.score_above_floor),
            ("backward", cost.backward + cost.reference_backward),
            ("parts", tuple(_part(part) for part in (total, *(families.values() if len(families) > 1 else ())))),
        ),
    )


def _reached(part: Summary, least: float) -> Outcome:
    if part.low is None or part.high is None:
        return Outcome.INCONCLUSIVE
    return Outcome.PASS if part.low >= least else Outcome.FAIL if part.high < least else Outcome.INCONCLUSIVE


def _falls_short(what: str, part: Summary, least: float) -> str:
    return f"{what} {beside(part.fass, least)} is below {exact(least)}"


def _straddles(what: str, part: Summary, least: float) -> str:
    if part.low is None or part.high is None:
        return f"{what} is of one image: there is no interval, give more images"
    return (
        f"{what} {beside(part.fass, least)} has a 95 % interval of {interval_beside((part.low, part.high), least)}, "
        f"which straddles {exact(least)}: more images, or a lower requirement, decide"
    )


def _few(part: Summary, requirement: FassRequirement) -> bool:
    return part.retained < requirement.min_pairs or part.retention < requirement.min_retention


def _short(result: Fass, part: Summary, requirement: FassRequirement) -> str:
    """Why a perturbation was not measured, and what would help."""
    share, least = requirement.min_retention, requirement.min_pairs
    text = (
        f"{part.name}: {part.retained} of {part.attempted} pairs retained "
        f"({percent_beside(part.retention, share)}); {least} pairs and {required_percent(share)} are needed"
    )
    lost = [
        f"{count} {what}"
        for count, what in ((part.changed, "prediction changed"), (part.no_signal, "no signal"), (part.errors, "error"))
        if count
    ]
    text += f" ({', '.join(lost)})" if lost else ""
    if len(result.images) < least:
        return f"{text}; give at least {least} images"
    if part.attempted - part.changed >= max(least, math.ceil(share * part.attempted - 1e-9)):
        return text  # enough predictions held: a milder severity is not what is missing
    tries = result.tries(part.name, min_retention=share, min_pairs=least)
    if tries is None:
        return text
    if not tries:
        return f"{text}; choose a milder one (which severities of {part.name} are milder is known to you alone)"
    found = next((t for t in tries if t.enough(min_retention=share, min_pairs=least)), None)
    if found is not None:
        return f"{text}; {found.perturbation.label} would keep {found.kept} of {found.attempted}"
    best = max(tries, key=lambda t: t.kept)
    if not best.kept:
        return f"{text}; no prediction holds even at {tries[-1].perturbation.label}"
    return f"{text}; {best.perturbation.label} would keep {best.kept} of {best.attempted}: give more images too"


def _fails(part: Summary, least: float, score: float) -> bool:
    """Whether the mean is below `least` once every pair without a score is given this one."""
    without = part.no_signal + part.errors
    if part.fass is None or not without:
        return part.fass is None or part.fass < least
    return (part.fass * part.retained + score * without) / (part.retained + without) < least


def _unscored(total: Summary, side: str) -> str:
    without = [f"{n} {what}" for n, what in ((total.no_signal, "without signal"), (total.errors, "with an error")) if n]
    return f"pairs that have no score ({', '.join(without)}) could bring the mean {side} what is required"


def _part(part: Summary) -> tuple[Any, ...]:
    return (part.name, part.ssim, part.spearman, part.jaccard, part.fass, part.retention)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, (bool, np.bool_))


def _list(names: set[Any]) -> str:
    return " and ".join(sorted(map(str, names)))
