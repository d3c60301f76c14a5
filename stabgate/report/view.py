"""What the HTML page says of a session, as plain values: the words of the overview, and the data behind each gate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stabgate.report.details import LISTS
from stabgate.report.fass import score
from stabgate.report.plain import plain
from stabgate.report.session import GateReport, SessionReport, ordered
from stabgate.report.text import ORDER, number, runs, share
from stabgate.verdict.kstability import needed_rows
from stabgate.verdict.numbers import beside, exact, interval_beside, required_percent
from stabgate.verdict.verdicts import FassRequirement, KRequirement, Outcome, RegressionRequirement, Verdict

CHANGES = 100  # rows or pairs of a comparison that are listed
LONGEST = 1000  # characters of a name or a requirement
MESSAGE = 6000  # characters of a message
SYMBOLS = {Outcome.PASS: "✓", Outcome.FAIL: "✕", Outcome.INCONCLUSIVE: "≈", Outcome.NOT_MEASURED: "○"}
Named = list[tuple[str, str]]


@dataclass(frozen=True)
class Bar:
    """Where things stand on a scale, in percent of its length: interval, estimate, and what ends are held against."""

    low: float
    high: float
    at: float
    need: float


@dataclass(frozen=True)
class GateView:
    """One gate: a line of the overview, and `data` for what opens below it."""

    name: str
    outcome: str
    symbol: str
    order: int
    kind: str
    asked: str
    measured: str
    interval: str
    bar: Bar | None
    value: float
    explainer: str
    baseline: str
    test: str
    place: str
    message: str
    waived: str
    seconds: float | None
    data: dict[str, Any]

    @property
    def problem(self) -> bool:
        """It did not pass."""
        return self.outcome != Outcome.PASS


def views_of(session: SessionReport) -> list[GateView]:
    """All gates, problems first."""
    return [_view(gate) for gate in ordered(session.gates)]


def counts_of(session: SessionReport) -> list[tuple[str, str, int]]:
    """Each outcome with its symbol and the number of its gates, problems first."""
    found = Counter(gate.outcome for gate in session.gates)
    return [(str(outcome), SYMBOLS[outcome], found[outcome]) for outcome in sorted(ORDER, key=ORDER.__getitem__)]


def facts_of(session: SessionReport) -> Named:
    """Provenance of the whole run."""
    settings = ", ".join(f"{name}={value}" for name, value in session.settings.items())
    found = {
        "created": session.created.replace("T", " ").replace("+00:00", " UTC"),
        "settings": settings,
        "baselines": session.baselines,
        **session.environment,
    }
    return [(name, text(value)) for name, value in found.items() if value]


def totals_of(session: SessionReport) -> Named:
    """What the whole run cost."""
    costs = [gate.verdict.cost for gate in session.gates if gate.verdict is not None]
    rows, seconds = sum(cost.rows for cost in costs), sum(cost.seconds for cost in costs)
    return [("model rows", f"{rows:,}"), ("measuring", f"{seconds:,.1f} s")]


def _view(gate: GateReport) -> GateView:
    verdict = gate.verdict
    place = "" if gate.place is None else f"{gate.place[0]}:{gate.place[1]}"
    record = gate.record or {}
    explainer = verdict.fact("explainer") if verdict is not None else record.get("explainer", {}).get("explainer")
    return GateView(
        name=text(gate.name),
        outcome=str(gate.outcome),
        symbol=SYMBOLS[gate.outcome],
        order=ORDER[gate.outcome],
        kind=gate.kind,
        asked=text(gate.asked),
        measured="nothing" if verdict is None or verdict.estimate is None else measured(verdict),
        interval="" if verdict is None else interval(verdict),
        bar=None if verdict is None else _bar(verdict),
        value=-1.0 if verdict is None or verdict.estimate is None else verdict.estimate,
        explainer=text(explainer or ""),
        baseline=text(gate.baseline),
        test=text(gate.test),
        place=text(place),
        message=_message(gate.message),
        waived=text(gate.waived),
        seconds=None if verdict is None else verdict.cost.seconds,
        data=_data(gate),
    )


def measured(verdict: Verdict) -> str:
    """The estimate in words, on its own side of what is required."""
    requirement, estimate = verdict.requirement, verdict.estimate
    if estimate is None:
        return "nothing"
    if isinstance(requirement, KRequirement):
        return f"{share(verdict)} ({verdict.met} of {verdict.n} rows)"
    if isinstance(requirement, FassRequirement):
        return f"FASS {beside(estimate, requirement.score)}"
    before, now = verdict.fact("before"), verdict.fact("now")
    drop = beside(abs(estimate), requirement.max_drop, strict=True)
    moved = "unchanged" if estimate == 0 else f"{'fell' if estimate > 0 else 'rose'} by {drop}"
    return moved if before is None or now is None else f"{moved} ({before:.4g} → {now:.4g})"


def interval(verdict: Verdict) -> str:
    """The 95 % interval in words; empty where there is none."""
    requirement, found = verdict.requirement, verdict.interval
    if found is None:
        return ""
    if isinstance(requirement, KRequirement):
        return interval_beside(found, verdict.fact("decided_at") or requirement.share, as_percent=True)
    if isinstance(requirement, FassRequirement):
        return interval_beside(found, requirement.score)
    return interval_beside(found, requirement.max_drop)


def _bar(verdict: Verdict) -> Bar | None:
    requirement, estimate = verdict.requirement, verdict.estimate
    if estimate is None:
        return None
    low, high = verdict.interval or (estimate, estimate)
    need = {KRequirement: "share", FassRequirement: "score", RegressionRequirement: "max_drop"}[type(requirement)]
    least = float(verdict.fact("decided_at") or getattr(requirement, need))
    start, end = 0.0, 1.0
    if isinstance(requirement, RegressionRequirement):
        start, end = min(low, 0.0), max(high, 2 * least, 1e-9)

    def percent(value: float) -> float:
        return round(100 * min(max((value - start) / (end - start), 0.0), 1.0), 2)

    return Bar(percent(low), percent(high), percent(estimate), percent(least))


def _data(gate: GateReport) -> dict[str, Any]:
    """What the page's script shows of a gate: the details, and what follows from verdict and records."""
    verdict = gate.verdict
    data: dict[str, Any] = {
        "kind": gate.kind,
        "metric": (gate.record or {}).get("metric", gate.kind),
        "numbers": _numbers(gate),
        "reasons": [text(reason) for reason in verdict.reasons] if verdict is not None else [],
        "notes": [text(note) for note in verdict.notes] if verdict is not None else [],
        "cost": _cost(verdict),
        "provenance": _provenance(gate),
        **_texts(gate.details or {}),
        **_required(verdict),
        **_changes(gate),
    }
    return {name: data[name] for name in (*(n for n in data if n not in LISTS), *(n for n in LISTS if n in data))}


