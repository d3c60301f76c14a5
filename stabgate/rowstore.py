"""Which cache entry belongs to a row of a measurement: everything that decides its attributions, hashed."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from stabgate.cache import Cache, user_cache
from stabgate.columns import Floats
from stabgate.explainers.base import Rows, TableExplainer
from stabgate.fingerprint import NoFingerprintError, digest_of, fingerprint
from stabgate.models import Model

SCHEMA = 1
HASH_LENGTH = 16  # characters: 64 bits tell the rows of a data set apart


@dataclass(frozen=True)
class RowStore:
    """The cache, and the keys of the rows of one measurement."""

    cache: Cache
    keys: tuple[str, ...]
    features: int

    def read(self, i: int) -> Floats | None:
        """Attributions ``(runs, features)`` that are known of row `i`, or None."""
        return self.cache.read(self.keys[i], self.features)

    def write(self, i: int, values: Floats) -> None:
        """Keep attributions ``(runs, features)`` of row `i`."""
        self.cache.write(self.keys[i], values)


def row_store(explainer: TableExplainer, rows: Rows, seed: int, *, wanted: bool) -> tuple[RowStore | None, str]:
    """The store for these rows, or None and the reason."""
    cache = user_cache() if wanted else None
    if cache is None:
        return None, "not wanted"
    if explainer.model is None:
        return None, f"{explainer.name} has no model"
    try:
        code = _explainer_code(explainer)
        model = _model_key(explainer.model)
    except NoFingerprintError as reason:
        return None, f"the model or explainer has no fingerprint, {reason}; give one: as_model(model, fingerprint=...)"
    background = None if explainer.background is None else explainer.encoded_background(rows.table)
    record = {name: part for name, part in explainer.describe().items() if name not in ("notes", "source")}
    common = digest_of(SCHEMA, code, model, record, background, _columns(rows), int(seed), _versions(explainer.model))
    keys = tuple(
        digest_of(common, repr(row), rows.encoded[i], int(rows.targets[i]), repr(rows.labels[i]))
        for i, row in enumerate(rows.ids)
    )
    return RowStore(cache, keys, len(rows.features)), ""


def content_hashes(explainer: TableExplainer, rows: Rows) -> dict[str, Any]:
    """What tells data and model apart from others: a hash of each row's values, and of the model where it has one."""
    try:
        model = None if explainer.model is None else _model_key(explainer.model)
    except NoFingerprintError:
        model = None
    columns = digest_of(_columns(rows))[:HASH_LENGTH]
    return {
        "rows": [digest_of(row)[:HASH_LENGTH] for row in rows.encoded],
        "columns": columns,
        "model": model if model is None or model.startswith("given:") else model[:HASH_LENGTH],
    }


def _model_key(model: Model) -> str:
    if model.fingerprint is not None:
        return f"given:{model.fingerprint}"
    return fingerprint(model.inner if model.inner is not None else model.call)


def _explainer_code(explainer: TableExplainer) -> str:
    """Our explainers go by name and version; a user's own class or function only if it is installed code."""
    function = getattr(explainer, "function", None)
    if function is not None:
        return fingerprint(function)
    kind = type(explainer)
    return kind.__qualname__ if kind.__module__.startswith("stabgate.") else fingerprint(kind)


def _columns(rows: Rows) -> list[Any]:
    return [[c.name, c.kind, str(c.dtype), [repr(level) for level in c.levels]] for c in rows.table.columns]


def _versions(model: Model) -> dict[str, str]:
    from stabgate import __version__

    packages = {type(model.inner).__module__.partition(".")[0], "pandas", "scipy", "scikit-learn"}
    found = {"stabgate": __version__, "numpy": np.__version__, "python": sys.version.split()[0]}
    for package in sorted(packages):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
