"""Plain text of regression gates: what a failed one says, and its row of the table."""

from __future__ import annotations

from typing import Any

from stabgate.report.plain import plain
from stabgate.report.text import WORST_ROWS
from stabgate.verdict.numbers import exact
from stabgate.verdict.regression import adopting, chance, drop_beside
from stabgate.verdict.verdicts import Outcome, RegressionRequirement, Verdict

REGRESSION_HEADINGS = ("gate", "metric", "baseline", "before", "now", "drop", "margin", "p", "runs", "verdict")
REGRESSION_NUMERIC = frozenset({3, 4, 5, 6, 7, 8})


def regression_failure_text(verdict: Verdict, *, replay: str) -> str:
    """Why a gate did not pass: allowed against found, the rows that fell, what changed, how to accept or repeat it."""
    requirement = _required(verdict)
    lines = [
        f"{verdict.outcome}: {plain(verdict.name)}: {requirement} against {requirement.baseline}, {_found(verdict)} "
        f"[{verdict.measured} of {verdict.n} {verdict.fact('unit')}s measured in both"
        + (f", {verdict.runs} runs]" if requirement.metric != "FASS" else "]")
    ]
    first = verdict.outcome is Outcome.FAIL  # the first line has said it
    lines += [f"  {reason}" for reason in verdict.reasons[first:]]
    fell = verdict.fact("fell")
    lines += [f"  {_fell(verdict, *row)}" for row in fell[:WORST_ROWS]]
    more = verdict.fact("fell_count") - len(fell[:WORST_ROWS])
    if more:
        lines.append(f"  and {more} more {verdict.fact('unit')}s fell")
    lines += [f"  note: {note}" for note in verdict.notes]
    if verdict.outcome is Outcome.FAIL:
        lines.append(f"  if this is what is wanted now: {adopting(requirement.baseline)}")
    lines.append(f"  replay: {replay}")
    return "\n".join(lines)


def regression_row(verdict: Verdict) -> tuple[str, ...]:
    """One gate as the cells of the table."""
    requirement = _required(verdict)
    drop, p = verdict.estimate, verdict.fact("p")
    return (
        verdict.name,
        requirement.metric,
        requirement.baseline,
        _value(verdict.fact("before")),
        _value(verdict.fact("now")),
        "-" if drop is None else drop_beside(drop, requirement.max_drop),
        exact(requirement.max_drop),
        "-" if p is None else chance(p).removeprefix("p ").removeprefix("= "),
        str(verdict.runs) if requirement.metric != "FASS" else "-",
        str(verdict.outcome),
    )


def _required(verdict: Verdict) -> RegressionRequirement:
    assert isinstance(verdict.requirement, RegressionRequirement)
    return verdict.requirement


def _found(verdict: Verdict) -> str:
    if verdict.estimate is None:
        return "nothing could be compared"
    drop = verdict.estimate
    if drop == 0:
        return f"it is {_value(verdict.fact('now'))} as before"
    text = f"it {'rose' if drop < 0 else 'fell'} by {drop_beside(abs(drop), _required(verdict).max_drop)}"
    text += f", from {_value(verdict.fact('before'))} to {_value(verdict.fact('now'))}"
    if verdict.interval is not None:
        low, high = verdict.interval
        p = chance(verdict.fact("p"))
        fass = _required(verdict).metric == "FASS"  # its interval and its p are of one test
        what, test = ("", "") if fass else (" of the plain mean", ", in which rows that vary less weigh more")
        text += f" (95 % interval of the drop{what} {low:.3g} to {high:.3g}, {p}{test})"
    return text


def _fell(verdict: Verdict, row: str, before: Any, now: Any) -> str:
    if verdict.fact("unit") == "row":
        return f"row {row}: k fell from {before} to {now}"
    return f"image {row}: FASS fell from {before:.3f} to {now:.3f}"


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
