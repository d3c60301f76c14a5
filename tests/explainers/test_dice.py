"""Dice: equal to direct calls of dice-ml, on every kind of column, with a defined answer where DiCE has
none."""

from __future__ import annotations

import pickle
import random
import time
from functools import cache

import numpy as np
import pandas as pd
import pytest

dice_ml = pytest.importorskip("dice_ml")

from sklearn.compose import ColumnTransformer  # noqa: E402
from sklearn.datasets import load_breast_cancer, load_iris, make_regression  # noqa: E402
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor  # noqa: E402
from sklearn.linear_model import LinearRegression, LogisticRegression  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import OneHotEncoder, StandardScaler  # noqa: E402

from stabgate.errors import ExplainerError, InputError  # noqa: E402
from stabgate.explainers import Dice  # noqa: E402

METHODS = ("random", "genetic", "kdtree")


@cache
def cancer():
    data = load_breast_cancer(as_frame=True)
    return data.data.iloc[:, :6], data.target


@cache
def forest():
    X, y = cancer()
    return RandomForestClassifier(10, random_state=0).fit(X, y)


@cache
def logistic():
    X, y = cancer()
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)


@cache
def loans():
    """Numbers, whole numbers, text and a categorical: what a credit table looks like."""
    rng = np.random.default_rng(0)
    n = 160
    frame = pd.DataFrame(
        {
            "income": np.round(rng.uniform(10, 90, n), 1),
            "age": rng.integers(20, 70, n),
            "job": rng.choice(["clerk", "cook", "builder"], n),
            "home": pd.Categorical(rng.choice(["rent", "own"], n)),
        },
        index=[f"loan {i}" for i in range(n)],
    )
    y = np.where(frame["income"] + 20 * (frame["home"] == "own") + 5 * (frame["job"] == "cook") > 55, "yes", "no")
    columns = ColumnTransformer(
        [("levels", OneHotEncoder(handle_unknown="ignore"), ["job", "home"])], remainder=StandardScaler()
    )
    return frame, make_pipeline(columns, LogisticRegression()).fit(frame, y)


def direct(model, background, row, seed, *, method, continuous, desired_class=None, kind="classifier", **ask):
    """dice-ml as its users call it."""
    frame = background.assign(outcome=model.predict(background))
    explainer = dice_ml.Dice(
        dice_ml.Data(dataframe=frame, continuous_features=continuous, outcome_name="outcome"),
        dice_ml.Model(model=model, backend="sklearn", model_type=kind),
        method=method,
    )
    if kind == "classifier":
        ask["desired_class"] = "opposite" if desired_class is None else desired_class
    random.seed(seed)
    np.random.seed(seed)
    found = explainer.local_feature_importance(row, total_CFs=10, posthoc_sparsity_algorithm="binary", **ask)
    return np.array([found.local_importance[0][name] for name in background.columns])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("model", [forest, logistic], ids=["forest", "logistic"])
def test_equals_direct_calls_on_numbers(method, model):
    X, _ = cancer()
    seeds = [11] if method == "genetic" else [11, 12, 13]
    background, rows = X.iloc[:120], X.iloc[[200, 301, 402][: len(seeds)]]
    values = Dice(model(), background=background, method=method).explain(rows, seed=seeds)
    for i, seed in enumerate(seeds):
        expected = direct(model(), background, rows.iloc[[i]], seed, method=method, continuous=list(X.columns))
        np.testing.assert_array_equal(values[i], expected)
    assert (values >= 0).all()
    assert (values <= 1).all()
    assert values.max() > 0


@pytest.mark.parametrize("method", METHODS)
def test_equals_direct_calls_on_a_mixed_frame(method):
    frame, model = loans()
    background, rows = frame.iloc[:100], frame.iloc[[110] if method == "genetic" else [110, 121]]
    values = Dice(model, background=background, method=method).explain(rows, seed=5)
    for i in range(len(rows)):
        expected = direct(model, background, rows.iloc[[i]], 5, method=method, continuous=["income", "age"])
        np.testing.assert_array_equal(values[i], expected)


def test_equals_direct_calls_on_an_array():
    X, y = cancer()
    model = LogisticRegression(max_iter=5000).fit(X.to_numpy(), y)
    names = [f"x{j}" for j in range(X.shape[1])]
    value = Dice(model, background=X.to_numpy()[:120]).explain(X.to_numpy()[[300]], seed=3)[0]

    class OnFrames:
        def predict(self, frame):
            return model.predict(frame.to_numpy(dtype=float))

        def predict_proba(self, frame):
            return model.predict_proba(frame.to_numpy(dtype=float))

    background = pd.DataFrame(X.to_numpy()[:120], columns=names)
    row = pd.DataFrame(X.to_numpy()[[300]], columns=names)
    np.testing.assert_array_equal(value, direct(OnFrames(), background, row, 3, method="random", continuous=names))


