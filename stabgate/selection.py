"""Which rows of a table are explained."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from stabgate.errors import InputError
from stabgate.seeds import row_seed
from stabgate.tables import as_rows, row_ids, take_rows


def choose_rows(data: Any, rows: Any, *, seed: int) -> tuple[Any, tuple[Hashable, ...] | None]:
    """The chosen rows of `data`, and the ids that they have in it (None: all of them, as they come).

    Args:
        rows: None or "sample" (which says what they are) for all, ids, a function of `data` that returns one boolean
            per row, or the size of a seeded sample.
        seed: of the sample.

    Raises:
        InputError: an unknown or repeated id, nothing chosen, or a sample larger than the data.
    """
    if rows is None or (isinstance(rows, str) and rows == "sample"):
        return data, None
    data = as_rows(data)
    ids = row_ids(data)
    if isinstance(rows, (bool, str, bytes)):
        raise InputError(f'rows={rows!r}; give ids, a function of X, the size of a sample, or "sample"')
    if isinstance(rows, (int, np.integer)):
        if not 1 <= rows <= len(ids):
            raise InputError(f"rows={rows}: a sample of 1 to {len(ids)} rows can be taken from {len(ids)}")
        order = sorted(range(len(ids)), key=lambda i: (row_seed(seed, 0, ids[i]), i))
        positions = sorted(order[: int(rows)])
    elif callable(rows):
        try:
            mask = np.asarray(rows(data)).ravel()
        except Exception as error:
            raise InputError(f"the function given as rows raised {type(error).__name__}: {error}") from error
        if mask.dtype != bool or len(mask) != len(ids):
            raise InputError(
                f"the function given as rows returned {mask.dtype} of shape {mask.shape}; expected {len(ids)} booleans"
            )
        positions = np.flatnonzero(mask).tolist()
        if not positions:
            raise InputError("the function given as rows chose none of the rows: nothing can be measured")
    elif isinstance(rows, Iterable):
        where = {row: i for i, row in enumerate(ids)}
        wanted = [row.item() if isinstance(row, np.generic) else row for row in rows]
        if any(type(row) is bool for row in wanted):
            raise InputError(
                "rows is a mask of booleans; give a function that makes it of X: rows=lambda X: X[...] > 0"
            )
        for row in wanted:
            if row not in where:
                first = ", ".join(repr(known) for known in ids[:3])
                raise InputError(
                    f"rows names {row!r}, which is not among the {len(ids)} row ids of X (the first: {first})"
                )
            if wanted.count(row) > 1:
                raise InputError(f"rows names {row!r} {wanted.count(row)} times")
        if not wanted:
            raise InputError("rows is empty: nothing can be measured")
        positions = [where[row] for row in wanted]
    else:
        raise InputError(f'rows={rows!r}; give ids, a function of X, the size of a sample, or "sample"')
    return take_rows(data, positions), tuple(ids[i] for i in positions)
