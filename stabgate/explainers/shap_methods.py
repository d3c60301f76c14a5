"""How each SHAP method is run: the package's explainer is built per target, then called per row and seed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stabgate.columns import Floats
from stabgate.errors import ExplainerError, InputError
from stabgate.explainers.generators import private_copy
from stabgate.models import Model
from stabgate.networks import as_tensor, evaluating
from stabgate.tables import Table

TREES = "decision trees, random forests, gradient boosting, XGBoost, LightGBM and CatBoost models"
EXACT_FEATURES = 15  # 2^15 coalitions times 100 background rows are 3.3 million model rows
# shap's fast masking writes out every masked row of one permutation at once; above this it masks in small
# batches.
FAST_MASKING_BYTES = 2**30

Run: TypeAlias = Callable[[Floats, int], NDArray[Any]]  # encoded row (features,), seed -> attributions (features,)


@dataclass(frozen=True)
class Job:
    """What one target of one model needs to be explained.

    Attributes:
        shap: the package.
        output: the explained output ``(rows,)`` of encoded rows ``(rows, features)``.
        target: its number among the model's `outputs`.
        background: encoded ``(rows, features)``, or None.
        options: the method's options, complete.
    """

    shap: Any
    model: Model
    output: Callable[[NDArray[Any]], Floats]
    target: int
    outputs: int
    table: Table
    background: Floats | None
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Method:
    """A method: how it is built, and its options with their defaults (None: depends on the data)."""

    build: Callable[[Job], Run]
    defaults: Mapping[str, Any]
    needs_background: bool = True
    asks_the_model: bool = False


def kernel(job: Job) -> Run:
    """KernelExplainer: coalitions drawn from ``np.random``."""
    own = private_copy("shap.explainers._kernel")
    with _quiet():
        explainer = own.module.KernelExplainer(job.output, job.background, link=job.options["link"])
    nsamples, l1_reg = job.options["nsamples"], job.options["l1_reg"]

    def run(row: Floats, seed: int) -> NDArray[Any]:
        own.generator.seed(seed)
        return np.asarray(explainer.shap_values(row, nsamples=nsamples, l1_reg=l1_reg, silent=True))

    return run


def sampling(job: Job) -> Run:
    """SamplingExplainer: orders and background rows drawn from ``np.random``."""
    own = private_copy("shap.explainers._sampling")
    with _quiet():
        explainer = own.module.SamplingExplainer(job.output, job.background)
    nsamples, least = job.options["nsamples"], job.options["min_samples_per_feature"]

    def run(row: Floats, seed: int) -> NDArray[Any]:
        own.generator.seed(seed)
        return np.asarray(explainer.shap_values(row, nsamples=nsamples, min_samples_per_feature=least, silent=True))

    return run


def permutation(job: Job) -> Run:
    """PermutationExplainer, a new one for each run: its seed is a constructor argument."""
    own = private_copy("shap.explainers._permutation")
    masker = _masker(job)
    features = masker.shape[1]
    evaluations = 2 * features + 1
    if evaluations * masker.data.nbytes > FAST_MASKING_BYTES:
        masker.supports_delta_masking = False
    max_evals = job.options["npermutations"] * evaluations
    link = getattr(job.shap.links, job.options["link"])

    def run(row: Floats, seed: int) -> NDArray[Any]:
        explainer = own.module.PermutationExplainer(job.output, masker, link=link, seed=seed)
        return np.asarray(explainer(row[None, :], max_evals=max_evals, silent=True).values[0])

    return run


def exact(job: Job) -> Run:
    """ExactExplainer: all coalitions, nothing drawn."""
    masker = _masker(job)
    explainer = job.shap.ExactExplainer(job.output, masker, link=getattr(job.shap.links, job.options["link"]))
    max_evals = 2 ** masker.shape[1]

    def run(row: Floats, _seed: int) -> NDArray[Any]:
        return np.asarray(explainer(row[None, :], max_evals=max_evals, silent=True).values[0])

    return run


def tree(job: Job) -> Run:
    """TreeExplainer on the user's own model; nothing is drawn."""
    interventional = job.options["feature_perturbation"] == "interventional"
    if interventional and any(column.kind in ("category", "datetime") for column in job.table.columns):
        name = next(c.name for c in job.table.columns if c.kind in ("category", "datetime"))
        raise InputError(
            f"column {name!r} is not numeric, and interventional Tree SHAP knows numeric splits only; use "
            "feature_perturbation='tree_path_dependent', or method='kernel' or 'permutation'"
        )
    model = _model_object(job, "tree", "predict", TREES)
    options = {
        "feature_perturbation": job.options["feature_perturbation"],
        "model_output": job.options["model_output"],
    }
    try:
        explainer = job.shap.TreeExplainer(model, _masker(job) if interventional else None, **options)
    except Exception as error:
        raise InputError(
            f"method='tree' cannot explain {job.model.name} ({error}); it takes {TREES}. Use method='kernel' "
            "or 'permutation' for others"
        ) from error
    check = job.options["check_additivity"]
    # shap builds the matrix itself where it knows how: a Booster does not say that it has categories.
    categories = type(model).__module__.startswith("xgboost") and any(c.kind == "category" for c in job.table.columns)

    def run(row: Floats, _seed: int) -> NDArray[Any]:
        data = row[None, :] if job.table.container == "sparse" else job.table.decode(row[None, :])
        if categories:
            import xgboost

            data = xgboost.DMatrix(data, enable_categorical=True)
        return _of_target(explainer.shap_values(data, check_additivity=check, from_call=True), job)

    return run