def test_several_classes_go_to_the_second_most_probable():
    data = load_iris(as_frame=True)
    model = RandomForestClassifier(10, random_state=0).fit(data.data, data.target_names[data.target])
    row = data.data.iloc[[70]]
    second = int(np.argsort(-model.predict_proba(row)[0], kind="stable")[1])
    explainer = Dice(model, background=data.data)
    rows = explainer.prepare(row)
    assert rows.labels == (model.predict(row)[0],)
    expected = direct(
        model, data.data, row, 9, method="random", continuous=list(data.data.columns), desired_class=second
    )
    np.testing.assert_array_equal(explainer.explain(row, seed=9)[0], expected)
    setosa = Dice(model, background=data.data, desired_class="setosa").explain(row, seed=9)[0]
    expected = direct(model, data.data, row, 9, method="random", continuous=list(data.data.columns), desired_class=0)
    np.testing.assert_array_equal(setosa, expected)


@pytest.mark.parametrize("method", METHODS)
def test_a_regression_with_a_range(method):
    X, y = make_regression(150, 4, random_state=0)
    X = pd.DataFrame(np.round(X, 2), columns=list("abcd"))
    model = RandomForestRegressor(5, random_state=0).fit(X, y)
    goal = [float(v) for v in np.quantile(model.predict(X), [0.7, 0.95])]
    row = X.iloc[[int(np.argmin(model.predict(X)))]]
    values = Dice(model, background=X, method=method, desired_range=goal).explain(row, seed=1)[0]
    expected = direct(model, X, row, 1, method=method, continuous=list("abcd"), kind="regressor", desired_range=goal)
    np.testing.assert_array_equal(values, expected)


def test_features_that_may_not_vary_get_zero():
    X, _ = cancer()
    names = [X.columns[4], X.columns[0]]
    explainer = Dice(logistic(), background=X, features_to_vary=names, permitted_range={names[1]: [7, 20]})
    values = explainer.explain(X.iloc[[20]], seed=2)[0]
    expected = direct(
        logistic(), X, X.iloc[[20]], 2, method="random", continuous=list(X.columns),
        features_to_vary=names, permitted_range={names[1]: [7, 20]},
    )  # fmt: skip
    np.testing.assert_array_equal(values, expected)
    assert (np.delete(values, [0, 4]) == 0).all()


def test_one_seed_gives_one_answer_and_generators_are_given_back():
    X, _ = cancer()
    explainer = Dice(forest(), background=X.iloc[:120])
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].copy()
    both = explainer.explain(X.iloc[[130, 140]], seed=[4, 5])
    alone = pickle.loads(pickle.dumps(explainer)).explain(X.iloc[[140]], seed=5)
    np.testing.assert_array_equal(both[1], alone[0])
    assert random.getstate() == before[0]
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])


def test_nothing_is_printed(capfd):
    X, _ = cancer()
    Dice(forest(), background=X.iloc[:120]).explain(X.iloc[[130]], seed=0)
    with pytest.raises(ExplainerError):
        Dice(forest(), background=X.iloc[:120], permitted_range={c: [0, 0] for c in X.columns}).explain(
            X.iloc[[130]], seed=0
        )
    assert capfd.readouterr() == ("", "")


class Income:
    """Predicts by whatever columns it is given, and checks that they have kept their types."""

    classes_ = np.array([0, 1])

    def __init__(self, kinds):
        self.kinds = kinds

    def predict_proba(self, frame):
        for name, dtype in self.kinds.items():
            assert frame[name].dtype == dtype, name
        score = frame["income"].astype(float) / 100
        if "member" in frame:
            score = score + 0.2 * frame["member"].astype("boolean").fillna(False).astype(float)
        if "grade" in frame:
            score = score + 0.1 * frame["grade"].astype(float)
        if "day" in frame:
            score = score + 0.1 * (frame["day"] > pd.Timestamp("2024-01-16")).astype(float)
        score = np.clip(score, 0, 1)
        return np.column_stack([1 - score, score])


