"""Inputs as users have them, and the one float matrix that every explainer works on.

A `Table` remembers the columns of a background (names, kinds, levels, container). `encode` turns rows of that
kind into float64 ``(rows, features)``: numbers as they are, booleans as 0/1, categories and strings as the number
of their level, datetimes in microseconds. `decode` undoes it, so that the model sees what it was trained on.
"""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from stabgate.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Floats: TypeAlias = NDArray[np.float64]
Kind: TypeAlias = Literal["number", "boolean", "category", "datetime"]
Container: TypeAlias = Literal["array", "object array", "frame", "sparse"]
MICROSECONDS = "datetime64[us]"  # nanoseconds since 1970 do not fit a float64 exactly, microseconds do
LARGEST_EXACT_INTEGER = 2**53


@dataclass(frozen=True)
class Column:
    """One feature: its name, what it holds, its pandas dtype (None in arrays) and, for categories, its levels."""

    name: str
    label: Hashable
    kind: Kind
    dtype: Any = None
    levels: tuple[Any, ...] = ()

    @property
    def nominal(self) -> bool:
        """True where values have no order: categories and booleans."""
        return self.kind in ("category", "boolean")


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
        if _is_frame(data):
            names = [str(label) for label in data.columns]
            repeated = sorted({name for name in names if names.count(name) > 1})
            if repeated:
                raise InputError(
                    f"{what}: column name {repeated[0]!r} occurs {names.count(repeated[0])} times (names are compared "
                    "as text); rename the columns so that each attribution has one name"
                )
            return cls(
                tuple(
                    _read_series(name, label, data.iloc[:, position], what)
                    for position, (name, label) in enumerate(zip(names, data.columns, strict=True))
                ),
                "frame",
            )
        container: Container = "sparse" if _is_sparse(data) else "array"
        if container == "array" and data.dtype == object:
            return cls(tuple(_read_object(f"x{j}", j, data[:, j], what) for j in range(data.shape[1])), "object array")
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
                values = found.levels if found.kind == "category" else _values_of(data, column)
                new = [v for v in values if v not in column.levels]
                column = replace(column, levels=column.levels + tuple(dict.fromkeys(new))) if new else column
            elif column.kind == "number" and found.kind == "boolean":
                pass
            elif found.kind != column.kind and not _only_missing(data, column):
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
            encoded = np.column_stack([_encode_column(c, data, j, what) for j, c in enumerate(self.columns)])
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
                result[:, j] = _decode_object(column, encoded[:, j])
            return result
        import pandas as pd

        frame = pd.DataFrame(
            {j: _decode_series(column, encoded[:, j]) for j, column in enumerate(self.columns)}, copy=False
        )
        frame.columns = pd.Index([column.label for column in self.columns])
        return frame

    def _aligned(self, data: Any, what: str) -> Any:
        data = as_rows(data, what=what)
        wanted = len(self.columns)
        if _is_frame(data) != (self.container == "frame"):
            have, other = ("a DataFrame", "an array") if _is_frame(data) else ("an array", "a DataFrame")
            raise InputError(f"{what} is {have} and the background is {other}; pass both as the same kind")
        if not _is_frame(data):
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
                parts.append(f"lacks column{'s' * (len(missing) > 1)} {_listing(missing)}")
            if unknown:
                near = difflib.get_close_matches(unknown[0], missing, 1)
                hint = f" (did you mean {near[0]!r}?)" if near else ""
                parts.append(f"has unknown column{'s' * (len(unknown) > 1)} {_listing(unknown)}{hint}")
            raise InputError(f"{what} {' and '.join(parts)}; the background has {_listing(list(self.features))}")
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
    elif not _is_frame(data) and not _is_sparse(data):
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
    if not _is_frame(data) and not _is_sparse(data) and data.dtype.kind not in "biufO":
        raise InputError(f"{what} is an array of {data.dtype}; pass numbers, objects or a DataFrame")
    return data


def row_ids(data: Any) -> tuple[Hashable, ...]:
    """The ids of the rows: a DataFrame's index labels, positions otherwise.

    Raises:
        InputError: an index label occurs twice (seeds, baselines and reports go by it).
    """
    data = as_rows(data)
    if not _is_frame(data):
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
    return data.iloc[list(positions)] if _is_frame(data) else data[list(positions)]


def _is_frame(data: Any) -> bool:
    return hasattr(data, "iloc") and hasattr(data, "columns")


def _is_series(data: Any) -> bool:
    return hasattr(data, "iloc") and not hasattr(data, "columns")


def _is_sparse(data: Any) -> bool:
    return hasattr(data, "toarray") and hasattr(data, "nnz")


