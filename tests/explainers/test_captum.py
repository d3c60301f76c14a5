"""Captum: equal to direct calls row by row, refused where the method would not be the method."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch")
attr = pytest.importorskip("captum.attr")

from captum._utils.models.linear_model import SkLearnLasso, SkLearnRidge  # noqa: E402
from torch import nn  # noqa: E402

from stabgate.errors import ExplainerError, InputError  # noqa: E402
from stabgate.explainers import Captum  # noqa: E402
from stabgate.explainers.captum_methods import METHODS  # noqa: E402

REFERENCE = Path(__file__).parents[2].parent / "shared" / "reference" / "captum_expected.json"


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def net(outputs=3, features=4, softmax=False):
    torch.manual_seed(0)
    layers = [nn.Linear(features, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8), nn.Tanh()]
    layers += [nn.Linear(8, outputs)] + ([nn.Softmax(dim=1)] if softmax else [])
    module = nn.Sequential(*layers)
    module(torch.randn(64, features))  # running statistics of its own
    return module.eval()


RNG = np.random.default_rng(0)
BACKGROUND = RNG.normal(size=(20, 4))
X = RNG.normal(size=(3, 4))
SEEDS = [7, 8, 2**32 - 1]


def tensor(values):
    return torch.tensor(np.asarray(values), dtype=torch.float32)


def seeded(seed, call):
    torch.manual_seed(seed)
    np.random.seed(seed)
    return call().detach().double().numpy()[0]


MEAN = tensor(BACKGROUND.mean(axis=0)[None])

DIRECT = {
    "integrated-gradients": lambda m, x, t: attr.IntegratedGradients(m).attribute(x, MEAN, target=t, n_steps=50),
    "gradient-shap": lambda m, x, t: attr.GradientShap(m).attribute(x, tensor(BACKGROUND), target=t, n_samples=5),
    "input-x-gradient": lambda m, x, t: attr.InputXGradient(m).attribute(x, target=t),
    "saliency": lambda m, x, t: attr.Saliency(m).attribute(x, target=t, abs=False),
    "deeplift": lambda m, x, t: attr.DeepLift(m).attribute(x, MEAN, target=t),
    "kernel-shap": lambda m, x, t: attr.KernelShap(m).attribute(
        x, MEAN, target=t, n_samples=25, perturbations_per_eval=10
    ),
    "shapley-sampling": lambda m, x, t: attr.ShapleyValueSampling(m).attribute(
        x, MEAN, target=t, n_samples=25, perturbations_per_eval=10
    ),
    "lime": lambda m, x, t: attr.Lime(m, interpretable_model=SkLearnRidge(alpha=1.0)).attribute(
        x, MEAN, target=t, n_samples=50, perturbations_per_eval=10
    ),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_equals_direct_calls(method):
    module = net()
    values = Captum(module, method=method, background=BACKGROUND).explain(X, seed=SEEDS, target=1)
    for i, seed in enumerate(SEEDS):
        expected = seeded(seed, lambda i=i: DIRECT[method](module, tensor(X[i : i + 1]), 1))
        np.testing.assert_array_equal(values[i], expected)
    assert np.abs(values).max() > 0


@pytest.mark.parametrize("method", ["integrated-gradients", "saliency", "deeplift"])
@pytest.mark.parametrize("kind", ["smoothgrad", "smoothgrad_sq", "vargrad"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_noise_tunnels_equal_direct_calls(method, kind):
    module = net()
    explainer = Captum(module, method=method, background=BACKGROUND, noise_tunnel=kind, nt_samples=4, nt_stdevs=0.2)
    inner = {
        "integrated-gradients": (attr.IntegratedGradients, {"baselines": MEAN}),
        "saliency": (attr.Saliency, {"abs": False}),
        "deeplift": (attr.DeepLift, {"baselines": MEAN}),
    }[method]

    def direct():
        tunnel = attr.NoiseTunnel(inner[0](module))
        return tunnel.attribute(tensor(X[:1]), nt_type=kind, nt_samples=4, stdevs=0.2, target=2, **inner[1])

    np.testing.assert_array_equal(explainer.explain(X[:1], seed=3, target=2)[0], seeded(3, direct))
    assert explainer.name == f"captum.{method}+{kind}"


def test_deterministic_methods_do_not_touch_generators_and_random_ones_give_them_back():
    module = net()
    for method, known in METHODS.items():
        explainer = Captum(module, method=method, background=BACKGROUND)
        torch.manual_seed(5)
        np.random.seed(5)
        states = torch.get_rng_state(), np.random.get_state()[1].copy()
        one = explainer.explain(X, seed=1)
        other = explainer.explain(X, seed=2)
        assert torch.equal(torch.get_rng_state(), states[0])
        np.testing.assert_array_equal(np.random.get_state()[1], states[1])
        assert np.array_equal(one, other) is not known.random, method
        assert explainer.draws_globally is known.random
        alone = pickle.loads(pickle.dumps(explainer)).explain(X[1:2], seed=1)
        np.testing.assert_array_equal(alone[0], one[1])


@pytest.mark.parametrize("shape", ["(n,)", "(n, 1)", "(n, 2)"])
def test_shapes_of_outputs(shape):
    """f(x) = 2 x0 - x1: every method that shares out a linear function gives each term itself."""

    class Linear(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([2.0, -1.0, 0.0]))

        def forward(self, x):
            value = x @ self.weight
            return {"(n,)": value, "(n, 1)": value[:, None], "(n, 2)": torch.stack([-value, value], 1)}[shape]

    row = np.array([[1.0, 3.0, 5.0]])
    for method in ("integrated-gradients", "deeplift", "shapley-sampling", "kernel-shap"):
        options = {"n_samples": 200} if method == "kernel-shap" else {}
        values = Captum(Linear(), method=method, **options).explain(row, seed=0)
        np.testing.assert_allclose(values, [[2.0, -3.0, 0.0]], atol=1e-3)
    np.testing.assert_allclose(Captum(Linear(), method="saliency").explain(row, seed=0), [[2.0, -1.0, 0.0]])


def test_training_mode_is_restored_and_noted():
    module = net()
    expected = Captum(module, background=BACKGROUND).explain(X, seed=0, target=0)
    module.train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    explainer = Captum(module, background=BACKGROUND)
    np.testing.assert_array_equal(explainer.explain(X, seed=0, target=0), expected)
    assert all(part.training for part in module.modules())
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert all(p.grad is None for p in module.parameters())
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
    assert "evaluation mode" in explainer.describe()["notes"][0]


def test_frames_and_the_callers_gradient_modes():
    module = net()
    frame = pd.DataFrame(X, columns=list("abcd"))
    background = pd.DataFrame(BACKGROUND, columns=list("abcd"))
    for method in METHODS:
        expected = Captum(module, method=method, background=BACKGROUND).explain(X, seed=0)
        with torch.no_grad():
            found = Captum(module, method=method, background=background).explain(frame[list("dcba")], seed=0)
        np.testing.assert_array_equal(found, expected)
        with torch.inference_mode():
            found = Captum(module, method=method, background=background).explain(frame, seed=0)
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(InputError, match="'job' holds category values"):
        Captum(nn.Linear(1, 1), baseline="zeros").prepare(pd.DataFrame({"job": pd.Categorical([1, 2])}))


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.one, self.two, self.relu = nn.Linear(4, 16), nn.Linear(16, 2), nn.ReLU()

    def forward(self, x):
        return self.two(torch.relu(self.one(x)))


class Reused(Functional):
    def __init__(self):
        super().__init__()
        self.mid = nn.Linear(16, 16)

    def forward(self, x):
        return self.two(self.relu(self.mid(self.relu(self.one(x)))))


class Modules(Functional):
    def forward(self, x):
        return self.two(self.relu(self.one(x)))


def test_deeplift_is_refused_where_it_would_be_something_else():
    """Captum says nothing about a functional ReLU and returns input x gradient."""
    with pytest.raises(ExplainerError, match=r"nn\.ReLU, not torch\.relu"):
        Captum(Functional(), method="deeplift", background=BACKGROUND).explain(X, seed=0)
    with pytest.raises(ExplainerError, match=r"ReLU\(\) is used more than once"):
        Captum(Reused(), method="deeplift", background=BACKGROUND).explain(X, seed=0)
    for method in ("deeplift", "integrated-gradients"):
        module = Modules()
        values = Captum(module, method=method, background=BACKGROUND, **({"n_steps": 500} if method[0] == "i" else {}))
        values = values.explain(X, seed=0, target=1)
        with torch.no_grad():
            difference = (module(tensor(X)) - module(MEAN))[:, 1].double().numpy()
        np.testing.assert_allclose(values.sum(axis=1), difference, atol=2e-3)


def test_lime_has_something_to_say_about_probabilities():
    """Captum's own surrogate, a lasso with alpha 0.01, answers with zeros on them."""
    module = net(softmax=True)
    lasso = attr.Lime(module, interpretable_model=SkLearnLasso(alpha=0.01))
    zeros = seeded(0, lambda: lasso.attribute(tensor(X[:1]), MEAN, target=0))
    default = Captum(module, method="lime", background=BACKGROUND)
    assert np.count_nonzero(default.explain(X[:1], seed=0, target=0)) == 4
    asked = Captum(module, method="lime", background=BACKGROUND, surrogate="lasso", alpha=0.01)
    np.testing.assert_allclose(asked.explain(X[:1], seed=0, target=0)[0], zeros, atol=1e-6)
    assert default.settings()["surrogate"] == "ridge"


