"""The data frame that DiCE works on, and the way back to a table's float matrix.

DiCE knows two kinds of columns: continuous ones (signed integers or floats, without missing values) and
categories, which it turns into text. Everything a table can hold becomes one of the two here, under names
that cannot clash with the columns that DiCE adds on its own, and keeps the order of the table. A column of
text is left as it is, so that its levels sort and sample exactly as in a direct call of the package.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stabgate.columns import Column, Floats
from stabgate.errors import ExplainerError, InputError
from stabgate.tables import Table

if TYPE_CHECKING:
    import pandas as pd

OUTCOME = "outcome"
# In microseconds. DiCE keeps 24 bits of a number: in days that is a few minutes today.
DAY = 86_400e6
LARGEST_INTEGER = 2**31 - 1  # DiCE stores integers in 32 bits and wraps larger ones around without a word


@dataclass(frozen=True)
class DiceColumn:
    """How one feature looks to DiCE.

    Attributes:
        name: DiCE's name of it, ``x0`` to ``xn``.
        feature: the user's name of it.
        continuous: a number to search between, as against a set of levels.
        integer: a continuous column of whole numbers within 32 bits.
        scale: what a continuous value is divided by on its way to DiCE.
        texts: the text of each level; empty for continuous columns and for numbers taken as levels.
        missing: the text that stands for a missing level.
    """

    name: str
    feature: str
    continuous: bool
    integer: bool = False
    scale: float = 1.0
    texts: tuple[str, ...] = ()
    missing: str = "nan"

    def text(self, value: float) -> str:
        """The level's text, as DiCE would write the user's own value."""
        if self.texts:
            return self.missing if np.isnan(value) else self.texts[int(value)]
        return str(int(value)) if self.integer else str(float(value))

    def values(self, cells: NDArray[Any]) -> Floats:
        """The table's codes or numbers for cells that DiCE made."""
        if self.continuous:
            numbers = cells.astype(np.float64)
            return numbers if self.scale == 1.0 else np.round(numbers * self.scale)
        if not self.texts:
            return np.array([float(cell) for cell in cells])
        codes = {text: float(code) for code, text in enumerate(self.texts)} | {self.missing: np.nan}
        return np.array([codes[str(cell)] for cell in cells])


