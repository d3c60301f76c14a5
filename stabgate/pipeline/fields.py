"""CSV files, whose rows must all have as many fields as their header.

pandas reads one field too many in each row as ids and shifts all columns, and fills in what is missing: a gate would
be measured on other data than the file's.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stabgate.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def read_csv(path: Path, place: str) -> pd.DataFrame:
    """The file as pandas reads it; `place` is how messages call it.

    Raises:
        InputError: a row has more or fewer fields than the header.
    """
    import pandas as pd

    if "\r" not in _line_ends(path, place):
        return pd.read_csv(path)
    with path.open(encoding="utf-8-sig") as file:  # where "\r" alone ends lines, pandas loses empty first fields
        return pd.read_csv(file)


def _line_ends(path: Path, place: str) -> tuple[str, ...]:
    """What lines end with, once every row has been found to be as long as the header; blank lines are no rows."""
    with _long_fields(), path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        wanted, before = 0, 0
        for row in rows:
            if len(row) != wanted and not _blank(row):
                if wanted:
                    raise InputError(f"{place}: {_ragged(before + 1, rows.line_num, len(row), wanted)}")
                wanted = len(row)
            before = rows.line_num
        found: str | tuple[str, ...] = file.newlines or ()
    return (found,) if isinstance(found, str) else found


def _blank(row: list[str]) -> bool:
    return not row or (len(row) == 1 and row[0] != "" and not row[0].strip(" \t"))  # [""] is a line of two quotes


def _ragged(first: int, last: int, found: int, wanted: int) -> str:
    fields = f"{found} field{'s' * (found != 1)} and the header {wanted}"
    if first != last:
        return f"the row in lines {first} to {last} has {fields}; is a quote never closed?"
    what = (
        "a comma at the end of a line makes one more; ids need a name in the header as well"
        if found > wanted
        else "a field that is not there is written as nothing between two commas"
    )
    return f"line {first} has {fields}; every row needs as many: {what}"


@contextmanager
def _long_fields() -> Iterator[None]:
    """The csv module refuses fields above 128 KiB, which pandas reads."""
    limit = csv.field_size_limit(sys.maxsize if sys.platform != "win32" else 2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(limit)