def linear(job: Job) -> Run:
    """LinearExplainer with independent features: coef · (x - mean of the background); nothing is drawn."""
    model = _model_object(job, "linear", "coef_", "linear and logistic regressions and other models with coef_")
    explainer = job.shap.LinearExplainer(model, _masker(job))

    def run(row: Floats, _seed: int) -> NDArray[Any]:
        return _of_target(explainer.shap_values(row[None, :]), job)

    return run


def gradient(job: Job) -> Run:
    """GradientExplainer on a torch module: background rows and points drawn from ``np.random``."""
    own = private_copy("shap.explainers._gradient")
    module, tensor = _network(job, "gradient")
    assert job.background is not None
    with evaluating(module):
        explainer = own.module.GradientExplainer(module, tensor(job.background), batch_size=50, local_smoothing=0)
    nsamples = job.options["nsamples"]

    def run(row: Floats, seed: int) -> NDArray[Any]:
        with evaluating(module):
            return _of_target(explainer.shap_values(tensor(row[None, :]), nsamples=nsamples, rseed=seed), job)

    return run


def deep(job: Job) -> Run:
    """DeepExplainer on a torch module: nothing is drawn."""
    module, tensor = _network(job, "deep")
    assert job.background is not None
    with evaluating(module):
        explainer = job.shap.DeepExplainer(module, tensor(job.background))
    check = job.options["check_additivity"]

    def run(row: Floats, _seed: int) -> NDArray[Any]:
        with evaluating(module):
            return _of_target(explainer.shap_values(tensor(row[None, :]), check_additivity=check), job)

    return run


METHODS: Mapping[str, Method] = {
    "kernel": Method(kernel, {"nsamples": None, "l1_reg": False, "link": "identity"}, asks_the_model=True),
    "permutation": Method(permutation, {"npermutations": 10, "link": "identity"}, asks_the_model=True),
    "sampling": Method(sampling, {"nsamples": None, "min_samples_per_feature": 100}, asks_the_model=True),
    "exact": Method(exact, {"link": "identity"}, asks_the_model=True),
    "tree": Method(
        tree,
        {"feature_perturbation": None, "model_output": "raw", "check_additivity": True},
        needs_background=False,
    ),
    "linear": Method(linear, {}),
    "gradient": Method(gradient, {"nsamples": 200}),
    "deep": Method(deep, {"check_additivity": True}),
}


def is_trees(model: Any) -> bool:
    """Whether Tree SHAP can read `model`, by what it looks like."""
    marks = ("tree_", "estimators_", "_predictors", "get_booster", "booster_", "tree_count_")
    return type(model).__name__ == "Booster" or any(hasattr(model, mark) for mark in marks)


def _masker(job: Job) -> Any:
    """The whole background as a masker: shap's own default would draw 100 rows from it."""
    assert job.background is not None
    return job.shap.maskers.Independent(job.background, max_samples=len(job.background))


def _of_target(values: Any, job: Job) -> NDArray[Any]:
    """Attributions ``(features,)`` of the target from what shap returns for one row.

    Shapes that occur: ``(1, features, outputs)``; ``(1, features)`` for one output, which for a classifier of
    two classes is the score of the second one.
    """
    array: NDArray[Any] = np.asarray(values)
    features = len(job.table.features)
    if array.shape == (1, features, job.outputs):
        return np.asarray(array[0, :, job.target])
    if array.shape == (1, features, 1):
        array = array[:, :, 0]
    if array.shape == (1, features) and job.outputs == 1:
        return np.asarray(array[0])
    if array.shape == (1, features) and job.outputs == 2 and job.model.task == "classification":
        return np.asarray(array[0] if job.target == 1 else -array[0])
    raise ExplainerError(
        f"shap returned shape {array.shape} for one row of {features} features and a model with {job.outputs} outputs"
    )


def _model_object(job: Job, method: str, attribute: str, supported: str) -> Any:
    """The user's model object.

    Raises:
        InputError: there is only a function, or a pipeline stands before the model.
    """
    model = job.model.inner
    advice = f"method={method!r} looks inside the model and takes {supported}; use method='kernel' or 'permutation'"
    if hasattr(model, "steps"):
        raise InputError(
            f"{job.model.name} is a pipeline, whose preprocessing changes what the features are; {advice}, "
            "or explain its last step on transformed rows"
        )
    if not hasattr(model, attribute):
        raise InputError(f"{job.model.name} cannot be explained this way: {advice}")
    return model


def _network(job: Job, method: str) -> tuple[Any, Callable[[Floats], Any]]:
    """The torch module, with a column of outputs at least, and a function that makes its input of encoded rows."""
    module = job.model.inner
    if not hasattr(module, "named_parameters"):
        raise InputError(
            f"method={method!r} needs a torch.nn.Module, not {job.model.name}; use method='kernel' or 'permutation'"
        )
    import torch

    class Columns(torch.nn.Module):
        """shap takes networks that return ``(rows, outputs)`` only."""

        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            outputs: torch.Tensor = self.module(rows)
            return outputs[:, None] if outputs.ndim == 1 else outputs

    tensor = partial(as_tensor, module)
    assert job.background is not None
    with evaluating(module), torch.no_grad():
        flat = module(tensor(job.background[:1])).ndim == 1
    return (Columns() if flat else module), tensor


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the log lines that shap writes, in this thread, about backgrounds of more than 100 rows."""
    thread = threading.get_ident()
    logger = logging.getLogger("shap")

    def elsewhere(record: logging.LogRecord) -> bool:
        return record.thread != thread

    logger.addFilter(elsewhere)
    try:
        yield
    finally:
        logger.removeFilter(elsewhere)
