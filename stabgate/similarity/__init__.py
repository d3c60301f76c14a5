"""How alike two attribution maps are: SSIM, rank correlation, top-k overlap, and their mean, the FASS score.

    >>> import numpy as np
    >>> from stabgate.similarity import compare_maps
    >>> maps = np.random.default_rng(0).normal(size=(2, 3, 32, 32))
    >>> compare_maps(maps, maps).fass.tolist()
    [1.0, 1.0]

Source: [F] "Feature Attribution Stability Suite", arXiv 2604.02532. Importing this room leaves torch alone.
"""

from stabgate.similarity.aligned import Alignment, Reduction, ssim_window
from stabgate.similarity.compare import (
    DEFAULT_REDUCTION,
    DEFAULT_TOP,
    DEFAULT_WEIGHTS,
    Protocol,
    compare_maps,
)
from stabgate.similarity.result import (
    MEASURED,
    NO_OVERLAP,
    NO_SIGNAL,
    NOT_FINITE,
    MapSimilarity,
    score_above_floor,
)

__all__ = [
    "DEFAULT_REDUCTION",
    "DEFAULT_TOP",
    "DEFAULT_WEIGHTS",
    "MEASURED",
    "NOT_FINITE",
    "NO_OVERLAP",
    "NO_SIGNAL",
    "Alignment",
    "MapSimilarity",
    "Protocol",
    "Reduction",
    "compare_maps",
    "score_above_floor",
    "ssim_window",
]
