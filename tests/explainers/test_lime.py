"""LIME against a fresh object of the package per seed, and what it does with awkward columns and options."""

from __future__ import annotations

import json
import pickle
import random
import threading
from functools import cache

import numpy as np
import pytest

from stabgate.errors import InputError, MissingDependencyError
from stabgate.explainers import lime as room
from stabgate.explainers.base import Explainer
from stabgate.explainers.lime import Lime

lime_tabular = pytest.importorskip("lime.lime_tabular")
sklearn_datasets = pytest.importorskip("sklearn.datasets")

SEEDS = (3, 2**32 - 1)
FEATURES = 8
SAMPLES = 120


@cache
def cancer():
    X, y = sklearn_datasets.load_breast_cancer(return_X_y=True)
    return np.ascontiguousarray(X[:, :FEATURES]), y


@cache
def digits():
    X, y = sklearn_datasets.load_digits(n_class=3, return_X_y=True)
    return np.ascontiguousarray(X[:, 18 : 18 + FEATURES]), y


def direct(background, row, function, seed, *, label=1, mode="classification", **options):
    """A fresh object, as the package's own documentation has it; every feature by its position."""
    distance = options.pop("distance_metric", "euclidean")
    explainer = lime_tabular.LimeTabularExplainer(
        background, mode=mode, random_state=seed, feature_selection="none", **options
    )
    explanation = explainer.explain_instance(
        row,
        function,
        labels=(label,),
        num_features=background.shape[1],
        num_samples=SAMPLES,
        distance_metric=distance,
    )
    weights = dict(explanation.local_exp[label])
    return np.array([weights[j] for j in range(background.shape[1])])


OPTIONS = (
    {},
    {"discretizer": "decile"},
    {"discretize_continuous": False},
    {"discretize_continuous": False, "sample_around_instance": True},
    {"kernel_width": 1.5},
    {"distance_metric": "manhattan"},
)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", ["forest", "logistic"])
def test_two_classes_equal_a_direct_call(kind, options):
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    X, y = cancer()
    made = {"forest": RandomForestClassifier(5, random_state=0), "logistic": LogisticRegression(C=1e-3)}
    fitted = made[kind].fit(X, y)
    background, rows = X[:60], X[100:102]
    explainer = Lime(fitted, background=background, num_samples=SAMPLES, **options)
    assert isinstance(explainer, Explainer)
    for seed in SEEDS:
        found = explainer.explain(rows, seed=seed)
        expected = [direct(background, row, fitted.predict_proba, seed, **options) for row in rows]
        np.testing.assert_array_equal(found, expected)
    first = explainer.explain(rows, seed=SEEDS[0], target=0)
    expected = [direct(background, row, fitted.predict_proba, SEEDS[0], label=0, **options) for row in rows]
    np.testing.assert_array_equal(first, expected)


def test_several_classes_explain_the_predicted_one():
    from sklearn.ensemble import RandomForestClassifier

    D, labels = digits()
    fitted = RandomForestClassifier(5, random_state=0).fit(D, np.array(["zero", "one", "two"])[labels])
    rows, background = D[:3], D[20:80]
    predicted = fitted.predict_proba(rows).argmax(axis=1)
    assert len(set(predicted)) > 1
    for seed in SEEDS:
        found = Lime(fitted, background=background, num_samples=SAMPLES).explain(rows, seed=seed)
        expected = [
            direct(background, row, fitted.predict_proba, seed, label=label)
            for row, label in zip(rows, predicted, strict=True)
        ]
        np.testing.assert_array_equal(found, expected)


def test_one_output_is_explained_as_a_regression():
    """LIME refuses outputs (n,) and (n, 1) as classification; here both are the same explanation."""
    from sklearn.linear_model import Ridge

    X, y = cancer()
    background, rows = X[:60], X[100:102]
    ridge = Ridge().fit(X, y)
    function = lambda Z: np.tanh(Z[:, 0] / 20)  # noqa: E731
    for given, predict in (
        (ridge, ridge.predict),
        (function, function),
        (lambda Z: function(Z)[:, None], function),
    ):
        for seed in SEEDS:
            found = Lime(given, background=background, num_samples=SAMPLES).explain(rows, seed=seed)
            expected = [direct(background, row, predict, seed, mode="regression") for row in rows]
            np.testing.assert_array_equal(found, expected)


def test_outputs_that_are_no_probabilities_are_explained_without_a_warning(recwarn):
    X, _ = cancer()
    Lime(lambda Z: np.column_stack([Z[:, 0], Z[:, 1]]), background=X[:40], num_samples=50).explain(X[:1], seed=0)
    assert [str(w.message) for w in recwarn if "probab" in str(w.message)] == []


