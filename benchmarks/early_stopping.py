"""How often an early verdict is the one of all runs, and what it saves; writes docs/early-stopping.md.

Simulated rows have 13 features with normal attributions, and a spread of k over fresh seeds that is that of LIME and
SHAP on Heart (0.39, 0.58 and 1.0). What is slow (runs, half-samples, forecasts) is done once for a library of rows with
several sets of runs each; an experiment puts 20 or 50 of those together and asks for a share at some distance from the
true one. Real rows: breast-cancer data, four methods, every requirement of a grid.

Takes about four minutes on one core. ``--quick`` takes less and writes nothing.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import stabgate as sg
from stabgate.measure.halves import RowHalves
from stabgate.measure.intervals import count_interval
from stabgate.measure.kstability import stability_of
from stabgate.measure.numbers import KSettings, numbers_of
from stabgate.verdict.early import looks, settled
from stabgate.verdict.kstability import between, judge_k, k_requirement, needed_rows
from stabgate.verdict.prediction import NEVER, Forecast, forecast, is_settled, probabilities
from stabgate.verdict.verdicts import KRequirement, Outcome

PAGE = Path(__file__).parents[1] / "docs" / "early-stopping.md"
RUNS = 50
FEATURES = 13
# Standard deviation of k over fresh seeds -> mean gap between ranked features, in units of 2 standard deviations of
# a run, and the k that is asked for. Gaps vary between the rows (by e^0.4) and within them (by e^0.6).
PROFILES = {0.39: (1.37, 2), 0.58: (1.56, 2), 1.0: (2.0, 3)}
SETTINGS = KSettings(0.9, "all-pairs", "magnitude", "kde", "jaccard", "silverman", bias_corrected=False)
TYPES, SETS = 24, 4  # rows of a library, and sets of runs of each
EXPERIMENTS = 500  # for each profile and number of rows
BUCKETS = ((0.0, 0.05), (0.05, 0.1), (0.1, 1.0))


@dataclass
class Library:
    """Rows of one profile: ``(types, sets of runs, looks)``, the last look being all runs."""

    k: int
    spread_of_k: float
    truth: Any  # (types,)
    met: Any
    chance: Any
    centre: Any
    spread: Any
    fits: Any


def library(spread: float, types: int, sets: int, seed: int) -> Library:
    """Rows whose k varies by `spread` over fresh seeds."""
    gap, k = PROFILES[spread]
    rng = np.random.default_rng(seed)
    row, pair = rng.normal(size=(types, 1)), rng.normal(size=(types, FEATURES))
    means = 2.0 + np.cumsum((2.0 * gap * np.exp(0.4 * row + 0.6 * pair))[:, ::-1], axis=1)[:, ::-1]
    fresh = np.stack([numbers_of(means + rng.normal(size=(RUNS, types, FEATURES)), SETTINGS).k for _ in range(200)])
    at = [*looks(RUNS), RUNS]
    shape = (types, sets, len(at))
    found = Library(
        k,
        float(fresh.std(axis=0, ddof=1).mean()),
        (fresh >= k).mean(axis=0),
        np.zeros(shape, dtype=bool),
        *(np.zeros(shape) for _ in range(3)),
        fits=np.ones(shape, dtype=bool),
    )
    requirement = KRequirement(k, 0.5, "order", 0.9, "all-pairs", RUNS)
    for s in range(sets):
        runs = means + rng.normal(size=(RUNS, types, FEATURES))
        for j, m in enumerate(at):
            reached = numbers_of(runs[:m], SETTINGS).k
            found.met[:, s, j] = reached >= k
            for i in range(types):
                found.chance[i, s, j] = RowHalves(runs[:m, i], SETTINGS, s).reaches(k).mean()
            if m < RUNS:
                ahead = forecast(runs[:m], SETTINGS, requirement, s)
                found.centre[:, s, j], found.spread[:, s, j], found.fits[:, s, j] = (
                    ahead.centre,
                    ahead.spread,
                    ahead.fits,
                )
    return found


def experiments(rows: Library, n: int, count: int, seed: int) -> Iterator[tuple[float, Outcome, Outcome, int]]:
    """Distance of the truth from the requirement, outcome of all runs, early outcome, runs used."""
    rng = np.random.default_rng(seed)
    types, sets, _ = rows.met.shape
    at = looks(RUNS)
    done = 0
    while done < count:
        pick, which = np.divmod(rng.permutation(types * sets)[:n], sets)  # no runs twice: rows are independent
        truth = rows.truth[pick].mean()
        share = truth + rng.uniform(-0.3, 0.3)
        if not 0.02 <= share <= 1.0:
            continue
        done += 1
        requirement = KRequirement(rows.k, share, "order", 0.9, "all-pairs", RUNS)
        met, chance = rows.met[pick, which], rows.chance[pick, which]
        least = needed_rows(share, n) - 0.5
        full = between(*count_interval(met[:, -1], chance[:, -1]), least)
        early, used = full, RUNS
        for j, m in enumerate(at):
            now = between(*count_interval(met[:, j], chance[:, j]), least)
            if now is Outcome.INCONCLUSIVE:
                continue
            ahead = Forecast(
                rows.centre[pick, which, j],
                rows.spread[pick, which, j],
                rows.fits[pick, which, j],
                (m / (RUNS - m)) ** 0.5,
            )
            if is_settled(now, probabilities(ahead, requirement, n, seed + done)):
                early, used = now, m
                break
        yield share - truth, full, early, used


def simulated(count: int = EXPERIMENTS) -> list[str]:
    """The table of simulated experiments."""
    lines = [
        "| SD of k | rows | distance | experiments | decisive with all runs | early verdict the same "
        "| against the truth: early, all runs | runs used |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for spread in PROFILES:
        rows = library(spread, TYPES, SETS, seed=1)
        for n in (20, 50):
            found = list(experiments(rows, n, count, seed=n))
            for low, high in BUCKETS:
                inside = [e for e in found if low <= abs(e[0]) < high]
                decisive = [e for e in inside if e[1] is not Outcome.INCONCLUSIVE]
                same = np.mean([e[1] is e[2] for e in decisive]) if decisive else float("nan")
                used = np.mean([e[3] for e in inside]) / RUNS
                where = f"{low:g} to {high:g}" if high < 1 else f"{low:g} or more"
                lines.append(
                    f"| {rows.spread_of_k:.2f} | {n} | {where} | {len(inside)} | {len(decisive)} | {same:.1%} "
                    f"| {_against(inside, 2)}, {_against(inside, 1)} | {used:.0%} |"
                )
                print(lines[-1], flush=True)
    return lines


def _against(found: list[tuple[Any, ...]], which: int) -> int:
    """Verdicts that say PASS where the truth is too low, or FAIL where it is high enough."""
    wrong = {True: Outcome.PASS, False: Outcome.FAIL}
    return sum(e[which] is wrong[e[0] > 0] for e in found)


def real_results() -> dict[str, sg.KStability]:
    """50 runs of four methods on 20 rows of the breast-cancer data (8 rows and ten columns for DiCE)."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    data, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = GradientBoostingClassifier(n_estimators=50, max_depth=2, random_state=0).fit(data, y)
    background = data.sample(20, random_state=0)
    X = data.drop(background.index).sample(20, random_state=1)
    means = data.columns[:10]
    fast = make_pipeline(StandardScaler(), LogisticRegression()).fit(data[means], y)
    methods = {
        "KernelSHAP, nsamples 500": sg.explainers.Shap(model, background=background, nsamples=500),
        "KernelSHAP, 10 features by l1": sg.explainers.Shap(
            model, background=background, nsamples=500, l1_reg="num_features(10)"
        ),
        "LIME, 1,000 samples": sg.explainers.Lime(model, background=data, num_samples=1000),
        "DiCE, random": sg.explainers.Dice(fast, background=data[means], posthoc_sparsity_algorithm=None),
    }
    return {
        name: sg.measure_k_stability(method, X[means][:8] if name.startswith("DiCE") else X, runs=RUNS)
        for name, method in methods.items()
    }


