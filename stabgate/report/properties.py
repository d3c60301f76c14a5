"""The numbers of a gate under names that stay: what JUnit files and dashboards read."""

from __future__ import annotations

from stabgate.report.plain import plain
from stabgate.verdict.verdicts import Verdict


def properties(name: str, verdict: Verdict) -> list[tuple[str, str | int | float]]:
    """``stabgate.<gate>.<what>`` and a number, or the outcome; plain values, and left out where there is none."""
    low, high = verdict.interval or (None, None)
    found = {
        "verdict": str(verdict.outcome),
        "estimate": verdict.estimate,
        "low": low,
        "high": high,
        "instances": verdict.n,
        "measured": verdict.measured,
        "met": verdict.met,
        "runs": verdict.runs,
        "model_rows": verdict.cost.rows,
        "seconds": round(verdict.cost.seconds, 3),
    }
    return [(f"stabgate.{plain(name)}.{what}", value) for what, value in found.items() if value is not None]