def test_cost_is_counted():
    explainer = Captum(net(), method="integrated-gradients", background=BACKGROUND, n_steps=20)
    rows = explainer.prepare(X)
    before = explainer.cost.rows
    explainer.explain_row(rows, 0, 0)
    assert explainer.cost.rows - before == 20
    explainer = Captum(net(), method="deeplift", background=BACKGROUND)
    rows = explainer.prepare(X)
    before = explainer.cost.rows
    explainer.explain_row(rows, 0, 0)
    assert explainer.cost.rows - before == 4  # input and baseline together, then each for the difference


def test_baselines():
    module = net()
    row, last = X[:1], {"n_steps": 10, "target": 1}
    for baseline, numbers in (
        ("zeros", np.zeros(4)),
        ("median", np.median(BACKGROUND, axis=0)),
        ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]),
    ):
        explainer = Captum(module, background=BACKGROUND, baseline=baseline, n_steps=10)
        expected = attr.IntegratedGradients(module).attribute(tensor(row), tensor([numbers]), **last)
        np.testing.assert_array_equal(explainer.explain(row, seed=0, target=1)[0], expected.double().numpy()[0])
    assert explainer.settings()["baseline"] == [1.0, 2.0, 3.0, 4.0]
    assert Captum(module).settings()["baseline"] == "zeros"
    with pytest.raises(InputError, match="3 numbers for 4 features"):
        Captum(module, baseline=[1, 2, 3]).prepare(X)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        ({"method": "grad-cam"}, "method='grad-cam'"),
        ({"n_samples": 3}, "n_steps, quadrature, internal_batch_size"),
        ({"n_steps": 0}, "n_steps=0"),
        ({"method": "gradient-shap"}, "needs background"),
        ({"baseline": "mean"}, "needs background"),
        ({"baseline": "max"}, "'mean', 'median', 'zeros'"),
        ({"method": "saliency", "baseline": "zeros"}, "has no baseline"),
        ({"noise_tunnel": "smoothgrad"}, "nt_stdevs"),
        ({"noise_tunnel": "blur", "nt_stdevs": 1}, "noise_tunnel='blur'"),
        ({"noise_tunnel": "smoothgrad", "nt_stdevs": 1, "method": "lime"}, "not lime"),
        ({"method": "lime", "surrogate": "tree"}, "surrogate='tree'"),
    ],
)
def test_options_that_do_not_exist(ask, message):
    with pytest.raises(InputError, match=message):
        Captum(net(), **ask).prepare(X)