def real(results: dict[str, sg.KStability]) -> list[str]:
    """The table of real arrays: every requirement of a grid."""
    lines = [
        "| method | median k | gates | decisive with all runs | early verdict the same | stopped early | runs used |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, result in results.items():
        counts: dict[str, float] = defaultdict(float)
        at = [*looks(RUNS), RUNS]
        parts = {(t, m): stability_of(result.attributions.thin(m), threshold=t) for t in (0.7, 0.9) for m in at}
        options = [
            (threshold, k, share, require)
            for threshold, require in ((0.7, "order"), (0.9, "order"), (0.9, "membership"))
            for k in (2, 3, 5)
            for share in (0.25, 0.5, 0.75, 1.0)
        ]
        for threshold, k, share, require in options:
            whole = parts[threshold, RUNS]
            requirement = k_requirement(whole, k=k, share=share, require=require)
            full = judge_k(whole, requirement, name=name).outcome
            early, used = full, RUNS
            for m in looks(RUNS):
                now = settled(parts[threshold, m], requirement)
                if now is not None:
                    early, used = now, m
                    break
            counts["decisive"] += full is not Outcome.INCONCLUSIVE
            counts["same"] += full is not Outcome.INCONCLUSIVE and early is full
            counts["early"] += used < RUNS
            counts["used"] += used / RUNS
        gates = len(options)
        lines.append(
            f"| {name} | {result.median_k:g} | {gates} | {counts['decisive']:.0f} | "
            f"{counts['same'] / max(counts['decisive'], 1):.1%} | {counts['early']:.0f} "
            f"| {counts['used'] / gates:.0%} |"
        )
        print(lines[-1], flush=True)
    return lines


def page(simulations: list[str], arrays: list[str]) -> str:
    """docs/early-stopping.md."""
    return "\n".join(
        [
            "# Early stopping",
            "",
            "Written by `benchmarks/early_stopping.py`. A gate that measures itself adds runs in blocks, and looks at "
            f"10, {', '.join(map(str, looks(RUNS)[1:]))} of 50 runs. It ends where the runs at hand say PASS or FAIL, "
            "and the outcome of all 50, predicted from them, is more likely the same than not, and the opposite "
            f"with a probability of at most {NEVER}. `early=False`, or `--stabgate-early=off`, measures all runs.",
            "",
            "## Simulated rows",
            "",
            f"13 features with normal attributions; {TYPES} rows with {SETS} sets of 50 runs each, for each spread "
            "of k over fresh seeds; an experiment draws 20 or 50 of those, none twice, and asks for a share that is up "
            "to 0.3 from the true one. *Distance*: of the truth from what is required. *Decisive*: PASS or FAIL with "
            "all runs. *Against the truth*: verdicts of PASS where the true share is too low, or of FAIL where it is "
            "high enough.",
            "",
            *simulations,
            "",
            "## Real arrays",
            "",
            "Breast-cancer data, a gradient-boosted model (DiCE: logistic regression, ten columns, 8 rows), 20 "
            "rows, 50 runs. Gates: k = 2, 3, 5; 25, 50, 75 and 100 % of rows; order at distances of 0.7 and "
            "0.9, membership at 0.9.",
            "",
            *arrays,
            "",
            "Importances of DiCE and values that l1 regularisation sets to zero repeat; where such a feature decides, "
            "nothing is predicted for the row: it counts as one that may turn out either way.",
            "",
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    if parser.parse_args().quick:
        simulated(50)
        real(real_results())
    else:
        PAGE.write_text(page(simulated(), real(real_results())), encoding="utf-8")
