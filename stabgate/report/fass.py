"""Plain text of FASS gates: what a failed one says, and the table in the layout of [F] (Tables 4 and 5)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from stabgate.report.plain import plain
from stabgate.verdict.numbers import beside, interval_beside
from stabgate.verdict.verdicts import FassRequirement, Verdict

if TYPE_CHECKING:
    from stabgate.measure.fass import Fass, Pair, Summary

WORST_PAIRS = 5
WORST_PERTURBATIONS = 3
ERRORS_SHOWN = 3

FASS_HEADINGS = (
    "gate",
    "method",
    "perturbations",
    "SSIM",
    "Spn.",
    "Jac.",
    "FASS",
    "retention",
    "floor",
    "re-seed",
    "requirement",
    "verdict",
)
FASS_NUMERIC = frozenset({3, 4, 5, 6, 7, 8, 9})
NAMES = {"ssim": "SSIM", "spearman": "rank correlation", "jaccard": "top-k overlap"}


def fass_failure_text(verdict: Verdict, result: Fass, *, replay: str) -> str:
    """Why a gate did not pass: required against measured, floor and re-seed beside it, the worst pairs, the replay."""
    requirement = verdict.requirement
    assert isinstance(requirement, FassRequirement)
    measured = "measured nothing"
    if verdict.estimate is not None:
        measured = f"measured {beside(verdict.estimate, requirement.score)}"
        if verdict.interval is not None:
            measured += f" (95 % interval {interval_beside(verdict.interval, requirement.score)}, by image)"
    lines = [
        f"{verdict.outcome}: {plain(verdict.name)}: required {requirement}, {measured} over {verdict.measured} of "
        f"{verdict.n} pairs [{requirement.protocol}, {verdict.fact('explainer')} on {verdict.fact('model')}]"
    ]
    lines += [f"  {reason}" for reason in verdict.reasons]
    above = verdict.fact("above_floor")
    lines.append(
        f"  floor (another image's map) {score(verdict.fact('floor'))}, re-seed (same image, another seed) "
        f"{score(verdict.fact('reseed'))}"
        + ("" if above is None else f", {beside(above, requirement.above_floor or 0.0)} above the floor")
    )
    worst = sorted(
        (part for part in result.by_perturbation() if part.fass is not None), key=lambda part: part.fass or 0.0
    )
    lines += [f"  {_perturbation(part, result)}" for part in worst[:WORST_PERTURBATIONS]]
    lines += [f"  {_pair(pair, result)}" for pair in result.worst(WORST_PAIRS)]
    failed = [pair for pair in result.pairs if pair.status == "error"]
    lines += [
        f"  image {pair.image!r}, {pair.perturbation}: error: {plain(pair.reason)}" for pair in failed[:ERRORS_SHOWN]
    ]
    if len(failed) > ERRORS_SHOWN:
        lines.append(f"  and {len(failed) - ERRORS_SHOWN} more pairs with an error")
    lines += [f"  note: {note}" for note in verdict.notes]
    lines.append(f"  {scope(result)}")
    lines.append(f"  replay: {replay}")
    return "\n".join(lines)


def scope(result: Fass) -> str:
    """What the claim is about: the pair of model and method, with the method's settings."""
    settings = result.provenance["methods"][result.method].get("settings", {})
    shown = json.dumps(settings, default=str, ensure_ascii=False)
    return f"this is about {result.provenance['model']} explained by {result.method} with {shown}, and no other pair"


def score(value: float | None) -> str:
    """Three decimals, as in [F]; "-" for None."""
    return "-" if value is None else f"{value:.3f}"


def fass_rows(verdict: Verdict) -> list[tuple[str, ...]]:
    """One gate as rows of the table: all its pairs, then each family of perturbations."""
    rows = []
    requirement = verdict.requirement
    assert isinstance(requirement, FassRequirement)
    least = {"all": requirement.score, **dict(requirement.families)}
    for i, (name, ssim, spearman, jaccard, fass, retention) in enumerate(verdict.fact("parts")):
        own = i == 0
        rows.append(
            (
                verdict.name if own else "",
                str(verdict.fact("explainer")),
                str(name),
                *(score(value) for value in (ssim, spearman, jaccard)),
                beside(fass, least[name]) if name in least else score(fass),
                f"{100 * retention:.1f} %",
                score(verdict.fact("floor")),
                score(verdict.fact("reseed")),
                str(verdict.requirement) if own else "",
                str(verdict.outcome) if own else "",
            )
        )
    return rows


def _perturbation(part: Summary, result: Fass) -> str:
    return f"{part.name}: FASS {score(part.fass)} over {part.retained} of {part.attempted} pairs{_fell(part, result)}"


def _pair(pair: Pair, result: Fass) -> str:
    return f"image {pair.image!r}, {pair.perturbation}: FASS {score(pair.fass)}{_fell(pair, result)}"


def _fell(scored: Any, result: Fass) -> str:
    found = result.fell(scored)
    return "" if found is None else f", {NAMES[found[0]]} fell from {found[2]:.3f} to {found[1]:.3f}"