@dataclass(frozen=True)
class DiceFrame:
    """The columns of a table as DiCE sees them."""

    columns: tuple[DiceColumn, ...]

    @classmethod
    def of(cls, table: Table, background: Floats, continuous: tuple[str, ...] | None) -> DiceFrame:
        """Choose a kind for each column.

        Args:
            table: the columns of the background.
            background: float64 ``(rows, features)``.
            continuous: names of the numbers to search between; None takes every number and datetime.

        Raises:
            InputError: a continuous column holds categories, or misses values in the background.
        """
        columns = []
        for j, column in enumerate(table.columns):
            wanted = not column.nominal if continuous is None else column.name in continuous
            if wanted and column.nominal:
                raise InputError(f"continuous: column {column.name!r} holds {column.kind} values, which have no order")
            integer = _integer(column, background[:, j])
            if not wanted:
                texts, missing = _level_texts(column)
                columns.append(DiceColumn(f"x{j}", column.name, False, integer and not texts, 1.0, texts, missing))
                continue
            absent = int(np.isnan(background[:, j]).sum())
            if absent:
                raise InputError(
                    f"background: column {column.name!r} lacks {absent} of {len(background)} values, and "
                    "DiCE cannot search between missing numbers; fill them or leave those rows out"
                )
            scale = DAY if column.kind == "datetime" else 1.0
            columns.append(DiceColumn(f"x{j}", column.name, True, integer, scale))
        return cls(tuple(columns))

    @property
    def names(self) -> list[str]:
        """DiCE's names of all features, in the table's order."""
        return [column.name for column in self.columns]

    @property
    def continuous(self) -> list[str]:
        """DiCE's names of the continuous features."""
        return [column.name for column in self.columns if column.continuous]

    def frame(self, encoded: Floats) -> pd.DataFrame:
        """Rows ``(rows, features)`` of the table as DiCE's data frame.

        Raises:
            ExplainerError: a continuous value is missing, or not whole where the background holds integers.
        """
        import pandas as pd

        series: dict[Hashable, Any] = {}
        for column, values in zip(self.columns, encoded.T, strict=True):
            if not column.continuous:
                series[column.name] = pd.Series([column.text(v) for v in values], dtype=object)
                continue
            if np.isnan(values).any():
                raise ExplainerError(f"column {column.feature!r} is missing in this row, and DiCE needs a number there")
            if column.integer:
                if (values != np.round(values)).any() or np.abs(values).max() > LARGEST_INTEGER:
                    raise ExplainerError(
                        f"column {column.feature!r} is {values[0]:g} in this row; the background holds "
                        "32-bit integers there, and DiCE would cut the value off"
                    )
                series[column.name] = values.astype(np.int64)
            else:
                series[column.name] = values / column.scale
        return pd.DataFrame(series)

    def encoded(self, frame: pd.DataFrame) -> Floats:
        """Float64 ``(rows, features)`` of the table for a frame that DiCE made."""
        if list(frame.columns) != self.names:
            frame = frame[self.names]
        if all(column.continuous and column.scale == 1.0 for column in self.columns):
            return frame.to_numpy(dtype=np.float64)
        cells = frame.to_numpy(dtype=object)
        return np.column_stack([column.values(cells[:, j]) for j, column in enumerate(self.columns)])

    def precisions(self, frame: pd.DataFrame) -> dict[str, int]:
        """Decimal places of the columns for which DiCE cannot find them out by itself.

        DiCE counts the characters after the point of a column's modes, as 32-bit floats; for 1e-05 there is
        no point and it fails.
        """
        found = {}
        for column in self.columns:
            if column.continuous and not column.integer:
                modes = frame[column.name].astype(np.float32).mode().to_numpy()
                if any("e" in str(mode) for mode in modes):
                    digits = [np.format_float_positional(m, unique=True, trim="-").partition(".")[2] for m in modes]
                    found[column.name] = max(1, *(len(d) for d in digits))
        return found

    def names_of(self, features: str | Sequence[str]) -> str | list[str]:
        """DiCE's names of these features, in this order; "all" stays as it is."""
        if isinstance(features, str):
            return features
        names = {column.feature: column.name for column in self.columns}
        return [names[feature] for feature in features]

    def ranges(self, table: Table, permitted: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]] | None:
        """The user's ranges and levels, by feature, as DiCE's; None where there are none.

        Raises:
            InputError: a level that the column does not have.
        """
        ranges: dict[str, list[Any]] = {}
        for column, known in zip(self.columns, table.columns, strict=True):
            given = permitted.get(column.feature)
            if given is None:
                continue
            if column.continuous:
                ranges[column.name] = [float(v) / column.scale for v in given]
            elif column.texts:
                levels = [False, True] if known.kind == "boolean" else list(known.levels)
                unknown = [v for v in given if v not in levels]
                if unknown:
                    raise InputError(f"permitted_range: {unknown[0]!r} is not a level of column {column.feature!r}")
                ranges[column.name] = [column.texts[levels.index(v)] for v in given]
            else:
                ranges[column.name] = [column.text(float(v)) for v in given]
        return ranges or None


def _integer(column: Column, values: Floats) -> bool:
    if column.kind != "number" or getattr(column.dtype, "kind", "f") not in "iu":
        return False
    return bool(np.abs(values[~np.isnan(values)]).max(initial=0.0) <= LARGEST_INTEGER)


def _level_texts(column: Column) -> tuple[tuple[str, ...], str]:
    """A text for each level, all different, and one for a missing value."""
    levels = (False, True) if column.kind == "boolean" else column.levels
    texts: list[str] = []
    for level in levels:
        text = str(level)
        while text in texts:  # 1 and "1" are two levels
            text += "'"
        texts.append(text)
    missing = "nan"
    while missing in texts:
        missing += "'"
    return tuple(texts), missing
