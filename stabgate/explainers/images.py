"""Explainers of images behind one protocol: maps of signed attributions, one seed per image, passes counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from stabgate.columns import Floats
from stabgate.errors import ExplainerError, InputError, StabgateError
from stabgate.explainers.base import installed_version, seeds_per_row
from stabgate.image_models import ImageModel, Passes, as_image_model, fit_for_gradients, image_targets
from stabgate.perturbations.checks import validate_images

if TYPE_CHECKING:
    import torch


class ImageExplainer(ABC):
    """An explainer of images in [0, 1].

    Subclasses say what they are called, which settings change their values, and compute `attributions`.

    Args:
        model: a torch module, a function of images, or an `ImageModel` (which explainers may share); None where
            the explainer needs none.
        device, normalize: as for `ImageModel`.

    Attributes:
        name: such as "captum.integrated-gradients", "grad-cam", "lime-image", "random".
        package: the distribution that computes, for the record.
        random: whether the seed changes the maps.
        needs_module: whether it needs a torch module, not just a function.
        baseline_of_calibration: whether it is RAND, which explains nothing and shows what that scores.
        passes: images through the network for maps so far, forward and backward. Predictions, looking for a
            layer and measuring batches are not among them.
    """

    name: str = "explainer"
    package: str | None = None
    random: bool = False
    needs_module: bool = True
    baseline_of_calibration: bool = False

    def __init__(self, model: Any, *, device: Any = "auto", normalize: Any = None) -> None:
        self._model = None if model is None else as_image_model(model, device=device, normalize=normalize)
        if self._model is not None and self.needs_module and not self._model.is_module:
            raise InputError(
                f"{self.name} looks inside the network, and {self._model.name} is a function; pass a torch module, "
                "or take LimeImage"
            )
        self.passes = Passes()

    @property
    def has_model(self) -> bool:
        """Whether there is a model whose predictions can be asked for."""
        return self._model is not None

    @property
    def model(self) -> ImageModel:
        """The network that is explained.

        Raises:
            InputError: the explainer was given none.
        """
        if self._model is None:
            raise InputError(f"{self.name} has no model, and its predictions are needed: pass it one")
        return self._model

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Every parameter that changes values, as plain JSON values."""

    @abstractmethod
    def attributions(
        self,
        images: torch.Tensor,
        targets: torch.Tensor,
        seeds: Sequence[int],
        segments: torch.Tensor | None,
        design: Sequence[int] | None,
    ) -> torch.Tensor:
        """What `maps` returns; the arguments are checked and on the device."""

    def segment(self, images: torch.Tensor, seeds: Sequence[int]) -> torch.Tensor | None:  # noqa: ARG002
        """Superpixels of images, long (n, height, width), numbered from 0 in each; None where there are none.

        Args:
            images: (n, channels, height, width) in [0, 1].
            seeds: one for each image; segmentations that draw nothing ignore them.
        """
        return None

    def maps(
        self,
        images: torch.Tensor,
        *,
        targets: torch.Tensor,
        seeds: Sequence[int],
        segments: torch.Tensor | None = None,
        design: Sequence[int] | None = None,
    ) -> torch.Tensor:
        """Signed attributions of the target outputs, detached, on the model's device.

        A map depends on its own image, target, seed and segments; other images in the call move it by rounding
        at most (1e-6 of its range).

        Args:
            images: (n, channels, height, width) in [0, 1], floating point.
            targets: long (n,), numbers of outputs.
            seeds: one integer from 0 to 2^32 - 1 for each image.
            segments: long (n, height, width), for LIME: labels from `segment`, or those of the original warped
                along with it. None segments the images themselves.
            design: for LIME: how many segments each original has (its highest label + 1), where `segments` were
                warped and may have lost some. The same seed and number give the same design matrix.

        Returns:
            (n, channels', height, width); channels' is 1 for Grad-CAM, LimeImage and Random, else the images'.

        Raises:
            InputError: arguments that do not fit each other, or a layer that does not exist.
            ModelError: the network raises or returns something else than outputs.
            ExplainerError: the method fails, returns NaN, or memory runs out on one image alone.
        """
        rows = len(images)
        if not rows:
            raise InputError("images is empty; give at least one")
        if tuple(targets.shape) != (rows,):
            raise InputError(f"targets has shape {tuple(targets.shape)} for {rows} images; give one for each")
        checked = seeds_per_row(list(seeds), rows)
        if segments is not None and tuple(segments.shape) != (rows, *images.shape[2:]):
            raise InputError(
                f"segments has shape {tuple(segments.shape)}; expected {(rows, *images.shape[2:])}: (n, height, width)"
            )
        if design is not None and len(design) != rows:
            raise InputError(f"design has {len(design)} numbers for {rows} images; give one for each")
        import torch

        images = fit_for_gradients(images) if self._model is None else self._model.as_input(images)
        before = Passes() if self._model is None else self._model.passes
        try:
            with torch.inference_mode(False):
                maps = self.attributions(
                    images,
                    fit_for_gradients(targets).to(images.device),
                    checked,
                    None if segments is None else fit_for_gradients(segments).to(images.device),
                    design,
                )
        except StabgateError:
            raise
        except Exception as error:
            raise ExplainerError(f"{self.name}: {type(error).__name__}: {error}") from error
        if self._model is not None:
            self.passes += self._model.passes - before
        return self._checked(maps.detach(), images)

    def explain(self, X: Any, *, seed: int | Sequence[int], target: Any = None) -> Floats:
        """Attributions (instances, channels, height, width), float64, signed, of the target output.

        Args:
            X: images (n, channels, height, width) in [0, 1], tensor or array, 1, 3 or 4 channels.
            seed: one integer for all images, or one for each. Values equal a direct call of the package on that
                image alone with that seed and the same settings.
            target: the number of an output, or one for each image; None explains the only output, or the
                predicted class of each image.

        Raises:
            InputError, ModelError, ExplainerError: as `maps`; also images that are not in [0, 1].
        """
        images = validate_images(X)
        seeds = seeds_per_row(seed, len(images))
        if self._model is None:
            import torch

            if target is not None:
                raise InputError(f"target={target!r}: {self.name} was given no model, so it has no targets")
            targets = torch.zeros(len(images), dtype=torch.long)
        else:
            self._model.check_repeatable(images)
            targets = image_targets(target, self._model.predict(images), self._model.name)
        maps = self.maps(images, targets=targets, seeds=seeds)
        return np.asarray(maps.cpu().numpy(), dtype=np.float64)

    def describe(self) -> dict[str, Any]:
        """What is recorded about the explainer: name, settings, package version, model, notes."""
        record: dict[str, Any] = {"explainer": self.name, "settings": self.settings()}
        if self.package is not None:
            record["package"] = {self.package: installed_version(self.package)}
        if self._model is not None:
            model = self._model.record()
            notes = model.pop("notes")
            record |= {"model": model.pop("name"), "network": model}
            if notes:
                record["notes"] = notes
        return record

    def with_model(self, model: ImageModel) -> Self:
        """The same explainer of another model; its passes start at zero."""
        other = copy(self)
        other._model = model
        other.passes = Passes()
        other.forget()
        return other

    def on(self, device: Any) -> Self:
        """The same explainer on another device."""
        return self if self._model is None else self.with_model(self._model.on(device))

    def forget(self) -> None:  # noqa: B027  # most have nothing to drop
        """Drop what was found out about the model."""

    def _checked(self, maps: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        import torch

        rows, _, height, width = images.shape
        if maps.ndim != 4 or len(maps) != rows or tuple(maps.shape[2:]) != (height, width):
            raise ExplainerError(
                f"{self.name} returned shape {tuple(maps.shape)} for {rows} images of {height} x {width}; expected "
                f"({rows}, channels, {height}, {width})"
            )
        finite = torch.isfinite(maps).flatten(1).all(dim=1)
        if not bool(finite.all()):
            bad = np.flatnonzero(~finite.cpu().numpy())
            raise ExplainerError(
                f"{self.name} returned NaN or infinity for {len(bad)} of {rows} images, first at index {bad[0]}"
            )
        return maps.to(torch.float64 if images.dtype == torch.float64 else torch.float32)


def as_image_explainer(explainer: Any) -> ImageExplainer:
    """The explainer of images that `explainer` is, or stands for.

    `Captum`, `Random` and `Custom` explain tables and images alike: they hand over to an explainer of images,
    which they keep.

    Raises:
        InputError: it explains no images, or its settings do not fit images.
    """
    if isinstance(explainer, ImageExplainer):
        return explainer
    offer = getattr(explainer, "for_images", None)
    if callable(offer) and not isinstance(explainer, type):
        images = offer()
        assert isinstance(images, ImageExplainer)
        return images
    what = explainer.__name__ if isinstance(explainer, type) else type(explainer).__name__
    raise InputError(
        f"explainer is {'the class ' if isinstance(explainer, type) else ''}{what}, which explains no images; "
        "pass sg.explainers.Captum(network), GradCam(network), LimeImage(network), Random() or Custom(function)"
    )
