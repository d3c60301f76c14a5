"""`Record`: what a measurement leaves behind for comparisons later on. Plain, small, and enough to test a drop."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from stabgate.errors import InputError
from stabgate.measure.intervals import half_variance

if TYPE_CHECKING:
    from stabgate.measure.fass import Fass
    from stabgate.measure.kresult import KStability

SCHEMA = 1
K = "k-stability"
FASS = "FASS"
LEADING = 10  # features of each row that are kept by name, best first
DIGITS = 6  # decimals of a score: as many as a baseline's file has, so that a record equals what is read back from it


@dataclass(frozen=True)
class RowRecord:
    """One row of a k-stability measurement.

    Attributes:
        id: of the row, as text (`row_text`).
        hash: of the row's values.
        target: label of the explained output, as text; empty where there is none.
        k: 0 where the row was not measured.
        halves: in how many of 100 half-samples k was 1, 2, ...; empty where the row was not measured, or below four
            runs.
        leading: names of its first features, best first.
        reason: why the row was not measured; empty where it was.
    """

    id: str
    hash: str
    target: str
    k: int
    halves: tuple[int, ...] = ()
    leading: tuple[str, ...] = ()
    reason: str = ""

    @property
    def mean(self) -> float:
        """Mean of k over half-samples (k itself where there are none)."""
        total = sum(self.halves)
        return sum(k * count for k, count in enumerate(self.halves, 1)) / total if total else float(self.k)

    @property
    def variance(self) -> float:
        """Variance of k over other runs, as half-samples tell it; NaN where there are none."""
        if not sum(self.halves):
            return float("nan")
        return float(half_variance(np.repeat(np.arange(1, len(self.halves) + 1), self.halves)))

    def chance(self, k: int) -> float:
        """Share of half-samples in which the row reaches `k`; NaN where there are none."""
        total = sum(self.halves)
        return sum(self.halves[k - 1 :]) / total if total else float("nan")


@dataclass(frozen=True)
class PairRecord:
    """One attempted pair of a FASS measurement; `score` is None where it was not retained (`status` says why)."""

    image: str
    hash: str
    perturbation: str
    draw: int
    status: str
    score: float | None


@dataclass(frozen=True)
class Record:
    """A measurement in plain values.

    Attributes:
        metric: "k-stability" or "FASS"; of both, higher is better.
        rows: of a k-stability measurement; sorted by id.
        pairs: of a FASS measurement; sorted by image, perturbation and draw.
        runs: m (1 for FASS).
        seed: of the measurement.
        features: names of the features (k-stability).
        settings: what the numbers depend on beside explainer, model and data.
        explainer: name, settings, package version, background, the target that was asked for.
        model: what the model calls itself.
        model_hash: None where the model has no fingerprint.
        columns_hash: of the columns' names, types and levels.
        versions: of stabgate, python and numpy.
        population: the rows are a sample, and intervals about their population.
        source: where the model came from, if it was given by its address: uri, name, version, alias, model_id, run_id.
    """

    metric: str
    runs: int
    seed: int
    settings: Mapping[str, Any]
    explainer: Mapping[str, Any]
    model: str
    model_hash: str | None
    columns_hash: str | None
    versions: Mapping[str, str]
    rows: tuple[RowRecord, ...] = ()
    pairs: tuple[PairRecord, ...] = ()
    features: tuple[str, ...] = ()
    population: bool = False
    source: Mapping[str, str] = field(default_factory=dict, compare=False)
    schema: int = field(default=SCHEMA)

    @classmethod
    def of(cls, result: KStability | Fass) -> Record:
        """The record of a result.

        Raises:
            InputError: several methods were measured, or something else was given.
        """
        from stabgate.measure.kresult import KStability

        if isinstance(result, KStability):
            return _of_k(result)
        from stabgate.measure.fass import Fass

        if isinstance(result, Fass):
            return _of_fass(result)
        raise InputError(f"a KStability or Fass result is needed, not {type(result).__name__}")

    @property
    def value(self) -> float | None:
        """Mean k over the measured rows, or FASS; None where nothing was measured."""
        if self.metric == K:
            found: Sequence[float] = [row.k for row in self.rows if row.k]
        else:
            found = [pair.score for pair in self.pairs if pair.score is not None]
        return float(np.mean(found)) if found else None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` reads them."""
        plain = asdict(self)
        del plain["pairs" if self.metric == K else "rows"]
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Record:
        """The record that `to_json` wrote.

        Raises:
            InputError: another schema, or fields that are missing, unknown or of another type.
        """
        schema = plain.get("schema") if isinstance(plain, Mapping) else None
        if schema != SCHEMA:
            raise InputError(f"a record of schema {schema!r}; this stabgate reads {SCHEMA}")
        try:
            found = dict(plain)
            found["rows"] = tuple(
                RowRecord(**{**row, "halves": tuple(row["halves"]), "leading": tuple(row["leading"])})
                for row in found.get("rows", ())
            )
            found["pairs"] = tuple(PairRecord(**pair) for pair in found.get("pairs", ()))
            found["features"] = tuple(found["features"])
            return cls(**found)
        except (KeyError, TypeError, ValueError) as error:
            known = ", ".join(f.name for f in fields(cls))
            raise InputError(f"a record that cannot be read ({error}); its fields are {known}") from error


