"""The arrays behind a gate, in a folder of its own while a session lasts: for baselines, trackers and reports."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stabgate.measure.record import Record
from stabgate.report.details import details_of, fit
from stabgate.report.session import GateReport

if TYPE_CHECKING:
    from stabgate.measure.fass import Fass
    from stabgate.measure.kresult import KStability

ATTRIBUTIONS = "attributions.npz"  # as `Attributions.save` writes it
DISTANCES = "distances.npz"  # distances (instances, features, features), ranking, k; labels as in the attributions
PAIRS = "pairs.csv"  # one row per attempted pair
MAPS = "maps.npz"  # images and maps of the worst pairs of each perturbation, as `Fass.examples` has them
TABLE = "table.csv"  # one row per instance, as `KStability.to_frame`; where pandas is installed
DETAILS = "details.json"  # `details_of`: what the page shows beside the verdict
MOST_DETAILS = 9_000_000  # bytes of the details of all gates of a session


def save_evidence(report: GateReport, result: KStability | Fass, folder: str) -> GateReport:
    """Write a gate's arrays below `folder`; returns the report with its record and where they are."""
    from stabgate.measure.kresult import KStability

    home = Path(tempfile.mkdtemp(prefix="gate-", dir=folder))
    if isinstance(result, KStability):
        result.attributions.save(home / ATTRIBUTIONS)
        np.savez_compressed(
            home / DISTANCES, distances=result.distances, ranking=result.ranking, k=result.k, means=result.means
        )
        if find_spec("pandas") is not None:
            result.to_frame().to_csv(home / TABLE, index=False)
    else:
        result.to_frame().to_csv(home / PAIRS, index=False)
        if result.examples:
            np.savez_compressed(home / MAPS, **_maps(result))
    (home / DETAILS).write_text(json.dumps(details_of(report, result), allow_nan=False), encoding="utf-8")
    return replace(report, record=Record.of(result).to_json(), evidence=str(home))


def _maps(result: Fass) -> dict[str, Any]:
    """The examples of a result, each part as one array whose first axis are the pairs."""
    texts = {name: np.array([str(getattr(one, name)) for one in result.examples]) for name in ("image", "perturbation")}
    numbers = {name: np.array([getattr(one, name) for one in result.examples]) for name in ("draw", "fass")}
    parts = ("original", "perturbed", "before", "after")
    return {**texts, **numbers, **{name: np.stack([getattr(one, name) for one in result.examples]) for name in parts}}


def source_of(given: Any) -> dict[str, str]:
    """Where the model behind a result or an explainer came from, if it was given by its address; empty elsewhere."""
    if isinstance(given, Mapping) and given:  # methods by their names, which share a model
        given = next(iter(given.values()))
    found = getattr(getattr(given, "attributions", None), "provenance", None) or getattr(given, "provenance", None)
    if isinstance(found, Mapping):
        return dict(found.get("source", {}))
    try:
        return dict(given.model.source)
    except (AttributeError, TypeError, ValueError):  # no model, or one that was not given by its address
        return {}


def with_details(gates: Iterable[GateReport]) -> list[GateReport]:
    """The gates with their details, as `save_evidence` left them in their folders; together at most 9 MB of JSON."""
    gates = list(gates)
    found = [_details(gate) for gate in gates]
    kept = fit(found, [gate.verdict is None or not gate.verdict.passed for gate in gates], MOST_DETAILS)
    return [replace(gate, details=one) for gate, one in zip(gates, kept, strict=True)]


def _details(gate: GateReport) -> dict[str, Any] | None:
    file = None if gate.evidence is None else Path(gate.evidence) / DETAILS
    if file is None or not file.is_file():
        return None
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found