def _listing(names: list[str], most: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _read_series(name: str, label: Hashable, series: pd.Series[Any], what: str) -> Column:
    import pandas as pd

    dtype = series.dtype
    types = pd.api.types
    if isinstance(dtype, pd.CategoricalDtype):
        return Column(name, label, "category", dtype, tuple(dtype.categories))
    if types.is_bool_dtype(dtype):
        return Column(name, label, "boolean", dtype)
    if types.is_datetime64_any_dtype(dtype):
        return Column(name, label, "datetime", dtype)
    if types.is_complex_dtype(dtype):
        raise InputError(f"{what}: column {name!r} holds complex numbers; a feature is one real value")
    if types.is_numeric_dtype(dtype):
        return Column(name, label, "number", dtype)
    if types.is_object_dtype(dtype) or types.is_string_dtype(dtype):
        return replace(_read_object(name, label, series.to_numpy(dtype=object), what), dtype=dtype)
    raise InputError(f"{what}: column {name!r} has dtype {dtype}, which cannot be explained; convert it to numbers")


def _read_object(name: str, label: Hashable, values: NDArray[Any], what: str) -> Column:
    present = [v for v in values if not _missing(v)]
    if present and all(isinstance(v, (bool, np.bool_)) for v in present):
        return Column(name, label, "boolean")
    if all(isinstance(v, (int, float, np.number)) and not isinstance(v, bool) for v in present):
        return Column(name, label, "number")
    try:
        levels = set(present)
    except TypeError as error:
        raise InputError(f"{what}: column {name!r} holds values that are not plain ({error})") from error
    return Column(name, label, "category", None, tuple(sorted(levels, key=lambda v: (type(v).__name__, v))))


def _values_of(data: Any, column: Column) -> list[Any]:
    series = data.iloc[:, [str(c) for c in data.columns].index(column.name)] if _is_frame(data) else None
    values = series.to_numpy(dtype=object) if series is not None else data[:, cast(int, column.label)]
    return [v for v in values if not _missing(v)]


def _only_missing(data: Any, column: Column) -> bool:
    return not _values_of(data, column)


def _missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def _encode_column(column: Column, data: Any, j: int, what: str) -> Floats:
    series = data.iloc[:, j] if _is_frame(data) else None
    values = series.to_numpy(dtype=object) if series is not None else data[:, j]
    if column.kind == "category":
        codes = {level: float(code) for code, level in enumerate(column.levels)}
        try:
            return np.array([np.nan if _missing(v) else codes[v] for v in values])
        except KeyError as error:
            known = _listing([str(level) for level in column.levels])
            raise InputError(
                f"{what}: column {column.name!r} holds the level {error.args[0]!r}; known are {known}"
            ) from error
    if column.kind == "datetime" and series is not None:
        stamps = (series.dt.tz_convert(None) if series.dt.tz is not None else series).to_numpy(MICROSECONDS)
        return np.where(np.isnat(stamps), np.nan, stamps.astype(np.int64).astype(np.float64))
    try:
        if series is not None and series.dtype != object:
            encoded = cast("Floats", series.to_numpy(dtype=np.float64, na_value=np.nan))
        else:
            encoded = np.array([np.nan if _missing(v) else float(v) for v in values])
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{what}: column {column.name!r} holds something that is not a number ({error}); the background "
            f"holds {column.kind} values there"
        ) from error
    if getattr(column.dtype, "kind", "") in "iu" and np.abs(encoded).max(initial=0.0) > LARGEST_EXACT_INTEGER:
        raise InputError(
            f"{what}: column {column.name!r} holds integers beyond 2^53, which explainers round; an id is no feature"
        )
    return encoded


def _decode_object(column: Column, codes: Floats) -> NDArray[Any]:
    if column.kind == "category":
        return np.array([None if np.isnan(c) else column.levels[int(c)] for c in codes], dtype=object)
    if column.kind == "boolean":
        return np.array([None if np.isnan(c) else bool(c) for c in codes], dtype=object)
    return codes.astype(object)


def _decode_series(column: Column, codes: Floats) -> Any:
    import pandas as pd

    missing = np.isnan(codes)
    if column.kind == "category":
        whole = np.where(missing, -1, codes).astype(np.int64)
        if isinstance(column.dtype, pd.CategoricalDtype):
            known = len(column.dtype.categories)
            if whole.max(initial=-1) < known:
                return pd.Categorical.from_codes(whole, dtype=column.dtype)
            widened = pd.CategoricalDtype(pd.Index(column.levels), ordered=column.dtype.ordered)
            return pd.Categorical.from_codes(whole, dtype=widened)
        levels = np.empty(len(column.levels) + 1, dtype=object)
        levels[:-1] = column.levels
        levels[-1] = np.nan if column.dtype != object else None
        return pd.Series(levels[whole], dtype=column.dtype)
    if column.kind == "datetime":
        stamps = np.where(missing, np.datetime64("NaT", "us").astype(np.int64), np.round(np.where(missing, 0, codes)))
        series = pd.Series(stamps.astype(np.int64).view(MICROSECONDS))
        zone = getattr(column.dtype, "tz", None)
        if zone is not None:
            return series.dt.tz_localize("UTC").dt.tz_convert(zone).astype(column.dtype)
        return series.astype(column.dtype)
    if column.kind == "boolean":
        if column.dtype is None or column.dtype == object:
            return pd.Series(_decode_object(column, codes), dtype=object)
        return (
            pd.Series(codes != 0, dtype=bool).astype(column.dtype).mask(missing)
            if missing.any()
            else pd.Series(codes != 0, dtype=column.dtype)
        )
    if column.dtype is None or column.dtype == object:
        return codes
    nullable = not isinstance(column.dtype, np.dtype)
    whole_numbers = bool((codes[~missing] == np.round(codes[~missing])).all())
    # An explainer that samples between the levels of an integer column (LIME) must not have its values cut off.
    if column.dtype.kind in "iu" and (not whole_numbers or (missing.any() and not nullable)):
        return codes
    if nullable:
        values = codes.astype(object)
        values[missing] = None
        return pd.array(values, dtype=column.dtype)
    return codes.astype(column.dtype)
