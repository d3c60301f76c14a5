"""Inputs as users have them, end to end through a measurement with real models.

Where a model is a sum of one function per feature, its Shapley values have a closed form: the value of a feature's
function on the row minus its mean over the background. Kernel SHAP with all coalitions is exact.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import stabgate as sg
from stabgate.explainers import Custom, Dice, Lime, Random, Shap

pytest.importorskip("shap")
pytest.importorskip("lime")
pytest.importorskip("dice_ml")

RNG = np.random.default_rng(0)
N = 80
FRAME = pd.DataFrame(
    {
        "age": pd.array(RNG.integers(20, 70, N), dtype="Int64"),
        "owner": pd.array(RNG.random(N) < 0.5, dtype="boolean"),
        "member": RNG.random(N) < 0.5,
        "town": pd.Categorical(RNG.choice(["Bern", "Graz", "Ulm"], N)),
        "job": pd.array(RNG.choice(["clerk", "cook"], N), dtype="string"),
        "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 900, N), unit="D"),
        "seen": pd.Timestamp("2021-03-01", tz="Europe/Berlin") + pd.to_timedelta(RNG.integers(0, 900, N), unit="h"),
        "income": np.round(RNG.normal(50, 10, N), 2),
    },
    index=[f"loan {i}" for i in range(N)],
)
KEPT = FRAME.dtypes
Y = ((FRAME["age"] > 45) & (FRAME["income"] > 48) | (FRAME["town"] == "Graz")).to_numpy(dtype=int)
ROWS = FRAME.iloc[[70, 71]]
QUICK = {"runs": 3, "n_jobs": 1}


def days(frame):
    """Days of both dates; the types must be those of training."""
    assert (frame.dtypes == KEPT[["since", "seen"]]).all()
    return np.column_stack([frame[c].dt.day_of_year + 366 * frame[c].dt.year for c in ("since", "seen")])


def floats(frame):
    assert [str(dtype) for dtype in frame.dtypes] == ["Int64", "boolean", "bool", "float64"]
    return frame.astype(float)


@pytest.fixture(scope="module")
def pipeline():
    columns = ColumnTransformer(
        [
            ("levels", OneHotEncoder(), ["town", "job"]),
            (
                "numbers",
                make_pipeline(FunctionTransformer(floats), StandardScaler()),
                ["age", "owner", "member", "income"],
            ),
            ("dates", make_pipeline(FunctionTransformer(days), StandardScaler()), ["since", "seen"]),
        ]
    )
    return make_pipeline(columns, LogisticRegression()).fit(FRAME, Y)


def closed_form(function, row, background):
    """f(row) minus the mean of f over the background's values of one column, for each column of an additive f."""
    found = []
    for column in row.columns:
        swapped = pd.concat([row] * len(background)).reset_index(drop=True)
        swapped[column] = background[column].reset_index(drop=True)
        found.append(function(row)[0] - function(swapped.astype(row.dtypes.to_dict())).mean())
    return np.array(found)


def test_every_column_type_reaches_the_model_as_it_was_trained(pipeline):
    background = FRAME[:10]
    result = sg.measure_k_stability(Shap(pipeline.decision_function, background=background), ROWS, **QUICK)
    for i in range(2):
        expected = closed_form(pipeline.decision_function, ROWS.iloc[[i]], background)
        np.testing.assert_allclose(result.attributions.values[0, i], expected, atol=1e-9)
    assert result.features == tuple(FRAME.columns)
    assert result.instances == ("loan 70", "loan 71")


def test_columns_in_another_order_and_a_row_as_a_series(pipeline):
    explainer = Shap(pipeline, background=FRAME[:10], nsamples=60)
    whole = sg.measure_k_stability(explainer, ROWS, **QUICK)
    turned = sg.measure_k_stability(explainer, ROWS[ROWS.columns[::-1]], **QUICK)
    np.testing.assert_array_equal(turned.attributions.values, whole.attributions.values)
    one = sg.measure_k_stability(explainer, FRAME.loc["loan 71"], **QUICK)
    assert one.instances == ("loan 71",)
    np.testing.assert_array_equal(one.attributions.values[:, 0], whole.attributions.values[:, 1])
    shuffled = sg.measure_k_stability(explainer, ROWS.iloc[::-1], **QUICK)
    np.testing.assert_array_equal(shuffled.attributions.values, whole.attributions.values[:, ::-1])


@pytest.mark.parametrize("kind", ["lime", "dice", "permutation"])
def test_encodings_are_undone_on_the_way_back(kind, pipeline):
    """The pipeline itself asserts the types of what it is asked, and refuses unknown levels."""
    explainer = {
        "lime": lambda: Lime(lenient(pipeline), background=FRAME[:60], num_samples=80),
        "dice": lambda: Dice(lenient(pipeline), background=FRAME[:60], sample_size=60),
        "permutation": lambda: Shap(pipeline, background=FRAME[:10], method="permutation", npermutations=1),
    }[kind]
    result = sg.measure_k_stability(explainer(), ROWS, **QUICK)
    assert not result.attributions.failures
    assert (np.abs(result.attributions.values).max(axis=(0, 1)) > 0).sum() >= 5


