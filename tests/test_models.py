"""Models: every kind behind one face, targets by label, and what cannot be measured."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stabgate.adapters import as_model
from stabgate.cost import Cost
from stabgate.errors import InputError, ModelError
from stabgate.models import Model, Predictor
from stabgate.tables import Table

pytest.importorskip("sklearn")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Y = (X[:, 0] + X[:, 1] > 0).astype(int)
THREE = np.digitize(X[:, 0], [-0.5, 0.5])


def outputs_of(model, rows=X):
    return Predictor(as_model(model), Table.of(rows))(Table.of(rows).encode(rows))


def test_estimators_give_probabilities_scores_or_values():
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.svm import LinearSVC

    logistic = LogisticRegression().fit(X, np.where(Y == 1, "yes", "no"))
    np.testing.assert_array_equal(outputs_of(logistic), logistic.predict_proba(X))
    assert as_model(logistic).labels == ("no", "yes")
    assert as_model(logistic).task == "classification"
    svm = LinearSVC().fit(X, Y)
    np.testing.assert_array_equal(outputs_of(svm), svm.decision_function(X)[:, None])
    ridge = Ridge().fit(X, Y)
    np.testing.assert_array_equal(outputs_of(ridge), ridge.predict(X)[:, None])
    assert as_model(ridge).task == "regression"
    assert as_model(ridge).labels is None


def test_pipelines_get_frames():
    pd = pytest.importorskip("pandas")
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame = pd.DataFrame({"age": X[:, 0], "town": np.where(X[:, 1] > 0, "Ulm", "Bern")})
    encoder = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    pipeline = make_pipeline(encoder, LogisticRegression()).fit(frame, Y)
    np.testing.assert_array_equal(outputs_of(pipeline, frame), pipeline.predict_proba(frame))


def test_boosters():
    lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    light = lightgbm.LGBMClassifier(n_estimators=2, verbose=-1, n_jobs=1).fit(X, Y)
    np.testing.assert_array_equal(outputs_of(light.booster_), light.predict_proba(X)[:, 1:])
    extreme = xgboost.XGBClassifier(n_estimators=2, n_jobs=1).fit(X, Y)
    np.testing.assert_allclose(outputs_of(extreme.get_booster()), extreme.predict_proba(X)[:, 1:], rtol=1e-6)


@pytest.mark.parametrize("shape", [(80,), (80, 1), (80, 2), (80, 5)])
def test_callables_of_every_shape(shape):
    given_outputs = np.random.default_rng(1).normal(size=shape)
    found = outputs_of(lambda rows: given_outputs)
    np.testing.assert_array_equal(found, given_outputs.reshape(80, -1))
    assert found.dtype == np.float64


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.zeros(79), r"returned shape \(79,\) for 80 rows"),
        (np.zeros((80, 0)), "returned shape"),
        (np.zeros((80, 2, 2)), "returned shape"),
        (np.full(80, np.nan), "returned nan for 80 of 80 rows"),
        (np.r_[np.zeros(79), np.inf], "returned inf for 1 of 80 rows"),
        (np.array(["yes"] * 80), "not numbers, the first is 'yes'"),
        ((np.zeros(80), np.zeros(80)), "a tuple of 2"),
    ],
    ids=str,
)
def test_outputs_that_are_none(returned, message):
    with pytest.raises(ModelError, match=message):
        outputs_of(lambda rows: returned)


def test_a_model_that_raises_is_named():
    def scorer(rows):
        raise KeyError("age")

    with pytest.raises(ModelError, match="scorer raised KeyError: 'age'"):
        outputs_of(scorer)


@pytest.mark.parametrize("model", [3, None, object()], ids=lambda m: type(m).__name__)
def test_what_is_no_model(model):
    with pytest.raises(InputError, match="neither predict_proba"):
        as_model(model)


def test_a_text_that_is_no_address_is_no_model():
    with pytest.raises(InputError, match=r"'model.pkl' is text, and there is no such folder; expected models:/"):
        as_model("model.pkl")


def test_a_class_is_no_model():
    from sklearn.linear_model import Ridge

    with pytest.raises(InputError, match="is the class Ridge, not an instance"):
        as_model(Ridge)


def face(labels=None, task="unknown"):
    return Model(lambda rows: rows, "face", task, labels)


@given(st.integers(1, 4), st.integers(1, 6))
def test_default_targets(count, rows):
    """The only output, the second of two, the largest of more."""
    outputs = np.random.default_rng(count * 7 + rows).normal(size=(rows, count))
    expected = {1: np.zeros(rows), 2: np.ones(rows)}.get(count, outputs.argmax(axis=1))
    np.testing.assert_array_equal(face().targets(None, outputs), expected)


@pytest.mark.parametrize(
    ("labels", "target", "expected"),
    [
        (("no", "yes"), "yes", 1),
        ((False, True), True, 1),
        ((False, True), np.True_, 1),
        ((3, 7), 3, 0),
        ((3, 7), np.int64(7), 1),
        ((0.0, 1.0), 1, 1),
        (None, 1, 1),
    ],
)
def test_targets_by_label(labels, target, expected):
    np.testing.assert_array_equal(face(labels).targets(target, np.zeros((2, 2))), [expected] * 2)


@pytest.mark.parametrize(
    ("labels", "target", "outputs", "message"),
    [
        (("no", "yes"), "maybe", 2, "not a class of face; its classes are 'no', 'yes'"),
        (("no", "yes"), 1, 2, "not a class"),
        (None, 2, 2, "not an output of face; it has 2"),
        (None, -1, 2, "not an output"),
        (None, "yes", 2, "no class labels"),
        (None, True, 2, "no class labels"),
        (("no", "yes"), "no", 1, "complement"),
    ],
)
def test_targets_that_do_not_exist(labels, target, outputs, message):
    with pytest.raises(InputError, match=message):
        face(labels).targets(target, np.zeros((3, outputs)))


def test_a_regression_of_several_outputs_needs_a_target():
    with pytest.raises(InputError, match="regression with 3 outputs; say which one with target=0 to 2"):
        face(task="regression").targets(None, np.zeros((2, 3)))
    np.testing.assert_array_equal(face(task="regression").targets(2, np.zeros((2, 3))), [2, 2])


def test_one_score_of_two_classes_belongs_to_the_second():
    from sklearn.svm import LinearSVC

    model = as_model(LinearSVC().fit(X, np.where(Y == 1, "yes", "no")))
    np.testing.assert_array_equal(model.targets("yes", np.zeros((2, 1))), [0, 0])
    assert model.label_of(0, 1) == "yes"
    assert model.label_of(0, 2) == "no"


def test_a_model_that_varies_is_refused():
    calls = []

    def drifting(rows):
        calls.append(1)
        return rows[:, 0] + len(calls) * 1e-6

    predictor = Predictor(as_model(drifting), Table.of(X))
    with pytest.raises(ModelError, match=r"drifting varies between identical calls: row '.' gave"):
        predictor.check_repeatable(X, tuple("abcdefgh" * 10))
    steady = Predictor(as_model(lambda rows: rows[:, 0]), Table.of(X))
    np.testing.assert_array_equal(steady.check_repeatable(X, tuple(range(80))), X[:, :1])


def test_costs_are_counted():
    predictor = Predictor(as_model(lambda rows: rows[:, 0]), Table.of(X))
    predictor(X)
    predictor(X[:5])
    assert (predictor.cost.rows, predictor.cost.rows_asked, predictor.cost.calls) == (85, 85, 2)
    assert predictor.cost.model_seconds > 0
    total = predictor.cost + Cost(rows=5, calls=1)
    assert (total - Cost(rows=5, calls=1)).rows == predictor.cost.rows


def test_remembered_rows_are_asked_for_but_not_evaluated():
    import time

    def slow(rows):
        time.sleep(0.02)
        return rows[:, 0]

    predictor = Predictor(as_model(slow), Table.of(X))
    with predictor.remembering():
        first = predictor(X)
        np.testing.assert_array_equal(predictor(X[::-1]), first[::-1])
    assert (predictor.cost.rows, predictor.cost.rows_asked) == (80, 160)
    predictor(X)
    assert predictor.cost.rows == 160
