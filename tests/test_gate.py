"""The assertion without pytest's plugin: what passes, what fails, what was not measured, and what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import stabgate as sg

X = np.arange(30.0).reshape(10, 3)


def steady_except(confused=(), failing=()):
    """Rows keep 3 > 2 > 1, but those in `confused` cannot tell the first two apart and those in `failing` raise."""

    def explain(X, seed):
        row = int(X[0, 0]) // 3
        if row in failing:
            raise RuntimeError("did not converge")
        means = [3.0, 3.0, 1.0] if row in confused else [3.0, 2.0, 1.0]
        return means + 0.05 * np.random.default_rng(seed).normal(size=3)

    return sg.explainers.Custom(explain, name="mine")


@pytest.mark.parametrize(
    ("confused", "failing", "share", "outcome"),
    [
        ((), (), 1.0, "PASS"),
        ((4,), (), 1.0, "FAIL"),
        ((4,), (), 0.9, "PASS"),
        ((4, 5), (), 0.9, "FAIL"),
        ((), (7,), 1.0, "NOT MEASURED"),  # 9 of 9 measured rows meet it; the tenth decides and is unknown
        ((), (7,), 0.9, "PASS"),  # 9 of 10 meet it whatever the tenth would have been
        ((4,), (7,), 0.9, "NOT MEASURED"),
        ((4, 5), (7,), 0.9, "FAIL"),  # at most 8 of 10 could meet it
        ((), range(10), 0.1, "NOT MEASURED"),
        ((), range(9), 0.2, "NOT MEASURED"),
        ((0, 1, 2), (), 0.7, "PASS"),  # 0.7 * 10 is 7.000000000000001 in floats
    ],
)
def test_rows_that_were_not_measured_never_count_as_met(confused, failing, share, outcome):
    explainer = steady_except(confused, failing)
    if outcome == "PASS":
        verdict = sg.assert_min_k_stability(explainer, X, k=2, share=share, runs=20, early=False)
    else:
        with pytest.raises(sg.StabilityError) as caught:
            sg.assert_min_k_stability(explainer, X, k=2, share=share, runs=20, early=False)
        verdict = caught.value.verdict
    assert verdict.outcome == outcome
    assert verdict.passed is (outcome == "PASS")
    assert (verdict.n, verdict.measured) == (10, 10 - len(failing))
    assert verdict.met == 10 - len(confused) - len(failing)
    assert verdict.estimate == (None if verdict.measured == 0 else verdict.met / 10)
    assert verdict.runs == verdict.requirement.runs == 20
    if failing:
        assert any("not measured" in text for text in (*verdict.reasons, *verdict.notes))


def test_the_message_says_required_and_measured_then_rows_then_reasons():
    with pytest.raises(AssertionError) as caught:
        sg.assert_min_k_stability(
            steady_except((4, 5), (7,)), X, k=2, share=0.9, runs=20, name="credit/mine", early=False
        )
    lines = str(caught.value).splitlines()
    assert lines[0] == (
        "FAIL: credit/mine: required k >= 2 on 90 % of rows, measured 70 % (7 of 10 rows, 95 % interval 65.6 % to"
        " 74.4 %) [distance >= 0.9, 20 runs, all-pairs]"
    )
    assert lines[1].startswith("  row 7 not measured: run 0 (seed ")
    assert lines[1].endswith("mine: RuntimeError: did not converge")
    assert all(line.startswith(f"  row {row}: k = 1: 'x") for line, row in zip(lines[2:4], (4, 5), strict=True)) or all(
        line.startswith(f"  row {row}: k = 1: 'x") for line, row in zip(lines[2:4], (5, 4), strict=True)
    )
    assert "'x0'" in lines[2]
    assert "'x1'" in lines[2]
    assert lines[-1] == "  replay: measure_k_stability(explainer, X, runs=20, threshold=0.9, seed=0)"


def test_the_message_stays_short_whatever_the_names_and_numbers():
    names = ["<script>alert(1)</script>" + "x" * 300, "b" * 300, "c"]
    frame = pd.DataFrame(np.zeros((200, 3)), columns=names)
    explainer = sg.explainers.Custom(lambda X, seed: np.random.default_rng(seed).normal(3, 1, 3), name="noise")
    with pytest.raises(sg.StabilityError) as caught:
        sg.assert_min_k_stability(explainer, frame, k=2, runs=10)
    assert len(str(caught.value)) < 3000
    assert "and 195 more rows below the requirement" in str(caught.value)


def test_number_and_verdict_never_contradict_each_other():
    base = sg.measure_k_stability(steady_except(), X[:1], runs=20)
    d = float(base.distances[0, 0, 1])
    explainer = steady_except((0,))
    with pytest.raises(sg.StabilityError, match=r"cannot be told apart \(distance (0\.\d+)\)"):
        sg.assert_min_k_stability(explainer, X[:1], k=2, runs=20)
    shaky = sg.explainers.Custom(
        lambda X, seed: np.array([3.0, 2.7, 1]) + np.random.default_rng(seed).normal(0, 0.1, 3)
    )
    d = float(sg.measure_k_stability(shaky, X[:1], runs=20).distances[0, 0, 1])
    with pytest.raises(sg.StabilityError) as caught:
        sg.assert_min_k_stability(shaky, X[:1], k=2, runs=20, threshold=d + 1e-9)
    shown = float(str(caught.value).split("(distance ")[1].split(")")[0])
    assert shown < d + 1e-9


def test_a_result_is_judged_without_measuring_again():
    result = sg.measure_k_stability(steady_except((4,)), X, runs=20)
    assert sg.assert_min_k_stability(result, k=2, share=0.9).estimate == 0.9
    with pytest.raises(sg.StabilityError):
        sg.assert_min_k_stability(result, k=2)
    with pytest.raises(sg.InputError, match="X cannot be given with a result"):
        sg.assert_min_k_stability(result, X, k=2)
    with pytest.raises(sg.InputError, match="runs cannot be given with a result"):
        sg.assert_min_k_stability(result, k=2, runs=3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 1}, "k=1 certifies nothing"),
        ({"k": 0}, "k=0"),
        ({"k": 4}, "k=4 asks for more than the 3 features there are"),
        ({"k": 2.5}, "k=2.5"),
        ({"share": 0}, "share=0"),
        ({"share": 1.01}, "share=1.01"),
        ({"share": float("nan")}, "share=nan"),
        ({"require": "set"}, "require='set'; it must be one of order, membership, both"),
        ({"require": "membership", "k": 3}, "nothing to be told apart from"),
        ({"thresold": 0.5}, "unknown option thresold; did you mean threshold?"),
        ({"X": None}, "X is missing"),
        ({"X": X[:0]}, "X has no rows"),
        ({"X": X[:, :1]}, "X has one feature"),
        ({"runs": 1}, "runs=1"),
    ],
)
def test_what_cannot_be_meant_is_refused(change, message):
    arguments = {"X": X, "k": 2, "runs": 5} | change
    if change.get("X") is not None and change["X"].shape[1] == 1:
        arguments["k"] = 2
        message = "k=2 asks for more than the 1 features|X has one feature"
    with pytest.raises(sg.InputError, match=message):
        sg.assert_min_k_stability(steady_except(), arguments.pop("X"), **arguments)


def test_one_row_is_enough_and_a_constant_column_does_not_disturb():
    assert sg.assert_min_k_stability(steady_except(), X[:1], k=3, runs=20).n == 1
    iris, y = load_iris(return_X_y=True)
    iris[:, 2] = 5.0
    model = LogisticRegression(max_iter=500).fit(iris, y)
    explainer = sg.explainers.Lime(model, background=iris, num_samples=300)
    result = sg.measure_k_stability(explainer, iris[:2], runs=10)
    assert np.isfinite(result.distances).all()
    shap = sg.measure_k_stability(sg.explainers.Shap(model, background=iris[::15]), iris[:2], runs=3)
    assert (shap.attributions.values[:, :, 2] == 0).all()  # a feature that never varies moves no output


def test_other_columns_than_the_background_are_named():
    frame = pd.DataFrame(X, columns=["age", "income", "tenure"])
    model = LogisticRegression().fit(frame, np.arange(10) % 2)
    explainer = sg.explainers.Lime(model, background=frame, num_samples=50)
    for columns, message in [
        (["age", "incme", "tenure"], "lacks column 'income' and has unknown column 'incme' .did you mean 'income'"),
        (["age", "income"], "lacks column 'tenure'"),
        (["age", "income", "tenure", "x"], "has unknown column 'x'"),
    ]:
        wrong = pd.DataFrame(np.zeros((2, len(columns))), columns=columns)
        with pytest.raises(sg.InputError, match=message):
            sg.assert_min_k_stability(explainer, wrong, k=2, runs=3)
    with pytest.raises(sg.InputError, match="X is an array and the background is a DataFrame"):
        sg.assert_min_k_stability(explainer, X, k=2, runs=3)
    shuffled = sg.measure_k_stability(explainer, frame[["tenure", "age", "income"]], runs=3)
    assert shuffled.features == ("age", "income", "tenure")


def test_the_error_travels_between_processes():
    with pytest.raises(sg.StabilityError) as caught:
        sg.assert_min_k_stability(steady_except((4,)), X, k=2, runs=20)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.verdict == caught.value.verdict
