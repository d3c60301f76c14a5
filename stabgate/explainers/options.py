"""Checks of explainer options: each refuses a bad value by the option's name and says what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import numpy as np

from stabgate.errors import InputError


def one_of(name: str, value: Any, allowed: Sequence[str]) -> str:
    """`value`, one of `allowed`; the message names the nearest one."""
    if not isinstance(value, str) or value not in allowed:
        near = difflib.get_close_matches(str(value), allowed, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(f"{name}={value!r} is unknown; {hint}allowed are {', '.join(repr(a) for a in allowed)}")
    return value


def count(name: str, value: Any, *, least: int) -> int:
    """`value`, an integer of at least `least`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{name}={value!r}; it must be an integer of at least {least}")
    return int(value)


def flag(name: str, value: Any) -> bool:
    """`value`, True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name}={value!r}; it must be True or False")
    return bool(value)


def number(name: str, value: Any, *, above_zero: bool) -> float:
    """`value`, a finite number of at least 0, or above it."""
    real = isinstance(value, (int, float, np.number)) and not isinstance(value, (bool, np.bool_))
    if not real or not np.isfinite(value) or value < 0 or (above_zero and value == 0):
        raise InputError(f"{name}={value!r}; it must be a number {'above' if above_zero else 'of at least'} 0")
    return float(value)