def test_other_models_are_refused():
    with pytest.raises(InputError, match="torch modules"):
        Captum(lambda rows: rows[:, 0])


def test_kernel_shap_on_one_feature():
    with pytest.raises(InputError, match="two features"):
        Captum(nn.Linear(1, 1), method="kernel-shap").prepare(np.ones((2, 1)))


def test_the_record():
    record = Captum(net(), method="lime", background=BACKGROUND).describe()
    assert record["explainer"] == "captum.lime"
    assert record["settings"] == {
        "method": "lime", "surrogate": "ridge", "alpha": 1.0, "distance": "cosine", "kernel_width": 1.0,
        "n_samples": 50, "perturbations_per_eval": 10, "baseline": "mean", "noise_tunnel": None,
    }  # fmt: skip
    assert json.dumps(record)


class Multilayer(nn.Module):
    def forward(self, x):
        hidden = torch.relu(x @ torch.ones(3, 4) + torch.tensor([-10.0, 1.0, 1.0, 1.0]))
        return hidden @ torch.ones(4, 2) + torch.tensor([-1.0, 1.0])


class Rectified(nn.Module):
    def __init__(self, inside):
        super().__init__()
        self.inside = inside

    def forward(self, x):
        if self.inside:
            return torch.relu(torch.relu(x[:, 0] - 1) - torch.relu(x[:, 1]))
        return torch.relu(torch.relu(x[:, 0]) - 1 - torch.relu(x[:, 1]))


@pytest.mark.skipif(not REFERENCE.exists(), reason=f"{REFERENCE.name}: no reference values beside the repository")
def test_reference_values_of_captums_own_tests():
    reference = json.loads(REFERENCE.read_text())
    checked = 0
    for case in reference["kernel_shap_target0"]:
        if case.get("mask") is not None:
            continue
        baseline = np.broadcast_to(np.asarray(case["baseline"], dtype=float), 3).tolist()
        explainer = Captum(Multilayer(), method="kernel-shap", baseline=baseline, n_samples=500)
        values = explainer.explain(np.array([case["x"]], dtype=float), seed=0, target=0)[0]
        np.testing.assert_allclose(values, case["expected"], atol=0.5)
        checked += 1
    for case in reference["integrated_gradients"]:
        explainer = Captum(Rectified(case["model"] == "ig_b"), baseline=case["baseline"], n_steps=200)
        values = explainer.explain(np.array([case["x"]], dtype=float), seed=0)[0]
        np.testing.assert_allclose(values, case["expected"], atol=case["atol"])
        checked += 1
    for case in reference["lime_target0"]:
        explainer = Captum(Multilayer(), method="lime", surrogate="lasso", alpha=0.01, n_samples=case["n_samples"])
        values = explainer.explain(np.array([case["x"]], dtype=float), seed=0, target=0)[0]
        np.testing.assert_allclose(values, case["expected"], atol=5.0)
        checked += 1
    assert checked >= 4
