"""Every kind of model that users bring, put behind the one face of `stabgate.models.Model`."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from stabgate.errors import InputError
from stabgate.models import Model


def as_model(model: Any, *, fingerprint: str | None = None) -> Model:
    """Put a face on an estimator, pipeline, booster, torch module, pyfunc model or callable.

    Args:
        model: the object, fitted; or the address of a model that MLflow logged: "models:/credit@champion",
            "models:/credit/7", "runs:/RUN/model", a folder.
        fingerprint: text that is another for every other model, such as a registry version; what is cached goes by
            it. Without one, the cache hashes the model itself where that is possible.

    Raises:
        InputError: it can neither predict nor be called, it is not fitted, or nothing is at the address.
        TrackingError: the MLflow store does not answer.
    """
    if fingerprint is not None:
        if not isinstance(fingerprint, str) or not fingerprint:
            raise InputError(f"fingerprint={fingerprint!r}; it must be text that tells this model from others")
        return replace(as_model(model), fingerprint=fingerprint)
    if isinstance(model, Model):
        return model
    if isinstance(model, (str, os.PathLike)):
        from stabgate.logged_models import logged_model

        return logged_model(os.fspath(model))
    if isinstance(model, type):
        raise InputError(f"model is the class {model.__name__}, not an instance; fit one and pass it")
    name = type(model).__name__
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        from stabgate.networks import network_model

        return network_model(model)
    from stabgate.pyfunc import is_pyfunc, pyfunc_model

    if is_pyfunc(model):
        return pyfunc_model(model)
    booster = _booster(model)
    if booster is not None:
        return booster
    if _has(model, "predict_proba"):
        labels = getattr(model, "classes_", None)
        return Model(model.predict_proba, name, "classification", _labels(labels, name), model)
    if _has(model, "decision_function") and getattr(model, "classes_", None) is not None:
        return Model(model.decision_function, name, "classification", _labels(model.classes_, name), model)
    if _has(model, "predict"):
        regression = getattr(model, "_estimator_type", None) == "regressor" or _is_regressor(model)
        return Model(model.predict, name, "regression" if regression else "unknown", None, model)
    if callable(model):
        label = getattr(model, "__name__", name)
        return Model(model, "model" if label == "<lambda>" else label, "unknown", None, model)
    raise InputError(
        f"model is {name}, which has neither predict_proba, decision_function nor predict and cannot be called; "
        "pass a fitted model or a function of rows"
    )


def _has(model: Any, method: str) -> bool:
    # available_if raises AttributeError for a method that the fitted estimator cannot offer (SVC without probability)
    return callable(getattr(model, method, None))


def _is_regressor(model: Any) -> bool:
    sklearn = sys.modules.get("sklearn.base")
    try:
        return bool(sklearn is not None and sklearn.is_regressor(model))
    except Exception:
        return False


def _labels(labels: Any, name: str) -> tuple[Any, ...] | None:
    if labels is None:
        return None
    if isinstance(labels, list) and labels and isinstance(labels[0], np.ndarray):
        raise InputError(f"{name} predicts {len(labels)} targets at once; pass a function that returns one of them")
    return tuple(np.asarray(labels).tolist())


def _booster(model: Any) -> Model | None:
    module, name = type(model).__module__, type(model).__name__
    if name != "Booster":
        return None
    if module.startswith("xgboost"):
        from functools import partial

        return Model(partial(_predict_xgboost, model), "xgboost.Booster", "unknown", None, model)
    if module.startswith("lightgbm"):
        return Model(model.predict, "lightgbm.Booster", "unknown", None, model)
    return None


def _predict_xgboost(booster: Any, data: Any) -> Any:
    import xgboost

    return booster.predict(xgboost.DMatrix(data, enable_categorical=True))
