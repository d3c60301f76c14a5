"""Waivers: a known failure passes, visibly, until a date; after it the gate fails again.

They stand in ``waivers.json`` beside the baselines. Only FAIL and INCONCLUSIVE are waived: what was not measured is not
a known failure.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from stabgate.baselines.folder import sweep, writing
from stabgate.errors import InputError
from stabgate.files import write_text

WAIVERS = "waivers.json"
SCHEMA = 1
FIELDS = ("by", "reason", "until")
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


class WaivedWarning(UserWarning):
    """A gate did not pass and was let through by a waiver."""


@dataclass(frozen=True)
class Waiver:
    """What lets a gate through.

    Attributes:
        until: the last day on which it does.
        reason: why.
        by: who said so.
    """

    until: date
    reason: str
    by: str

    def active(self, today: date | None = None) -> bool:
        """Up to and including its date."""
        return (today or date.today()) <= self.until

    def __str__(self) -> str:
        return f"until {self.until.isoformat()}: {self.reason}"


def read_waivers(folder: str | os.PathLike[str]) -> dict[str, Waiver]:
    """The waivers beside the baselines, by the name of their gate; none where there is no file.

    Raises:
        InputError: the file is damaged, or an entry has no date, no reason or an unknown field.
    """
    path = Path(folder) / WAIVERS
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error})") from error
    if not isinstance(plain, dict) or plain.get("schema") != SCHEMA or not isinstance(plain.get("waivers"), dict):
        raise InputError(f"{path}: not waivers of schema {SCHEMA}; restore it from git, or use stabgate waive")
    return {name: _waiver(entry, f"{path}: {name!r}") for name, entry in plain["waivers"].items()}


def add_waiver(folder: str | os.PathLike[str], name: str, *, until: str, reason: str, by: str) -> Waiver:
    """Let the gate `name` through until a date; an earlier waiver of it is replaced.

    Raises:
        InputError: the date is malformed or past, the reason or the name is empty, or the file cannot be written.
    """
    if not name.strip():
        raise InputError("the name of the gate is empty")
    waiver = _waiver({"until": until, "reason": reason, "by": by}, f"waiver of {name!r}")
    if not waiver.active():
        raise InputError(f"waiver of {name!r}: until={until} is past (today is {date.today().isoformat()})")
    home = Path(folder)
    with writing(home):
        sweep(home / WAIVERS)
        waivers = {**read_waivers(home), name: waiver}
        lines = ",\n".join(f"  {_json(one)}: {_json(_plain(waivers[one]))}" for one in sorted(waivers))
        write_text(home / WAIVERS, f'{{\n "schema": {SCHEMA},\n "waivers": {{\n{lines}\n }}\n}}\n')
    return waiver


def _waiver(entry: object, where: str) -> Waiver:
    if not isinstance(entry, dict):
        raise InputError(f"{where}: an object with {', '.join(FIELDS)} is needed, found {entry!r}")
    for field in entry:
        if field not in FIELDS:
            raise InputError(f"{where}: unknown field {field!r} (known: {', '.join(FIELDS)})")
    for field in FIELDS:
        if not isinstance(entry.get(field), str) or not entry[field].strip():
            raise InputError(f"{where}: {field} is missing; a waiver says until when, why, and who gave it")
    try:
        if not DATE.fullmatch(entry["until"]):
            raise ValueError(entry["until"])
        until = date.fromisoformat(entry["until"])
    except ValueError as error:
        raise InputError(f"{where}: until={entry['until']!r} is not a date; write it as 2026-12-31") from error
    return Waiver(until, " ".join(entry["reason"].split()), entry["by"])


def _plain(waiver: Waiver) -> dict[str, str]:
    return {**asdict(waiver), "until": waiver.until.isoformat()}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
