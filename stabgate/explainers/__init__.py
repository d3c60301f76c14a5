"""Explainers behind one protocol: ``explain(X, *, seed, target=None) -> (instances, features)``, or of images
``(instances, channels, height, width)``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stabgate.explainers.base import Explainer, TableExplainer
    from stabgate.explainers.baseline import Custom, Random
    from stabgate.explainers.captum import Captum
    from stabgate.explainers.dice import Dice
    from stabgate.explainers.gradcam import GradCam
    from stabgate.explainers.images import ImageExplainer
    from stabgate.explainers.lime import Lime
    from stabgate.explainers.lime_image import LimeImage
    from stabgate.explainers.shap import Shap

_HOMES = {
    "Captum": "captum",
    "Custom": "baseline",
    "Dice": "dice",
    "Explainer": "base",
    "GradCam": "gradcam",
    "ImageExplainer": "images",
    "Lime": "lime",
    "LimeImage": "lime_image",
    "Random": "baseline",
    "Shap": "shap",
    "TableExplainer": "base",
}

__all__ = [
    "Captum",
    "Custom",
    "Dice",
    "Explainer",
    "GradCam",
    "ImageExplainer",
    "Lime",
    "LimeImage",
    "Random",
    "Shap",
    "TableExplainer",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
