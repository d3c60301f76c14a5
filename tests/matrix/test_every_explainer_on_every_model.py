"""Every explainer on every kind of model: equal to a direct call of its package, or refused with advice."""

from __future__ import annotations

import random
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from model_kinds import kind_of
from works_with import EXPLAINERS, KINDS, SUPPORTED, markdown

from stabgate.errors import InputError
from stabgate.explainers import Captum, Custom, Dice, Lime, Random, Shap
from stabgate.runs import collect

RUNS = 2
ADVICE = r"(?i)use .*method='kernel'|Shap, Lime and Dice take any model"
BACKGROUND = slice(0, 30)
SAMPLES = 60
DEEP = {"Shap gradient": {"nsamples": 20}, "Shap deep": {}}
SHAP = {
    "Shap kernel": {"nsamples": 12},
    "Shap permutation": {"npermutations": 1},
    "Shap sampling": {"nsamples": 40, "min_samples_per_feature": 4},
    "Shap exact": {},
    "Shap tree, path-dependent": {"feature_perturbation": "tree_path_dependent"},
    "Shap tree, interventional": {"feature_perturbation": "interventional"},
    "Shap linear": {},
} | DEEP
DICE = {
    "random": {"sample_size": 200, "limit_steps_ls": 100},
    "genetic": {"maxiterations": 3},
    "kdtree": {"limit_steps_ls": 100},
}


@pytest.fixture(autouse=True)
def _one_thread():
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


def rows_of(name, case):
    """Few rows, and one for the slow searches."""
    positions = [40] if name.startswith("Dice") else [40, 41]
    data = case.data.iloc[positions] if hasattr(case.data, "iloc") else case.data[positions]
    return data, case.numbers[positions]


def build(name, case):
    """stabgate's explainer."""
    background = case.data[BACKGROUND]
    if name in SHAP:
        method = name.split()[1].rstrip(",")
        given = None if name == "Shap tree, path-dependent" else background
        return Shap(case.model, background=given, method=method, **SHAP[name])
    if name == "Lime":
        return Lime(case.model, background=background, num_samples=SAMPLES)
    if name.startswith("Dice"):
        method = name.split()[1]
        goal = {} if case.classes is not None else {"desired_range": desired_range(case)}
        return Dice(case.model, background=background, method=method, **DICE[method], **goal)
    if name.startswith("Captum"):
        tunnel = {"noise_tunnel": "smoothgrad", "nt_stdevs": 0.1} if "Tunnel" in name else {}
        return Captum(case.model, method=name.split()[1], background=background, **tunnel)
    if name == "Random":
        return Random(case.model)
    return Custom(lambda X, seed: mine(case, X, seed), model=case.model, background=background)


def mine(case, X, seed):
    """A user's own explainer: noise around the row."""
    numbers = case.numbers[40] if hasattr(X, "iloc") else X[0]
    return numbers + np.random.default_rng(seed).normal(size=len(numbers)) + np.random.random()


def direct(name, case, row, seed):
    """Attributions (features,) of `row` (features,) by the package itself."""
    target = case.target(row)
    np.random.seed(seed)
    random.seed(seed)
    if name in SHAP:
        return direct_shap(name, case, row, seed, target)
    if name == "Lime":
        return direct_lime(case, row, seed, target)
    if name.startswith("Dice"):
        return direct_dice(name.split()[1], case, row)
    if name.startswith("Captum"):
        return direct_captum(name, case, row, seed, target)
    if name == "Random":
        return np.random.default_rng(seed).random(len(row))
    return mine(case, case.data if hasattr(case.data, "iloc") else row[None], seed)


def direct_shap(name, case, row, seed, target):
    import shap

    background = case.numbers[BACKGROUND]
    explained = lambda Z: case.outputs(Z)[:, target]  # noqa: E731
    options = SHAP[name]
    if name == "Shap kernel":
        return shap.KernelExplainer(explained, background).shap_values(row, l1_reg=False, silent=True, **options)
    if name == "Shap permutation":
        explainer = shap.PermutationExplainer(explained, background, seed=seed)
        return explainer(row[None], max_evals=2 * len(row) + 1, silent=True).values[0]
    if name == "Shap sampling":
        return shap.SamplingExplainer(explained, background).shap_values(row, silent=True, **options)
    if name == "Shap exact":
        return shap.ExactExplainer(explained, background)(row[None], silent=True).values[0]
    if name == "Shap linear":
        masker = shap.maskers.Independent(background)
        return column(shap.LinearExplainer(case.model, masker).shap_values(row[None]), case, row, target)
    if name in DEEP:
        return direct_deep(name, case, row, seed, target)
    given = None if name == "Shap tree, path-dependent" else background
    explainer = shap.TreeExplainer(case.model, given, **options)
    return column(explainer.shap_values(row[None]), case, row, target)


