"""Explainers of images behind one face: maps of many images, each with its own target, seed and segments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stabgate.errors import ExplainerError, InputError
from stabgate.measure.fass.pairs import each

if TYPE_CHECKING:
    import torch

    from stabgate.image_models import ImageModel

    # Segments (some, h, w) of some positions, and how many segments each original has, where they were carried along.
    Segments = tuple[torch.Tensor, Sequence[int] | None]


@dataclass(frozen=True)
class Method:
    """One explainer under the name that results give it.

    Image explainers (`stabgate.explainers.images`) are asked for maps of a batch; anything else with
    ``explain(X, *, seed, target=None)`` is asked image by image, in the kind of container the user brought.

    Attributes:
        batched: an image explainer.
        as_array: hand NumPy arrays to a plain explainer, not tensors.
    """

    name: str
    explainer: Any
    batched: bool = True
    as_array: bool = False

    @property
    def baseline(self) -> bool:
        """RAND, the calibration baseline: what no explanation at all scores."""
        return self.batched and self.explainer.baseline_of_calibration

    def segments(self, images: torch.Tensor, seeds: Sequence[int]) -> torch.Tensor | None:
        """Segments ``(n, h, w)`` where the method works on segments."""
        found: torch.Tensor | None = self.explainer.segment(images, seeds) if self.batched else None
        return found

    def maps(
        self, images: torch.Tensor, *, targets: Sequence[int], seeds: Sequence[int], segments: Segments | None = None
    ) -> torch.Tensor:
        """Maps ``(n, c', h, w)``, detached.

        Raises:
            ExplainerError: another number of maps, or maps of another size than the images.
        """
        import torch

        if self.batched:
            index = torch.as_tensor(list(targets), dtype=torch.long, device=images.device)
            labels, design = (None, None) if segments is None else segments
            maps = self.explainer.maps(images, targets=index, seeds=list(seeds), segments=labels, design=design)
        else:
            one_each = zip(images, targets, seeds, strict=True)
            maps = torch.cat([self._explain(image[None], target, seed) for image, target, seed in one_each])
        n, _, h, w = images.shape
        shape = tuple(maps.shape)
        if len(shape) != 4 or shape[0] != n or shape[2:] != (h, w):
            raise ExplainerError(f"{self.name} returned maps {shape} for images {tuple(images.shape)}")
        detached: torch.Tensor = maps.detach()
        return detached

    def maps_each(
        self,
        images: torch.Tensor,
        *,
        targets: Sequence[int],
        seeds: Sequence[int],
        segments: Callable[[list[int]], Segments | None],
        first: bool = False,
    ) -> tuple[dict[int, torch.Tensor], dict[int, str]]:
        """Maps ``(c', h, w)`` by position, and why there is none at the others.

        Args:
            segments: those of some positions, or None where the method has none; a failure of theirs is a failure
                of that image.
            first: nothing was explained yet, and an InputError of the first image is the user's to put right.

        Raises:
            InputError: see `first`.
        """

        def call(some: list[int]) -> Sequence[torch.Tensor]:
            return list(
                self.maps(
                    images[some],
                    targets=[targets[i] for i in some],
                    seeds=[seeds[i] for i in some],
                    segments=segments(some),
                )
            )

        return each(call, range(len(images)), first=InputError if first else ())

    def passes(self) -> tuple[int, int]:
        """Images sent forward and backward for maps so far; zeros where the explainer does not count."""
        counted = getattr(self.explainer, "passes", None)
        return (0, 0) if counted is None else (int(counted.forward), int(counted.backward))

    def describe(self) -> dict[str, Any]:
        """What is recorded: name, settings (target layer among them), package version, model."""
        describe = getattr(self.explainer, "describe", None)
        return dict(describe()) if callable(describe) else {"explainer": type(self.explainer).__name__}

    def _explain(self, image: torch.Tensor, target: int, seed: int) -> torch.Tensor:
        import torch

        given = image.cpu().numpy() if self.as_array else image
        values = np.array(self.explainer.explain(given, seed=seed, target=target))
        return torch.as_tensor(values, device=image.device)


def as_methods(explainer: Any, *, as_array: bool, device: Any) -> tuple[Method, ...]:
    """One explainer, or several by name, on the device.

    Raises:
        InputError: none, or something that explains no images.
    """
    from stabgate.explainers.base import TableExplainer
    from stabgate.explainers.images import ImageExplainer, as_image_explainer

    if isinstance(explainer, Mapping):
        if not explainer:
            raise InputError("explainer is an empty mapping: give at least one {name: explainer}")
        named = {str(name): item for name, item in explainer.items()}
    else:
        named = {str(getattr(explainer, "name", type(explainer).__name__)): explainer}
    methods = []
    for name, item in named.items():
        if isinstance(item, TableExplainer) and not callable(getattr(item, "for_images", None)):
            raise InputError(
                f"{name!r} is {type(item).__name__}, which explains the rows of tables, not images; take Captum, "
                "GradCam, LimeImage, Random or Custom"
            )
        plain = not isinstance(item, ImageExplainer) and not callable(getattr(item, "for_images", None))
        if plain and callable(getattr(item, "explain", None)) and not isinstance(item, type):
            methods.append(Method(name, item, batched=False, as_array=as_array))
            continue
        images = as_image_explainer(item)
        own_name = images.name if not isinstance(explainer, Mapping) else name
        methods.append(Method(own_name, images if device == "auto" else images.on(device)))
    return tuple(methods)


def shared_model(methods: Sequence[Method], model: Any, device: Any) -> ImageModel:
    """The model whose predictions decide: the one given, or the one that the explainers share.

    Raises:
        InputError: no explainer has a model and none was given, or two explain different networks.
    """
    from stabgate.image_models import as_image_model

    own = {m.name: m.explainer.model for m in methods if m.batched and m.explainer.has_model}
    if model is not None:
        chosen, origin = as_image_model(model, device=device), "model="
    elif own:
        origin, chosen = next(iter(own.items()))
    else:
        raise InputError(f"{methods[0].name} has no model: pass model=, whose prediction must hold for a pair to count")
    for name, other in own.items():
        if other.given is not chosen.given:
            raise InputError(
                f"{name!r} explains another network than {origin}: a claim of stability is about one model; measure "
                "them apart"
            )
        if other.record()["normalize"] != chosen.record()["normalize"]:
            raise InputError(f"{name!r} normalises images otherwise than {origin}: give both the same normalize=")
    return chosen
