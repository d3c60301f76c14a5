"""The settings that flags, ini keys and the marker share: one definition of name, type and range."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest


class Setting(NamedTuple):
    type: type
    least: float
    most: float
    allowed: str
    help: str
    choices: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """What stands for the value in a list of flags."""
        return "|".join(self.choices) or ("BUDGET" if self.type is str else "N")


FRESH = "fresh"  # the seed that is another one in every session
SETTINGS = {
    "runs": Setting(int, 2, math.inf, "an integer of at least 2", "runs of each explanation"),
    "seed": Setting(
        int, 0, math.inf, "an integer of at least 0, or fresh", "seed of every measurement, or fresh: another each time"
    ),
    "threshold": Setting(float, 5e-324, 1, "a number above 0 and at most 1", "least distance that counts as separated"),
    "early": Setting(
        str, 0, 0, "on or off", "whether a gate ends once its verdict is settled: on, or off", choices=("on", "off")
    ),
    "budget": Setting(
        str,
        0,
        0,
        "a budget, or none",
        "what a gate of k may cost: 90s, 3m, 1h, 500000 rows (of the model), both with a comma, or none",
    ),
    "inconclusive": Setting(
        str, 0, 0, "fail or warn", "what INCONCLUSIVE does: fail, or warn", choices=("fail", "warn")
    ),
    "missing": Setting(
        str,
        0,
        0,
        "fail, record or skip",
        "what a gate does whose baseline is missing: fail, record one and pass, or skip the test",
        choices=("fail", "record", "skip"),
    ),
}
DEFAULTS: dict[str, Any] = {
    "runs": 50,
    "seed": 0,
    "threshold": 0.9,
    "early": "on",
    "budget": "none",
    "inconclusive": None,
    "missing": "fail",
}
MEASURING = ("runs", "seed", "threshold")  # the settings that are options of a measurement
STOPPING = ("early", "budget")  # when a gate that measures itself ends


def parse(name: str, value: Any, where: str) -> Any:
    """`value` as the setting's type.

    Raises:
        pytest.UsageError: another type, or out of range; the message names `where` it came from.
    """
    setting = SETTINGS[name]
    if name == "early" and isinstance(value, bool):
        return "on" if value else "off"
    if name == "budget":
        return _budget(value, where)
    if setting.choices:
        if value not in setting.choices:
            raise pytest.UsageError(f"{where}={value!r}: it must be {setting.allowed}")
        return value
    if name == "seed" and value == FRESH:
        return value
    try:
        if isinstance(value, bool) or (setting.type is int and isinstance(value, float)):
            raise ValueError(value)
        number = setting.type(value)
    except (TypeError, ValueError):
        number = math.nan
    if not setting.least <= number <= setting.most:
        raise pytest.UsageError(f"{where}={value!r}: it must be {setting.allowed}")
    return number


def _budget(value: Any, where: str) -> str:
    from stabgate.budget import Budget
    from stabgate.errors import InputError

    if value in (None, "none"):
        return "none"
    try:
        return str(Budget.of(value, where))
    except InputError as error:
        raise pytest.UsageError(str(error)) from error


def refuse_unknown(names: Iterable[str], what: str, *, prefix: str = "", others: Iterable[str] = ()) -> None:
    """Raise a usage error for the first name that is no setting, with the nearest one that is."""
    allowed = [*SETTINGS, *others]
    for name in names:
        if name not in allowed:
            near = difflib.get_close_matches(name, allowed, 1)
            hint = f"; did you mean {prefix}{near[0]}?" if near else ""
            known = ", ".join(prefix + known for known in allowed)
            raise pytest.UsageError(f"unknown {what} {prefix}{name}{hint} (known: {known})")


def ini_keys(path: Path | None) -> dict[str, Any]:
    """The keys ``stabgate_...`` of a configuration file of pytest, without that; pytest only warns of unknown ones."""
    if path is None:
        return {}
    text = path.read_text(encoding="utf-8")
    keys: dict[str, Any] = {}
    if path.suffix == ".toml":
        import tomllib

        found = tomllib.loads(text)
        for table in (found.get("pytest", {}), found.get("tool", {}).get("pytest", {})):
            keys |= {**table, **table.get("ini_options", {})}
    else:
        from configparser import ConfigParser

        parser = ConfigParser(interpolation=None, strict=False, allow_no_value=True)
        parser.read_string(text)
        for section in ("pytest", "tool:pytest"):
            keys |= dict(parser.items(section)) if parser.has_section(section) else {}
    return {key.removeprefix("stabgate_"): value for key, value in keys.items() if key.startswith("stabgate_")}
