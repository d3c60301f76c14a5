"""What the HTML page shows of one gate beside its verdict: plain, small, most useful first.

`details_of` runs where the gate was measured, with the arrays at hand; the page is drawn from what it returns and from
nothing else. Of a k-stability gate:

    features, of      names of the features that anything below refers to by position; how many there are
    curve             mean, half_width, rand: of each rank to the next
    heat              mean distances in rank order, the leading ranks only
    k                 {k: [rows that meet the requirement, rows that do not]}
    rows              rows to look at: id, k, meets, chance, target, reason, and of the leading features ranking, means,
                      distributions (points of kernels with standard deviation h, atoms of place and mass), distances,
                      confused (pairs of ranks, from 0, that are not told apart);
                      blockers: pairs that keep the row from what is required, as [feature, feature, distance, tied]
    rows_of           how many rows there are

and of a FASS gate:

    parts             one entry per perturbation: attempted, retained, changed, no_signal, errors, components, fass,
                      low, high; the first is all pairs together
    references        floor and re-seed reference, with components and a note
    pairs             pairs to look at: image, perturbation, fass, components, and pictures as PNG data URIs
    scored            [image, perturbation, draw, status, fass, ssim, spearman, jaccard, reason] of pairs, worst first
    pairs_of          how many pairs were attempted

`fit` cuts the lists of rows and pairs of many gates so that together they stay below a number of bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stabgate import separability as sep
from stabgate.measure.record import row_text
from stabgate.report.session import GateReport
from stabgate.report.text import blockers, distance
from stabgate.verdict.verdicts import FassRequirement, KRequirement

if TYPE_CHECKING:
    from stabgate.measure.fass import Fass
    from stabgate.measure.kresult import KStability

RANKS = 30  # of the heat map and of the curve
LEADING = 10  # features of a row whose distributions are kept
ROWS = 200  # rows of a gate whose distributions are kept
POINTS = 100  # values of a distribution that are kept: of more, evenly spaced order statistics
BLOCKERS = 5  # pairs that keep a row from its requirement
PAIRS = 200  # pairs of a FASS gate that are listed
DIGITS = 4  # significant ones
EXACT = 12  # of values that may differ in late digits

LISTS = ("rows", "pairs", "scored", "changes")  # what is cut where there is too much, from its end


def details_of(report: GateReport, result: KStability | Fass) -> dict[str, Any]:
    """What the page shows of a gate, as plain JSON values."""
    from stabgate.measure.kresult import KStability

    if isinstance(result, KStability):
        return _of_k(report, result)
    return _of_fass(report, result)


def fit(
    details: Sequence[Mapping[str, Any] | None], problems: Sequence[bool], limit: int
) -> list[dict[str, Any] | None]:
    """The details of many gates, their lists cut so that they take at most `limit` bytes of JSON together.

    Every gate keeps its most useful parts before any keeps its lesser ones, and `problems`, gates that did not pass,
    keep four times as many as the others. A gate for which there is no room at all becomes None. How many rows and
    pairs there were stays known (`rows_of`, `pairs_of`).
    """
    offers: list[tuple[float, int, int, str, int]] = []
    for g, found in enumerate(details):
        if found is None:
            continue
        size = _size({name: value for name, value in found.items() if name not in LISTS})
        offers.append((0.0 if problems[g] else 0.1, g, size + sum(len(name) + 6 for name in LISTS), "", 0))
        for name in LISTS:
            for i, part in enumerate(found.get(name, ())):
                offers.append(((i + 1) / (4 if problems[g] else 1), g, _size(part) + 2, name, i))
    kept: dict[int, dict[str, int]] = {}
    left = limit
    for _, g, size, name, i in sorted(offers, key=lambda offer: offer[:2]):
        if size > left or (name and (g not in kept or kept[g].get(name, 0) < i)):
            continue
        left -= size
        kept.setdefault(g, {})
        if name:
            kept[g][name] = i + 1
    return [None if found is None or g not in kept else _cut(found, kept[g]) for g, found in enumerate(details)]


def _cut(details: Mapping[str, Any], kept: Mapping[str, int]) -> dict[str, Any]:
    return {name: value[: kept.get(name, 0)] if name in LISTS else value for name, value in details.items()}


def _size(value: Any) -> int:
    return len(json.dumps(value))


def _of_k(report: GateReport, result: KStability) -> dict[str, Any]:
    found: dict[str, Any] = {"rows_of": len(result.k), "of": len(result.features), "threshold": result.threshold}
    requirement = report.verdict.requirement if report.verdict is not None else None
    asked = requirement if isinstance(requirement, KRequirement) else None
    meets = result.meets(asked.k, asked.require) if asked is not None else result.measured
    found["k"] = _counts(result, meets)
    if result.measured.any():
        curve, rand = result.curve(), result.rand_curve()
        found["curve"] = {
            "mean": _numbers(curve.mean[:RANKS]),
            "half_width": _numbers(curve.half_width[:RANKS]),
            "rand": _numbers(rand.mean[:RANKS]),
        }
        found["heat"] = [_numbers(row[:RANKS], 3) for row in result.heatmap()[:RANKS]]
    chosen = _useful_rows(report, result, meets, asked)[:ROWS]
    names: dict[int, int] = {}  # position in the result: position in `features`
    chances = None if asked is None else result.chances(asked.k, asked.require)
    found["rows"] = [_row(result, i, asked, bool(meets[i]), chances, names) for i in chosen]
    found["features"] = [result.features[j] for j in names]
    return found


def _counts(result: KStability, meets: Any) -> dict[str, list[int]]:
    counts: dict[str, list[int]] = {}
    for k, met, measured in zip(result.k.tolist(), meets.tolist(), result.measured.tolist(), strict=True):
        if measured:
            counts.setdefault(str(k), [0, 0])[0 if met else 1] += 1
    return dict(sorted(counts.items(), key=lambda item: int(item[0])))


def _useful_rows(report: GateReport, result: KStability, meets: Any, asked: KRequirement | None) -> list[int]:
    """Rows in the order in which a reader wants them: below the requirement and lowest k, then not measured, then k."""
    before = {row["id"]: row["k"] for row in (report.before or {}).get("rows", ())}

    def order(i: int) -> tuple[Any, ...]:
        if not result.measured[i]:
            return (1, 0, 0.0, i)
        k = int(result.k[i])
        drop = before.get(row_text(result.instances[i]), k) - k
        gap = 0.0
        if asked is not None and not meets[i]:
            stops = blockers(result, i, asked.k, asked.require)
            gap = stops[0][2] if stops else 0.0
        return (0 if not meets[i] else 2, k - max(drop, 0), gap, i)

    return sorted(range(len(result.k)), key=order)


def _row(
    result: KStability, i: int, asked: KRequirement | None, meets: bool, chances: Any, names: dict[int, int]
) -> dict[str, Any]:
    attributions = result.attributions
    row = {"id": row_text(result.instances[i]), "k": int(result.k[i]), "meets": meets}
    if attributions.targets:
        row["target"] = "" if attributions.targets[i] is None else str(attributions.targets[i])
    if not result.measured[i]:
        return {**row, "reason": str(attributions.failures.get(result.instances[i], ""))}
    if chances is not None:
        row["chance"] = round(float(chances[i]), 2)
    order = [int(j) for j in result.ranking[i, :LEADING]]
    shapes = _distributions(result, i, order)
    stops = blockers(result, i, asked.k, asked.require) if asked is not None else result.confusions(i)
    positions = {name: j for j, name in enumerate(result.features)}
    at = {j: names.setdefault(j, len(names)) for j in order}
    for a, b, *_ in stops[:BLOCKERS]:
        at |= {positions[name]: names.setdefault(positions[name], len(names)) for name in (a, b)}
    return {
        **row,
        "ranking": [at[j] for j in order],
        "means": _numbers(result.means[i, order], EXACT),
        "distributions": [_distribution(one) for one in shapes],
        "distances": [[_distance(d, result) for d in result.distances[i, a, order].tolist()] for a in order],
        "confused": [
            [a, b] for a in range(len(order)) for b in range(a) if not result.separated[i, order[a], order[b]]
        ],
        "blockers": [[at[positions[a]], at[positions[b]], _distance(d, result), t] for a, b, d, t in stops[:BLOCKERS]],
    }


def _distance(d: float, result: KStability) -> float:
    """Rounded, but never across the threshold."""
    return float(distance(d, result))


def _distributions(result: KStability, i: int, order: list[int]) -> list[sep.Distribution]:
    settings = result.settings
    found = sep.distributions(
        sep.attribution_values(result.attributions.values[:, i], settings.value),
        bandwidth=settings.bandwidth,
        density=settings.density,
        bias_corrected=settings.bias_corrected,
    )
    return [found[j] for j in order]


def _distribution(one: sep.Distribution) -> dict[str, Any]:
    points = one.points
    if len(points) > POINTS:
        points = points[np.linspace(0, len(points) - 1, POINTS).round().astype(int)]
    digits = DIGITS
    if len(points):  # values near 1e6 that vary by 1e-3 need more digits than others
        digits += int(np.clip(np.log10(max(float(np.abs(points).max()) / one.bandwidth, 1.0)) - 1, 0, 13))
    found: dict[str, Any] = {"points": _numbers(points, digits), "h": _number(one.bandwidth)}
    if one.atoms:
        found["atoms"] = [[_number(place, EXACT), _number(mass)] for place, mass in one.atoms]
    return found


def _of_fass(report: GateReport, result: Fass) -> dict[str, Any]:
    from stabgate.report.pictures import pictures_of

    asked = report.verdict.requirement if report.verdict is not None else None
    floor, reseed = result.references[result.method]
    by_pair = {(pair.image, pair.perturbation, pair.draw): pair for pair in result.pairs}
    scored = sorted(result.pairs, key=lambda pair: (pair.fass is None, pair.fass or 0.0))
    problems = [pair for pair in result.pairs if pair.status in ("error", "no signal")]
    first = problems[: PAIRS // 4]
    listed = first + [pair for pair in scored if not any(pair is one for one in first)]
    return {
        "protocol": result.provenance["protocol"],
        "weights": _numbers(result.provenance["weights"]),
        "required": asked.score if isinstance(asked, FassRequirement) else None,
        "min_retention": asked.min_retention if isinstance(asked, FassRequirement) else None,
        "parts": [_part(part) for part in (result.summary, *result.by_perturbation())],
        "families": [_part(part) for part in result.by_family()],
        "references": {name: _reference(one) for name, one in (("floor", floor), ("re-seed", reseed))},
        "pairs": [
            {
                "image": row_text(one.image),
                "perturbation": one.perturbation,
                "draw": one.draw,
                "target": by_pair[one.image, one.perturbation, one.draw].target,
                **_components(by_pair[one.image, one.perturbation, one.draw]),
                **pictures_of(one),
            }
            for one in _spread(result.examples)
        ],
        "scored": [
            [
                row_text(pair.image),
                pair.perturbation,
                pair.draw,
                pair.status,
                *_components(pair).values(),
                pair.reason,
            ]
            for pair in listed[:PAIRS]
        ],
        "pairs_of": len(result.pairs),
    }


def _spread(examples: Sequence[Any]) -> list[Any]:
    """The worst pair of each perturbation first, then the next of each."""
    seen: dict[str, int] = {}
    ranked = []
    for example in examples:
        seen[example.perturbation] = seen.get(example.perturbation, -1) + 1
        ranked.append((seen[example.perturbation], example))
    return [example for _, example in sorted(ranked, key=lambda item: (item[0], item[1].fass))]


def _part(part: Any) -> dict[str, Any]:
    counts = {name: getattr(part, name) for name in ("attempted", "retained", "changed", "no_signal", "errors")}
    return {"name": part.name, **counts, **_components(part), "low": _number(part.low), "high": _number(part.high)}


def _reference(reference: Any) -> dict[str, Any]:
    return {**_components(reference), "pairs": reference.pairs, "images": reference.images, "note": reference.note}


def _components(scored: Any) -> dict[str, float | None]:
    return {name: _number(getattr(scored, name)) for name in ("fass", "ssim", "spearman", "jaccard")}


def _numbers(values: Any, digits: int = DIGITS) -> list[float | None]:
    return [_number(value, digits) for value in np.asarray(values, dtype=np.float64).tolist()]


def _number(value: float | None, digits: int = DIGITS) -> float | None:
    """A number of a few significant digits; None for what JSON does not know."""
    if value is None or not np.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e6 else short
