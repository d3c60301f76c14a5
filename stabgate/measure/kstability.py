"""k-stability of explainers on rows: repeated runs, distances between features' distributions, k per row [K]."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from stabgate import separability as sep
from stabgate.attributions import Attributions
from stabgate.budget import Budget
from stabgate.errors import InputError
from stabgate.forecast import CostWarning
from stabgate.measure.kresult import KStability
from stabgate.measure.numbers import KSettings, numbers_of
from stabgate.runs import Collection
from stabgate.tables import Table, row_ids

if TYPE_CHECKING:
    import pandas as pd

LARGE_DISTANCES = 2 * 2**30  # bytes of the matrices (instances, features, features) from which they deserve a word


def stability_of(
    attributions: Attributions,
    *,
    threshold: float = 0.9,
    rule: str = "all-pairs",
    value: str = "magnitude",
    density: str = "kde",
    metric: str = "jaccard",
    bandwidth: Any = "silverman",
    bias_corrected: bool = False,
) -> KStability:
    """k-stability of attributions that exist already.

    Args:
        attributions: m >= 2 runs over n >= 2 features.
        threshold: l in (0, 1], the least distance that counts as separated ([K] uses 0.9).
        rule: "all-pairs" ([K] Definition 1) or "consecutive" ([K]'s prose).
        value: what enters the distributions: "magnitude", "signed", "adverse", "favourable" or "absmean".
        density: "kde" ([K]) or "mixed", which treats exactly repeated values as atoms.
        metric: "jaccard" ([K] eq. 2), "total_variation", "hellinger" or "jensen_shannon".
        bandwidth: "silverman" ([K]), "scott", a factor, or one bandwidth per feature.
        bias_corrected: scale each KDE to the variance of its sample; changes k, so it needs its own baseline.

    Raises:
        InputError: an unknown option, one feature, or one run.
    """
    settings = KSettings(threshold, rule, value, density, metric, bandwidth, bias_corrected)
    settings.check()
    return of_attributions(attributions, settings)


def of_attributions(attributions: Attributions, settings: KSettings) -> KStability:
    """`stability_of` with settings that were checked."""
    runs, instances, features = attributions.values.shape
    if features < 2:
        raise InputError(f"there is one feature, {attributions.features[0]!r}: nothing to rank, so no order to measure")
    if runs < 2:
        raise InputError(f"runs={runs}: one run has no distribution; measure with at least 2")
    where = np.flatnonzero(attributions.measured)
    k = np.zeros(instances, dtype=np.intp)
    distances = np.full((instances, features, features), np.nan)
    ranking = np.full((instances, features), -1, dtype=np.intp)
    means = np.full((instances, features), np.nan)
    separated = np.zeros((instances, features, features), dtype=bool)
    if where.size:
        numbers = numbers_of(attributions.values[:, where], settings)
        k[where], distances[where], ranking[where] = numbers.k, numbers.distances, numbers.ranking
        means[where], separated[where] = numbers.means, numbers.separated
    return KStability(attributions, k, distances, ranking, means, separated, settings)


def measure_k_stability(
    explainer: Any,
    X: Any,
    *,
    target: Any = None,
    runs: int = 50,
    threshold: float = 0.9,
    rule: str = "all-pairs",
    value: str = "magnitude",
    density: str = "kde",
    seed: int = 0,
    metric: str = "jaccard",
    bandwidth: Any = "silverman",
    bias_corrected: bool = False,
    rows: Any = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    n_jobs: int | None = None,
    cache: bool = True,
) -> KStability:
    """Explain every row of `X` `runs` times and say how many leading features keep a reliable order ([K]).

    Args:
        explainer: a stabgate explainer or any object with ``explain(X, *, seed, target=None)``.
        X: rows, ``(instances, features)``: DataFrame, array or sparse matrix.
        target: class label (or number of the output); None explains the only output, the positive class of two, or
            the predicted class of each row.
        runs: m, at least 2; [K] uses 50. k from different numbers of runs is not comparable.
        seed: seed of the whole measurement, from 0.
        rows: which rows of X: ids, a function of X that returns booleans, or the size of a seeded sample; "sample":
            all of them, and X is a sample itself: intervals are then about the population it was drawn from.
        groups: columns ranked as one feature, by its name.
        n_jobs: worker processes; None decides by the cost, and is 1 under pytest-xdist.
        cache: reuse attributions that were computed before for the same model, data, settings and seeds.
        threshold, rule, value, density, metric, bandwidth, bias_corrected: as in `stability_of`.

    Raises:
        InputError: the data or an option cannot be used.
        ModelError: the model raises, or varies between identical calls.
    """
    settings = KSettings(threshold, rule, value, density, metric, bandwidth, bias_corrected)
    collecting = {
        "target": target,
        "runs": runs,
        "seed": seed,
        "rows": rows,
        "groups": groups,
        "n_jobs": n_jobs,
        "cache": cache,
    }
    with started(explainer, X, settings, collecting) as collection:
        collection.advance(runs)
        return of_attributions(collection.attributions(), settings)


def started(
    explainer: Any, X: Any, settings: KSettings, collecting: Mapping[str, Any], *, budget: Budget | None = None
) -> Collection:
    """A measurement without any run yet.

    Args:
        collecting: what `Collection` takes beside explainer, rows and budget.

    Raises:
        InputError, ModelError: as in `measure_k_stability`.
    """
    settings.check()
    features = Table.of(X, what="X").features
    if len(features) < 2:
        raise InputError(f"X has one feature, {features[0]!r}: nothing to rank, so no order to measure")
    every_row = collecting.get("rows") is None or isinstance(collecting["rows"], str)  # "sample" is all of them
    if every_row and collecting.get("groups") is None:
        _warn_of_memory(len(row_ids(X)), len(features))
    return Collection(explainer, X, **collecting, budget=budget)


def _warn_of_memory(instances: int, features: int) -> None:
    size = instances * features**2 * 8
    if size > LARGE_DISTANCES:
        warnings.warn(
            f"the distances between {features:,} features on {instances:,} rows take {size / 2**30:.0f} GB and time to "
            "match; rank columns together with groups=, or measure fewer rows (rows=)",
            CostWarning,
            stacklevel=4,
        )


def compare_methods(results: Mapping[str, KStability]) -> pd.DataFrame:
    """Share of instances on which the row's method reaches at least the column's k ([K] Definition 2, Tables 1-4).

    Over the instances that all methods measured; ``frame.attrs["instances"]`` says how many those are.

    Raises:
        InputError: other rows, numbers of runs, thresholds, rules or densities: such k are not comparable.
    """
    import pandas as pd

    if not isinstance(results, Mapping) or not results:
        raise InputError('compare_methods needs results by name: {"lime": result, "shap": other}')
    names = list(results)
    first = results[names[0]]
    for name, result in results.items():
        for what, mine, others in (
            ("rows", result.instances, first.instances),
            ("features", result.features, first.features),
            ("runs", result.runs, first.runs),
            *((what, mine, asdict(first.settings)[what]) for what, mine in asdict(result.settings).items()),
        ):
            if mine != others:
                shown = "" if what in ("rows", "features") else f" ({others!r} and {mine!r})"
                raise InputError(f"{names[0]!r} and {name!r} differ in {what}{shown}: their k are not comparable")
    both = np.logical_and.reduce([result.measured for result in results.values()])
    if not both.any():
        raise InputError("no instance was measured by every method: nothing to compare")
    table = sep.compare_k([result.k[both] for result in results.values()])
    frame = pd.DataFrame(table, index=pd.Index(names), columns=pd.Index(names))
    frame.attrs["instances"] = int(both.sum())
    return frame