def test_columns_that_dice_cannot_take_are_encoded_and_come_back():
    """Booleans, nullable types, numbers as levels, datetimes and names that DiCE uses itself."""
    rng = np.random.default_rng(1)
    n = 80
    frame = pd.DataFrame(
        {
            "income": rng.uniform(0, 60, n).round(2),
            "member": rng.random(n) < 0.5,
            "maybe": pd.array(rng.random(n) < 0.5, dtype="boolean"),
            "grade": rng.integers(0, 4, n),
            "count": pd.array(rng.integers(0, 9, n), dtype="Int64"),
            "small": rng.integers(0, 9, n).astype(np.uint8),
            "tiny": rng.integers(1, 9, n) * 1e-7,
            "big": rng.integers(1, 9, n) * 10**12,
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 30, n), unit="D"),
            "outcome": rng.uniform(0, 1, n).round(2),
            "distance": rng.uniform(0, 1, n).round(2),
            7: rng.choice([1, "1"], n),
        }
    )
    frame.loc[3, "maybe"] = pd.NA
    kinds = {name: frame[name].dtype for name in ("member", "maybe", "day", 7)}
    numbers = [str(c) for c in frame.columns if c not in ("member", "maybe", "grade", 7)]
    for method in METHODS:
        explainer = Dice(Income(kinds), background=frame, method=method, continuous=numbers)
        rows = frame.iloc[[3] if method == "genetic" else [0, 3]]
        values = explainer.explain(rows, seed=0)
        assert values.shape == (len(rows), 12)
        assert values[:, 0].max() > 0
        assert (values <= 1).all()


def test_a_level_that_the_background_lacks():
    frame, model = loans()
    background, row = frame.iloc[:100], frame.iloc[[110]].assign(job="pilot")
    explainer = Dice(model, background=background)
    values = explainer.explain(pd.concat([row, frame.iloc[[111]]]), seed=8)
    expected = direct(model, pd.concat([background, row]), row, 8, method="random", continuous=["income", "age"])
    np.testing.assert_array_equal(values[0], expected)
    # the other row is explained as if the new level had never been seen
    np.testing.assert_array_equal(values[1], Dice(model, background=background).explain(frame.iloc[[111]], seed=8)[0])


def test_integer_categories_reach_xgboost_as_they_were():
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"a": rng.uniform(0, 1, 120).round(2), "level": rng.integers(0, 4, 120)})
    y = (X["a"] + 0.3 * (X["level"] == 2) > 0.6).astype(int)
    model = xgboost.XGBClassifier(n_estimators=10, n_jobs=1).fit(X, y)
    values = Dice(model, background=X, continuous=["a"]).explain(X.iloc[[0, 1]], seed=0)
    assert values.shape == (2, 2)
    assert values.sum() > 0


def test_outputs_that_are_no_probabilities():
    """A decision function, two scores and one probability read as the same two classes."""
    X, y = cancer()
    scaled = (X - X.mean()) / X.std()
    linear = LogisticRegression().fit(scaled, y)

    def scores(frame):
        score = linear.decision_function(frame)
        return np.column_stack([-score / 2, score / 2])

    def second(frame):
        return linear.predict_proba(frame)[:, 1]

    row = scaled.iloc[[25]]
    values = [Dice(model, background=scaled.iloc[:100]).explain(row, seed=6)[0] for model in (linear, scores, second)]
    np.testing.assert_array_equal(values[0], values[1])
    np.testing.assert_array_equal(values[0], values[2])


def test_the_target_is_the_predicted_class():
    X, _ = cancer()
    explainer = Dice(forest(), background=X.iloc[:120])
    predicted = forest().predict(X.iloc[[130, 131]])
    assert explainer.prepare(X.iloc[[130, 131]]).labels == tuple(predicted)
    assert explainer.prepare(X.iloc[[130]], target=predicted[0]).labels == (predicted[0],)
    with pytest.raises(InputError, match="row 130 is"):
        explainer.prepare(X.iloc[[130]], target=1 - predicted[0])


def test_a_constant_model_has_no_counterfactuals():
    X, _ = cancer()

    def constant(frame):
        return np.tile([0.3, 0.7], (len(frame), 1))

    for method in METHODS:
        with pytest.raises(ExplainerError, match="constant model"):
            Dice(constant, background=X.iloc[:50], method=method).explain(X.iloc[[60]], seed=0)


def test_a_row_without_counterfactuals_says_so():
    X, _ = cancer()
    nowhere = {name: [float(X[name].iloc[130])] * 2 for name in X.columns}
    explainer = Dice(forest(), background=X.iloc[:120], permitted_range=nowhere)
    with pytest.raises(ExplainerError, match="no counterfactual was found for row 130"):
        explainer.explain(X.iloc[[130]], seed=0)
    benign = X[forest().predict(X) == 1]
    with pytest.raises(ExplainerError, match="no background row is predicted as 0"):
        Dice(forest(), background=benign.iloc[:50], method="kdtree").explain(benign.iloc[[60]], seed=0)
    with pytest.raises(ExplainerError, match="already"):
        Dice(forest(), background=X, desired_class=1).explain(benign.iloc[[60]], seed=0)


