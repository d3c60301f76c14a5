"""What of a session and its gates goes to MLflow: parameters, metrics, tags, a data set. Plain values, no MLflow.

No metric is ever NaN or infinite: MLflow's filters would take the one for 0 and the other for the largest number. What
was not measured has no metric; how many were not is a count.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from stabgate.measure.record import K, Record
from stabgate.report.session import GateReport, SessionReport
from stabgate.verdict.verdicts import Outcome

NAME_LENGTH = 250  # MLflow's limits
PARAM_LENGTH = 6000
TAG_LENGTH = 5000
DIGEST_LENGTH = 16  # characters
SESSION, GATE_ID, VERDICT = "stabgate.session", "stabgate.gate_id", "stabgate.verdict"
REGRESSION = "regression"  # the kind of gate that compares
TAG, UNFINISHED = "stabgate.tag", "stabgate.unfinished"
MODEL_NAME, MODEL_VERSION = "stabgate.model.name", "stabgate.model.version"
# What a verdict is called in tags, worst first.
WORDS = {
    Outcome.FAIL: "fail",
    Outcome.NOT_MEASURED: "not-measured",
    Outcome.INCONCLUSIVE: "inconclusive",
    Outcome.PASS: "pass",
}


@dataclass(frozen=True)
class Described:
    """One run to be. `dataset` is empty where nothing was explained; `source` says which model was tested."""

    name: str
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    dataset: Mapping[str, str]
    source: Mapping[str, str]


def described_gate(gate: GateReport, session: SessionReport, *, gate_id: str, session_id: str) -> Described:
    """The child run of one gate."""
    record = gate.record or {}
    source = {name: str(value) for name, value in (record.get("source") or gate.source).items()}
    metrics, unusable = finite(_numbers(gate))
    tags = {
        **_origin(session),
        SESSION: session_id,
        GATE_ID: gate_id,
        VERDICT: WORDS[gate.outcome],
        "stabgate.gate": gate.name,
        TAG: tag_of_gate(gate),
        "stabgate.kind": gate.kind,
        "stabgate.requirement": gate.asked,
        "stabgate.test": gate.test,
        "stabgate.baseline": gate.baseline,
        "stabgate.waived": gate.waived,
        "stabgate.reason": gate.message,
        "mlflow.note.content": f"```\n{gate.message}\n```" if gate.message else "",
        "stabgate.not_finite": ", ".join(unusable),
        **{f"stabgate.model.{name}": value for name, value in source.items()},
    }
    return Described(gate.name, _params(gate), metrics, _tags(tags), _dataset(record), source)


def described_session(session: SessionReport, *, session_id: str) -> Described:
    """The parent run of a session."""
    counts = Counter(WORDS[gate.outcome] for gate in session.gates)
    # A gate and its comparison with a baseline may share one measurement, which has one cost.
    costs = {gate.verdict.cost for gate in session.gates if gate.verdict is not None}
    numbers = {
        "gates": len(session.gates),
        **{word.replace("-", "_"): counts[word] for word in WORDS.values()},
        "model_rows": sum(cost.rows for cost in costs),
        "seconds": sum(cost.seconds for cost in costs),
    }
    tags = {
        **_origin(session),
        SESSION: session_id,
        VERDICT: worst(gate.outcome for gate in session.gates) if not session.unfinished else _unfinished(session),
        UNFINISHED: session.unfinished,
        "stabgate.complete": "yes" if session.complete else f"no: {session.incomplete_because}",
    }
    environment = {n: v for n, v in session.environment.items() if n not in ("commit", "job")}
    params = flat({"setting": session.settings, "environment": environment})
    return Described(f"stabgate {session.created}", params, finite(numbers)[0], _tags(tags), {}, {})


def _unfinished(session: SessionReport) -> str:
    """The word for gates of a run that did not finish: at best that not everything was measured."""
    return worst([*(gate.outcome for gate in session.gates), Outcome.NOT_MEASURED])


def tag_of_gate(gate: GateReport) -> str:
    """What stands for a gate among the tags of a version: a comparison may bear the name of another gate, and gates
    without a name have that of their test, of which there may be one in every file.
    """
    name = gate.name if gate.named or not gate.test else gate.test
    return f"{name}.drop" if gate.kind == REGRESSION else name


def worst(outcomes: Iterable[Outcome]) -> str:
    """The word for gates together: "pass" only if every one of them passed, and there is one."""
    found = set(outcomes)
    return next((word for outcome, word in WORDS.items() if outcome in found), WORDS[Outcome.NOT_MEASURED])


def finite(numbers: Mapping[str, Any]) -> tuple[dict[str, float], list[str]]:
    """Those that are numbers, and the names of those that are NaN or infinite; None is neither."""
    known = {name: float(value) for name, value in numbers.items() if value is not None}
    unusable = sorted(name for name, value in known.items() if not math.isfinite(value))
    return {safe_name(name): value for name, value in known.items() if name not in unusable}, unusable


def flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as parameters: ``explainer.num_samples``; lists as JSON."""
    found: dict[str, str] = {}
    for name, value in nested.items():
        path = f"{prefix}.{name}" if prefix else str(name)
        if isinstance(value, Mapping):
            found |= flat(value, path)
        elif value is not None:
            text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
            if text:  # an empty one is a missing one to MLflow's servers
                found[safe_name(path)] = _cut(text, PARAM_LENGTH)
    return found


