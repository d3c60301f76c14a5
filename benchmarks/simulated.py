"""Measurements with a known truth: rows of 13 Gaussian features, and experiments drawn from a library of them.

k over half-samples costs about 40 ms a row, and a table of coverages needs a million rows. So each kind of row is
measured a few dozen times once, and an experiment draws, for each of its rows, a kind and one of the measurements of
that kind. What the statistic gives on average on these rows, the truth, is then known exactly: it is the mean over the
measurements that there are to draw from. They are as many independent measurements of that kind, so that intervals and
tests see real ones; the spread between them is (1 - 1/measurements) of the true one, 2-4 % too small in variance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stabgate.attributions import Attributions
from stabgate.measure.kresult import KStability
from stabgate.measure.kstability import stability_of
from stabgate.measure.record import Record, RowRecord

FEATURES = 13
LAST = 4.0  # mean of the feature that ranks last, in standard deviations of all features: magnitudes are never folded
# Share of gaps between neighbours in the leading group that no set of runs closes; the others lie at the threshold. By
# it the standard deviation of k over fresh seeds is that of rows of the heart-disease data: about 0.4, 0.6 and 1.0.
SETTLED = {"steady": 0.9, "middling": 0.78, "jumpy": 0.3}

Floats = NDArray[np.float64]


def kinds(settled: float, count: int, seed: int) -> Floats:
    """Means of the features of `count` kinds of rows, ``(count, features)``, in standard deviations.

    The leading group has 3 to 8 features; behind it nothing can be told apart.
    """
    rng = np.random.default_rng(seed)
    gaps = rng.uniform(0.3, 2.0, (count, FEATURES - 1))
    for row in gaps:
        group = int(rng.integers(3, 9))
        near = rng.uniform(2.0, 4.5, group - 1)  # about 3 is where half of the measurements tell two apart
        row[: group - 1] = np.where(rng.random(group - 1) < settled, rng.uniform(5.0, 8.0, group - 1), near)
        row[group - 1] = 0.7
    return _means(gaps)


def one_rank_less(means: Floats, library: Library) -> Floats:
    """The same kinds, each losing about one rank: two neighbours in the leading group can no longer be told apart.

    Which two: those for which mean k falls by what is nearest to one, as the measurements of `library` say.
    """
    gaps = -np.diff(means, axis=1)
    for kind, row in enumerate(gaps):
        k = library.k[kind]
        falls = [abs(float((k - np.minimum(k, last)).mean()) - 1.0) for last in range(1, FEATURES)]
        row[int(np.argmin(falls))] = 0.3
    return _means(gaps)


def cut(means: Floats, k: int) -> Floats:
    """The same kinds, none of which reaches `k`: the features ranked k - 1 and k can no longer be told apart."""
    gaps = -np.diff(means, axis=1)
    gaps[:, k - 2] = 0.3
    return _means(gaps)


def _means(gaps: Floats) -> Floats:
    tail = np.full((len(gaps), 1), LAST)
    return np.asarray(np.concatenate([gaps, tail], axis=1)[:, ::-1].cumsum(axis=1)[:, ::-1])


@dataclass(frozen=True, eq=False)
class Library:
    """Measurements of kinds of rows.

    Attributes:
        result: all of them as one result; the instance of kind i, measurement j is ``i * repeats + j``.
        repeats: measurements of each kind.
    """

    result: KStability
    repeats: int
    rows: tuple[RowRecord, ...]
    record: Record

    @classmethod
    def of(cls, means: Floats, *, runs: int, repeats: int, seed: int, noise: float = 1.0) -> Library:
        """Measure kinds of rows whose features have these means and the standard deviation `noise`."""
        rng = np.random.default_rng(seed)
        rows = np.repeat(means, repeats, axis=0)
        result = stability_of(_attributions(rows + noise * rng.normal(size=(runs, *rows.shape)), seed))
        record = Record.of(result)
        by_id = {int(row.id): row for row in record.rows}
        return cls(result, repeats, tuple(by_id[i] for i in range(len(rows))), record)

    @property
    def kinds(self) -> int:
        """How many kinds of rows there are."""
        return len(self.rows) // self.repeats

    @property
    def truth(self) -> Floats:
        """What k is on average, for each kind ``(kinds,)``."""
        return np.asarray(self.k.mean(axis=1))

    @property
    def k(self) -> NDArray[np.intp]:
        """k of each measurement, ``(kinds, repeats)``."""
        return self.result.k.reshape(-1, self.repeats)

    def draw(self, chosen: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
        """One measurement for each row of the kinds that were chosen, as positions in `result`."""
        return chosen * self.repeats + rng.integers(self.repeats, size=len(chosen))

    def measured(self, positions: NDArray[np.intp]) -> KStability:
        """These measurements as a result of their own, with the half-samples that they have already."""
        all_of = self.result
        some = KStability(
            _attributions(all_of.attributions.values[:, positions], 0),
            all_of.k[positions],
            all_of.distances[positions],
            all_of.ranking[positions],
            all_of.means[positions],
            all_of.separated[positions],
            all_of.settings,
        )
        halves = all_of.half_k
        assert halves is not None
        some.__dict__["half_k"] = halves[:, positions]
        return some

    def drawn_twice(
        self, chosen: NDArray[np.intp], rng: np.random.Generator
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Two different measurements for each row, as positions."""
        first = rng.integers(self.repeats, size=len(chosen))
        second = (first + rng.integers(1, self.repeats, size=len(chosen))) % self.repeats
        return chosen * self.repeats + first, chosen * self.repeats + second

    def recorded(self, positions: NDArray[np.intp], *, changed: Library | None = None, where: Any = ()) -> Record:
        """These measurements as a record; at the rows `where` measurements of the same kinds from `changed`."""
        rows = [self.rows[p] for p in positions]
        for i in where if changed is not None else ():
            assert changed is not None
            kind, repeat = divmod(int(positions[i]), self.repeats)
            rows[i] = changed.rows[kind * changed.repeats + repeat % changed.repeats]
        return replace(self.record, rows=tuple(replace(row, id=f"{i:03d}") for i, row in enumerate(rows)))


def _attributions(values: Floats, seed: int) -> Attributions:
    runs, rows, features = values.shape
    provenance: dict[str, Any] = {"seed": seed, "explainer": "simulated"}
    names = tuple(f"f{j}" for j in range(features))
    return Attributions(
        values, names, tuple(range(rows)), np.zeros((runs, rows), dtype=np.uint32), provenance=provenance
    )
