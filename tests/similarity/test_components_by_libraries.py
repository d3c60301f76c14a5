"""The components against scikit-image and SciPy, where those define the same thing."""

from __future__ import annotations

import numpy as np
import pytest
from fass_by_hand import pair_of_maps
from scipy import stats

from stabgate.similarity import compare_maps

torch = pytest.importorskip("torch")
torch.set_num_threads(1)


def test_ssim_is_scikit_images_on_whole_windows():
    metrics = pytest.importorskip("skimage.metrics")
    a, b = pair_of_maps("smooth", (1, 224, 230))
    low, high = min(a.min(), b.min()), max(a.max(), b.max())
    x, y = (a[0] - low) / (high - low), (b[0] - low) / (high - low)
    # Its mean already leaves out the windows that hang over the border.
    expected = metrics.structural_similarity(x, y, win_size=11, data_range=1.0, use_sample_covariance=False)
    assert compare_maps(a, b).ssim == pytest.approx(expected, abs=1e-9)


def test_published_ssim_is_average_pooling_with_padding():
    a, b = (torch.from_numpy(m)[None] for m in pair_of_maps("random", (3, 40, 33)))
    x, y = ((m - m.min()) / (m.max() - m.min()) for m in (a, b))

    def pool(m):
        return torch.nn.functional.avg_pool2d(m, 11, stride=1, padding=5, count_include_pad=True)

    mx, my = pool(x), pool(y)
    vx, vy, cov = pool(x * x) - mx**2, pool(y * y) - my**2, pool(x * y) - mx * my
    ssim = (2 * mx * my + 1e-4) * (2 * cov + 9e-4) / ((mx**2 + my**2 + 1e-4) * (vx + vy + 9e-4))
    assert compare_maps(a[0], b[0], protocol="published").ssim == pytest.approx(float(ssim.mean()), abs=1e-9)


@pytest.mark.parametrize("kind", ["random", "smooth", "tied", "zeros"])
def test_aligned_spearman_is_scipys(kind):
    a, b = pair_of_maps(kind, (3, 50, 41))
    rho = stats.spearmanr(a.sum(0).ravel(), b.sum(0).ravel()).statistic
    assert compare_maps(a, b).spearman == pytest.approx((rho + 1) / 2, abs=1e-12)


@pytest.mark.parametrize("kind", ["random", "tied", "zeros"])
def test_published_spearman_is_pearson_of_scipys_ordinal_ranks(kind):
    a, b = pair_of_maps(kind, (3, 50, 41))
    ranks = [stats.rankdata(m.ravel(), method="ordinal") for m in (a, b)]
    rho = np.corrcoef(*ranks)[0, 1]
    assert compare_maps(a, b, protocol="published").spearman == pytest.approx((rho + 1) / 2, abs=1e-12)


@pytest.mark.parametrize("kind", ["random", "tied", "zeros"])
def test_published_jaccard_is_of_the_last_hundred_of_a_stable_sort(kind):
    a, b = pair_of_maps(kind, (3, 50, 41))
    tops = [set(np.argsort(m.ravel(), kind="stable")[-100:].tolist()) for m in (a, b)]
    expected = len(tops[0] & tops[1]) / len(tops[0] | tops[1])
    assert compare_maps(a, b, protocol="published").jaccard == expected


def test_aligned_jaccard_without_ties_is_the_jaccard_of_sets():
    a, b = pair_of_maps("smooth", (1, 40, 50))
    tops = [set(np.argsort(m.ravel())[-100:].tolist()) for m in (a, b)]  # 0.05 * 2000
    assert compare_maps(a, b).jaccard == pytest.approx(len(tops[0] & tops[1]) / len(tops[0] | tops[1]), abs=1e-15)


def test_ties_at_the_cut_share_membership():
    # 40 pixels, top 0.05 = 2. In a, one pixel of 2, and four of 1 for the one place left: 1/4 each.
    # In b, the 2 and one of the 1s.
    a, b = np.zeros((1, 5, 8)), np.zeros((1, 5, 8))
    a.flat[[0, 1, 2, 3, 4]] = [2, 1, 1, 1, 1]
    b.flat[[0, 1]] = [2, 1]
    # sum min = 1 + 1/4; sum max = 1 + 1 + 3/4
    assert compare_maps(a, b).jaccard == pytest.approx(1.25 / 2.75, abs=1e-15)
