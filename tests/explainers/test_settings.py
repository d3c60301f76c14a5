"""Every constructor argument that changes values is part of the record."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest

from stabgate.explainers import Captum, Custom, Dice, Lime, Random, Shap
from stabgate.explainers.captum_methods import METHODS as CAPTUM
from stabgate.explainers.dice_settings import OPTIONS as DICE
from stabgate.explainers.shap_methods import METHODS as SHAP

DATA = np.random.default_rng(0).normal(size=(20, 3))
GIVEN = {"self", "model", "background", "function", "method", "name", "options", "device", "normalize"}


def model(Z):
    return 1 / (1 + np.exp(-Z[:, 0]))


def module():
    return pytest.importorskip("torch").nn.Linear(3, 2)


def other(value):
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    return 7 if value is None else "another"


SHAP_CHANGES = {
    "nsamples": 33, "l1_reg": "num_features(2)", "link": "logit", "npermutations": 3, "min_samples_per_feature": 5,
    "feature_perturbation": "tree_path_dependent", "model_output": "probability", "check_additivity": False,
}  # fmt: skip
LIME_CHANGES = {
    "num_samples": 60, "discretize_continuous": False, "discretizer": "decile", "kernel_width": 3.0,
    "feature_selection": {"feature_selection": "auto", "num_features": 2},
    "num_features": {"feature_selection": "auto", "num_features": 1},
    "sample_around_instance": {"discretize_continuous": False, "sample_around_instance": True},
    "distance_metric": "cosine", "ridge": 2.0,
}  # fmt: skip
DICE_CHANGES = {
    "total_cfs": 12, "posthoc_sparsity_algorithm": "linear", "posthoc_sparsity_param": 0.3, "desired_class": 1,
    "desired_range": (0.2, 0.4), "features_to_vary": ["x1"], "permitted_range": {"x0": [0, 1]}, "continuous": ["x0"],
    "stopping_threshold": 0.7, "time_limit": 5.0,
}  # fmt: skip
CAPTUM_CHANGES = {
    "baseline": "zeros",
    "noise_tunnel": {"noise_tunnel": "vargrad", "nt_stdevs": 0.1},
    "nt_samples": {"noise_tunnel": "smoothgrad", "nt_stdevs": 0.1, "nt_samples": 9},
    "nt_stdevs": {"noise_tunnel": "smoothgrad", "nt_stdevs": 0.2},
}
SURROGATES = {"surrogate": "lasso", "distance": "euclidean", "internal_batch_size": 5}


def cases():
    for method, known in SHAP.items():
        for name in known.defaults:
            yield pytest.param("shap", method, name, SHAP_CHANGES[name], id=f"shap.{method}-{name}")
    for name, value in LIME_CHANGES.items():
        yield pytest.param("lime", None, name, value, id=f"lime-{name}")
    for method, options in DICE.items():
        for name, value in (DICE_CHANGES | {o: other(v) for o, v in options.items()}).items():
            yield pytest.param("dice", method, name, value, id=f"dice.{method}-{name}")
    for method, known in CAPTUM.items():
        changes = {o: SURROGATES.get(o, other(v)) for o, v in known.options.items()}
        if known.baselines == "one":
            changes["baseline"] = "zeros"
        if known.gradient and not known.random:
            changes |= {name: value for name, value in CAPTUM_CHANGES.items() if name != "baseline"}
        for name, value in changes.items():
            yield pytest.param("captum", method, name, value, id=f"captum.{method}-{name}")


def settings(package, method, options):
    if package == "shap":
        pytest.importorskip("shap")
        given = module() if method in ("gradient", "deep") else model
        return Shap(given, background=DATA, method=method, **options).settings()
    if package == "lime":
        pytest.importorskip("lime")
        return Lime(model, background=DATA, **options).settings()
    if package == "dice":
        pytest.importorskip("dice_ml")
        return Dice(model, background=DATA, method=method, **options).settings()
    pytest.importorskip("captum")
    return Captum(module(), method=method, background=DATA, **options).settings()


@pytest.mark.parametrize(("package", "method", "name", "value"), list(cases()))
def test_a_changed_argument_changes_the_record(package, method, name, value):
    changed = value if isinstance(value, dict) and name != "permitted_range" else {name: value}
    base = {k: v for k, v in changed.items() if k != name}
    if package == "shap" and name == "model_output":
        base["feature_perturbation"] = changed["feature_perturbation"] = "interventional"
    if package == "lime" and name == "feature_selection":
        base = {}
    if package == "captum" and name == "nt_stdevs":
        base["nt_stdevs"] = 0.1
    if package == "captum" and name == "noise_tunnel":
        base = {}
    if package == "lime" and name == "num_features":
        base["num_features"] = 2
    before, after = settings(package, method, base), settings(package, method, changed)
    assert before != after
    for record in (before, after):
        assert json.loads(json.dumps(record)) == record


@pytest.mark.parametrize(
    ("kind", "covered"),
    [
        (Shap, SHAP_CHANGES),
        (Lime, LIME_CHANGES),
        (Dice, DICE_CHANGES),
        (Captum, CAPTUM_CHANGES),
        (Random, {}),
        (Custom, {"settings": {}}),
    ],
)
def test_no_argument_is_forgotten(kind, covered):
    assert set(inspect.signature(kind.__init__).parameters) - GIVEN == set(covered)


def test_the_method_is_recorded():
    seen = [settings("shap", method, {}) for method in SHAP] + [settings("dice", method, {}) for method in DICE]
    seen += [settings("captum", method, {}) for method in CAPTUM]
    names = [record["method"] for record in seen]
    assert names == [*SHAP, *DICE, *CAPTUM]
    assert Custom(lambda X, seed: X, settings={"depth": 3}).settings() == {"depth": 3}


def test_another_background_is_another_record():
    records = [Custom(lambda X, seed: X, background=data).describe() for data in (DATA, DATA.copy(), DATA + 1e-9)]
    assert records[0] == records[1]
    assert records[0]["background"]["rows"] == 20
    assert records[0] != records[2]
