"""One column of a table: what it holds, as numbers and back.

Numbers stay as they are, booleans become 0/1, categories and strings the number of their level, datetimes microseconds.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from stabgate.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Floats: TypeAlias = NDArray[np.float64]
Kind: TypeAlias = Literal["number", "boolean", "category", "datetime"]
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


def is_frame(data: Any) -> bool:
    """Whether `data` is a DataFrame."""
    return hasattr(data, "iloc") and hasattr(data, "columns")


def listing(names: list[str], most: int = 8) -> str:
    """Names in quotes, the first few of many."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def read_series(name: str, label: Hashable, series: pd.Series[Any], what: str) -> Column:
    """The column that a Series of a DataFrame is.

    Raises:
        InputError: a type that cannot be explained.
    """
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
        return replace(read_object(name, label, series.to_numpy(dtype=object), what), dtype=dtype)
    raise InputError(f"{what}: column {name!r} has dtype {dtype}, which cannot be explained; convert it to numbers")


def read_object(name: str, label: Hashable, values: NDArray[Any], what: str) -> Column:
    """The column that an array of Python objects is: numbers, booleans, or levels."""
    present = [v for v in values if not missing(v)]
    if present and all(isinstance(v, (bool, np.bool_)) for v in present):
        return Column(name, label, "boolean")
    if all(isinstance(v, (int, float, np.number)) and not isinstance(v, bool) for v in present):
        return Column(name, label, "number")
    try:
        levels = set(present)
    except TypeError as error:
        raise InputError(f"{what}: column {name!r} holds values that are not plain ({error})") from error
    return Column(name, label, "category", None, tuple(sorted(levels, key=lambda v: (type(v).__name__, v))))


def values_of(data: Any, column: Column) -> list[Any]:
    """The values of a column that are not missing."""
    series = data.iloc[:, [str(c) for c in data.columns].index(column.name)] if is_frame(data) else None
    values = series.to_numpy(dtype=object) if series is not None else data[:, cast(int, column.label)]
    return [v for v in values if not missing(v)]


def only_missing(data: Any, column: Column) -> bool:
    """Whether a column holds no value at all."""
    return not values_of(data, column)


def missing(value: Any) -> bool:
    """Whether a value is missing: None, NaN, NA or NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def encode_column(column: Column, data: Any, j: int, what: str) -> Floats:
    """The column as float64 ``(rows,)``; a missing value becomes NaN.

    Raises:
        InputError: an unknown level, something that is not a number, or an integer that a float64 would round.
    """
    series = data.iloc[:, j] if is_frame(data) else None
    values = series.to_numpy(dtype=object) if series is not None else data[:, j]
    if column.kind == "category":
        codes = {level: float(code) for code, level in enumerate(column.levels)}
        try:
            return np.array([np.nan if missing(v) else codes[v] for v in values])
        except KeyError as error:
            known = listing([str(level) for level in column.levels])
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
            encoded = np.array([np.nan if missing(v) else float(v) for v in values])
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


def decode_object(column: Column, codes: Floats) -> NDArray[Any]:
    """Python objects ``(rows,)`` for codes, for object arrays."""
    if column.kind == "category":
        return np.array([None if np.isnan(c) else column.levels[int(c)] for c in codes], dtype=object)
    if column.kind == "boolean":
        return np.array([None if np.isnan(c) else bool(c) for c in codes], dtype=object)
    return codes.astype(object)


def decode_series(column: Column, codes: Floats) -> Any:
    """What goes into a DataFrame for codes, with the column's own dtype."""
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
            return pd.Series(decode_object(column, codes), dtype=object)
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
