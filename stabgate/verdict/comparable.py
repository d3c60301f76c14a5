"""Whether two measurements may be compared: what differs, whether it can change values, and what to do about it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stabgate.measure.record import K, Record

SHOWN = 3  # names or rows that a difference spells out
VALUE_LENGTH = 60  # characters of a setting's value that are shown
AGREES = 1e-9  # relative; numbers may have been written with fewer digits


@dataclass(frozen=True)
class Comparison:
    """What tells two measurements apart.

    Attributes:
        differs: what can change values by itself, so that nothing follows about the model; empty if comparable.
        notes: what else differs, and what model it is.
    """

    differs: tuple[str, ...]
    notes: tuple[str, ...]


def compare(now: Record, before: Record) -> Comparison:
    """What differs between a measurement and an earlier one of the same metric."""
    differs, notes = [], []
    if now.runs != before.runs:
        differs.append(
            f"runs: {now.runs} now, {before.runs} before; k from different numbers of runs is not comparable: measure "
            f"with runs={before.runs} (--stabgate-runs={before.runs}), and to the end (early=False)"
        )
    for found, unknown in (_instances(now, before), _features(now, before)):
        differs += found
        notes += unknown
    differs += _mapping(now.settings, before.settings)
    differs += _explainer(now.explainer, before.explainer)
    if now.population != before.population:
        differs.append(
            f"rows: {_population(now)} now, {_population(before)} before; measure with the same rows= as the baseline"
        )
    packages, minor = _packages(now.explainer, before.explainer)
    differs += packages
    notes += minor
    if now.seed != before.seed:
        notes.append(f"other seeds ({now.seed} now, {before.seed} before): compared as independent runs")
    notes.append(_model(now, before))
    notes += _targets(now, before)
    notes += [f"{name} {theirs} before, {mine} now" for name, mine, theirs in _unequal(now.versions, before.versions)]
    return Comparison(tuple(differs), tuple(notes))


def _instances(now: Record, before: Record) -> tuple[list[str], list[str]]:
    """Rows or images that are not the same ones, and whether their values are known."""
    what = "rows" if now.metric == K else "images"
    mine, theirs = _hashes(now), _hashes(before)
    found = []
    missing, added = [i for i in theirs if i not in mine], [i for i in mine if i not in theirs]
    if missing or added:
        parts = [f"{len(some)} {word} ({_some(some)})" for some, word in ((missing, "missing"), (added, "new")) if some]
        found.append(f"other {what}: {', '.join(parts)}; measure the {len(theirs)} {what} of the baseline")
    both = [i for i in mine if i in theirs]
    changed = [i for i in both if mine[i] and theirs[i] and mine[i] != theirs[i]]
    if changed:
        found.append(f"other values in {len(changed)} of {len(both)} {what} ({_some(changed)})")
    unknown = [i for i in both if not (mine[i] and theirs[i])]
    return found, [f"{len(unknown)} {what} were compared by id only: their values are not recorded"] if unknown else []


def _hashes(record: Record) -> dict[str, str]:
    return {row.id: row.hash for row in record.rows} | {pair.image: pair.hash for pair in record.pairs}


def _features(now: Record, before: Record) -> tuple[list[str], list[str]]:
    if now.features != before.features:
        mine, theirs = set(now.features), set(before.features)
        parts = [
            f"{word} {_some(sorted(some))}"
            for some, word in ((theirs - mine, "without"), (mine - theirs, "new"))
            if some
        ]
        return [f"other columns: {', '.join(parts) or 'in another order'}"], []
    if now.columns_hash and before.columns_hash and now.columns_hash != before.columns_hash:
        return ["other columns: the types or levels of some are not the same"], []
    return [], []


def _explainer(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    if now.get("explainer") != before.get("explainer"):
        return [f"another explainer: {_shown(now.get('explainer'))} now, {_shown(before.get('explainer'))} before"]
    found = _mapping(_mapped(now, "settings"), _mapped(before, "settings"))
    mine, theirs = now.get("background"), before.get("background")
    if not _same(mine, theirs):
        found.append(f"another background: {_shown(mine)} now, {_shown(theirs)} before")
    parts = ("groups", "target")
    return found + _mapping({n: now.get(n) for n in parts}, {n: before.get(n) for n in parts})


def _packages(now: Mapping[str, Any], before: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Versions of the explainer's package: another major one can change values, another minor one is named."""
    mine, theirs = _mapped(now, "package"), _mapped(before, "package")
    major, minor = [], []
    for name, new, old in _unequal(mine, theirs):
        text = f"{name} {new} now, {old} before"
        if new is None or old is None or _major(str(new)) != _major(str(old)):
            major.append(f"another major version of the explainer's package: {text}; install {name}=={old}")
        else:
            minor.append(text)
    return major, minor


def _major(version: str) -> tuple[str, ...]:
    """What stands for incompatible changes: the first number, or the first two of 0.x."""
    parts = version.split(".")
    return tuple(parts[:2]) if parts[0] == "0" else tuple(parts[:1])


def _model(now: Record, before: Record) -> str:
    if not now.model and not before.model:
        return "the explainer names no model: whether it is another one is not known"
    if now.model_hash is None or before.model_hash is None:
        named = f"model: {now.model or 'none'} now, {before.model or 'none'} before"
        return f"{named}; whether it is another one is not known, as it has no fingerprint"
    if now.model_hash == before.model_hash:
        return f"the same model: {now.model} ({now.model_hash})"
    return f"another model: {now.model} ({now.model_hash}), before {before.model} ({before.model_hash})"


def _targets(now: Record, before: Record) -> list[str]:
    theirs = {row.id: row.target for row in before.rows}
    other = [row for row in now.rows if row.id in theirs and row.target != theirs[row.id]]
    if not other:
        return []
    shown = ", ".join(f"row {row.id}: {row.target}, before {theirs[row.id]}" for row in other[:SHOWN])
    return [f"another class is explained on {len(other)} of {len(now.rows)} rows ({shown})"]


def _mapping(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    unequal = _unequal(now, before)
    return [f"{name}: {_shown(mine)} now, {_shown(theirs)} before" for name, mine, theirs in unequal]


def _unequal(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    names = sorted({*now, *before})
    return [(n, now.get(n), before.get(n)) for n in names if not _same(now.get(n), before.get(n))]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b or math.isclose(a, b, rel_tol=AGREES)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[name], b[name]) for name in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)


def _mapped(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = found.get(name)
    return value if isinstance(value, Mapping) else {}


def _population(record: Record) -> str:
    return "a sample of a population" if record.population else "these rows"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= VALUE_LENGTH else text[: VALUE_LENGTH - 1] + "…"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