def row_text(row: Hashable) -> str:
    """A row's or image's id as text that tells 1 from "1"."""
    if isinstance(row, np.generic):
        row = row.item()
    return row if isinstance(row, str) and not _looks_plain(row) else json.dumps(row, default=str, ensure_ascii=False)


def _looks_plain(text: str) -> bool:
    """Whether a text would be read back as another value."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _of_k(result: KStability) -> Record:
    found, attributions = result.attributions.provenance, result.attributions
    hashes = found.get("hashes", {})
    halves = result.half_k
    rows = []
    for i, row in enumerate(result.instances):
        measured = bool(result.measured[i])
        target = attributions.targets[i] if attributions.targets else None
        counts = () if halves is None or not measured else tuple(np.bincount(halves[:, i])[1:].tolist())
        rows.append(
            RowRecord(
                id=row_text(row),
                hash=hashes["rows"][i] if "rows" in hashes else "",
                target="" if target is None else str(target),
                k=int(result.k[i]),
                halves=counts,
                leading=tuple(result.features[j] for j in result.ranking[i, :LEADING]) if measured else (),
                reason=attributions.failures.get(row, ""),
            )
        )
    return Record(
        metric=K,
        runs=result.runs,
        seed=int(found.get("seed", 0)),
        settings=_plain(asdict(result.settings)),
        explainer=_explainer(found),
        model=str(found.get("model", "")),
        model_hash=hashes.get("model"),
        columns_hash=hashes.get("columns"),
        versions=dict(found.get("versions", {})),
        rows=tuple(sorted(rows, key=lambda row: row.id)),
        features=result.features,
        population=result.of_population,
        source=dict(found.get("source", {})),
    )


def _of_fass(result: Fass) -> Record:
    found = result.provenance
    hashes = found.get("hashes", {})
    images = dict(zip(result.images, hashes.get("images", ()), strict=False))
    pairs = [
        PairRecord(row_text(p.image), images.get(p.image, ""), p.perturbation, p.draw, p.status, _rounded(p.fass))
        for p in result.pairs
    ]
    options = {name: found[name] for name in ("protocol", "invariance", "weights", "reduction", "top", "redraw")}
    method = found["methods"][result.method]
    return Record(
        metric=FASS,
        runs=1,
        seed=int(found["seed"]),
        settings=_plain({**options, "perturbations": sorted(found["perturbations"]), "shape": found["shape"]}),
        explainer={**_explainer(method), "explainer": result.method, "target": _plain(found["options"].get("target"))},
        model=str(found["model"]),
        model_hash=hashes.get("model"),
        columns_hash=None,
        versions=dict(found.get("versions", {})),
        pairs=tuple(sorted(pairs, key=lambda p: (p.image, p.perturbation, p.draw))),
        population=True,
        source=dict(found.get("source", {})),
    )


def _explainer(found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        n: _plain(found[n])
        for n in ("explainer", "settings", "package", "background", "groups", "target")
        if n in found
    }


def _rounded(score: float | None) -> float | None:
    return None if score is None else round(score, DIGITS)


def _plain(value: Any) -> Any:
    """JSON values, as they would be read back; NaN and the infinities, which JSON lacks, as text."""
    text = json.dumps(value, default=lambda item: item.tolist() if hasattr(item, "tolist") else str(item))
    return json.loads(text, parse_constant=str)
