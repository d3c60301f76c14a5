"""Models by their address: which flavour, which version it was, what is wrong with an address; types of a signature."""

from __future__ import annotations

from importlib.metadata import entry_points

import numpy as np
import pandas as pd
import pytest
from tracking_cases import X, Y, at, free_port

import stabgate as sg
from stabgate.errors import TrackingError
from stabgate.logged_models import SCHEMES
from stabgate.pyfunc import in_types_of, numbers

mlflow = pytest.importorskip("mlflow")
from mlflow.types import ColSpec, Schema, TensorSpec  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.server
def test_every_form_of_address_gives_the_model_and_says_which_it_was(registry, client):
    run = client.get_model_version("credit", "1").run_id
    known = {}
    with at(registry):
        before = mlflow.get_tracking_uri()
        for address in ("models:/credit@champion", "models:/credit/1", f"runs:/{run}/model"):
            known[address] = sg.as_model(address)
        newest = sg.as_model("models:/credit/latest")
        assert mlflow.get_tracking_uri() == before
    for model in known.values():
        assert type(model.inner).__name__ == "LogisticRegression"
        assert model.labels == (0, 1)
        np.testing.assert_array_equal(model.predict(X, 40), known["models:/credit/1"].predict(X, 40))
        assert model.source["run_id"] == run
    champion = known["models:/credit@champion"].source
    assert (champion["name"], champion["version"], champion["alias"]) == ("credit", "1", "champion")
    assert champion["model_id"].startswith("m-")
    assert champion["flavor"] == "sklearn"
    assert newest.source["version"] == "2"
    assert newest.inner.C == 0.1


@pytest.mark.server
def test_what_is_wrong_with_an_address(registry, tmp_path):
    with at(registry):
        for address, message in {
            "models:/credit@champ": "no alias 'champ'; there are @challenger, @champion|@champion, @challenger",
            "models:/credit/9": "no version '9'; there are /1, /2",
            "models:/crdit/1": "no registered model 'crdit'; there is credit",
            "models:/credit": "names no version",
            "runs:/0123456789abcdef0123456789abcdef/model": "not found",
            str(tmp_path / "nothing"): "there is no such folder",
            str(tmp_path): "holds no MLflow model",
        }.items():
            with pytest.raises((sg.InputError, TrackingError), match=message):
                sg.as_model(address)
    with at(f"http://127.0.0.1:{free_port()}"), pytest.raises(TrackingError, match="does not answer"):
        sg.as_model("models:/credit/1")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("", "the model's address is empty; expected models:/credit@champion"),
        ("runs:/0123", "'runs:/0123': the path of the model within the run is missing; write runs:/0123/model"),
        ("runs:/0123/", "is missing; write runs:/0123/model"),
        ("modles:/credit/1", "unknown scheme 'modles'; did you mean 'models:/credit/1'? (known: models, runs, file"),
        ("credit://1", "unknown scheme 'credit' (known: models, runs, file"),
        ("models:/credit@", "models:/credit@: its alias is empty; write models:/credit/7 or models:/credit@champion"),
        ("models:/credit/", "models:/credit/: its version is empty; write models:/credit/7 or models:/credit@champion"),
    ],
)
def test_addresses_that_no_store_need_be_asked_about(address, message):
    with at(f"http://127.0.0.1:{free_port()}"):  # a store that is asked would be a TrackingError
        for read in (sg.as_model, lambda one: sg.explainers.Lime(one, background=X)):
            with pytest.raises(sg.InputError) as wrong:
                read(address)
            assert message in str(wrong.value)


def test_every_scheme_that_mlflow_reads_from_is_known():
    registry = pytest.importorskip("mlflow.store.artifact.artifact_repository_registry")
    assert set(registry._artifact_repository_registry._registry) - {""} <= {
        *SCHEMES,
        *(one.name for one in entry_points(group="mlflow.artifact_repository")),
    }


@pytest.mark.parametrize(
    ("baseline", "hint"),
    [("runs:/0123/model", ""), ("modles:/credit@champion", "; did you mean 'models:/credit@champion'?")],
)
def test_a_baseline_is_no_address_but_a_registered_models(baseline, hint):
    result = sg.measure_k_stability(sg.explainers.Random(), X[:2], runs=4)
    with pytest.raises(sg.InputError) as wrong:
        sg.assert_no_regression(result, baseline, max_drop=0.1)
    assert str(wrong.value) == (
        f"baseline {baseline!r} is not the address of one{hint} (a baseline is a name, a path to a baseline file, "
        "models:/name@alias or models:/name/version)"
    )


