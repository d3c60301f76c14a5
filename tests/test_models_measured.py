"""Models end to end: what a measurement says of a network in training mode, of logits, and of CatBoost's categories."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import stabgate as sg
from stabgate.explainers import Captum, Dice, Lime, Shap

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
QUICK = {"runs": 3, "n_jobs": 1}


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield torch
    torch.set_num_threads(threads)


@pytest.mark.parametrize("make", ["captum", "deeplift", "shap kernel", "shap gradient", "shap deep", "lime"])
@pytest.mark.filterwarnings("ignore")
def test_a_network_in_training_mode_is_left_as_it_was_and_that_is_said(torch, make):
    nn = torch.nn
    network = nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 2))
    network(torch.randn(32, 3))
    network.train()
    network[3].eval()  # a mixture, as in fine-tuning
    modes = [part.training for part in network.modules()]
    before = {name: value.clone() for name, value in network.state_dict().items()}
    explainer = {
        "captum": lambda: Captum(network, background=X[:10]),
        "deeplift": lambda: Captum(network, method="deeplift", background=X[:10]),
        "shap kernel": lambda: Shap(network, background=X[:10]),
        "shap gradient": lambda: Shap(network, background=X[:10], method="gradient", nsamples=20),
        "shap deep": lambda: Shap(network, background=X[:10], method="deep"),
        "lime": lambda: Lime(network, background=X[:40], num_samples=50),
    }[make]()
    result = sg.measure_k_stability(explainer, X[50:52], **QUICK)
    assert result.measured.all()
    note = "measured in evaluation mode; the module was in training mode and put back into it"
    assert note in result.notes()
    assert [part.training for part in network.modules()] == modes
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert all(parameter.grad is None for parameter in network.parameters())
    network.eval()
    assert note not in sg.measure_k_stability(Captum(network, background=X[:10]), X[50:52], **QUICK).notes()


@pytest.mark.filterwarnings("ignore")
def test_logits_are_explained_as_they_are(torch):
    """A linear network returns logits; its attributions are the slopes times the distance to the background."""
    network = torch.nn.Linear(3, 3)
    weight = network.weight.detach().double().numpy()
    rows = X[50:53]
    logits = rows @ weight.T + network.bias.detach().double().numpy()
    for explainer in (
        Shap(network, background=X[:10]),
        Shap(network, background=X[:10], method="deep"),
        Captum(network, background=X[:10]),
    ):
        result = sg.measure_k_stability(explainer, rows, **QUICK)
        expected = weight[logits.argmax(axis=1)] * (rows - X[:10].mean(axis=0))
        np.testing.assert_allclose(result.attributions.values[0], expected, atol=1e-5)
        assert result.attributions.targets == tuple(logits.argmax(axis=1))
    assert not sg.measure_k_stability(
        Dice(network, background=X[:50], sample_size=100), rows[:1], **QUICK
    ).attributions.failures
    with pytest.raises(sg.InputError, match=r"values outside \[0, 1\].*desired_range"):
        sg.measure_k_stability(Dice(torch.nn.Linear(3, 1), background=X[:50]), rows[:1], **QUICK)


@pytest.mark.filterwarnings("ignore")
def test_catboost_with_categories():
    """CatBoost is optional; its own ShapValues are what the tree method must give."""
    catboost = pytest.importorskip("catboost", reason="catboost is optional and not installed")
    frame = pd.DataFrame(
        {
            "income": X[:, 0],
            "town": pd.Categorical(RNG.choice(["Bern", "Ulm"], 60)),
            "job": RNG.choice(["cook", "clerk"], 60),
        }
    )
    y = np.where((frame["income"] > 0) ^ (frame["town"] == "Ulm"), "yes", "no")
    model = catboost.CatBoostClassifier(
        iterations=4, depth=3, verbose=0, thread_count=1, cat_features=["town", "job"], allow_writing_files=False
    ).fit(frame, y)
    rows = frame.iloc[[50, 51]]
    pool = catboost.Pool(rows, cat_features=["town", "job"])
    expected = model.get_feature_importance(pool, type="ShapValues")[:, :-1]
    tree = sg.measure_k_stability(Shap(model, method="tree"), rows, **QUICK)
    np.testing.assert_allclose(tree.attributions.values[0], expected, rtol=1e-9)
    assert tree.attributions.targets == ("yes", "yes")
    for explainer in (
        Shap(model, background=frame[:10]),
        Lime(model, background=frame[:40], num_samples=50),
        Dice(model, background=frame[:40], sample_size=60),
    ):
        assert not sg.measure_k_stability(explainer, rows, **QUICK).attributions.failures


def test_a_catboost_model_is_known_again_by_the_cache(tmp_path):
    """The hash of what pickling would store: another for another model, the same after saving and loading."""
    catboost = pytest.importorskip("catboost", reason="catboost is optional and not installed")
    import pickle

    from stabgate.fingerprint import fingerprint

    def fitted(depth):
        return catboost.CatBoostRegressor(
            iterations=2, depth=depth, verbose=0, thread_count=1, allow_writing_files=False
        ).fit(X, X[:, 0])

    one = fitted(2)
    one.save_model(str(tmp_path / "model.cbm"))
    loaded = catboost.CatBoostRegressor().load_model(str(tmp_path / "model.cbm"))
    assert fingerprint(loaded) == fingerprint(catboost.CatBoostRegressor().load_model(str(tmp_path / "model.cbm")))
    assert fingerprint(pickle.loads(pickle.dumps(one))) == fingerprint(one)
    assert fingerprint(pickle.loads(pickle.dumps(loaded))) == fingerprint(loaded)
    assert fingerprint(fitted(3)) != fingerprint(one)
