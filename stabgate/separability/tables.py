"""Each density once, on its own grid: a fast Gauss transform and a polynomial per grid cell.

Evaluating all kernels of both features on a grid for each pair costs pairs x grid x runs exponentials. Here
each density is tabulated once, and a pair only looks values up. The grid of a feature covers the
neighbourhoods of its points, `REACH` bandwidths to either side; beyond, a density is below 1e-14 and counts
as 0. Points more than two reaches apart open a new segment, so outliers cost no empty grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from stabgate.separability._checks import Floats, Ints
from stabgate.separability.density import Mixtures

NODES_PER_BANDWIDTH = 4
REACH = 8  # bandwidths: 2 Phi(-8) = 1.2e-15 of a kernel's mass lies beyond
MARGIN = REACH * NODES_PER_BANDWIDTH

# A point is moved to its nearest node, at most 1/8 bandwidth away, by a Taylor series of its kernel; term 9
# and the later ones are below 1e-11 (2e-14 times the largest ninth derivative).
TAYLOR_TERMS = 9

# Longer transforms than this leave the cache and gain nothing.
TRANSFORM_NODES = 1 << 15


@dataclass(frozen=True)
class Tables:
    """Densities and their integrals, tabulated.

    Segment s belongs to `column[s]`; its node k lies `(k - MARGIN) * step[s]` right of the segment's first
    point, which is at `anchor[s] + first_point[s]`. Row `first[s] + k` of the coefficients is the integral
    over the cell from node k to node k + 1 as a polynomial in t in [0, 1]; its derivative is the density in
    units of 1 / step. The last node of a segment has the constant that the segment's mass is.

    Segments are sorted by instance, then from fine to coarse bandwidths, then by position.

    Attributes:
        column, anchor, first_point, step, first, count: (segments,); count in nodes.
        end: (segments,) index one behind the last segment of the same column.
        instance_end: (segments,) index one behind the last segment of the same instance.
        coefficients: (7, nodes), from the constant to t^6.
    """

    column: Ints
    anchor: Floats
    first_point: Floats
    step: Floats
    first: Ints
    count: Ints
    end: Ints
    instance_end: Ints
    coefficients: Floats


def tabulate(parts: Mixtures, features: int) -> Tables:
    """Tables of the columns that have points; `features` columns form an instance."""
    rank = _order(parts, features)
    point = np.argsort(rank[parts.point_column], kind="stable")
    column, offset, mass = parts.point_column[point], parts.point_offset[point], parts.point_mass[point]
    h = parts.bandwidth[column]

    opens = np.ones(column.size, dtype=bool)
    opens[1:] = (column[1:] != column[:-1]) | (np.diff(offset) > 2 * REACH * h[1:])
    starts = np.flatnonzero(opens)
    segment = np.cumsum(opens) - 1
    segment_column, step = column[starts], h[starts] / NODES_PER_BANDWIDTH
    last = np.append(starts, column.size)[1:] - 1
    length = (offset[last] - offset[starts]) / step
    count = np.ceil(length).astype(np.intp) + 2 * MARGIN + 1
    first = np.cumsum(count) - count

    place = (offset - offset[starts][segment]) / step[segment]
    nearest = np.rint(place)
    residual = (place - nearest) / NODES_PER_BANDWIDTH
    moments = _moments(first[segment] + MARGIN + nearest.astype(np.intp), residual, mass, int(count.sum()))
    instance = segment_column // features
    density = np.empty((3, moments.shape[1]))
    for begin, end in _transform_slices(instance, first, count):
        density[:, begin:end] = _gauss_transform(moments[:, begin:end])

    return Tables(
        column=segment_column,
        anchor=parts.anchor[segment_column],
        first_point=offset[starts],
        step=step,
        first=first,
        count=count,
        end=np.searchsorted(rank[segment_column], rank[segment_column], side="right"),
        instance_end=np.searchsorted(instance, instance, side="right"),
        coefficients=_polynomials(density, first, count),
    )


def _order(parts: Mixtures, features: int) -> Ints:
    """Rank of each column: instances in order, fine bandwidths first in each.

    Equal bandwidths are told apart by where the sample starts, not by the column's number, so that the result
    does not depend on the order of the features.
    """
    instance = np.arange(parts.anchor.size) // features
    by_rank = np.lexsort((parts.anchor, parts.bandwidth, instance))
    rank = np.empty_like(by_rank)
    rank[by_rank] = np.arange(by_rank.size)
    return rank


def _moments(node: Ints, residual: Floats, mass: Floats, nodes: int) -> Floats:
    """(TAYLOR_TERMS, nodes): sums of mass (-residual)^k / k! over the points nearest to each node."""
    moments = np.empty((TAYLOR_TERMS, nodes))
    term = mass
    for k in range(TAYLOR_TERMS):
        moments[k] = np.bincount(node, weights=term, minlength=nodes)
        term = term * residual / -(k + 1)
    return moments


def _transform_slices(instance: Ints, first: Ints, count: Ints) -> list[tuple[int, int]]:
    """Node ranges to transform together: never two instances, so that none depends on its batch."""
    slices = []
    begin = 0
    for s in range(len(first)):
        end = int(first[s] + count[s])
        final = s + 1 == len(first)
        if final or instance[s + 1] != instance[s] or end + int(count[s + 1]) - begin > TRANSFORM_NODES:
            slices.append((begin, end))
            begin = end
    return slices


@lru_cache(maxsize=16)
def _kernel_spectrum(length: int) -> tuple[NDArray[np.complex128], Floats]:
    """i omega, and the spectrum of a Gaussian kernel's mass per cell, for a grid of `length` nodes."""
    omega = 2 * math.pi * NODES_PER_BANDWIDTH * np.arange(length // 2 + 1, dtype=np.float64) / length
    kernel: Floats = np.exp(-0.5 * np.square(omega))
    derivative: NDArray[np.complex128] = np.asarray(1j * omega, dtype=np.complex128)
    return derivative, kernel


def _gauss_transform(moments: Floats) -> Floats:
    """Density per cell and its first two derivatives in cell units, (3, nodes).

    Segments lie in a row with margins of `REACH` bandwidths, so neighbours do not reach each other, nor does
    the end of the circle reach its beginning. The spectrum of a kernel is 1e-34 at the grid's highest
    frequency: derivatives are exact in frequency space.
    """
    nodes = moments.shape[1]
    length = 1 << max(6, (nodes - 1).bit_length())
    if nodes <= 3 * length // 4:
        length = 3 * length // 4
    derivative, kernel = _kernel_spectrum(length)
    spectra = scipy.fft.rfft(moments, length, axis=1)
    total = spectra[-1]
    for k in range(TAYLOR_TERMS - 2, -1, -1):
        total = total * derivative + spectra[k]
    cell = 1.0 / NODES_PER_BANDWIDTH
    stack = np.empty((3, total.size), dtype=np.complex128)
    stack[0] = total * kernel
    stack[1] = stack[0] * derivative * cell
    stack[2] = stack[1] * derivative * cell
    found: Floats = scipy.fft.irfft(stack, length, axis=1)[:, :nodes]
    np.maximum(found[0], 0.0, out=found[0])
    return found


def _polynomials(density: Floats, first: Ints, count: Ints) -> Floats:
    """Integral per cell: of the quintic through value, slope and curvature at both nodes."""
    value, slope, curvature = density
    half = 0.5 * curvature
    c = np.zeros((7, value.size))
    c[1, :-1], c[2, :-1], c[3, :-1] = value[:-1], slope[:-1], half[:-1]
    a = value[1:] - value[:-1] - slope[:-1] - half[:-1]
    b = slope[1:] - slope[:-1] - curvature[:-1]
    d = half[1:] - half[:-1]
    c[4, :-1] = 10 * a - 4 * b + d
    c[5, :-1] = -15 * a + 7 * b - 2 * d
    c[6, :-1] = 6 * a - 3 * b + d
    c[1:] /= np.arange(1, 7)[:, np.newaxis]
    cells = c[1:].sum(axis=0)
    # Segment by segment, so that the sums of one segment carry no rounding of those before it.
    for begin, nodes in zip(first.tolist(), count.tolist(), strict=True):
        np.cumsum(cells[begin : begin + nodes - 1], out=c[0, begin + 1 : begin + nodes])
    c[1:, first + count - 1] = 0.0
    return c
