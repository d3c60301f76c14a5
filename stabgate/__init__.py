"""stabgate: the quality gate for model explanations.

Nothing heavy is imported until a name is used: ``import stabgate`` does not even load NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stabgate import explainers as explainers
    from stabgate import perturbations as perturbations
    from stabgate import similarity as similarity
    from stabgate.adapters import as_model
    from stabgate.attributions import Attributions
    from stabgate.baselines import read_baseline
    from stabgate.baselines.store import Baselines
    from stabgate.baselines.waivers import WaivedWarning
    from stabgate.cost import Cost
    from stabgate.errors import (
        BudgetError,
        ExplainerError,
        InconclusiveWarning,
        InputError,
        MissingDependencyError,
        ModelError,
        StabgateError,
        StabilityError,
        TrackingError,
    )
    from stabgate.estimate import estimate_cost
    from stabgate.forecast import CostEstimate, CostWarning
    from stabgate.gate import assert_min_k_stability
    from stabgate.gate_fass import assert_min_fass
    from stabgate.gate_regression import assert_no_regression
    from stabgate.image_models import ImageModel
    from stabgate.measure.fass import Fass, measure_fass
    from stabgate.measure.kresult import KStability
    from stabgate.measure.kstability import compare_methods, measure_k_stability
    from stabgate.measure.record import Record
    from stabgate.report.session import SessionReport
    from stabgate.separability import distance_matrix, group_stability, k_stability
    from stabgate.similarity import MapSimilarity, compare_maps, score_above_floor
    from stabgate.tracking import history
    from stabgate.verdict.verdicts import Outcome, Verdict

__version__ = "0.1.0"

_HOMES = {
    "Attributions": "attributions",
    "Baselines": "baselines.store",
    "BudgetError": "errors",
    "Cost": "cost",
    "CostEstimate": "forecast",
    "CostWarning": "forecast",
    "ExplainerError": "errors",
    "Fass": "measure.fass",
    "ImageModel": "image_models",
    "InconclusiveWarning": "errors",
    "InputError": "errors",
    "KStability": "measure.kresult",
    "MapSimilarity": "similarity",
    "MissingDependencyError": "errors",
    "ModelError": "errors",
    "Outcome": "verdict.verdicts",
    "Record": "measure.record",
    "SessionReport": "report.session",
    "StabgateError": "errors",
    "StabilityError": "errors",
    "TrackingError": "errors",
    "Verdict": "verdict.verdicts",
    "WaivedWarning": "baselines.waivers",
    "as_model": "adapters",
    "assert_min_fass": "gate_fass",
    "assert_min_k_stability": "gate",
    "assert_no_regression": "gate_regression",
    "compare_maps": "similarity",
    "compare_methods": "measure.kstability",
    "distance_matrix": "separability",
    "group_stability": "separability",
    "estimate_cost": "estimate",
    "history": "tracking",
    "k_stability": "separability",
    "measure_fass": "measure.fass",
    "measure_k_stability": "measure.kstability",
    "read_baseline": "baselines",
    "score_above_floor": "similarity",
}
_ROOMS = ("explainers", "perturbations", "separability", "similarity")

__all__ = ["__version__", *_HOMES, *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"stabgate.{name}")
    if name in _HOMES:
        return getattr(import_module(f"stabgate.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'stabgate' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