def _required(verdict: Verdict | None) -> dict[str, Any]:
    requirement = None if verdict is None else verdict.requirement
    if isinstance(requirement, KRequirement):
        return {"required": {"k": requirement.k, "require": requirement.require, "share": requirement.share}}
    if isinstance(requirement, FassRequirement):
        return {"required": {"score": requirement.score, "retention": requirement.min_retention}}
    if isinstance(requirement, RegressionRequirement):
        return {"required": {"metric": requirement.metric, "max_drop": requirement.max_drop}}
    return {}


def _numbers(gate: GateReport) -> Named:
    verdict = gate.verdict
    if verdict is None:
        return [("required", text(gate.asked)), ("measured", "nothing")]
    requirement = verdict.requirement
    found: dict[str, str] = {"required": text(requirement), "measured": measured(verdict)}
    found["95 % interval"] = interval(verdict)
    if isinstance(requirement, KRequirement):
        line = verdict.fact("decided_at")
        if line is not None and line != requirement.share:
            needed = needed_rows(requirement.share, verdict.n)
            found["decided at"] = f"{required_percent(round(line, 9))}, half a row below the {needed} that are needed"
        ends = verdict.fact("mean_k_interval")
        found |= {
            "median k": number(verdict.fact("median_k")),
            "mean k": _short(verdict.fact("mean_k")) + (f" ({ends[0]:.3g} to {ends[1]:.3g})" if ends else ""),
            "RAND's k": number(verdict.fact("rand_k")),
            "distance at least": exact(requirement.threshold),
            "rule": requirement.rule,
            "runs": runs(verdict),
        }
    elif isinstance(requirement, FassRequirement):
        above = verdict.fact("above_floor")
        found |= {
            "floor": score(verdict.fact("floor")),
            "re-seed": score(verdict.fact("reseed")),
            "above the floor": "-" if above is None else beside(above, requirement.above_floor or 0.0),
            "retained pairs": f"{verdict.measured} of {verdict.n}",
            "protocol": requirement.protocol,
        }
    else:
        p = verdict.fact("p")
        found |= {
            "before": _short(verdict.fact("before")),
            "now": _short(verdict.fact("now")),
            "p (it fell)": "-" if p is None else f"{p:.2g}",
            "significant at": exact(requirement.level),
            "compared": f"{verdict.measured} of {verdict.n} {verdict.fact('unit')}s",
            "runs": runs(verdict),
        }
    return [(name, value) for name, value in found.items() if value not in ("", "-")]


def _cost(verdict: Verdict | None) -> Named:
    if verdict is None:
        return []
    cost = verdict.cost
    found = {
        "model rows evaluated": f"{cost.rows:,}",
        "model rows asked for": f"{cost.rows_asked:,}",
        "calls of the model": f"{cost.calls:,}" if cost.calls else "",
        "backward passes": f"{verdict.fact('backward'):,}" if verdict.fact("backward") else "",
        "seconds": f"{cost.seconds:,.1f}",
        "seconds inside the model": f"{cost.model_seconds:,.1f}" if cost.model_seconds else "",
    }
    return [(name, value) for name, value in found.items() if value]


