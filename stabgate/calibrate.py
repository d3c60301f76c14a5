"""A/A runs of a gate: the same model under disjoint seeds, and what they say of runs, requirement and margin.

Each gate is measured several times, each time with a seed of its own. Rows are independent given the model, so any
mixture of rows from different repetitions is a measurement that might have been: thousands of them tell how often a
gate would fail or be inconclusive although nothing has changed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stabgate.columns import Floats
from stabgate.errors import InputError
from stabgate.measure.halves import LEAST_RUNS, least_runs
from stabgate.measure.intervals import count_interval
from stabgate.measure.kstability import stability_of
from stabgate.measure.record import Record
from stabgate.verdict.kstability import HALF_A_ROW, between, needed_rows
from stabgate.verdict.verdicts import KRequirement, Outcome

if TYPE_CHECKING:
    from stabgate.measure.fass import Fass
    from stabgate.measure.kresult import KStability

REPEATS = 8
EXPERIMENTS = 2000  # mixtures of rows: a rate of 1 % is known to 0.2 %
PAIRS = 300  # mixtures compared with each other for the margin
ERRORS = 4.0  # standard errors below the measured share that a requirement should be (verdicts.md: 3 still flakes)
FALSE_FAILURES = 0.01  # rates that a gate may have
UNDECIDED = 0.05
FEWER = (10, 15, 20, 30, 50, 100, 200)  # numbers of runs that are tried below the gate's own
QUANTILE = 0.99  # of the drops of an unchanged model, which a margin should exceed


@dataclass(frozen=True)
class Rates:
    """Expected rates of outcomes for an unchanged model, in [0, 1]."""

    passed: float
    failed: float
    inconclusive: float

    @property
    def acceptable(self) -> bool:
        """Few enough false failures, and seldom inconclusive."""
        return self.failed <= FALSE_FAILURES and self.inconclusive <= UNDECIDED

    def __str__(self) -> str:
        return f"fails {100 * self.failed:.1f} %, inconclusive {100 * self.inconclusive:.1f} %"


@dataclass(frozen=True)
class Calibration:
    """What A/A runs say of one gate.

    Attributes:
        name: of the gate.
        repeats: measurements behind it.
        measured: mean of the share, or of the score, over them.
        error: standard deviation of that from seed to seed.
        asked: the requirement that the gate has, in words.
        rates: of outcomes with that requirement.
        suggested: the requirement to have instead, in words; empty where none can be met.
        suggested_rates: with that one.
        runs: fewest runs with which the requirement (the suggested one where the gate's own is not acceptable) has
            acceptable rates; None where none of those tried has, and for FASS.
        margin: `max_drop` that an unchanged model does not exceed in 99 % of comparisons, in the metric's own unit.
        margin_rate: rate of false failures of a comparison with that margin.
        notes: what else a reader should know.
    """

    name: str
    repeats: int
    measured: float
    error: float
    asked: str
    rates: Rates | None
    suggested: str
    suggested_rates: Rates | None
    runs: int | None
    margin: float
    margin_rate: float
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The calibration as text."""
        found = [
            f"{self.name}: {self.repeats} measurements of the same model: {self.measured:.3f} on average, standard "
            f"deviation {self.error:.3f} from seed to seed"
        ]
        if self.rates is not None:
            found.append(f"  as it is: {self.asked}: {self.rates}")
        if self.suggested:
            found.append(f"  requirement: {self.suggested}: {self.suggested_rates}")
        if self.runs is not None:
            found.append(f"  runs: {self.runs} are the fewest, of those tried, with which that holds")
        found.append(
            f"  margin: max_drop={self.margin:g}: an unchanged model fails in {100 * self.margin_rate:.1f} % of runs"
        )
        return found + [f"  note: {note}" for note in self.notes]


def calibrate_k(
    results: Sequence[KStability], *, name: str, k: int | None = None, share: float = 1.0, require: str = "order"
) -> Calibration:
    """Calibrate a gate of k-stability.

    Args:
        results: the same measurement under disjoint seeds, at least three.
        name: of the gate.
        k, share, require: its requirement; k None for a gate that only compares with a baseline.

    Raises:
        InputError: fewer than three results, other rows, or rows that were not measured.
    """
    _check(results, [r.instances for r in results])
    if any(not r.measured.all() for r in results):
        raise InputError(f"{name}: some rows were not measured, and a gate is calibrated on what can be measured")
    least = least_runs(results[0].settings.density)
    if results[0].runs < least:
        raise InputError(f"{name}: {results[0].runs} runs have no interval: measure at least {least}")
    margin, margin_rate = _margin([Record.of(r) for r in results], name)
    if k is None:
        means = np.array([r.mean_k for r in results], dtype=float)
        return Calibration(
            name, len(results), float(means.mean()), float(means.std(ddof=1)), "no requirement", None, "", None, None,
            margin, margin_rate,
        )  # fmt: skip
    asked = KRequirement(k, share, require, results[0].threshold, results[0].settings.rule, results[0].runs)
    library = _Library.of(results, k, require)
    rates = library.rates(share)
    suggested = library.suggested_share()
    notes = []
    best = share
    if not rates.acceptable:
        best = suggested
        if not suggested:
            notes.append(_out_of_reach(k))
        elif suggested < share:
            notes.append("the requirement is closer to what is measured than the noise allows")
    runs = None
    if best:
        for fewer in [m for m in FEWER if LEAST_RUNS <= m < asked.runs] + [asked.runs]:
            thinned = library if fewer == asked.runs else _Library.of([_thin(r, fewer) for r in results], k, require)
            if thinned.rates(best).acceptable:
                runs = fewer
                break
        if runs is None:
            notes.append(f"more than {asked.runs} runs, or more rows, are needed for a verdict that seldom flakes")
    return Calibration(
        name=name,
        repeats=len(results),
        measured=library.measured,
        error=library.error,
        asked=str(asked),
        rates=rates,
        suggested=str(replace(asked, share=suggested)) if suggested else "",
        suggested_rates=library.rates(suggested) if suggested else None,
        runs=runs,
        margin=margin,
        margin_rate=margin_rate,
        notes=tuple(notes),
    )


def _out_of_reach(k: int) -> str:
    """What to do where no row keeps the first `k` features reliably; 2 is the smallest that can be required."""
    if k > 2:
        return f"no share of rows can be required at k = {k}: ask for a smaller k"
    return (
        f"no share of rows can be required at k = {k}, the smallest there is: no order is stable enough; an explainer "
        "that varies less (more samples) or a lower threshold would help"
    )


def calibrate_fass(results: Sequence[Fass], *, name: str, score: float | None = None) -> Calibration:
    """Calibrate a gate of FASS; as `calibrate_k`.

    What varies from seed to seed are random perturbations and the explainer; the interval is that over images.
    """
    _check(results, [r.images for r in results])
    found = [r.summary for r in results]
    if any(part.fass is None or part.low is None or part.high is None for part in found):
        raise InputError(f"{name}: a measurement has no interval: give at least two images with retained pairs")
    scores, lows, highs = (np.array([getattr(p, what) for p in found], dtype=float) for what in ("fass", "low", "high"))
    error = float(scores.std(ddof=1))
    suggested = math.floor(100 * (lows.mean() - ERRORS * float(lows.std(ddof=1))) + 1e-9) / 100
    margin, margin_rate = _margin([Record.of(r) for r in results], name)
    spread_low, spread_high = float(lows.std(ddof=1)), float(highs.std(ddof=1))

    def rates(least: float) -> Rates:
        failed = _below(float(highs.mean()), spread_high, least)
        passed = 1.0 - _below(float(lows.mean()), spread_low, least)
        return Rates(passed, failed, max(0.0, 1.0 - passed - failed))

    notes = []
    if suggested <= 0:
        notes.append("the interval over images is too wide for any requirement: give more images")
    return Calibration(
        name=name,
        repeats=len(results),
        measured=float(scores.mean()),
        error=error,
        asked="no requirement" if score is None else f"FASS >= {score:g}",
        rates=None if score is None else rates(score),
        suggested=f"FASS >= {suggested:g}" if suggested > 0 else "",
        suggested_rates=rates(suggested) if suggested > 0 else None,
        runs=None,
        margin=margin,
        margin_rate=margin_rate,
        notes=tuple(notes),
    )


@dataclass(frozen=True, eq=False)
class _Library:
    """Whether each row met the requirement in each repetition ``(repeats, rows)``, and how likely other runs do."""

    met: NDArray[np.bool_]
    chances: Floats
    deterministic: bool

    @classmethod
    def of(cls, results: Sequence[KStability], k: int, require: str) -> _Library:
        chances = [r.chances(k, require) for r in results]
        return cls(
            np.stack([r.meets(k, require) for r in results]),
            np.stack([c for c in chances if c is not None]),
            all(r.deterministic for r in results),
        )

    @property
    def measured(self) -> float:
        return float(self.met.mean())

    @property
    def error(self) -> float:
        """Of the share, from seed to seed: rows are independent, so their variances add up."""
        p = (self.met.mean(axis=0) + self.chances.mean(axis=0)) / 2
        return float((p * (1 - p)).sum() ** 0.5 / self.met.shape[1])

    def suggested_share(self) -> float:
        """The largest share of whole rows that is `ERRORS` standard errors below what is measured; 0 for none."""
        rows = int(self.met.shape[1])
        wanted = max(0, math.floor(rows * (self.measured - ERRORS * self.error) + 1e-9))
        for digits in (2, 3, 4):  # a share that a person would write, if it is the same number of rows
            share = math.floor(float(10**digits) * wanted / rows + 1e-9) / float(10**digits)
            if needed_rows(share, rows) == wanted:
                return share
        return wanted / rows

    def rates(self, share: float) -> Rates:
        repeats, rows = self.met.shape
        rng = np.random.default_rng(0)
        which = rng.integers(0, repeats, (EXPERIMENTS, rows))
        columns = np.arange(rows)
        met, chances = self.met[which, columns], self.chances[which, columns]
        least = needed_rows(share, rows) - HALF_A_ROW
        intervals = [count_interval(m, c, deterministic=self.deterministic) for m, c in zip(met, chances, strict=True)]
        outcomes = [between(low, high, least) for low, high in intervals]
        found = {outcome: outcomes.count(outcome) / EXPERIMENTS for outcome in Outcome}
        return Rates(found[Outcome.PASS], found[Outcome.FAIL], found[Outcome.INCONCLUSIVE])


def _margin(records: Sequence[Record], name: str) -> tuple[float, float]:
    """The drop that an unchanged model stays below in 99 % of comparisons, and how often it fails with that margin."""
    from stabgate.verdict.regression import judge_regression

    rng = np.random.default_rng(1)
    pairs = [_mixed(records, rng) for _ in range(PAIRS)]
    drops = [judge_regression(a, b, max_drop=0.0, name=name, baseline=name).estimate for a, b in pairs]
    margin = max(0.0, float(np.quantile([d for d in drops if d is not None] or [0.0], QUANTILE)))
    margin = math.ceil(100 * margin - 1e-9) / 100
    verdicts = [judge_regression(a, b, max_drop=margin, name=name, baseline=name) for a, b in pairs]
    return margin, sum(v.outcome is Outcome.FAIL for v in verdicts) / PAIRS


def _mixed(records: Sequence[Record], rng: np.random.Generator) -> tuple[Record, Record]:
    """Two measurements that might have been: each row (or pair) from a repetition of its own, never the same twice."""
    first = rng.integers(0, len(records), max(len(records[0].rows), len(records[0].pairs)))
    second = (first + rng.integers(1, len(records), len(first))) % len(records)

    def mixture(which: Any) -> Record:
        rows = tuple(records[r].rows[i] for i, r in enumerate(which[: len(records[0].rows)]))
        # Pairs of one image share what was drawn for it: they come together.
        images = sorted({p.image for p in records[0].pairs})
        chosen = dict(zip(images, which, strict=False))
        pairs = tuple(p for i in images for p in records[chosen[i]].pairs if p.image == i)
        return replace(records[0], rows=rows, pairs=pairs)

    return mixture(first), mixture(second)


def _thin(result: KStability, runs: int) -> KStability:
    settings = result.settings
    return stability_of(
        result.attributions.thin(runs),
        **{name: getattr(settings, name) for name in settings.__dataclass_fields__},
    )


def _check(results: Sequence[Any], ids: Sequence[Any]) -> None:
    if len(results) < 3:
        raise InputError(f"{len(results)} measurements were given; a spread needs at least 3")
    if any(found != ids[0] for found in ids):
        raise InputError("the measurements are of different rows: A/A runs measure the same ones")


def _below(mean: float, spread: float, least: float) -> float:
    """P(a normal value is below `least`)."""
    if spread == 0.0:
        return float(mean < least)
    return 0.5 * (1.0 + math.erf((least - mean) / (spread * math.sqrt(2.0))))
