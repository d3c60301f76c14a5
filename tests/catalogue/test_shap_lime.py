"""Public reports about shap and lime, and what a user of stabgate sees instead."""

from __future__ import annotations

import numpy as np
import pytest

from stabgate.errors import InputError
from stabgate.explainers.lime import Lime
from stabgate.explainers.shap import Shap
from stabgate.seeds import row_seed

datasets = pytest.importorskip("sklearn.datasets")
shap = pytest.importorskip("shap")
lime_tabular = pytest.importorskip("lime.lime_tabular")


@pytest.fixture(scope="module")
def cancer():
    X, y = datasets.load_breast_cancer(return_X_y=True)
    return np.ascontiguousarray(X[:, :12]), y


@pytest.fixture(scope="module")
def forest(cancer):
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(4, random_state=0).fit(*cancer)


def top(values, k):
    return set(np.argsort(-np.abs(values))[:k])


def test_lime_309_two_calls_with_a_seed_differ(cancer, forest):
    """lime#309: two `explain_instance` calls of one object with random_state=0 pick different features.

    Seeding NumPy does not help: the object goes on with its own stream. Here a seed is an argument of each
    explanation: the same seed repeats it, whatever ran before.
    """
    X, _ = cancer
    package = lime_tabular.LimeTabularExplainer(X[:60], random_state=0)
    calls = [package.explain_instance(X[100], forest.predict_proba, num_samples=100) for _ in range(2)]
    assert calls[0].local_exp[1] != calls[1].local_exp[1]
    explainer = Lime(forest, background=X[:60], num_samples=100)
    first = explainer.explain(X[100:101], seed=16)
    explainer.explain(X[101:102], seed=3)
    np.testing.assert_array_equal(explainer.explain(X[100:101], seed=16), first)


def test_lime_486_a_seeded_model_does_not_make_lime_repeatable(cancer, forest):
    """lime#486: with the model's random state fixed, repeated explanations still differ.

    Runs have seeds of their own here: run 0 and run 1 differ, and both can be repeated at any time.
    """
    X, _ = cancer
    explainer = Lime(forest, background=X[:60], num_samples=100)
    runs = [explainer.explain(X[100:101], seed=row_seed(0, run, 100)) for run in range(2)]
    again = [explainer.explain(X[100:101], seed=row_seed(0, run, 100)) for run in (1, 0)][::-1]
    assert np.abs(runs[0] - runs[1]).max() > 0
    np.testing.assert_array_equal(runs, again)


def test_lime_81_the_top_reasons_of_one_row_change(cancer, forest):
    """lime#81: the five reasons shown for one row change from call to call, with nothing changed.

    The change is visible here, as runs that disagree about the set of the top five features.
    """
    X, _ = cancer
    explainer = Lime(forest, background=X[:60], num_samples=100)
    sets = {frozenset(top(explainer.explain(X[100:101], seed=seed)[0], 5)) for seed in range(8)}
    assert len(sets) > 1


def test_lime_572_missing_values_in_the_training_data(cancer):
    """lime#572: NaN in the training data ends in "Domain error in arguments", from deep inside a call.

    Here the error comes at once and names the column; a model that accepts NaN can be explained by kernel
    SHAP.
    """
    import xgboost

    X, y = cancer
    X = X[:, :5].copy()
    X[::4, 3] = np.nan
    fitted = xgboost.XGBClassifier(n_estimators=3, n_jobs=1).fit(X, y)
    with pytest.raises(InputError, match=r"background: column 'x3' is missing in 25 of 100 rows"):
        Lime(fitted, background=X[:100])
    assert np.isfinite(Shap(fitted, background=X[:10]).explain(X[100:102], seed=0)).all()