def lenient(pipeline):
    """Ages between whole numbers are rounded, as a user would; all other types are asserted."""

    def predict(frame):
        return pipeline.predict_proba(frame.assign(age=frame["age"].astype(float).round().astype("Int64")))

    return predict


def test_missing_values_where_the_model_takes_them():
    xgboost, lightgbm = pytest.importorskip("xgboost"), pytest.importorskip("lightgbm")
    data = np.random.default_rng(1).normal(size=(N, 4))
    data[::7, 1] = np.nan
    y = (np.nan_to_num(data[:, 0]) + np.nan_to_num(data[:, 1]) > 0).astype(int)
    models = [
        HistGradientBoostingClassifier(max_iter=4),
        xgboost.XGBClassifier(n_estimators=4, n_jobs=1),
        lightgbm.LGBMClassifier(n_estimators=4, verbose=-1, n_jobs=1, min_child_samples=4),
        make_pipeline(SimpleImputer(), LogisticRegression()),
    ]
    for model in models:
        model.fit(data, y)
        output = lambda Z, model=model: model.predict_proba(Z)[:, 1]  # noqa: E731
        result = sg.measure_k_stability(Shap(model, background=data[:10]), data[[7, 8]], **QUICK)
        expected = output(data[[7, 8]]) - output(data[:10]).mean()
        np.testing.assert_allclose(result.attributions.values.sum(axis=2), [expected] * 3, atol=1e-6)
        if hasattr(model, "steps"):
            continue
        tree = sg.measure_k_stability(Shap(model, method="tree"), data[[7, 8]], **QUICK)
        assert tree.measured.all()
        assert tree.deterministic


def test_missing_values_of_nullable_and_text_columns():
    frame = FRAME[["age", "job", "income"]].copy()
    frame.loc["loan 70", ["age", "job"]] = pd.NA
    frame.loc["loan 3", "income"] = np.nan

    def model(rows):
        assert (rows.dtypes == frame.dtypes).all()
        age = rows["age"].astype("Float64").fillna(40).to_numpy(dtype=float)
        return (
            age
            + 10 * (rows["job"] == "cook").fillna(False).to_numpy(dtype=float)
            + rows["income"].fillna(50).to_numpy()
        )

    result = sg.measure_k_stability(Shap(model, background=frame[:10]), frame.loc[["loan 70"]], **QUICK)
    parts = [model(frame[:10].assign(**{c: frame.loc[["loan 70"] * 10, c].array for c in [name]})) for name in frame]
    expected = [part.mean() - model(frame[:10]).mean() for part in parts]
    np.testing.assert_allclose(result.attributions.values[0, 0], expected, atol=1e-9)


@pytest.mark.parametrize("where", ["row", "background"])
def test_missing_values_where_the_model_refuses_them_name_the_column(where):
    data = pd.DataFrame(np.random.default_rng(2).normal(size=(N, 3)), columns=["age", "income", "debt"])
    model = LogisticRegression().fit(data, (data["age"] > 0).astype(int))
    holed = data.copy()
    holed.loc[[5, 71], "income"] = np.nan
    if where == "row":
        with pytest.raises(sg.ModelError, match=r"(?s)'income' is missing in 1 of 2 rows.*imputer before it"):
            sg.measure_k_stability(Shap(model, background=data[:10]), holed.iloc[[70, 71]], **QUICK)
    else:
        result = sg.measure_k_stability(Shap(model, background=holed[:10]), data.iloc[[70]], **QUICK)
        assert "column 'income' is missing in 1 of 10 rows" in result.attributions.failures[70]
    for kind in (Lime, Dice):
        background, rows = (data[:60], holed.iloc[[71]]) if where == "row" else (holed[:60], data.iloc[[70]])
        with pytest.raises((sg.InputError, sg.ModelError), match="column 'income'"):
            sg.measure_k_stability(kind(model, background=background), rows, **QUICK)


@pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix, sparse.csr_array])
def test_sparse_rows(make):
    dense = sparse.random(N, 6, density=0.5, random_state=0).toarray()
    y = (dense[:, 0] + dense[:, 4] > 0.4).astype(int)
    data = make(dense)
    line = LogisticRegression().fit(data, y)
    seen = set()

    def decide(rows):
        seen.add(sparse.issparse(rows))
        return line.decision_function(rows)

    result = sg.measure_k_stability(Shap(decide, background=make(dense[:10])), data, rows=[70, 71], **QUICK)
    expected = line.coef_[0] * (dense[[70, 71]] - dense[:10].mean(axis=0))
    np.testing.assert_allclose(result.attributions.values[0], expected, atol=1e-9)
    assert seen == {True}
    forest = RandomForestClassifier(3, random_state=0).fit(data, y)
    explainers = (
        Shap(line, background=make(dense[:10]), method="linear"),
        Shap(forest, method="tree"),
        Lime(line, background=make(dense[:40]), num_samples=40),
        Dice(line, background=make(dense[:40]), sample_size=60),
        Custom(lambda X, seed: X.toarray()[0] + seed, model=line),
    )
    for explainer in explainers:
        found = sg.measure_k_stability(explainer, data, rows=[70], **QUICK)
        assert not found.attributions.failures, explainer.name


def test_object_arrays():
    data = np.empty((N, 3), dtype=object)
    data[:, 0], data[:, 1], data[:, 2] = FRAME["income"], FRAME["job"], FRAME["member"]

    def model(rows):
        assert rows.dtype == object
        assert {type(v) for v in rows[:, 2]} <= {bool}
        return rows[:, 0].astype(float) / 100 + 0.2 * (rows[:, 1] == "cook") + 0.1 * rows[:, 2].astype(float)

    result = sg.measure_k_stability(Shap(model, background=data[:10]), data[[70]], **QUICK)
    parts = np.column_stack(
        [data[:, 0].astype(float) / 100, 0.2 * (data[:, 1] == "cook"), 0.1 * data[:, 2].astype(float)]
    )
    np.testing.assert_allclose(result.attributions.values[0, 0], parts[70] - parts[:10].mean(axis=0), atol=1e-9)
    for explainer in (
        Lime(model, background=data[:60], num_samples=50),
        Dice(model, background=data[:60], sample_size=60, desired_range=(0.7, 1.0)),
    ):
        assert not sg.measure_k_stability(explainer, data[[70]], **QUICK).attributions.failures


@pytest.mark.parametrize("labels", [[0, 1, 2], [("a", 1), ("a", 2), ("b", 1)], [1.5, "b", None]], ids=str)
def test_column_names_that_are_not_text(labels):
    data = pd.DataFrame(np.random.default_rng(3).normal(size=(N, 3)))
    data.columns = pd.Index(labels, tupleize_cols=False)

    def model(frame):
        assert frame.columns.tolist() == labels
        return frame.to_numpy() @ [3.0, 2.0, 1.0]

    names = tuple(str(label) for label in labels)
    result = sg.measure_k_stability(
        Shap(model, background=data[:10]), data.iloc[[70]], groups={"both": list(names[1:])}, **QUICK
    )
    assert result.features == (names[0], "both")
    values = (data.iloc[70] - data[:10].mean()).to_numpy() * [3.0, 2.0, 1.0]
    np.testing.assert_allclose(result.attributions.values[0, 0], [values[0], values[1:].sum()], atol=1e-9)


def test_duplicate_names_are_refused():
    data = pd.DataFrame(np.random.default_rng(4).normal(size=(N, 3)), columns=["age", "debt", "age"])
    with pytest.raises(sg.InputError, match="'age' occurs 2 times"):
        Shap(lambda Z: Z.to_numpy()[:, 0], background=data[:10])
    with pytest.raises(sg.InputError, match="'age' occurs 2 times"):
        sg.measure_k_stability(Random(), data[:3], **QUICK)
    with pytest.raises(sg.InputError, match="'1' occurs 2 times"):
        sg.measure_k_stability(Random(), data.set_axis([1, "1", "b"], axis=1), **QUICK)


def test_one_hot_blocks_are_ranked_as_one():
    numbers = FRAME[["income"]].assign(age=FRAME["age"].astype(float))
    data = pd.concat([numbers, pd.get_dummies(FRAME["town"], prefix="town")], axis=1)
    assert {str(dtype) for dtype in data.dtypes[2:]} == {"bool"}
    model = LogisticRegression(max_iter=2000).fit(data, Y)
    towns = [c for c in data if c.startswith("town")]
    kwargs = {"groups": {"town": towns}, **QUICK}
    result = sg.measure_k_stability(
        Shap(model.decision_function, background=data[:10]), data.loc[["loan 70"]], **kwargs
    )
    assert result.features == ("income", "age", "town")
    each = model.coef_[0] * (data.loc["loan 70"].astype(float) - data[:10].astype(float).mean()).to_numpy(dtype=float)
    np.testing.assert_allclose(result.attributions.values[0, 0], [each[0], each[1], each[2:].sum()], atol=1e-9)
    for explainer in (
        Lime(model, background=data[:60], num_samples=50),
        Dice(model, background=data[:60], sample_size=60),
    ):
        found = sg.measure_k_stability(explainer, data.loc[["loan 70"]], **kwargs)
        assert found.distances.shape == (1, 3, 3)
        assert found.attributions.provenance["groups"] == {"town": towns}


