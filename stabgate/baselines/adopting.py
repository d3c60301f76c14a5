"""What a report of a run does to baselines: what it measured is accepted, what it did not use is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from stabgate.baselines.document import unfit
from stabgate.baselines.names import is_address, same_name
from stabgate.baselines.store import Baselines
from stabgate.errors import InputError
from stabgate.measure.record import Record
from stabgate.report.session import GateReport, SessionReport


@dataclass(frozen=True)
class Pruned:
    """What `prune` did: the files that went, and what was left because it could not be read."""

    deleted: tuple[Path, ...]
    left: tuple[str, ...]


def accept(report: SessionReport, names: Sequence[str], baselines: Baselines, *, reason: str) -> list[tuple[str, str]]:
    """Make what a run measured the baselines of its regression gates: all of them, or those in `names`.

    Either all are written or none is.

    Returns:
        Each baseline's name with "new", "updated" or "unchanged".

    Raises:
        InputError: no reason, a name that no regression gate has, or a gate whose measurement cannot be a baseline.
    """
    if not reason.strip():
        raise InputError("the reason is empty: it stands in the baseline for whoever asks why it changed")
    gates = _by_baseline(report)
    if not gates:
        raise InputError("the report has no gate with a baseline (assert_no_regression with a name): nothing to accept")
    wanted = list(dict.fromkeys(names)) or list(gates)
    for name in wanted:
        if name not in gates:
            raise InputError(_unknown(name, gates, report))
    records = {name: _record(name, gates[name]) for name in wanted}
    problems = [problem for problem in records.values() if isinstance(problem, str)]
    if problems:
        others = "" if len(problems) == len(wanted) else "; name the others to accept them"
        raise InputError(f"nothing was accepted: {'; '.join(problems)}{others}")
    there_before = {name: baselines.may_write(name) for name in records}  # all of them can be written, or none is
    done = []
    for name, record in records.items():
        assert isinstance(record, Record)
        there = there_before[name]
        changed = baselines.write(name, record, reason)
        done.append((name, ("updated" if there else "new") if changed else "unchanged"))
    return done


def prune(report: SessionReport, baselines: Baselines) -> Pruned:
    """Delete the baselines, with their matrices, that were there when a complete run ended and that no gate of it used.

    Raises:
        InputError: the run was not complete, or had no gates, so that nothing follows from what it did not use.
    """
    if not report.complete:
        raise InputError(
            f"nothing was deleted: the report is of a run that was not complete ({report.incomplete_because}); run all "
            "gates: pytest --stabgate-json=REPORT.json"
        )
    if not report.gates:
        raise InputError("nothing was deleted: the report has no gates")
    used = {same_name(gate.baseline) for gate in report.gates}
    deleted: list[Path] = []
    left = []
    for name in baselines.names():
        if same_name(name) in used:
            continue
        if name not in report.stored:
            left.append(f"{baselines.path(name)} was not there when the report was written: it says nothing of it")
            continue
        try:
            baselines.read(name)
        except InputError as error:
            left.append(str(error))
            continue
        deleted += baselines.remove(name)
    return Pruned(tuple(deleted), tuple(left))


def _by_baseline(report: SessionReport) -> dict[str, list[GateReport]]:
    found: dict[str, list[GateReport]] = {}
    for gate in report.gates:
        if gate.kind == "regression" and gate.baseline and not is_address(gate.baseline):
            found.setdefault(gate.baseline, []).append(gate)
    return dict(sorted(found.items()))


def _unknown(name: str, gates: dict[str, list[GateReport]], report: SessionReport) -> str:
    if any(gate.name == name for gate in report.gates):
        return f"{name}: a gate without a baseline; only gates of assert_no_regression have one ({', '.join(gates)})"
    near = get_close_matches(name, gates, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{name}: no gate of the report has a baseline of this name{hint} (there: {', '.join(gates)})"


def _record(name: str, gates: Sequence[GateReport]) -> Record | str:
    """What was measured, or why it cannot be a baseline."""
    if len(gates) > 1:
        return f"{name}: used by {len(gates)} gates ({', '.join(gate.test for gate in gates)})"
    gate = gates[0]
    if gate.record is None:
        return f"{name}: was not measured ({gate.message.splitlines()[0] if gate.message else gate.outcome})"
    record = Record.from_json(gate.record)
    problem = unfit(record)
    return f"{name}: {problem}" if problem else record