def test_shap_1835_kernel_values_differ_without_a_way_to_seed_them(cancer, forest):
    """shap#1835: KernelExplainer gives other values on each call and has no seed argument.

    Here every method takes a seed, and the global generator is not touched for it.
    """
    X, _ = cancer
    function = lambda Z: forest.predict_proba(Z)[:, 1]  # noqa: E731
    package = shap.KernelExplainer(function, X[:10])
    calls = [package.shap_values(X[100], nsamples=100, l1_reg=False, silent=True) for _ in range(2)]
    assert np.abs(calls[0] - calls[1]).max() > 0
    explainer = Shap(forest, background=X[:10], nsamples=100)
    before = np.random.get_state()[1].copy()
    first = explainer.explain(X[100:101], seed=1)
    assert np.abs(explainer.explain(X[100:101], seed=2) - first).max() > 0
    np.testing.assert_array_equal(explainer.explain(X[100:101], seed=1), first)
    np.testing.assert_array_equal(np.random.get_state()[1], before)


def test_shap_2547_permutation_values_cannot_be_repeated(cancer, forest):
    """shap#2547: PermutationExplainer returns other values on each call (its seed covers the first one)."""
    X, _ = cancer
    package = shap.PermutationExplainer(lambda Z: forest.predict_proba(Z)[:, 1], X[:10], seed=1)
    calls = [package(X[100:101], max_evals=25, silent=True).values for _ in range(2)]
    assert np.abs(calls[0] - calls[1]).max() > 0
    explainer = Shap(forest, background=X[:10], method="permutation", npermutations=1)
    first = explainer.explain(X[100:101], seed=1)
    np.testing.assert_array_equal(explainer.explain(X[100:101], seed=1), first)
    np.testing.assert_array_equal(first, calls[0])


def test_shap_526_binary_classifiers_come_in_different_shapes(cancer, forest):
    """shap#526: a binary LightGBM model gives another shape than a forest, and users pick the wrong class.

    Here attributions are (instances, features) of the target, whatever the package returned: they rise with
    the probability of the class that was asked for.
    """
    import lightgbm
    import xgboost

    X, y = cancer
    models = (
        forest,
        lightgbm.LGBMClassifier(n_estimators=4, verbose=-1, n_jobs=1).fit(X, y),
        xgboost.XGBClassifier(n_estimators=4, n_jobs=1).fit(X, y),
    )
    for fitted in models:
        explainer = Shap(fitted, background=X[:40], method="tree")
        second = explainer.explain(X[100:106], seed=0)
        assert second.shape == (6, 12)
        probability = fitted.predict_proba(X[100:106])[:, 1]
        order = np.argsort(probability)
        assert (np.diff(second.sum(axis=1)[order]) >= -1e-6).all()
        np.testing.assert_allclose(explainer.explain(X[100:106], seed=0, target=0), -second, atol=1e-7)


def test_shap_1362_kernel_explainer_drops_the_column_names():
    """shap#1362: a predictor trained on a DataFrame fails, because KernelExplainer hands it an array.

    Here the model gets a DataFrame with the columns that it was trained on.
    """
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["age", "income", "debt"])
    scaler = make_column_transformer((StandardScaler(), ["age", "debt"]), remainder="drop")
    pipeline = make_pipeline(scaler, LinearRegression()).fit(frame, 2 * frame["age"] - frame["debt"])
    with pytest.raises((ValueError, AttributeError)):
        shap.KernelExplainer(pipeline.predict, frame[:20])
    values = Shap(pipeline, background=frame[:20]).explain(frame[30:32], seed=0)
    centred = (frame[30:32] - frame[:20].mean()).to_numpy()
    np.testing.assert_allclose(values, centred * [2.0, 0.0, -1.0], atol=1e-9)


def test_shap_996_regularisation_sets_values_to_zero(cancer, forest):
    """shap#996: with l1_reg other than its default all SHAP values are 0 and do not sum to the prediction.

    The penalty is off here unless it is asked for; then it is part of the record.
    """
    X, _ = cancer
    function = lambda Z: forest.predict_proba(Z)[:, 1]  # noqa: E731
    difference = function(X[100:101])[0] - function(X[:10]).mean()
    explainer = Shap(forest, background=X[:10], nsamples=300)
    values = explainer.explain(X[100:101], seed=0)
    np.testing.assert_allclose(values.sum(), difference, atol=1e-9)
    assert explainer.settings()["l1_reg"] is False
    penalised = Shap(forest, background=X[:10], nsamples=300, l1_reg=10.0)
    np.testing.assert_array_equal(penalised.explain(X[100:101], seed=0), 0.0)
    assert penalised.settings()["l1_reg"] == 10.0
