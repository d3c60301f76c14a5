"""How much two distributions have in common: one number per pair of features, from 0 (nothing) to 1 (all).

An overlap density such as min(p, q) or sqrt(p q) vanishes where one of the two does, so the grid of the finer
density is enough for a pair. Smooth overlap densities are summed over the nodes: the trapezoid rule converges
exponentially for a function that vanishes with all its derivatives at both ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy.special import xlogy

from stabgate.separability._checks import Floats, Ints
from stabgate.separability.density import Mixtures
from stabgate.separability.minimum import area_under_minimum
from stabgate.separability.pairs import CHUNK_PAIRS, Pairs, density_at, locate, meeting, ranges
from stabgate.separability.tables import Tables

Shared = Callable[[Floats, Floats], Floats]


def shared_min(p: Floats, q: Floats) -> Floats:
    """min(p, q)."""
    smaller: Floats = np.minimum(p, q)
    return smaller


def shared_hellinger(p: Floats, q: Floats) -> Floats:
    """sqrt(p q), the integrand of the Bhattacharyya coefficient."""
    geometric: Floats = np.sqrt(p * q)
    return geometric


def shared_jensen_shannon(p: Floats, q: Floats) -> Floats:
    """The part of (p + q) / 2 that the base-2 Jensen-Shannon divergence does not count."""
    total = p + q
    total[total == 0.0] = 1.0
    # The entropy of (p, q) / (p + q) is log 2 where they agree, and 0 where one of them is 0.
    nats = xlogy(p, p / total) + xlogy(q, q / total)
    shared: Floats = np.multiply(nats, -0.5 / math.log(2.0))
    return shared


def overlaps(parts: Mixtures, tables: Tables, shared: Shared, instances: int, features: int) -> Floats:
    """Overlap of every pair, (instances, features, features) in [0, 1], 1 on the diagonal."""
    found = np.zeros(instances * features * features)
    for pairs in meeting(tables):
        for chunk in pairs.chunks():
            if shared is shared_min:
                value = area_under_minimum(tables, chunk)
            else:
                value = _smooth_overlap(tables, chunk, shared)
            row, column = tables.column[chunk.fine], tables.column[chunk.coarse]
            np.add.at(found, row * features + column % features, value)
    for row, column, value in _common_atoms(parts, shared, features):
        np.add.at(found, row * features + column % features, value)
    matrix = found.reshape(instances, features, features)
    matrix += matrix.swapaxes(1, 2).copy()
    np.clip(matrix, 0.0, 1.0, out=matrix)
    diagonal = np.arange(features)
    matrix[:, diagonal, diagonal] = 1.0
    return matrix


def _smooth_overlap(tables: Tables, pairs: Pairs, shared: Shared) -> Floats:
    """Overlap of each pair, for a smooth overlap density."""
    where = locate(tables, pairs)
    q = density_at(tables.coefficients, where.cell, where.within)
    q *= np.repeat(pairs.ratio, pairs.length)
    # A quintic may undershoot 0 by its own error in the tails.
    np.maximum(q, 0.0, out=q)
    density = shared(tables.coefficients[1].take(where.node), q)
    total: Floats = np.add.reduceat(density, np.cumsum(pairs.length) - pairs.length)
    return total


def _common_atoms(parts: Mixtures, shared: Shared, features: int) -> Iterator[tuple[Ints, Ints, Floats]]:
    """Column, other column and common mass of atoms that share an instance and a place."""
    instance = parts.atom_column // features
    order = np.lexsort((parts.atom_column, parts.atom_place, instance))
    column, place, mass = parts.atom_column[order], parts.atom_place[order], parts.atom_mass[order]
    tolerance = parts.place_tolerance[column]
    bounds = np.searchsorted(instance[order], np.arange(parts.anchor.size // features + 1))
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if end - begin < 2:
            continue
        here = slice(begin, end)
        # Candidates from a wider window, because place + tolerance is rounded; the difference decides.
        window = np.searchsorted(place[here], place[here] + 2.0 * tolerance[here], side="right")
        lengths = window - np.arange(1, end - begin + 1)
        ends = np.cumsum(lengths)
        start = 0
        while start < len(ends):
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + CHUNK_PAIRS, side="right")))
            a, b = ranges(np.arange(start + 1, stop + 1), lengths[start:stop])
            a, b = a + start + begin, b + begin
            common = (column[a] != column[b]) & (place[b] - place[a] <= tolerance[a])
            a, b = a[common], b[common]
            yield column[a], column[b], shared(mass[a], mass[b])
            start = stop