def safe_name(name: str) -> str:
    """A name that MLflow takes: other characters become "_", and a hash then tells it from its like."""
    safe = re.sub(r"[^\w.\- /]", "_", name, flags=re.ASCII)
    safe = re.sub(r"/{2,}", "/", safe).strip("/. ")
    odd = any(part in ("", ".", "..") for part in safe.split("/"))
    if safe == name and len(name) <= NAME_LENGTH // 2 and not odd:
        return name
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe.replace('/', '_')[: NAME_LENGTH // 2 - 9]}-{mark}"


def _numbers(gate: GateReport) -> dict[str, Any]:
    verdict = gate.verdict
    if verdict is None:
        return {}
    main = {"k-stability": "share", "FASS": "fass", REGRESSION: "drop"}.get(gate.kind, "estimate")
    facts = dict(verdict.facts)
    low, high = verdict.interval or (None, None)
    k_low, k_high = facts.get("mean_k_interval") or (None, None)
    cost = verdict.cost
    found = {
        main: verdict.estimate,
        f"{main}_low": low,
        f"{main}_high": high,
        "mean_k": facts.get("mean_k"),
        "mean_k_low": k_low,
        "mean_k_high": k_high,
        **{name: facts.get(name) for name in ("median_k", "rand_k", "floor", "reseed", "above_floor", "before", "now")},
        "pairs" if gate.kind == "FASS" else "instances": verdict.n,
        "measured": verdict.measured,
        "not_measured": verdict.n - verdict.measured,
        "met": verdict.met,
        "model_rows": cost.rows,
        "model_rows_asked": cost.rows_asked,
        "model_calls": None if gate.kind == "FASS" else cost.calls,  # passes of a network are counted in images
        "seconds": cost.seconds,
        "model_seconds": cost.model_seconds,
        **_compared(gate),
    }
    for i, (name, *parts) in enumerate(facts.get("parts") or ()):
        names = ("ssim", "spearman", "jaccard", "fass", "retention")
        found |= {n if i == 0 else f"{n}.{name}": v for n, v in zip(names, parts, strict=True)}
    return found


def _compared(gate: GateReport) -> dict[str, float | None]:
    """The values of a gate that compares, under the names that they have in gates of their own."""
    if gate.kind != REGRESSION or gate.record is None or gate.verdict is None:
        return {}
    record = Record.from_json(gate.record)
    found = {"mean_k" if record.metric == K else "fass": record.value}
    if gate.verdict.metric.startswith("drop of share"):
        found["share"] = gate.verdict.fact("now")
    return found


def _params(gate: GateReport) -> dict[str, str]:
    record = gate.record or {}
    explainer = dict(record.get("explainer", {}))
    own = {
        "explainer": explainer.pop("explainer", None),
        **{n: record.get(n) for n in ("metric", "model", "model_hash", "runs", "seed")},
        "features": len(record["features"]) if record.get("features") else None,
        "rows": len(record.get("rows", ())) or None,
        "setting": record.get("settings", {}),
        "explainer_setting": explainer.pop("settings", {}),
        "version": {**record.get("versions", {}), **explainer.pop("package", {})},
        **explainer,
    }
    if gate.verdict is not None:
        own["requirement"] = asdict(gate.verdict.requirement)
    return flat(own)


def _dataset(record: Mapping[str, Any]) -> dict[str, str]:
    """The rows or images that were explained; the digest is the same for the same ones, whatever explained them."""
    parts = record.get("rows") or record.get("pairs") or ()
    if not parts:
        return {}
    images = "pairs" in record
    known = sorted({(one["image" if images else "id"], one["hash"]) for one in parts})
    text = json.dumps([known, record.get("columns_hash"), record.get("features", ())])
    profile = {"num_images" if images else "num_rows": len(known)}
    if record.get("features"):
        profile["num_features"] = len(record["features"])
    return {
        "name": "explained-images" if images else "explained-rows",  # MLflow's file store takes no spaces
        "digest": hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH],
        "source": json.dumps({"columns": record.get("columns_hash")}),  # the same for all who explain these
        "profile": json.dumps(profile),
    }


def _origin(session: SessionReport) -> dict[str, str]:
    found = session.environment
    return {
        "mlflow.source.name": "stabgate",
        "mlflow.source.type": "JOB",
        "mlflow.source.git.commit": found.get("commit", ""),
        "mlflow.user": _user(),
        "stabgate.commit": found.get("commit", ""),
        "stabgate.job": found.get("job", ""),
        "stabgate.when": session.created,
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # an id without a name, in containers
        return ""


def _tags(tags: Mapping[str, str]) -> dict[str, str]:
    return {safe_name(name): _cut(str(value), TAG_LENGTH) for name, value in tags.items() if value}


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 4]} ..."
