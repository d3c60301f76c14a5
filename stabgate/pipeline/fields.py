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

SEPARATORS = {";": "';'", "\t": "tabs"}  # that other programs write, and what messages call them
LONGEST_HEADER = 60  # characters that a message shows


def read_csv(path: Path, place: str) -> pd.DataFrame:
    """The file as pandas reads it; `place` is how messages call it.

    Raises:
        InputError: a row has more or fewer fields than the header, something else than commas stands between fields, or
            the file is not UTF-8.
    """
    import pandas as pd

    try:
        ends = _line_ends(path, place)
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise InputError(f"{place}: it is not UTF-8, byte 0x{byte:02x} was found: save it as UTF-8") from error
    if "\r" not in ends:
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
                _check_separator(row, place)
            before = rows.line_num
        found: str | tuple[str, ...] = file.newlines or ()
    return (found,) if isinstance(found, str) else found


def _check_separator(header: list[str], place: str) -> None:
    """Refuse a header that is one field because something else than commas stands between its names."""
    found = next((sign for sign in SEPARATORS if len(header) == 1 and sign in header[0].strip()), None)
    if found is not None:
        raise InputError(
            f"{place}: fields are separated by {SEPARATORS[found]}, commas are expected: the header is one field, "
            f"{header[0][:LONGEST_HEADER]!r}; save the file with commas"
        )


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
