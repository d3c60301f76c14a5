"""Sessions made by hand: gates of each kind and outcome, and names that nobody should have."""

from __future__ import annotations

from typing import Any

from stabgate.cost import Cost
from stabgate.report.session import GateReport, SessionReport, ordered
from stabgate.verdict.verdicts import (
    FassRequirement,
    KRequirement,
    Outcome,
    RegressionRequirement,
    Verdict,
)

HOSTILE = [
    "<script>alert(1)</script>",
    "a|b|c",
    "x" * 300,
    "line one\nline two\r::error::forged",
    "\x1b[31mred\x1b[0m\x00\x07",
    "\u202eright to left\u202c \u05e9\u05dc\u05d5\u05dd",
    "emoji 👩‍🔬 and 漢字",
    "@someone https://evil.example www.evil.example [a](b) `c` *d* _e_",
    "100 %, a:b,c",
    "half \ud800 character",
]


def k_gate(name: str = "credit/lime", met: int = 7, outcome: Outcome = Outcome.FAIL, **changes: Any) -> GateReport:
    requirement = KRequirement(3, 0.9, "order", 0.9, "all-pairs", 50)
    reason = f"{met} of 10 rows meet k >= 3, 9 are needed (90 %)"
    verdict = Verdict(
        name=name,
        outcome=outcome,
        metric="share of rows with k >= 3",
        estimate=met / 10,
        interval=(max(met / 10 - 0.1, 0.0), min(met / 10 + 0.1, 1.0)),
        requirement=requirement,
        n=10,
        measured=10,
        met=met,
        runs=50,
        cost=Cost(rows=12345, rows_asked=12345, seconds=1.5),
        reasons=() if outcome is Outcome.PASS else (reason,),
        notes=("features repeat exact values on 2 of 10 rows",),
        facts=(("explainer", "lime"), ("median_k", 3.0), ("rand_k", 1.0), ("decided_at", 0.85)),
    )
    message = "" if outcome is Outcome.PASS else f"{outcome}: {name}: required 90 %\n  {reason}\n  replay: pytest"
    given = {"place": ("/repo/tests/test_credit.py", 12), "test": "tests/test_credit.py::test_credit", **changes}
    return GateReport(name=name, kind="k-stability", asked=str(requirement), verdict=verdict, message=message, **given)


def fass_gate(name: str = "photos/ig", outcome: Outcome = Outcome.PASS, **changes: Any) -> GateReport:
    requirement = FassRequirement(0.6, (("geometric", 0.5),), None, 0.1, 5, "aligned")
    parts = (("all", 0.7, 0.8, 0.6, 0.7, 0.9), ("geometric", 0.6, 0.7, 0.5, 0.6, 0.8))
    verdict = Verdict(
        name,
        outcome,
        "FASS",
        0.7,
        (0.65, 0.75),
        requirement,
        100,
        90,
        60,
        1,
        Cost(rows=1000),
        facts=(
            ("explainer", "integrated-gradients"),
            ("model", "ResNet"),
            ("floor", 0.4),
            ("reseed", 1.0),
            ("above_floor", 0.5),
            ("parts", parts),
        ),
    )
    return GateReport(name=name, kind="FASS", asked=str(requirement), test="t.py::f", verdict=verdict, **changes)


def drop_gate(name: str = "credit/shap", outcome: Outcome = Outcome.INCONCLUSIVE, **changes: Any) -> GateReport:
    requirement = RegressionRequirement("mean k", 0.1, 0.01, "baseline credit/shap", 50)
    verdict = Verdict(
        name,
        outcome,
        "drop of mean k",
        0.4,
        (0.2, 0.6),
        requirement,
        10,
        10,
        6,
        50,
        Cost(),
        reasons=() if outcome is Outcome.PASS else ("the seed was 0 then and is 1 now",),
        facts=(
            ("explainer", "shap.kernel"),
            ("before", 3.4),
            ("now", 3.0),
            ("p", 0.001),
            ("fell", ()),
            ("fell_count", 0),
            ("unit", "row"),
            ("differs", ("seed",)),
            ("improved", False),
        ),
    )
    return GateReport(
        name=name,
        kind="regression",
        asked=str(requirement),
        test="t.py::r",
        verdict=verdict,
        baseline="credit/shap",
        **changes,
    )


def error_gate(name: str = "credit/wrong", **changes: Any) -> GateReport:
    message = "k=7 asks for more than the 3 features there are"
    return GateReport(
        name=name, kind="k-stability", asked="k >= 7", test="t.py::e", verdict=None, message=message, **changes
    )


def session(*gates: GateReport) -> SessionReport:
    return SessionReport(
        gates=ordered(gates),
        complete=True,
        incomplete_because="",
        created="2026-01-02T03:04:05+00:00",
        settings={"runs": 50, "seed": 0, "threshold": 0.9, "inconclusive": "fail"},
        environment={"stabgate": "0.1.0", "python": "3.11.2"},
        baselines="stabgate-baselines",
    )
