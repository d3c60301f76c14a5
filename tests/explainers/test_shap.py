"""SHAP: every method against a direct call of the package, closed forms, the generators of the process."""

from __future__ import annotations

import json
import pickle
import random
import threading
from functools import cache

import numpy as np
import pytest

from stabgate.errors import InputError, ModelError
from stabgate.explainers.base import Explainer
from stabgate.explainers.shap import Shap

shap = pytest.importorskip("shap")
sklearn_datasets = pytest.importorskip("sklearn.datasets")

SEEDS = (7, 2**32 - 1)
FEATURES = 11  # more coalitions than the samples below, so that kernel SHAP draws


@cache
def cancer():
    X, y = sklearn_datasets.load_breast_cancer(return_X_y=True)
    return np.ascontiguousarray(X[:, :FEATURES]), y


@cache
def digits():
    X, y = sklearn_datasets.load_digits(n_class=3, return_X_y=True)
    return np.ascontiguousarray(X[:, 18 : 18 + FEATURES]), y


@cache
def model(kind):
    """(what the user passes, function of one target, rows, background, target argument)."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression, Ridge

    X, y = cancer()
    if kind == "forest":
        forest = RandomForestClassifier(4, random_state=0).fit(X, y)
        return forest, lambda Z: forest.predict_proba(Z)[:, 1], X[100:102], X[:12], None
    if kind == "logistic, first class":
        logistic = LogisticRegression(max_iter=100, C=1e-3).fit(X, np.where(y == 1, "benign", "malignant"))
        return logistic, lambda Z: logistic.predict_proba(Z)[:, 0], X[100:102], X[:12], "benign"
    if kind == "regression":
        ridge = Ridge().fit(X, y * 3.0)
        return ridge, ridge.predict, X[100:102], X[:12], None
    if kind == "callable":
        return (lambda Z: np.tanh(Z[:, 0] * Z[:, 1] / 200) + Z[:, 2] / 50,) * 2 + (X[100:102], X[:12], None)
    D, labels = digits()
    several = RandomForestClassifier(4, random_state=0).fit(D, labels)
    return several, lambda Z: several.predict_proba(Z)[:, 2], D[:2], D[20:32], 2


KINDS = ("forest", "logistic, first class", "regression", "callable", "three classes")


def compare(explainer, direct, rows, target, exact=True):
    """Row by row and seed by seed; `direct(row, seed)` calls the package."""
    for seed in SEEDS:
        found = explainer.explain(rows, seed=seed, target=target)
        expected = np.array([direct(row, seed) for row in rows])
        assert np.ptp(expected) > 0
        np.testing.assert_allclose(found, expected, rtol=0, atol=0 if exact else 1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("kind", KINDS)
def test_kernel_equals_a_direct_call(kind):
    given, function, rows, background, target = model(kind)

    def direct(row, seed):
        np.random.seed(seed)
        explainer = shap.KernelExplainer(function, background)
        return explainer.shap_values(row, nsamples=150, l1_reg=False, silent=True)

    explainer = Shap(given, background=background, nsamples=150)
    assert isinstance(explainer, Explainer)
    compare(explainer, direct, rows, target)


@pytest.mark.parametrize("kind", KINDS)
def test_permutation_equals_a_direct_call(kind):
    given, function, rows, background, target = model(kind)

    def direct(row, seed):
        explainer = shap.PermutationExplainer(function, background, seed=seed)
        return explainer(row[None], max_evals=2 * (2 * FEATURES + 1), silent=True).values[0]

    explainer = Shap(given, background=background, method="permutation", npermutations=2)
    compare(explainer, direct, rows, target)


@pytest.mark.parametrize("kind", KINDS)
def test_sampling_equals_a_direct_call(kind):
    given, function, rows, background, target = model(kind)

    def direct(row, seed):
        np.random.seed(seed)
        explainer = shap.SamplingExplainer(function, background)
        return explainer.shap_values(row, nsamples=300, min_samples_per_feature=10, silent=True)

    explainer = Shap(given, background=background, method="sampling", nsamples=300, min_samples_per_feature=10)
    compare(explainer, direct, rows, target)


@pytest.mark.parametrize("kind", KINDS)
def test_exact_equals_a_direct_call(kind):
    given, function, rows, background, target = model(kind)

    def direct(row, seed):
        return shap.ExactExplainer(function, background)(row[None], silent=True).values[0]

    compare(Shap(given, background=background, method="exact"), direct, rows, target)


@pytest.mark.parametrize("method", ["kernel", "permutation", "exact"])
def test_link_of_probabilities(method):
    """With the logit link attributions sum to the difference of log-odds, from the mean output."""
    _, function, rows, background, _ = model("forest")
    function_ = lambda Z: 0.1 + 0.8 * function(Z)  # noqa: E731 (no output of 0 or 1, whose log-odds are infinite)
    values = Shap(function_, background=background, method=method, link="logit").explain(rows, seed=1)
    logit = lambda p: np.log(p / (1 - p))  # noqa: E731
    expected = logit(function_(rows)) - logit(function_(background).mean())
    np.testing.assert_allclose(values.sum(axis=1), expected, atol=1e-9)


@pytest.mark.parametrize("options", [{}, {"nsamples": "auto"}])
def test_kernel_default_is_the_documented_number_of_samples(options):
    given, function, rows, background, _ = model("callable")
    np.random.seed(3)
    direct = shap.KernelExplainer(function, background).shap_values(
        rows[0], nsamples=2 * FEATURES + 2048, l1_reg=False, silent=True
    )
    np.testing.assert_array_equal(Shap(given, background=background, **options).explain(rows[:1], seed=3)[0], direct)


@pytest.mark.parametrize("method", ["kernel", "permutation", "sampling", "exact", "linear"])
def test_linear_models_have_a_closed_form(method):
    """coef * (x - mean of the background), over all 150 background rows (shap's maskers would keep 100)."""
    from sklearn.linear_model import LinearRegression

    X, y = cancer()
    X = X[:, :5] / X[:, :5].std(axis=0)
    ridge = LinearRegression().fit(X, y)
    background, rows = X[:150], X[200:203]
    options = {"nsamples": 10_000} if method == "sampling" else {}
    values = Shap(ridge, background=background, method=method, **options).explain(rows, seed=5)
    expected = ridge.coef_ * (rows - background.mean(axis=0))
    np.testing.assert_allclose(values, expected, atol=0.1 if method == "sampling" else 1e-9)


def test_linear_explains_the_log_odds_of_the_target():
    from sklearn.linear_model import LogisticRegression

    X, y = cancer()
    logistic = LogisticRegression(max_iter=100, C=1e-3).fit(X, y)
    explainer = Shap(logistic, background=X[:120], method="linear")
    expected = logistic.coef_[0] * (X[200:202] - X[:120].mean(axis=0))
    np.testing.assert_allclose(explainer.explain(X[200:202], seed=0), expected, rtol=1e-12)
    np.testing.assert_allclose(explainer.explain(X[200:202], seed=0, target=0), -expected, rtol=1e-12)
    D, labels = digits()
    several = LogisticRegression(max_iter=100, C=1e-2).fit(D, labels)
    rows = D[:6]
    found = Shap(several, background=D[20:60], method="linear").explain(rows, seed=0)
    coefficients = several.coef_[several.predict(rows)]
    np.testing.assert_allclose(found, coefficients * (rows - D[20:60].mean(axis=0)), rtol=1e-12)


@cache
def tree_model(kind):
    import lightgbm
    import xgboost
    from sklearn import ensemble, tree

    X, y = cancer()
    D, labels = digits()
    made = {
        "tree": (tree.DecisionTreeClassifier(max_depth=4, random_state=0), X, y),
        "forest": (ensemble.RandomForestClassifier(6, random_state=0), X, y),
        "forest, three classes": (ensemble.RandomForestClassifier(6, random_state=0), D, labels),
        "forest regression": (ensemble.RandomForestRegressor(6, random_state=0), X, y * 2.0),
        "gradient boosting": (ensemble.GradientBoostingClassifier(n_estimators=6, random_state=0), X, y),
        "hist boosting": (ensemble.HistGradientBoostingClassifier(max_iter=6, random_state=0), X, y),
        "xgboost": (xgboost.XGBClassifier(n_estimators=6, n_jobs=1), X, y),
        "xgboost, three classes": (xgboost.XGBClassifier(n_estimators=4, n_jobs=1), D, labels),
        "xgboost regression": (xgboost.XGBRegressor(n_estimators=6, n_jobs=1), X, y * 2.0),
        "lightgbm": (lightgbm.LGBMClassifier(n_estimators=6, verbose=-1, n_jobs=1), X, y),
        "lightgbm, three classes": (lightgbm.LGBMClassifier(n_estimators=4, verbose=-1, n_jobs=1), D, labels),
    }
    estimator, rows, target = made[kind]
    return estimator.fit(rows, target), rows


TREES = (
    "tree", "forest", "forest, three classes", "forest regression", "gradient boosting", "hist boosting",
    "xgboost", "xgboost, three classes", "xgboost regression", "lightgbm", "lightgbm, three classes",
)  # fmt: skip


def of_target(values, fitted, row):
    """The target's attributions out of what the package returns for one row."""
    if values.ndim == 2:
        return values[0]
    classes = values.shape[2]
    return values[0, :, 1 if classes == 2 else int(fitted.predict_proba(row[None]).argmax())]


@pytest.mark.filterwarnings("ignore:LightGBM binary")
@pytest.mark.parametrize("interventional", [False, True])
@pytest.mark.parametrize("kind", TREES)
def test_tree_equals_a_direct_call(kind, interventional):
    fitted, X = tree_model(kind)
    background = X[:40] if interventional else None
    found = Shap(fitted, background=background, method="tree").explain(X[100:104], seed=0)
    direct = shap.TreeExplainer(fitted, background)
    expected = [of_target(np.asarray(direct.shap_values(row[None])), fitted, row) for row in X[100:104]]
    np.testing.assert_array_equal(found, expected)
    assert np.abs(found).max() > 0


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm", "gradient boosting"])
def test_tree_output_is_raw_or_probability(kind):
    """Attributions sum to the difference in log-odds or in probability; the record says which."""
    fitted, X = tree_model(kind)
    rows, background = X[100:104], X[:40]
    probability = lambda Z: fitted.predict_proba(Z)[:, 1]  # noqa: E731
    as_probability = Shap(fitted, background=background, method="tree", model_output="probability")
    expected = probability(rows) - probability(background).mean()
    np.testing.assert_allclose(as_probability.explain(rows, seed=0).sum(axis=1), expected, atol=1e-5)
    other = as_probability.explain(rows, seed=0, target=0)
    np.testing.assert_allclose(other.sum(axis=1), -expected, atol=1e-5)
    logit = lambda Z: np.log(probability(Z) / (1 - probability(Z)))  # noqa: E731
    raw = Shap(fitted, background=background, method="tree")
    expected = logit(rows) - logit(background).mean()
    np.testing.assert_allclose(raw.explain(rows, seed=0).sum(axis=1), expected, atol=1e-5)
    assert as_probability.settings()["model_output"] == "probability"
    assert raw.settings()["model_output"] == "raw"
    assert raw.settings()["feature_perturbation"] == "interventional"


def test_tree_with_categories():
    import lightgbm
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"size": rng.normal(size=200), "colour": pd.Categorical(rng.choice(["red", "blue", "green"], 200))}
    )
    y = (frame["size"] + 2 * (frame["colour"] == "red") > 0.5).astype(int)
    fitted = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1).fit(frame, y)
    found = Shap(fitted, method="tree").explain(frame[:3], seed=0)
    expected = fitted.predict(frame[:3], pred_contrib=True)[:, :-1]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    with pytest.raises(InputError, match=r"'colour' is not numeric.*tree_path_dependent"):
        Shap(fitted, background=frame, method="tree").explain(frame[:3], seed=0)


