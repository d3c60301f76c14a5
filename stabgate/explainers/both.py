"""Explainers that take tables and images alike: what they are given decides."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stabgate.columns import Floats
from stabgate.explainers.base import TableExplainer

if TYPE_CHECKING:
    from stabgate.explainers.images import ImageExplainer


class TableOrImageExplainer(TableExplainer):
    """A `TableExplainer` that hands images over to an `ImageExplainer` of its own."""

    @abstractmethod
    def for_images(self) -> ImageExplainer:
        """The explainer of images with the same settings, always the same object.

        Raises:
            InputError: the settings do not fit images.
        """

    def explain(self, X: Any, *, seed: int | Sequence[int], target: Any = None) -> Floats:
        """Attributions of rows, as `TableExplainer.explain`, or of images, as `ImageExplainer.explain`.

        Args:
            X: rows, or images (n, channels, height, width) in [0, 1]: what has four dimensions are images.
            seed, target: as for either.
        """
        if getattr(X, "ndim", 0) == 4:
            return self.for_images().explain(X, seed=seed, target=target)
        return super().explain(X, seed=seed, target=target)
