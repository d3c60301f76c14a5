"""Plain text: what a failed gate says, and the table of all gates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stabgate.report.plain import plain
from stabgate.verdict.kstability import needed_rows
from stabgate.verdict.numbers import beside, interval_beside, percent_beside
from stabgate.verdict.verdicts import KRequirement, Outcome, Verdict

if TYPE_CHECKING:
    from stabgate.measure.kresult import KStability

WORST_ROWS = 5
PAIRS_PER_ROW = 3
NAME_WIDTH = 40  # feature names longer than this are cut in the middle

# Problems first: what a reader of a red build looks for.
ORDER = {Outcome.FAIL: 0, Outcome.NOT_MEASURED: 1, Outcome.INCONCLUSIVE: 2, Outcome.PASS: 3}


def failure_text(verdict: Verdict, result: KStability, *, replay: str) -> str:
    """Why a gate did not pass: required against measured, the worst rows, and how to see it again."""
    requirement = _required(verdict)
    if verdict.estimate is None:
        measured = "measured nothing"
    else:
        measured = f"measured {share(verdict)} ({verdict.met} of {verdict.n} rows{_interval(verdict)})"
    lines = [
        f"{verdict.outcome}: {plain(verdict.name)}: required {requirement}, {measured}"
        f" [distance >= {requirement.threshold:g}, {runs(verdict).replace('/', ' of ')} runs, {requirement.rule}]"
    ]
    lines += [f"  {reason}" for reason in verdict.reasons if "are needed" not in reason]
    lines += _unmeasured(result)
    lines += _worst(verdict, result)
    lines += [f"  note: {note}" for note in verdict.notes if note not in verdict.reasons]
    rand = "" if verdict.fact("rand_k") is None else f", RAND's is {number(verdict.fact('rand_k'))}"
    if verdict.fact("median_k") is not None:
        lines.append(f"  median k is {number(verdict.fact('median_k'))}{rand}")
    lines.append(f"  replay: {replay}")
    return "\n".join(lines)


def _interval(verdict: Verdict) -> str:
    if verdict.interval is None:
        return ""
    line = verdict.fact("decided_at") or _required(verdict).share
    return f", 95 % interval {interval_beside(verdict.interval, line, as_percent=True)}"


def share(verdict: Verdict) -> str:
    """The share of rows that meet the requirement, on the side of it on which enough rows do or do not."""
    least = _required(verdict).share
    estimate = verdict.met / verdict.n if verdict.estimate is None else verdict.estimate
    return percent_beside(estimate, least, holds=verdict.met >= needed_rows(least, verdict.n))


def runs(verdict: Verdict) -> str:
    """The number of runs, and of how many where they are not all: "15/50"."""
    planned = getattr(verdict.requirement, "runs", verdict.runs)
    return str(verdict.runs) if verdict.runs == planned else f"{verdict.runs}/{planned}"


def _required(verdict: Verdict) -> KRequirement:
    assert isinstance(verdict.requirement, KRequirement)
    return verdict.requirement


def _unmeasured(result: KStability) -> list[str]:
    failures = list(result.attributions.failures.items())
    lines = [f"  row {row!r} not measured: {plain(reason)}" for row, reason in failures[:WORST_ROWS]]
    if len(failures) > WORST_ROWS:
        lines.append(f"  and {len(failures) - WORST_ROWS} more rows not measured")
    return lines


def _worst(verdict: Verdict, result: KStability) -> list[str]:
    requirement = _required(verdict)
    failing = np.flatnonzero(result.measured & ~result.meets(requirement.k, requirement.require))
    ranked = sorted(failing.tolist(), key=lambda i: (int(result.k[i]), _gap(result, i, requirement)))
    lines = []
    for i in ranked[:WORST_ROWS]:
        pairs = blockers(result, i, requirement.k, requirement.require)[:PAIRS_PER_ROW]
        shown = "; ".join(
            f"{clip(a)} and {clip(b)} cannot be told apart ({'tied' if tied else f'distance {distance(d, result)}'})"
            for a, b, d, tied in pairs
        )
        lines.append(f"  row {result.instances[i]!r}: k = {result.k[i]}: {shown}")
    if len(ranked) > WORST_ROWS:
        lines.append(f"  and {len(ranked) - WORST_ROWS} more rows below the requirement")
    return lines


def _gap(result: KStability, i: int, requirement: Any) -> float:
    pairs = blockers(result, i, requirement.k, requirement.require)
    return pairs[0][2] if pairs else 0.0


def blockers(result: KStability, i: int, k: int, require: str) -> list[tuple[str, str, float, bool]]:
    """The pairs of features that keep instance `i` from meeting a requirement, smallest distance first."""
    pairs = result.confusions(i) if require in ("order", "both") and result.k[i] < k else []
    if require in ("membership", "both"):
        pairs = pairs + [pair for pair in result.outsiders(i, k) if pair not in pairs]
    return sorted(pairs, key=lambda pair: pair[2])


def distance(d: float, result: KStability) -> str:
    """A distance with as many digits as it takes to stand on its own side of the threshold."""
    return beside(d, result.threshold, digits=2)


def clip(name: str) -> str:
    """A feature's name in quotes, cut in the middle where it is long."""
    if len(name) > NAME_WIDTH:
        name = name[: NAME_WIDTH // 2 - 1] + "…" + name[-(NAME_WIDTH // 2) :]
    return repr(name)


def number(value: float | None) -> str:
    """A number without trailing zeros; "-" for None."""
    return "-" if value is None else f"{value:g}"


HEADINGS = (
    "gate",
    "explainer",
    "k (median)",
    "rows that meet",
    "requirement",
    "RAND's k",
    "runs",
    "model rows",
    "seconds",
    "verdict",
)
NUMERIC = frozenset({2, 5, 6, 7, 8})


def table_row(verdict: Verdict) -> tuple[str, ...]:
    """One gate as the cells of the table."""
    met = "-" if verdict.estimate is None else f"{verdict.met}/{verdict.n} ({share(verdict)})"
    return (
        verdict.name,
        str(verdict.fact("explainer")),
        number(verdict.fact("median_k")),
        met,
        str(verdict.requirement),
        number(verdict.fact("rand_k")),
        runs(verdict),
        f"{verdict.cost.rows:,}",
        f"{verdict.cost.seconds:.1f}",
        str(verdict.outcome),
    )