def test_tree_on_other_models_says_what_to_use():
    from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = cancer()
    ada = AdaBoostClassifier(n_estimators=2).fit(X, y)
    with pytest.raises(InputError, match=r"AdaBoostClassifier.*XGBoost.*'kernel' or 'permutation'"):
        Shap(ada, method="tree").explain(X[:1], seed=0)
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(2)).fit(X, y)
    with pytest.raises(InputError, match=r"pipeline.*'kernel' or 'permutation'.*last step"):
        Shap(pipeline, method="tree").explain(X[:1], seed=0)
    with pytest.raises(InputError, match=r"looks inside the model"):
        Shap(lambda Z: Z[:, 0], method="tree").explain(X[:1], seed=0)
    with pytest.raises(InputError, match=r"linear and logistic"):
        Shap(ada, background=X[:5], method="linear").explain(X[:1], seed=0)
    with pytest.raises(InputError, match=r"torch\.nn\.Module"):
        Shap(ada, background=X[:5], method="gradient").explain(X[:1], seed=0)


@cache
def network(outputs):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(6, outputs)
    )


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("method", ["gradient", "deep"])
def test_torch_modules_equal_a_direct_call(method, outputs):
    torch = pytest.importorskip("torch")
    module = network(outputs)
    rng = np.random.default_rng(0)
    rows, background = rng.normal(size=(2, 4)), rng.normal(size=(20, 4))
    tensor = lambda Z: torch.as_tensor(Z, dtype=torch.float32)  # noqa: E731
    options = {"nsamples": 12} if method == "gradient" else {}
    explainer = Shap(module, background=background, method=method, **options)
    prepared = explainer.prepare(rows)
    for seed in SEEDS:
        for i in range(2):
            module.train()  # shap switches to evaluation for good; the mode must come back
            found = explainer.explain_row(prepared, i, seed)
            assert module.training
            assert all(part.training for part in module.modules())
            module.eval()
            if method == "gradient":
                direct = shap.GradientExplainer(module, tensor(background))
                values = direct.shap_values(tensor(rows[i : i + 1]), nsamples=12, rseed=seed)
            else:
                values = shap.DeepExplainer(module, tensor(background)).shap_values(tensor(rows[i : i + 1]))
            np.testing.assert_array_equal(found, values[0, :, prepared.targets[i]])


