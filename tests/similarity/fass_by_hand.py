"""Both protocols of the definition in plain loops, and maps to compare: nothing here uses the package."""

from __future__ import annotations

import math

import numpy as np
from scipy import ndimage

C1, C2 = 0.01**2, 0.03**2


def ssim_of_window(x: np.ndarray, y: np.ndarray) -> float:
    mx, my = x.mean(), y.mean()
    vx, vy, cov = ((x - mx) ** 2).mean(), ((y - my) ** 2).mean(), ((x - mx) * (y - my)).mean()
    return float((2 * mx * my + C1) * (2 * cov + C2) / ((mx**2 + my**2 + C1) * (vx + vy + C2)))


def published(a: np.ndarray, b: np.ndarray) -> tuple[float, float, float]:
    """(c, h, w) maps; the min-max has the authors' epsilon, which the package leaves out."""
    scaled = [(m - m.min()) / (m.max() - m.min() + 1e-8) for m in (a, b)]
    padded = [np.pad(m, ((0, 0), (5, 5), (5, 5))) for m in scaled]
    c, h, w = a.shape
    windows = [
        ssim_of_window(*(p[i, y : y + 11, x : x + 11] for p in padded))
        for i in range(c)
        for y in range(h)
        for x in range(w)
    ]
    ranks, tops = [], []
    for m in (a, b):
        flat = list(m.ravel())
        order = sorted(range(len(flat)), key=lambda i: flat[i])  # Python's sort is stable
        rank = [0] * len(flat)
        for place, i in enumerate(order):
            rank[i] = place + 1
        ranks.append(np.array(rank, dtype=float))
        tops.append(set(order[-100:]))
    rho = np.corrcoef(*ranks)[0, 1]
    return float(np.mean(windows)), (rho + 1) / 2, len(tops[0] & tops[1]) / len(tops[0] | tops[1])


def aligned(
    a: np.ndarray, b: np.ndarray, valid: np.ndarray, top: float = 0.05, reduction: str = "signed-sum"
) -> tuple[float, float, float]:
    """(c, h, w) maps, b already brought back; valid (h, w)."""
    if reduction == "abs-sum":
        a, b = np.abs(a).sum(0), np.abs(b).sum(0)
    else:
        a, b = a.sum(0), b.sum(0)
    if reduction == "positive":
        a, b = np.maximum(a, 0), np.maximum(b, 0)
    h, w = a.shape
    window = round(11 * min(h, w) / 224)
    window = window + 1 if window % 2 == 0 else window
    window = max(3, min(11, window))
    low = min(a[valid].min(), b[valid].min())
    high = max(a[valid].max(), b[valid].max())
    x, y = (a - low) / (high - low), (b - low) / (high - low)
    local = [
        ssim_of_window(x[i : i + window, j : j + window], y[i : i + window, j : j + window])
        for i in range(h - window + 1)
        for j in range(w - window + 1)
        if valid[i : i + window, j : j + window].all()
    ]
    va, vb = a[valid], b[valid]
    rho = np.corrcoef(mean_ranks(va), mean_ranks(vb))[0, 1]
    k = max(1, round(top * len(va)))
    ma, mb = membership(va, k), membership(vb, k)
    overlap = np.minimum(ma, mb).sum() / np.maximum(ma, mb).sum()
    return float(np.mean(local)), (rho + 1) / 2, float(overlap)


def mean_ranks(values: np.ndarray) -> np.ndarray:
    return np.array([(values < v).sum() + ((values == v).sum() + 1) / 2 for v in values])


def membership(values: np.ndarray, k: int) -> np.ndarray:
    cut = sorted(values)[-k]
    above = int((values > cut).sum())
    share = (k - above) / int((values == cut).sum())
    return np.array([1.0 if v > cut else share if v == cut else 0.0 for v in values])


def rotated_back(maps: np.ndarray, degrees: float) -> tuple[np.ndarray, np.ndarray]:
    """(c, h, w) maps of images rotated counter-clockwise, brought back bilinearly, and the mask."""
    _, h, w = maps.shape
    back, valid = np.zeros_like(maps), np.zeros((h, w), dtype=bool)
    for y in range(h):
        for x in range(w):
            sy, sx = turned(y, x, h, w, degrees)
            back[:, y, x] = bilinear(maps, sy, sx)
            valid[y, x] = all(
                inside(ny, nx, h, w) and inside(*turned(ny, nx, h, w, -degrees), h, w)
                for ny, nx, weight in neighbours(sy, sx)
                if weight > 1e-9
            )
    return back, valid


def turned(y: float, x: float, h: int, w: int, degrees: float) -> tuple[float, float]:
    """Where the point goes under a counter-clockwise rotation on the screen (y points down)."""
    t = math.radians(degrees)
    dy, dx = y - (h - 1) / 2, x - (w - 1) / 2
    return (h - 1) / 2 - dx * math.sin(t) + dy * math.cos(t), (w - 1) / 2 + dx * math.cos(t) + dy * math.sin(t)


def neighbours(y: float, x: float) -> list[tuple[int, int, float]]:
    y0, x0 = math.floor(y), math.floor(x)
    fy, fx = y - y0, x - x0
    return [
        (y0, x0, (1 - fy) * (1 - fx)),
        (y0, x0 + 1, (1 - fy) * fx),
        (y0 + 1, x0, fy * (1 - fx)),
        (y0 + 1, x0 + 1, fy * fx),
    ]


def inside(y: float, x: float, h: int, w: int) -> bool:
    return -1e-9 <= y <= h - 1 + 1e-9 and -1e-9 <= x <= w - 1 + 1e-9


def bilinear(images: np.ndarray, y: float, x: float) -> np.ndarray:
    h, w = images.shape[-2:]
    total = np.zeros(images.shape[:-2])
    for ny, nx, weight in neighbours(y, x):
        if 0 <= ny < h and 0 <= nx < w:
            total = total + weight * images[..., ny, nx]
    return total


def pair_of_maps(kind: str, shape: tuple[int, int, int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two related (c, h, w) maps: "random", "smooth" (as Grad-CAM), "tied" (few values, as LIME), "zeros"."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=shape)
    b = a + rng.normal(size=shape)
    if kind == "smooth":
        a, b = (np.stack([ndimage.gaussian_filter(channel, 3) for channel in m]) for m in (a, b))
    elif kind == "tied":
        a, b = np.round(a), np.round(b)
    elif kind == "zeros":
        a, b = np.where(a > 0.5, a, 0.0), np.where(b > 0.7, b, 0.0)
    return a, b
