"""Requirements on a share of rows: PASS, FAIL, INCONCLUSIVE, NOT MEASURED, whatever happened to the rows."""

from __future__ import annotations

import numpy as np
import pytest

import stabgate as sg
from stabgate.attributions import Attributions
from stabgate.measure.kstability import stability_of
from stabgate.verdict.kstability import judge_k, k_requirement

RUNS = 20
FAR, SAME = (9.0, 6.0, 3.0), (6.1, 6.0, 3.0)  # the first two features: always told apart, never


def result(steady=0, confused=0, doubtful=0, missing=0, *, runs=RUNS, **provenance):
    """Rows that keep their order, rows that cannot, rows on the threshold, and rows without measurement."""
    rng = np.random.default_rng(0)
    means = np.array([FAR] * steady + [SAME] * (confused + missing) + [(6.3, 6.0, 3.0)] * doubtful)
    noise = np.where(np.arange(len(means)) < steady + confused + missing, 0.2, 0.1)[:, None]
    values = means + noise * rng.normal(size=(runs, len(means), 3))
    lost = range(steady + confused, steady + confused + missing)
    values[:, list(lost)] = np.nan
    return stability_of(
        Attributions(
            values,
            tuple("abc"),
            tuple(range(len(means))),
            np.zeros((runs, len(means)), np.uint32),
            failures=dict.fromkeys(lost, "did not converge"),
            provenance=provenance,
        )
    )


def judged(found, share=1.0, **options):
    return judge_k(found, k_requirement(found, k=2, share=share, **options), name="gate")


@pytest.mark.parametrize(
    ("rows", "share", "outcome"),
    [
        ({"steady": 50}, 1.0, "PASS"),  # all settled: every row is required, and every row holds
        ({"steady": 1}, 1.0, "PASS"),
        ({"steady": 49, "confused": 1}, 1.0, "FAIL"),
        ({"steady": 49, "doubtful": 1}, 1.0, "INCONCLUSIVE"),
        ({"steady": 45, "confused": 5}, 0.9, "PASS"),
        ({"steady": 44, "confused": 6}, 0.9, "FAIL"),
        ({"steady": 40, "doubtful": 10}, 0.7, "PASS"),
        ({"steady": 40, "doubtful": 10}, 0.9, "INCONCLUSIVE"),
        ({"confused": 40, "doubtful": 10}, 0.9, "FAIL"),
        ({"steady": 49, "missing": 1}, 1.0, "NOT MEASURED"),
        ({"steady": 45, "missing": 5}, 0.9, "PASS"),
        ({"steady": 44, "missing": 6}, 0.9, "NOT MEASURED"),
        ({"steady": 40, "confused": 8, "missing": 2}, 0.9, "FAIL"),
        ({"steady": 40, "doubtful": 8, "missing": 2}, 0.9, "INCONCLUSIVE"),  # whatever they would have been
        ({"missing": 50}, 0.01, "NOT MEASURED"),
    ],
)
def test_what_becomes_of_rows_decides(rows, share, outcome):
    verdict = judged(result(**rows), share)
    assert verdict.outcome == outcome
    assert verdict.passed is (outcome == "PASS")
    assert (verdict.n, verdict.measured) == (sum(rows.values()), sum(rows.values()) - rows.get("missing", 0))
    assert verdict.runs == verdict.requirement.runs == RUNS
    assert bool(verdict.reasons) is (outcome != "PASS")
    if verdict.measured:
        low, high = verdict.interval
        assert 0 <= low <= verdict.estimate <= high <= 1


@pytest.mark.parametrize("runs", [2, 3])
def test_two_or_three_runs_have_no_interval_and_are_inconclusive(runs):
    verdict = judged(result(steady=5, runs=runs), 0.2)
    assert (verdict.outcome, verdict.interval) == ("INCONCLUSIVE", None)
    assert "at least 4 are needed" in verdict.reasons[0]


def test_two_runs_of_a_deterministic_explainer_decide():
    values = np.broadcast_to([FAR, FAR, (6.0, 6.0, 3.0)], (2, 3, 3)).copy()
    found = stability_of(Attributions(values, tuple("abc"), (0, 1, 2), np.zeros((2, 3), np.uint32)))
    assert judged(found, 0.6).outcome == "PASS"
    assert judged(found, 1.0).outcome == "FAIL"
    assert judged(found, 0.6).interval == (2 / 3, 2 / 3)


def test_rows_that_are_a_sample_need_more_rows():
    """Wilson's interval of 20 of 20 begins at 0.839."""
    fixed, sample = result(steady=20), result(steady=20, population=True)
    assert judged(fixed, 0.95).outcome == "PASS"
    assert judged(sample, 0.95).outcome == "INCONCLUSIVE"
    assert judged(sample, 0.83).outcome == "PASS"
    assert judged(result(confused=20, population=True), 0.2).outcome == "FAIL"
    assert "more rows" in judged(sample, 0.95).reasons[0]


@pytest.mark.parametrize("require", ["membership", "both"])
def test_the_group_is_judged_by_halves_too(require):
    assert judged(result(steady=20), require=require).outcome == "PASS"
    assert judged(result(steady=18, confused=2), require="order").outcome == "FAIL"
    outcome = judged(result(steady=18, confused=2), require=require).outcome
    assert outcome == ("PASS" if require == "membership" else "FAIL")  # the two confused are both in the group


def test_more_runs_settle_what_few_leave_open():
    def explain(X, seed):
        return [3.3, 3.0, 1.0] + 0.1 * np.random.default_rng(seed).normal(size=3)

    X = np.arange(30.0).reshape(10, 3)
    explainer = sg.explainers.Custom(explain, name="mine")
    few = sg.measure_k_stability(explainer, X, runs=5, cache=False)
    assert judged(few, 0.5).interval[1] - judged(few, 0.5).interval[0] > 0.2
