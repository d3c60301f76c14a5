"""The area under the smaller of two densities.

Between two crossings it is a difference of tabulated integrals, so a cell without a crossing is exact on any
grid. What remains is to find the cells with crossings and to split those: at the root of a parabola where
there is plainly one crossing, into many parts where there may be more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stabgate.separability._checks import Floats, Ints
from stabgate.separability.pairs import Lookup, Pairs, integral_and_density, locate
from stabgate.separability.tables import Tables

# Densities (per cell) below this cannot move an overlap by 1e-9, wherever they cross.
NEGLIGIBLE = 1e-11
# There is one crossing in a cell, and a parabola finds it, if the slope changes by less than this share.
NEARLY_STRAIGHT = 0.5
# Other cells are cut into this many parts, and those at straight-line crossings.
PARTS = 8


def area_under_minimum(tables: Tables, pairs: Pairs) -> Floats:
    """Integral of min(p, q) for each pair of segments."""
    c = tables.coefficients
    where = locate(tables, pairs)
    starts = np.cumsum(pairs.length) - pairs.length
    coarse_integral, q = integral_and_density(c, where.cell, where.within)
    ratio = np.repeat(pairs.ratio, pairs.length)
    q *= ratio
    # The last node of a table has no density, and less than 1e-14 is what it should have.
    difference = c[1].take(where.node)
    difference -= q

    area = np.empty_like(q)
    fine_integral = c[0].take(where.node)
    area[:-1] = np.minimum(np.diff(fine_integral), np.diff(coarse_integral))
    area[starts[1:] - 1] = 0.0
    area[-1] = 0.0
    total: Floats = np.add.reduceat(area, starts)

    plain, unclear = _crossings(difference, starts)
    if plain.cell.size:
        cells = _Cells(tables, pairs, where, plain.cell, ratio)
        split = _split_once(cells, plain, fine_integral, coarse_integral)
        np.add.at(total, cells.item, split - area[plain.cell])
    if unclear.size:
        cells = _Cells(tables, pairs, where, unclear, ratio)
        np.add.at(total, cells.item, _split_finely(cells) - area[unclear])
    return total


@dataclass(frozen=True)
class _Crossings:
    """Cells with one crossing, its place t in [0, 1], and the slope of p - q there."""

    cell: Ints
    place: Floats
    slope: Floats


def _crossings(difference: Floats, starts: Ints) -> tuple[_Crossings, Ints]:
    """Cells in which p - q plainly changes its sign once, and those in which it may do so in another way."""
    left, right = difference[:-1], difference[1:]
    bend = np.zeros_like(difference)
    middle = difference[1:-1]
    bend[1:-1] = difference[2:] + difference[:-2] - 2.0 * middle
    # Across two pairs' nodes there is no cell, and no second difference.
    ends = starts[1:] - 1
    bend[starts] = 0.0
    bend[ends] = 0.0
    size = np.abs(bend)

    crossing = left * right < 0.0
    crossing &= np.abs(left) + np.abs(right) > NEGLIGIBLE
    # The dip below a sampled minimum is at most an eighth of the second difference; twice that is looked at.
    dip = size[1:-1] > np.maximum(4.0 * np.abs(middle), NEGLIGIBLE)
    dip &= bend[1:-1] * middle > 0.0
    lowest = np.flatnonzero(dip) + 1
    # The parabola's lowest point is within a cell of the node, or half a cell more for what is no parabola.
    lowest = lowest[np.abs(difference[lowest + 1] - difference[lowest - 1]) < 3.0 * size[lowest]]
    near_dip = np.zeros(difference.size, dtype=bool)
    near_dip[lowest] = True
    near_dip[lowest - 1] = True
    crossing[ends] = False
    size[starts] = np.inf
    size[ends] = np.inf
    size[-1] = np.inf

    cell = np.flatnonzero(crossing)
    step = right[cell] - left[cell]
    straight = np.maximum(size[cell], size[cell + 1]) < NEARLY_STRAIGHT * np.abs(step)
    unclear = near_dip
    unclear[cell] = ~straight
    cell, step = cell[straight], step[straight]
    curvature = 0.5 * (bend[cell] + bend[cell + 1])
    chord = -left[cell] / step
    place = np.clip(chord + 0.5 * curvature * chord * (1.0 - chord) / step, 0.0, 1.0)
    return _Crossings(cell, place, step + curvature * (place - 0.5)), np.flatnonzero(unclear)


class _Cells:
    """Some cells of fine grids, with p and q anywhere in them."""

    def __init__(self, tables: Tables, pairs: Pairs, where: Lookup, cell: Ints, ratio: Floats) -> None:
        self.item = where.item[cell]
        coarse = pairs.coarse[self.item]
        self._coefficients = tables.coefficients
        self._node = where.node[cell]
        self._first = tables.first[coarse]
        self._last = self._first + tables.count[coarse] - 1
        self._place = where.cell[cell] - self._first + where.within[cell]
        self._ratio = ratio[cell]

    def at(self, t: Floats, rows: Ints | slice = slice(None)) -> tuple[Floats, Floats, Floats]:
        """Integrals of p and q, and p - q, at t (cells, ...) of all or the chosen cells."""
        shape = (-1,) + (1,) * (t.ndim - 1)
        node = np.broadcast_to(self._node[rows].reshape(shape), t.shape)
        p_integral, p = integral_and_density(self._coefficients, node, t)
        ratio = self._ratio[rows].reshape(shape)
        place = self._place[rows].reshape(shape) + ratio * t
        whole = place.astype(np.intp)
        place -= whole
        whole += self._first[rows].reshape(shape)
        np.minimum(whole, self._last[rows].reshape(shape), out=whole)
        q_integral, q = integral_and_density(self._coefficients, whole, place)
        return p_integral, q_integral, p - q * ratio


def _split_once(cells: _Cells, crossings: _Crossings, p: Floats, q: Floats) -> Floats:
    """Area under the minimum in cells with one crossing; p and q are the integrals up to each node."""
    p_root, q_root, difference = cells.at(crossings.place)
    left, right = crossings.cell, crossings.cell + 1
    area: Floats = np.minimum(p_root - p[left], q_root - q[left])
    area += np.minimum(p[right] - p_root, q[right] - q_root)
    # Between the parabola's root and the true one the larger density was counted: a triangle too much.
    area -= np.square(difference) / (2.0 * np.abs(crossings.slope))
    return area


def _split_finely(cells: _Cells) -> Floats:
    """Area under min(p, q) in cells with any number of crossings."""
    t = np.broadcast_to(np.arange(PARTS + 1) / PARTS, (cells.item.size, PARTS + 1))
    p, q, difference = cells.at(t)
    area = np.minimum(np.diff(p, axis=1), np.diff(q, axis=1))
    row, part = np.nonzero(difference[:, :-1] * difference[:, 1:] < 0.0)
    left, right = difference[row, part], difference[row, part + 1]
    p_root, q_root, _ = cells.at((part + left / (left - right)) / PARTS, row)
    before = np.minimum(p_root - p[row, part], q_root - q[row, part])
    after = np.minimum(p[row, part + 1] - p_root, q[row, part + 1] - q_root)
    area[row, part] = before + after
    total: Floats = area.sum(axis=1)
    return total
