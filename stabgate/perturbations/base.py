"""What every image perturbation is: a severity, a family, a way there and, if it moves pixels, a way back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from stabgate.errors import InputError
from stabgate.perturbations.checks import check_seeds, validate_images
from stabgate.seeds import isolated

if TYPE_CHECKING:
    import torch

Family = Literal["geometric", "photometric", "compression"]
FAMILIES: tuple[Family, ...] = get_args(Family)


class Perturbation:
    """A perturbation of images in [0, 1]. Subclass it as a frozen dataclass:

        @dataclass(frozen=True)
        class Gamma(Perturbation):
            severity: float = 2.0
            name, family = "gamma", "photometric"
            def transform(self, images): return images**self.severity

    or wrap a function with `Perturbation.custom`. Callers use `apply`, which checks what goes in and out.

    Attributes:
        name: of the kind of perturbation, in records and tables.
        family: "geometric" (moves pixels: needs `invert`), "photometric" or "compression".
        severity: how much, in the perturbation's own unit; see each class.
        random: draws numbers, so `apply` needs a seed for each image.
        draws_globally: may draw from the global generators of torch, NumPy or `random`, and is therefore asked image
            by image with these seeded; true of what users make, unless they say otherwise.
    """

    name: str
    family: Family
    severity: float
    random: bool = False
    draws_globally = True

    @property
    def label(self) -> str:
        """Name and severity, for people: "rotation 15°"."""
        return f"{self.name} {self.severity:g}"

    @property
    def strength(self) -> float:
        """Grows with the harm done, within one kind, whatever direction the severity runs in."""
        return abs(float(self.severity))

    def transform(self, images: torch.Tensor) -> torch.Tensor:
        """The perturbed images; what a subclass defines (if it is random: `draw`).

        Args:
            images: (n, c, h, w) in [0, 1], checked, on any device; never to be written to.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no transform(images)")

    def draw(self, images: torch.Tensor, seeds: Sequence[int]) -> torch.Tensor:
        """The perturbed images of a random perturbation, from one 32-bit integer per image.

        The result of an image must follow from the image and its own seed alone.
        """
        raise NotImplementedError(f"{type(self).__name__} is random and defines no draw(images, seeds)")

    def apply(self, images: Any, *, seeds: Sequence[int] | None = None) -> torch.Tensor:
        """Perturb a batch.

        Args:
            images: (n, channels, height, width) in [0, 1], floating point, 1, 3 or 4 channels.
            seeds: one integer (0 .. 2**32 - 1) per image, needed if `random`; 0 where they are left out. An image's
                result depends on its own seed only; global generators come back as they were.

        Returns:
            Perturbed images of the same shape, type and device, in [0, 1], without gradient.

        Raises:
            InputError: images or seeds that cannot be used, or a result that is not images in [0, 1].
        """
        checked = validate_images(images)
        import torch

        images = checked.detach()
        known = [0] * len(images)
        if self.random or (self.draws_globally and seeds is not None):
            known = check_seeds(seeds, len(images), self.label)
        with torch.no_grad():
            if not self.draws_globally or not len(images):
                return self._check_result(self._perturb(images, known), images)
            results = []
            for i, seed in enumerate(known):
                with _seeded(images.device, seed):
                    results.append(self._check_result(self._perturb(images[i : i + 1], [seed]), images[i : i + 1]))
            return torch.cat(results)

    def _perturb(self, images: torch.Tensor, seeds: Sequence[int]) -> torch.Tensor:
        return self.draw(images, seeds) if self.random else self.transform(images)

    def invert(self, maps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Bring maps of perturbed images back into the frame of the originals.

        Args:
            maps: (n, channels, height, width), any range and number of channels.

        Returns:
            Maps of the same shape, and the pixels that both images saw: bool (height, width). Where pixels do
            not move these are the maps themselves, and every pixel.

        Raises:
            InputError: a geometric perturbation that was given no inverse.
        """
        if self.family == "geometric":
            raise InputError(
                f"{self.label} is geometric but has no inverse, so its maps cannot be aligned: define "
                'invert() (inverse= of Perturbation.custom), or use protocol="published"'
            )
        return maps, all_valid(maps)

    def warp_labels(self, labels: Any) -> Any:
        """Segment labels of the originals carried along to the perturbed images.

        No label is invented: pixels that come from outside the image take the label of the nearest pixel at
        its border. A label whose segment left the image is missing in the result.

        Args:
            labels: integers (height, width) or (n, height, width), tensor or array.

        Returns:
            Labels of the same kind, type and shape.

        Raises:
            InputError: not integers, another shape, or a geometric perturbation that cannot carry labels.
        """
        check_labels(labels)
        if self.family == "geometric":
            raise InputError(f"{self.label} is geometric but does not say how labels move: define warp_labels()")
        return labels

    def for_protocol(self, protocol: str) -> Self:  # noqa: ARG002  # for those that ask
        """The perturbation with what it leaves to the protocol ("aligned", "published") filled in."""
        return self

    @staticmethod
    def custom(
        name: str,
        function: Callable[..., torch.Tensor],
        *,
        family: Family,
        severity: float = 1.0,
        random: bool = False,
        inverse: Callable[[torch.Tensor], Any] | None = None,
        labels: Callable[[Any], Any] | None = None,
    ) -> Perturbation:
        """A perturbation from a function.

            invert_colours = Perturbation.custom("negative", lambda images: 1 - images, family="photometric")
            mirror = Perturbation.custom(
                "mirror", lambda images: images.flip(3), family="geometric",
                inverse=lambda maps: maps.flip(3), labels=lambda labels: labels.flip(-1))

        Args:
            name: for records and tables.
            function: (n, c, h, w) images in [0, 1] to images of the same shape; if `random`, it is called as
                function(images, seeds) with one integer per image.
            family: "geometric", "photometric" or "compression".
            severity: a number for records and curves.
            random: see `function`.
            inverse: for a geometric perturbation: maps to maps in the original frame, or to a pair of those
                and the valid pixels, bool (h, w); without a mask every pixel is valid.
            labels: for a geometric perturbation: what `warp_labels` does.

        Raises:
            InputError: an unknown family, an empty name, something that cannot be called, or an inverse of a
                perturbation that moves nothing.
        """
        from stabgate.perturbations.custom import CustomPerturbation

        return CustomPerturbation(name, severity, family, function, random, inverse, labels)

    def _check_result(self, result: Any, images: torch.Tensor) -> torch.Tensor:
        import torch

        if not isinstance(result, torch.Tensor) or result.shape != images.shape:
            found = tuple(result.shape) if isinstance(result, torch.Tensor) else type(result).__name__
            raise InputError(f"{self.label} returned {found}; it must return a tensor {tuple(images.shape)}")
        try:
            return validate_images(result.to(images))
        except InputError as error:
            raise InputError(f"{self.label} returned what is not images in [0, 1]: {error}") from error


@contextmanager
def _seeded(device: torch.device, seed: int) -> Iterator[None]:
    """Global generators seeded, that of the device among them, and given back as they were."""
    import torch

    with isolated(seed), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


def all_valid(maps: torch.Tensor) -> torch.Tensor:
    """Bool (height, width), all true, on the maps' device."""
    import torch

    return torch.ones(maps.shape[-2:], dtype=torch.bool, device=maps.device)


def check_labels(labels: Any) -> None:
    """Raise InputError unless labels are integers (height, width) or (n, height, width)."""
    shape, kind = tuple(getattr(labels, "shape", ())), str(getattr(labels, "dtype", type(labels).__name__))
    if len(shape) not in (2, 3) or "int" not in kind:
        raise InputError(f"labels: {kind} of shape {shape}; give integers (height, width) or (n, height, width)")
