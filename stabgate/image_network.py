"""The torch module that explainers of images see: images in [0, 1] in, outputs (n, outputs) out, rows counted.

The one file that imports torch at its top, because it defines a torch module; `image_models` imports it when a
network is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from stabgate.batches import is_out_of_memory
from stabgate.errors import ModelError


class ImageNetwork(nn.Module):
    """A user's network behind its own normalisation.

    `forward` takes (n, channels, height, width) in [0, 1] and returns (n, outputs), of the network's type; a
    network that returns (n,) gets a second dimension. It works on a copy of the images, so that in-place
    operations inside do not change them.

    Attributes:
        inner: the user's network.
        forward_rows: images that went through it.
        backward_rows: images that gradients came back through, from the outputs.
    """

    def __init__(
        self,
        inner: nn.Module,
        name: str,
        normalize: Callable[[torch.Tensor], Any] | None,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.inner = inner
        self.name = name
        self.normalize = normalize
        self.dtype = dtype
        self.forward_rows = 0
        self.backward_rows = 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Outputs (n, outputs).

        Raises:
            ModelError: the network raises (anything but being out of memory), or returns something else.
        """
        rows = len(images)
        try:
            inputs = images.to(self.dtype).clone()
            if self.normalize is not None:
                inputs = self.normalize(inputs)
            raw = self.inner(inputs)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            raise ModelError(
                f"{self.name} raised {type(error).__name__} on images {tuple(images.shape)}: {error}"
            ) from error
        outputs = self._checked(raw, rows)
        self.forward_rows += rows
        if outputs.requires_grad:
            outputs.register_hook(self._count_backward)  # type: ignore[no-untyped-call]  # torch leaves it so
        return outputs

    def _count_backward(self, gradient: torch.Tensor) -> None:
        self.backward_rows += len(gradient)

    def _checked(self, raw: Any, rows: int) -> torch.Tensor:
        if not isinstance(raw, torch.Tensor):
            what = f"a tuple of {len(raw)}" if isinstance(raw, tuple) else type(raw).__name__
            raise ModelError(
                f"{self.name} returned {what}; wrap it in a torch module that returns the tensor of outputs to "
                "explain, (n, outputs)"
            )
        outputs = raw[:, None] if raw.ndim == 1 else raw
        if outputs.ndim != 2 or len(outputs) != rows or outputs.shape[1] == 0:
            raise ModelError(
                f"{self.name} returned shape {tuple(raw.shape)} for {rows} images; expected ({rows},) or "
                f"({rows}, outputs): wrap it in a torch module that reduces its outputs to that"
            )
        if not outputs.is_floating_point():
            raise ModelError(f"{self.name} returned {outputs.dtype}; return scores or probabilities")
        return outputs


class FunctionModule(nn.Module):
    """A function of a tensor of images as a module; arrays that it returns become tensors."""

    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, images: torch.Tensor) -> Any:
        raw = self.function(images)
        return torch.as_tensor(raw, device=images.device) if hasattr(raw, "__array__") else raw


class MeanAndStd:
    """Normalisation of channels: (images - mean) / std."""

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        self.mean = mean
        self.std = std

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        return (images - self._shaped(self.mean, images)) / self._shaped(self.std, images)

    def _shaped(self, values: tuple[float, ...], images: torch.Tensor) -> torch.Tensor:
        if len(values) not in (1, images.shape[1]):
            raise ValueError(f"normalize has {len(values)} channels and the images {images.shape[1]}")
        return torch.tensor(values, dtype=images.dtype, device=images.device)[:, None, None]