@pytest.mark.parametrize("method", ["kernel", "permutation", "sampling"])
def test_a_row_does_not_depend_on_the_batch_or_on_earlier_runs(method):
    given, _, _, background, _ = model("forest")
    X, _ = cancer()
    options = {"npermutations": 2} if method == "permutation" else {"nsamples": 200}
    explainer = Shap(given, background=background, method=method, **options)
    together = explainer.explain(X[100:104], seed=[1, 2, 3, 4])
    backwards = explainer.explain(X[103:99:-1], seed=[4, 3, 2, 1])
    np.testing.assert_array_equal(together, backwards[::-1])
    alone = Shap(given, background=background, method=method, **options).explain(X[102:103], seed=3)
    np.testing.assert_array_equal(together[2:3], alone)
    assert np.abs(explainer.explain(X[102:103], seed=5) - alone).max() > 0


def test_remembered_rows_change_no_value_and_save_model_rows():
    given, _, rows, background, _ = model("forest")
    plain = Shap(given, background=background, nsamples=150)
    remembering = Shap(given, background=background, nsamples=150)
    expected = [plain.explain_row(plain.prepare(rows), 0, seed) for seed in range(6)]
    prepared = remembering.prepare(rows)
    with remembering.predictor.remembering():
        found = [remembering.explain_row(prepared, 0, seed) for seed in range(6)]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert remembering.cost.rows < 0.8 * plain.cost.rows
    assert plain.cost.rows == plain.cost.rows_asked > 6 * 150 * len(background)