def test_a_linear_model_gets_its_slopes():
    """Without discretisation the weights are slopes per standard deviation (ridge shrinks them a little)."""
    rng = np.random.default_rng(0)
    background = rng.normal(size=(400, 4)) * [1.0, 10.0, 0.1, 1.0]
    slopes = np.array([3.0, -0.2, 5.0, 0.0])
    explainer = Lime(
        lambda Z: Z @ slopes,
        background=background,
        num_samples=4000,
        discretize_continuous=False,
        kernel_width=20.0,
        ridge=0.0,
    )
    found = explainer.explain(background[:2], seed=0)
    np.testing.assert_allclose(found, np.tile(slopes * background.std(axis=0), (2, 1)), atol=1e-9)


def test_rows_do_not_depend_on_the_batch_or_on_earlier_runs():
    X, _ = cancer()
    explainer = Lime(lambda Z: Z[:, 0] * Z[:, 1], background=X[:60], num_samples=SAMPLES)
    together = explainer.explain(X[100:104], seed=[1, 2, 3, 4])
    np.testing.assert_array_equal(together, explainer.explain(X[103:99:-1], seed=[4, 3, 2, 1])[::-1])
    fresh = Lime(lambda Z: Z[:, 0] * Z[:, 1], background=X[:60], num_samples=SAMPLES)
    np.testing.assert_array_equal(together[2:3], fresh.explain(X[102:103], seed=3))
    assert np.abs(explainer.explain(X[102:103], seed=9) - together[2]).max() > 0


def test_generators_of_the_process_are_left_alone_beside_another_thread():
    X, _ = cancer()
    explainer = Lime(lambda Z: Z[:, 0] * Z[:, 1], background=X[:60], num_samples=SAMPLES)
    prepared = explainer.prepare(X[100:101])
    quiet = [explainer.explain_row(prepared, 0, seed) for seed in range(6)]
    state = random.getstate()
    stop, drawn = threading.Event(), []

    def draw():
        while not stop.is_set():
            drawn.append(np.random.random_sample())

    np.random.seed(5)
    thread = threading.Thread(target=draw)
    thread.start()
    try:
        beside = [explainer.explain_row(prepared, 0, seed) for seed in range(6)]
    finally:
        stop.set()
        thread.join()
    np.testing.assert_array_equal(beside, quiet)
    np.testing.assert_array_equal(drawn, np.random.RandomState(5).random_sample(len(drawn)))
    assert random.getstate() == state


def frame():
    import pandas as pd

    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 60, 150),
            "town": pd.Categorical(rng.choice(["Bern", "Ulm", "Graz"], 150)),
            "member": rng.random(150) < 0.5,
            "income": rng.normal(50.0, 9.0, 150),
        }
    )


@pytest.mark.parametrize("options", [{}, {"discretize_continuous": False}], ids=str)
def test_categories_are_passed_as_categories_and_the_model_sees_the_users_columns(options):
    import pandas as pd

    data = frame()
    towns = data["town"].cat.categories
    seen = []

    def score(rows):
        seen.append(rows.dtypes)
        return (rows["town"] == "Ulm") * 2.0 + rows["age"] / 30 + rows["member"] * 1.0 + rows["income"] / 50

    def on_codes(codes):
        """The same function on numbers, as LIME is used by hand."""
        table = {"age": codes[:, 0], "town": towns[codes[:, 1].astype(int)], "member": codes[:, 2] != 0}
        return score(pd.DataFrame({**table, "income": codes[:, 3]})).to_numpy()

    codes = np.column_stack([data["age"], data["town"].cat.codes, data["member"], data["income"]]).astype(float)
    explainer = Lime(score, background=data[:100], num_samples=SAMPLES, **options)
    found = explainer.explain(data[120:123], seed=4)
    assert all(types["town"] == data["town"].dtype and types["member"].kind == "b" for types in seen)
    expected = [
        direct(codes[:100], row, on_codes, 4, mode="regression", categorical_features=[1, 2], **options)
        for row in codes[120:123]
    ]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert explainer.settings()["categorical_features"] == ["town", "member"]


def test_a_level_that_the_background_lacks():
    data = frame()
    function = lambda rows: (rows["town"] == "Ulm") * 1.0  # noqa: E731
    explainer = Lime(function, background=data[data["town"] != "Ulm"], num_samples=SAMPLES)
    values = explainer.explain(data[data["town"] == "Ulm"][:1], seed=0)
    assert np.isfinite(values).all()


def test_missing_values_are_refused_by_name():
    import pandas as pd

    data = frame().drop(columns="town")
    holes = data.astype({"age": float})
    holes.loc[7, "age"] = np.nan
    function = lambda rows: rows["income"]  # noqa: E731
    with pytest.raises(InputError, match=r"background: column 'age' is missing in 1 of 150 rows.*Shap"):
        Lime(function, background=holes)
    explainer = Lime(function, background=data.astype({"age": float}), num_samples=50)
    with pytest.raises(InputError, match=r"X: column 'age' is missing in row 7"):
        explainer.explain(holes[5:9], seed=0)
    assert isinstance(holes, pd.DataFrame)


