"""The four outcomes of a gate, and the frozen record of one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from stabgate.cost import Cost
from stabgate.verdict.numbers import exact, required_percent
from stabgate.verdict.numbers import percent as percent  # it stood here


class Outcome(StrEnum):
    """What happened to a requirement. Only PASS passes.

    INCONCLUSIVE: the interval straddles the requirement. NOT MEASURED: too little was measured to say.
    """

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_MEASURED = "NOT MEASURED"


@dataclass(frozen=True)
class KRequirement:
    """At least `share` of the rows must be k-stable.

    Attributes:
        k: how many leading features must hold, 2..n.
        share: share of all rows, in (0, 1]; a row that was not measured counts as not meeting it.
        require: "order" (the first k are separated from each other, [K] Definition 1), "membership" (each of the
            first k is separated from every other feature, [K] A.1), or "both".
        threshold: least distance that counts as separated.
        rule: "all-pairs" or "consecutive".
        runs: m; k from another number of runs is another quantity.
    """

    k: int
    share: float
    require: str
    threshold: float
    rule: str
    runs: int

    def __str__(self) -> str:
        return f"{self.what} on {required_percent(self.share)} of rows"

    @property
    def what(self) -> str:
        """What a row must meet, in words."""
        return {
            "order": f"k >= {self.k}",
            "membership": f"top-{self.k} group certified",
            "both": f"k >= {self.k} and top-{self.k} group certified",
        }[self.require]


@dataclass(frozen=True)
class FassRequirement:
    """Explanations must survive perturbations that the prediction survives, at least to this score.

    Attributes:
        score: least mean FASS over all retained pairs.
        families: least mean FASS within a family of perturbations, by its name.
        above_floor: least (FASS - floor) / (1 - floor), or None.
        min_retention: share of the attempted pairs of each perturbation that must be retained.
        min_pairs: retained pairs of each perturbation that must be there.
        protocol: "aligned" or "published"; scores of one are not those of the other.
    """

    score: float
    families: tuple[tuple[str, float], ...]
    above_floor: float | None
    min_retention: float
    min_pairs: int
    protocol: str

    def __str__(self) -> str:
        parts = [f"FASS >= {exact(self.score)}", *(f"{family} >= {exact(least)}" for family, least in self.families)]
        if self.above_floor is not None:
            parts.append(f"above floor >= {exact(self.above_floor)}")
        return ", ".join(parts)


@dataclass(frozen=True)
class RegressionRequirement:
    """A measurement may fall below its baseline by no more than a margin.

    FAIL only if the drop exceeds the margin and is significant.

    Attributes:
        metric: "mean k", "share of rows with k >= 3" or "FASS"; of each, higher is better.
        max_drop: margin in the metric's own unit.
        level: of significance.
        baseline: name of what it is compared with.
        runs: m of both.
    """

    metric: str
    max_drop: float
    level: float
    baseline: str
    runs: int

    def __str__(self) -> str:
        return f"{self.metric} may fall by at most {exact(self.max_drop)}"


Requirement: TypeAlias = KRequirement | FassRequirement | RegressionRequirement
REQUIREMENTS: dict[str, type[Requirement]] = {
    "k-stability": KRequirement,
    "FASS": FassRequirement,
    "regression": RegressionRequirement,
}


@dataclass(frozen=True)
class Verdict:
    """One gate's outcome and what it rests on.

    Attributes:
        name: the gate's name.
        outcome: PASS, FAIL, INCONCLUSIVE or NOT MEASURED.
        metric: what `estimate` is.
        estimate: measured value, or None if nothing was measured.
        interval: confidence interval of the estimate, or None where none is computed.
        requirement: what must hold, m included.
        n: instances asked for.
        measured: instances measured.
        met: instances that meet the requirement.
        runs: m.
        cost: model rows, calls and seconds.
        reasons: why the outcome is not PASS, most important first.
        notes: what a reader should know whatever the outcome.
        facts: further numbers for tables (explainer, median k, RAND's k), as plain JSON values.
    """

    name: str
    outcome: Outcome
    metric: str
    estimate: float | None
    interval: tuple[float, float] | None
    requirement: Requirement
    n: int
    measured: int
    met: int
    runs: int
    cost: Cost
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    facts: tuple[tuple[str, Any], ...] = ()

    @property
    def passed(self) -> bool:
        """True only for PASS."""
        return self.outcome is Outcome.PASS

    def fact(self, name: str) -> Any:
        """One of `facts`, or None."""
        return dict(self.facts).get(name)