@pytest.mark.parametrize("method", ["kernel", "permutation", "sampling", "gradient"])
def test_global_generators_stay_as_they_were(method):
    def states():
        return random.getstate(), [part.tolist() if hasattr(part, "tolist") else part for part in np.random.get_state()]

    if method == "gradient":
        explainer = Shap(network(1), background=np.eye(4), method=method, nsamples=5)
        rows = np.ones((1, 4))
    else:
        given, _, rows, background, _ = model("callable")
        explainer = Shap(given, background=background, method=method)
    np.random.seed(123)
    before = states()
    explainer.explain(rows, seed=9)
    assert states() == before


def test_global_generators_stay_as_they_were_after_an_exception():
    X, _ = cancer()
    calls = []

    def failing(Z):
        calls.append(len(Z))
        if len(calls) > 4:
            raise ValueError("no more")
        return Z[:, 0]

    np.random.seed(1)
    before = np.random.get_state()[1].copy()
    with pytest.raises(ModelError, match="no more"):
        Shap(failing, background=X[:3]).explain(X[:2], seed=0)
    np.testing.assert_array_equal(np.random.get_state()[1], before)


@pytest.mark.parametrize("method", ["kernel", "permutation", "sampling"])
def test_other_threads_neither_disturb_nor_are_disturbed(method):
    """A thread that draws all the time from NumPy's global generator gets exactly its own stream."""
    given, _, rows, background, _ = model("callable")
    options = {"npermutations": 2} if method == "permutation" else {"nsamples": 100}
    explainer = Shap(given, background=background, method=method, **options)
    prepared = explainer.prepare(rows)
    quiet = [explainer.explain_row(prepared, 0, seed) for seed in range(8)]
    stop, drawn = threading.Event(), []

    def draw():
        while not stop.is_set():
            drawn.append(np.random.random_sample())
            np.random.shuffle([1, 2, 3])

    np.random.seed(77)
    thread = threading.Thread(target=draw)
    thread.start()
    try:
        beside = [explainer.explain_row(prepared, 0, seed) for seed in range(8)]
    finally:
        stop.set()
        thread.join()
    np.testing.assert_array_equal(beside, quiet)
    assert len(drawn) > 100
    np.random.seed(77)
    for value in drawn:
        assert value == np.random.random_sample()
        np.random.shuffle([1, 2, 3])


