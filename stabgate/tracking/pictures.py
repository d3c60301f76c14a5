"""The mean heat map and the separability curve of a gate as PNG, drawn from its arrays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stabgate import separability as sep
from stabgate.report.evidence import DISTANCES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEATMAP, CURVE = "heatmap.png", "curve.png"
MOST_RANKS = 50  # further ones are left out of the pictures
DPI = 120


def draw(folder: Path) -> None:
    """Draw what the arrays in `folder` allow, beside them; without matplotlib, arrays or measured rows nothing."""
    if not (folder / DISTANCES).exists() or (folder / CURVE).exists():
        return
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return
    with np.load(folder / DISTANCES) as arrays:
        measured = np.flatnonzero(arrays["k"] > 0)
        distances, ranking, k = arrays["distances"][measured], arrays["ranking"][measured], arrays["k"][measured]
    if not measured.size:
        return
    _heatmap(sep.heatmap(distances, ranking), len(measured)).savefig(folder / HEATMAP, dpi=DPI)
    _curve(sep.separability_curve(distances, ranking), k).savefig(folder / CURVE, dpi=DPI)


def figure(title: str, x: str, y: str) -> tuple[Figure, Any]:
    """An empty picture that belongs to no window and no global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    found = Figure(figsize=(6.4, 4.8), layout="constrained")
    FigureCanvasAgg(found)
    axes = found.add_subplot()
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return found, axes


def _heatmap(mean: Any, rows: int) -> Figure:
    found, axes = figure(f"Mean distance over {rows} rows", "rank", "rank")
    shown = mean[:MOST_RANKS, :MOST_RANKS]
    ends = (0.5, len(shown) + 0.5)
    image = axes.imshow(shown, vmin=0.0, vmax=1.0, cmap="cividis", extent=(*ends, *ends[::-1]))
    found.colorbar(image, label="distance (1: told apart)")
    return found


def _curve(curve: Any, k: Any) -> Figure:
    found, axes = figure(
        f"Distance of each rank to the next, {len(k)} rows, mean k {k.mean():.2f}", "rank", "distance to the next rank"
    )
    mean, half = curve.mean[:MOST_RANKS], np.nan_to_num(curve.half_width[:MOST_RANKS])
    ranks = np.arange(1, len(mean) + 1)
    axes.fill_between(ranks, mean - half, mean + half, alpha=0.25, label="± 2σ/√N")
    axes.plot(ranks, mean, marker="o", label="mean")
    axes.set_ylim(0.0, 1.05)
    axes.legend()
    return found
