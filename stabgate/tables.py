"""Inputs as users have them, and the one float matrix that every explainer works on.

A `Table` remembers the columns of a background (names, kinds, levels, container). `encode` turns rows of that
kind into float64 ``(rows, features)``: numbers as they are, booleans as 0/1, categories and strings as the number
of their level, datetimes in microseconds. `decode` undoes it, so that the model sees what it was trained on.
"""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stabgate.columns import (
    Column,
    Floats,
    decode_object,
    decode_series,
    encode_column,
    is_frame,
    listing,
    only_missing,
    read_object,
    read_series,
    values_of,
)
from stabgate.errors import InputError

if TYPE_CHECKING:
    pass

Container: TypeAlias = Literal["array", "object array", "frame", "sparse"]


@dataclass(frozen=True)
class Table:
    """The columns of a data set, and how its rows become a float matrix and come back."""

    columns: tuple[Column, ...]
    container: Container

    @classmethod
    def of(cls, data: Any, *, what: str = "background") -> Table:
        """Read the columns of `data`: DataFrame, Series (one row), 2-D array, object array or sparse matrix.

        Raises:
            InputError: no rows or columns, not two-dimensional, duplicate column names, a column of an
                unsupported type.
        """
        data = as_rows(data, what=what)
        if is_frame(data):
            names = [str(label) for label in data.columns]
            repeated = sorted({name for name in names if names.count(name) > 1})
            if repeated:
                raise InputError(
                    f"{what}: column name {repeated[0]!r} occurs {names.count(repeated[0])} times (names are compared "
                    "as text); rename the columns so that each attribution has one name"
                )
            return cls(
                tuple(
                    read_series(name, label, data.iloc[:, position], what)
                    for position, (name, label) in enumerate(zip(names, data.columns, strict=True))
                ),
                "frame",
            )
        container: Container = "sparse" if _is_sparse(data) else "array"
        if container == "array" and data.dtype == object:
            return cls(tuple(read_object(f"x{j}", j, data[:, j], what) for j in range(data.shape[1])), "object array")
        return cls(tuple(Column(f"x{j}", j, "number") for j in range(data.shape[1])), container)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features, in order, as text."""
        return tuple(column.name for column in self.columns)

    @property
    def nominal(self) -> tuple[int, ...]:
        """Positions of the columns whose values have no order."""
        return tuple(j for j, column in enumerate(self.columns) if column.nominal)

    def including(self, data: Any, *, what: str = "X") -> Table:
        """This table, with the levels that occur only in `data` appended (existing codes keep their numbers).

        Raises:
            InputError: `data` has other columns, or a column of another kind.
        """
        data = self._aligned(data, what)
        if self.container in ("array", "sparse"):
            return self
        other = Table.of(data, what=what)
        columns = []
        for column, found in zip(self.columns, other.columns, strict=True):
            if column.kind == "category" and found.kind in ("category", "number", "boolean"):
                values = found.levels if found.kind == "category" else values_of(data, column)
                new = [v for v in values if v not in column.levels]
                column = replace(column, levels=column.levels + tuple(dict.fromkeys(new))) if new else column
            elif column.kind == "number" and found.kind == "boolean":
                pass
            elif found.kind != column.kind and not only_missing(data, column):
                raise InputError(
                    f"{what}: column {column.name!r} holds {found.kind} values, the background holds {column.kind} "
                    "values there; convert one of them"
                )
            columns.append(column)
        return replace(self, columns=tuple(columns))

    def encode(self, data: Any, *, what: str = "X") -> Floats:
        """Rows of `data` as float64 ``(rows, features)``; a missing value becomes NaN.

        Raises:
            InputError: other columns, an infinite value, a level that this table does not know.
        """
        data = self._aligned(data, what)
        if self.container in ("array", "sparse"):
            matrix = np.asarray(data.toarray() if _is_sparse(data) else data)
            try:
                encoded = matrix.astype(np.float64)
            except (TypeError, ValueError) as error:
                raise InputError(f"{what}: not a numeric array ({error}); pass numbers or a DataFrame") from error
        else:
            encoded = np.column_stack([encode_column(c, data, j, what) for j, c in enumerate(self.columns)])
        infinite = np.isinf(encoded)
        if infinite.any():
            row, j = (int(v) for v in np.argwhere(infinite)[0])
            raise InputError(
                f"{what}: column {self.columns[j].name!r} holds an infinite value in row {row_ids(data)[row]!r}; "
                "replace it before measuring"
            )
        return np.ascontiguousarray(encoded)

    def decode(self, encoded: NDArray[Any]) -> Any:
        """The user's kind of container for float64 ``(rows, features)``: what the model was trained on."""
        if self.container == "array":
            return np.asarray(encoded, dtype=np.float64)
        if self.container == "sparse":
            from scipy import sparse

            return sparse.csr_matrix(np.asarray(encoded, dtype=np.float64))
        if self.container == "object array":
            result = np.empty(encoded.shape, dtype=object)
            for j, column in enumerate(self.columns):
                result[:, j] = decode_object(column, encoded[:, j])
            return result
        import pandas as pd

        frame = pd.DataFrame(
            {j: decode_series(column, encoded[:, j]) for j, column in enumerate(self.columns)}, copy=False
        )
        frame.columns = pd.Index([column.label for column in self.columns])
        return frame

    def _aligned(self, data: Any, what: str) -> Any:
        data = as_rows(data, what=what)
        wanted = len(self.columns)
        if is_frame(data) != (self.container == "frame"):
            have, other = ("a DataFrame", "an array") if is_frame(data) else ("an array", "a DataFrame")
            raise InputError(f"{what} is {have} and the background is {other}; pass both as the same kind")
        if not is_frame(data):
            if data.shape[1] != wanted:
                raise InputError(
                    f"{what} has {data.shape[1]} columns, the background has {wanted}; pass rows with the same columns"
                )
            return data
        found = [str(label) for label in data.columns]
        missing = [name for name in self.features if name not in found]
        unknown = [name for name in found if name not in self.features]
        if missing or unknown:
            parts = []
            if missing:
                parts.append(f"lacks column{'s' * (len(missing) > 1)} {listing(missing)}")
            if unknown:
                near = difflib.get_close_matches(unknown[0], missing, 1)
                hint = f" (did you mean {near[0]!r}?)" if near else ""
                parts.append(f"has unknown column{'s' * (len(unknown) > 1)} {listing(unknown)}{hint}")
            raise InputError(f"{what} {' and '.join(parts)}; the background has {listing(list(self.features))}")
        if len(found) != wanted:
            repeated = next(name for name in found if found.count(name) > 1)
            raise InputError(f"{what}: column name {repeated!r} occurs {found.count(repeated)} times")
        return data.iloc[:, [found.index(name) for name in self.features]]


