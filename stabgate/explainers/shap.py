"""SHAP values by the official package, one row and one seed at a time: options, checks and record."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stabgate.errors import InputError
from stabgate.explainers.base import Rows, TableExplainer, require
from stabgate.explainers.options import count, flag, number, one_of
from stabgate.explainers.shap_methods import EXACT_FEATURES, METHODS, Job, Run, is_trees
from stabgate.tables import Table

# Generators and explainers are shared by all runs in a process, so runs in several threads take turns.
_ONE_RUN = threading.RLock()
LARGE_BACKGROUND = 20  # rows; each one is a model row in every coalition
NUM_FEATURES = re.compile(r"num_features\(([1-9]\d*)\)")


class Shap(TableExplainer):
    """SHAP values (Lundberg and Lee 2017) of the target output, by the `shap` package.

    Methods, with their options and defaults:

    - kernel, weighted regression over sampled coalitions: nsamples (2·features + 2048), l1_reg (False), link
      ("identity")
    - permutation, sampled permutations back and forth: npermutations (10), link ("identity")
    - sampling, sampled orders and background rows: nsamples (1000·features), min_samples_per_feature (100)
    - exact, all coalitions of at most 15 features: link ("identity")
    - tree, Tree SHAP on the trees themselves: feature_perturbation ("interventional" with a background,
      "tree_path_dependent" without), model_output ("raw"), check_additivity (True)
    - linear, coef · (x - mean of the background), features taken as independent: none
    - gradient, expected gradients of a torch module: nsamples (200)
    - deep, DeepLIFT over the background, torch module: check_additivity (True)

    An option of another method is refused. Options left at None take the defaults above, which are stabgate's
    own and do not follow the package's: `l1_reg` in particular is off, where shap keeps 10 features and
    zeroes the others. The whole background is used; shap's own maskers would cut it to 100 rows.

    kernel, permutation, sampling and exact explain what the model returns (after `link`). linear explains the
    decision function of a classifier, in log-odds for a logistic regression; tree explains the raw output of
    the trees (log-odds for boosted classifiers, probabilities for scikit-learn forests) or, with a background
    and ``model_output="probability"``, probabilities; gradient and deep explain the module's outputs.

    Random numbers come from a generator of this call alone; NumPy's global generator is neither read nor
    changed.

    Args:
        model: anything that `stabgate.as_model` takes; tree, linear, gradient and deep need the model
            object itself.
        background: rows that stand for a feature being absent.
        method: see the table.
        nsamples: how often the model is evaluated over the background (kernel, sampling), or points per row
            (gradient); "auto" is the package's own rule (kernel and sampling).
        l1_reg: False, "num_features(k)", "aic", "bic" or the penalty of a lasso: selects features, the others
            are 0.
        link: "identity" or "logit".
        npermutations: permutations of the features, each evaluated forth and back. More are made in a row
            where some features equal the whole background, for the same number of evaluations.
        min_samples_per_feature: samples that each feature gets before the rest goes where the variance is.
        feature_perturbation: "tree_path_dependent" or "interventional"; by default interventional where there
            is a background.
        model_output: "raw" or "probability".
        check_additivity: let the package verify that attributions sum to the output, which raises where they
            do not.

    Raises:
        InputError: an unknown method, an option of another method or out of range, a missing background.
    """

    package = "shap"
    draws_globally = False

    def __init__(
        self,
        model: Any,
        *,
        background: Any = None,
        method: str = "kernel",
        nsamples: int | str | None = None,
        l1_reg: str | float | bool | None = None,
        link: str | None = None,
        npermutations: int | None = None,
        min_samples_per_feature: int | None = None,
        feature_perturbation: str | None = None,
        model_output: str | None = None,
        check_additivity: bool | None = None,
    ) -> None:
        if model is None:
            raise InputError("Shap needs a model")
        self.method = one_of("method", method, tuple(METHODS))
        self.name = f"shap.{self.method}"
        if background is None and METHODS[self.method].needs_background:
            raise InputError(
                f"{self.name} needs background=: rows that stand for a feature being absent, such as 50 to "
                "100 rows of the training data"
            )
        super().__init__(model, background=background)
        given = {
            "nsamples": nsamples,
            "l1_reg": l1_reg,
            "link": link,
            "npermutations": npermutations,
            "min_samples_per_feature": min_samples_per_feature,
            "feature_perturbation": feature_perturbation,
            "model_output": model_output,
            "check_additivity": check_additivity,
        }
        self._options = self._settle(given)
        self._runs: dict[tuple[int, int], Run] = {}

    def settings(self) -> dict[str, Any]:
        rows = None if self.background is None else len(self._background(self._known))
        return {"method": self.method, **self._options, "background_rows": rows}

    def explain_encoded(self, rows: Rows, i: int, seed: int) -> NDArray[Any]:
        target = int(rows.targets[i])
        outputs = 1 if rows.outputs is None else rows.outputs.shape[1]
        with _ONE_RUN:
            run = self._runs.get((target, outputs))
            if run is None:
                job = self._job(rows.table, target, outputs)
                run = self._runs[target, outputs] = METHODS[self.method].build(job)
            return run(rows.encoded[i], seed)

    def cheaper(self) -> tuple[str, ...]:
        assert self.model is not None
        advice = []
        if METHODS[self.method].asks_the_model:
            reads = "tree" if is_trees(self.model.inner) else "linear" if hasattr(self.model.inner, "coef_") else None
            if reads is not None:
                advice.append(
                    f"method={reads!r}, which reads the model instead of asking it (and explains its raw output)"
                )
            if len(self._background(self._known)) > LARGE_BACKGROUND:
                advice.append(f"a background of fewer than {len(self._background(self._known))} rows")
        counts = [name for name in ("nsamples", "npermutations") if name in self._options]
        advice += [f"a smaller {name} ({self._options[name]} now; it changes values)" for name in counts]
        return tuple(advice)

    def forget(self) -> None:
        self._runs = {}

    @property
    def _known(self) -> Table:
        assert self.table is not None
        return self.table

    def _background(self, table: Table) -> NDArray[np.float64]:
        return self.encoded_background(table)

    def _job(self, table: Table, target: int, outputs: int) -> Job:
        assert self.model is not None
        return Job(
            shap=require("shap", "shap"),
            model=self.model,
            output=lambda encoded: self.predictor(encoded)[:, target],
            target=target,
            outputs=outputs,
            table=table,
            background=None if self.background is None else self._background(table),
            options=self._options,
        )

    def _settle(self, given: dict[str, Any]) -> dict[str, Any]:
        """Checked options of the method, defaults filled in."""
        defaults = METHODS[self.method].defaults
        for name, value in given.items():
            if value is not None and name not in defaults:
                users = [method for method, spec in METHODS.items() if name in spec.defaults]
                raise InputError(
                    f"{name}={value!r} is not an option of method={self.method!r}; it belongs to {', '.join(users)}"
                )
        features = None if self.table is None else len(self.table.features)
        if self.method == "exact" and features is not None and features > EXACT_FEATURES:
            raise InputError(
                f"method='exact' evaluates all 2^{features} coalitions of {features} features; at most "
                f"{EXACT_FEATURES} features are allowed, use method='kernel' or 'permutation'"
            )
        options = {name: default if given[name] is None else given[name] for name, default in defaults.items()}
        for name in options:
            options[name] = getattr(self, f"_settle_{name}")(options[name], features)
        if self.method == "tree":
            self._check_tree(options)
        return options

    def _settle_nsamples(self, value: Any, features: int | None) -> int | str:
        if value == "auto" and self.method in ("kernel", "sampling"):
            return "auto"
        if value is None:
            assert features is not None
            # The package's rule of thumb at the time of writing, but for all features instead of the varying
            # ones.
            value = 2 * features + 2048 if self.method == "kernel" else 1000 * features
        return count("nsamples", value, least=1)

    def _settle_l1_reg(self, value: Any, _features: int | None) -> Any:
        if value is False or value in ("aic", "bic"):
            return value
        if isinstance(value, str) and NUM_FEATURES.fullmatch(value):
            return value
        if isinstance(value, (bool, str, np.bool_)):
            raise InputError(
                f'l1_reg={value!r}; allowed are False, "num_features(10)", "aic", "bic" or a lasso penalty above 0'
            )
        return number("l1_reg", value, above_zero=True)

    def _settle_link(self, value: Any, _features: int | None) -> str:
        return one_of("link", value, ("identity", "logit"))

    def _settle_npermutations(self, value: Any, _features: int | None) -> int:
        return count("npermutations", value, least=1)

    def _settle_min_samples_per_feature(self, value: Any, _features: int | None) -> int:
        return count("min_samples_per_feature", value, least=1)

    def _settle_feature_perturbation(self, value: Any, _features: int | None) -> str:
        if value is None:
            return "tree_path_dependent" if self.background is None else "interventional"
        return one_of("feature_perturbation", value, ("tree_path_dependent", "interventional"))

    def _settle_model_output(self, value: Any, _features: int | None) -> str:
        return one_of("model_output", value, ("raw", "probability"))

    def _settle_check_additivity(self, value: Any, _features: int | None) -> bool:
        return flag("check_additivity", value)

    def _check_tree(self, options: dict[str, Any]) -> None:
        if options["feature_perturbation"] == "interventional" and self.background is None:
            raise InputError("feature_perturbation='interventional' needs background=")
        if options["model_output"] == "probability" and options["feature_perturbation"] != "interventional":
            raise InputError(
                "model_output='probability' needs feature_perturbation='interventional' and background=: "
                "path-dependent Tree SHAP only knows the raw output of the trees"
            )
