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
    """Calls a pyfunc with the user's kind of rows.

    Raises:
        ValueError: a column that was logged as whole numbers is asked for values between them.
    """

    model: Any

    def __call__(self, data: Any) -> Any:
        schema = self.model.metadata.get_input_schema()
        if schema is not None and hasattr(data, "dtypes") and schema.has_input_names():
            for column in schema.inputs:
                found = data.dtypes.get(column.name)
                if column.type.name in ("integer", "long") and getattr(found, "kind", "") == "f":
                    raise ValueError(
                        f"column {column.name!r} was logged as {column.type.name}, and the explainer asks for values "
                        "between whole numbers or missing ones; log the model with a signature in which it is double"
                    )
        return self.model.predict(data)


def _inside(model: Any) -> Any:
    try:
        return model.get_raw_model()
    except Exception:  # flavours without a native model
        return None
