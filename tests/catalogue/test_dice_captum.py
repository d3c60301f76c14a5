"""Public reports about dice-ml and Captum, each with the outcome that it has here.

Each docstring says what was reported. Captum's tracker is github.com/meta-pytorch/captum, DiCE's is
github.com/interpretml/DiCE.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from stabgate.errors import ExplainerError
from stabgate.explainers import Captum, Dice


def credit(rows=120):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "income": np.round(rng.uniform(10, 90, rows), 2),
            "debt": np.round(rng.uniform(0, 50, rows), 2),
            "age": np.round(rng.uniform(20, 70, rows), 1),
        }
    )
    return frame, (frame["income"] - frame["debt"] > 25).astype(int)


class TestDice:
    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("dice_ml")

    def test_206_other_counterfactuals_at_every_run(self):
        """DiCE#206, "Robustness of generated CFs": several runs give different counterfactuals, with the
        random method; setting `random_seed` "solves" it. Here runs differ by their seeds, which is what is
        measured; one seed gives one answer; and `random_seed` is refused, because it would hide the
        differences."""
        from sklearn.linear_model import LogisticRegression

        X, y = credit()
        model = LogisticRegression(max_iter=1000).fit(X, y)
        explainer = Dice(model, background=X)
        rows = explainer.prepare(X.iloc[[5]])
        runs = np.array([explainer.explain_row(rows, 0, seed) for seed in range(6)])
        assert len(np.unique(runs, axis=0)) > 1
        np.testing.assert_array_equal(explainer.explain_row(rows, 0, 3), runs[3])
        with pytest.raises(ValueError, match="random_seed"):
            Dice(model, background=X, random_seed=1)

    def test_206_sometimes_no_counterfactual_at_all(self):
        """DiCE#206, later in the thread: the genetic method sometimes gives no new counterfactual. Here such
        a row is not measured, and says why."""
        X, _ = credit()

        def rarely(frame):
            high = (frame["income"].to_numpy() > 1e6).astype(float)
            return np.column_stack([1 - high * 0.9, high * 0.9])

        with pytest.raises(ExplainerError, match="constant model"):
            Dice(rarely, background=X, method="genetic").explain(X.iloc[[5]], seed=0)

    def test_354_a_search_without_end(self):
        """DiCE#354, "How to apply a timeout if counterfactual is not generated for any instance", and #298
        for
        regressions: the genetic search keeps on running. Here each run on a row has a time limit."""
        X, _ = credit()

        def value(frame):
            return frame["income"].to_numpy(dtype=float) / 100

        explainer = Dice(value, background=X, method="genetic", desired_range=(5, 6), time_limit=0.3)
        with pytest.raises(ExplainerError, match="time_limit"):
            explainer.explain(X.iloc[[5]], seed=0)

    def test_290_float_columns_that_arrive_as_objects(self):
        """DiCE#290 and #407, "DataFrame.dtypes for data must be int, float or bool": XGBoost is handed
        columns of objects, although all of the user's are numbers, because some are declared as categories.
        Here the model gets the types that it was trained on."""
        xgboost = pytest.importorskip("xgboost")
        X, y = credit()
        X["level"] = np.arange(len(X)) % 3
        model = xgboost.XGBClassifier(n_estimators=5, n_jobs=1).fit(X, y)
        values = Dice(model, background=X, continuous=["income", "debt", "age"]).explain(X.iloc[[5]], seed=0)
        assert values.shape == (1, 4)
        assert values.max() > 0

    def test_222_categories_that_are_not_text(self):
        """DiCE#222, "Categorical have to be strings": other categories break the genetic method. Here they
        come back as what they were."""
        X, _ = credit(60)
        X["level"] = pd.Categorical(np.arange(60) % 3)

        def model(frame):
            assert isinstance(frame["level"].dtype, pd.CategoricalDtype)
            score = np.clip(frame["income"].to_numpy(dtype=float) / 100 + 0.2 * (frame["level"] == 2), 0, 1)
            return np.column_stack([1 - score, score])

        values = Dice(model, background=X, method="genetic", maxiterations=20).explain(X.iloc[[5]], seed=0)
        assert values.shape == (1, 4)

    def test_165_a_value_outside_the_dataset(self):
        """DiCE#165 and #185, "has a value outside the dataset": a category of the row does not occur in the
        data. Here the row itself joins the background that it is explained on."""
        X, _ = credit(60)
        X["job"] = np.where(np.arange(60) % 2, "cook", "clerk")

        def model(frame):
            cook = (frame["job"] == "cook").to_numpy()
            score = np.clip(frame["income"].to_numpy(dtype=float) / 100 + 0.3 * cook, 0, 1)
            return np.column_stack([1 - score, score])

        values = Dice(model, background=X).explain(X.iloc[[5]].assign(job="pilot"), seed=0)
        assert values.shape == (1, 4)

    def test_260_features_that_may_not_change(self):
        """DiCE#260: with boosters, counterfactuals change a feature that is not on the list.
        Here its importance is zero."""
        xgboost = pytest.importorskip("xgboost")
        X, y = credit()
        X["debt"] += 1e-9
        model = xgboost.XGBClassifier(n_estimators=5, n_jobs=1).fit(X, y)
        values = Dice(model, background=X, features_to_vary=["income"]).explain(X.iloc[[5]], seed=0)[0]
        assert values[0] == 1
        assert (values[1:] == 0).all()


class TestCaptum:
    @pytest.fixture(autouse=True)
    def _installed(self):
        torch = pytest.importorskip("torch")
        pytest.importorskip("captum")
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(threads)

    X = np.random.default_rng(3).normal(size=(2, 4))
    background = np.random.default_rng(4).normal(size=(16, 4))

    def test_830_randomness_in_a_deterministic_method(self):
        """captum#830, "Randomness in LayerConductance With Non-Linear Layers?": another answer at every run
        from a method that does not draw, with a network (Squeezenet) that has dropout and was not put in
        evaluation mode.
        Here the network is evaluated in evaluation mode, all runs are the same, and a note says so."""
        from torch import nn

        network = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 2)).train()
        explainer = Captum(network, background=self.background)
        runs = [explainer.explain(self.X, seed=seed) for seed in range(3)]
        assert np.ptp(runs, axis=0).max() == 0
        assert network.training
        assert network[2].training
        assert explainer.describe()["notes"] == [
            "measured in evaluation mode; the module was in training mode and put back into it"
        ]

    def test_578_a_module_used_twice(self):
        """captum#578, "Question for Runtime error of Deeplift": a ReLU module that is used twice raises, and
        the message is not understood. Here the row is not measured, for a reason that says what to change,
        and the network stays usable."""
        import torch
        from torch import nn

        class Twice(nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(0)
                self.one, self.two, self.last = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2)
                self.relu = nn.ReLU()

            def forward(self, x):
                return self.last(self.relu(self.two(self.relu(self.one(x)))))

        network = Twice()
        fresh = Captum(Twice(), background=self.background).explain(self.X, seed=0)
        with pytest.raises(ExplainerError, match=r"ReLU\(\) is used more than once .* a module of its own"):
            Captum(network, method="deeplift", background=self.background).explain(self.X, seed=0)
        for part in network.modules():
            hooks = [*part._forward_hooks, *part._forward_pre_hooks, *part._backward_hooks]
            assert not hooks
        np.testing.assert_array_equal(Captum(network, background=self.background).explain(self.X, seed=0), fresh)

    def test_1082_rectifiers_that_deeplift_does_not_see(self):
        """captum#1082, "DeepLift / DeepLiftShap incorrect with common ReLU usage": ReLUs made inside
        `forward` give other values than registered ones, without a word. Here they are refused."""
        import torch
        from torch import nn

        class Inside(nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(0)
                self.one, self.two = nn.Linear(4, 16), nn.Linear(16, 2)

            def forward(self, x):
                return self.two(nn.ReLU()(self.one(x)))

        with pytest.raises(ExplainerError, match="Use modules"):
            Captum(Inside(), method="deeplift", background=self.background).explain(self.X, seed=0)

    def test_679_lime_answers_with_zeros(self):
        """captum#679 and #1008, "Lime class always returns empty attributions": the default lasso shrinks
        everything to zero where outputs are small. Here the surrogate is a ridge, and which one it was is
        recorded."""
        import torch
        from torch import nn

        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))
        explainer = Captum(network, method="lime", background=self.background)
        assert (explainer.explain(self.X, seed=0) != 0).all()
        assert explainer.settings()["surrogate"] == "ridge"

    def test_742_another_map_at_every_run(self):
        """captum#742, "Every run produces a different saliency map (GradientShap": it draws, and takes no
        seed. Here each run has a seed of its own, and one seed gives one answer whatever torch and NumPy drew
        before."""
        import torch
        from torch import nn

        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        explainer = Captum(network, method="gradient-shap", background=self.background, stdevs=0.1)
        first = explainer.explain(self.X, seed=1)
        torch.rand(3)
        np.random.random(3)
        np.testing.assert_array_equal(explainer.explain(self.X, seed=1), first)
        assert (explainer.explain(self.X, seed=2) != first).any()
