"""Grad-CAM: where the last stage of a network looks, by Captum.

Source: R. R. Selvaraju et al., "Grad-CAM: Visual Explanations from Deep Networks via Gradient-based Localization"
(ICCV 2017), eq. 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from stabgate.errors import InputError
from stabgate.explainers.base import require
from stabgate.explainers.images import ImageExplainer
from stabgate.explainers.layers import Layer, captured, find_layer, given_layer, layer_name
from stabgate.explainers.options import flag

if TYPE_CHECKING:
    import torch


class GradCam(ImageExplainer):
    """Grad-CAM of a layer, resized to the image.

    The mean over the plane of the gradients of the target output weighs the channels of the layer's output; their
    sum is the map (n, 1, height, width), signed unless `relu`, resized bilinearly with corners not aligned. For
    layers (n, channels, height, width) the values are those of Captum's LayerGradCam; tokens (n, tokens, channels)
    are laid out as the plane of patches first, without the class token.

    Args:
        model: a torch module (n, channels, height, width) -> (n,) or (n, outputs), or an `ImageModel`.
        layer: the name of a layer, or a module of the network. None is the last convolutional stage, or the last
            block whose patch tokens have gradients, found on the first image (see `layers.find_layer`).
        reshape: turns the layer's output into (n, channels, height, width), for layers that are neither of the
            two; needs `layer`.
        relu: only the positive part, as in the paper.
        device, normalize: as for `ImageModel`.

    Raises:
        InputError: no torch module, or a layer that does not exist.
    """

    name = "grad-cam"
    package = "captum"

    def __init__(
        self,
        model: Any,
        *,
        layer: Any = None,
        reshape: Callable[[Any], Any] | None = None,
        relu: bool = False,
        device: Any = "auto",
        normalize: Any = None,
    ) -> None:
        if model is None:
            raise InputError("grad-cam needs a network")
        super().__init__(model, device=device, normalize=normalize)
        if reshape is not None and (layer is None or not callable(reshape)):
            raise InputError("reshape= is a function of the output of layer=, so name that layer")
        self.asked_layer = None if layer is None else layer_name(self.model, layer)
        self.reshape = reshape
        self.relu = flag("relu", relu)
        self._layer: Layer | None = None

    def settings(self) -> dict[str, Any]:
        """Also the layer's name, which is None until one was found, and how it was found."""
        found = self.asked_layer if self._layer is None else self._layer.name
        settings: dict[str, Any] = {
            "layer": found,
            "layer_by": "user" if self.asked_layer else "search",
            "relu": self.relu,
        }
        if self._layer is not None and self._layer.grid is not None:
            settings |= {"tokens": list(self._layer.grid), "tokens_dropped": self._layer.prefix}
        if self.reshape is not None:
            settings["reshape"] = getattr(self.reshape, "__name__", type(self.reshape).__name__)
        return settings

    def layer(self, images: torch.Tensor, targets: torch.Tensor) -> Layer:
        """The layer, found on the first image if it was not named.

        Raises:
            InputError: none could be found, or the one named cannot be used.
        """
        if self._layer is None:
            first = images[:1]
            if self.asked_layer is None:
                self._layer = find_layer(self.model, first, int(targets[0]))
            else:
                self._layer = given_layer(self.model, self.asked_layer, first, self.reshape)
        return self._layer

    def attributions(
        self,
        images: torch.Tensor,
        targets: torch.Tensor,
        seeds: Sequence[int],  # noqa: ARG002  # nothing is drawn
        segments: torch.Tensor | None,  # noqa: ARG002
        design: Sequence[int] | None,  # noqa: ARG002
    ) -> torch.Tensor:
        """Maps (n, 1, height, width)."""
        import torch
        from torch.nn.functional import interpolate

        layer = self.layer(images, targets)
        direct = layer.grid is None and self.reshape is None
        with self.model.working(gradient=True) as network:
            module = network.inner.get_submodule(layer.name)

            def work(start: int, end: int) -> torch.Tensor:
                inputs = images[start:end].clone().requires_grad_(True)
                asked = targets[start:end]
                plane = (
                    self._by_captum(network, module, inputs, asked)
                    if direct
                    else self._by_hand(network, module, inputs, asked, layer)
                )
                return interpolate(plane.detach(), images.shape[2:], mode="bilinear", align_corners=False)

            return torch.cat(self.model.in_batches(images, work, gradient=True))

    def forget(self) -> None:
        self._layer = None

    def _by_captum(self, network: Any, module: Any, inputs: Any, targets: Any) -> torch.Tensor:
        captum = require("captum.attr", "torch")
        plane: torch.Tensor = captum.LayerGradCam(network, module).attribute(
            inputs, target=targets, relu_attributions=self.relu
        )
        return plane

    def _by_hand(self, network: Any, module: Any, inputs: Any, targets: Any, layer: Layer) -> torch.Tensor:
        """Captum's formula takes the second dimension for channels, which in tokens is the third."""
        import torch

        plane = self.reshape or (lambda output: layer.plane(output[0] if isinstance(output, tuple) else output))
        with captured(module) as outputs:
            scores = network(inputs)
        laid = plane(outputs[0])
        source = outputs[0][0] if isinstance(outputs[0], (tuple, list)) else outputs[0]
        (gradient,) = torch.autograd.grad(scores.gather(1, targets[:, None]).sum(), source)
        weights = plane(gradient).mean(dim=(2, 3), keepdim=True)
        result: torch.Tensor = (weights * laid).sum(dim=1, keepdim=True)
        return result.relu() if self.relu else result
