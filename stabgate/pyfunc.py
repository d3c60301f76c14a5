"""MLflow pyfunc models: called with the columns that they were logged with, known by the id of what was logged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stabgate.models import Model

LABELS = (
    "the pyfunc returns class labels, not probabilities, so attributions explain label numbers; log the model with "
    "pyfunc_predict_fn='predict_proba'"
)


def is_pyfunc(model: Any) -> bool:
    """Whether `model` was loaded by ``mlflow.pyfunc.load_model``."""
    kind = type(model)
    return kind.__name__ == "PyFuncModel" and kind.__module__.startswith("mlflow.")


def pyfunc_model(model: Any) -> Model:
    """A `Model` for a loaded pyfunc.

    Its fingerprint is the id that MLflow gave to what was logged, which is the same after every load. Class labels are
    known where a scikit-learn classifier was logged with ``pyfunc_predict_fn="predict_proba"``; where it was logged
    with ``"predict"``, the model's `notes` say that labels are explained.
    """
    flavor = model.metadata.flavors.get("python_function", {})
    classes = getattr(_inside(model), "classes_", None)
    labels, notes = None, []
    if classes is not None and flavor.get("predict_fn") == "predict_proba":
        labels = tuple(np.asarray(classes).tolist())
    elif classes is not None and flavor.get("predict_fn", "predict") == "predict":
        notes.append(LABELS)
    return Model(
        PyfuncCall(model),
        type(model).__name__,
        "unknown" if labels is None else "classification",
        labels,
        model,
        tuple(notes),
        f"mlflow:{model.metadata.model_uuid}",
    )


@dataclass(frozen=True)
class PyfuncCall:
    """Calls a pyfunc with the user's kind of rows, in the types of its signature; gives numbers back.

    Raises:
        ValueError: a column that was logged as whole numbers is asked for values between them; outputs that say
            nothing in numbers.
    """

    model: Any

    def __call__(self, data: Any) -> Any:
        schema = self.model.metadata.get_input_schema()
        return numbers(self.model.predict(data if schema is None else in_types_of(schema, data)))


def in_types_of(schema: Any, data: Any) -> Any:
    """`data` as a signature wants it: MLflow refuses whole numbers where it expects others, and the reverse.

    Raises:
        ValueError: a column that was logged as whole numbers holds others, or a missing one.
    """
    if schema.is_tensor_spec():
        return _in_type_of_tensor(schema, data)
    if not schema.has_input_names():
        return data
    import pandas as pd

    names = schema.input_names()
    if not hasattr(data, "columns"):
        dense = data.toarray() if hasattr(data, "toarray") else np.asarray(data)
        if dense.ndim != 2 or dense.shape[1] != len(names):
            return data  # MLflow says which columns are missing
        data = pd.DataFrame(dense, columns=pd.Index(names))
    changed = {}
    for column in schema.inputs:
        if column.name in data.columns:
            found = data[column.name]
            fitted = _in_type(found, getattr(column.type, "name", ""), str(column.name))
            if fitted is not found:
                changed[column.name] = fitted
    return data.assign(**changed) if changed else data


TYPES = {"integer": np.int32, "long": np.int64, "float": np.float32, "double": np.float64, "boolean": np.bool_}


def _in_type(found: Any, wanted: str, name: str) -> Any:
    kind = getattr(found.dtype, "kind", "")
    if wanted not in TYPES or kind not in "biuf" or found.dtype == TYPES[wanted]:
        return found
    if wanted in ("float", "double"):
        return found.astype(TYPES[wanted])
    values = found.to_numpy(dtype=np.float64, na_value=np.nan)
    limits = (0, 1) if wanted == "boolean" else (np.iinfo(TYPES[wanted]).min, np.iinfo(TYPES[wanted]).max)
    if not ((values == np.floor(values)) & (values >= limits[0]) & (values <= limits[1])).all():
        raise ValueError(
            f"column {name!r} was logged as {wanted}, and the explainer asks for values between whole numbers or "
            "missing ones; log the model with a signature in which it is double"
        )
    return found.astype(TYPES[wanted])


def _in_type_of_tensor(schema: Any, data: Any) -> Any:
    specs = schema.inputs
    if len(specs) != 1 or schema.has_input_names():
        return data
    dense = data.toarray() if hasattr(data, "toarray") else np.asarray(data)
    return dense if dense.dtype == specs[0].type else dense.astype(specs[0].type)


def numbers(found: Any) -> Any:
    """What a pyfunc returned, without its wrapping: a mapping of one output, columns of a frame that hold numbers.

    Raises:
        ValueError: a frame without a column of numbers, or a mapping of several outputs.
    """
    if isinstance(found, dict):
        if len(found) != 1:
            raise ValueError(f"it returned a mapping of {len(found)} outputs ({', '.join(map(str, found))})")
        found = next(iter(found.values()))
    if hasattr(found, "columns") and hasattr(found, "select_dtypes"):
        kept = found.select_dtypes(include=["number", "bool"])
        if not kept.shape[1] and found.shape[1]:
            kinds = ", ".join(f"{name!r} ({dtype})" for name, dtype in found.dtypes.items())
            raise ValueError(f"it returned a DataFrame without a column of numbers: {kinds}")
        return kept.to_numpy(dtype=np.float64)
    return found


def _inside(model: Any) -> Any:
    try:
        return model.get_raw_model()
    except Exception:  # flavours without a native model
        return None
