"""LIME for tables: the official package, one row and one seed at a time, every feature returned."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from stabgate.columns import Floats
from stabgate.errors import InputError
from stabgate.explainers.base import Rows, TableExplainer, require
from stabgate.explainers.options import count, flag, number, one_of
from stabgate.tables import Table, row_ids

DISCRETIZERS = (
    "quartile",
    "decile",
)  # LIME's "entropy" needs training labels, which an explainer does not have
FEATURE_SELECTIONS = ("none", "auto", "forward_selection", "highest_weights", "lasso_path")
DISTANCES = ("euclidean", "manhattan", "cosine", "chebyshev")
KERNEL_WIDTH = 0.75  # times the square root of the number of features: Ribeiro et al. 2016, as in the package

# One LIME object serves all runs and its generator is set before each, so runs of one object must not
# overlap.
_ONE_RUN = threading.RLock()


class Lime(TableExplainer):
    """LIME (Ribeiro, Singh, Guestrin 2016) by the `lime` package's `LimeTabularExplainer`.

    An attribution is the weight of a feature in a ridge regression that is fitted to the model's outputs
    around the row. With `discretize_continuous` it is the weight of "the feature lies in the row's own bin",
    in units of the output; without it, the weight per standard deviation of the feature.

    LIME always runs in its regression mode, on the one output that is explained: the weights are the same as
    in classification mode with ``labels=(target,)``, and models with a single output, scores or logits work
    alike. Columns without an order (categories, strings, booleans) are passed as `categorical_features`.

    All features are returned, by position. With a `feature_selection` the features that were not selected are
    zero, because LIME's local model does not contain them.

    Known limits of the package: a feature with three equal quartiles has one bin and always the weight 0; a
    bin whose values are all the same is sampled as 0 whatever the value is.

    Args:
        model: anything that `stabgate.as_model` takes.
        background: rows whose distribution LIME samples from; no missing values.
        num_samples: rows that are drawn around the explained row, at least 2.
        discretize_continuous: explain bins instead of values.
        discretizer: "quartile" or "decile".
        kernel_width: width of the exponential kernel, above 0; None is 0.75 times the square root of the
            number of features.
        feature_selection: "none" (all features), "auto", "forward_selection", "highest_weights" or
            "lasso_path".
        num_features: how many features a selection keeps; required with a selection and refused without one.
        sample_around_instance: draw values around the row instead of around the mean; without discretisation
            only.
        distance_metric: "euclidean", "manhattan", "cosine" or "chebyshev".
        ridge: L2 penalty of the local regression, at least 0.

    Raises:
        InputError: an option is unknown or out of range, or the background holds missing values.
    """

    name = "lime"
    package = "lime"
    draws_globally = False

    def __init__(
        self,
        model: Any,
        *,
        background: Any,
        num_samples: int = 5000,
        discretize_continuous: bool = True,
        discretizer: str = "quartile",
        kernel_width: float | None = None,
        feature_selection: str = "none",
        num_features: int | None = None,
        sample_around_instance: bool = False,
        distance_metric: str = "euclidean",
        ridge: float = 1.0,
    ) -> None:
        if background is None:
            raise InputError("lime needs background=: rows whose distribution it samples from")
        if model is None:
            raise InputError("lime needs a model")
        super().__init__(model, background=background)
        assert self.table is not None
        self.num_samples = count("num_samples", num_samples, least=2)
        self.discretize_continuous = flag("discretize_continuous", discretize_continuous)
        self.discretizer = one_of("discretizer", discretizer, DISCRETIZERS)
        self.sample_around_instance = flag("sample_around_instance", sample_around_instance)
        self.distance_metric = one_of("distance_metric", distance_metric, DISTANCES)
        self.ridge = number("ridge", ridge, above_zero=False)
        width = KERNEL_WIDTH * np.sqrt(len(self.table.features)) if kernel_width is None else kernel_width
        self.kernel_width = number("kernel_width", width, above_zero=True)
        self.feature_selection = one_of("feature_selection", feature_selection, FEATURE_SELECTIONS)
        if (self.feature_selection == "none") != (num_features is None):
            raise InputError(
                f"feature_selection={feature_selection!r} with num_features={num_features}: a selection "
                'needs a number of features to keep, and "none" returns all of them'
            )
        self.num_features = None if num_features is None else count("num_features", num_features, least=1)
        if self.sample_around_instance and self.discretize_continuous:
            raise InputError("sample_around_instance=True has no effect with discretize_continuous=True; turn one off")
        _refuse_missing(self.encoded_background(self.table), self.table, "background", None)
        self._built: Any = None

    def settings(self) -> dict[str, Any]:
        assert self.table is not None
        return {
            "num_samples": self.num_samples,
            "discretize_continuous": self.discretize_continuous,
            "discretizer": self.discretizer if self.discretize_continuous else None,
            "kernel_width": self.kernel_width,
            "feature_selection": self.feature_selection,
            "num_features": self.num_features,
            "sample_around_instance": self.sample_around_instance,
            "distance_metric": self.distance_metric,
            "ridge": self.ridge,
            "categorical_features": [self.table.features[j] for j in self.table.nominal],
            "background_rows": len(self.encoded_background(self.table)),
        }

    def prepare(self, X: Any, *, target: Any = None, ids: tuple[Hashable, ...] | None = None) -> Rows:
        """As for every explainer; a missing value in X is an InputError that names its column and row."""
        assert self.table is not None
        table = self.table.including(X)
        _refuse_missing(table.encode(X), table, "X", row_ids(X))
        return super().prepare(X, target=target, ids=ids)

    def explain_encoded(self, rows: Rows, i: int, seed: int) -> Floats:
        from sklearn.linear_model import Ridge

        features = len(rows.features)
        target = int(rows.targets[i])
        with _ONE_RUN:
            explainer = self._explainer(rows.table)
            # One generator drives the samples, the discretiser and the regression: this equals a fresh
            # object.
            explainer.random_state.seed(seed)
            explanation = explainer.explain_instance(
                rows.encoded[i],
                lambda samples: self.predictor(samples)[:, target],
                num_features=self.num_features or features,
                num_samples=self.num_samples,
                distance_metric=self.distance_metric,
                model_regressor=Ridge(alpha=self.ridge, fit_intercept=True, random_state=explainer.random_state),
            )
        values = np.zeros(features)
        # In regression mode the weights stand under 1, and their negatives under 0.
        for position, weight in explanation.local_exp[1]:
            values[int(position)] = weight
        return values

    def cheaper(self) -> tuple[str, ...]:
        return (f"fewer samples per run (num_samples={self.num_samples} now; it changes values)",)

    def forget(self) -> None:
        self._built = None

    def _explainer(self, table: Table) -> Any:
        if self._built is None:
            lime_tabular = require("lime.lime_tabular", "lime")
            self._built = lime_tabular.LimeTabularExplainer(
                self.encoded_background(table),
                mode="regression",
                categorical_features=list(table.nominal),
                kernel_width=self.kernel_width,
                feature_selection=self.feature_selection,
                discretize_continuous=self.discretize_continuous,
                discretizer=self.discretizer,
                sample_around_instance=self.sample_around_instance,
                random_state=0,
            )
        return self._built


def _refuse_missing(encoded: Floats, table: Table, what: str, ids: Sequence[Any] | None) -> None:
    missing = np.isnan(encoded)
    if missing.any():
        row, column = (int(v) for v in np.argwhere(missing)[0])
        holes = int(missing[:, column].sum())
        where = f"{holes} of {len(encoded)} rows" if ids is None else f"row {ids[row]!r}"
        raise InputError(
            f"{what}: column {table.features[column]!r} is missing in {where}, and LIME cannot sample around "
            "missing values; fill them, or use Shap(method='kernel') with a model that accepts them"
        )
