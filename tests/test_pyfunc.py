"""MLflow pyfunc models: labels, column types, outputs as frames, and a fingerprint that loading does not change."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

import stabgate as sg
from stabgate.explainers import Dice, Lime, Shap
from stabgate.runs import collect

mlflow = pytest.importorskip("mlflow")
pytest.importorskip("shap")

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"income": np.round(RNG.normal(50, 10, 80), 2), "debt": np.round(RNG.normal(20, 5, 80), 2)})
COUNTED = FRAME.assign(rooms=RNG.integers(1, 6, 80))
Y = np.where(FRAME["income"] - FRAME["debt"] > 30, "yes", "no")


def logistic(frame=FRAME, y=Y):
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000).fit(frame, y)


def saved(folder, model, frame=FRAME, predict="predict_proba"):
    path = str(folder / f"model {len(list(folder.iterdir()))}")
    mlflow.sklearn.save_model(model, path, input_example=frame[:2], pyfunc_predict_fn=predict, pip_requirements=[])
    return path


@pytest.mark.filterwarnings("ignore")
def test_probabilities_keep_their_labels_and_a_fingerprint(tmp_path):
    model = logistic()
    path = saved(tmp_path, model)
    first, again = (sg.as_model(mlflow.pyfunc.load_model(path)) for _ in range(2))
    assert first.labels == ("no", "yes")
    assert first.notes == ()
    assert first.fingerprint == again.fingerprint
    assert sg.as_model(mlflow.pyfunc.load_model(saved(tmp_path, model))).fingerprint != first.fingerprint
    np.testing.assert_array_equal(first.predict(FRAME, 80), model.predict_proba(FRAME))
    explainer = Shap(first, background=FRAME[:10])
    no, yes = (explainer.explain(FRAME[70:72], seed=0, target=target) for target in ("no", "yes"))
    np.testing.assert_allclose(no, -yes, atol=1e-12)
    assert sg.as_model(mlflow.pyfunc.load_model(path), fingerprint="models:/credit/3").fingerprint == "models:/credit/3"


@pytest.mark.filterwarnings("ignore")
def test_a_rerun_of_a_loaded_model_explains_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("STABGATE_CACHE", str(tmp_path / "cache"))
    path = saved(tmp_path, logistic())
    runs = [
        collect(Shap(mlflow.pyfunc.load_model(path), background=FRAME[:10]), FRAME[70:72], runs=3) for _ in range(2)
    ]
    np.testing.assert_array_equal(runs[0].values, runs[1].values)
    assert runs[1].provenance["cache"] == "6 of 6 explanations were known"


@pytest.mark.filterwarnings("ignore")
def test_labels_in_place_of_probabilities_are_said(tmp_path):
    numbers = mlflow.pyfunc.load_model(saved(tmp_path, logistic(y=(Y == "yes").astype(int)), predict="predict"))
    result = sg.measure_k_stability(Shap(numbers, background=FRAME[:10]), FRAME[70:71], runs=3)
    assert any("returns class labels" in note and "predict_proba" in note for note in result.notes())
    texts = mlflow.pyfunc.load_model(saved(tmp_path, logistic(), predict="predict"))
    with pytest.raises(sg.ModelError, match=r"not numbers, the first is '(yes|no)'"):
        Shap(texts, background=FRAME[:10]).explain(FRAME[70:71], seed=0)


@pytest.mark.filterwarnings("ignore")
def test_columns_of_whole_numbers(tmp_path):
    """Coalitions mix values that occur, so the type stays; LIME asks between them, which MLflow refuses."""
    model = logistic(COUNTED)
    loaded = mlflow.pyfunc.load_model(saved(tmp_path, model, COUNTED))
    found = Shap(loaded, background=COUNTED[:10]).explain(COUNTED[70:72], seed=0)
    np.testing.assert_array_equal(found, Shap(model, background=COUNTED[:10]).explain(COUNTED[70:72], seed=0))
    assert np.isfinite(Dice(loaded, background=COUNTED[:60]).explain(COUNTED[70:71], seed=0)).all()
    with pytest.raises(sg.ModelError, match=r"'rooms' was logged as long.* signature in which it is double"):
        Lime(loaded, background=COUNTED[:60], num_samples=50).explain(COUNTED[70:71], seed=0)
    floats = COUNTED.astype(float)
    loaded = mlflow.pyfunc.load_model(saved(tmp_path, model, floats))
    assert np.isfinite(Lime(loaded, background=floats[:60], num_samples=50).explain(floats[70:71], seed=0)).all()


class Scorer(mlflow.pyfunc.PythonModel):
    """f(row) = 2 income - debt, as a data frame of one column."""

    def predict(self, context, model_input, params=None):
        return pd.DataFrame({"score": 2 * model_input["income"] - model_input["debt"]})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_a_python_model_from_a_tracking_store_returns_a_frame(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    try:
        experiment = mlflow.create_experiment("credit", artifact_location=(tmp_path / "artifacts").as_uri())
        with mlflow.start_run(experiment_id=experiment):
            logged = mlflow.pyfunc.log_model(
                name="model", python_model=Scorer(), input_example=FRAME[:2], pip_requirements=[]
            )
        loaded = mlflow.pyfunc.load_model(logged.model_uri)
    finally:
        mlflow.set_tracking_uri(None)
    result = sg.measure_k_stability(Shap(loaded, background=FRAME[:10]), FRAME[70:72], runs=3)
    centred = (FRAME[70:72] - FRAME[:10].mean()).to_numpy()
    np.testing.assert_allclose(result.attributions.values[0], centred * [2.0, -1.0], atol=1e-9)
    assert sg.as_model(loaded).labels is None


@pytest.mark.filterwarnings("ignore")
def test_it_travels_to_workers(tmp_path):
    explainer = Shap(mlflow.pyfunc.load_model(saved(tmp_path, logistic())), background=FRAME[:10])
    here = explainer.explain(FRAME[70:72], seed=0)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(explainer)).explain(FRAME[70:72], seed=0), here)
