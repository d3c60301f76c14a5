"""Captum's attribution methods on images.

Source: N. Kokhlikyan et al., "Captum: A unified and generic model interpretability library for PyTorch" (arXiv
2009.07896); computed by the captum package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stabgate.errors import InputError
from stabgate.explainers.base import require
from stabgate.explainers.captum_methods import METHODS, TUNNELS, Method, accelerator_seeded, build, checked_options
from stabgate.explainers.images import ImageExplainer
from stabgate.explainers.layers import find_layer, given_layer, layer_name
from stabgate.explainers.lime_image import segment_counts
from stabgate.explainers.options import count, number
from stabgate.explainers.rectifiers import check_guided
from stabgate.explainers.segments import checked_segmentation, described, superpixels
from stabgate.image_models import fit_for_gradients
from stabgate.perturbations.checks import validate_images
from stabgate.seeds import isolated

if TYPE_CHECKING:
    import torch

# Batches are `ImageModel`'s, so Captum's parameters for them are not among the options. Window and stride of None:
# see `ImageCaptum`.
IMAGE_METHODS: dict[str, Method] = {
    "integrated-gradients": replace(
        METHODS["integrated-gradients"], call={"n_steps": 50, "quadrature": "gausslegendre"}
    ),
    "gradient-shap": METHODS["gradient-shap"],
    "saliency": METHODS["saliency"],
    "input-x-gradient": METHODS["input-x-gradient"],
    "occlusion": Method("Occlusion", "one", False, False, {}, {"window": None, "stride": None}),
    "guided-grad-cam": Method("GuidedGradCam", "none", True, False, {"layer": None}),
    "lime": replace(
        METHODS["lime"],
        construct={**METHODS["lime"].construct, "segmentation": "auto"},
        call={"n_samples": METHODS["lime"].call["n_samples"]},
    ),
}
SMOOTHABLE = ("integrated-gradients", "saliency", "input-x-gradient")
NOISE = 0.15  # of the range of images, the middle of the 10 to 20 % of Smilkov et al. 2017 (SmoothGrad)
WINDOWS = 8  # windows of occlusion along the shorter side, half overlapping: 15 x 15 places in a square image
# Numbers in the scaled or noisy copies of one call: 128 MB in single precision.
CELLS_OF_COPIES = 2**25


class ImageCaptum(ImageExplainer):
    """Attributions of a torch module by one of Captum's methods, image by image; `Captum` makes it for images.

    Values equal a direct call of Captum on one image, with torch's and NumPy's global generators seeded, the same
    baseline and the same parameters, to rounding. They belong to the image in [0, 1], before the network's own
    normalisation, in units of the output (saliency: output per unit of the pixel). Maps have the image's channels.

    Args:
        model: a torch module, or an `ImageModel`.
        method: a key of `IMAGE_METHODS`.
        background: images (rows, channels, height, width) that "gradient-shap" draws its baselines from.
        baseline: what stands for an absent pixel: "zeros" (black), or one number in [0, 1] for all channels or for
            each. Occlusion and LIME put it where they hide; it has no default other than black.
        noise_tunnel: "smoothgrad", "smoothgrad_sq" or "vargrad" average saliency, input x gradient or integrated
            gradients over noisy copies. SmoothGrad is saliency with "smoothgrad".
        nt_samples: noisy copies.
        nt_stdevs: standard deviation of the noise, in units of the image; 0.15 by default.
        device, normalize: as for `ImageModel`.
        options: parameters of the method: `n_steps`, `n_samples`, `stdevs`, ...; `window` and `stride` of
            "occlusion" in pixels (by default an eighth of the shorter side, and half the window); `layer` of
            "guided-grad-cam"; `segmentation` of "lime" (see `segments.superpixels`).

    Raises:
        InputError: no torch module, or a parameter is unknown, missing or out of range.
    """

    package = "captum"

    def __init__(
        self,
        model: Any,
        *,
        method: str = "integrated-gradients",
        background: Any = None,
        baseline: Any = None,
        noise_tunnel: str | None = None,
        nt_samples: int = 5,
        nt_stdevs: float | None = None,
        device: Any = "auto",
        normalize: Any = None,
        **options: Any,
    ) -> None:
        self.options = _checked(method, options)
        self.method = method
        self.known = IMAGE_METHODS[method]
        self.name = f"captum.{method}" + (f"+{noise_tunnel}" if noise_tunnel else "")
        self.random = self.known.random or noise_tunnel is not None
        super().__init__(model, device=device, normalize=normalize)
        self.tunnel = _tunnel(method, noise_tunnel, nt_samples, nt_stdevs)
        self.baseline = _baseline(self.known, method, baseline, background)
        self.background = None if background is None else validate_images(background).detach()
        self.asked_layer: str | None = None
        if self.options.get("layer") is not None:
            self.asked_layer = layer_name(self.model, self.options["layer"])
        self._layer = self.asked_layer
        self._guided = False

    def settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"method": self.method, **self.options}
        if "layer" in settings:
            settings |= {"layer": self._layer, "layer_by": "user" if self.asked_layer else "search"}
        if "segmentation" in settings:
            settings["segmentation"] = described(self.options["segmentation"])
        if self.background is not None:
            settings["background_images"] = len(self.background)
        elif self.known.baselines != "none":
            settings["baseline"] = list(self.baseline)
        return settings | {"noise_tunnel": self.tunnel}

    def segment(self, images: torch.Tensor, seeds: Sequence[int]) -> torch.Tensor | None:  # noqa: ARG002
        """Superpixels for "lime", None for the other methods; the seeds are not needed."""
        return superpixels(images, self.options["segmentation"]) if self.method == "lime" else None

    def attributions(
        self,
        images: torch.Tensor,
        targets: torch.Tensor,
        seeds: Sequence[int],
        segments: torch.Tensor | None,
        design: Sequence[int] | None,
    ) -> torch.Tensor:
        """Maps of the images' shape."""
        import torch

        if self.method == "guided-grad-cam":
            self._ready(images, targets)
            return torch.cat(
                self.model.in_batches(images, lambda a, b: self._guided_maps(images[a:b], targets[a:b]), gradient=True)
            )
        if self.method == "lime":
            labels = self.segment(images, seeds) if segments is None else segments
            assert labels is not None
            counts = segment_counts(labels, design)
            return torch.cat(
                [self._lime(images[i : i + 1], int(targets[i]), seeds[i], labels[i], n) for i, n in enumerate(counts)]
            )
        together = self._together(images)
        starts = range(0, len(images), together)
        return torch.cat([self._call(images[s : s + together], targets[s : s + together], seeds[s]) for s in starts])

    def forget(self) -> None:
        self._layer, self._guided = self.asked_layer, False

    def _together(self, images: torch.Tensor) -> int:
        """Images in one call of Captum. What draws is asked alone, to have a seed of its own; on a CPU everything
        is, because nothing is gained but by saliency, and a map is then the same whatever its neighbours are."""
        if self.random or self.method == "occlusion":
            return 1
        copies = int(self.options.get("n_steps", 1))
        if self.model.device.type == "cpu" and copies > 1:
            return 1
        return max(1, CELLS_OF_COPIES // (copies * images[0].numel()))

    def _call(self, images: torch.Tensor, targets: torch.Tensor, seed: int) -> torch.Tensor:
        """One call of Captum on images that need no seeds of their own, or on one image."""
        target: Any = int(targets[0]) if len(images) == 1 else targets
        ask: dict[str, Any] = {"target": target}
        ask |= {"method" if n == "quadrature" else n: self.options[n] for n in self.known.call}
        if self.known.baselines != "none":
            ask["baselines"] = self._baselines(images)
        with self.model.working(gradient=self.known.gradient) as network:
            if self.method == "occlusion":
                explainer = build(self.known, self.model.forward, self.options)
                ask |= self._windows(images, ask.pop("window"), ask.pop("stride"))
            else:
                explainer = build(self.known, network, self.options)
                explainer.gradient_func = self._in_batches(explainer.gradient_func)
            if self.tunnel is not None:
                explainer = require("captum.attr", "torch").NoiseTunnel(explainer)
                ask |= self.tunnel
            inputs = images.clone().requires_grad_(self.known.gradient)
            with (
                isolated(seed) if self.random else nullcontext(),
                accelerator_seeded(images.device, seed) if self.random else nullcontext(),
            ):
                maps: torch.Tensor = explainer.attribute(inputs, **ask)
            return maps.detach()

    def _in_batches(self, gradients: Callable[..., Any]) -> Callable[..., Any]:
        """Captum's function for gradients, asked batch by batch: its copies of an image need not fit together."""
        import torch

        def batched(
            forward_fn: Any, inputs: tuple[torch.Tensor, ...], target_ind: Any = None, *more: Any, **named: Any
        ) -> tuple[torch.Tensor, ...]:
            (rows,) = inputs

            def work(start: int, end: int) -> torch.Tensor:
                piece = rows[start:end].detach().requires_grad_(True)
                one_each = isinstance(target_ind, torch.Tensor) and target_ind.numel() == len(rows)
                target = target_ind[start:end] if one_each else target_ind
                found: torch.Tensor = gradients(forward_fn, (piece,), target, *more, **named)[0]
                return found.detach()

            return (torch.cat(self.model.in_batches(rows, work, gradient=True)),)

        return batched

    def _windows(self, images: torch.Tensor, window: int | None, stride: int | None) -> dict[str, Any]:
        channels, height, width = images.shape[1:]
        size = window or max(1, round(min(height, width) / WINDOWS))
        if size > min(height, width):
            raise InputError(f"window={size} is larger than the images, {height} x {width}")
        step = stride or max(1, size // 2)
        if step > size:
            raise InputError(f"stride={step} is larger than window={size}: pixels between would never be hidden")
        places = (-(-(height - size) // step) + 1) * (-(-(width - size) // step) + 1)
        return {
            "sliding_window_shapes": (channels, size, size),
            "strides": (channels, step, step),
            "perturbations_per_eval": self.model.batch_size(images, gradient=False, rows=places),
        }

    def _lime(self, image: torch.Tensor, target: int, seed: int, labels: torch.Tensor, segments: int) -> torch.Tensor:
        """Captum's LIME with `segments` superpixels, of which some may be missing from `labels`."""
        import torch

        # Captum renumbers a mask that lacks its first label, and counts to the highest. So those that are there
        # come first, and each keeps its own column of the design; with none missing nothing is renumbered.
        present = torch.unique(labels).tolist()
        order = present + sorted(set(range(segments)) - set(present))
        place = torch.empty(segments, dtype=torch.long)
        place[order] = torch.arange(segments)

        def design(_: Any, **__: Any) -> torch.Tensor:
            shown = torch.bernoulli(torch.full((1, segments), 0.5))  # what Captum draws
            return shown[:, order].long().to(image.device)

        n_samples = self.options["n_samples"]
        with self.model.working(gradient=False), isolated(seed):
            explainer = build(METHODS["lime"], self.model.forward, self.options, perturb_func=design)
            maps: torch.Tensor = explainer.attribute(
                image,
                baselines=self._baselines(image),
                target=target,
                feature_mask=place.to(image.device)[labels].expand(1, *image.shape[1:]),
                n_samples=n_samples,
                perturbations_per_eval=self.model.batch_size(image, gradient=False, rows=n_samples),
            )
        return maps.detach()

    def _ready(self, images: torch.Tensor, targets: torch.Tensor) -> None:
        """Find the layer of Guided Grad-CAM, and refuse networks on which it would not be guided."""
        if self._guided:
            return
        check_guided(self.model, images[:1])
        if self.asked_layer is None:
            found = find_layer(self.model, images[:1], int(targets[0]))
        else:
            found = given_layer(self.model, self.asked_layer, images[:1], None)
        if found.grid is not None:
            raise InputError(f"guided-grad-cam needs a convolutional layer; {found.name!r} returns tokens")
        self._layer, self._guided = found.name, True

    def _guided_maps(self, images: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        assert self._layer is not None
        with self.model.working(gradient=True) as network:
            guided = require("captum.attr", "torch").GuidedGradCam(network, network.inner.get_submodule(self._layer))
            maps: torch.Tensor = guided.attribute(
                images.clone().requires_grad_(True), target=targets, interpolate_mode="bilinear"
            )
            return maps.detach()

    def _baselines(self, images: torch.Tensor) -> torch.Tensor:
        """(1, ...) of the images' shape, or the background."""
        import torch

        if self.background is not None:
            if self.background.shape[1:] != images.shape[1:]:
                raise InputError(
                    f"background has images {tuple(self.background.shape[1:])}, and the images are "
                    f"{tuple(images.shape[1:])}: (channels, height, width)"
                )
            return fit_for_gradients(self.background).to(images)
        if len(self.baseline) not in (1, images.shape[1]):
            raise InputError(f"baseline has {len(self.baseline)} numbers for {images.shape[1]} channels")
        values = torch.tensor(self.baseline, dtype=images.dtype, device=images.device)[:, None, None]
        return values.expand(1, *images.shape[1:]).clone()


def _checked(method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    chosen = checked_options(method, options, IMAGE_METHODS)
    for name in ("window", "stride"):
        if chosen.get(name) is not None:
            chosen[name] = count(name, chosen[name], least=1)
    if "stdevs" in chosen:
        chosen["stdevs"] = number("stdevs", chosen["stdevs"], above_zero=False)
    if "segmentation" in chosen:
        checked_segmentation(chosen["segmentation"])
    return chosen


def _tunnel(method: str, kind: str | None, samples: int, stdevs: float | None) -> dict[str, Any] | None:
    if kind is None:
        return None
    if kind not in TUNNELS:
        raise InputError(f"noise_tunnel={kind!r}: choose one of {', '.join(TUNNELS)}, or None")
    if method not in SMOOTHABLE:
        raise InputError(f"noise_tunnel goes around the methods {', '.join(SMOOTHABLE)}, not {method}")
    return {
        "nt_type": kind,
        "nt_samples": count("nt_samples", samples, least=1),
        "stdevs": number("nt_stdevs", NOISE if stdevs is None else stdevs, above_zero=True),
    }


def _baseline(known: Method, method: str, baseline: Any, background: Any) -> tuple[float, ...]:
    if background is not None and known.baselines != "many":
        raise InputError(f"background= is for gradient-shap, which draws its baselines from it, not for {method}")
    if baseline is not None and (known.baselines == "none" or background is not None):
        why = f"{method} has none" if background is None else "the background takes its place"
        raise InputError(f"baseline={baseline!r}: {why}")
    if baseline is None or (isinstance(baseline, str) and baseline == "zeros"):
        return (0.0,)
    try:
        numbers = tuple(float(v) for v in np.atleast_1d(baseline))
    except (TypeError, ValueError) as error:
        raise InputError(f"baseline={baseline!r}: 'zeros', a number in [0, 1], or one per channel") from error
    if not all(0.0 <= v <= 1.0 for v in numbers):
        raise InputError(f"baseline={baseline!r}: numbers in [0, 1], as the images are")
    return numbers
