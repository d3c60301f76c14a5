"""What a comparison of maps returns: scores where there are any, and why there are none elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from stabgate.errors import InputError

COMPONENTS = ("ssim", "spearman", "jaccard")

# The statuses of a pair. Only MEASURED pairs have scores; every other pair is still counted.
MEASURED = "measured"
NO_SIGNAL = "no signal"
NO_OVERLAP = "no overlap"
NOT_FINITE = "not finite"

Scores = np.ma.MaskedArray[tuple[int], np.dtype[np.float64]]
Number = TypeVar("Number", float, npt.NDArray[np.float64])


@dataclass(frozen=True, eq=False)
class MapSimilarity:
    """The similarity of one pair of attribution maps, or of each pair of two batches.

    `.ssim`, `.spearman`, `.jaccard` and `.fass` are, for two maps, a float, or None where the pair was not
    measured; for two batches a masked array (pairs,) whose unmeasured entries are masked: `.mean()`, `.min()`
    and pandas leave them out, and no entry is ever NaN. `.scores()` gives the arrays in both cases.

    Ranges: ssim -1..1 (not remapped), spearman 0..1 (that is (rho + 1) / 2), jaccard 0..1, fass their
    weighted mean. Identical maps score 1. Higher is better.

    Attributes:
        protocol: "aligned" or "published".
        weights: of ssim, spearman, jaccard in `.fass`; they sum to 1.
        batched: two batches were given, not two maps.
        components: masked array (pairs, 3) of ssim, spearman, jaccard.
        reasons: one text per pair: "measured", or "no signal: ...", "no overlap: ...", "not finite: ...".
        pixels: (pairs,) the number of pixels compared (`published`: of map elements).
    """

    protocol: str
    weights: tuple[float, float, float]
    batched: bool
    components: np.ma.MaskedArray[tuple[int, int], np.dtype[np.float64]]
    reasons: tuple[str, ...]
    pixels: npt.NDArray[np.int64]

    def __len__(self) -> int:
        """The number of pairs, measured or not."""
        return len(self.reasons)

    def __iter__(self) -> Iterator[MapSimilarity]:
        return (self.pair(i) for i in range(len(self)))

    @property
    def ssim(self) -> float | Scores | None:
        return self._given_shape("ssim")

    @property
    def spearman(self) -> float | Scores | None:
        return self._given_shape("spearman")

    @property
    def jaccard(self) -> float | Scores | None:
        return self._given_shape("jaccard")

    @property
    def fass(self) -> float | Scores | None:
        return self._given_shape("fass")

    @property
    def measured(self) -> bool | npt.NDArray[np.bool_]:
        """Whether there are scores: a bool, or (pairs,)."""
        measured = ~self._unmeasured()
        return measured if self.batched else bool(measured[0])

    @property
    def status(self) -> str | tuple[str, ...]:
        """The short form of `reason`: "measured", "no signal", "no overlap" or "not finite"."""
        short = tuple(reason.split(":")[0] for reason in self.reasons)
        return short if self.batched else short[0]

    @property
    def reason(self) -> str | tuple[str, ...]:
        """ "measured", or why there is no score: a text, or one per pair."""
        return self.reasons if self.batched else self.reasons[0]

    def scores(self) -> dict[str, Scores]:
        """ssim, spearman, jaccard and fass as masked arrays (pairs,), whatever was compared."""
        columns = {name: self.components[:, i] for i, name in enumerate(COMPONENTS)}
        # One order of additions and one division: three components of exactly 1 then average to exactly 1.
        total = sum(w * column for w, column in zip(self.weights, columns.values(), strict=True))
        fass = np.ma.MaskedArray(total / sum(self.weights), mask=self._unmeasured(), fill_value=0.0)
        return {**columns, "fass": fass}

    def pair(self, index: int) -> MapSimilarity:
        """The result of one pair, as if its two maps had been compared alone."""
        i = range(len(self))[index]
        return MapSimilarity(
            self.protocol,
            self.weights,
            False,
            self.components[i : i + 1],
            self.reasons[i : i + 1],
            self.pixels[i : i + 1],
        )

    def _unmeasured(self) -> npt.NDArray[np.bool_]:
        return np.array([reason != MEASURED for reason in self.reasons], dtype=bool)

    def _given_shape(self, name: str) -> float | Scores | None:
        column = self.scores()[name]
        if self.batched:
            return column
        return None if self._unmeasured()[0] else float(column.data[0])


def score_above_floor(fass: Number, floor: float) -> Number:
    """How far a score stands above its floor: (FASS - floor) / (1 - floor).

    0 is the score against the map of another image, 1 a perfect score; below 0 the explanation is less like
    itself than like another image's.

    Args:
        fass: one score, or an array of them (masked entries stay masked).
        floor: the mean score against the maps of other images, below 1.

    Raises:
        InputError: the floor is not a finite number below 1: no score can stand above it.
    """
    if not (math.isfinite(floor) and floor < 1.0):
        raise InputError(f"floor={floor!r}: give a finite number below 1 (a floor of 1 leaves nothing to reach)")
    return (fass - floor) / (1.0 - floor)
