"""Feature importance from diverse counterfactuals: the share of counterfactuals that change a feature.

Source: R. K. Mothilal, A. Sharma, C. Tan, "Explaining Machine Learning Classifiers through Diverse
Counterfactual Explanations" (FAT* 2020), and the same authors' "Towards Unifying Feature Attribution and
Counterfactual Explanations" (AIES 2021) for the importance; computed by the dice-ml package.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from stabgate.columns import Floats
from stabgate.errors import ExplainerError, InputError
from stabgate.explainers.base import Rows, TableExplainer, require
from stabgate.explainers.dice_frame import OUTCOME, DiceFrame
from stabgate.explainers.dice_model import DiceModel, Scores
from stabgate.explainers.dice_settings import FEWEST, DiceSettings, Method
from stabgate.seeds import isolated
from stabgate.tables import Table


@dataclass
class _Search:
    """DiCE's explainer for one background, and the model that it asks."""

    explainer: Any
    model: DiceModel


class Dice(TableExplainer):
    """DiCE's local feature importance: in how many of a row's counterfactuals a feature differs, in [0, 1].

    Importances say how often a feature changes, not in which direction; they have no sign. A row's
    counterfactuals lead away from the class that the model predicts for it, so `target` is that class: None
    takes each row's own, and an explicit target must be the prediction of every row. The background's outcome
    column, which DiCE asks for, holds the model's own predictions: no y is needed.

    Values equal ``local_feature_importance`` of dice-ml on the background as a data frame, with NumPy's and
    Python's global generators seeded and `random_seed` left alone (it restarts the generator for every
    feature and so couples them). "kdtree" is deterministic. A row with a level that the background lacks is
    explained on the background plus that row, because DiCE refuses levels that it has not seen.

    Outputs that are no probabilities pass through the softmax (two columns), or through the logistic function
    (one decision function of a classifier); the order of classes stays.

    Args:
        model: a classifier, or a regression together with `desired_range`.
        background: rows that DiCE takes ranges, levels and neighbours from.
        method: "random", "genetic" or "kdtree".
        total_cfs: counterfactuals per row, at least 10.
        posthoc_sparsity_algorithm: "binary", "linear" (DiCE's default; up to a hundred times slower) or None
            (none). The genetic method has no such step.
        posthoc_sparsity_param: in [0, 1]; how far a value may be moved back, a quantile of deviations.
        desired_class: a class label, or "opposite": the other of two classes, the second most probable of
            more.
        desired_range: (low, high) of the output, for a regression.
        features_to_vary: "all", or names of the features that may change. The others get 0.
        permitted_range: by feature, (low, high) or a list of levels; the background's otherwise.
        continuous: names of the numbers to search between; None takes all numbers and datetimes. Other
            numbers become categories.
        stopping_threshold: probability from which a class counts as reached, in [0, 1].
        time_limit: seconds for one run on one row, None for no limit. The genetic search may otherwise never
            end where counterfactuals are rare. Checked at each call of the model.
        options: what else the method takes, see `OPTIONS`.

    Raises:
        InputError: an option or name that DiCE does not have.
    """

    package = "dice-ml"
    additive = False  # an importance is the share of counterfactuals that change the feature

    def __init__(
        self,
        model: Any,
        *,
        background: Any,
        method: Method = "random",
        total_cfs: int = FEWEST,
        posthoc_sparsity_algorithm: Literal["binary", "linear"] | None = "binary",
        posthoc_sparsity_param: float = 0.1,
        desired_class: Any = "opposite",
        desired_range: Sequence[float] | None = None,
        features_to_vary: Literal["all"] | Sequence[str] = "all",
        permitted_range: Mapping[str, Sequence[Any]] | None = None,
        continuous: Sequence[str] | None = None,
        stopping_threshold: float = 0.5,
        time_limit: float | None = 60.0,
        **options: Any,
    ) -> None:
        super().__init__(model, background=background)
        self.name = f"dice.{method}"
        self.asked = DiceSettings(
            method,
            total_cfs,
            posthoc_sparsity_algorithm,
            posthoc_sparsity_param,
            desired_class,
            None if desired_range is None else tuple(float(v) for v in desired_range),
            features_to_vary if isinstance(features_to_vary, str) else tuple(features_to_vary),
            {name: tuple(values) for name, values in (permitted_range or {}).items()},
            None if continuous is None else tuple(continuous),
            stopping_threshold,
            time_limit,
            options,
        )
        if self.table is None:
            raise InputError(f"{self.name} needs background=: rows that give the ranges and levels of the features")
        self.asked.check_names(self.table.features)
        self._search: _Search | None = None
        self._outputs: tuple[Table, Floats] | None = None  # of the background; kept, so that workers need not ask again

    def settings(self) -> dict[str, Any]:
        return self.asked.record()

    def prepare(self, X: Any, *, target: Any = None, ids: tuple[Hashable, ...] | None = None) -> Rows:
        """As in `TableExplainer.prepare`; the target is the class that each row is predicted as.

        Raises:
            InputError: also, a target that is not the prediction of some row, a regression without
                `desired_range`, or a desired class that the model does not have.
        """
        rows = super().prepare(X, target=target if self.asked.desired_range is not None else None, ids=ids)
        if self.asked.desired_range is not None or rows.outputs is None:
            return rows
        scores = self._on_background(rows.table).model.scores
        self._desired(scores)
        predicted = scores.probabilities(rows.outputs).argmax(axis=1)
        labels = tuple(scores.label(int(p)) for p in predicted)
        if target is not None:
            other = [i for i, label in enumerate(labels) if label != target]
            if other:
                raise InputError(
                    f"target={target!r}: counterfactuals lead away from the class that a row is predicted "
                    f"as, and {len(other)} of {len(labels)} rows are not predicted so (row "
                    f"{rows.ids[other[0]]!r} is {labels[other[0]]!r}); leave target out, or choose where to "
                    "go with desired_class"
                )
        outputs = np.minimum(predicted, rows.outputs.shape[1] - 1).astype(np.intp)
        return replace(rows, targets=outputs, labels=labels)

    def explain_encoded(self, rows: Rows, i: int, seed: int) -> Floats:  # noqa: ARG002
        row = rows.encoded[i : i + 1]
        search = self._search_for(rows.table, row)
        frame, model = search.model.frame, search.model
        ask: dict[str, Any] = {}
        if self.asked.desired_range is None:
            ask["desired_class"] = self._goal(rows, i, model.scores)
            ask["stopping_threshold"] = self.asked.stopping_threshold
        else:
            ask["desired_range"] = list(self.asked.desired_range)
        model.start(self.asked.time_limit)
        try:
            with _quietly():
                found = search.explainer.local_feature_importance(
                    frame.frame(row),
                    total_CFs=self.asked.total_cfs,
                    features_to_vary=frame.names_of(self.asked.features_to_vary),
                    permitted_range=frame.ranges(rows.table, self.asked.permitted_range),
                    posthoc_sparsity_param=self.asked.sparsity_param if self.asked.sparsity else None,
                    posthoc_sparsity_algorithm=self.asked.sparsity or "binary",
                    **ask,
                    **self.asked.all_options,
                )
        except Exception as error:
            if "No counterfactuals found" in str(error):
                raise ExplainerError(
                    f"{self.name}: no counterfactual was found for row {rows.ids[i]!r}: nothing that was "
                    "tried leaves its prediction; widen features_to_vary or permitted_range, or take another "
                    "background"
                ) from error
            raise
        importance = found.local_importance[0]
        return np.array([float(importance[name]) for name in frame.names])

    def cheaper(self) -> tuple[str, ...]:
        advice = []
        if self.asked.sparsity == "linear":
            advice.append("posthoc_sparsity_algorithm='binary' (up to a hundred times faster than 'linear')")
        if self.asked.method == "genetic":
            advice.append("method='random'")
        return tuple(advice)

    def forget(self) -> None:
        self._search = None

    def _search_for(self, table: Table, row: Floats) -> _Search:
        """DiCE on the background; on the background and `row` where the row holds a level that it lacks."""
        search = self._on_background(table)
        background = self.encoded_background(table)
        for column, known, value in zip(search.model.frame.columns, background.T, row[0], strict=True):
            seen = np.isnan(known).any() if np.isnan(value) else (known == value).any()
            if not column.continuous and not seen:
                whole = np.concatenate([background, row])
                return self._build(table, whole, self.predictor(whole))
        return search

    def _on_background(self, table: Table) -> _Search:
        if self._search is None:
            background = self.encoded_background(table)
            if self._outputs is None or self._outputs[0] != table:
                self._outputs = table, self.predictor(background)
            self._search = self._build(table, background, self._outputs[1])
        return self._search

    def _build(self, table: Table, background: Floats, outputs: Floats) -> _Search:
        dice_ml = require("dice_ml", "dice")
        assert self.model is not None
        frame = DiceFrame.of(table, background, self.asked.continuous)
        with isolated(0):  # whatever is drawn here is not drawn from the row's stream
            scores = Scores.of(self.model, outputs, self.asked.desired_range)
            model = DiceModel(self.predictor, frame, scores)
            data = frame.frame(background)
            precisions = frame.precisions(data)
            data[OUTCOME] = scores.predictions(outputs)
            with _quietly():
                explainer = dice_ml.Dice(
                    dice_ml.Data(
                        dataframe=data,
                        continuous_features=frame.continuous,
                        outcome_name=OUTCOME,
                        continuous_features_precision=precisions,
                    ),
                    dice_ml.Model(
                        model=model,
                        backend="sklearn",
                        model_type="classifier" if self.asked.desired_range is None else "regressor",
                    ),
                    method=self.asked.method,
                )
        return _Search(explainer, model)

    def _desired(self, scores: Scores) -> int | None:
        """Number of the desired class, None for "opposite".

        Raises:
            InputError: the model has no such class.
        """
        if isinstance(self.asked.desired_class, str) and self.asked.desired_class == "opposite":
            return None
        return scores.number(self.asked.desired_class)

    def _goal(self, rows: Rows, i: int, scores: Scores) -> int:
        """Number of the class that the row's counterfactuals must reach.

        Raises:
            ExplainerError: the row is there already, or neither it nor the background is anywhere else.
        """
        assert rows.outputs is not None
        probabilities = scores.probabilities(rows.outputs[i : i + 1])[0]
        predicted = int(probabilities.argmax())
        goal = self._desired(scores)
        if goal == predicted:
            raise ExplainerError(
                f"{self.name}: row {rows.ids[i]!r} is predicted as "
                f"desired_class={self.asked.desired_class!r} already, so it has no counterfactuals"
            )
        if scores.constant is not None and np.array_equal(rows.outputs[i], scores.constant):
            raise ExplainerError(
                f"{self.name}: {self.predictor.model.name} gives row {rows.ids[i]!r} and every background "
                "row the same output; a constant model has no counterfactuals"
            )
        if goal is None:
            goal = int(np.argsort(-probabilities, kind="stable")[1])
        if self.asked.starts_from_background and goal not in scores.reached:
            raise ExplainerError(
                f"{self.name}: no background row is predicted as {scores.label(goal)!r}, where the "
                f"{self.asked.method} method starts from; add such rows to the background or use "
                "method='random'"
            )
        return goal


@contextmanager
def _quietly() -> Iterator[None]:
    """No progress bar, no printed lines and no pandas warnings from inside DiCE; nothing else is silenced.

    Names are replaced in DiCE's own modules, not in `sys` or `builtins`. Runs within `seeds.isolated`, so one
    thread at a time.
    """
    base = require("dice_ml.explainer_interfaces.explainer_base", "dice")
    printing = [require(f"dice_ml.explainer_interfaces.dice_{m}", "dice") for m in ("random", "genetic", "KD")]
    bar = base.tqdm
    base.tqdm = iter
    for module in printing:
        module.print = _nothing
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"dice_ml\.")
            yield
    finally:
        base.tqdm = bar
        for module in printing:
            del module.print


def _nothing(*_: Any, **__: Any) -> None:
    pass
