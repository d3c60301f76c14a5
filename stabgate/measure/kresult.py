"""`KStability`: what was measured about the order of features on rows, and what follows from it [K]."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stabgate import separability as sep
from stabgate.attributions import Attributions
from stabgate.columns import Floats
from stabgate.errors import InputError
from stabgate.measure.halves import HALVES, RowHalves, half_sample_k, least_runs
from stabgate.measure.intervals import (
    Interval,
    clip,
    count_interval,
    half_variance,
    mean_interval,
    population_mean_interval,
    population_share_interval,
)
from stabgate.measure.numbers import KSettings, numbers_of
from stabgate.seeds import row_seed

if TYPE_CHECKING:
    import pandas as pd

HINGE = 1e-6  # a distance this close to the threshold decides by a hair, and other machines may differ
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
        separated: boolean ``(instances, features, features)``: at least the threshold apart, and not tied.
        settings: threshold, rule, value, density, metric, bandwidth, bias_corrected.
    """

    attributions: Attributions
    k: NDArray[np.intp]
    distances: Floats
    ranking: NDArray[np.intp]
    means: Floats
    separated: NDArray[np.bool_]
    settings: KSettings

    @property
    def measured(self) -> NDArray[np.bool_]:
        """Boolean ``(instances,)``."""
        return self.attributions.measured

    @property
    def threshold(self) -> float:
        """l, the least distance that counts as separated."""
        return self.settings.threshold

    @property
    def runs(self) -> int:
        """m, the number of runs."""
        return self.attributions.runs

    @property
    def planned(self) -> int:
        """The number of runs that was asked for; above `runs` where a gate needed no more, or its budget ended."""
        return int(self.attributions.provenance.get("planned", self.runs))

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
        if self.settings.density == "kde" and affected.size and not self.deterministic:
            mixed = replace(self.settings, density="mixed")
            k[affected] = numbers_of(self.attributions.values[:, affected], mixed).k
        return k

    @cached_property
    def hinges(self) -> NDArray[np.bool_]:
        """Boolean ``(instances,)``: k would differ if a distance moved by 1e-6."""
        result = np.zeros(len(self.k), dtype=bool)
        where = np.flatnonzero(self.measured)
        if where.size:
            low, high = (
                sep.k_from_separated(pairs, self.ranking[where], rule=self.settings.rule)
                for pairs in self._separated_around(where)
            )
            result[where] = low != high
        return result

    def hinging(self, k: int, require: str = "order") -> NDArray[np.bool_]:
        """Boolean ``(instances,)``: whether it meets a requirement would change if a distance moved by 1e-6."""
        result = np.zeros(len(self.k), dtype=bool)
        where = np.flatnonzero(self.measured)
        if where.size:
            bounds = []
            for pairs in self._separated_around(where):
                order = np.asarray(sep.k_from_separated(pairs, self.ranking[where], rule=self.settings.rule)) >= k
                if require == "order":
                    bounds.append(order)
                    continue
                member = sep.certified_groups(pairs, self.ranking[where])[:, k - 1]
                bounds.append(member if require == "membership" else member & order)
            result[where] = bounds[0] != bounds[1]
        return result

    def _separated_around(self, where: NDArray[np.intp]) -> list[NDArray[np.bool_]]:
        """Which pairs are told apart with a threshold a hair below and a hair above."""
        return [
            (self.distances[where] >= level) & ~self._tied[where]
            for level in (self.threshold - HINGE, self.threshold + HINGE)
        ]

    @property
    def rand_k(self) -> float:
        """Median k of RAND (i.i.d. uniform attributions) with the same number of features, runs and settings."""
        return self._rand[0]

    def rand_curve(self) -> sep.SeparabilityCurve:
        """The separability curve of RAND, as `curve`."""
        return self._rand[1]

    @cached_property
    def _rand(self) -> tuple[float, sep.SeparabilityCurve]:
        runs, instances, features = self.attributions.values.shape
        rows = min(instances, RAND_ROWS)
        rng = np.random.default_rng(row_seed(int(self.attributions.provenance.get("seed", 0)), 0, "RAND"))
        found = numbers_of(rng.random((runs, rows, features)), self.settings)
        return float(np.median(found.k)), sep.separability_curve(found.distances, found.ranking)

    @property
    def of_population(self) -> bool:
        """The rows were said to be a sample (``rows="sample"``), so that intervals are about their population."""
        return bool(self.attributions.provenance.get("population", False))

    @cached_property
    def half_k(self) -> NDArray[np.intp] | None:
        """k in each of 100 half-samples of the runs, ``(100, instances)``; None below four runs.

        Below six for ``density="mixed"``. 0 where an instance was not measured. Half-samples are drawn without
        replacement and smoothed like all runs.
        """
        if self.runs < least_runs(self.settings.density) and not self.deterministic:
            return None
        found = np.broadcast_to(self.k, (HALVES, len(self.k))).copy()
        where = np.flatnonzero(self.measured & ~self.constant.all(axis=1))
        if where.size:
            seeds = [self._half_seed(int(i)) for i in where]
            found[:, where] = half_sample_k(self.attributions.values[:, where], self.settings, seeds, self.k[where])
        return found

    @property
    def bagged_k(self) -> Floats | None:
        """Mean of k over half-samples, ``(instances,)``: it varies less from seed to seed than k; None as `half_k`."""
        return None if self.half_k is None else np.asarray(self.half_k.mean(axis=0))

    @property
    def variance_of_k(self) -> Floats | None:
        """Variance of k over other runs, ``(instances,)``, as half-samples tell it; None as `half_k`."""
        return None if self.half_k is None else half_variance(self.half_k)

    def chances(self, k: int, require: str = "order") -> Floats | None:
        """Share of half-samples in which each instance meets a requirement, ``(instances,)``; None as `half_k`.

        0 for an instance that was not measured.
        """
        halves = self.half_k
        if halves is None:
            return None
        met = halves >= k
        if require != "order":
            certified = np.broadcast_to(self.certified_groups()[:, k - 1], met.shape).copy()
            for i in np.flatnonzero(self.measured & ~self.constant.all(axis=1)):
                certified[:, i] = RowHalves(
                    self.attributions.values[:, i], self.settings, self._half_seed(int(i))
                ).certified(k)
            met = certified if require == "membership" else met & certified
        return np.asarray(met.mean(axis=0) * self.measured)

    def share_interval(self, k: int, require: str = "order") -> Interval | None:
        """95 % interval of the share of all instances that meet a requirement, in [0, 1].

        Over other runs on these instances (half-samples), or, where they are a sample, over other instances (Wilson).
        None where nothing was measured, or as `half_k`.
        """
        n = len(self.k)
        if self.of_population:
            return population_share_interval(int(self.meets(k, require).sum()), n) if self.measured.any() else None
        found = self.count_interval(k, require)
        return None if found is None else clip((found[0] / n, found[1] / n), 0.0, 1.0)

    def count_interval(self, k: int, require: str = "order") -> Interval | None:
        """The interval of `share_interval` as a number of instances, its ends not cut off; for these instances only."""
        chances = self.chances(k, require)
        if chances is None or not self.measured.any():
            return None
        return count_interval(self.meets(k, require), chances, deterministic=self.deterministic)

    @property
    def mean_k_interval(self) -> Interval | None:
        """95 % interval of `mean_k`, within 1 and the number of features; None as `half_k`.

        Over other runs on these instances, or, where they are a sample, over other instances.
        """
        where = self.measured
        if not where.any():
            return None
        if self.of_population:
            found = population_mean_interval(self.k[where].astype(np.float64))
        elif self.variance_of_k is None:
            found = None
        else:
            mean = float(self.k[where].mean())
            found = mean_interval(mean, self.variance_of_k[where], deterministic=self.deterministic)
        return None if found is None else clip(found, 1.0, float(len(self.features)))

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
        above = order[k - 1 : k] if self.settings.rule == "consecutive" else order[:k]
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
            notes.append(f"{len(self.attributions.failures)} of {n} rows were not measured")
        if self.hinges.any():
            notes.append(f"k hinges on a distance within {HINGE:g} of {self.threshold:g} on {self.hinges.sum()} rows")
        repeated = int((self.repeated & self.measured[:, None]).any(axis=1).sum())
        if repeated and self.settings.density == "kde":
            changed = int((self.k_mixed != self.k).sum())
            notes.append(
                f"features repeat exact values on {repeated} of {n} rows; density='mixed' "
                + (f"changes k on {changed} of them" if changed else "does not change k")
            )
        notes += self.attributions.provenance.get("notes", ())
        return tuple(notes)

    def to_frame(self) -> pd.DataFrame:
        """One row per instance: k, its mixed reading, runs, target, ranking, what stops k, or why it has none."""
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
                    "runs": self.runs if measured else None,
                    "measured": measured,
                    "reason": self.attributions.failures.get(row),
                    "target": self.attributions.targets[i] if self.attributions.targets else None,
                    "ranking": tuple(self.features[j] for j in self.ranking[i]) if measured else None,
                    "confused": stops[0][:2] if stops else None,
                    "distance": stops[0][2] if stops else None,
                    "hinges": bool(self.hinges[i]),
                }
            )
        return pd.DataFrame(rows).astype({"k": "Int64", "k_mixed": "Int64", "runs": "Int64"})

    @cached_property
    def _tied(self) -> NDArray[np.bool_]:
        tied = np.zeros(self.distances.shape, dtype=bool)
        where = np.flatnonzero(self.measured)
        if where.size:
            values = sep.attribution_values(self.attributions.values[:, where], self.settings.value)
            tied[where] = sep.tied_pairs(self.means[where], sep.noise_floor(values))
        return tied

    def _half_seed(self, i: int) -> int:
        return row_seed(int(self.attributions.provenance.get("seed", 0)), 0, f"halves of {self.instances[i]!r}")

    def _some_measured(self) -> NDArray[np.intp]:
        where = np.flatnonzero(self.measured)
        if not where.size:
            raise InputError("no instance was measured: " + next(iter(self.attributions.failures.values()), "no rows"))
        return where

    def _spread(self, flags: Any) -> NDArray[np.bool_]:
        result = np.zeros((len(self.k), len(self.features)), dtype=bool)
        where = np.flatnonzero(self.measured)
        if where.size:
            values = sep.attribution_values(self.attributions.values[:, where], self.settings.value)
            result[where] = flags(values)
        return result
