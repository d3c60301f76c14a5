"""LIME for images: the official package, with superpixels that can be kept for the perturbed copy.

Source: M. T. Ribeiro, S. Singh, C. Guestrin, "Why Should I Trust You?" (KDD 2016), section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stabgate.errors import InputError
from stabgate.explainers.base import require
from stabgate.explainers.images import ImageExplainer
from stabgate.explainers.options import count, number, one_of
from stabgate.explainers.segments import as_rgb, checked_segmentation, described, superpixels

if TYPE_CHECKING:
    import torch

DISTANCES = ("cosine", "euclidean", "manhattan", "chebyshev")


class LimeImage(ImageExplainer):
    """LIME by the `lime` package's `LimeImageExplainer`.

    An attribution is the weight of a superpixel in a ridge regression that is fitted to the outputs of copies of
    the image in which random superpixels are hidden; all pixels of a superpixel have its weight. In units of the
    output. The outputs are the network's as they are (probabilities if it returns probabilities).

    The values equal those of the package for one image, `random_state` the seed and the same settings. Which
    superpixels are hidden in which copy (the design matrix) follows from the seed and the number of superpixels
    alone, so both members of a pair get the same.

    Args:
        model: a torch module, a function of images (n, channels, height, width), or an `ImageModel`.
        num_samples: copies, at least 2; the first is the image itself.
        segmentation: "auto" (see `segments.superpixels`) or a function from an image (height, width, 3) to labels.
        hide_color: what hidden superpixels become: None for their own mean colour, or a number in [0, 1].
        kernel_width: of the exponential kernel, above 0.
        distance_metric: between designs: "cosine", "euclidean", "manhattan" or "chebyshev".
        ridge: L2 penalty of the regression, at least 0.
        device, normalize: as for `ImageModel`.

    Raises:
        InputError: an option is unknown or out of range.
    """

    name = "lime-image"
    package = "lime"
    random = True
    needs_module = False

    def __init__(
        self,
        model: Any,
        *,
        num_samples: int = 1000,
        segmentation: Any = "auto",
        hide_color: float | None = None,
        kernel_width: float = 0.25,
        distance_metric: str = "cosine",
        ridge: float = 1.0,
        device: Any = "auto",
        normalize: Any = None,
    ) -> None:
        if model is None:
            raise InputError("lime-image needs a model")
        super().__init__(model, device=device, normalize=normalize)
        self.num_samples = count("num_samples", num_samples, least=2)
        self.segmentation = checked_segmentation(segmentation)
        self.hide_color = None if hide_color is None else number("hide_color", hide_color, above_zero=False)
        if self.hide_color is not None and self.hide_color > 1:
            raise InputError(f"hide_color={hide_color!r}; it must be in [0, 1], as the images are")
        self.kernel_width = number("kernel_width", kernel_width, above_zero=True)
        self.distance_metric = one_of("distance_metric", distance_metric, DISTANCES)
        self.ridge = number("ridge", ridge, above_zero=False)

    def settings(self) -> dict[str, Any]:
        return {
            "num_samples": self.num_samples,
            "segmentation": described(self.segmentation),
            "hide_color": self.hide_color,
            "kernel_width": self.kernel_width,
            "distance_metric": self.distance_metric,
            "ridge": self.ridge,
        }

    def segment(self, images: torch.Tensor, seeds: Sequence[int]) -> torch.Tensor:  # noqa: ARG002
        """Superpixels, long (n, height, width); the seeds are not needed."""
        return superpixels(images, self.segmentation)

    def attributions(
        self,
        images: torch.Tensor,
        targets: torch.Tensor,
        seeds: Sequence[int],
        segments: torch.Tensor | None,
        design: Sequence[int] | None,
    ) -> torch.Tensor:
        """Maps (n, 1, height, width)."""
        import torch

        labels = self.segment(images, seeds) if segments is None else segments
        counts = segment_counts(labels, design)
        with self.model.working(gradient=False):
            maps = [self._one(images[i], int(targets[i]), seeds[i], labels[i], counts[i]) for i in range(len(images))]
        return torch.stack(maps)

    def _one(self, image: torch.Tensor, target: int, seed: int, labels: torch.Tensor, segments: int) -> torch.Tensor:
        import torch
        from sklearn.linear_model import Ridge

        places = labels.cpu().numpy()

        def scores(fudged: NDArray[Any], shown: NDArray[Any]) -> NDArray[Any]:
            """Outputs of copies in which only the superpixels of each row of `shown` are the image's own."""
            hidden = image.clone()  # of four channels, the last stays
            colours = min(len(image), 3)
            hidden[:colours] = torch.as_tensor(fudged.transpose(2, 0, 1)[:colours].copy()).to(image)
            rows = torch.as_tensor(shown.astype(bool), device=image.device)
            outputs = []
            size = self.model.batch_size(image[None], gradient=False, rows=len(rows))
            for start in range(0, len(rows), size):
                copies = torch.where(rows[start : start + size][:, labels][:, None], image, hidden)
                outputs.append(self.model.forward(copies).double().cpu())
            return torch.cat(outputs).numpy()

        explainer = _explainer(self.kernel_width, seed, segments, scores)
        explanation = explainer.explain_instance(
            as_rgb(image),
            None,
            labels=(target,),
            top_labels=None,
            hide_color=self.hide_color,
            num_samples=self.num_samples,
            segmentation_fn=lambda _: places,
            distance_metric=self.distance_metric,
            model_regressor=Ridge(alpha=self.ridge, fit_intercept=True, random_state=explainer.random_state),
        )
        weights = np.zeros(segments)
        for segment, weight in explanation.local_exp[target]:
            weights[int(segment)] = weight
        return torch.as_tensor(weights[places][None], dtype=image.dtype, device=image.device)


def segment_counts(labels: torch.Tensor, design: Sequence[int] | None) -> list[int]:
    """How many superpixels each design matrix has.

    Raises:
        InputError: negative labels, or labels beyond the number that `design` gives.
    """
    highest = [int(one.max()) for one in labels]
    if int(labels.min()) < 0:
        raise InputError(f"segments holds {int(labels.min())}; labels start at 0")
    if design is None:
        return [top + 1 for top in highest]
    for i, (top, given) in enumerate(zip(highest, design, strict=True)):
        if top >= given:
            raise InputError(f"segments of image {i} reach label {top}, and design says there are {given}")
    return [int(given) for given in design]


def _explainer(kernel_width: float, seed: int, segments: int, scores: Any) -> Any:
    """The package's explainer with copies made on the device, and as many superpixels as the original had.

    The package counts the superpixels that it finds, so that one that left the image would change the whole
    design matrix.
    """
    base: Any = require("lime.lime_image", "lime").LimeImageExplainer

    class Explainer(base):  # type: ignore[misc]  # the package has no types
        def data_labels(
            self,
            image: Any,  # noqa: ARG002
            fudged_image: Any,
            segment_labels: Any,  # noqa: ARG002
            classifier_fn: Any,  # noqa: ARG002
            num_samples: int,
            **_: Any,
        ) -> tuple[Any, Any]:
            shown = self.random_state.randint(0, 2, num_samples * segments).reshape(num_samples, segments)
            shown[0] = 1
            return shown, scores(fudged_image, shown)

    return Explainer(kernel_width=kernel_width, feature_selection="none", random_state=seed)