def direct_deep(name, case, row, seed, target):
    import shap
    import torch

    model = case.model
    if case.outputs(row[None]).shape[1] == 1 and model(torch.zeros(1, 4)).ndim == 1:
        model = torch.nn.Sequential(model, torch.nn.Unflatten(0, (-1, 1)))  # shap takes columns only
    tensors = [torch.tensor(values, dtype=torch.float32) for values in (case.numbers[BACKGROUND], row[None])]
    if name == "Shap deep":
        values = shap.DeepExplainer(model, tensors[0]).shap_values(tensors[1])
    else:
        explainer = shap.GradientExplainer(model, tensors[0], batch_size=50)
        values = explainer.shap_values(tensors[1], rseed=seed, **SHAP[name])
    return column(values, case, row, target)


def column(values, case, row, target):
    """One class: the last axis where there is one; a single score belongs to the last class."""
    values = np.asarray(values)[0]
    return values.reshape(len(row), -1)[:, target if values.ndim > 1 and values.shape[1] > 1 else 0]


def direct_lime(case, row, seed, target):
    from lime.lime_tabular import LimeTabularExplainer

    several = case.outputs(row[None]).shape[1] > 1
    probabilities = several and case.classes is case.outputs
    explainer = LimeTabularExplainer(
        case.numbers[BACKGROUND],
        mode="classification" if probabilities else "regression",
        categorical_features=list(case.nominal),
        feature_selection="none",
        random_state=seed,
    )
    function = case.outputs if probabilities else lambda Z: case.outputs(Z)[:, target]
    ask = {"labels": (target,)} if probabilities else {}
    found = explainer.explain_instance(row, function, num_features=len(row), num_samples=SAMPLES, **ask)
    weights = dict(found.local_exp[target if probabilities else 1])
    return np.array([weights[j] for j in range(len(row))])


def desired_range(case):
    """The upper part of the outputs, which row 40 and 41 are not in."""
    low, high = np.quantile(case.outputs(case.numbers)[:, 0], [0.75, 1.0])
    return [float(low), float(high) + 1]


class ForDice:
    """The model as dice-ml takes it: frames in, class numbers and probabilities (or values) out."""

    def __init__(self, case, frame):
        self.case, self.columns = case, frame.columns
        self.levels = {c: sorted(frame[c].unique()) for c in frame.columns if frame[c].dtype == object}

    def numbers(self, frame):
        return np.column_stack(
            [
                frame[c].map({level: float(i) for i, level in enumerate(self.levels[c])})
                if c in self.levels
                else frame[c]
                for c in self.columns
            ]
        ).astype(float)

    def predict_proba(self, frame):
        return self.case.classes(self.numbers(frame))

    def predict(self, frame):
        if self.case.classes is None:
            return self.case.outputs(self.numbers(frame))[:, 0]
        return self.predict_proba(frame).argmax(axis=1)


def direct_dice(method, case, row):
    import dice_ml

    frame = pd.DataFrame({f"x{j}": values for j, values in enumerate(np.vstack([case.numbers, row]).T)})
    if case.nominal:
        texts = {2: ["Bern", "Graz", "Ulm"], 3: ["own", "rent"], 4: ["False", "True"]}
        for j, levels in texts.items():
            frame[f"x{j}"] = pd.Series([levels[int(v)] for v in frame[f"x{j}"]], dtype=object)
        frame["x1"] = frame["x1"].astype(int)
    background, query = frame.iloc[BACKGROUND], frame.iloc[[-1]]
    model = ForDice(case, frame)
    regression = case.classes is None
    explainer = dice_ml.Dice(
        dice_ml.Data(
            dataframe=background.assign(outcome=model.predict(background)),
            continuous_features=[c for c in frame.columns if frame[c].dtype != object],
            outcome_name="outcome",
        ),
        dice_ml.Model(model=model, backend="sklearn", model_type="regressor" if regression else "classifier"),
        method=method,
    )
    if regression:
        ask = {"desired_range": desired_range(case)}
    else:
        ask = {"desired_class": int(np.argsort(-model.predict_proba(query)[0], kind="stable")[1])}
    found = explainer.local_feature_importance(
        query, total_CFs=10, posthoc_sparsity_algorithm="binary", **DICE[method], **ask
    )
    return np.array([found.local_importance[0][c] for c in frame.columns])


