"""Which pairs of an image and its perturbed copy are attempted, and which of them keep the prediction."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stabgate.columns import Floats
from stabgate.errors import MissingDependencyError
from stabgate.measure.fass.invariance import Invariance
from stabgate.perturbations import Perturbation
from stabgate.seeds import row_seed

if TYPE_CHECKING:
    import torch

# What becomes of a pair. Every attempted pair is exactly one of these.
RETAINED = "retained"
CHANGED = "prediction changed"
NO_SIGNAL = "no signal"
ERROR = "error"
STATUSES = (RETAINED, CHANGED, NO_SIGNAL, ERROR)

CHUNK = 16  # images perturbed, predicted and explained together; the model's own batches may be smaller
REASON_LENGTH = 300  # characters of an exception's text that a reason keeps
MOST_DRAWS = 20  # of a random perturbation per image, where re-drawing was asked for


@dataclass(frozen=True)
class Pair:
    """One attempted pair, under one method.

    Attributes:
        image: the image's id.
        perturbation: name and severity: "rotation 15°".
        kind, severity, family: of the perturbation.
        draw: 0, or the number of the re-drawing of a random perturbation.
        method: the explainer's name.
        target: the explained output; None where the model could not say.
        status: "retained" (the prediction held and there is a score), "prediction changed", "no signal" or "error".
        reason: why it is not retained; empty where it is.
        ssim, spearman, jaccard, fass: of a retained pair; None for every other one.
    """

    image: Hashable
    perturbation: str
    kind: str
    severity: float
    family: str
    draw: int
    method: str
    target: int | None
    status: str
    reason: str = ""
    ssim: float | None = None
    spearman: float | None = None
    jaccard: float | None = None
    fass: float | None = None


@dataclass(frozen=True)
class Originals:
    """The images to be perturbed, and what the model says of them.

    Attributes:
        images: ``(n, c, h, w)`` in [0, 1].
        ids: n of them.
        outputs: float64 ``(n, outputs)``; NaN for an image on which the model failed.
        targets: int ``(n,)``, the explained output of each image.
        failures: the reason for each image on which the model failed.
    """

    images: torch.Tensor
    ids: tuple[Hashable, ...]
    outputs: Floats
    targets: NDArray[np.intp]
    failures: dict[int, str]


@dataclass(frozen=True)
class Attempt:
    """One image under one perturbation, before any explanation: the positions of both, the draw and what became of it.

    `status` is RETAINED where the prediction held; whether there is a score is settled by each method.
    """

    image: int
    perturbation: int
    draw: int
    status: str
    reason: str = ""


class Draws:
    """Seeds of one measurement: of perturbations and of explanations, by image id and never by position."""

    def __init__(self, seed: int, ids: Sequence[Hashable], protocol: str) -> None:
        self._seed, self._ids, self._protocol = seed, ids, protocol

    def of_original(self, image: int, run: int = 0) -> int:
        """For explaining an original; run 1 is the re-seed reference."""
        return row_seed(self._seed, run, self._ids[image])

    def of_perturbation(self, image: int, perturbation: Perturbation, draw: int) -> int:
        return row_seed(self._seed, draw, ("perturbation", perturbation.label, self._ids[image]))

    def of_copy(self, image: int, perturbation: Perturbation, draw: int, *, baseline: bool = False) -> int:
        """For explaining a perturbed copy: the original's where pairs are aligned, a new one as published.

        The random baseline always gets a new one: with equal seeds it would be a constant, and score 1.
        """
        if self._protocol == "aligned" and not baseline:
            return self.of_original(image)
        return row_seed(self._seed, draw, ("explanation", perturbation.label, self._ids[image]))


def each(
    call: Callable[[list[int]], Sequence[Any]], items: Sequence[int], *, first: type[Exception] | tuple[()] = ()
) -> tuple[dict[int, Any], dict[int, str]]:
    """`call` on all items at once, and one by one if that raises, so that one culprit loses only itself.

    Args:
        first: exceptions that are raised if they are what the first item alone gives.

    Returns:
        What `call` returned for each item, and the reason for each item on which it raised.
    """
    results: dict[int, Any] = {}
    reasons: dict[int, str] = {}
    items = list(items)
    if not items:
        return results, reasons
    try:
        results = dict(zip(items, call(items), strict=True))
    except MissingDependencyError:
        raise
    except Exception as error:
        if len(items) == 1:
            if isinstance(error, first):
                raise
            return {}, {items[0]: reason_of(error)}
        for i, item in enumerate(items):
            found, failed = each(call, [item], first=() if i else first)
            results |= found
            reasons |= failed
    return results, reasons


def reason_of(error: Exception) -> str:
    """An exception as one line."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= REASON_LENGTH else text[: REASON_LENGTH - 1] + "…"