def test_a_search_that_would_never_end_is_stopped():
    """The genetic method draws until it has enough starting points; here there are none to draw."""
    X, _ = cancer()
    row = X.iloc[[130]]

    def only_these(frame):
        hit = (frame.to_numpy() == X.iloc[:3].to_numpy()[:, None]).all(axis=2).any(axis=0).astype(float)
        return np.column_stack([1 - hit, hit])

    explainer = Dice(only_these, background=X, method="genetic", initialization="random", time_limit=0.5)
    started = time.monotonic()
    with pytest.raises(ExplainerError, match=r"time_limit=0\.5 seconds"):
        explainer.explain(row, seed=0)
    assert time.monotonic() - started < 20


def test_missing_numbers_are_named():
    X, _ = cancer()
    holed = X.iloc[:50].copy()
    holed.iloc[2, 1] = np.nan
    with pytest.raises(InputError, match="'mean texture' lacks 1 of 50"):
        Dice(lambda frame: np.tile([0.4, 0.6], (len(frame), 1)), background=holed).prepare(X.iloc[[60]])


def test_a_regression_asks_for_a_range():
    X, y = cancer()
    with pytest.raises(InputError, match="desired_range"):
        Dice(LinearRegression().fit(X, y), background=X).prepare(X.iloc[[0]])
    with pytest.raises(InputError, match="desired_range"):
        Dice(lambda frame: 10 * frame.to_numpy()[:, 0], background=X).prepare(X.iloc[[0]])


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        ({"method": "gradient"}, "method='gradient'"),
        ({"total_cfs": 5}, "at least 10"),
        ({"random_seed": 3}, "random_seed"),
        ({"maxiterations": 3}, "sample_size, limit_steps_ls"),
        ({"features_to_vary": ["radius"]}, "'radius' is not a column"),
        ({"features_to_vary": []}, "empty"),
        ({"desired_range": (3, 1)}, "ascending"),
        ({"time_limit": 0}, "time_limit"),
        ({"stopping_threshold": 2}, "stopping_threshold"),
        ({"posthoc_sparsity_algorithm": "cubic"}, "'binary', 'linear' or None"),
    ],
)
def test_options_that_dice_does_not_have(ask, message):
    X, _ = cancer()
    with pytest.raises(InputError, match=message):
        Dice(forest(), background=X, **ask)


def test_the_record_names_every_parameter():
    X, _ = cancer()
    record = Dice(forest(), background=X, time_limit=9, sample_size=500).describe()
    assert record["explainer"] == "dice.random"
    assert record["package"]["dice-ml"][0].isdigit()
    assert record["settings"] == {
        "method": "random", "total_cfs": 10, "posthoc_sparsity_algorithm": "binary",
        "posthoc_sparsity_param": 0.1, "features_to_vary": "all", "permitted_range": {}, "continuous": None,
        "time_limit": 9, "desired_class": "opposite", "stopping_threshold": 0.5, "sample_size": 500,
        "limit_steps_ls": 10000,
    }  # fmt: skip


def test_the_defaults_are_those_of_the_package():
    """So that a direct call with dice-ml's defaults gives the same values, today."""
    import inspect

    from dice_ml.explainer_interfaces import dice_genetic, dice_KD, dice_random

    from stabgate.explainers.dice_settings import OPTIONS

    for method, module, cls in (
        ("random", dice_random, "DiceRandom"),
        ("genetic", dice_genetic, "DiceGenetic"),
        ("kdtree", dice_KD, "DiceKD"),
    ):
        parameters = inspect.signature(getattr(module, cls)._generate_counterfactuals).parameters
        assert OPTIONS[method] == {name: parameters[name].default for name in OPTIONS[method]}


def test_rows_are_counted():
    X, _ = cancer()
    explainer = Dice(forest(), background=X.iloc[:120])
    explainer.explain(X.iloc[[130]], seed=0)
    assert explainer.cost.rows > 1000
    assert explainer.cost.calls > 2


def test_permitted_levels():
    frame, model = loans()
    explainer = Dice(model, background=frame.iloc[:100], permitted_range={"home": ["own"], "income": (10, 90)})
    values = explainer.explain(frame.iloc[[110]], seed=8)[0]
    expected = direct(
        model, frame.iloc[:100], frame.iloc[[110]], 8, method="random", continuous=["income", "age"],
        permitted_range={"home": ["own"], "income": [10, 90]},
    )  # fmt: skip
    np.testing.assert_array_equal(values, expected)
    with pytest.raises(InputError, match="'tent' is not a level of column 'home'"):
        Dice(model, background=frame, permitted_range={"home": ["tent"]}).explain(frame.iloc[[0]], seed=0)
