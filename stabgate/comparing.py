"""Two documents of measurements, gate by gate: reports of runs, baselines, or folders of baselines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stabgate.errors import InputError
from stabgate.measure.record import Record
from stabgate.report.tables import table
from stabgate.verdict.regression import judge_regression
from stabgate.verdict.verdicts import Outcome, Verdict

HEADINGS = ("gate", "metric", "A", "B", "change", "p", "result")
NUMERIC = frozenset({2, 3, 4, 5})


@dataclass(frozen=True)
class Compared:
    """One gate of two documents.

    Attributes:
        name: of the baseline or the gate.
        verdict: None where it is in one document only, or was measured in neither way that could be compared.
        result: in words.
        why: what differs, where it is not comparable.
        judged: a drop was asked about.
    """

    name: str
    verdict: Verdict | None
    result: str
    why: tuple[str, ...] = ()
    judged: bool = False


def read_records(path: str) -> dict[str, Record]:
    """What was measured, by name: of a report, a baseline or a folder of baselines.

    Raises:
        InputError: it is none of these, or nothing was measured in it.
    """
    file = Path(path)
    if file.is_dir():
        from stabgate.baselines.store import Baselines

        baselines = Baselines(file)
        found = {name: baselines.read(name).record for name in baselines.names()}
        if not found:
            raise InputError(f"{path}: a folder without baselines")
        return found
    try:
        plain = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error})") from error
    if isinstance(plain, Mapping) and "gates" in plain:
        return _of_report(plain, path)
    from stabgate.baselines.store import load

    baseline = load(file)
    return {baseline.name: baseline.record}


def compare_documents(before: str, after: str, *, max_drop: float | None = None) -> list[Compared]:
    """Every gate of either document, in the order of B, then of A.

    Args:
        before, after: paths of A and B.
        max_drop: by how much a value may fall; None: any fall that is significant is called one.

    Raises:
        InputError: a document cannot be read, or the two have no gate in common.
    """
    earlier, later = read_records(before), read_records(after)
    if not set(earlier) & set(later):
        raise InputError(f"{before} and {after} have no gate in common (A: {_some(earlier)}; B: {_some(later)})")
    found = [_one(name, earlier.get(name), later[name], max_drop) for name in later]
    return found + [
        Compared(name, None, "only in A", judged=max_drop is not None) for name in earlier if name not in later
    ]


def lines(compared: Sequence[Compared], before: str, after: str) -> Iterator[str]:
    """What is printed: A and B, the table, and below it what stands in the way of a comparison or changed beside it."""
    yield f"A: {before}"
    yield f"B: {after}"
    yield ""
    yield from table([_row(one) for one in compared], HEADINGS, NUMERIC)
    for one in compared:
        notes = () if one.verdict is None else tuple(n for n in one.verdict.notes if "accept" not in n)
        for text in (*one.why, *notes):
            yield f"  {one.name}: {text}"


def exit_code(compared: Sequence[Compared]) -> int:
    """1: a value fell by more than it may; 3: none did and one could not be compared; 0 otherwise."""
    outcomes = [
        Outcome.NOT_MEASURED if one.verdict is None else one.verdict.outcome
        for one in compared
        if one.result != "only in B"
    ]
    if Outcome.FAIL in outcomes:
        return 1
    return 3 if any(outcome is not Outcome.PASS for outcome in outcomes) else 0


def _one(name: str, before: Record | None, after: Record, max_drop: float | None) -> Compared:
    if before is None:
        return Compared(name, None, "only in B", judged=max_drop is not None)
    if before.metric != after.metric:
        return Compared(name, None, "not comparable", (f"A has {before.metric}, B has {after.metric}",))
    verdict = judge_regression(after, before, max_drop=max_drop or 0.0, name=name, baseline="A")
    return Compared(name, verdict, _result(verdict, max_drop), verdict.reasons[:-1] if verdict.fact("differs") else ())


def _result(verdict: Verdict, max_drop: float | None) -> str:
    drop = verdict.estimate
    if verdict.outcome is Outcome.FAIL:
        return "fell" if max_drop is None else "FAIL: fell by more than allowed"
    if verdict.outcome is not Outcome.PASS or drop is None:
        return "not comparable"
    if verdict.fact("improved"):
        return "improved"
    if drop == 0:
        return "as before"
    if drop > 0 and max_drop is not None and drop <= max_drop:
        return "fell, by no more than allowed"
    return f"{'rose' if drop < 0 else 'fell'}, which may be chance"


def _row(one: Compared) -> tuple[str, ...]:
    verdict = one.verdict
    if verdict is None:
        return (one.name, "-", "-", "-", "-", "-", one.result)
    before, now, p = (verdict.fact(name) for name in ("before", "now", "p"))
    change = "-" if verdict.estimate is None else f"{-verdict.estimate:+.3g}" if verdict.estimate else "0"
    metric = verdict.metric.removeprefix("drop of ")
    return (
        one.name,
        metric,
        _value(before),
        _value(now),
        change,
        "-" if p is None or change == "0" else f"{p:.2g}",
        one.result,
    )


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _of_report(plain: Any, path: str) -> dict[str, Record]:
    from stabgate.report.session import SessionReport

    report = SessionReport.from_json(plain, source=path)
    found: dict[str, Record] = {}
    for gate in report.gates:
        if gate.record is not None:
            found.setdefault(gate.baseline or gate.name, Record.from_json(gate.record))
    if not found:
        raise InputError(f"{path}: no gate of this report has a record of what was measured")
    return found


def _some(names: Mapping[str, Record]) -> str:
    return ", ".join(list(names)[:3]) + (", ..." if len(names) > 3 else "")
