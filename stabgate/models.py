"""One face for every model: float matrix in, float matrix ``(rows, outputs)`` out, with the cost counted.

Estimators and pipelines, boosters, torch modules, MLflow pyfunc models and plain callables all become a `Model`;
a `Predictor` joins a model to a `Table`, so that explainers never see the user's column types.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stabgate.columns import Floats
from stabgate.cost import Cost
from stabgate.errors import InputError, ModelError
from stabgate.memory import RowMemory
from stabgate.tables import Table

Task: TypeAlias = Literal["classification", "regression", "unknown"]
LONGEST_MESSAGE = 500  # characters of a model's own error
VARIATION = 1e-9  # relative difference between identical calls above which a model cannot be measured


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
        source: where a model that was given by its address came from: uri, name, version, alias, model_id, run_id.
    """

    call: Callable[[Any], Any]
    name: str
    task: Task = "unknown"
    labels: tuple[Any, ...] | None = None
    inner: Any = None
    notes: tuple[str, ...] = ()
    fingerprint: str | None = None
    source: Mapping[str, str] = field(default_factory=dict)

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


@dataclass
class Predictor:
    """A model that takes the float matrix of a table, counts what it is asked and remembers rows on request."""

    model: Model
    table: Table
    cost: Cost = field(default_factory=Cost)
    _memory: RowMemory | None = None
    _worth: bool | None = None  # what the first instance showed holds for the others

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
    def remembering(self, memory: RowMemory | None = None) -> Iterator[RowMemory]:
        """Within the block no row is evaluated twice, as long as looking rows up is cheaper than the model.

        Args:
            memory: of an earlier block, to go on with.
        """
        memory = RowMemory(self._worth) if memory is None else memory
        previous, self._memory = self._memory, memory
        try:
            yield memory
        finally:
            self._worth = memory.worth
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


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _same_label(label: Any, target: Any) -> bool:
    target = _plain(target)
    if isinstance(label, bool) is not isinstance(target, bool) and not isinstance(label, (int, float)):
        return False
    return bool(label == target)