def as_rows(data: Any, *, what: str = "X") -> Any:
    """`data` as a two-dimensional container with at least one row and one column; a Series is one row.

    Raises:
        InputError: nothing in it, or it is not two-dimensional.
    """
    if _is_series(data):
        data = data.to_frame().T.infer_objects()
    elif not is_frame(data) and not _is_sparse(data):
        if np.ma.is_masked(data):
            data = data.astype(object if data.dtype == object else np.float64).filled(np.nan)
        try:
            data = np.asarray(data)
        except ValueError as error:
            raise InputError(f"{what}: not a table ({error})") from error
        if data.dtype.kind in "US":
            data = data.astype(object)
    if data.ndim != 2:
        raise InputError(
            f"{what} has {data.ndim} dimension{'s' * (data.ndim != 1)}, a table has 2: (rows, features); "
            "for one row pass X[:1] or X.iloc[[0]]"
        )
    if data.shape[0] == 0:
        raise InputError(f"{what} has no rows: nothing can be measured")
    if data.shape[1] == 0:
        raise InputError(f"{what} has no columns: nothing can be measured")
    if not is_frame(data) and not _is_sparse(data) and data.dtype.kind not in "biufO":
        raise InputError(f"{what} is an array of {data.dtype}; pass numbers, objects or a DataFrame")
    return data


def row_ids(data: Any) -> tuple[Hashable, ...]:
    """The ids of the rows: a DataFrame's index labels, positions otherwise.

    Raises:
        InputError: an index label occurs twice (seeds, baselines and reports go by it).
    """
    data = as_rows(data)
    if not is_frame(data):
        return tuple(range(data.shape[0]))
    ids = tuple(label.item() if isinstance(label, np.generic) else label for label in data.index)
    if len(set(ids)) != len(ids):
        twice = next(i for i in ids if ids.count(i) > 1)
        raise InputError(
            f"row id {twice!r} occurs {ids.count(twice)} times in the index of X; ids must be unique "
            "(X.reset_index(drop=True) numbers the rows)"
        )
    return ids


def take_rows(data: Any, positions: Sequence[int]) -> Any:
    """The rows at `positions`, in the same kind of container."""
    data = as_rows(data)
    if _is_sparse(data):
        return data.tocsr()[list(positions)]  # not every sparse format can be indexed
    return data.iloc[list(positions)] if is_frame(data) else data[list(positions)]


def _is_series(data: Any) -> bool:
    return hasattr(data, "iloc") and not hasattr(data, "columns")


def _is_sparse(data: Any) -> bool:
    return hasattr(data, "toarray") and hasattr(data, "nnz")
