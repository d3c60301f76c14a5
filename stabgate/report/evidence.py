"""The arrays behind a gate, in a folder of its own while a session lasts: for baselines, trackers and reports."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stabgate.measure.record import Record
from stabgate.report.session import GateReport

if TYPE_CHECKING:
    from stabgate.measure.fass import Fass
    from stabgate.measure.kresult import KStability

ATTRIBUTIONS = "attributions.npz"  # as `Attributions.save` writes it
DISTANCES = "distances.npz"  # distances (instances, features, features), ranking, k; labels as in the attributions
PAIRS = "pairs.csv"  # one row per attempted pair


def save_evidence(report: GateReport, result: KStability | Fass, folder: str) -> GateReport:
    """Write a gate's arrays below `folder`; returns the report with its record and where they are."""
    from stabgate.measure.kresult import KStability

    home = Path(tempfile.mkdtemp(prefix="gate-", dir=folder))
    if isinstance(result, KStability):
        result.attributions.save(home / ATTRIBUTIONS)
        np.savez_compressed(
            home / DISTANCES, distances=result.distances, ranking=result.ranking, k=result.k, means=result.means
        )
    else:
        result.to_frame().to_csv(home / PAIRS, index=False)
    return replace(report, record=Record.of(result).to_json(), evidence=str(home))
