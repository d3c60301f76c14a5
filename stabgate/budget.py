"""What a gate may cost at most: time on the clock, rows that the model evaluates, or both."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from stabgate.errors import InputError

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
FORM = 'a time such as "90s", "3m" or "1h", a number of model rows such as "500000 rows", or both: "3m, 500000 rows"'
_PART = re.compile(r"(?P<amount>\d[\d_]*(?:\.\d+)?)\s*(?P<unit>s|m|h|rows)", re.IGNORECASE)


@dataclass(frozen=True)
class Budget:
    """A limit that is checked between explanations.

    Attributes:
        seconds: wall clock, from the first check of the model; None for no limit.
        rows: model rows evaluated; None for no limit.
        text: as the user wrote it.
    """

    seconds: float | None
    rows: int | None
    text: str

    @classmethod
    def of(cls, given: object, where: str = "budget") -> Budget:
        """The budget that a text such as "3m, 500000 rows" means.

        Raises:
            InputError: another form, no amount, or two of one kind; the message names `where` it came from.
        """
        if isinstance(given, Budget):
            return given
        found: dict[str, float] = {}
        if not isinstance(given, str):
            raise InputError(f"{where}={given!r}; it must be {FORM}")
        for part in given.split(","):
            match = _PART.fullmatch(part.strip())
            unit = match["unit"].lower() if match else ""
            amount = float(match["amount"].replace("_", "")) if match else math.nan
            kind = "rows" if unit == "rows" else "seconds"
            if not amount > 0 or not math.isfinite(amount) or (unit == "rows" and amount != int(amount)):
                raise InputError(f"{where}={given!r}: {part.strip()!r} cannot be read; it must be {FORM}")
            if kind in found:
                raise InputError(f"{where}={given!r} names two limits of one kind; it must be {FORM}")
            found[kind] = amount * UNITS.get(unit, 1.0)
        rows = found.get("rows")
        return cls(found.get("seconds"), None if rows is None else int(rows), given.strip())

    def __str__(self) -> str:
        return self.text