def chunks(items: Sequence[int], size: int = CHUNK) -> list[list[int]]:
    """Items in order, at most `size` at a time."""
    return [list(items[i : i + size]) for i in range(0, len(items), size)]


def predictions(
    predict: Callable[[torch.Tensor], Any], take: Callable[[list[int]], torch.Tensor], items: Sequence[int]
) -> tuple[dict[int, Floats], dict[int, str]]:
    """Outputs ``(outputs,)`` of each item, and why there are none for the others.

    Args:
        predict: images ``(n, c, h, w)`` to outputs ``(n, outputs)``.
        take: items to images.
    """

    def call(some: list[int]) -> Sequence[Floats]:
        return list(predict(take(some)).detach().double().cpu().numpy())

    results: dict[int, Floats] = {}
    reasons: dict[int, str] = {}
    for some in chunks(items):
        found, failed = each(call, some)
        reasons |= failed
        for item, outputs in found.items():
            if np.isfinite(outputs).all():
                results[item] = outputs
            else:
                reasons[item] = "the model's output is NaN or infinite"
    return results, reasons


def attempt(
    predict: Callable[[torch.Tensor], Any],
    originals: Originals,
    perturbations: Sequence[Perturbation],
    invariance: Invariance,
    draws: Draws,
    *,
    device: Any,
    redraw: int | None = None,
) -> list[Attempt]:
    """Perturb every image by every perturbation and ask the model whether its prediction holds.

    Args:
        redraw: go on drawing a random perturbation until this many pairs keep the prediction, images that have
            none first, at most 20 draws an image. Every draw is an attempt.

    Returns:
        Attempts in the order of perturbations, draws and images.
    """
    everyone = range(len(originals.ids))
    attempts: list[Attempt] = []
    for p, perturbation in enumerate(perturbations):
        found = attempt_one(predict, originals, perturbation, invariance, draws, everyone, p=p, device=device)
        if redraw is not None and perturbation.random:
            for draw in range(1, MOST_DRAWS):
                kept = [a.image for a in found if a.status == RETAINED]
                missing = redraw - len(kept)
                if missing <= 0:
                    break
                again = [i for i in everyone if i not in originals.failures]
                again = [i for i in again if i not in kept] or again[:missing]
                found += attempt_one(
                    predict, originals, perturbation, invariance, draws, again, p=p, device=device, draw=draw
                )
        attempts += found
    return attempts


def attempt_one(
    predict: Callable[[torch.Tensor], Any],
    originals: Originals,
    perturbation: Perturbation,
    invariance: Invariance,
    draws: Draws,
    images: Sequence[int],
    *,
    p: int,
    device: Any,
    draw: int = 0,
) -> list[Attempt]:
    """One perturbation of some images."""
    usable = [i for i in images if i not in originals.failures]

    def take(some: list[int]) -> torch.Tensor:
        return perturbed(originals, perturbation, draws, [(i, draw) for i in some], device)

    outputs, failures = predictions(predict, take, usable)
    settled: dict[int, tuple[str, str]] = {i: (ERROR, reason) for i, reason in failures.items()}
    settled |= {i: (ERROR, f"original: {reason}") for i, reason in originals.failures.items()}
    seen = list(outputs)
    if seen:
        after = np.stack([outputs[i] for i in seen])
        changes = invariance.changes(originals.outputs[seen], after, originals.targets[seen])
        settled |= {i: (CHANGED, why) if why else (RETAINED, "") for i, why in zip(seen, changes, strict=True)}
    return [Attempt(i, p, draw, *settled[i]) for i in images]


def perturbed(
    originals: Originals, perturbation: Perturbation, draws: Draws, which: Sequence[tuple[int, int]], device: Any
) -> torch.Tensor:
    """Perturbed copies of (image, draw) on the device; the same ones whenever they are asked for."""
    images = originals.images[[i for i, _ in which]].to(device)
    return perturbation.apply(images, seeds=[draws.of_perturbation(i, perturbation, draw) for i, draw in which])
