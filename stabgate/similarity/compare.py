"""`compare_maps`: two attribution maps, or two batches of them, to a `MapSimilarity`."""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from stabgate.errors import InputError
from stabgate.similarity.aligned import REDUCTIONS, Alignment, Reduction, aligned_scores, ssim_window
from stabgate.similarity.backend import require_torch
from stabgate.similarity.published import check_published_size, published_scores
from stabgate.similarity.reading import check_same_shape, common_device, read_maps
from stabgate.similarity.result import COMPONENTS, MEASURED, MapSimilarity

if TYPE_CHECKING:
    import torch

Protocol = Literal["aligned", "published"]

DEFAULT_WEIGHTS: Mapping[str, float] = {"ssim": 1.0, "spearman": 1.0, "jaccard": 1.0}
DEFAULT_REDUCTION: Reduction = "signed-sum"
DEFAULT_TOP = 0.05

# Elements per stack of maps worked on at once. On a CPU about one map of 3 x 224 x 224: the twenty float64
# stacks of a step then stay near the cache (55 ms a pair, published protocol, against 110 ms at eight maps).
CHUNK_ELEMENTS_CPU = 2**18
CHUNK_ELEMENTS_GPU = 2**24


def compare_maps(
    a: Any,
    b: Any,
    *,
    protocol: Protocol = "aligned",
    weights: Mapping[str, float] | Sequence[float] = DEFAULT_WEIGHTS,
    reduction: Reduction = DEFAULT_REDUCTION,
    top: float = DEFAULT_TOP,
    alignment: Alignment | None = None,
    valid: Any = None,
) -> MapSimilarity:
    """Compare attribution maps of originals with those of their perturbed copies [F].

    Args:
        a: maps of the originals: one map (h, w) or (c, h, w), or a batch (n, c, h, w); a NumPy array or a
            torch tensor of any real type. Three dimensions are always one map with channels.
        b: maps of the perturbed images, of the same shape. The work is done in float64 on the tensors'
            device.
        protocol: "aligned" compares what both maps saw; "published" reproduces the paper (signed, every
            channel, top 100 elements, no alignment) and takes none of the options below.
        weights: of the three components in `.fass`, by name or in the order ssim, spearman, jaccard.
        reduction: of the channels: "signed-sum", "abs-sum" or "positive" (positive part of the signed sum).
        top: fraction of the valid pixels whose overlap is the Jaccard component, above 0 and at most 1.
        alignment: the perturbation that made the images of `b`; its `invert` brings the maps back. Leave it
            out if the maps are in place already.
        valid: bool (h, w), (n, h, w) or (n, 1, h, w): pixels to compare, beside those that the alignment
            allows.

    Returns:
        Floats for two maps, masked arrays (n,) for two batches. A pair is not measured, with a reason, if a
        map is constant over the pixels compared ("no signal": a range of at most 16 eps of its largest value,
        eps that of its own number type), holds NaN or infinity ("not finite"), or if no whole SSIM window is
        valid in both ("no overlap").

    Raises:
        InputError: shapes that differ or cannot be read, maps below 3 pixels a side (aligned) or with at most
            100 elements (published), an option out of range or without effect.
        MissingDependencyError: torch is not installed.
    """
    torch = require_torch("comparing attribution maps")
    shares = _read_weights(weights)
    first, second = read_maps(a, "a"), read_maps(b, "b")
    check_same_shape(first, second)
    _check_options(protocol, reduction, top, alignment, valid)
    shape = tuple(first.values.shape)
    if protocol == "published":
        check_published_size(shape)
    else:
        ssim_window(*shape[-2:])
    device = common_device(first, second, prefer_first=_is_tensor(a))
    allowed = None if valid is None else _read_valid(valid, shape, device)

    n = shape[0]
    step = max(1, (CHUNK_ELEMENTS_CPU if device.type == "cpu" else CHUNK_ELEMENTS_GPU) // math.prod(shape[1:]))
    components, reasons, pixels = np.empty((n, 3)), [MEASURED] * n, np.empty(n, dtype=np.int64)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        x, y = (side.values[rows].to(device).to(torch.float64) for side in (first, second))
        precision = (first.eps, second.eps)
        if protocol == "published":
            scores = published_scores(x, y, eps=precision)
        else:
            mask = None if allowed is None else allowed[rows]
            scores = aligned_scores(
                x, y, alignment=alignment, allowed=mask, reduction=reduction, top=top, eps=precision
            )
        components[rows], reasons[rows], pixels[rows] = scores.to_numpy()

    unmeasured = np.array([reason != MEASURED for reason in reasons], dtype=bool)
    # Zero under the mask: code that ignores masks then errs towards failing, and NaN has nowhere to leak
    # from.
    components[unmeasured] = 0.0
    masked = np.ma.MaskedArray(components, mask=np.repeat(unmeasured[:, None], 3, axis=1), fill_value=0.0)
    return MapSimilarity(protocol, shares, first.batched, masked, tuple(reasons), pixels)


def _check_options(protocol: str, reduction: str, top: float, alignment: Alignment | None, valid: Any) -> None:
    if protocol not in typing.get_args(Protocol):
        raise InputError(f'protocol={protocol!r}: choose "aligned" or "published"')
    if reduction not in REDUCTIONS:
        raise InputError(f"reduction={reduction!r}: choose one of {', '.join(map(repr, REDUCTIONS))}")
    if alignment is not None and (isinstance(alignment, type) or not callable(getattr(alignment, "invert", None))):
        raise InputError(f"alignment={alignment!r}: give the perturbation that made the images, such as Rotation(15)")
    if isinstance(top, bool) or not 0.0 < top <= 1.0:
        raise InputError(f"top={top!r}: give a fraction of the valid pixels above 0 and at most 1")
    if protocol == "published":
        given = {
            "reduction": reduction != DEFAULT_REDUCTION,
            "top": top != DEFAULT_TOP,
            "alignment": alignment is not None,
            "valid": valid is not None,
        }
        if any(given.values()):
            names = ", ".join(name for name, is_given in given.items() if is_given)
            raise InputError(
                f'{names} has no effect with protocol="published", which compares every element of the maps '
                'as they are: leave it out, or use protocol="aligned"'
            )


def _read_weights(weights: Mapping[str, float] | Sequence[float]) -> tuple[float, float, float]:
    if isinstance(weights, Mapping):
        if set(weights) != set(COMPONENTS):
            raise InputError(f"weights has the names {sorted(weights)}; give exactly {', '.join(COMPONENTS)}")
        values = [weights[name] for name in COMPONENTS]
    else:
        values = list(weights)
    if len(values) != len(COMPONENTS):
        raise InputError(f"weights has {len(values)} numbers; give one each for {', '.join(COMPONENTS)}")
    total = math.fsum(values)
    if not (all(math.isfinite(w) and w >= 0.0 for w in values) and total > 0.0):
        raise InputError(f"weights={values}: give finite numbers of at least 0, not all of them 0")
    ssim, spearman, jaccard = (float(w) / total for w in values)
    return ssim, spearman, jaccard


def _read_valid(valid: Any, shape: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Any accepted mask -> bool (n, h, w)."""
    import torch

    mask = valid.detach() if _is_tensor(valid) else torch.from_numpy(np.array(valid))
    n, _, h, w = shape
    if mask.dtype != torch.bool:
        raise InputError(f"valid holds {mask.dtype}; give booleans, true where a pixel may be compared")
    if tuple(mask.shape) not in {(h, w), (n, h, w), (n, 1, h, w)}:
        raise InputError(f"valid has shape {tuple(mask.shape)}; give {(h, w)}, {(n, h, w)} or {(n, 1, h, w)}")
    return mask.to(device).reshape(-1, h, w).expand(n, h, w)


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)
