"""How much two distributions have in common: one number per pair of features, 1 for equal ones, 0 for
    disjoint ones.

A pair is integrated on the grid of its finer density, which resolves both. There the overlap density vanishes
at both ends, because one of the two densities does.

- The area under min(p, q) is exact between two crossings: a difference of the tabulated integrals. What
  remains is to find the cells with crossings, and to split those.
- Smooth overlap densities are summed over the nodes; the trapezoid rule converges exponentially for a
  function that vanishes with all its derivatives at both ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from stabgate.separability._checks import Floats, Ints
from stabgate.separability.density import Mixtures
from stabgate.separability.tables import MARGIN, NODES_PER_BANDWIDTH, REACH, Tables

Shared = Callable[[Floats, Floats], Floats]

# Small enough for the level-2 cache, large enough to hide the interpreter.
CHUNK_NODES = 1 << 15
# Bounds the temporaries per batch of candidate pairs to about 100 MB.
CHUNK_PAIRS = 1 << 20
# A cell with a crossing is cut into this many parts, and cut at straight-line crossings inside them.
PARTS = 8
# Densities (per cell) below this cannot move an overlap by 1e-9, wherever they cross.
NEGLIGIBLE = 1e-11


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
    for pairs in _meeting(tables):
        for chunk in pairs.chunks():
            if shared is shared_min:
                value = _area_under_minimum(tables, chunk)
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


@dataclass(frozen=True)
class _Pairs:
    """Pairs of segments that meet, with the node range of the finer one inside the coarser one.

    Node k of the fine segment is at node coordinate `shift + (k - MARGIN) * ratio` of the coarse segment.
    """

    fine: Ints
    coarse: Ints
    shift: Floats
    ratio: Floats
    begin: Ints
    length: Ints

    def chunks(self) -> Iterator[_Pairs]:
        """The same pairs in portions of about `CHUNK_NODES` nodes."""
        ends = np.cumsum(self.length)
        start = 0
        while start < len(ends):
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + CHUNK_NODES, side="right")))
            part = slice(start, stop)
            yield _Pairs(
                self.fine[part],
                self.coarse[part],
                self.shift[part],
                self.ratio[part],
                self.begin[part],
                self.length[part],
            )
            start = stop


def _ranges(starts: Ints, lengths: Ints) -> tuple[Ints, Ints]:
    """Row number and value of the concatenated ranges start, start + 1, ..., start + length - 1."""
    row = np.repeat(np.arange(lengths.size), lengths)
    offset = np.cumsum(lengths) - lengths
    return row, np.arange(row.size) - np.repeat(offset - starts, lengths)


def _meeting(tables: Tables) -> Iterator[_Pairs]:
    """Pairs of segments of one instance whose supports overlap, the finer bandwidth first."""
    candidates = tables.instance_end - tables.end
    ends = np.cumsum(candidates)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + CHUNK_PAIRS, side="right")))
        row, coarse = _ranges(tables.end[start:stop], candidates[start:stop])
        fine = row + start
        start = stop
        step = tables.step[coarse]
        gap = (tables.anchor[fine] - tables.anchor[coarse]) + (
            tables.first_point[fine] - tables.first_point[coarse]
        )
        reach = REACH * NODES_PER_BANDWIDTH * tables.step[fine]
        width = (tables.count[fine] - 1 - MARGIN) * tables.step[fine]
        coarse_width = (tables.count[coarse] - 1 - MARGIN) * step
        meets = (gap - reach < coarse_width) & (gap + width > -MARGIN * step)
        fine, coarse, gap, step = fine[meets], coarse[meets], gap[meets], step[meets]
        if not fine.size:
            continue
        ratio = tables.step[fine] / step
        shift = gap / step + MARGIN
        nodes, coarse_nodes = tables.count[fine], tables.count[coarse]
        # In floats first: a fine grid far left of a coarse one would overflow an integer.
        begin = np.clip(np.ceil(-shift / ratio + MARGIN), 0, nodes).astype(np.intp)
        last = np.floor((coarse_nodes - 1 - shift) / ratio + MARGIN)
        length = np.clip(last + 1 - begin, 0, nodes - begin).astype(np.intp)
        kept = length > 1
        yield _Pairs(fine[kept], coarse[kept], shift[kept], ratio[kept], begin[kept], length[kept])


@dataclass(frozen=True)
class _Lookup:
    """Where the nodes of pairs are in the tables."""

    item: Ints
    node: Ints
    cell: Ints
    within: Floats


def _locate(tables: Tables, pairs: _Pairs) -> _Lookup:
    item, k = _ranges(pairs.begin, pairs.length)
    place = np.repeat(pairs.ratio, pairs.length)
    place *= k - MARGIN
    place += np.repeat(pairs.shift, pairs.length)
    cell = place.astype(np.intp)
    # Rounding may put the outermost node a hair outside.
    np.minimum(cell, np.repeat(tables.count[pairs.coarse] - 1, pairs.length), out=cell)
    place -= cell
    cell += np.repeat(tables.first[pairs.coarse], pairs.length)
    return _Lookup(item, k + np.repeat(tables.first[pairs.fine], pairs.length), cell, place)


def _density(coefficients: Floats, cell: Ints, t: Floats) -> Floats:
    """Derivative of the tabulated integrals."""
    value = coefficients[6].take(cell)
    value *= 6.0
    for power in range(5, 0, -1):
        value *= t
        term = coefficients[power].take(cell)
        if power > 1:
            term *= power
        value += term
    density: Floats = value
    return density


def _integral_and_density(coefficients: Floats, cell: Ints, t: Floats) -> tuple[Floats, Floats]:
    value = coefficients[6].take(cell)
    slope = np.zeros_like(t)
    for power in range(5, -1, -1):
        slope *= t
        slope += value
        value *= t
        value += coefficients[power].take(cell)
    return value, slope


def _smooth_overlap(tables: Tables, pairs: _Pairs, shared: Shared) -> Floats:
    """Overlap of each pair, for a smooth overlap density."""
    where = _locate(tables, pairs)
    q = _density(tables.coefficients, where.cell, where.within)
    q *= np.repeat(pairs.ratio, pairs.length)
    # A quintic may undershoot 0 by its own error in the tails.
    np.maximum(q, 0.0, out=q)
    density = shared(tables.coefficients[1].take(where.node), q)
    total: Floats = np.add.reduceat(density, np.cumsum(pairs.length) - pairs.length)
    return total


def _area_under_minimum(tables: Tables, pairs: _Pairs) -> Floats:
    """Overlap of each pair, for the minimum."""
    c = tables.coefficients
    where = _locate(tables, pairs)
    starts = np.cumsum(pairs.length) - pairs.length
    coarse_integral, q = _integral_and_density(c, where.cell, where.within)
    ratio = np.repeat(pairs.ratio, pairs.length)
    q *= ratio
    # Density per fine cell: the last node's row is a constant without slope, and there p is below 1e-14
    # anyway.
    difference = c[1].take(where.node)
    difference -= q

    cells = np.empty_like(q)
    cells[:-1] = np.minimum(np.diff(c[0].take(where.node)), np.diff(coarse_integral))
    cells[starts[1:] - 1] = 0.0
    cells[-1] = 0.0
    total: Floats = np.add.reduceat(cells, starts)

    cut = _cells_to_cut(difference, starts)
    if cut.size:
        finer = _cut(c, where.node[cut], tables, pairs, where, cut, ratio[cut])
        np.add.at(total, where.item[cut], finer - cells[cut])
    return total


def _cells_to_cut(difference: Floats, starts: Ints) -> Ints:
    """Cells in which p - q changes its sign, or may do so twice."""
    left, right = difference[:-1], difference[1:]
    crossing = left * right < 0.0
    crossing &= np.abs(left) + np.abs(right) > NEGLIGIBLE
    flagged = np.zeros(difference.size, dtype=bool)
    flagged[:-1] = crossing
    # The dip below a sampled minimum is at most an eighth of the second difference; twice that is looked at.
    middle = difference[1:-1]
    bend = difference[2:] + difference[:-2]
    bend -= 2 * middle
    dip = np.abs(bend) > 4 * np.abs(middle)
    dip &= bend * middle > 0.0
    dip &= np.abs(bend) > NEGLIGIBLE
    flagged[1:-1] |= dip
    flagged[:-2] |= dip
    flagged[starts[1:] - 1] = False
    flagged[-1] = False
    return np.flatnonzero(flagged)


def _cut(
    c: Floats, node: Ints, tables: Tables, pairs: _Pairs, where: _Lookup, cut: Ints, ratio: Floats
) -> Floats:
    """Integral of min(p, q) over single cells of the fine grid."""
    item = where.item[cut]
    coarse = pairs.coarse[item]
    first = tables.first[coarse]
    final = first + tables.count[coarse] - 1
    place = where.cell[cut] - first + where.within[cut]

    def both(t: Floats, rows: Ints | slice) -> tuple[Floats, Floats, Floats]:
        """Integrals of p and q, and p - q, at t of the chosen cells."""
        extra = (slice(None),) + (np.newaxis,) * (t.ndim - 1)
        p_integral, p = _integral_and_density(c, np.broadcast_to(node[rows][extra], t.shape), t)
        q_place = place[rows][extra] + ratio[rows][extra] * t
        cell = q_place.astype(np.intp)
        q_within = q_place - cell
        cell = np.minimum(cell + first[rows][extra], final[rows][extra])
        q_integral, q = _integral_and_density(c, cell, q_within)
        return p_integral, q_integral, p - q * ratio[rows][extra]

    t = np.broadcast_to(np.arange(PARTS + 1) / PARTS, (cut.size, PARTS + 1))
    p, q, difference = both(t, slice(None))
    area = np.minimum(np.diff(p, axis=1), np.diff(q, axis=1))
    row, part = np.nonzero(difference[:, :-1] * difference[:, 1:] < 0.0)
    if row.size:
        left, right = difference[row, part], difference[row, part + 1]
        root = (part + left / (left - right)) / PARTS
        p_root, q_root, _ = both(root, row)
        area[row, part] = np.minimum(p_root - p[row, part], q_root - q[row, part]) + np.minimum(
            p[row, part + 1] - p_root, q[row, part + 1] - q_root
        )
    total: Floats = area.sum(axis=1)
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
            a, b = _ranges(np.arange(start + 1, stop + 1), lengths[start:stop])
            a, b = a + start + begin, b + begin
            common = (column[a] != column[b]) & (place[b] - place[a] <= tolerance[a])
            a, b = a[common], b[common]
            yield column[a], column[b], shared(mass[a], mass[b])
            start = stop
