"""k-stability of an explainer on rows: repeated runs, distances between features' distributions, k per row [K]."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stabgate import separability as sep
from stabgate.attributions import Attributions
from stabgate.errors import InputError
from stabgate.forecast import CostWarning
from stabgate.runs import collect
from stabgate.seeds import row_seed
from stabgate.tables import Floats, Table, row_ids

if TYPE_CHECKING:
    import pandas as pd

HINGE = 1e-6  # a distance this close to the threshold decides by a hair, and other machines may differ
LARGE_DISTANCES = 2 * 2**30  # bytes of the matrices (instances, features, features) from which they deserve a word
RAND_ROWS = 20  # rows of the random reference: its k depends on the features, the runs and the settings only


@dataclass(frozen=True, eq=False)
class KStability:
    """What was measured. Instances that could not be measured have k = 0, NaN distances and rank -1.

    Attributes:
        attributions: the signed attributions ``(runs, instances, features)`` with provenance and cost.
        k: int ``(instances,)``, 1..n; k = 1 certifies no order at all.
        distances: float64 ``(instances, features, features)`` in [0, 1].
        ranking: int ``(instances, features)``, feature positions by descending mean, best first.
        means: float64 ``(instances, features)``, what the ranking goes by.
        threshold, rule, value, density, metric, bandwidth, bias_corrected: the settings.
    """

    attributions: Attributions
    k: NDArray[np.intp]
    distances: Floats
    ranking: NDArray[np.intp]
    means: Floats
    separated: NDArray[np.bool_]
    threshold: float
    rule: str
    value: str
    density: str
    metric: str
    bandwidth: Any
    bias_corrected: bool

    @property
    def measured(self) -> NDArray[np.bool_]:
        """Boolean ``(instances,)``."""
        return self.attributions.measured

    @property
    def runs(self) -> int:
        """m, the number of runs."""
        return self.attributions.runs

    @property
    def instances(self) -> tuple[Any, ...]:
        """Row ids."""
        return self.attributions.instances

    @property
    def features(self) -> tuple[str, ...]:
        """Feature names."""
        return self.attributions.features

    @property
    def cost(self) -> Any:
        """Model rows, calls and seconds."""
        return self.attributions.cost

    @property
    def median_k(self) -> float | None:
        """Median of k over the measured instances; None where there are none."""
        found = self.k[self.measured]
        return float(statistics.median(found.tolist())) if found.size else None

    @property
    def mean_k(self) -> float | None:
        """Mean of k over the measured instances; None where there are none."""
        found = self.k[self.measured]
        return float(found.mean()) if found.size else None

    @property
    def deterministic(self) -> bool:
        """True when no feature of any measured instance varied above the noise floor: no randomness was exercised."""
        return bool(self.measured.any()) and bool(self.constant[self.measured].all())

    @cached_property
    def constant(self) -> NDArray[np.bool_]:
        """Boolean ``(instances, features)``: the value is the same in every run, up to the noise floor."""
        return self._spread(sep.constant_features)

    @cached_property
    def repeated(self) -> NDArray[np.bool_]:
        """Boolean ``(instances, features)``: at least half of the runs repeat values exactly; not constant."""
        return self._spread(sep.repeated_features)

    @cached_property
    def k_mixed(self) -> NDArray[np.intp]:
        """k under ``density="mixed"``; equals `k` where no value is repeated ([K] uses the KDE throughout)."""
        k = self.k.copy()
        affected = np.flatnonzero(self.measured & (self.repeated | self.constant).any(axis=1))
        if self.density == "kde" and affected.size and not self.deterministic:
            values = sep.attribution_values(self.attributions.values[:, affected], self.value)
            k[affected] = _measure(values, self._settings | {"density": "mixed"}).k
        return k

    @cached_property
    def hinges(self) -> NDArray[np.bool_]:
        """Boolean ``(instances,)``: k would differ if a distance moved by 1e-6."""
        result = np.zeros(len(self.k), dtype=bool)
        where = np.flatnonzero(self.measured)
        if where.size:
            tied = self._tied[where]
            bounds = [
                sep.k_from_separated((self.distances[where] >= level) & ~tied, self.ranking[where], rule=self.rule)
                for level in (self.threshold - HINGE, self.threshold + HINGE)
            ]
            result[where] = bounds[0] != bounds[1]
        return result

    @cached_property
    def rand_k(self) -> float:
        """Median k of RAND (i.i.d. uniform attributions) with the same number of features, runs and settings."""
        runs, instances, features = self.attributions.values.shape
        rows = min(instances, RAND_ROWS)
        rng = np.random.default_rng(row_seed(int(self.attributions.provenance.get("seed", 0)), 0, "RAND"))
        values = sep.attribution_values(rng.random((runs, rows, features)), self.value)
        return float(np.median(_measure(values, self._settings).k))

    def meets(self, k: int, require: str = "order") -> NDArray[np.bool_]:
        """Boolean ``(instances,)``: which instances meet a requirement; never one that was not measured."""
        order = self.k >= k
        if require == "order":
            return order & self.measured
        member = self.certified_groups()[:, k - 1]
        return (member if require == "membership" else member & order) & self.measured

    def certified_groups(self) -> NDArray[np.bool_]:
        """Boolean ``(instances, features - 1)``: ``[i, k - 1]`` says that the first k are told apart from all others.

        Source: [K] A.1 with f = min. The mean over instances is the certification rate per k.
        """
        certified = np.zeros((len(self.k), len(self.features) - 1), dtype=bool)
        where = np.flatnonzero(self.measured)
        if where.size:
            certified[where] = sep.certified_groups(self.separated[where], self.ranking[where])
        return certified

    def curve(self) -> sep.SeparabilityCurve:
        """Mean distance of each ranked feature to the next, with ± 2σ/√N over measured instances ([K] Fig. 2)."""
        where = self._some_measured()
        return sep.separability_curve(self.distances[where], self.ranking[where])

    def heatmap(self) -> Floats:
        """Mean distances in rank order over measured instances, ``(features, features)`` ([K] Fig. 3)."""
        where = self._some_measured()
        return sep.heatmap(self.distances[where], self.ranking[where])

    def confusions(self, i: int) -> list[tuple[str, str, float, bool]]:
        """Pairs among the leading features of instance `i` that stop its prefix from growing.

        Each is (higher feature, lower feature, distance, tied), the smallest distance first.
        """
        order, k = self.ranking[i], int(self.k[i])
        if not self.measured[i] or k >= len(order):
            return []
        last = order[k]
        above = order[k - 1 : k] if self.rule == "consecutive" else order[:k]
        pairs = [
            (self.features[a], self.features[last], float(self.distances[i, a, last]), bool(self._tied[i, a, last]))
            for a in above
            if not self.separated[i, a, last]
        ]
        return sorted(pairs, key=lambda pair: pair[2])

    def outsiders(self, i: int, k: int) -> list[tuple[str, str, float, bool]]:
        """Pairs of a feature among the first `k` and one outside that are not told apart, as in `confusions`."""
        if not self.measured[i]:
            return []
        inside, outside = self.ranking[i, :k], self.ranking[i, k:]
        pairs = [
            (self.features[a], self.features[b], float(self.distances[i, a, b]), bool(self._tied[i, a, b]))
            for a in inside
            for b in outside
            if not self.separated[i, a, b]
        ]
        return sorted(pairs, key=lambda pair: pair[2])

    def notes(self) -> tuple[str, ...]:
        """What a reader should know beside the numbers."""
        notes = []
        n = len(self.k)
        if self.deterministic:
            notes.append("deterministic: every run gave the same values, so no randomness was exercised")
        if self.attributions.failures:
            notes.append(f"{len(self.attributions.failures)} of {n} rows were not measured and count as not met")
        if self.hinges.any():
            notes.append(f"k hinges on a distance within {HINGE:g} of {self.threshold:g} on {self.hinges.sum()} rows")
        repeated = int((self.repeated & self.measured[:, None]).any(axis=1).sum())
        if repeated and self.density == "kde":
            changed = int((self.k_mixed != self.k).sum())
            notes.append(
                f"features repeat exact values on {repeated} of {n} rows; density='mixed' "
                + (f"changes k on {changed} of them" if changed else "does not change k")
            )
        notes += self.attributions.provenance.get("notes", ())
        return tuple(notes)

    def to_frame(self) -> pd.DataFrame:
        """One row per instance: k, its mixed reading, target, ranking, what stops k, or why it was not measured."""
        import pandas as pd

        rows = []
        for i, row in enumerate(self.instances):
            stops = self.confusions(i)[:1]
            measured = bool(self.measured[i])
            rows.append(
                {
                    "instance": row,
                    "k": int(self.k[i]) if measured else None,
                    "k_mixed": int(self.k_mixed[i]) if measured else None,
                    "measured": measured,
                    "reason": self.attributions.failures.get(row),
                    "target": self.attributions.targets[i] if self.attributions.targets else None,
                    "ranking": tuple(self.features[j] for j in self.ranking[i]) if measured else None,
                    "confused": stops[0][:2] if stops else None,
                    "distance": stops[0][2] if stops else None,
                    "hinges": bool(self.hinges[i]),
                }
            )
        return pd.DataFrame(rows).astype({"k": "Int64", "k_mixed": "Int64"})

    @property
    def _settings(self) -> dict[str, Any]:
        return {
            "threshold": self.threshold,
            "rule": self.rule,
            "value": self.value,
            "density": self.density,
            "metric": self.metric,
            "bandwidth": self.bandwidth,
            "bias_corrected": self.bias_corrected,
        }

    @cached_property
    def _tied(self) -> NDArray[np.bool_]:
        tied = np.zeros(self.distances.shape, dtype=bool)
        where = np.flatnonzero(self.measured)
        if where.size:
            values = sep.attribution_values(self.attributions.values[:, where], self.value)
            tied[where] = sep.tied_pairs(self.means[where], sep.noise_floor(values))
        return tied

    def _some_measured(self) -> NDArray[np.intp]:
        where = np.flatnonzero(self.measured)
        if not where.size:
            raise InputError("no instance was measured: " + next(iter(self.attributions.failures.values()), "no rows"))
        return where

    def _spread(self, flags: Any) -> NDArray[np.bool_]:
        result = np.zeros((len(self.k), len(self.features)), dtype=bool)
        where = np.flatnonzero(self.measured)
        if where.size:
            values = sep.attribution_values(self.attributions.values[:, where], self.value)
            result[where] = flags(values)
        return result


@dataclass(frozen=True, eq=False)
class _Numbers:
    k: NDArray[np.intp]
    distances: Floats
    ranking: NDArray[np.intp]
    means: Floats
    separated: NDArray[np.bool_]


def _measure(values: Floats, settings: Mapping[str, Any]) -> _Numbers:
    """The numbers behind a result, for values ``(runs, instances, features)`` that are all measured."""
    distances = sep.distance_matrix(
        values,
        metric=settings["metric"],
        bandwidth=settings["bandwidth"],
        density=settings["density"],
        bias_corrected=settings["bias_corrected"],
    )
    means = sep.ranking_means(values, settings["value"])
    floor = sep.noise_floor(values)
    tied = sep.tied_pairs(means, floor)
    ranking = sep.rank_features(means, distances=distances, floor=floor)
    separated = (distances >= settings["threshold"]) & ~tied
    k = np.asarray(sep.k_from_separated(separated, ranking, rule=settings["rule"]), dtype=np.intp)
    return _Numbers(k, distances, ranking, means, separated)


def _check(settings: Mapping[str, Any]) -> None:
    """Refuse a wrong option before anything is explained, and even where no row could be measured."""
    sep.check_threshold(settings["threshold"])
    sep.check_rule(settings["rule"])
    features = 2 if np.ndim(settings["bandwidth"]) == 0 else max(2, len(settings["bandwidth"]))
    _measure(sep.attribution_values(np.zeros((2, 1, features)), settings["value"]), settings)


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
    runs, instances, features = attributions.values.shape
    if features < 2:
        raise InputError(f"there is one feature, {attributions.features[0]!r}: nothing to rank, so no order to measure")
    if runs < 2:
        raise InputError(f"runs={runs}: one run has no distribution; measure with at least 2")
    settings = {
        "threshold": threshold,
        "rule": rule,
        "value": value,
        "density": density,
        "metric": metric,
        "bandwidth": bandwidth,
        "bias_corrected": bias_corrected,
    }
    _check(settings)
    where = np.flatnonzero(attributions.measured)
    k = np.zeros(instances, dtype=np.intp)
    distances = np.full((instances, features, features), np.nan)
    ranking = np.full((instances, features), -1, dtype=np.intp)
    means = np.full((instances, features), np.nan)
    separated = np.zeros((instances, features, features), dtype=bool)
    if where.size:
        numbers = _measure(sep.attribution_values(attributions.values[:, where], value), settings)
        k[where], distances[where], ranking[where] = numbers.k, numbers.distances, numbers.ranking
        means[where], separated[where] = numbers.means, numbers.separated
    return KStability(attributions, k, distances, ranking, means, separated, **settings)


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
        rows: which rows of X: ids, a function of X that returns booleans, or the size of a seeded sample.
        groups: columns ranked as one feature, by its name.
        n_jobs: worker processes; None decides by the cost, and is 1 under pytest-xdist.
        cache: reuse attributions that were computed before for the same model, data, settings and seeds.
        threshold, rule, value, density, metric, bandwidth, bias_corrected: as in `stability_of`.

    Raises:
        InputError: the data or an option cannot be used.
        ModelError: the model raises, or varies between identical calls.
    """
    settings: dict[str, Any] = {
        "threshold": threshold,
        "rule": rule,
        "value": value,
        "density": density,
        "metric": metric,
        "bandwidth": bandwidth,
        "bias_corrected": bias_corrected,
    }
    _check(settings)
    features = Table.of(X, what="X").features
    if len(features) < 2:
        raise InputError(f"X has one feature, {features[0]!r}: nothing to rank, so no order to measure")
    if rows is None and groups is None:
        _warn_of_memory(len(row_ids(X)), len(features))
    attributions = collect(
        explainer, X, target=target, runs=runs, seed=seed, rows=rows, groups=groups, n_jobs=n_jobs, cache=cache
    )
    return stability_of(attributions, **settings)


