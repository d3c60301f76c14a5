"""The end of a session, in the controller: gates are gathered, baselines written, the table and the document made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_stabgate.completeness import Completeness
from pytest_stabgate.keeping import Keeping, from_here, shared
from pytest_stabgate.page import html_file
from pytest_stabgate.tracking import Tracking

if TYPE_CHECKING:
    from pathlib import Path

    from stabgate.report.session import GateReport, SessionReport

REPORTS = "stabgate_gates"  # attribute of a test report: its gates, as JSON texts, which survive the way from a worker
CALIBRATIONS = "stabgate_calibrations"  # as REPORTS: lines of text on each gate that was calibrated


class Summary:
    """Gathers what gates report; under xdist in the controller only.

    Attributes:
        report: of the session, once it is finished and had gates or was to write a document.
    """

    def __init__(self, config: pytest.Config, keeping: Keeping, completeness: Completeness, tracking: Tracking) -> None:
        self._config = config
        self._tracking = tracking
        self._keeping = keeping
        self._completeness = completeness
        self._gates: dict[str, list[str]] = {}  # by test, JSON texts; of a test that is run again the last counts
        self._calibrations: dict[str, list[list[str]]] = {}
        self._lines: list[str] = []  # what became of baselines and waivers
        self._problems: list[str] = []  # what fails the session though every test passed
        self.report: SessionReport | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "setup":
            self._gates.pop(report.nodeid, None)
        found = getattr(report, REPORTS, None)
        if found:
            self._gates[report.nodeid] = found
        if getattr(report, CALIBRATIONS, None):
            self._calibrations[report.nodeid] = getattr(report, CALIBRATIONS)

    def finish(self, session: pytest.Session, settings: dict[str, Any]) -> None:
        """Write what is to be written; a problem makes the exit code one of failure."""
        document = self._config.getoption("stabgate_json")
        page = html_file(self._config)
        if not self._gates and not document and not page and not self._keeping.update:
            return
        from datetime import UTC, datetime

        from stabgate.baselines.folder import portable
        from stabgate.baselines.store import Baselines
        from stabgate.errors import StabgateError
        from stabgate.report.evidence import with_details
        from stabgate.report.session import GateReport, SessionReport, environment, ordered

        gates = [GateReport.from_json(json.loads(text)) for found in self._gates.values() for text in found]
        missing, unfinished = self._completeness.missing(gates), self._completeness.unfinished(gates)
        gates = with_details(self._write(gates))
        self._waivers(gates, complete=not missing)
        self.report = SessionReport(
            gates=ordered(gates),
            complete=not missing,
            incomplete_because="; ".join(missing),
            unfinished="; ".join(unfinished),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            settings=settings,
            environment=environment(),
            baselines=portable(self._keeping.folder, self._config.rootpath),
            stored=tuple(Baselines(self._keeping.folder).names()),
        )
        if document:
            try:
                self.report.save(self._config.invocation_params.dir / document)
            except (StabgateError, TypeError, ValueError) as error:
                self._problems.append(f"--stabgate-json={document}: {error}")
        if page:
            self._page(page)
        logged = self._tracking.log(self.report, self._config)
        if logged is not None:
            (self._lines if logged.sent or self._tracking.mode == "log" else self._problems).append(logged.message)
        if self._problems and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _page(self, file: Path) -> None:
        from stabgate.report.html import write_html

        assert self.report is not None
        shown = from_here(file, self._config.invocation_params.dir)
        try:
            write_html(self.report, file)
        except Exception as error:  # the verdicts must be seen even where their page fails
            self._problems.append(f"--stabgate-html={shown}: {error or type(error).__name__}")
        else:
            self._lines.append(f"report: {shown}")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._calibrations:
            terminalreporter.section("stabgate calibrate")
            for found in self._calibrations.values():
                for line in (line for gate in found for line in gate):
                    terminalreporter.write_line(line)
        report = self.report
        if report is None or not (report.gates or self._lines or self._problems):
            return
        from stabgate.report.terminal import paint, terminal

        terminalreporter.section("stabgate")
        if report.gates:
            verbosity = self._config.get_verbosity()
            for pieces in terminal(report.gates, width=_width(terminalreporter), verbosity=verbosity):
                terminalreporter.write_line(paint(pieces, colour=terminalreporter.hasmarkup))
        for text in self._lines:
            terminalreporter.write_line(text)
        for text in self._problems:
            terminalreporter.write_line(f"ERROR: {text}", red=True, bold=True)
        if report.gates:
            from stabgate.report.github import tell_github

            tell_github(report, terminalreporter.write_line)

    def _write(self, gates: Sequence[GateReport]) -> list[GateReport]:
        """Make measurements baselines; the gates, as what they say of it turned out."""
        clashing = self._clashing(gates)
        self._problems += _shared_names(gates)
        found, written, same = [], 0, 0
        for gate in gates:
            if not gate.adopts:
                found.append(gate)
                self._improved(gate)
                continue
            outcome = self._adopt(gate, clashing)
            written += outcome == gate.adopts
            same += outcome == "unchanged"
            found.append(gate if outcome else replace(gate, adopts=""))
        if self._keeping.update and not written:
            why = f"{same} as before" if same else "no gate with a baseline to write measured one"
            self._lines.append(f"baselines: none written ({why})")
        return found

    def _clashing(self, gates: Sequence[GateReport]) -> set[str]:
        """Baselines that several gates use: each is a problem, and nothing is written for it."""
        from itertools import combinations

        from stabgate.baselines.names import clash, is_address, same_name

        uses: dict[str, list[tuple[str, str]]] = {}
        for gate in gates:
            if gate.baseline and not is_address(gate.baseline):
                uses.setdefault(same_name(gate.baseline), []).append((gate.baseline, gate.test))
        clashing = {name for name, found in uses.items() if len(found) > 1}
        self._problems += [shared(uses[name]) for name in sorted(clashing)]
        for one, other in combinations(sorted(uses), 2):
            if clash(uses[one][0][0], uses[other][0][0]):  # in the case of a folder
                self._problems.append(shared([uses[one][0], uses[other][0]]))
                clashing |= {one, other}
        return clashing

    def _adopt(self, gate: GateReport, clashing: set[str]) -> str:
        """ "new" or "update" where a gate's measurement was written, "unchanged" where it was there, or ""."""
        from stabgate.baselines.names import same_name
        from stabgate.baselines.store import Baselines
        from stabgate.errors import StabgateError
        from stabgate.measure.record import Record

        name = gate.baseline
        where = f"{self._keeping.shown}/{name}.json"
        problem = ""
        if same_name(name) in clashing:
            problem = "several gates use it"
        elif not self._completeness.passed(gate.test):
            problem = f"{gate.test} did not pass"
        if problem:
            self._lines.append(f"baseline {name}: not written, {problem}")
            return ""
        flag = {"all": "--stabgate-update", "new": "--stabgate-update-new"}.get(self._keeping.update, "missing=record")
        why = self._keeping.reason or f"{flag}, no reason given"
        try:
            record = Record.from_json(gate.record or {})
            changed = Baselines(self._keeping.folder).write(name, record, why, evidence=gate.evidence)
        except StabgateError as error:
            self._problems.append(f"baseline {name}: {error}")
            return ""
        if not changed:
            self._lines.append(f"baseline {name}: unchanged, {where}")
            return "unchanged"
        what = "new" if gate.adopts == "new" else "updated"
        self._lines.append(f"baseline {name}: {what}, {where} ({_value(gate)}; {why})")
        return gate.adopts

    def _improved(self, gate: GateReport) -> None:
        from stabgate.baselines.names import is_address
        from stabgate.verdict.regression import adopting

        verdict = gate.verdict
        if gate.kind == "regression" and gate.baseline and verdict is not None and verdict.fact("improved"):
            how = (
                adopting(gate.baseline)
                if is_address(gate.baseline)
                else 'accept it with --stabgate-update --stabgate-reason="..."'
            )
            metric = verdict.metric.removeprefix("drop of ")
            self._lines.append(f"baseline {gate.baseline}: {metric} is better now, {_value(gate)}; {how}")

    def _waivers(self, gates: Sequence[GateReport], *, complete: bool) -> None:
        for name, waiver in sorted(self._keeping.waivers.items()):
            named = [gate for gate in gates if gate.name == name]
            if named and all(gate.verdict is not None and gate.verdict.passed for gate in named):
                self._lines.append(f"waiver of {name} ({waiver}) is no longer needed: the gate passes; {REMOVE}")
            elif not named and complete:
                self._lines.append(f"waiver of {name} ({waiver}) is of no gate that there is; {REMOVE}")