def test_one_explainer_in_several_threads():
    given, _, rows, background, _ = model("callable")
    explainer = Shap(given, background=background, nsamples=100)
    prepared = explainer.prepare(rows)
    expected = [explainer.explain_row(prepared, 0, seed) for seed in range(16)]
    found = [None] * 16

    def run(part):
        for seed in range(part, 16, 4):
            found[seed] = explainer.explain_row(prepared, 0, seed)

    threads = [threading.Thread(target=run, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(found, expected)


def test_the_package_is_left_as_it_was():
    """Other code that uses shap draws from NumPy's global generator, as before."""
    import shap.explainers._kernel as module

    given, function, rows, background, _ = model("callable")
    Shap(given, background=background, nsamples=100).explain(rows, seed=0)
    assert module.np is np
    np.random.seed(4)
    first = shap.KernelExplainer(function, background).shap_values(rows[0], nsamples=100, silent=True)
    assert np.random.random_sample() != np.random.RandomState(4).random_sample()
    np.random.seed(4)
    again = shap.KernelExplainer(function, background).shap_values(rows[0], nsamples=100, silent=True)
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("method", ["kernel", "permutation", "sampling", "exact"])
def test_nothing_is_printed_or_logged(method, capfd, caplog):
    X, _ = cancer()
    background = X[:120, :6]
    options = {"nsamples": 100} if method in ("kernel", "sampling") else {}
    Shap(lambda Z: Z[:, 0] * Z[:, 1], background=background, method=method, **options).explain(X[:2, :6], seed=0)
    printed = capfd.readouterr()
    assert printed.out + printed.err == ""
    assert caplog.records == []


def test_settings_are_complete_and_plain():
    given, _, _, background, _ = model("callable")
    settings = Shap(given, background=background).settings()
    assert settings == {
        "method": "kernel",
        "nsamples": 2 * FEATURES + 2048,
        "l1_reg": False,
        "link": "identity",
        "background_rows": 12,
    }
    described = Shap(given, background=background, method="permutation").describe()
    assert described["explainer"] == "shap.permutation"
    assert described["settings"]["npermutations"] == 10
    assert described["package"]["shap"] == shap.__version__
    json.dumps(described)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "kernal"}, "did you mean 'kernel'"),
        ({"method": 3}, "method=3"),
        ({"background": None}, "shap.kernel needs background="),
        ({"method": "exact", "background": None}, "shap.exact needs background="),
        ({"nsamples": 0}, "nsamples=0"),
        ({"nsamples": 10.5}, r"nsamples=10\.5"),
        ({"nsamples": True}, "nsamples=True"),
        ({"l1_reg": True}, "l1_reg=True"),
        ({"l1_reg": "num_features(0)"}, "num_features"),
        ({"l1_reg": -1.0}, "l1_reg=-1.0"),
        ({"link": "log"}, "did you mean 'logit'"),
        ({"npermutations": 3}, "not an option of method='kernel'; it belongs to permutation"),
        ({"method": "permutation", "npermutations": "10"}, "npermutations='10'"),
        ({"method": "tree", "check_additivity": 1}, "check_additivity=1"),
        ({"method": "tree", "background": None, "model_output": "probability"}, "interventional"),
        ({"method": "tree", "background": None, "feature_perturbation": "interventional"}, "background="),
        ({"method": "gradient", "nsamples": "auto"}, "nsamples='auto'"),
    ],
)
def test_options_that_cannot_be_used(options, message):
    X, _ = cancer()
    with pytest.raises(InputError, match=message):
        Shap(lambda Z: Z[:, 0], **{"background": X[:5], **options})