def _warn_of_memory(instances: int, features: int) -> None:
    size = instances * features**2 * 8
    if size > LARGE_DISTANCES:
        warnings.warn(
            f"the distances between {features:,} features on {instances:,} rows take {size / 2**30:.0f} GB and time to "
            "match; rank columns together with groups=, or measure fewer rows (rows=)",
            CostWarning,
            stacklevel=3,
        )


def compare_methods(results: Mapping[str, KStability]) -> pd.DataFrame:
    """Share of instances on which the row's method reaches at least the column's k ([K] Definition 2, Tables 1-4).

    Over the instances that all methods measured; ``frame.attrs["instances"]`` says how many those are.

    Raises:
        InputError: other rows, numbers of runs, thresholds, rules or densities: such k are not comparable.
    """
    import pandas as pd

    if not results:
        raise InputError("compare_methods needs at least one result")
    names = list(results)
    first = results[names[0]]
    for name, result in results.items():
        for what, mine, others in (
            ("rows", result.instances, first.instances),
            ("runs", result.runs, first.runs),
            ("threshold", result.threshold, first.threshold),
            ("rule", result.rule, first.rule),
            ("value", result.value, first.value),
            ("density", result.density, first.density),
            ("metric", result.metric, first.metric),
        ):
            if mine != others:
                shown = "" if what == "rows" else f" ({others!r} and {mine!r})"
                raise InputError(f"{names[0]!r} and {name!r} differ in {what}{shown}: their k are not comparable")
    both = np.logical_and.reduce([result.measured for result in results.values()])
    if not both.any():
        raise InputError("no instance was measured by every method: nothing to compare")
    table = sep.compare_k([result.k[both] for result in results.values()])
    frame = pd.DataFrame(table, index=pd.Index(names), columns=pd.Index(names))
    frame.attrs["instances"] = int(both.sum())
    return frame
