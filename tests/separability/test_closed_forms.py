"""Two Gaussians, as densities of one kernel each: overlap and distance are known in closed form."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm

from stabgate.separability.density import Mixtures
from stabgate.separability.overlap import overlaps, shared_hellinger, shared_jensen_shannon, shared_min
from stabgate.separability.tables import tabulate

CLOSE = 3e-8  # thirty times better than promised


def mixture(columns: list[tuple[list[float], float]]) -> Mixtures:
    """Columns of (kernel centres, common sd), equal masses."""
    none = np.zeros(0)
    anchor = np.array([min(centres) for centres, _ in columns])
    return Mixtures(
        anchor=anchor,
        bandwidth=np.array([h for _, h in columns]),
        point_column=np.concatenate([[j] * len(c) for j, (c, _) in enumerate(columns)]).astype(np.intp),
        point_offset=np.concatenate([np.sort(c) - anchor[j] for j, (c, _) in enumerate(columns)]),
        point_mass=np.concatenate([[1 / len(c)] * len(c) for c, _ in columns]),
        atom_column=np.zeros(0, dtype=np.intp),
        atom_place=none,
        atom_mass=none,
        place_tolerance=np.zeros(len(columns)),
    )


def overlap(columns: list[tuple[list[float], float]], shared=shared_min) -> np.ndarray:
    parts = mixture(columns)
    return overlaps(parts, tabulate(parts, len(columns)), shared, 1, len(columns))[0]


def jaccard(common: float) -> float:
    return 1 - common / (2 - common)


@pytest.mark.parametrize("z", [1e-6, 1e-3, 0.1, 0.5, 1.0, 1.96, 3.0, 5.0, 7.0])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_equal_variances(z: float, offset: float) -> None:
    # Powers of two, so that the offset costs no digits of the means.
    sd = 2.0**-10
    gap = (offset + 2 * z * sd) - offset
    z = gap / (2 * sd)
    found = jaccard(overlap([([offset], sd), ([offset + gap], sd)])[0, 1])
    assert found == pytest.approx((2 * ndtr(z) - 1) / ndtr(z), abs=CLOSE)


@pytest.mark.parametrize("ratio", [1 + 1e-4, 1.01, 1.5, 3.0, 10.0, 1e2, 1e3, 1e5, 1e8, 1e12])
def test_equal_means(ratio: float) -> None:
    s1, s2 = 0.3, 0.3 * ratio
    r = np.sqrt(np.log(s2**2 / s1**2) * s1**2 * s2**2 / (s2**2 - s1**2))
    a = ndtr(r / s1) - ndtr(r / s2)
    found = jaccard(overlap([([2.0], s1), ([2.0], s2)])[0, 1])
    assert found == pytest.approx(4 * a / (1 + 2 * a), abs=CLOSE)


@pytest.mark.parametrize(("gap", "s1", "s2"), [(0.0, 1, 1.001), (1, 1, 2), (5, 0.1, 3), (0.5, 1e-4, 1), (8, 1, 1)])
def test_hellinger_of_two_gaussians(gap: float, s1: float, s2: float) -> None:
    expected = np.sqrt(2 * s1 * s2 / (s1**2 + s2**2)) * np.exp(-(gap**2) / (4 * (s1**2 + s2**2)))
    assert overlap([([0.0], s1), ([gap], s2)], shared_hellinger)[0, 1] == pytest.approx(expected, abs=CLOSE)


@pytest.mark.parametrize(("gap", "s1", "s2"), [(0.3, 1, 1), (1, 1, 2), (5, 0.5, 3), (0.5, 0.05, 1)])
def test_jensen_shannon_of_two_gaussians(gap: float, s1: float, s2: float) -> None:
    def integrand(x: float) -> float:
        p, q = norm.pdf(x, 0, s1), norm.pdf(x, gap, s2)
        return sum(0.5 * f * np.log2(2 * f / (p + q)) for f in (p, q) if f > 0)

    breaks = sorted({-8 * s1, 8 * s1, gap - 8 * s2, gap + 8 * s2, 0, gap})
    divergence = sum(quad(integrand, a, b, epsabs=1e-13, limit=200)[0] for a, b in itertools.pairwise(breaks))
    found = overlap([([0.0], s1), ([gap], s2)], shared_jensen_shannon)[0, 1]
    assert 1 - found == pytest.approx(divergence, abs=CLOSE)


def test_a_matrix_of_many_scales() -> None:
    scales = 10.0 ** np.arange(-12, 6)
    found = overlap([([0.0], s) for s in scales])
    for i, s1 in enumerate(scales):
        for j in range(i + 1, len(scales)):
            s2 = scales[j]
            r = np.sqrt(np.log(s2**2 / s1**2) * s1**2 * s2**2 / (s2**2 - s1**2))
            a = ndtr(r / s1) - ndtr(r / s2)
            assert found[i, j] == found[j, i] == pytest.approx(1 - 2 * a, abs=CLOSE)


def test_two_distant_kernels_have_no_grid_between_them() -> None:
    parts = mixture([([0.0, 1e9], 1.0), ([1e9 + 1.0], 1.0)])
    tables = tabulate(parts, 2)
    assert tables.coefficients.shape[1] < 300
    # Half of the first mass is a kernel of sd 1, one away from the second's: the smaller is the halved one
    # until phi(x) / 2 = phi(x - 1), at x = 1/2 - ln 2.
    cut = 0.5 - np.log(2)
    expected = ndtr(cut - 1) + 0.5 * (1 - ndtr(cut))
    assert overlaps(parts, tables, shared_min, 1, 2)[0, 0, 1] == pytest.approx(expected, abs=CLOSE)


def test_beyond_the_reach_nothing_is_shared() -> None:
    assert overlap([([0.0], 1.0), ([100.0], 2.0)])[0, 1] == 0.0


@pytest.mark.parametrize("rise", [1e-2, 3e-3, 1e-3, 1e-4])
@pytest.mark.parametrize("phase", [0.03, 0.08, 0.125, 0.2])
def test_a_double_crossing_narrower_than_a_cell(rise: float, phase: float) -> None:
    # The second of two distant unit kernels peaks between two nodes, just above a kernel twice as wide: p - q is
    # negative at all nodes near by.
    centres, wide = [-20.0 - phase, 0.0], 2.0 * (1 + rise)
    grid = np.linspace(-30.0, 20.0, 1_000_001)
    p = sum(norm.pdf(grid, c) for c in centres) / 2
    least = np.minimum(p, norm.pdf(grid, 0.0, wide)).sum() * (grid[1] - grid[0])
    # A dip inside one of the parts that cells are cut into is not seen.
    assert overlap([(centres, 1.0), ([0.0], wide)])[0, 1] == pytest.approx(least, abs=2e-7)


def test_a_triple_crossing_narrower_than_a_cell() -> None:
    # p - q is odd about 0 and flat there: the mirrored pair of two-kernel mixtures, weights by repeated
    # centres.
    for shape in (0.55, 0.6, 0.65, 0.7):
        left, right = [-1.0, -1.0, shape], [1.0, 1.0, -shape]
        grid = np.linspace(-10.0, 10.0, 400_001)
        p = sum(norm.pdf(grid, c) for c in left) / 3
        q = sum(norm.pdf(grid, c) for c in right) / 3
        least = np.minimum(p, q).sum() * (grid[1] - grid[0])
        assert overlap([(left, 1.0), (right, 1.0)])[0, 1] == pytest.approx(least, abs=1e-7)