def test_exact_refuses_many_features():
    X = np.zeros((3, 16))
    with pytest.raises(InputError, match="at most 15 features"):
        Shap(lambda Z: Z[:, 0], background=X, method="exact")


@pytest.mark.parametrize("method", ["kernel", "permutation", "sampling", "exact"])
def test_one_feature_gets_all_of_the_difference(method):
    background, rows = np.array([[0.0], [2.0]]), np.array([[3.0]])
    values = Shap(lambda Z: Z[:, 0] ** 2, background=background, method=method).explain(rows, seed=0)
    np.testing.assert_allclose(values, [[9.0 - 2.0]], rtol=1e-12)


@pytest.mark.parametrize("method", ["kernel", "permutation", "sampling", "exact"])
def test_constant_columns_and_a_row_that_equals_the_background(method):
    X, _ = cancer()
    background = X[:10, :4].copy()
    background[:, 2] = 5.0
    rows = background[:2].copy()
    values = Shap(lambda Z: Z[:, 0] + Z[:, 2] ** 2, background=background, method=method).explain(rows, seed=0)
    np.testing.assert_array_equal(values[:, 2], 0.0)
    same = np.repeat(background[:1], 3, axis=0)
    values = Shap(lambda Z: Z[:, 0], background=same, method=method).explain(same[:1], seed=0)
    np.testing.assert_array_equal(values, 0.0)


@pytest.mark.parametrize("method", ["kernel", "permutation"])
def test_missing_values_where_the_model_accepts_them(method):
    import xgboost

    X, y = cancer()
    X = X[:, :5].copy()
    X[::3, 1] = np.nan
    fitted = xgboost.XGBClassifier(n_estimators=5, n_jobs=1).fit(X, y)
    function = lambda Z: fitted.predict_proba(Z)[:, 1]  # noqa: E731
    rows, background = X[99:102], X[:10]
    values = Shap(fitted, background=background, method=method).explain(rows, seed=0)
    np.testing.assert_allclose(values.sum(axis=1), function(rows) - function(background).mean(), atol=1e-6)


def test_frames_reach_the_model_as_they_were_given():
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(20, 60, 120), "town": rng.choice(["A", "B", "C"], 120)})
    y = ((frame["town"] == "A") | (frame["age"] > 50)).to_numpy()
    encoder = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    pipeline = make_pipeline(encoder, LogisticRegression()).fit(frame, y)
    background = frame[:20]
    values = Shap(pipeline, background=background).explain(frame[50:53], seed=0, target=True)
    probability = lambda Z: pipeline.predict_proba(Z)[:, 1]  # noqa: E731

    def mixed(row, columns):
        """Mean output with `columns` of the row put into every background row."""
        return probability(background.assign(**{c: row[c] for c in columns})).mean()

    for value, (_, row) in zip(values, frame[50:53].iterrows(), strict=True):
        nothing, age, town, both = (mixed(row, c) for c in ([], ["age"], ["town"], ["age", "town"]))
        expected = [(age - nothing + both - town) / 2, (town - nothing + both - age) / 2]
        np.testing.assert_allclose(value, expected, atol=1e-9)


def test_pickled_explainers_give_the_same_values():
    given, _, rows, background, _ = model("forest")
    explainer = Shap(given, background=background, nsamples=100)
    expected = explainer.explain(rows, seed=2)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(explainer)).explain(rows, seed=2), expected)


@pytest.mark.slow
def test_five_thousand_features():
    rng = np.random.default_rng(0)
    weights, background, rows = rng.normal(size=5000), rng.normal(size=(3, 5000)), rng.normal(size=(1, 5000))
    explainer = Shap(lambda Z: Z @ weights, background=background, method="permutation", npermutations=1)
    values = explainer.explain(rows, seed=1)
    np.testing.assert_allclose(values[0], weights * (rows[0] - background.mean(axis=0)), atol=1e-9)
