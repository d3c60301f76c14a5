"""What may be perturbed: batches of images in [0, 1], and one seed per image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stabgate.errors import InputError
from stabgate.similarity.backend import require_torch

if TYPE_CHECKING:
    import torch

CHANNELS = (1, 3, 4)  # grey, RGB, RGB with alpha


def validate_images(images: Any) -> torch.Tensor:
    """Images as a torch tensor, or an error that says what they look like and what to do.

    Args:
        images: (n, channels, height, width), a floating-point torch tensor or NumPy array in [0, 1], with 1,
            3 or 4 channels, before the model's own normalisation. Values may leave [0, 1] by rounding (4
            eps).

    Returns:
        The same tensor (an array becomes a tensor that shares its memory where it can).

    Raises:
        InputError: another type, shape or number of channels, values outside [0, 1], NaN or infinity.
    """
    torch = require_torch("perturbing images")
    if not isinstance(images, torch.Tensor):
        array = np.asarray(images)
        if array.dtype.kind not in "fiub":
            raise InputError(f"images holds {array.dtype}; give numbers in [0, 1]")
        if array.dtype.kind == "f" and array.dtype.itemsize > 8:
            array = array.astype(np.float64)
        array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
        images = torch.from_numpy(array if array.flags.writeable else array.copy())
    _check_type(images)
    _check_shape(tuple(images.shape))
    if images.numel():
        _check_range(images)
    return images  # type: ignore[no-any-return]  # Any came in, and was narrowed by hand above


def check_seeds(seeds: Any, n: int, label: str) -> list[int]:
    """One seed per image as plain integers.

    Raises:
        InputError: none were given, another number than n, or not integers in 0 .. 2**32 - 1 (the generator
            uses 32 bits: larger seeds would collide silently).
    """
    if seeds is None:
        raise InputError(f"{label} is random: give seeds=, one integer for each of the {n} images")
    if isinstance(seeds, str | bytes | int | np.integer) or not isinstance(seeds, Sequence | np.ndarray):
        raise InputError(f"seeds={seeds!r}: give a sequence of integers, one for each of the {n} images")
    if len(seeds) != n:
        raise InputError(f"seeds has {len(seeds)} entries for {n} images; give one for each")
    for i, seed in enumerate(seeds):
        whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
        if not whole or not 0 <= seed < 2**32:
            raise InputError(f"seeds[{i}]={seed!r}: give an integer from 0 to 2**32 - 1")
    return [int(seed) for seed in seeds]


def check_severity(
    severity: Any,
    name: str,
    low: float,
    high: float,
    *,
    unit: str,
    open_low: bool = False,
    neutral: float | None = None,
) -> None:
    """Raise InputError unless severity is a finite number within low..high (above low if `open_low`), not `neutral`."""
    number = isinstance(severity, int | float | np.integer | np.floating) and not isinstance(severity, bool)
    if not number or not low <= severity <= high or (open_low and severity == low):  # NaN is in no range
        bounds = f"above {low:g} and at most {high:g}" if open_low else f"from {low:g} to {high:g}"
        raise InputError(f"{name}: severity={severity!r}; give {unit}, a number {bounds}")
    if severity == neutral:
        raise InputError(f"{name}: severity={severity!r} changes nothing, and every pair would score 1: give another")


def _check_type(images: torch.Tensor) -> None:
    import torch

    if images.dtype == torch.uint8:
        raise InputError("images are uint8 (0 to 255); divide by 255: images.float() / 255")
    if not images.is_floating_point():
        raise InputError(f"images are {images.dtype}; give floating-point values in [0, 1]")


def _check_shape(shape: tuple[int, ...]) -> None:
    wanted = "give (n, channels, height, width) with 1, 3 or 4 channels"
    if len(shape) in (2, 3):
        what, fix = ("one image", "images[None]") if len(shape) == 3 else ("one grey image", "images[None, None]")
        raise InputError(f"images has shape {shape}, which looks like {what}: use {fix}; {wanted}")
    if len(shape) != 4:
        raise InputError(f"images has {len(shape)} dimensions, shape {shape}; {wanted}")
    if shape[1] not in CHANNELS:
        hint = ""
        if shape[3] in CHANNELS:
            hint = ", which looks like channels last: use images.permute(0, 3, 1, 2)"
        raise InputError(f"images has shape {shape}, so {shape[1]} channels{hint}; {wanted}")
    if 0 in shape[2:]:
        raise InputError(f"images has shape {shape} with a side of length 0; {wanted}")


def _check_range(images: torch.Tensor) -> None:
    import torch

    flat = images.detach().flatten(1)
    low, high = flat.amin(dim=1), flat.amax(dim=1)  # NaN in an image makes both NaN
    finite = torch.isfinite(low) & torch.isfinite(high)
    if not bool(finite.all()):
        bad = torch.nonzero(~finite).flatten().tolist()
        raise InputError(f"images hold NaN or infinity ({len(bad)} of {len(flat)}, first at index {bad[0]})")
    slack = 4.0 * torch.finfo(images.dtype).eps
    outside = (low < -slack) | (high > 1.0 + slack)
    if not bool(outside.any()):
        return
    first = int(torch.nonzero(outside)[0])
    smallest, largest = float(low.min()), float(high.max())
    if smallest < 0.0:
        advice = "undo the normalisation (images * std + mean) and leave it to the model"
    elif 2.0 < largest <= 255.0:
        advice = "divide by 255"
    else:
        advice = "scale them into [0, 1]"
    raise InputError(
        f"images reach from {smallest:.4g} to {largest:.4g}, outside [0, 1] (first at index {first}): {advice}"
    )
