"""Whether data fit what was asked for: the columns that a model was fitted on, ids that were given as text."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Hashable, Sequence
from typing import Any

from stabgate.columns import is_frame, listing
from stabgate.errors import InputError
from stabgate.tables import row_ids


def check_columns(data: Any, model: Any, place: str) -> None:
    """Refuse a DataFrame with other columns than the model was fitted on, where the model knows their names.

    Raises:
        InputError: naming the columns; `place` is how the message calls the data.
    """
    known = _names(model)
    if not known or not is_frame(data):
        return
    found = [str(label) for label in data.columns]
    unknown, missing = _without(found, known), _without(known, found)
    if not unknown and (not missing or _predicts(model, data)):
        return
    parts = []
    if unknown:
        parts.append(
            f"has column{'s' * (len(unknown) > 1)} {listing(unknown)}, which the model was not fitted on: drop takes "
            "columns out, index makes one the ids of the rows"
        )
    if missing:
        parts.append(f"lacks column{'s' * (len(missing) > 1)} {listing(missing)} of the model{_near(missing, unknown)}")
    raise InputError(f"{place}: it {', and '.join(parts)} (the model's: {listing(list(known))})")


def as_ids(rows: Any, data: Any) -> Any:
    """`rows` where they are ids, each as `data` has it: the number 3 of an index of numbers for the text "3"."""
    if not isinstance(rows, list):
        return rows
    ids = row_ids(data)
    known, by_text = set(ids), {str(row): row for row in reversed(ids)}
    return [row if isinstance(row, Hashable) and row in known else by_text.get(str(row), row) for row in rows]


def _names(model: Any) -> Sequence[str]:
    """The columns that a model was fitted on; empty where it does not know."""
    booster = type(model).__name__ == "Booster"
    try:
        if booster and type(model).__module__.startswith("lightgbm"):
            names = model.feature_name()
        else:
            names = model.feature_names if booster else model.feature_names_in_
        found = [str(name) for name in names]
    except Exception:  # not fitted, or properties that raise what they like
        return ()
    numbered = [f"Column_{j}" for j in range(len(found))]  # LightGBM calls the columns of an array so
    return () if found == numbered else found


def _without(names: Sequence[str], others: Sequence[str]) -> list[str]:
    there = {name.replace(" ", "_") for name in others}  # LightGBM keeps names so
    return [name for name in names if name.replace(" ", "_") not in there]


def _near(missing: Sequence[str], unknown: Sequence[str]) -> str:
    pairs = [(name, difflib.get_close_matches(name, unknown, 1)) for name in missing]
    hints = [f"{near[0]!r} for {name!r}" for name, near in pairs if near]
    return f" (nearest: {', '.join(hints[:3])})" if hints else ""


def _predicts(model: Any, data: Any) -> bool:
    """Whether a model takes rows without some of its columns: a ColumnTransformer does not miss what it drops."""
    if type(model).__module__.split(".")[0] in ("lightgbm", "xgboost"):
        return False  # they need them all, and print it as well
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.predict(data.iloc[:1])
    except Exception:
        return False
    return True