def test_boosters_and_networks_come_as_themselves(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    torch = pytest.importorskip("torch")
    mlflow.xgboost.save_model(xgboost.XGBClassifier(n_estimators=3).fit(X, Y), tmp_path / "trees", pip_requirements=[])
    trees = sg.as_model(tmp_path / "trees")
    assert trees.source["flavor"] == "xgboost"
    assert trees.predict(X, 40).shape == (40, 2)
    found = sg.explainers.Shap(str(tmp_path / "trees"), background=X[:10]).explain(X[:2], seed=0)
    assert np.isfinite(found).all()

    network = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(72, 2))
    mlflow.pytorch.save_model(network, tmp_path / "network", pip_requirements=[], serialization_format="pickle")
    images = np.random.default_rng(0).random((3, 1, 8, 8))
    explainer = sg.explainers.Captum(str(tmp_path / "network"), method="saliency")
    result = sg.measure_fass(explainer, images, perturbations="brightness", references=0)
    assert result.provenance["source"]["flavor"] == "pytorch"
    direct = sg.measure_fass(sg.explainers.Captum(network, method="saliency"), images, perturbations="brightness",
                             references=0)  # fmt: skip
    assert [pair.fass for pair in result.pairs] == [pair.fass for pair in direct.pairs]


class Scorer(mlflow.pyfunc.PythonModel):
    """A frame with a word beside the number."""

    def predict(self, context, model_input, params=None):
        score = 2 * model_input["income"] - model_input["rooms"]
        return pd.DataFrame({"word": np.where(score > 0, "yes", "no"), "score": score})


def test_a_pyfunc_with_a_signature(tmp_path):
    rows = X.assign(rooms=np.arange(40) % 5)[["income", "rooms"]]
    mlflow.pyfunc.save_model(tmp_path / "scorer", python_model=Scorer(), input_example=rows[:2], pip_requirements=[])
    model = sg.as_model(str(tmp_path / "scorer"))
    assert model.source["flavor"] == "pyfunc"
    expected = (2 * rows["income"] - rows["rooms"]).to_numpy()
    for given in (rows, rows.astype(float), rows.astype({"income": "float32"}), rows.to_numpy()):
        np.testing.assert_allclose(model.predict(given, 40)[:, 0], expected, rtol=1e-6)
    with pytest.raises(sg.ModelError, match=r"'rooms' was logged as long.* signature in which it is double"):
        model.predict(rows.assign(rooms=rows["rooms"] + 0.5), 40)


@pytest.mark.parametrize(
    ("logged", "given", "expected"),
    [
        ("double", np.array([1, 2]), np.float64),
        ("float", np.array([1.5, 2.0]), np.float32),
        ("long", np.array([1.0, 2.0]), np.int64),
        ("integer", np.array([1, 2]), np.int32),
        ("boolean", np.array([0.0, 1.0]), np.bool_),
        ("string", np.array(["a", "b"], dtype=object), None),
    ],
)
def test_types_of_a_signature(logged, given, expected):
    frame = pd.DataFrame({"a": given})
    found = in_types_of(Schema([ColSpec(logged, "a")]), frame)["a"]
    assert found.dtype == (frame["a"].dtype if expected is None else expected)
    assert found.tolist() == given.tolist()


def test_types_that_would_lose_something_are_refused_by_name():
    for logged, values in (("integer", [2.0**40]), ("long", [np.nan]), ("boolean", [2.0]), ("long", [0.5])):
        with pytest.raises(ValueError, match="'a' was logged as"):
            in_types_of(Schema([ColSpec(logged, "a")]), pd.DataFrame({"a": values}))


def test_tensors_and_outputs():
    schema = Schema([TensorSpec(np.dtype("float32"), (-1, 3))])
    assert in_types_of(schema, X).dtype == np.float32
    assert numbers({"p": [1.0, 2.0]}) == [1.0, 2.0]
    with pytest.raises(ValueError, match="2 outputs"):
        numbers({"p": [1.0], "q": [2.0]})
    with pytest.raises(ValueError, match="without a column of numbers: 'word'"):
        numbers(pd.DataFrame({"word": ["yes"]}))
