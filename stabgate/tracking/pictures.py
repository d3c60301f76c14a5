"""Heat map and separability curve of a gate, or its worst pairs of maps, as PNG, drawn from its arrays."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stabgate import separability as sep
from stabgate.files import write_bytes
from stabgate.report.evidence import DISTANCES, MAPS
from stabgate.report.pictures import ABOVE, BELOW, ZERO, scale_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEATMAP, CURVE, WORST_MAPS = "heatmap.png", "curve.png", "maps.png"
MOST_RANKS = 50  # further ones are left out of the pictures
MOST_PAIRS = 6  # as many of the worst are drawn
LONGEST_NAME = 60  # characters of an image's name in a title
COLUMNS = ("original", "perturbed", "map before", "map after", "difference")
CELL, ABOVE_CELL = 1.7, 0.55  # inches: side of a picture, and what stands above it
UNKNOWN = "0.72"  # grey, which no attribution has
DPI = 120


def draw(folder: Path) -> None:
    """Draw what the arrays in `folder` allow, beside them; without matplotlib, arrays or measured rows nothing."""
    for arrays, picture, work in ((DISTANCES, CURVE, _draw_distances), (MAPS, WORST_MAPS, _draw_maps)):
        if (folder / arrays).exists() and not (folder / picture).exists():
            _draw(work, folder)


def _draw(work: Callable[[Path], None], folder: Path) -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return
    work(folder)


def _draw_distances(folder: Path) -> None:
    with np.load(folder / DISTANCES) as arrays:
        measured = np.flatnonzero(arrays["k"] > 0)
        distances, ranking, k = arrays["distances"][measured], arrays["ranking"][measured], arrays["k"][measured]
    if not measured.size:
        return
    _save(_heatmap(sep.heatmap(distances, ranking), len(measured)), folder / HEATMAP)
    _save(_curve(sep.separability_curve(distances, ranking), k), folder / CURVE)


def _draw_maps(folder: Path) -> None:
    with np.load(folder / MAPS) as file:
        arrays = dict(file)
    worst = np.argsort(arrays["fass"], kind="stable")[:MOST_PAIRS]
    if worst.size:
        _save(_pairs({name: values[worst] for name, values in arrays.items()}), folder / WORST_MAPS)


def _save(picture: Figure, path: Path) -> None:
    """Whole or not at all: one that is there already is not drawn again."""
    content = io.BytesIO()
    picture.savefig(content, dpi=DPI, format="png")
    write_bytes(path, content.getvalue())


def figure(title: str, x: str, y: str) -> tuple[Figure, Any]:
    """An empty picture with one pair of axes."""
    found = _empty(6.4, 4.8)
    axes = found.add_subplot()
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return found, axes


def _empty(width: float, height: float) -> Figure:
    """A picture of so many inches that belongs to no window and no global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    found = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(found)
    return found


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


def _pairs(arrays: Mapping[str, Any]) -> Figure:
    """One row for each pair."""
    n, height, width = arrays["before"].shape
    cell = CELL * min(max(height / width, 0.5), 2.0)
    found = _empty(len(COLUMNS) * CELL + 1.0, n * (cell + ABOVE_CELL))
    rows = found.subfigures(n, 1, squeeze=False)[:, 0]
    for i, row in enumerate(rows):
        _pair(row, {name: values[i] for name, values in arrays.items()})
    return found


def _pair(row: Any, pair: Mapping[str, Any]) -> None:
    """Both images, both maps and their difference, the last three on one scale."""
    title = f"image {_named(str(pair['image']))}, {pair['perturbation']}: FASS {pair['fass']:.3f}"
    row.suptitle(title, fontsize="medium", parse_math=False)
    before, after = pair["before"].astype(np.float64), pair["after"].astype(np.float64)
    scale = scale_of(before, after)
    panels = row.subplots(1, len(COLUMNS))
    for panel, column in zip(panels, COLUMNS, strict=True):
        panel.set_title(column, fontsize="x-small")
        panel.set_axis_off()
    if np.isnan(after).any():
        panels[3].set_title("map after (grey: unknown)", fontsize="x-small")
    for panel, image in zip(panels, (pair["original"], pair["perturbed"]), strict=False):
        pixels = image if image.shape[2] in (3, 4) else image[:, :, 0]
        panel.imshow(pixels, cmap="gray", vmin=0, vmax=255)
    for panel, values in zip(panels[2:], (before, after, after - before), strict=True):
        shown = panel.imshow(values, cmap=_diverging(), vmin=-scale, vmax=scale)
    bar = row.colorbar(shown, ax=panels, fraction=0.03, ticks=[-scale, 0.0, scale], format="%.2g")
    bar.ax.tick_params(labelsize="x-small")


def _diverging() -> Any:
    """The colours of the report's maps: orange below zero, blue above, which colour-blind readers tell apart."""
    from matplotlib.colors import LinearSegmentedColormap

    ends = [tuple(part / 255 for part in colour) for colour in (BELOW, ZERO, ABOVE)]
    return LinearSegmentedColormap.from_list("stabgate", ends).with_extremes(bad=UNKNOWN)


def _named(image: str) -> str:
    """The name of an image on one line, without the beginning of a long path."""
    text = " ".join(image.split())
    return text if len(text) <= LONGEST_NAME else f"... {text[-LONGEST_NAME + 4 :]}"