def test_constant_columns_and_equal_quartiles():
    """Known limits of the package: one bin means weight 0, and equal values are sampled as 0."""
    rng = np.random.default_rng(0)
    background = rng.normal(size=(60, 3))
    background[:, 1] = 5.0
    background[:, 2] = np.where(rng.random(60) < 0.1, 1.0, 0.0)
    function = lambda Z: Z[:, 0] + Z[:, 2]  # noqa: E731
    found = Lime(function, background=background, num_samples=SAMPLES).explain(background[:2], seed=0)
    expected = [direct(background, row, function, 0, mode="regression") for row in background[:2]]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found[:, 1], 0.0)
    seen = []
    Lime(lambda Z: seen.append(Z[1:, 1]) or Z[:, 0], background=background, num_samples=50).explain(
        background[:1], seed=0
    )
    assert set(seen[-1]) == {0.0}


def test_one_feature():
    background = np.random.default_rng(0).normal(size=(60, 1))
    found = Lime(lambda Z: Z[:, 0], background=background, num_samples=SAMPLES).explain(background[:1], seed=2)
    expected = direct(background, background[0], lambda Z: Z[:, 0], 2, mode="regression")
    np.testing.assert_array_equal(found[0], expected)


@pytest.mark.parametrize("selection", ["auto", "forward_selection", "highest_weights", "lasso_path"])
def test_a_selection_returns_zero_for_what_it_left_out(selection):
    X, _ = cancer()
    explainer = Lime(
        lambda Z: Z[:, 0] + Z[:, 1] / 50,
        background=X[:60],
        num_samples=SAMPLES,
        feature_selection=selection,
        num_features=2,
    )
    values = explainer.explain(X[100:101], seed=0)
    assert 1 <= np.count_nonzero(values) <= 2
    assert explainer.settings()["num_features"] == 2


def test_settings_are_complete_and_plain():
    X, _ = cancer()
    explainer = Lime(lambda Z: Z[:, 0], background=X[:60])
    assert explainer.settings() == {
        "num_samples": 5000,
        "discretize_continuous": True,
        "discretizer": "quartile",
        "kernel_width": 0.75 * np.sqrt(FEATURES),
        "feature_selection": "none",
        "num_features": None,
        "sample_around_instance": False,
        "distance_metric": "euclidean",
        "ridge": 1.0,
        "categorical_features": [],
        "background_rows": 60,
    }
    described = explainer.describe()
    assert described["package"]["lime"].startswith("0.2")
    json.dumps(described)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"background": None}, "background="),
        ({"num_samples": 1}, "num_samples=1"),
        ({"num_samples": 50.0}, r"num_samples=50\.0"),
        ({"discretize_continuous": "yes"}, "discretize_continuous='yes'"),
        ({"discretizer": "quartiles"}, "did you mean 'quartile'"),
        ({"discretizer": "entropy"}, "'quartile', 'decile'"),
        ({"kernel_width": 0}, "kernel_width=0"),
        ({"kernel_width": float("nan")}, "kernel_width=nan"),
        ({"ridge": -1.0}, r"ridge=-1\.0"),
        ({"feature_selection": "lasso"}, "did you mean 'lasso_path'"),
        ({"feature_selection": "auto"}, "number of features"),
        ({"num_features": 5}, "number of features"),
        ({"distance_metric": "euclid"}, "did you mean 'euclidean'"),
        ({"sample_around_instance": True}, "discretize_continuous"),
    ],
)
def test_options_that_cannot_be_used(options, message):
    X, _ = cancer()
    with pytest.raises(InputError, match=message):
        Lime(lambda Z: Z[:, 0], **{"background": X[:20], **options})


def test_pickled_explainers_give_the_same_values():
    from sklearn.linear_model import LogisticRegression

    X, y = cancer()
    explainer = Lime(LogisticRegression(C=1e-3).fit(X, y), background=X[:60], num_samples=SAMPLES)
    expected = explainer.explain(X[:2], seed=2)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(explainer)).explain(X[:2], seed=2), expected)


def test_the_package_may_be_missing(monkeypatch):
    def absent(module, extra):
        raise MissingDependencyError(f"install stabgate[{extra}]")

    monkeypatch.setattr(room, "require", absent)
    X, _ = cancer()
    with pytest.raises(MissingDependencyError, match=r"stabgate\[lime\]"):
        Lime(lambda Z: Z[:, 0], background=X[:20]).explain(X[:1], seed=0)


@pytest.mark.slow
def test_five_thousand_features():
    rng = np.random.default_rng(0)
    weights, background = rng.normal(size=5000), rng.normal(size=(30, 5000))
    explainer = Lime(lambda Z: Z @ weights, background=background, num_samples=200)
    assert np.count_nonzero(explainer.explain(background[:1] + 0.1, seed=0)) == 5000
