"""From a measurement and an earlier one to a verdict: has it fallen by more than it may?

k of a row jumps: from one set of runs to the next it changes by whole ranks. What is compared is therefore its mean
over half-samples of the runs, row by row; rows that vary less count for more in the test (docs/calibration.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from stabgate.cost import Cost
from stabgate.errors import InputError
from stabgate.measure.fass.aggregates import clustered_mean
from stabgate.measure.fass.pairs import CHANGED
from stabgate.measure.intervals import Interval, Z, chance_variance, mean_interval
from stabgate.measure.record import K, PairRecord, Record, RowRecord
from stabgate.verdict.changes import changes
from stabgate.verdict.comparable import compare
from stabgate.verdict.numbers import beside, exact
from stabgate.verdict.verdicts import Outcome, RegressionRequirement, Verdict

LEVEL = 0.01  # an unchanged model fails at most this often
HINGE = 1e-9  # other machines agree to this
# Of two measurements of a row: what keeps a row that never varied from outweighing all others in the weights, and from
# being taken as certain in the test.
SPARE_WEIGHT = 0.25
SPARE_VARIANCE = 0.05
LEAST_P = 1e-6  # smaller ones are not told apart: the tails of the distributions are not that well known
FELL_SHOWN = 20  # rows or pairs that a verdict names
ACCEPT = 'stabgate accept REPORT.json --reason "..." (or pytest --stabgate-update --stabgate-reason="...")'
EARLIER = "an earlier measurement"  # what messages call a baseline that was given as an object


def adopting(baseline: str) -> str:
    """How what was measured now becomes what is compared with, by what messages call the baseline."""
    if "models:/" in baseline:
        return "this version becomes the baseline when its address or alias is the one that is compared with"
    if _is_file(baseline):
        return f"accept it with: {ACCEPT}"
    return "compare with this measurement from now on"


def _alike(baseline: str) -> str:
    """How a baseline that was measured otherwise is measured like this."""
    if "models:/" in baseline:
        return (
            "measure that version like this one: its address as model= of the explainer, the same options, and "
            "pytest --stabgate-mlflow=log --stabgate-early=off"
        )
    return f"accept a new baseline: {ACCEPT}" if _is_file(baseline) else "measure both alike"


def _is_file(baseline: str) -> bool:
    return baseline != EARLIER and not baseline.endswith(".json")


@dataclass(frozen=True)
class Drop:
    """How far a mean over rows (or pairs) fell.

    Attributes:
        before, now: the two means, over what was measured in both.
        interval: 95 %, of the drop; None where there is none.
        p_fell, p_rose: one-sided; None where there is no interval.
    """

    before: float
    now: float
    interval: Interval | None
    p_fell: float | None
    p_rose: float | None

    @property
    def drop(self) -> float:
        """Positive where it fell; exactly zero where nothing changed."""
        return self.before - self.now


def regression_requirement(now: Record, *, max_drop: Any, k: Any = None, baseline: str) -> RegressionRequirement:
    """The requirement that a comparison is held against.

    Raises:
        InputError: a margin that is negative, not a number, or so large that nothing could exceed it; a k that the
            metric does not have.
    """
    if isinstance(max_drop, (bool, np.bool_)) or not isinstance(max_drop, (int, float, np.number)):
        raise InputError(f"max_drop={max_drop!r}; it must be a number: by how much the value may fall, in its own unit")
    if not max_drop >= 0:
        raise InputError(f"max_drop={max_drop!r}; it must be at least 0: by how much the value may fall")
    if k is not None:
        if now.metric != K:
            raise InputError(f"k={k!r} cannot be asked of FASS, which has no k")
        if isinstance(k, (bool, np.bool_)) or not isinstance(k, (int, np.integer)) or not 2 <= k <= len(now.features):
            raise InputError(f"k={k!r}; it must be an integer from 2 to {len(now.features)}, the number of features")
    metric = "FASS" if now.metric != K else "mean k" if k is None else f"share of rows with k >= {k}"
    most = len(now.features) - 1 if metric == "mean k" else 1
    if max_drop >= most:
        raise InputError(f"max_drop={max_drop!r} can never be exceeded: {metric} falls by at most {most}")
    return RegressionRequirement(metric, float(max_drop), LEVEL, baseline, now.runs)


def judge_regression(
    now: Record, before: Record, *, max_drop: float, k: int | None = None, name: str, baseline: str
) -> Verdict:
    """Say whether a measurement fell below an earlier one by more than `max_drop`.

    FAIL: the drop exceeds the margin and is significant at 0.01, one-sided. INCONCLUSIVE: the two differ in something
    that can change values whatever the model, or have too few runs. NOT MEASURED: fewer than half of the rows were
    measured in both, or rows that are missing now could turn the outcome. Otherwise PASS.

    Args:
        now: what was measured.
        before: the baseline, of the same metric.
        max_drop: margin in the metric's own unit, at least 0; exceeded only by more than it.
        k: compare the share of rows that reach it; None compares mean k (or FASS).
        name: of the gate.
        baseline: name of what `before` is.

    Returns:
        A verdict whose estimate is the drop (positive: it fell), over what was measured in both.

    Raises:
        InputError: other metrics, or a requirement that cannot be meant.
    """
    requirement = regression_requirement(now, max_drop=max_drop, k=k, baseline=baseline)
    if now.metric != before.metric:
        raise InputError(f"{now.metric} cannot be compared with {baseline}, which is a measurement of {before.metric}")
    comparison = compare(now, before)
    case = _Rows(now, before, k) if now.metric == K else _Pairs(now, before)
    notes = list(comparison.notes)
    found: Drop | None = None
    if not case.measured_now:
        outcome, reasons = Outcome.NOT_MEASURED, [f"no {case.unit} was measured now"]
    elif comparison.differs:
        outcome = Outcome.INCONCLUSIVE
        reasons = [*comparison.differs, f"put it back as it was, or {_alike(baseline)}"]
    else:
        found = case.drop()
        outcome, reasons = _outcome(case, found, requirement)
        notes += _notes(case, found, requirement, outcome)
    return Verdict(
        name=name,
        outcome=outcome,
        metric=f"drop of {requirement.metric}",
        estimate=None if found is None else found.drop,
        interval=None if found is None else found.interval,
        requirement=requirement,
        n=case.n,
        measured=case.common,
        met=case.common - len(case.fell) if not comparison.differs else 0,
        runs=now.runs,
        cost=Cost(),
        reasons=tuple(reasons),
        notes=(*notes, *(() if comparison.differs else changes(now, before, k))),
        facts=(
            ("explainer", str(now.explainer.get("explainer", ""))),
            ("model", now.model),
            ("before", None if found is None else found.before),
            ("now", None if found is None else found.now),
            ("p", None if found is None else found.p_fell),
            ("improved", bool(found is not None and found.p_rose is not None and found.p_rose <= LEVEL)),
            ("fell", tuple(case.fell[:FELL_SHOWN]) if not comparison.differs else ()),
            ("fell_count", len(case.fell) if not comparison.differs else 0),
            ("unit", case.unit),
            ("differs", comparison.differs),
        ),
    )


def _outcome(case: _Rows | _Pairs, found: Drop | None, requirement: RegressionRequirement) -> tuple[Outcome, list[str]]:
    if found is None or 2 * case.common < case.n:
        return Outcome.NOT_MEASURED, [f"{case.common} of {case.n} {case.unit}s were measured both before and now"]
    if found.p_fell is None:
        return Outcome.INCONCLUSIVE, [case.too_little]
    outcome = Outcome.FAIL if _fails(found, requirement) else Outcome.PASS
    if outcome is Outcome.PASS and case.lost:
        worst = case.drop(lost_at_worst=True)
        if worst is not None and _fails(worst, requirement):
            return Outcome.NOT_MEASURED, [
                f"{case.lost} {case.unit}s were measured before and not now: at worst {requirement.metric} fell by "
                f"{drop_beside(worst.drop, requirement.max_drop)}"
            ]
    if outcome is Outcome.PASS:
        return outcome, []
    return outcome, [
        f"{requirement.metric} fell by {drop_beside(found.drop, requirement.max_drop)}, from {found.before:.4g} to "
        f"{found.now:.4g}, by more than {exact(requirement.max_drop)} ({chance(found.p_fell)})"
    ]


def _fails(found: Drop, requirement: RegressionRequirement) -> bool:
    return found.p_fell is not None and found.p_fell <= requirement.level and found.drop > requirement.max_drop + HINGE


def _notes(case: _Rows | _Pairs, found: Drop | None, requirement: RegressionRequirement, outcome: Outcome) -> list[str]:
    """What a reader should know of the comparison beside its outcome."""
    notes = []
    if case.lost:
        notes.append(f"{case.lost} of {case.n} {case.unit}s were measured before and not now")
    if case.gained:
        notes.append(f"{case.gained} {case.unit}s were not measured before and are now; they are not compared")
    if found is None or found.p_fell is None or found.p_rose is None:
        return notes
    margin, drop = requirement.max_drop, found.drop
    if drop > margin + HINGE and outcome is Outcome.PASS:
        notes.append(
            f"{requirement.metric} fell by {drop_beside(drop, margin)}, more than {exact(margin)}, which may be chance "
            f"({chance(found.p_fell)}, above {LEVEL:g}): {case.decides}"
        )
    if abs(drop - margin) <= HINGE and found.p_fell <= LEVEL:
        notes.append(f"the verdict hinges on a drop within 1e-9 of {exact(margin)}: another machine may differ")
    if drop < 0 and (found.p_rose <= LEVEL or -drop > margin + HINGE):
        rose = f"{requirement.metric} rose by {-drop:.3g}, from {found.before:.4g} to {found.now:.4g}"
        p = "p of a rise" + chance(found.p_rose).removeprefix("p")
        if found.p_rose <= LEVEL:
            notes.append(f"{rose} ({p}); {adopting(requirement.baseline)}")
        else:
            notes.append(f"{rose}, which may be chance ({p})")
    return [*notes, *case.notes()]


class _Rows:
    """Rows of two k-stability measurements, by id: k over half-samples, or whether it reaches `k`."""

    unit = "row"
    decides = "more rows, or an explainer that varies less, would decide, with a new baseline"
    too_little = "so few runs have no half-samples and no interval: measure with more, and accept a new baseline"

    def __init__(self, now: Record, before: Record, k: int | None) -> None:
        self._k = k
        earlier = {row.id: row for row in before.rows}
        both = [(earlier[row.id], row) for row in now.rows if row.id in earlier]
        self._both = [(old, new) for old, new in both if old.k and new.k]
        self._lost = [old for old, new in both if old.k and not new.k]
        self.n, self.common, self.lost = len(now.rows), len(self._both), len(self._lost)
        self.gained = sum(new.k > 0 and not old.k for old, new in both)
        self.measured_now = sum(row.k > 0 for row in now.rows)
        pairs = [(old.id, old.k, new.k) for old, new in self._both if new.k < old.k]
        self.fell = sorted(pairs, key=lambda row: (row[2] - row[1], row[2], row[0]))

    def drop(self, *, lost_at_worst: bool = False) -> Drop | None:
        """None where no row was measured in both."""
        if not self._both:
            return None
        lost = self._lost if lost_at_worst else []
        rows = np.array(
            [(*self._value(old), *self._value(new)) for old, new in self._both]
            + [(*self._value(old), 1.0 if self._k is None else 0.0, 0.0) for old in lost]
        )
        return weighted_drop(*rows.T)

    def notes(self) -> list[str]:
        """What k itself did, where that is another number."""
        sides = [
            [row.k if self._k is None else row.k >= self._k for row in side] for side in zip(*self._both, strict=True)
        ]
        raw = [float(np.mean(side)) for side in sides]
        bagged = [float(np.mean([self._value(row)[0] for row in side])) for side in zip(*self._both, strict=True)]
        if np.allclose(raw, bagged, rtol=0.0, atol=5e-4):
            return []
        what = "mean k" if self._k is None else f"the share of rows with k >= {self._k}"
        return [
            f"compared are means over half-samples of the runs; {what} itself is {raw[1]:.4g} now, {raw[0]:.4g} before"
        ]

    def _value(self, row: RowRecord) -> tuple[float, float]:
        """What is compared of a row, and the variance it has over other runs."""
        if self._k is None:
            return row.mean, row.variance
        chance = row.chance(self._k)
        return chance, float(chance_variance(np.array(chance)))


class _Pairs:
    """Pairs of two FASS measurements: the same image, perturbation and draw, retained in both."""

    unit = "pair"
    decides = "more images would decide, with a new baseline"
    too_little = "all pairs are of one image: there is no interval, give more images and accept a new baseline"

    def __init__(self, now: Record, before: Record) -> None:
        self._now, self._before = now, before
        earlier = {_place(pair): pair for pair in before.pairs}
        both = [(earlier[_place(pair)], pair) for pair in now.pairs if _place(pair) in earlier]
        self._both = [(old, new) for old, new in both if old.score is not None and new.score is not None]
        self._lost = [old for old, new in both if old.score is not None and new.score is None and new.status != CHANGED]
        self.n = sum(pair.score is not None for pair in before.pairs)
        self.common, self.lost = len(self._both), len(self._lost)
        self.gained = sum(old.score is None and new.score is not None for old, new in both)
        self.measured_now = sum(pair.score is not None for pair in now.pairs)
        falls = [
            (f"{new.image}, {new.perturbation}", old.score, new.score)
            for old, new in self._both
            if old.score is not None and new.score is not None and new.score < old.score
        ]
        self.fell = sorted(falls, key=lambda pair: pair[2] - pair[1])

    def drop(self, *, lost_at_worst: bool = False) -> Drop | None:
        """None where no pair was retained in both."""
        if not self._both:
            return None
        scores = [(old.image, old.score, new.score) for old, new in self._both]
        scores += [(old.image, old.score, 0.0) for old in (self._lost if lost_at_worst else [])]
        before, now = (np.array([one[i] for one in scores], dtype=np.float64) for i in (1, 2))
        return clustered_drop(before, now, [one[0] for one in scores])

    def notes(self) -> list[str]:
        """FASS of all that was retained, where that is not what was compared."""
        retained = (self._before.value, self._now.value)
        if self.common == self.n == self.measured_now or None in retained:
            return []
        return [f"FASS over all retained pairs is {retained[1]:.4g} now, {retained[0]:.4g} before"]


def weighted_drop(before: Any, before_variance: Any, now: Any, now_variance: Any) -> Drop:
    """The drop of a mean over rows, and a z-test of whether it fell in which rows that vary less weigh more.

    Args:
        before, now: ``(rows,)``, the value of each row.
        before_variance, now_variance: ``(rows,)``, its variance over other runs; NaN where that is unknown. Where all
            are 0, every difference is certain.
    """
    differences = before - now
    variances = before_variance + now_variance
    if np.isnan(variances).any():
        return Drop(float(before.mean()), float(now.mean()), None, None, None)
    certain = not variances.any()
    weights = 1.0 / (variances + SPARE_WEIGHT)
    error = 0.0 if certain else float((weights**2 * (variances + SPARE_VARIANCE)).sum()) ** 0.5
    z = _ratio(float((weights * differences).sum()), error)
    drop = float(before.mean()) - float(now.mean())
    return Drop(
        float(before.mean()),
        float(now.mean()),
        mean_interval(drop, variances, deterministic=certain),
        float(stats.norm.sf(z)),
        float(stats.norm.cdf(z)),
    )


def clustered_drop(before: Any, now: Any, clusters: Sequence[Any]) -> Drop:
    """The drop of a mean over pairs, and a t-test of whether it fell, for pairs that are dependent within a cluster.

    Args:
        before, now: ``(pairs,)``, scores of the same pairs.
        clusters: the image of each.
    """
    found = clustered_mean(before - now, clusters)
    if found is None:
        return Drop(float(before.mean()), float(now.mean()), None, None, None)
    drop, error, freedom = found
    half = float(stats.t.ppf(stats.norm.cdf(Z), freedom)) * error
    t = _ratio(drop, error)
    return Drop(
        float(before.mean()),
        float(now.mean()),
        (drop - half, drop + half),
        float(stats.t.sf(t, freedom)),
        float(stats.t.cdf(t, freedom)),
    )


def drop_beside(drop: float, margin: float) -> str:
    """A drop on its own side of the margin; within the tolerance of the verdict it is the margin itself."""
    return beside(drop, margin, holds=drop > margin + HINGE, strict=True)


def chance(p: float) -> str:
    """A p value in words."""
    return f"p = {p:.2g}" if p >= LEAST_P else f"p < {LEAST_P:g}"


def _ratio(value: float, error: float) -> float:
    """value / error; without any error every difference is certain."""
    if error > 0:
        return value / error
    return 0.0 if value == 0 else float(np.copysign(np.inf, value))


def _place(pair: PairRecord) -> tuple[str, str, int]:
    return pair.image, pair.perturbation, pair.draw
