"""From what a caller has (arrays, tensors, one map, a batch) to pairs of float64 tensors of a safe scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stabgate.errors import InputError
from stabgate.similarity.backend import float64_device, require_torch

if TYPE_CHECKING:
    import torch

# A range of at most this many units in the last place of the largest value is rounding, not signal
# (the noise floor of the other metrics: 16 eps max|a|).
NOISE_ULPS = 16.0


@dataclass(frozen=True)
class Maps:
    """One side of a comparison: values (pairs, channels, height, width) in the caller's type."""

    values: torch.Tensor
    eps: float
    batched: bool


def read_maps(maps: Any, name: str) -> Maps:
    """Read a NumPy array or torch tensor as (pairs, channels, height, width).

    Two dimensions are one map (height, width), three are **one** map (channels, height, width), four a batch;
    a batch of one-channel maps is therefore (n, 1, h, w).

    Raises:
        InputError: not numbers, another number of dimensions, or a side of length 0.
    """
    torch = require_torch("comparing attribution maps")
    tensor = maps.detach() if isinstance(maps, torch.Tensor) else _from_numpy(maps, name)
    if tensor.is_complex() or tensor.dtype == torch.bool:
        raise InputError(f"{name}: values are {tensor.dtype}; give a map of real numbers")
    shape = tuple(tensor.shape)
    if not 2 <= len(shape) <= 4:
        raise InputError(
            f"{name}: shape {shape}; give one map (height, width) or (channels, height, width), "
            "or a batch (n, channels, height, width)"
        )
    if 0 in shape[-3:]:
        raise InputError(f"{name}: shape {shape} has a side of length 0")
    eps = torch.finfo(tensor.dtype).eps if tensor.is_floating_point() else float(np.finfo(np.float64).eps)
    return Maps(tensor.reshape((1,) * (4 - len(shape)) + shape), eps, len(shape) == 4)


def check_same_shape(first: Maps, second: Maps) -> None:
    """Raise InputError unless both sides are the same number of maps of the same shape."""
    a, b = tuple(first.values.shape), tuple(second.values.shape)
    if a != b or first.batched != second.batched:
        raise InputError(
            f"the two sides differ in shape: {a if first.batched else a[1:]} and "
            f"{b if second.batched else b[1:]} (maps of another size are resized first, by you)"
        )


def common_device(first: Maps, second: Maps, *, prefer_first: bool) -> torch.device:
    """Where to compute: on the device of the tensors given; an array beside a tensor goes to the tensor."""
    return float64_device((first if prefer_first else second).values.device)


def largest_exponent(values: torch.Tensor) -> torch.Tensor:
    """(n, ...) -> (n,) int64: the smallest e with max|values| < 2**e; 0 for an all-zero entry."""
    import torch

    _, exponent = torch.frexp(values.abs().flatten(1).amax(dim=1))
    return exponent.to(torch.int64)


def times_power_of_two(values: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """values * 2**exponent, per entry of the batch and exactly: ties stay ties, and no value overflows.

    The score of maps multiplied by a constant then goes through the same digits, and 1e-12-scaled maps do not
    vanish beside the constants of SSIM.
    """
    import torch

    # The factor is assembled from its bits because neither exp2 nor pow promises an exact power. The clamp
    # keeps it a normal number; it only acts on values beyond 1e301 or below 1e-301, and by 2**24 there.
    bits = (exponent.clamp(-1000, 1000) + 1023) << 52
    return values * bits.view(torch.float64).reshape(-1, *(1,) * (values.ndim - 1))


def at_safe_scale(maps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Each map divided by a power of two so that its largest value is below 1.

    Args:
        maps: (n, c, h, w) float64.

    Returns:
        The maps, the exponent of each (n,), and whether each was finite (n,); zeros replace a map that was
        not.
    """
    import torch

    finite = torch.isfinite(maps).flatten(1).all(dim=1)
    maps = maps.masked_fill(~finite[:, None, None, None], 0.0)
    exponent = largest_exponent(maps)
    return times_power_of_two(maps, -exponent), exponent, finite


def _from_numpy(maps: Any, name: str) -> torch.Tensor:
    import torch

    if np.ma.isMaskedArray(maps):
        raise InputError(f"{name}: a masked array; give the values, and the mask as valid=")
    try:
        array = np.asarray(maps)
    except ValueError as error:
        raise InputError(f"{name}: not a rectangular array of numbers ({error})") from error
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name}: values are {array.dtype}; give a map of real numbers")
    if array.dtype.kind in "iu" or array.dtype.itemsize > 8 or not array.dtype.isnative:
        array = array.astype(np.float64)
    array = np.ascontiguousarray(array)
    # torch warns on an array it must not write to; a copy is cheaper than a warning in every test run.
    return torch.from_numpy(array if array.flags.writeable else array.copy())
