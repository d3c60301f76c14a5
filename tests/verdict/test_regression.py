"""Regression against an earlier measurement: when it fails, what may not be compared, and what a reader is told."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import stabgate as sg
from stabgate.gate_regression import judge_no_regression
from stabgate.measure.record import FASS, K, PairRecord, Record, RowRecord
from stabgate.report.regression import REGRESSION_HEADINGS, regression_failure_text, regression_row
from stabgate.verdict.regression import judge_regression

FEATURES = ("income", "age", "tenure", "region", "debt", "rent")
EXPLAINER = {
    "explainer": "lime",
    "settings": {"num_samples": 500, "kernel_width": 0.75},
    "package": {"lime": "0.2.0.1"},
    "background": {"rows": 100, "sha256": "abcd"},
}
SETTINGS = {"threshold": 0.9, "rule": "all-pairs", "bandwidth": "silverman", "bias_corrected": False}
VERSIONS = {"stabgate": "0.1.0", "numpy": "2.4.6", "python": "3.11.7"}


def halves(*counts):
    """How many of 100 half-samples have k = 1, 2, ...; one number: all of them have that k."""
    return (
        tuple(100 * (k == counts[0]) for k in range(1, 7)) if len(counts) == 1 else (*counts, *[0] * (6 - len(counts)))
    )


def measurement(ks, *, halved=None, leading=None, **other):
    """A record of rows with these k; 0 is a row that was not measured."""
    rows = tuple(
        RowRecord(
            id=f"{i:02d}",
            hash=f"h{i}",
            target="bad",
            k=k,
            halves=() if k == 0 else halves(k) if halved is None else halved[i],
            leading=() if k == 0 else FEATURES if leading is None else leading[i],
        )
        for i, k in enumerate(ks)
    )
    found = Record(K, 50, 0, SETTINGS, EXPLAINER, "Forest", "m1", "c1", VERSIONS, rows=rows, features=FEATURES)
    return replace(found, **other)


def maps(scores, **other):
    """A record of FASS: ``scores[image][perturbation]``; None is a prediction that changed."""
    pairs = tuple(
        PairRecord(f"{i:02d}", f"h{i}", f"p{j}", 0, "prediction changed" if s is None else "retained", s)
        for i, row in enumerate(scores)
        for j, s in enumerate(row)
    )
    explainer = {"explainer": "captum.saliency", "settings": {}, "package": {"captum": "0.9.0"}}
    found = Record(
        FASS, 1, 0, {"protocol": "aligned"}, explainer, "Net", "m1", None, VERSIONS, pairs=pairs, population=True
    )
    return replace(found, **other)


def judged(now, before, *, max_drop=0.1, k=None, baseline="credit/lime"):
    return judge_regression(now, before, max_drop=max_drop, k=k, name="credit", baseline=baseline)


BEFORE = measurement([3] * 10)


def test_the_same_measurement_has_a_drop_of_exactly_zero_and_passes():
    verdict = judged(BEFORE, BEFORE, max_drop=0)
    assert (verdict.outcome, verdict.estimate, verdict.measured, verdict.n) == ("PASS", 0.0, 10, 10)
    assert verdict.requirement.metric == "mean k"
    assert (verdict.fact("before"), verdict.fact("now")) == (3.0, 3.0)
    assert any("the same model" in note for note in verdict.notes)


def test_a_certain_drop_fails_only_above_the_margin():
    fallen = measurement([2, 2] + [3] * 8)  # mean k 2.8
    assert judged(fallen, BEFORE, max_drop=0.1).outcome == "FAIL"
    assert judged(fallen, BEFORE, max_drop=0.1).estimate == pytest.approx(0.2)
    assert judged(fallen, BEFORE, max_drop=0.3).outcome == "PASS"
    exact = judged(fallen, BEFORE, max_drop=0.2)  # "at most 0.2" allows 0.2, whatever floats make of it
    assert exact.outcome == "PASS"
    assert any("hinges" in note for note in exact.notes)


def test_the_test_is_the_weighted_z_test_of_the_half_samples():
    before = measurement([3, 4], halved=[halves(0, 20, 80), halves(0, 0, 30, 70)])
    now = measurement([2, 3], halved=[halves(10, 60, 30), halves(0, 0, 90, 10)], seed=1)
    means = np.array([[2.8, 3.7], [2.2, 3.1]])
    # Opposite halves: two values differ in twice the smaller share; (1 x 10, 2 x 60, 3 x 30) pairs off 1 with 3 ten
    # times and 2 with 3 twenty times, each counted from both ends.
    variances = np.array([[0.2, 0.3], [(20 * 4 + 40 * 1) / 100 / 2, 0.1]]).sum(axis=0)
    weights = 1 / (variances + 0.25)
    z = (weights * (means[0] - means[1])).sum() / np.sqrt((weights**2 * (variances + 0.05)).sum())
    verdict = judged(now, before)
    assert verdict.estimate == pytest.approx(0.6)
    assert verdict.fact("p") == pytest.approx(stats.norm.sf(z), rel=1e-9)
    half = 1.959963984540054 * np.sqrt(variances.sum() + 0.5) / 2
    assert verdict.interval == pytest.approx((0.6 - half, 0.6 + half))


def test_a_drop_beyond_the_margin_that_may_be_chance_passes_and_says_so():
    before = measurement([3] * 4, halved=[halves(0, 20, 60, 20)] * 4)
    now = measurement([3] * 4, halved=[halves(10, 30, 40, 20)] * 4, seed=1)
    verdict = judged(now, before)
    assert verdict.outcome == "PASS"
    assert verdict.estimate == pytest.approx(0.3)
    assert verdict.fact("p") > 0.01
    [note] = [note for note in verdict.notes if "chance" in note]
    assert "0.3" in note
    assert "more rows" in note


def test_a_share_falls_when_rows_no_longer_reach_k():
    now = measurement([2] * 4 + [3] * 6)
    verdict = judged(now, BEFORE, k=3, max_drop=0.3)
    assert (verdict.outcome, verdict.requirement.metric) == ("FAIL", "share of rows with k >= 3")
    assert verdict.estimate == pytest.approx(0.4)
    assert judged(now, BEFORE, k=2, max_drop=0.0).estimate == 0.0
    assert judged(measurement([2] * 10), BEFORE, k=4, max_drop=0.0).outcome == "PASS"  # none reached 4 before either


def test_fass_is_compared_pair_by_pair_and_tested_by_image():
    rng = np.random.default_rng(0)
    old = rng.uniform(0.5, 0.8, (8, 3))
    new = old - 0.05 + 0.02 * rng.normal(size=old.shape)
    verdict = judged(maps(new.tolist()), maps(old.tolist()), max_drop=0.02)
    falls = (old - new).mean(axis=1)  # equally many pairs an image: the t-test of the images' means
    expected = stats.ttest_1samp(falls, 0.0, alternative="greater")
    both = stats.ttest_1samp(falls, 0.0).confidence_interval(0.95)
    assert verdict.estimate == pytest.approx(falls.mean())
    assert verdict.fact("p") == pytest.approx(expected.pvalue, rel=1e-6)
    assert verdict.interval == pytest.approx((both.low, both.high))
    assert verdict.outcome == "FAIL"
    assert (verdict.n, verdict.measured) == (24, 24)


def test_fass_of_one_image_is_inconclusive():
    assert judged(maps([[0.3, 0.4]]), maps([[0.8, 0.9]])).outcome == "INCONCLUSIVE"


def test_retention_that_moved_is_told_and_only_common_pairs_are_compared():
    old = [[0.8, 0.7]] * 4
    new = [[0.8, None]] * 2 + [[0.8, 0.7]] * 2
    verdict = judged(maps(new), maps(old))
    assert (verdict.outcome, verdict.estimate, verdict.n, verdict.measured) == ("PASS", 0.0, 8, 6)
    assert "retention of p1 fell from 100 % to 50 %" in verdict.notes
    assert any("over all retained pairs" in note for note in verdict.notes)


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"runs": 20}, "--stabgate-runs=50"),
        ({"settings": {**SETTINGS, "threshold": 0.8}}, "threshold: 0.8 now, 0.9 before"),
        ({"settings": {**SETTINGS, "bias_corrected": True}}, "bias_corrected: true now, false before"),
        ({"explainer": {**EXPLAINER, "explainer": "shap"}}, "another explainer"),
        ({"explainer": {**EXPLAINER, "settings": {"num_samples": 100, "kernel_width": 0.75}}}, "num_samples: 100 now"),
        ({"explainer": {**EXPLAINER, "background": {"rows": 100, "sha256": "ef"}}}, "another background"),
        ({"explainer": {**EXPLAINER, "package": {"lime": "0.3.0"}}}, "lime 0.3.0 now, 0.2.0.1 before"),
        ({"explainer": {**EXPLAINER, "package": {"lime": "1.2.0.1"}}}, "lime 1.2.0.1 now, 0.2.0.1 before"),
        ({"explainer": {**EXPLAINER, "target": "good"}}, 'target: "good" now, null before'),
        ({"explainer": {**EXPLAINER, "groups": {"a": ["b", "c"]}}}, "groups"),
        ({"population": True}, "a sample of a population now"),
        ({"columns_hash": "c2"}, "types or levels"),
        ({"features": (*FEATURES[:-1], "salary")}, "without rent, new salary"),
        ({"features": FEATURES[::-1]}, "in another order"),
        ({"rows": BEFORE.rows[:-1]}, "1 missing (09)"),
        ({"rows": (*BEFORE.rows[:-1], replace(BEFORE.rows[-1], id="77"))}, "1 missing (09), 1 new (77)"),
        ({"rows": (*BEFORE.rows[:-1], replace(BEFORE.rows[-1], hash="x"))}, "other values in 1 of 10 rows (09)"),
    ],
)
def test_what_changes_values_by_itself_is_inconclusive_and_named(other, named):
    verdict = judged(replace(BEFORE, **other), BEFORE)
    assert verdict.outcome == "INCONCLUSIVE"
    assert any(named in reason for reason in verdict.reasons), verdict.reasons
    assert any("accept" in reason for reason in verdict.reasons)
    assert verdict.estimate is None
    assert named in regression_failure_text(verdict, replay="pytest x")


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"seed": 7}, "other seeds (7 now, 0 before)"),
        ({"model_hash": "m2"}, "another model: Forest (m2), before Forest (m1)"),
        ({"model_hash": None}, "not known"),
        ({"versions": {**VERSIONS, "numpy": "2.5.0"}}, "numpy 2.4.6 before, 2.5.0 now"),
        ({"explainer": {**EXPLAINER, "package": {"lime": "0.2.1"}}}, "lime 0.2.1 now, 0.2.0.1 before"),
        (
            {"rows": (replace(BEFORE.rows[0], target="good"), *BEFORE.rows[1:])},
            "on 1 of 10 rows (row 00: good, before bad)",
        ),
        ({"rows": (replace(BEFORE.rows[0], hash=""), *BEFORE.rows[1:])}, "1 rows were compared by id only"),
    ],
)
def test_what_may_differ_is_named(other, named):
    verdict = judged(replace(BEFORE, **other), BEFORE)
    assert verdict.outcome == "PASS"
    assert any(named in note for note in verdict.notes), verdict.notes


def test_settings_written_with_fewer_digits_are_the_same():
    settings = {**EXPLAINER["settings"], "kernel_width": 0.75 + 1e-13}
    assert judged(replace(BEFORE, explainer={**EXPLAINER, "settings": settings}), BEFORE).outcome == "PASS"


def test_three_runs_are_inconclusive():
    few = measurement([3] * 10, halved=[()] * 10, runs=3)
    verdict = judged(few, few)
    assert verdict.outcome == "INCONCLUSIVE"
    assert "so few runs" in verdict.reasons[0]


@pytest.mark.parametrize(
    ("now", "before", "max_drop", "outcome"),
    [
        ([0] * 10, [3] * 10, 0.1, "NOT MEASURED"),
        ([3] * 4 + [0] * 6, [3] * 10, 1.5, "NOT MEASURED"),  # fewer than half are left
        ([3] * 9 + [0], [3] * 10, 0.1, "NOT MEASURED"),  # k = 1 on that row would be a drop of 0.2
        ([3] * 9 + [0], [3] * 10, 0.3, "PASS"),  # whatever that row would have been
        ([2] * 9 + [0], [3] * 10, 0.3, "FAIL"),
        ([3] * 10, [3] * 9 + [0], 0.1, "PASS"),
    ],
)
def test_rows_that_are_missing_now_can_only_make_it_worse(now, before, max_drop, outcome):
    verdict = judged(measurement(now), measurement(before), max_drop=max_drop)
    assert verdict.outcome == outcome
    assert verdict.outcome == "PASS" or verdict.reasons


def test_a_rise_is_reported_and_can_be_accepted():
    verdict = judged(measurement([4] * 4 + [3] * 6), BEFORE)
    assert (verdict.outcome, verdict.fact("improved")) == ("PASS", True)
    assert verdict.estimate == pytest.approx(-0.4)
    [note] = [note for note in verdict.notes if "rose" in note]
    assert "rose by 0.4" in note
    assert "(p of a rise < 1e-06); " in note
    assert "stabgate accept" in note


def test_a_rise_that_may_be_chance_has_the_p_of_a_rise():
    before = measurement([3] * 4, halved=[halves(10, 30, 40, 20)] * 4)
    now = measurement([3] * 4, halved=[halves(0, 20, 60, 20)] * 4, seed=1)
    verdict = judged(now, before)
    [note] = [note for note in verdict.notes if "chance" in note]
    assert f"which may be chance (p of a rise = {1 - verdict.fact('p'):.2g})" in note
    maps_text = regression_failure_text(judged(maps([[0.3], [0.4]]), maps([[0.5], [0.6]])), replay="pytest x")
    assert "weigh more" not in maps_text


@pytest.mark.parametrize(
    ("baseline", "adopted", "alike"),
    [
        ("baseline models:/credit@champion (version 3)", "its address or alias", "--stabgate-early=off"),
        ("an earlier measurement", "compare with this measurement", "measure both alike"),
        ("baseline old/credit.json", "compare with this measurement", "measure both alike"),
    ],
)
def test_what_no_command_can_accept_has_another_way_forward(baseline, adopted, alike):
    fell = judged(measurement([2] * 10), BEFORE, baseline=baseline)
    text = regression_failure_text(fell, replay="pytest x")
    assert adopted in text
    assert "stabgate accept" not in text
    other = judged(replace(BEFORE, runs=20), BEFORE, baseline=baseline)
    assert alike in other.reasons[-1]
    assert "stabgate accept" not in other.reasons[-1]


def test_who_left_the_first_three_and_where_their_order_changed():
    old = [FEATURES] * 10
    new = [
        *[("age", "income", "tenure", *FEATURES[3:])] * 2,
        *[("age", "tenure", "debt", "income", "region", "rent")] * 3,
        *[FEATURES] * 5,
    ]
    verdict = judged(measurement([3] * 10, leading=new), measurement([3] * 10, leading=old))
    assert [note for note in verdict.notes if "first 3" in note] == [
        "'income' left the first 3 on 3 of 10 rows",
        "'debt' entered the first 3 on 3 of 10 rows",
        "the order of the first 3 changed on 2 of 10 rows",
    ]
    two = judged(measurement([3] * 10, leading=new), measurement([3] * 10, leading=old), k=2)
    assert "'income' left the first 2 on 3 of 10 rows" in two.notes


def test_changes_of_many_features_are_counted_not_listed():
    names = tuple(f"f{j}" for j in range(40))
    old = [names[3 * i : 3 * i + 3] for i in range(10)]
    new = [names[3 * i + 3 : 3 * i + 6] for i in range(10)]
    notes = judged(measurement([3] * 10, leading=new), measurement([3] * 10, leading=old)).notes
    assert sum("first 3" in note for note in notes) == 12
    assert "and 25 more features left the first 3" in notes


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_drop": -0.1}, "max_drop=-0.1"),
        ({"max_drop": float("nan")}, "max_drop=nan"),
        ({"max_drop": "0.1"}, "max_drop='0.1'"),
        ({"max_drop": True}, "max_drop=True"),
        ({"max_drop": 5}, "can never be exceeded"),
        ({"max_drop": 10, "k": 3}, "can never be exceeded"),
        ({"k": 1}, "k=1"),
        ({"k": 7}, "k=7"),
        ({"k": 2.0}, "k=2.0"),
    ],
)
def test_a_requirement_that_cannot_be_meant_is_refused(options, named):
    with pytest.raises(sg.InputError, match=r"k=|max_drop=") as caught:
        judged(BEFORE, BEFORE, **options)
    assert named in str(caught.value)


def test_other_metrics_cannot_be_compared_and_fass_has_no_k():
    with pytest.raises(sg.InputError, match="FASS"):
        judged(BEFORE, maps([[0.5], [0.6]]))
    with pytest.raises(sg.InputError, match="FASS, which has no k"):
        judged(maps([[0.5], [0.6]]), maps([[0.5], [0.6]]), k=2)


def test_the_failure_says_what_fell_by_how_much_and_how_to_accept_it():
    verdict = judged(measurement([1, 2, 2, 2, 2, 2, 2, 3, 3, 3]), BEFORE)
    text = regression_failure_text(verdict, replay="pytest test_credit.py::test")
    first, *rest = text.splitlines()
    assert first.startswith(
        "FAIL: credit: mean k may fall by at most 0.1 against credit/lime, it fell by 0.800, from 3 to 2.2"
    )
    assert "[10 of 10 rows measured in both, 50 runs]" in first
    interval = r" \(95 % interval of the drop of the plain mean \S+ to \S+, "
    assert re.search(interval + r"p < 1e-06, in which rows that vary less weigh more\) ", first)
    assert rest[:2] == ["  row 00: k fell from 3 to 1", "  row 01: k fell from 3 to 2"]
    assert "  and 2 more rows fell" in rest
    assert 'stabgate accept REPORT.json --reason "..."' in text
    assert "--stabgate-update" in text
    assert rest[-1] == "  replay: pytest test_credit.py::test"


def test_the_table_has_a_cell_for_each_heading():
    row = dict(zip(REGRESSION_HEADINGS, regression_row(judged(measurement([2] * 10), BEFORE)), strict=True))
    assert (row["before"], row["now"], row["drop"], row["margin"], row["verdict"]) == ("3", "2", "1.000", "0.1", "FAIL")
    nothing = dict(zip(REGRESSION_HEADINGS, regression_row(judged(replace(BEFORE, runs=9), BEFORE)), strict=True))
    assert (nothing["before"], nothing["drop"], nothing["p"]) == ("-", "-", "-")


def explained(X, seed):
    means = [3.0, 2.0, 1.0] if X[0, 0] < 60 else [3.0, 2.9, 1.0]
    return means + 0.05 * np.random.default_rng(seed).normal(size=3)


def worse(X, seed):
    return [3.0, 2.98, 1.0] + 0.05 * np.random.default_rng(seed).normal(size=3)


X = np.arange(30.0).reshape(10, 3)


def measured(function, **options):
    return sg.measure_k_stability(sg.explainers.Custom(function, name="mine"), X, runs=20, cache=False, **options)


def test_results_are_compared_with_results_and_records():
    before = measured(explained)
    verdict = sg.assert_no_regression(measured(explained), before, max_drop=0)
    assert (verdict.estimate, verdict.name) == (0.0, "mine")
    assert verdict.cost.seconds > 0
    sg.assert_no_regression(measured(explained, seed=3), sg.Record.of(before), max_drop=0.2, k=2)
    with pytest.raises(sg.StabilityError, match="mean k may fall by at most") as caught:
        sg.assert_no_regression(measured(worse), before, max_drop=0.5, name="credit")
    assert caught.value.verdict.outcome == "FAIL"
    judged_again = judge_no_regression(measured(worse), before, max_drop=0.5)
    assert judged_again.before == sg.Record.of(before)
    assert "row 0: k fell from 3 to 1" in judged_again.message


def test_inconclusive_can_warn():
    before, other = measured(explained), measured(explained, threshold=0.8)
    with pytest.raises(sg.StabilityError, match="threshold: "):
        sg.assert_no_regression(other, before, max_drop=0.1)
    with pytest.warns(sg.InconclusiveWarning, match="threshold"):
        sg.assert_no_regression(other, before, max_drop=0.1, inconclusive="warn")


def test_a_baseline_or_a_result_of_another_kind_is_refused():
    before = measured(explained)
    with pytest.raises(sg.InputError, match="baseline is missing"):
        sg.assert_no_regression(before, max_drop=0.1)
    with pytest.raises(sg.InputError, match="found dict"):
        sg.assert_no_regression(before, {}, max_drop=0.1)
    with pytest.raises(sg.InputError, match="measure first"):
        sg.assert_no_regression(X, before, max_drop=0.1)


def test_a_class_that_was_asked_for_is_part_of_what_is_compared():
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression().fit(X, np.arange(10) % 2)
    explainer = sg.explainers.Lime(model, background=X, num_samples=50, discretize_continuous=False)
    before = sg.measure_k_stability(explainer, X[:2], runs=4, target=1)
    now = sg.measure_k_stability(explainer, X[:2], runs=4, target=0)
    assert judge_no_regression(now, before, max_drop=0.1).verdict.outcome == "INCONCLUSIVE"
    assert sg.Record.from_json(sg.Record.of(now).to_json()) == sg.Record.of(now)
