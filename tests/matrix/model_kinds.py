"""One small model of every kind, with what a direct call needs to know about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(80, 4)), 3)
SCORE = X[:, 0] + 0.7 * X[:, 1] - 0.4 * X[:, 2] * X[:, 3]
TWO = (SCORE > 0).astype(int)
THREE = np.digitize(SCORE, [-0.6, 0.6])
FRAME = pd.DataFrame(
    {
        "income": X[:, 0],
        "rooms": pd.array(RNG.integers(1, 5, 80), dtype="Int64"),
        "town": RNG.choice(["Bern", "Graz", "Ulm"], 80),
        "home": pd.Categorical(RNG.choice(["own", "rent"], 80)),
        "member": RNG.random(80) < 0.5,
    },
    index=[f"loan {i}" for i in range(80)],
)
# The same in numbers, by hand: levels in sorted order.
CODES = np.column_stack(
    [
        FRAME["income"],
        FRAME["rooms"].astype(float),
        FRAME["town"].map({"Bern": 0, "Graz": 1, "Ulm": 2}),
        FRAME["home"].map({"own": 0, "rent": 1}).astype(float),
        FRAME["member"].astype(float),
    ]
)


def frame_of(codes):
    """Numbers back to the frame, by hand."""
    return pd.DataFrame(
        {
            "income": codes[:, 0],
            "rooms": pd.array(codes[:, 1].astype(int), dtype="Int64")
            if (codes[:, 1] == np.round(codes[:, 1])).all()
            else codes[:, 1],
            "town": np.array(["Bern", "Graz", "Ulm"])[codes[:, 2].astype(int)],
            "home": pd.Categorical.from_codes(codes[:, 3].astype(int), ["own", "rent"]),
            "member": codes[:, 4] != 0,
        }
    )


@dataclass(frozen=True)
class Kind:
    """A model of one kind.

    Attributes:
        model: what the user passes.
        outputs: numbers (rows, features) to outputs (rows, outputs), written without stabgate.
        classes: class probabilities (rows, classes) of numbers, for DiCE; None where it is asked for a range.
        data: rows as the user has them, and as numbers.
        nominal: positions of columns without order.
        exact: whether outputs of a row do not depend on the batch.
    """

    model: Any
    outputs: Callable[[Any], Any]
    classes: Callable[[Any], Any] | None
    data: Any = None
    numbers: Any = None
    nominal: tuple[int, ...] = ()
    exact: bool = True

    def target(self, row):
        """The only output, the second of two, the predicted one of more."""
        outputs = self.outputs(row[None])[0]
        return {1: 0, 2: 1}.get(len(outputs), int(outputs.argmax()))


def of(model, outputs, classes="same", **more):
    wide = lambda Z: np.asarray(outputs(Z), dtype=float).reshape(len(Z), -1)  # noqa: E731
    return Kind(model, wide, wide if classes == "same" else classes, **({"data": X, "numbers": X} | more))


def forest(y, regression=False):
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    made = (RandomForestRegressor if regression else RandomForestClassifier)(3, max_depth=3, random_state=0)
    fitted = made.fit(X, y)
    return of(fitted, fitted.predict, None) if regression else of(fitted, fitted.predict_proba)


def sigmoid(Z):
    return 1 / (1 + np.exp(-np.asarray(Z)))


def two(second):
    return np.column_stack([1 - second, second])


def linear(kind):
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.svm import LinearSVC

    if kind == "ridge regression":
        ridge = Ridge().fit(X, SCORE)
        return of(ridge, ridge.predict, None)
    if kind.startswith("LinearSVC"):
        svm = LinearSVC().fit(X, np.where(TWO, "yes", "no"))
        return of(svm, svm.decision_function, lambda Z: two(sigmoid(svm.decision_function(Z))))
    logistic = LogisticRegression().fit(X, TWO if "two" in kind else THREE)
    return of(logistic, logistic.predict_proba)


def booster(kind):
    library, what = kind.split()
    if library == "XGBoost":
        xgboost = pytest.importorskip("xgboost")
        fitted = xgboost.XGBClassifier(n_estimators=3, max_depth=3, n_jobs=1).fit(X, TWO)
        if what == "classifier":
            return of(fitted, fitted.predict_proba)
        raw = fitted.get_booster()
        second = lambda Z: raw.predict(xgboost.DMatrix(np.asarray(Z)))  # noqa: E731
        return of(raw, second, lambda Z: two(second(Z).astype(float)))
    if library == "LightGBM":
        lightgbm = pytest.importorskip("lightgbm")
        fitted = lightgbm.LGBMClassifier(n_estimators=3, max_depth=3, verbose=-1, n_jobs=1).fit(X, TWO)
        if what == "classifier":
            return of(fitted, fitted.predict_proba)
        return of(fitted.booster_, fitted.booster_.predict, lambda Z: two(fitted.booster_.predict(Z)))
    catboost = pytest.importorskip("catboost", reason="catboost is optional and not installed")
    fitted = catboost.CatBoostClassifier(
        iterations=3, depth=3, verbose=0, thread_count=1, allow_writing_files=False
    ).fit(X, TWO)
    return of(fitted, fitted.predict_proba)


def torch_module(kind):
    torch = pytest.importorskip("torch")
    shape = kind.partition("(")[2].rstrip(")").replace(" ", "")
    torch.manual_seed(0)
    columns = int(shape[2:] or 1)
    layers = [torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, columns)]
    with torch.no_grad():
        layers[2].weight *= 5  # so that each class is predicted of some rows
        layers[2].bias *= 0
    # Of the single outputs one is a probability and one a score.
    layers += [torch.nn.Sigmoid(), torch.nn.Flatten(0)] if shape == "n," else []
    module = torch.nn.Sequential(*layers).eval()

    def outputs(Z):
        with torch.no_grad():
            return module(torch.tensor(np.array(Z), dtype=torch.float32)).double().numpy()

    classes = {"n,": lambda Z: two(outputs(Z)), "n,1": None}.get(shape, lambda Z: softmax(outputs(Z)))
    return of(module, outputs, classes, exact=False)


def softmax(values):
    from scipy.special import softmax as of_scipy

    return of_scipy(values, axis=1)


def function(kind):
    second = lambda Z: sigmoid(Z[:, 0] + Z[:, 1] * Z[:, 2] - 0.3 * Z[:, 3])  # noqa: E731
    made = {
        "function, (n,)": second,
        "function, (n, 1)": lambda Z: second(Z)[:, None],
        "function, (n, 2)": lambda Z: two(second(Z)),
    }[kind]
    return of(made, made, lambda Z: two(second(Z)))


def pipeline():
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    encoder = ColumnTransformer([("levels", OneHotEncoder(), ["town", "home"])], remainder="passthrough")
    y = np.where(X[:, 0] + 0.8 * (FRAME["town"] == "Ulm") + 0.5 * FRAME["member"] > 0.5, "yes", "no")
    fitted = make_pipeline(encoder, LogisticRegression()).fit(FRAME, y)
    return of(fitted, lambda Z: fitted.predict_proba(frame_of(Z)), data=FRAME, numbers=CODES, nominal=(2, 3, 4))


def pyfunc(folder):
    mlflow = pytest.importorskip("mlflow")
    from sklearn.linear_model import LogisticRegression

    columns = ["age", "income", "debt", "tenure"]
    frame = pd.DataFrame(X, columns=columns)
    fitted = LogisticRegression().fit(frame, TWO)
    path = folder / "model"
    mlflow.sklearn.save_model(
        fitted, path, input_example=frame[:2], pyfunc_predict_fn="predict_proba", pip_requirements=[]
    )
    loaded = mlflow.pyfunc.load_model(str(path))
    return of(loaded, lambda Z: fitted.predict_proba(pd.DataFrame(Z, columns=columns)), data=frame)


@cache
def kind_of(kind, folder):
    """The model called `kind` in the table; `folder` is where models are saved that must be."""
    labels = {
        "two classes": TWO,
        "text labels": np.where(TWO, "yes", "no"),
        "boolean labels": TWO == 1,
        "labels 3 and 7": np.where(TWO, 7, 3),
        "three classes": THREE,
    }
    if kind.startswith("scikit-learn forest"):
        what = kind.partition(", ")[2]
        return forest(SCORE, True) if what == "regression" else forest(labels[what])
    if kind.startswith(("XGBoost", "LightGBM", "CatBoost")):
        return booster(kind)
    if kind.startswith("torch"):
        return torch_module(kind)
    if kind.startswith("function"):
        return function(kind)
    if kind.startswith("Pipeline"):
        return pipeline()
    return pyfunc(folder) if kind == "MLflow pyfunc" else linear(kind)