def direct_captum(name, case, row, seed, target):
    import torch
    from captum import attr
    from captum._utils.models.linear_model import SkLearnRidge

    torch.manual_seed(seed)
    tensor = lambda values: torch.tensor(values, dtype=torch.float32)  # noqa: E731
    x, mean = tensor(row[None]), tensor(case.numbers[BACKGROUND].mean(axis=0)[None])
    model, flat = case.model, case.model(x).ndim == 1
    ask = {"target": None if flat else target}
    samples = {"perturbations_per_eval": 10}
    if "Tunnel" in name:
        tunnel = attr.NoiseTunnel(attr.IntegratedGradients(model))
        made = tunnel.attribute(x, baselines=mean, nt_type="smoothgrad", nt_samples=5, stdevs=0.1, **ask)
    else:
        made = {
            "integrated-gradients": lambda: attr.IntegratedGradients(model).attribute(x, mean, **ask),
            "gradient-shap": lambda: attr.GradientShap(model).attribute(x, tensor(case.numbers[BACKGROUND]), **ask),
            "saliency": lambda: attr.Saliency(model).attribute(x, abs=False, **ask),
            "input-x-gradient": lambda: attr.InputXGradient(model).attribute(x, **ask),
            "deeplift": lambda: attr.DeepLift(model).attribute(x, mean, **ask),
            "kernel-shap": lambda: attr.KernelShap(model).attribute(x, mean, **samples, **ask),
            "shapley-sampling": lambda: attr.ShapleyValueSampling(model).attribute(x, mean, **samples, **ask),
            "lime": lambda: attr.Lime(model, interpretable_model=SkLearnRidge(alpha=1.0)).attribute(
                x, mean, n_samples=50, **samples, **ask
            ),
        }[name.split()[1]]()
    return made.detach().double().numpy()[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", EXPLAINERS)
@pytest.mark.filterwarnings("ignore")
def test_every_explainer_on_every_model(name, kind, folder):
    for package in {"Shap": ("shap",), "Lime": ("lime",), "Dice": ("dice_ml",), "Captum": ("captum",)}.get(
        name.split()[0], ()
    ):
        pytest.importorskip(package)
    case = kind_of(kind, folder)
    rows, numbers = rows_of(name, case)
    if kind not in SUPPORTED[name]:
        with pytest.raises(InputError, match=ADVICE):
            collect(build(name, case), rows, runs=RUNS, n_jobs=1)
        return
    if name.startswith("Dice"):  # a search takes its time: one run, without a measurement around it
        seeds = np.array([[11]])
        values = build(name, case).explain(rows, seed=11)[None]
    else:
        found = collect(build(name, case), rows, runs=RUNS, n_jobs=1)
        assert not found.failures
        seeds, values = found.seeds, found.values
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = np.array(
            [[direct(name, case, row, int(seed)) for row, seed in zip(numbers, run, strict=True)] for run in seeds]
        )
    assert np.abs(expected).max() > 0
    tolerance = 1e-10 if case.exact else 1e-5
    np.testing.assert_allclose(values, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def test_the_page_of_the_docs_is_generated_from_this_table():
    page = Path(__file__).parents[2] / "docs" / "works-with.md"
    assert page.read_text(encoding="utf-8") == markdown(), "run: python docs/make_tables.py"


def test_every_method_is_in_the_table():
    """A method that is added and not tested here would go unseen."""
    from stabgate.explainers.captum_methods import METHODS as CAPTUM
    from stabgate.explainers.dice_settings import OPTIONS
    from stabgate.explainers.shap_methods import METHODS

    listed = {name.split(",")[0] for name in EXPLAINERS}
    wanted = [f"Shap {m}" for m in METHODS] + [f"Dice {m}" for m in OPTIONS] + [f"Captum {m}" for m in CAPTUM]
    assert set(wanted) <= listed