def _shared_names(gates: Sequence[GateReport]) -> list[str]:
    """What is wrong with names that several gates of a kind were given: waivers and tags go by the name."""
    from stabgate.baselines.names import is_address

    tests: dict[tuple[str, str], list[str]] = {}
    for gate in gates:
        if gate.named and (gate.kind != "regression" or is_address(gate.baseline)):
            tests.setdefault((gate.kind, gate.name), []).append(gate.test)
    return [
        f"{len(found)} gates of {kind} are called {name!r} ({', '.join(dict.fromkeys(found))}): waivers and tags go by "
        "the name, give each its own name="
        for (kind, name), found in tests.items()
        if len(found) > 1
    ]


REMOVE = "take it out of waivers.json"


def _value(gate: GateReport) -> str:
    """What a regression gate found, in words."""
    verdict = gate.verdict
    before, now = (None, None) if verdict is None else (verdict.fact("before"), verdict.fact("now"))
    if now is None:
        return "nothing to compare with"
    metric = "" if verdict is None else verdict.metric.removeprefix("drop of ")
    if gate.adopts == "new" or before is None:
        return f"{metric} {now:.4g}"
    if gate.before is None:  # the file could not be read
        return f"{metric} {now:.4g}; what was there could not be compared with"
    return f"{metric} {before:.4g} -> {now:.4g}"


def _width(terminalreporter: Any) -> int | None:
    """Columns of the terminal; None where the output goes into a file or a log, which have none."""
    import os
    import shutil

    if not terminalreporter.isatty and not os.environ.get("COLUMNS"):
        return None
    return shutil.get_terminal_size().columns
