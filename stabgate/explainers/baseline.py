"""Random attributions (the calibration baseline RAND of [K]) and explainers that users bring."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stabgate.columns import Floats
from stabgate.errors import InputError
from stabgate.explainers.base import Rows
from stabgate.explainers.both import TableOrImageExplainer
from stabgate.tables import take_rows

if TYPE_CHECKING:
    from stabgate.explainers.image_baseline import CustomImages, RandomImages


class Random(TableOrImageExplainer):
    """RAND: i.i.d. uniform attributions in [0, 1) at every run; what no explanation at all scores ([K] section 4).

    Of images: one value at every pixel.

    Args:
        model: optional; recorded, and asked for predictions of images.
    """

    name = "random"

    def __init__(self, model: Any = None) -> None:
        super().__init__(model)
        self._given = model
        self._images: RandomImages | None = None

    def settings(self) -> dict[str, Any]:
        return {"distribution": "uniform(0, 1)"}

    def for_images(self) -> RandomImages:
        """The explainer of images."""
        if self._images is None:
            from stabgate.explainers.image_baseline import RandomImages

            self._images = RandomImages(self._given)
        return self._images

    def explain_encoded(self, rows: Rows, i: int, seed: int) -> Floats:  # noqa: ARG002
        return np.random.default_rng(seed).random(len(rows.features))


class Custom(TableOrImageExplainer):
    """An explainer that is a function.

    ``Custom(lambda X, seed: my_attributions(model, X, seed))``

    Args:
        function: called as ``function(X, seed=seed)`` with X one row in the user's own container; it also gets
            ``target=`` where it has a parameter of that name. Returns ``(features,)`` or ``(1, features)``.
            NumPy's, Python's and torch's global generators are seeded with the same seed. Of images it gets a
            tensor (1, channels, height, width) and returns one of (1, channels', height, width).
        model: optional; its outputs then settle the target, and it is checked to be repeatable.
        background: optional; where given, X must have its columns.
        name: what reports call the explainer; the function's name by default.
        settings: what to record: every parameter that changes values.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        model: Any = None,
        background: Any = None,
        name: str | None = None,
        settings: dict[str, Any] | None = None,
    ) -> None:
        if not callable(function):
            raise InputError(f"Custom takes a function of (X, seed), not {type(function).__name__}")
        super().__init__(model, background=background)
        self._given = model
        self._images: CustomImages | None = None
        self.function = function
        given = getattr(function, "__name__", type(function).__name__)
        self.name = name or ("custom" if given == "<lambda>" else given)
        self._settings = dict(settings or {})
        self._takes_target = _takes(function, "target")
        if not _takes(function, "seed"):
            raise InputError(f"the function {self.name!r} must take a parameter named seed: function(X, seed)")

    def settings(self) -> dict[str, Any]:
        return self._settings

    def for_images(self) -> CustomImages:
        """The explainer of images."""
        if self._images is None:
            from stabgate.explainers.image_baseline import CustomImages

            self._images = CustomImages(
                self.function,
                name=self.name,
                settings=self._settings,
                takes_target=self._takes_target,
                model=self._given,
            )
        return self._images

    def prepare(self, X: Any, *, target: Any = None, ids: tuple[Hashable, ...] | None = None) -> Rows:
        """As every explainer's; without a model the function gets `target` as it is."""
        if target is not None and not self._takes_target:
            raise InputError(f"target={target!r}: the function {self.name!r} has no parameter named target")
        if self.model is not None:
            return super().prepare(X, target=target, ids=ids)
        rows = super().prepare(X, ids=ids)
        return replace(rows, labels=(target,) * len(rows.ids))

    def explain_encoded(self, rows: Rows, i: int, seed: int) -> NDArray[Any]:
        row = take_rows(rows.data, [i])
        extra = {"target": rows.labels[i]} if self._takes_target else {}
        values = np.asarray(self.function(row, seed=seed, **extra))
        return values[0] if values.ndim == 2 and len(values) == 1 else values


def _takes(function: Callable[..., Any], name: str) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.name == name or p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