def _provenance(gate: GateReport) -> Named:
    record = dict(gate.record or {})
    model = " ".join(part for part in (text(record.get("model")), text(record.get("model_hash"))) if part)
    found: dict[str, Any] = {"test": gate.test, "place": "" if gate.place is None else ":".join(map(str, gate.place))}
    found |= {"model": model, **record.get("explainer", {}), "seed": record.get("seed"), "runs": record.get("runs")}
    found |= record.get("settings", {})
    found |= {f"version of {name}": value for name, value in record.get("versions", {}).items()}
    found["columns"] = record.get("columns_hash")
    before = gate.before or {}
    if before:
        found["baseline"] = gate.baseline
        found["baseline's model"] = before.get("model_hash") or before.get("model")
    return [(str(name), text(value)) for name, value in found.items() if value not in (None, "", (), [], {})]


def _changes(gate: GateReport) -> dict[str, Any]:
    """Baseline against now: what each row or pair did, those that fell furthest first."""
    now, before = gate.record or {}, gate.before or {}
    if not before or now.get("metric") != before.get("metric"):
        return {}
    if "rows" in before:
        old, new = ({row["id"]: row["k"] for row in side.get("rows", ())} for side in (before, now))
        kept = {name: value for name, value in old.items() if value}
        found = {name: (kept[name], value) for name, value in new.items() if value and name in kept}
        counts = Counter(row["k"] for row in before["rows"] if row["k"])
        extra: dict[str, Any] = {"before_k": {str(k): count for k, count in sorted(counts.items())}}
    else:
        old, new = (
            {f"{p['image']}, {p['perturbation']}" + (f" ({p['draw']})" if p["draw"] else ""): p["score"] for p in side}
            for side in (before.get("pairs", ()), now.get("pairs", ()))
        )
        found = {
            name: (old[name], value) for name, value in new.items() if value is not None and old.get(name) is not None
        }
        extra = {}
    fell = sum(b < a for a, b in found.values())
    rose = sum(b > a for a, b in found.values())
    changed = sorted((item for item in found.items() if item[1][0] != item[1][1]), key=lambda i: i[1][1] - i[1][0])
    return {
        **extra,
        "compared": {"fell": fell, "rose": rose, "same": len(found) - fell - rose, "other": len(new) - len(found)},
        "changes": [[text(name), _rounded(a), _rounded(b)] for name, (a, b) in changed[:CHANGES]],
    }


@dataclass(frozen=True)
class Comparison:
    """Methods that explained the same rows alike: share of rows with k of the row at least k of the column."""

    names: list[str]
    shares: list[list[float]]
    rows: int
    scope: str


def comparisons_of(session: SessionReport) -> list[Comparison]:
    """One for each set of k gates whose k are comparable: one model, target, rows, features, runs and settings ([K]
    Definition 2).
    """
    import json

    groups: dict[str, dict[str, tuple[str, Mapping[str, Any]]]] = {}
    for gate in session.gates:
        record = gate.record
        if record is None or record.get("metric") != "k-stability":
            continue
        rows = [(row["id"], row["hash"]) for row in record["rows"]]
        targets = [record["explainer"].get("target"), [row["target"] for row in record["rows"]]]
        scope = [record["model"], record["model_hash"], rows, record["features"], record["runs"], record["settings"]]
        scope.append(targets)
        method = json.dumps([record["explainer"], record["seed"]])
        groups.setdefault(json.dumps(scope), {}).setdefault(method, (gate.name, record))
    return [found for group in groups.values() if (found := _compare(list(group.values()))) is not None]


def _compare(group: Sequence[tuple[str, Mapping[str, Any]]]) -> Comparison | None:
    from stabgate import separability as sep

    if len(group) < 2:
        return None
    ks = [[row["k"] for row in record["rows"]] for _, record in group]
    both = [one for one in zip(*ks, strict=True) if all(one)]
    if not both:
        return None
    first = group[0][1]
    names = [f"{name} [{record['explainer'].get('explainer', '')}]" for name, record in group]
    scope = f"{text(first['model']) or 'one model'}, {first['runs']} runs, distance at least "
    scope += exact(first["settings"]["threshold"])
    table = sep.compare_k([list(column) for column in zip(*both, strict=True)])
    return Comparison([text(name) for name in names], table.tolist(), len(both), scope)


def as_dict(view: GateView) -> dict[str, Any]:
    """For the template."""
    return {**asdict(view), "problem": view.problem}


def text(value: Any, longest: int = LONGEST) -> str:
    """A value as one line of text of bounded length, with what cannot be seen written as an escape."""
    found = plain("" if value is None else value if isinstance(value, str) else _plain(value))
    return found if len(found) <= longest else found[: longest - 1] + "…"


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_plain(part)}" for name, part in value.items())
    return ", ".join(map(_plain, value)) if isinstance(value, (list, tuple)) else str(value)


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _rounded(value: float) -> float:
    return value if isinstance(value, int) else float(f"{value:.4g}")


def _message(message: str) -> str:
    lines = "\n".join(plain(line) for line in message.splitlines())
    return lines if len(lines) <= MESSAGE else lines[: MESSAGE - 1] + "…"


def _texts(value: Any) -> Any:
    """`value` with every text in it as `plain` writes it."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return {name: _texts(part) for name, part in value.items()}
    return [_texts(part) for part in value] if isinstance(value, (list, tuple)) else value
