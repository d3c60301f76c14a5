"""Random maps (the calibration baseline) and functions that explain images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stabgate.errors import ExplainerError
from stabgate.explainers.images import ImageExplainer
from stabgate.seeds import isolated

if TYPE_CHECKING:
    import torch


class RandomImages(ImageExplainer):
    """Independent uniform values in [0, 1) at every pixel: what no explanation at all scores.

    Maps are (n, 1, height, width) and follow from the seed and the size alone.
    """

    name = "random"
    random = True
    needs_module = False
    baseline_of_calibration = True

    def settings(self) -> dict[str, Any]:
        return {"distribution": "uniform(0, 1)"}

    def attributions(
        self,
        images: torch.Tensor,
        targets: torch.Tensor,  # noqa: ARG002
        seeds: Sequence[int],
        segments: torch.Tensor | None,  # noqa: ARG002
        design: Sequence[int] | None,  # noqa: ARG002
    ) -> torch.Tensor:
        import torch

        maps = np.stack([np.random.default_rng(seed).random((1, *images.shape[2:]), np.float32) for seed in seeds])
        return torch.as_tensor(maps, device=images.device)


class CustomImages(ImageExplainer):
    """A function as an explainer of images, one image at a time.

    Args:
        function: called as ``function(image, seed=seed)`` with a tensor (1, channels, height, width) on the model's
            device; it also gets ``target=`` (the number of the output) where it has a parameter of that name. It
            returns (channels', height, width) or (1, channels', height, width), tensor or array. NumPy's, Python's
            and torch's global generators are seeded with the same seed.
        name, settings: for the record.
        takes_target: whether it has that parameter.
        model: its predictions; None where it has none.
    """

    random = True
    needs_module = False

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str,
        settings: dict[str, Any],
        takes_target: bool,
        model: Any = None,
    ) -> None:
        super().__init__(model)
        self.function = function
        self.name = name
        self.takes_target = takes_target
        self._settings = dict(settings)

    def settings(self) -> dict[str, Any]:
        return dict(self._settings)

    def attributions(
        self,
        images: torch.Tensor,
        targets: torch.Tensor,
        seeds: Sequence[int],
        segments: torch.Tensor | None,  # noqa: ARG002
        design: Sequence[int] | None,  # noqa: ARG002
    ) -> torch.Tensor:
        import torch

        maps = []
        for image, target, seed in zip(images, targets.tolist(), seeds, strict=True):
            extra = {"target": target} if self.takes_target else {}
            with isolated(seed):
                raw = self.function(image[None].clone(), seed=seed, **extra)
            one = self._as_map(raw, images)
            maps.append(one[0] if one.ndim == 4 and len(one) == 1 else one)
            if maps[-1].ndim != 3:
                raise ExplainerError(
                    f"{self.name} returned shape {tuple(one.shape)} for one image; expected (channels, height, width)"
                )
        return torch.stack(maps)

    def _as_map(self, raw: Any, images: torch.Tensor) -> torch.Tensor:
        import torch

        try:
            one = torch.as_tensor(raw, device=images.device).detach()
        except (TypeError, ValueError, RuntimeError):
            one = None
        if one is None or one.is_complex():
            what = type(raw).__name__ if one is None else "complex numbers"
            raise ExplainerError(f"{self.name} returned {what}; expected real numbers (channels, height, width)")
        return one
