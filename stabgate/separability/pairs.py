"""Which densities meet, and what one of them is at the grid nodes of the other.

A pair is integrated on the grid of its finer density, which resolves both; where the grid ends, that density
does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stabgate.separability._checks import Floats, Ints
from stabgate.separability.tables import MARGIN, Tables

# Small enough for the level-2 cache, large enough to hide the interpreter.
CHUNK_NODES = 1 << 15
# Bounds the temporaries per batch of candidate pairs to about 100 MB.
CHUNK_PAIRS = 1 << 20


@dataclass(frozen=True)
class Pairs:
    """Pairs of segments that meet, with the node range of the finer one inside the coarser one.

    Node k of the fine segment is at node coordinate `shift + (k - MARGIN) * ratio` of the coarse segment.
    """

    fine: Ints
    coarse: Ints
    shift: Floats
    ratio: Floats
    begin: Ints
    length: Ints

    def chunks(self) -> Iterator[Pairs]:
        """The same pairs in portions of about `CHUNK_NODES` nodes."""
        ends = np.cumsum(self.length)
        start = 0
        while start < len(ends):
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + CHUNK_NODES, side="right")))
            part = slice(start, stop)
            yield Pairs(
                self.fine[part],
                self.coarse[part],
                self.shift[part],
                self.ratio[part],
                self.begin[part],
                self.length[part],
            )
            start = stop


def ranges(starts: Ints, lengths: Ints) -> tuple[Ints, Ints]:
    """Row number and value of the concatenated ranges start, start + 1, ..., start + length - 1."""
    row = np.repeat(np.arange(lengths.size), lengths)
    offset = np.cumsum(lengths) - lengths
    return row, np.arange(row.size) - np.repeat(offset - starts, lengths)


def meeting(tables: Tables) -> Iterator[Pairs]:
    """Pairs of segments of one instance whose supports overlap, the finer bandwidth first."""
    candidates = tables.instance_end - tables.end
    ends = np.cumsum(candidates)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + CHUNK_PAIRS, side="right")))
        row, coarse = ranges(tables.end[start:stop], candidates[start:stop])
        fine = row + start
        start = stop
        step = tables.step[coarse]
        gap = (tables.anchor[fine] - tables.anchor[coarse]) + (tables.first_point[fine] - tables.first_point[coarse])
        reach = MARGIN * tables.step[fine]
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
        yield Pairs(fine[kept], coarse[kept], shift[kept], ratio[kept], begin[kept], length[kept])


@dataclass(frozen=True)
class Lookup:
    """Where the nodes of pairs are in the tables."""

    item: Ints
    node: Ints
    cell: Ints
    within: Floats


def locate(tables: Tables, pairs: Pairs) -> Lookup:
    item, k = ranges(pairs.begin, pairs.length)
    place = np.repeat(pairs.ratio, pairs.length)
    place *= k - MARGIN
    place += np.repeat(pairs.shift, pairs.length)
    cell = place.astype(np.intp)
    # Rounding may put the outermost node a hair outside.
    np.minimum(cell, np.repeat(tables.count[pairs.coarse] - 1, pairs.length), out=cell)
    place -= cell
    cell += np.repeat(tables.first[pairs.coarse], pairs.length)
    return Lookup(item, k + np.repeat(tables.first[pairs.fine], pairs.length), cell, place)


def density_at(coefficients: Floats, cell: Ints, t: Floats) -> Floats:
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


def integral_and_density(coefficients: Floats, cell: Ints, t: Floats) -> tuple[Floats, Floats]:
    value = coefficients[6].take(cell)
    slope = np.zeros_like(t)
    for power in range(5, -1, -1):
        slope *= t
        slope += value
        value *= t
        value += coefficients[power].take(cell)
    return value, slope