def test_rows_are_chosen_by_id_predicate_and_sample(pipeline):
    explainer = Random()
    whole = sg.measure_k_stability(explainer, FRAME, **QUICK)
    where = {row: i for i, row in enumerate(whole.instances)}
    by_id = sg.measure_k_stability(explainer, FRAME, rows=["loan 9", "loan 4"], **QUICK)
    assert by_id.instances == ("loan 9", "loan 4")
    cooks = sg.measure_k_stability(explainer, FRAME, rows=lambda X: X["job"] == "cook", **QUICK)
    assert cooks.instances == tuple(FRAME.index[FRAME["job"] == "cook"])
    sample = sg.measure_k_stability(explainer, FRAME, rows=12, **QUICK)
    assert len(set(sample.instances)) == 12
    for part in (by_id, cooks, sample):
        positions = [where[row] for row in part.instances]
        np.testing.assert_array_equal(part.attributions.values, whole.attributions.values[:, positions])
    grown = pd.concat([FRAME, FRAME.set_axis([f"new {i}" for i in range(N)])])
    later = sg.measure_k_stability(explainer, grown, rows=12, **QUICK)
    kept = set(later.instances) & set(FRAME.index)
    assert kept <= set(sample.instances)  # a sample changes only where new rows displace old ones
    with pytest.raises(sg.InputError, match="a mask of booleans; give a function"):
        sg.measure_k_stability(explainer, FRAME, rows=FRAME["job"] == "cook", **QUICK)
    with pytest.raises(sg.InputError, match="rows names 'loan 99'"):
        sg.measure_k_stability(explainer, FRAME, rows=["loan 99"], **QUICK)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_categories_of_boosters(library):
    data = FRAME[["income", "town"]].assign(debt=np.random.default_rng(5).normal(size=N))
    y = ((data["income"] > 50) ^ (data["town"] == "Ulm")).astype(int)
    package = pytest.importorskip(library)
    if library == "xgboost":
        model = package.XGBClassifier(n_estimators=4, n_jobs=1, enable_categorical=True).fit(data, y)
        raw = model.get_booster()
    else:
        model = package.LGBMClassifier(n_estimators=4, verbose=-1, n_jobs=1, min_child_samples=4).fit(data, y)
        raw = model.booster_
    import shap

    expected = np.asarray(shap.TreeExplainer(model).shap_values(data.iloc[[70, 71]]))
    for given in (model, raw):
        tree = sg.measure_k_stability(Shap(given, method="tree"), data.iloc[[70, 71]], **QUICK)
        np.testing.assert_allclose(tree.attributions.values[0], expected, rtol=1e-6)
        for explainer in (
            Shap(given, background=data[:10]),
            Lime(given, background=data[:60], num_samples=50),
            Dice(given, background=data[:60], sample_size=60),
        ):
            assert not sg.measure_k_stability(explainer, data.iloc[[70]], **QUICK).attributions.failures


@pytest.mark.slow
def test_five_thousand_features():
    """Attributions of a linear model by permutation SHAP are exact; LIME finds the one large slope."""
    features = 5000
    data = np.random.default_rng(6).normal(size=(20, features))
    slopes = np.zeros(features)
    slopes[[10, 20, 30]] = [50.0, -4.0, 3.0]
    model = lambda Z: Z @ slopes  # noqa: E731
    groups = {"rest": [f"x{j}" for j in range(features) if j not in (10, 20, 30)]}
    explainer = Shap(model, background=data[:2], method="permutation", npermutations=1)
    result = sg.measure_k_stability(explainer, data, rows=[15], groups=groups, runs=2, n_jobs=1)
    expected = slopes * (data[15] - data[:2].mean(axis=0))
    np.testing.assert_allclose(result.attributions.values[0, 0, 1:], expected[[10, 20, 30]], atol=1e-8)
    assert result.k[0] == 4
    lime = Lime(model, background=data, num_samples=200).explain(data[15:16], seed=0)
    assert np.abs(lime[0]).argmax() == 10


def test_distances_that_need_much_memory_are_warned_of(monkeypatch):
    def stop(*_, **__):
        raise KeyError

    monkeypatch.setattr("stabgate.measure.kstability.Collection", stop)
    wide = np.ones((60, 3000))
    with pytest.warns(sg.CostWarning, match="3,000 features on 60 rows take 4 GB"), pytest.raises(KeyError):
        sg.measure_k_stability(Random(), wide)
    with warnings.catch_warnings():
        warnings.simplefilter("error", sg.CostWarning)
        with pytest.raises(KeyError):
            sg.measure_k_stability(Random(), wide[:2])
