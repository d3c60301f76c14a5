"""The tables that a run ends with: gates of k-stability, of FASS, and against baselines; problems first."""

from __future__ import annotations

from collections.abc import Sequence

from stabgate.report.fass import FASS_HEADINGS, FASS_NUMERIC, fass_rows
from stabgate.report.regression import REGRESSION_HEADINGS, REGRESSION_NUMERIC, regression_row
from stabgate.report.session import GateReport
from stabgate.report.text import HEADINGS, NUMERIC, table, table_row


def summary(gates: Sequence[GateReport]) -> list[str]:
    """Lines of the tables of gates, in their order."""
    ranks = [row for gate in gates if gate.kind == "k-stability" for row in _k_rows(gate)]
    maps = [row for gate in gates if gate.kind == "FASS" for row in _fass_rows(gate)]
    drops = [row for gate in gates if gate.kind == "regression" for row in _regression_rows(gate)]
    lines: list[str] = []
    for rows, headings, numeric in (
        (ranks, HEADINGS, NUMERIC),
        (maps, FASS_HEADINGS, FASS_NUMERIC),
        (drops, REGRESSION_HEADINGS, REGRESSION_NUMERIC),
    ):
        if rows:
            lines += ["", *table(rows, headings, numeric)] if lines else table(rows, headings, numeric)
    return lines


def _k_rows(gate: GateReport) -> list[tuple[str, ...]]:
    return [_unmeasured(gate, HEADINGS) if gate.verdict is None else table_row(gate.verdict)]


def _fass_rows(gate: GateReport) -> list[tuple[str, ...]]:
    return [_unmeasured(gate, FASS_HEADINGS)] if gate.verdict is None else fass_rows(gate.verdict)


def _regression_rows(gate: GateReport) -> list[tuple[str, ...]]:
    return [_unmeasured(gate, REGRESSION_HEADINGS) if gate.verdict is None else regression_row(gate.verdict)]


def _unmeasured(gate: GateReport, headings: Sequence[str]) -> tuple[str, ...]:
    known = {"gate": gate.name, "requirement": gate.asked, "verdict": str(gate.outcome)}
    return tuple(known.get(heading, "-") for heading in headings)
