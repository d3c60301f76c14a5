"""One face for every model: float matrix in, float matrix ``(rows, outputs)`` out, with the cost counted.

Estimators and pipelines, boosters, torch modules, MLflow pyfunc models and plain callables all become a `Model`;
a `Predictor` joins a model to a `Table`, so that explainers never see the user's column types.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stabgate.errors import InputError, ModelError
from stabgate.memory import RowMemory
from stabgate.tables import Floats, Table

Task: TypeAlias = Literal["classification", "regression", "unknown"]
LONGEST_MESSAGE = 500  # characters of a model's own error
VARIATION = 1e-9  # relative difference between identical calls above which a model cannot be measured


@dataclass(frozen=True)
class Cost:
    """What a measurement cost. Counts are of model rows and do not depend on the machine; seconds do.

    Attributes:
        rows: rows that the model evaluated.
        rows_asked: rows that explainers asked for (more than `rows` where a row was needed twice).
        calls: calls of the model.
        seconds: time of the whole collection, wall clock.
        model_seconds: time inside the model, summed over workers.
    """

    rows: int = 0
    rows_asked: int = 0
    calls: int = 0
    seconds: float = 0.0
    model_seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.rows + other.rows,
            self.rows_asked + other.rows_asked,
            self.calls + other.calls,
            self.seconds + other.seconds,
            self.model_seconds + other.model_seconds,
        )

    def __sub__(self, other: Cost) -> Cost:
        return Cost(
            self.rows - other.rows,
            self.rows_asked - other.rows_asked,
            self.calls - other.calls,
            self.seconds - other.seconds,
            self.model_seconds - other.model_seconds,
        )


@dataclass(frozen=True)
class Model:
    """A model behind one face.

    Attributes:
        call: the user's container in, anything array-like of ``(rows,)`` or ``(rows, outputs)`` out.
        name: what reports call it.
        task: what kind of outputs it has, where that is known.
        labels: class labels in the order of the outputs, or None where the model has none.
        inner: the object itself, for explainers that look inside (trees, linear models, networks).
        notes: what a reader of the results must know about how the model was called.
        fingerprint: what the user says tells this model from others (a registry version, a file's hash), or None.
    """

    call: Callable[[Any], Any]
    name: str
    task: Task = "unknown"
    labels: tuple[Any, ...] | None = None
    inner: Any = None
    notes: tuple[str, ...] = ()
    fingerprint: str | None = None

    def predict(self, data: Any, rows: int) -> Floats:
        """Outputs for `rows` rows as float64 ``(rows, outputs)``.

        Raises:
            ModelError: the model raised, or returned another shape, NaN or infinite values.
        """
        try:
            raw = self.call(data)
        except Exception as error:
            raise ModelError(f"{self.name} raised {type(error).__name__}: {_shortened(str(error))}") from error
        return _as_outputs(raw, rows, self.name)

    def targets(self, target: Any, outputs: Floats) -> NDArray[np.intp]:
        """The output that is explained in each row.

        None means: the only output, the positive class of two, the predicted class of each row for more.
        A label is looked up in the model's labels; where it has none, `target` is the number of the output.

        Raises:
            InputError: a label or number that the model does not have, or several outputs of a regression.
        """
        rows, count = outputs.shape
        if target is None:
            if count == 1:
                return np.zeros(rows, dtype=np.intp)
            if self.task == "regression":
                raise InputError(
                    f"{self.name} is a regression with {count} outputs; say which one with target=0 to {count - 1}"
                )
            if count == 2:
                return np.ones(rows, dtype=np.intp)
            return np.asarray(np.argmax(outputs, axis=1), dtype=np.intp)
        if self.labels is not None:
            matches = [i for i, label in enumerate(self.labels) if _same_label(label, target)]
            if not matches:
                known = ", ".join(repr(_plain(label)) for label in self.labels)
                raise InputError(f"target={target!r} is not a class of {self.name}; its classes are {known}")
            if count == len(self.labels):
                return np.full(rows, matches[0], dtype=np.intp)
            if count == 1 and len(self.labels) == 2:
                if matches[0] == 1:
                    return np.zeros(rows, dtype=np.intp)
                raise InputError(
                    f"{self.name} has one output, for class {_plain(self.labels[1])!r}; target={target!r} is its "
                    "complement, explain the other class and turn the sign"
                )
            raise ModelError(f"{self.name} has {len(self.labels)} classes and returned {count} outputs")
        if isinstance(target, bool) or not isinstance(target, (int, np.integer)):
            raise InputError(
                f"target={target!r}: {self.name} has no class labels; give the number of the output, 0 to {count - 1}"
            )
        if not 0 <= int(target) < count:
            raise InputError(f"target={target} is not an output of {self.name}; it has {count}, numbered from 0")
        return np.full(rows, int(target), dtype=np.intp)

    def label_of(self, output: int, outputs: int) -> Any:
        """The class label of one of `outputs` outputs, or its number where the model has no labels."""
        if self.labels is None:
            return output
        # One output and two labels is a decision function: it scores the second class.
        return _plain(self.labels[1 if outputs == 1 and len(self.labels) == 2 else output])


def as_model(model: Any, *, fingerprint: str | None = None) -> Model:
    """Put a face on an estimator, pipeline, booster, torch module, pyfunc model or callable.

    Args:
        model: the object, fitted.
        fingerprint: text that is another for every other model, such as a registry version; what is cached goes by
            it. Without one, the cache hashes the model itself where that is possible.

    Raises:
        InputError: it can neither predict nor be called, or it is not fitted.
    """
    if fingerprint is not None:
        if not isinstance(fingerprint, str) or not fingerprint:
            raise InputError(f"fingerprint={fingerprint!r}; it must be text that tells this model from others")
        return replace(as_model(model), fingerprint=fingerprint)
    if isinstance(model, Model):
        return model
    if isinstance(model, type):
        raise InputError(f"model is the class {model.__name__}, not an instance; fit one and pass it")
    name = type(model).__name__
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        from stabgate.networks import network_model

        return network_model(model)
    from stabgate.pyfunc import is_pyfunc, pyfunc_model

    if is_pyfunc(model):
        return pyfunc_model(model)
    booster = _booster(model)
    if booster is not None:
        return booster
    if _has(model, "predict_proba"):
        labels = getattr(model, "classes_", None)
        return Model(model.predict_proba, name, "classification", _labels(labels, name), model)
    if _has(model, "decision_function") and getattr(model, "classes_", None) is not None:
        return Model(model.decision_function, name, "classification", _labels(model.classes_, name), model)
    if _has(model, "predict"):
        regression = getattr(model, "_estimator_type", None) == "regressor" or _is_regressor(model)
        return Model(model.predict, name, "regression" if regression else "unknown", None, model)
    if callable(model):
        label = getattr(model, "__name__", name)
        return Model(model, "model" if label == "<lambda>" else label, "unknown", None, model)
    raise InputError(
        f"model is {name}, which has neither predict_proba, decision_function nor predict and cannot be called; "
        "pass a fitted model or a function of rows"
    )


@dataclass
class Predictor:
    """A model that takes the float matrix of a table, counts what it is asked and remembers rows on request."""

    model: Model
    table: Table
    cost: Cost = field(default_factory=Cost)
    _memory: RowMemory | None = None

    def __call__(self, encoded: NDArray[Any]) -> Floats:
        """Float64 ``(rows, features)`` in, float64 ``(rows, outputs)`` out."""
        encoded = np.ascontiguousarray(encoded, dtype=np.float64)
        if encoded.ndim == 1:
            encoded = encoded[None, :]
        if self._memory is None:
            self.cost += Cost(rows_asked=len(encoded))
            return self._evaluate(encoded)
        self.cost += Cost(rows_asked=len(encoded))
        return self._memory.outputs(encoded, self._evaluate)

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """Within the block no row is evaluated twice, as long as looking rows up is cheaper than the model."""
        previous, self._memory = self._memory, RowMemory()
        try:
            yield
        finally:
            self._memory = previous

    def _evaluate(self, encoded: Floats) -> Floats:
        started = time.perf_counter()
        try:
            outputs = self.model.predict(self.table.decode(encoded), len(encoded))
        except ModelError as error:
            missing = np.isnan(encoded).sum(axis=0)
            if not missing.any():
                raise
            column = int(missing.argmax())
            raise ModelError(
                f"column {self.table.features[column]!r} is missing in {missing[column]} of {len(encoded)} rows, and "
                f"{error}. A model that takes no missing values needs them filled, or an imputer before it"
            ) from error
        self.cost += Cost(rows=len(encoded), calls=1, model_seconds=time.perf_counter() - started)
        return outputs

    def check_repeatable(self, encoded: Floats, ids: tuple[Any, ...]) -> Floats:
        """Outputs for the rows, after asking twice.

        Raises:
            ModelError: two identical calls differ by more than 1e-9 of the largest output.
        """
        first, second = self(encoded), self(encoded)
        difference = np.abs(first - second).max(axis=1)
        worst = int(difference.argmax())
        if difference[worst] > VARIATION * np.abs(first).max():
            output = int(np.abs(first - second)[worst].argmax())
            raise ModelError(
                f"{self.model.name} varies between identical calls: row {ids[worst]!r} gave "
                f"{first[worst, output]:.12g} and then {second[worst, output]:.12g}; fix its random state "
                "or put it in evaluation mode, because explanations of it cannot be stable"
            )
        return first


def _shortened(text: str) -> str:
    """The beginning and the end: some libraries print the data between them."""
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:250]} ... {text[-200:]}"


def _as_outputs(raw: Any, rows: int, name: str) -> Floats:
    if isinstance(raw, tuple):
        raise ModelError(
            f"{name} returned a tuple of {len(raw)}; wrap it in a function that returns the output to explain"
        )
    if hasattr(raw, "detach"):
        raw = raw.detach().cpu().numpy()
    elif hasattr(raw, "toarray"):
        raw = raw.toarray()
    try:
        outputs = np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError) as error:
        found = np.asarray(raw, dtype=object).ravel()
        sample = f", the first is {found[0]!r}" if found.size else ""
        raise ModelError(
            f"{name} returned values that are not numbers{sample}; pass a function that returns probabilities or "
            "scores instead of labels"
        ) from error
    if outputs.ndim == 1:
        outputs = outputs[:, None]
    if outputs.ndim != 2 or len(outputs) != rows or outputs.shape[1] == 0:
        raise ModelError(
            f"{name} returned shape {np.shape(raw)} for {rows} rows; expected ({rows},) or ({rows}, outputs)"
        )
    bad = ~np.isfinite(outputs)
    if bad.any():
        raise ModelError(f"{name} returned {outputs[bad][0]} for {int(bad.any(axis=1).sum())} of {rows} rows")
    return outputs


def _has(model: Any, method: str) -> bool:
    # available_if raises AttributeError for a method that the fitted estimator cannot offer (SVC without probability)
    return callable(getattr(model, method, None))


def _is_regressor(model: Any) -> bool:
    sklearn = sys.modules.get("sklearn.base")
    try:
        return bool(sklearn is not None and sklearn.is_regressor(model))
    except Exception:
        return False


def _labels(labels: Any, name: str) -> tuple[Any, ...] | None:
    if labels is None:
        return None
    if isinstance(labels, list) and labels and isinstance(labels[0], np.ndarray):
        raise InputError(f"{name} predicts {len(labels)} targets at once; pass a function that returns one of them")
    return tuple(np.asarray(labels).tolist())


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _same_label(label: Any, target: Any) -> bool:
    target = _plain(target)
    if isinstance(label, bool) is not isinstance(target, bool) and not isinstance(label, (int, float)):
        return False
    return bool(label == target)


def _booster(model: Any) -> Model | None:
    module, name = type(model).__module__, type(model).__name__
    if name != "Booster":
        return None
    if module.startswith("xgboost"):
        from functools import partial

        return Model(partial(_predict_xgboost, model), "xgboost.Booster", "unknown", None, model)
    if module.startswith("lightgbm"):
        return Model(model.predict, "lightgbm.Booster", "unknown", None, model)
    return None


def _predict_xgboost(booster: Any, data: Any) -> Any:
    import xgboost

    return booster.predict(xgboost.DMatrix(data, enable_categorical=True))
