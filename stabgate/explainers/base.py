"""The protocol behind which every explainer stands, and what all explainers of tables share."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stabgate.adapters import as_model
from stabgate.columns import Floats
from stabgate.cost import Cost
from stabgate.errors import ExplainerError, InputError, MissingDependencyError, StabgateError
from stabgate.fingerprint import digest_of
from stabgate.memory import RowMemory
from stabgate.models import Model, Predictor
from stabgate.seeds import isolated
from stabgate.tables import Table, row_ids

LARGEST = 1e300  # attributions beyond this cannot be squared, and say nothing


@runtime_checkable
class Explainer(Protocol):
    """Anything with ``explain``: ``(instances, features)`` for a table of instances.

    `seed` is one integer for all rows or one integer per row; equal seeds give equal attributions, whatever
    other rows are explained in the same call.
    """

    def explain(self, X: Any, *, seed: int | Sequence[int], target: Any = None) -> NDArray[Any]:
        """Attributions ``(instances, features)``, signed, of the target output."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows made ready for an explainer: encoded once, targets resolved, however many runs follow.

    Attributes:
        data: the rows in the user's own container.
        encoded: float64 ``(instances, features)``.
        outputs: float64 ``(instances, outputs)`` of the model, or None where no model is known.
        targets: int ``(instances,)``, the output that is explained in each row.
    """

    data: Any
    ids: tuple[Hashable, ...]
    table: Table
    encoded: Floats
    outputs: Floats | None
    targets: NDArray[np.intp]
    labels: tuple[Any, ...]

    @property
    def features(self) -> tuple[str, ...]:
        return self.table.features


class TableExplainer(ABC):
    """An explainer of one row of a table at a time.

    Subclasses say what they are called, which settings change their values, and how one row is explained once.

    Args:
        model: anything that `stabgate.as_model` takes, or None where the explainer needs none.
        background: the rows that stand for "feature absent"; their columns are the columns of every X.
    """

    name: str = "explainer"
    package: str | None = None  # the distribution whose version belongs into the record
    # False for explainers whose draws all come from generators of their own: global ones are then left alone, which
    # is the only way not to disturb other threads that draw from them.
    draws_globally: bool = True
    # False for shares and probabilities: the attribution of a group of features is then not the sum of its members'.
    additive: bool = True

    def __init__(self, model: Any, *, background: Any = None) -> None:
        self.model: Model | None = None if model is None else as_model(model)
        self.background = background
        self.table: Table | None = None if background is None else Table.of(background)
        self._predictor: Predictor | None = None
        self._encoded_background: Floats | None = None

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Every parameter that changes values, as plain JSON values."""

    @abstractmethod
    def explain_encoded(self, rows: Rows, i: int, seed: int) -> NDArray[Any]:
        """Attributions ``(features,)`` of row `i`. Global generators are seeded already if `draws_globally`."""

    @property
    def cost(self) -> Cost:
        """What the model has been asked so far through this explainer."""
        return Cost() if self._predictor is None else self._predictor.cost

    @property
    def predictor(self) -> Predictor:
        """The model on encoded rows."""
        if self._predictor is None:
            raise ExplainerError(f"{self.name} has no model, or no rows were given to it yet")
        return self._predictor

    def describe(self) -> dict[str, Any]:
        """What is recorded about the explainer: name, settings, package version, background, model, notes."""
        record: dict[str, Any] = {"explainer": self.name, "settings": self.settings()}
        if self.package is not None:
            record["package"] = {self.package: installed_version(self.package)}
        if self.background is not None and self.table is not None:
            encoded = self.encoded_background(self.table)
            record["background"] = {"rows": len(encoded), "sha256": digest_of(encoded)[:16]}
        if self.model is not None:
            record["model"] = self.model.name
            if self.model.source:
                record["source"] = dict(self.model.source)
            if self.model.notes:
                record["notes"] = list(self.model.notes)
        return record

    def prepare(self, X: Any, *, target: Any = None, ids: tuple[Hashable, ...] | None = None) -> Rows:
        """Check and encode rows, ask the model about them (twice), and settle which output is explained.

        Args:
            X: rows with the background's columns.
            target: as in `explain`.
            ids: names of the rows; by default those of `stabgate.tables.row_ids`.

        Raises:
            InputError: X has other columns than the background, or nothing in it.
            ModelError: the model raises, or varies between identical calls.
        """
        ids = row_ids(X) if ids is None else ids
        known = self.table if self.background is not None else None
        table = Table.of(X, what="X") if known is None else known.including(X)
        encoded = table.encode(X)
        self._use(table)
        if self.model is None:
            if target is not None:
                raise InputError(f"target={target!r}: {self.name} was given no model, so it has no targets")
            return Rows(X, ids, table, encoded, None, np.zeros(len(ids), dtype=np.intp), (None,) * len(ids))
        outputs = self.predictor.check_repeatable(encoded, ids)
        targets = self.model.targets(target, outputs)
        labels = tuple(self.model.label_of(int(t), outputs.shape[1]) for t in targets)
        return Rows(X, ids, table, encoded, outputs, targets, labels)

    def explain_row(self, rows: Rows, i: int, seed: int) -> Floats:
        """Attributions ``(features,)`` of row `i`, with global generators seeded and given back.

        Raises:
            ExplainerError: the explainer raised, or returned another shape or values that are not finite.
        """
        try:
            with isolated(seed) if self.draws_globally else nullcontext():
                values = np.asarray(self.explain_encoded(rows, i, seed))
                values = values if np.iscomplexobj(values) else values.astype(np.float64)
        except StabgateError:
            raise
        except Exception as error:
            raise ExplainerError(f"{self.name}: {type(error).__name__}: {error}") from error
        return checked_attribution(values, rows.features, self.name)

    def explain(self, X: Any, *, seed: int | Sequence[int], target: Any = None) -> Floats:
        """Attributions ``(instances, features)``, float64, signed, of the target output.

        Args:
            X: rows with the background's columns.
            seed: one integer for all rows, or one per row. Equality with a direct call of the package holds row
                by row, for that seed and the same settings.
            target: class label (or number of the output); None explains the only output, the positive class of
                two, or the predicted class of each row.

        Raises:
            InputError, ModelError, ExplainerError: as in `prepare` and `explain_row`.
        """
        rows = self.prepare(X, target=target)
        seeds = seeds_per_row(seed, len(rows.ids))
        return np.stack([self.explain_row(rows, i, s) for i, s in enumerate(seeds)])

    def remembering(self, memory: RowMemory | None = None) -> AbstractContextManager[RowMemory | None]:
        """Within the block the model sees no row twice, where that pays; for the runs on one row.

        Args:
            memory: of an earlier block on the same row, to go on with.
        """
        return nullcontext() if self.model is None else self.predictor.remembering(memory)

    def cheaper(self) -> tuple[str, ...]:
        """What would make these explanations cheaper: parts of a sentence that each name an option."""
        return ()

    def encoded_background(self, table: Table) -> Floats:
        """The background as float64 ``(rows, features)``.

        Raises:
            InputError: there is none.
        """
        if self.background is None:
            raise InputError(f"{self.name} needs background=: rows that stand for a feature being absent")
        if self._encoded_background is None:
            self._encoded_background = table.encode(self.background, what="background")
        return self._encoded_background

    def _use(self, table: Table) -> None:
        """Work with this table from now on; what was built for another one is forgotten."""
        if self.table != table or (self._predictor is None and self.model is not None):
            self.table = table
            if self.model is not None:
                self._predictor = Predictor(self.model, table, self.cost)
            self.forget()

    def forget(self) -> None:  # noqa: B027 (most explainers have nothing to drop)
        """Drop objects that were built lazily (they depend on the table, and need not travel to workers)."""

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        lean = object.__new__(type(self))
        lean.__dict__.update(state)
        lean.forget()
        return lean.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def checked_attribution(values: NDArray[Any], features: Sequence[str], name: str) -> Floats:
    """`values` as float64 ``(features,)``.

    Raises:
        ExplainerError: another shape, NaN or an infinite value, named by feature.
    """
    if np.iscomplexobj(values):
        raise ExplainerError(f"{name} returned complex numbers")
    values = np.asarray(values, dtype=np.float64)
    if values.shape != (len(features),):
        raise ExplainerError(f"{name} returned shape {values.shape} for one row of {len(features)} features")
    bad = np.flatnonzero(~(np.abs(values) <= LARGEST))
    if bad.size:
        raise ExplainerError(f"{name} returned {values[bad[0]]} for feature {features[bad[0]]!r}")
    return values


def seeds_per_row(seed: int | Sequence[int], rows: int) -> list[int]:
    """One seed per row from one integer or a sequence of integers.

    Raises:
        InputError: not integers, negative or above 32 bits, or another number of them than rows.
    """
    seeds = [seed] * rows if isinstance(seed, (int, np.integer)) else list(seed)
    if len(seeds) != rows:
        raise InputError(f"seed has {len(seeds)} values for {rows} rows; give one integer or one per row")
    for value in seeds:
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or not 0 <= value < 2**32:
            raise InputError(f"seed {value!r} is not an integer from 0 to 2^32 - 1")
    return [int(value) for value in seeds]


def require(module: str, extra: str) -> Any:
    """Import a package that an explainer adapts.

    Raises:
        MissingDependencyError: it is not installed; the message names the extra.
    """
    from importlib import import_module

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a package does while it loads is none of the reader's business
            return import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"{module} is not installed ({error}); install it with: pip install 'stabgate[{extra}]'"
        ) from error


def installed_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
